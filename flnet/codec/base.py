"""Bytes to Packet and back; every version of the wire format is one codec."""

from __future__ import annotations

from typing import Protocol

from flnet.blob import Blob
from flnet.messages import Message, Packet


class Codec(Protocol):
    """One wire format.

    Any bytes decode to a Packet or raise PeerError, never another exception.
    """

    content_type: str

    def encode(self, packet: Packet) -> bytes | Blob:
        """The body of a message with the parameters beside it; a Blob shares the memory of their arrays."""
        ...

    def decode(self, kind: type[Message], body: bytes | memoryview) -> Packet:
        """Read a message of this kind; its arrays may share the memory of the body, which must not change.

        Raises:
            UnreadableBody: the bytes are not of this format.
            InvalidMessage: a field breaks its rule.
            ParamsRefused: the parameters are no arrays of numbers.
        """
        ...
