"""Bytes to Packet and back; every version of the wire format is one codec."""

from __future__ import annotations

from typing import Protocol

from flnet.messages import Message, Packet


class Codec(Protocol):
    """One wire format.

    Any bytes decode to a Packet or raise PeerError, never another exception.
    """

    content_type: str

    def encode(self, packet: Packet) -> bytes:
        """The bytes of a message with the parameters beside it."""
        ...

    def decode(self, kind: type[Message], body: bytes) -> Packet:
        """Read a message of this kind.

        Raises:
            UnreadableBody: the bytes are not of this format.
            InvalidMessage: a field breaks its rule.
            ParamsRefused: the parameters are no arrays of numbers.
        """
        ...
