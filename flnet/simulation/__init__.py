"""A whole mesh in one process: in-memory network, virtual clock, seeded faults."""
