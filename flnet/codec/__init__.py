"""Bytes to Packet and back."""

from flnet.codec.base import Codec
from flnet.codec.binary import BINARY_TYPE, HEAD_LIMIT, BinaryCodec, Head, read_head
from flnet.codec.compression import ZSTD, available_codings, compressed, decompress
from flnet.codec.json_codec import JsonCodec
from flnet.codec.lossy import lowered

__all__ = [
    "BINARY_TYPE",
    "HEAD_LIMIT",
    "ZSTD",
    "BinaryCodec",
    "Codec",
    "Head",
    "JsonCodec",
    "available_codings",
    "compressed",
    "decompress",
    "lowered",
    "read_head",
]
