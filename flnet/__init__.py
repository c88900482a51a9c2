"""Peer-to-peer federated learning: equal nodes train one model together, without a server."""

__all__ = ["__version__"]

__version__ = "0.1.0"
