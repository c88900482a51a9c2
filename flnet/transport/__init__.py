"""Bytes to a peer and its reply back."""
