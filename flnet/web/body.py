"""Reading request bodies: never more bytes than the route takes, never longer than a slow line needs.

The limit is held twice. Content-Length is compared before a byte is read; and the bytes that arrive are
counted where they arrive, because Quart takes in what comes whether or not a route ever reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from quart import Request, Response, request
from quart.wrappers.request import Body
from werkzeug.exceptions import RequestTimeout

from flnet.errors import BodyTooLarge

CONTROL_BYTES = 64 * 1024  # for every body that holds no model
IDLE_SECONDS = 10.0  # without a single byte: the caller stalls
BASE_SECONDS = 30.0  # for any body, however small
SLOWEST_BYTES_PER_SECOND = 16 * 1024  # a body that comes slower than this is cut
LINGER_SECONDS = 2.0  # for a refused caller to send the rest (which is dropped) and then read why


class LimitedBody(Body):
    """A body that drops everything as soon as it has more than `limit` bytes."""

    def __init__(self, announced: int | None, limit: int | None) -> None:
        super().__init__(announced, None)
        self.announced = announced
        self.limit = CONTROL_BYTES if limit is None else limit
        self.received = 0
        self.complete = asyncio.Event()
        self._parts: list[bytes] = []
        self._changed = asyncio.Event()

    @property
    def too_large(self) -> bool:
        """Whether more came than the limit; what had come is dropped then."""
        return self.received > self.limit

    def append(self, data: bytes) -> None:
        """Take in what arrived."""
        self.received += len(data)
        if self.too_large:
            self.clear()
        elif data:
            self._parts.append(data)
        self._changed.set()

    def set_complete(self) -> None:
        """Nothing more will arrive."""
        self.complete.set()
        self._changed.set()

    async def read(self) -> bytes:
        """All of it.

        Raises:
            BodyTooLarge: at once if it is announced so, or as soon as the limit is passed.
            TimeoutError: no byte for IDLE_SECONDS, or slower in all than SLOWEST_BYTES_PER_SECOND.
        """
        if self.announced is not None and self.announced > self.limit:
            raise BodyTooLarge(self.limit, self.announced)
        expected = self.limit if self.announced is None else self.announced
        async with asyncio.timeout(BASE_SECONDS + expected / SLOWEST_BYTES_PER_SECOND):
            while not self.complete.is_set() and not self.too_large:
                self._changed.clear()
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._changed.wait()
        if self.too_large:
            raise BodyTooLarge(self.limit)
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def __await__(self) -> Generator[Any, None, Any]:
        """Quart's own way to read all of it, under the same limits."""
        return self.read().__await__()

    async def __anext__(self) -> bytes:
        """Quart's own way to read it in parts: one part, the whole."""
        if whole := await self.read():
            return whole
        raise StopAsyncIteration

    def clear(self) -> None:
        """Forget what has come."""
        self._parts.clear()

    def refuse(self) -> None:
        """Drop what has come and whatever still comes."""
        self.limit = -1
        self.clear()


def limited_request(limit_of: Callable[[str], int]) -> type[Request]:
    """A request class whose body can never hold more bytes than `limit_of(path)`."""

    class LimitedRequest(Request):
        """A request with a body of limited size."""

        body_class: type[Body] = LimitedBody

        def __init__(self, method: str, scheme: str, path: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(method, scheme, path, *args, **{**kwargs, "max_content_length": limit_of(path)})

    return LimitedRequest


async def read_body() -> bytes:
    """The body of the request that is being handled.

    Raises:
        BodyTooLarge: announced as too large (nothing is read then), or found too large while reading.
        RequestTimeout: it did not come, or came too slowly.
    """
    try:
        return await _body().read()
    except TimeoutError as exc:
        raise RequestTimeout(
            f"the body did not come: expected a byte at least every {IDLE_SECONDS:g} s and "
            f"{SLOWEST_BYTES_PER_SECOND // 1024} KiB per second in all"
        ) from exc


async def linger(answer: Response) -> Response:
    """Let a caller that is refused while it still sends read the answer.

    Closing at once would reset the connection, and most clients then report a broken one instead of our
    words. So the rest of the body is dropped for a moment before the answer, complete already, is ended.
    """
    sending = request.content_length or "Transfer-Encoding" in request.headers
    if answer.status_code < 400 or answer.status_code == 408 or not sending or _body().complete.is_set():
        return answer
    body = _body()
    body.refuse()
    words = await answer.get_data(as_text=False)
    answer.response = answer.iterable_body_class(_then_drop(words, body))
    answer.headers["Connection"] = "close"
    return answer


async def _then_drop(words: bytes, body: LimitedBody) -> AsyncIterator[bytes]:
    yield words
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            await body.complete.wait()
    except TimeoutError:
        return


def _body() -> LimitedBody:
    body = request.body
    assert isinstance(body, LimitedBody)
    return body
