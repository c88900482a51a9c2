"""Bytes to Packet and back."""

from flnet.codec.base import Codec
from flnet.codec.json_codec import JsonCodec

__all__ = ["Codec", "JsonCodec"]
