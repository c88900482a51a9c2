"""One node: its runtime, its core, and what performs the effects."""
