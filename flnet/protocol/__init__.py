"""Messages between nodes, the events that the core receives, and the effects that it asks for."""
