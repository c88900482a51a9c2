"""Bytes to messages and back, and how bytes get to a peer: HTTP, and its twin in memory."""
