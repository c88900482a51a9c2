"""What a node remembers."""
