"""Reads the bodies of answers part by part, as they come."""

from __future__ import annotations

from collections.abc import Callable

from flnet.transport.lean_import import no_authorities
from flnet.transport.limits import Watch

with no_authorities():
    import aiohttp

MAX_REFUSAL_BYTES = 64 * 1024


async def refusal(response: aiohttp.ClientResponse, watch: Watch) -> bytes:
    """The words of an answer that is an error; no more of them than anybody needs."""
    words = bytearray()

    def take(part: bytes) -> bool:
        words.extend(part)
        return len(words) > MAX_REFUSAL_BYTES

    await receive(response, watch, take)
    return bytes(words)


async def receive(response: aiohttp.ClientResponse, watch: Watch, take: Callable[[bytes], object]) -> None:
    """Hand on the parts of the body as they come, never joined, until `take` says that it has enough."""
    uncounted, step = 0, watch.step()
    while True:
        try:
            part, more = await response.content.readchunk()
        except RuntimeError as exc:  # so the library says that the connection was closed on this side
            raise aiohttp.ClientConnectionError(str(exc)) from exc
        if not part and not more:
            return
        uncounted += len(part)
        if uncounted >= step:
            watch.came(uncounted)
            uncounted, step = 0, watch.step()
        if take(part):
            return
