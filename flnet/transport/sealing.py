"""Signing what leaves and checking what comes back, for any transport."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from flnet.blob import Blob
from flnet.errors import TransportError
from flnet.signing.base import EMPTY

OFF_LOOP_BYTES = 256 * 1024  # larger bodies are hashed beside the event loop


class Challenged(TransportError):
    """The peer said whom a request has to be signed for; the same request may succeed now."""

    code = "challenged"


async def sha256_of(body: bytes | memoryview | Blob | None) -> bytes:
    """The SHA-256 of a body, which for no body is that of an empty one."""
    if body is None:
        return EMPTY
    return await asyncio.to_thread(_hashed, body) if len(body) > OFF_LOOP_BYTES else _hashed(body)


def _hashed(body: bytes | memoryview | Blob) -> bytes:
    if not isinstance(body, Blob):
        return sha256(body).digest()
    total = sha256()
    for piece in body.pieces():
        total.update(piece)
    return total.digest()
