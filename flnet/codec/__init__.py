"""Bytes to Packet and back."""
