"""The pages that a node shows in a browser."""
