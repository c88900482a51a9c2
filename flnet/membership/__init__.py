"""Membership: announcements until all nodes know each other, probes, suspicion, refutation."""
