"""Reading request bodies: never more bytes than the route takes, never longer than a slow line needs.

The limit is held twice. Content-Length is compared before a byte is read; and the bytes that arrive are
counted where they arrive, because Quart takes in what comes whether or not a route ever reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from quart import Request, Response, request
from quart.wrappers.request import Body
from werkzeug.exceptions import BadRequest, HTTPException, LengthRequired, RequestTimeout
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from flnet.datasets.dataset_import import Upload
from flnet.errors import BodyTooLarge, UnreadableBody
from flnet.params.blob import Landing
from flnet.text import text

IDLE_SECONDS = 10.0  # without a single byte: the caller stalls
BASE_SECONDS = 30.0  # for any body, however small
SLOWEST_BYTES_PER_SECOND = 16 * 1024  # a body that comes slower than this is cut
MULTIPART = "multipart/form-data"
MOST_PARTS = 1_000_000
EARLY_BYTES = 8 * 1024 * 1024  # of an upload that may come before the route has said where they go
MOST_FIELDS, LONGEST_FIELD = 20, 500  # of a form besides its files: fields, and characters of one
_FIELD_BYTES = 64 * 1024
_PIECE = 16 * 1024  # bytes that the decoder of forms takes at once: it refuses more than a field may have
LINGER_SECONDS = 2.0  # for a refused caller to send the rest (which is dropped) and then read why
Begin = Callable[[bool], Upload]  # told whether data that are there may be replaced
T = TypeVar("T")


class Sink(Protocol):
    """Where the bytes of a body go."""

    def write(self, data: bytes) -> None:
        """Take what arrived; b"" is the end of a body that `arrive_in` hands on."""
        ...


class LimitedBody(Body):
    """The body of a request, which drops everything as soon as it has more than `limit` bytes.

    What arrives is kept until it is read, or lands in one buffer, or is handed on to a sink. A failure of these is
    kept for the one who reads: Quart's own receiver must not end by it.
    """

    def __init__(
        self, announced: int | None, limit: int, landing: Landing | None = None, *, kept: int | None = None
    ) -> None:
        """Args:
        announced: Content-Length, if the caller stated it.
        landing: where a binary body of stated size is written as it arrives; refused by its head.
        kept: bytes that are kept until `arrive_in` says where they go; by default `limit`.
        """
        super().__init__(announced, None)
        self.announced, self.limit, self.landing = announced, limit, landing
        self.received = 0
        self.complete = asyncio.Event()
        self._ended = asyncio.Event()  # complete, or refused already
        self._parts: list[bytes] = []
        self._kept = limit if kept is None else kept
        self._sink: Sink | None = landing
        self._failure: Exception | None = None
        self._clock = asyncio.get_running_loop().time
        self._latest = self._clock()  # when something came
        if announced is not None and announced > limit:
            self._fail(BodyTooLarge(limit, announced))
        elif landing is not None:
            landing.expect(announced or 0)

    def append(self, data: bytes) -> None:
        """Take in what arrived."""
        self.received += len(data)
        self._latest = self._clock()
        if self._failure is None and data:
            if self.received > self.limit:
                self._fail(BodyTooLarge(self.limit))
            elif self._sink is not None:
                self._write(self._sink, data)
            elif self.received > self._kept:
                self._fail(BodyTooLarge(self._kept))
            else:
                self._parts.append(data)

    def set_complete(self) -> None:
        """Nothing more will arrive."""
        self.complete.set()
        self._ended.set()

    async def read(self) -> bytes | memoryview:
        """All of it, which is forgotten here.

        Raises:
            BodyTooLarge: at once if it is announced so, or as soon as the limit is passed.
            PeerError: the node does not want what lands, or it has another size than was stated.
            TimeoutError: no byte for IDLE_SECONDS, or slower in all than SLOWEST_BYTES_PER_SECOND.
        """
        await self._arrive()
        if self.landing is not None:
            landing, self.landing, self._sink = self.landing, None, None
            return landing.whole()
        parts, self._parts = self._parts, []
        return b"".join(parts)

    async def arrive_in(self, sink: Sink) -> None:
        """Hand on all of it, part by part.

        Raises:
            BodyTooLarge: announced as too large, or found so.
            TimeoutError: as for `read`.
            PeerError: what the sink makes of it.
        """
        self._sink = sink
        early, self._parts = self._parts, []
        for part in early:
            if self._failure is None:
                self._write(sink, part)
        await self._arrive()
        sink.write(b"")

    async def _arrive(self) -> None:
        """Wait for the end; what arrives wakes nobody, it only moves the time until which one may wait."""
        expected = self.limit if self.announced is None else self.announced
        until = self._clock() + BASE_SECONDS + expected / SLOWEST_BYTES_PER_SECOND
        while not self._ended.is_set():
            moment = min(self._latest + IDLE_SECONDS, until)
            if moment <= self._clock():
                raise TimeoutError
            with suppress(TimeoutError):
                async with asyncio.timeout_at(moment):
                    await self._ended.wait()
        if self._failure is not None:
            failure, self._failure = self._failure, BodyTooLarge(0)
            try:
                raise failure
            finally:
                del failure  # else the error would hold this call, and the call the error

    def __await__(self) -> Generator[Any, None, Any]:
        """Quart's own way to read all of it, under the same limits."""
        return self.read().__await__()

    async def __anext__(self) -> bytes:
        """Quart's own way to read it in parts: one part, the whole."""
        if whole := await self.read():
            return bytes(whole)
        raise StopAsyncIteration

    def hand_over(self, body: LimitedBody) -> None:
        """Give what has come to the body that takes in the rest."""
        for part in self._parts:
            body.append(part)
        self._parts.clear()
        if self.complete.is_set():
            body.set_complete()

    def clear(self) -> None:
        """Forget what has come; what still comes is dropped."""
        self._parts.clear()
        self.landing = self._sink = None
        self._failure = self._failure or BodyTooLarge(0)

    def _write(self, sink: Sink, data: bytes) -> None:
        try:
            sink.write(data)
        except Exception as exc:
            self._fail(exc)

    def _fail(self, failure: Exception) -> None:
        self.clear()
        self._failure = failure
        self._ended.set()


def limited_request(body_of: Callable[[Request], LimitedBody]) -> type[Request]:
    """A request class whose body is the one that `body_of` makes."""

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
    return bytes(await _in_time(_body().read()))


async def read_landed() -> memoryview:
    """The binary body of the request that is being handled, in the buffer that it landed in.

    Raises:
        LengthRequired: the caller did not state its size.
        PeerError: the node does not want it; raised as soon as its head says so.
        RequestTimeout: it did not come, or came too slowly.
    """
    body = _body()
    if body.announced is None:
        raise LengthRequired(text("state the size of the binary body in Content-Length, and send it unchunked"))
    return memoryview(await _in_time(body.read()))


async def hand_on_body(sink: Sink) -> None:
    """Hand the body of the request that is being handled on to a sink, part by part.

    Raises:
        BodyTooLarge: announced as too large, or found so.
        RequestTimeout: it did not come, or came too slowly.
        PeerError: what the sink makes of it.
    """
    await _in_time(_body().arrive_in(sink))


async def _in_time(reading: Coroutine[Any, Any, T]) -> T:
    try:
        return await reading
    except TimeoutError as exc:
        raise RequestTimeout(
            text(
                "the body did not come: expected a byte at least every {seconds} s and {speed} KiB "
                "per second in all",
                f"{IDLE_SECONDS:g}",
                SLOWEST_BYTES_PER_SECOND // 1024,
            )
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
    body.clear()
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


class Files:
    """Writes a body into an upload: one file, or the files of a form."""

    def __init__(self, begin: Begin, kind: str, options: Mapping[str, str], *, name: str, replace: bool) -> None:
        """Args:
        begin: makes the upload, when the first file comes.
        kind: content type of the body.
        options: of the content type: the boundary of a form.
        name: of the file, where the body is no form.
        replace: whether data that are there may be replaced; a form may say so in a field before its files.
        """
        self._begin, self._name, self._replace = begin, name, replace
        self._decoder: MultipartDecoder | None = None
        self._skips = False
        self._field: str | None = None
        self.fields: dict[str, str] = {}  # the other fields of the form, as far as they have come
        self._held = b""  # of the form, until more comes
        self._longest_end = 0  # bytes of the line that ends the form
        self.upload: Upload | None = None
        if kind == MULTIPART:
            boundary = options.get("boundary", "").encode("latin-1", errors="replace")
            if not boundary:
                raise BadRequest(text("the form states no boundary"))
            self._decoder = MultipartDecoder(boundary, _FIELD_BYTES, max_parts=MOST_PARTS)
            self._longest_end = len(boundary) + len(b"\r\n----")

    def write(self, data: bytes) -> None:
        """Take what arrived.

        Raises:
            UnreadableBody: it is no form. PeerError: it cannot be taken in.
        """
        if self._decoder is None:
            if self.upload is None:
                self._open(self._name)
            if self.upload is not None and data:
                self.upload.write(data)
            return
        try:
            for start in range(0, len(data), _PIECE):
                self._decode(self._decoder, self._whole_lines(data[start : start + _PIECE]))
            if not data:
                self._decode(self._decoder, self._held)
                self._decode(self._decoder, None)
        except (ValueError, HTTPException) as exc:
            raise UnreadableBody(text("the form cannot be read: {reason}", exc)) from exc

    def _decode(self, decoder: MultipartDecoder, data: bytes | None) -> None:
        decoder.receive_data(data)
        while not isinstance(event := decoder.next_event(), NeedData | Epilogue):
            self._take(event)

    def _whole_lines(self, data: bytes) -> bytes:
        """What has come without what may be a part of the form's last line, which waits for the rest of it.

        Werkzeug 3.1.9 takes the first byte of that line for the file's if all but the last byte of it is there
        (its issue 3285).
        """
        data = self._held + data
        at = data.rfind(b"\r", -self._longest_end + 1)
        at = len(data) if at < 0 else at
        self._held = data[at:]
        return data[:at]

    def _take(self, event: object) -> None:
        match event:
            case File(filename=name):
                self._field, self._skips = None, not name  # nothing was chosen
                if name:
                    self._open(name)
            case Field(name=name):
                self._field, self._skips = (name if len(self.fields) < MOST_FIELDS else None), True
            case Data(data=data):
                if self._field is not None:
                    words = self.fields.get(self._field, "") + data.decode(errors="replace")
                    self.fields[self._field] = words[:LONGEST_FIELD]
                    self._replace = self._replace or self.fields.get("replace") == "true"
                elif not self._skips and self.upload is not None:
                    self.upload.write(data)

    def _open(self, name: str) -> None:
        if self.upload is None:
            self.upload = self._begin(self._replace)
        self.upload.begin(name)
