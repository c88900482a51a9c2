"""What nodes say to each other (messages), what the core receives (events), and what it asks for (effects)."""
