"""Bytes to a peer and its reply back."""

from flnet.transport.base import Reply, Transport
from flnet.transport.http import HttpTransport
from flnet.transport.memory import Faults, MemoryNetwork, MemoryTransport

__all__ = ["Faults", "HttpTransport", "MemoryNetwork", "MemoryTransport", "Reply", "Transport"]
