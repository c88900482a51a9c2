"""Who is in the mesh: announcements until everyone knows everyone, probes, suspicion, refutation."""
