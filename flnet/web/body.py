"""Reading request bodies: never more bytes than the route takes, never longer than a slow line needs.

The limit is held twice. Content-Length is compared before a byte is read; and the bytes that arrive are
counted where they arrive, because Quart takes in what comes whether or not a route ever reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

from quart import Request, Response, request
from quart.wrappers.request import Body
from werkzeug.exceptions import LengthRequired, RequestTimeout

from flnet.blob import Inspect, Landing
from flnet.errors import BodyTooLarge

CONTROL_BYTES = 64 * 1024  # for every body that holds no model
IDLE_SECONDS = 10.0  # without a single byte: the caller stalls
BASE_SECONDS = 30.0  # for any body, however small
SLOWEST_BYTES_PER_SECOND = 16 * 1024  # a body that comes slower than this is cut
LINGER_SECONDS = 2.0  # for a refused caller to send the rest (which is dropped) and then read why


Receive = Callable[[], Awaitable[Any]]  # of ASGI


class CallerGone(Exception):
    """The connection ended before the whole body had come."""


class LimitedBody(Body):
    """A body that drops everything as soon as it has more than `limit` bytes."""

    def __init__(self, announced: int | None, limit: int) -> None:
        super().__init__(announced, None)
        self.announced = announced
        self.limit = limit
        self.received = 0
        self.complete = asyncio.Event()
        self._ended = asyncio.Event()  # complete, or refused already
        self._parts: list[bytes] = []
        self._clock = asyncio.get_running_loop().time
        self._latest = self._clock()  # when something came

    @property
    def too_large(self) -> bool:
        """Whether more came than the limit; what had come is dropped then."""
        return self.received > self.limit

    def append(self, data: bytes) -> None:
        """Take in what arrived."""
        self.received += len(data)
        self._latest = self._clock()
        if self.too_large:
            self.clear()
            self._ended.set()
        elif data:
            self._parts.append(data)

    def set_complete(self) -> None:
        """Nothing more will arrive."""
        self.complete.set()
        self._ended.set()

    async def read(self) -> bytes | memoryview:
        """All of it.

        Raises:
            BodyTooLarge: at once if it is announced so, or as soon as the limit is passed.
            TimeoutError: no byte for IDLE_SECONDS, or slower in all than SLOWEST_BYTES_PER_SECOND.
        """
        if self.announced is not None and self.announced > self.limit:
            raise BodyTooLarge(self.limit, self.announced)
        await self._arrive(self.limit if self.announced is None else self.announced)
        if self.too_large:
            raise BodyTooLarge(self.limit)
        parts, self._parts = self._parts, []
        return b"".join(parts)

    async def _arrive(self, expected: int) -> None:
        """Wait for the end; what arrives wakes nobody, it only moves the time until which one may wait."""
        until = self._clock() + BASE_SECONDS + expected / SLOWEST_BYTES_PER_SECOND
        while not self._ended.is_set():
            moment = min(self._latest + IDLE_SECONDS, until)
            if moment <= self._clock():
                raise TimeoutError
            with suppress(TimeoutError):
                async with asyncio.timeout_at(moment):
                    await self._ended.wait()

    async def taken(self, receive: Receive) -> bytes | memoryview:
        """All of it, as the server hands it over: for one who reads without Quart.

        Raises:
            PeerError: as `read`.
            RequestTimeout: it did not come, or came too slowly.
            CallerGone: there is nobody any more who would want an answer.
        """
        begun, expected = self._clock(), self.announced or 0
        if expected <= self.limit:
            until = begun + BASE_SECONDS + expected / SLOWEST_BYTES_PER_SECOND
            try:
                async with asyncio.timeout_at(min(begun + IDLE_SECONDS, until)) as timer:
                    while not self._ended.is_set():
                        await self._take(receive)
                        timer.reschedule(min(self._latest + IDLE_SECONDS, until))
            except TimeoutError as exc:
                raise too_slow() from exc
        return await self.read()

    async def dropped(self, receive: Receive) -> None:
        """Take in what still comes of a refused body, and keep nothing of it."""
        self.refuse()
        with suppress(CallerGone):
            while not self.complete.is_set():
                await self._take(receive)

    async def _take(self, receive: Receive) -> None:
        message = await receive()
        if message["type"] != "http.request":
            raise CallerGone
        self.append(message.get("body", b""))
        if not message.get("more_body", False):
            self.set_complete()

    def __await__(self) -> Generator[Any, None, Any]:
        """Quart's own way to read all of it, under the same limits."""
        return self.read().__await__()

    async def __anext__(self) -> bytes:
        """Quart's own way to read it in parts: one part, the whole."""
        if whole := await self.read():
            return bytes(whole)
        raise StopAsyncIteration

    def clear(self) -> None:
        """Forget what has come."""
        self._parts.clear()

    def refuse(self) -> None:
        """Drop what has come and whatever still comes."""
        self.limit = -1
        self.clear()


class LandedBody(LimitedBody):
    """A binary body of stated size: refused by its head, else written into one buffer where it arrives."""

    def __init__(self, announced: int, limit: int, head_limit: int, inspect: Inspect) -> None:
        super().__init__(announced, limit)
        self._landing: Landing | None = Landing(inspect, limit, head_limit)
        self._failure: Exception | None = None
        self._land(Landing.expect, announced)

    def append(self, data: bytes) -> None:
        """Take in what arrived."""
        self.received += len(data)
        self._latest = self._clock()
        if data:
            self._land(Landing.write, data)

    async def read(self) -> memoryview:
        """All of it, which is forgotten here.

        Raises:
            PeerError: the node does not want it, or it has another size than was stated.
            TimeoutError: no byte for IDLE_SECONDS, or slower in all than SLOWEST_BYTES_PER_SECOND.
        """
        if self._failure is None:
            await self._arrive(self.announced or 0)
        if self._failure is not None:
            raise self._failure
        landing, self._landing = self._landing, None
        return memoryview(b"") if landing is None else landing.whole()

    def clear(self) -> None:
        """Forget what has come; what still comes is dropped."""
        self._landing = None

    def _land(self, step: Callable[[Landing, Any], None], what: int | bytes) -> None:
        """Do it, and keep what it raises for the one who reads: Quart's own receiver must not end by it."""
        if self._landing is None:
            return
        try:
            step(self._landing, what)
        except Exception as exc:
            self._failure = exc
            self._landing = None
            self._ended.set()


def limited_request(body_of: Callable[[Request], LimitedBody]) -> type[Request]:
    """A request class whose body is the one that `body_of` chooses by method, path and headers."""

    class LimitedRequest(Request):
        """A request with a body of limited size."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.body: Body = body_of(self)

    return LimitedRequest


async def read_body() -> bytes:
    """The body of the request that is being handled.

    Raises:
        BodyTooLarge: announced as too large (nothing is read then), or found too large while reading.
        RequestTimeout: it did not come, or came too slowly.
    """
    return bytes(await _in_time(_body()))


async def read_landed() -> memoryview:
    """The binary body of the request that is being handled, in the buffer that it landed in.

    Raises:
        LengthRequired: the caller did not state its size.
        PeerError: the node does not want it; raised as soon as its head says so.
        RequestTimeout: it did not come, or came too slowly.
    """
    body = _body()
    if not isinstance(body, LandedBody):
        raise LengthRequired("state the size of the binary body in Content-Length, and send it unchunked")
    return memoryview(await _in_time(body))


async def _in_time(body: LimitedBody) -> bytes | memoryview:
    try:
        return await body.read()
    except TimeoutError as exc:
        raise too_slow() from exc


def too_slow() -> RequestTimeout:
    """The refusal of a caller whose body does not come."""
    return RequestTimeout(
        f"the body did not come: expected a byte at least every {IDLE_SECONDS:g} s and "
        f"{SLOWEST_BYTES_PER_SECOND // 1024} KiB per second in all"
    )


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
