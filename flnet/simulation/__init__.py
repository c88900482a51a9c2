"""Simulate a whole mesh in one process: an in-memory network, a virtual clock and seeded faults."""
