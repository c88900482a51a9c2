"""Bodies with files of any size: each part goes to disk where it arrives, so that no more is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from quart import request
from werkzeug.exceptions import BadRequest, HTTPException, RequestTimeout
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from flnet.errors import BodyTooLarge, UnreadableBody
from flnet.training.importing import Upload
from flnet.web.body import IDLE_SECONDS, SLOWEST_BYTES_PER_SECOND, LimitedBody

MULTIPART = "multipart/form-data"
MOST_PARTS = 1_000_000
_FIELD_BYTES = 64 * 1024
_PIECE = 16 * 1024  # bytes that the decoder of forms takes at once: it refuses more than a field may have
_EARLY_BYTES = 8 * 1024 * 1024  # that may come before the route has said where they go
Begin = Callable[[bool], Upload]  # told whether data that are there may be replaced


class Sink(Protocol):
    """Where the bytes of a body go."""

    def write(self, data: bytes) -> None:
        """Take what arrived; b"" is the end."""
        ...


class UploadBody(LimitedBody):
    """A body that is handed on part by part as it arrives."""

    def __init__(self, announced: int | None, limit: int) -> None:
        super().__init__(announced, limit)
        self._sink: Sink | None = None
        self._failure: Exception | None = None

    def append(self, data: bytes) -> None:
        """Take in what arrived."""
        self.received += len(data)
        self._latest = self._clock()
        if self.too_large and self._failure is None:
            self._fail(BodyTooLarge(max(self.limit, 0)))
        elif data and self._failure is None:
            if self._sink is not None:
                self._hand_on(data)
            elif self.received > _EARLY_BYTES:
                self._fail(BodyTooLarge(_EARLY_BYTES))
            else:
                self._parts.append(data)

    async def arrive_in(self, sink: Sink) -> None:
        """Hand on all of it.

        Raises:
            BodyTooLarge: announced as too large, or found so.
            RequestTimeout: it did not come, or came too slowly.
            PeerError: what the sink makes of it.
        """
        if self.announced is not None and self.announced > self.limit:
            raise BodyTooLarge(self.limit, self.announced)
        self._sink = sink
        early, self._parts = self._parts, []
        for part in early:
            if self._failure is None:
                self._hand_on(part)
        try:
            if self._failure is None:
                await self._arrive(self.limit if self.announced is None else self.announced)
        except TimeoutError as exc:
            raise RequestTimeout(
                f"the body did not come: expected a byte at least every {IDLE_SECONDS:g} s and "
                f"{SLOWEST_BYTES_PER_SECOND // 1024} KiB per second in all"
            ) from exc
        if self._failure is None:
            self._hand_on(b"")
        if self._failure is not None:
            raise self._failure

    def clear(self) -> None:
        """Forget what has come; what still comes is dropped."""
        super().clear()
        self._sink = None
        self._failure = self._failure or BodyTooLarge(0)

    def _hand_on(self, data: bytes) -> None:
        """What goes wrong is kept for the one who waits: Quart's own receiver must not end by it."""
        assert self._sink is not None
        try:
            self._sink.write(data)
        except Exception as exc:
            self._fail(exc)

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._ended.set()


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
        self._said = b""  # in the field that is being read
        self._held = b""  # of the form, until more comes
        self._longest_end = 0  # bytes of the line that ends the form
        self.upload: Upload | None = None
        if kind == MULTIPART:
            boundary = options.get("boundary", "").encode("latin-1", errors="replace")
            if not boundary:
                raise BadRequest("the form states no boundary")
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
            raise UnreadableBody(f"the form cannot be read: {exc}") from exc

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
                self._field, self._skips, self._said = name, True, b""
            case Data(data=data):
                if self._field == "replace":
                    self._said = (self._said + data)[:10]
                    self._replace = self._replace or self._said == b"true"
                elif not self._skips and self.upload is not None:
                    self.upload.write(data)

    def _open(self, name: str) -> None:
        if self.upload is None:
            self.upload = self._begin(self._replace)
        self.upload.begin(name)


def upload_body() -> UploadBody:
    """The body of the request that is being handled."""
    body = request.body
    assert isinstance(body, UploadBody)
    return body
