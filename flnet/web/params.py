"""GET /training/model_params/{digest}: parameters for other nodes, whole or from where a transfer broke."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from quart import Blueprint, Response, request
from quart.wrappers.response import ResponseBody
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from flnet.blob import Blob
from flnet.codec.binary import BINARY_TYPE
from flnet.codec.compression import ZSTD
from flnet.errors import UnknownModel
from flnet.messages import ModelParams
from flnet.node.base import Node
from flnet.web.body import BASE_SECONDS, SLOWEST_BYTES_PER_SECOND
from flnet.web.straight import Straight, straight_of

MAX_DOWNLOADS = 8  # at once; who comes later waits for a turn
STALL_SECONDS = 30.0  # for a caller to take one piece
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)


def params_routes(node: Node) -> Blueprint:
    """The endpoint that hands out parameters by their digest."""
    routes = Blueprint("params", __name__)
    turns = asyncio.Semaphore(MAX_DOWNLOADS)

    @routes.get(f"{ModelParams.path}/<digest>")
    async def params(digest: str) -> Response:
        if not _DIGEST.fullmatch(digest):
            raise UnknownModel(f"a digest is 64 hexadecimal digits, not {digest[:80]!r}")
        await _take_turn(turns)
        blob = await node.held(digest, asked_codings())
        answer = blob_answer(blob, f'"{digest}-{blob.coding}"' if blob.coding else f'"{digest}"')
        if request.method == "GET":
            node.gave(digest, answer.content_length or 0)
        return answer

    return routes


def asked_codings() -> tuple[str, ...]:
    """The codings of ours that the request prefers to none (RFC 9110, section 12.5.3)."""
    said = request.accept_encodings
    return (ZSTD,) if said.quality(ZSTD) > said.quality("identity") else ()


def blob_answer(blob: Blob, tag: str) -> Response:
    """The blob, or the part of it that the request asks for, sent from where it lies.

    Args:
        blob: what there is.
        tag: its entity tag, in quotes; another one where it is compressed.

    Raises:
        RequestedRangeNotSatisfiable: nothing of it lies in the range.
    """
    size, part = len(blob), None
    if request.method == "GET" and request.headers.get("If-Range", tag) == tag:
        part = asked_range(request.headers.get("Range", ""), size)
    start, stop = part or (0, size)
    body = BlobBody(blob, start, stop, straight_of(request.scope)) if request.method != "HEAD" else b""
    answer = Response(body, content_type=BINARY_TYPE)
    answer.headers.update({"Accept-Ranges": "bytes", "Content-Length": str(stop - start), "ETag": tag})
    answer.headers["Vary"] = "Accept-Encoding"
    if blob.coding is not None:
        answer.headers["Content-Encoding"] = blob.coding
    if part is not None:
        answer.status_code = 206
        answer.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    answer.timeout = BASE_SECONDS + (stop - start) / SLOWEST_BYTES_PER_SECOND
    return answer


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last, for one range (RFC 9110, section 14.1.2).

    Returns:
        None where all is to be sent: no range, several, or one that cannot be read.

    Raises:
        RequestedRangeNotSatisfiable: nothing of `size` bytes lies in it.
    """
    found = _RANGE.fullmatch(header)
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        start, stop = max(size - int(found[2]), 0), size
    else:
        start, stop = int(found[1]), min(int(found[2]) + 1 if found[2] else size, size)
        if found[2] and int(found[2]) < start:
            return None
    if start >= stop:
        raise RequestedRangeNotSatisfiable(size, description=f"there are {size} bytes, and {header!r} is outside")
    return start, stop


class BlobBody(ResponseBody):
    """A part of a blob as the body of an answer; a caller that takes nothing for STALL_SECONDS is cut.

    Nothing of the blob is held on to afterwards: what the framework makes for an answer goes in circles, and is
    there until the next full collection, which for a model may be hundreds of megabytes later.
    """

    def __init__(self, blob: Blob, start: int, stop: int, straight: Straight | None) -> None:
        self._blob, self._start, self._stop = blob, start, stop
        self._straight = straight
        self._watch: Watch | None = None
        self._moved = 0

    async def __aenter__(self) -> BlobBody:
        sending = asyncio.current_task()
        assert sending is not None
        self._watch = Watch(self._progress, sending.cancel)
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._watch is not None:
            self._watch.end()
        self._blob, self._straight, self._watch = Blob(()), None, None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._straight is not None:
            await self._straight.send(self._blob.pieces(self._start, self._stop))
            return
        for piece in self._blob.pieces(self._start, self._stop):
            yield bytes(piece)  # the one copy before the socket; Hypercorn would make it of anything else
            self._moved += 1

    def _progress(self) -> int:
        return self._moved if self._straight is None else self._straight.sent


class Watch:
    """Cuts what makes no progress for STALL_SECONDS."""

    def __init__(self, progress: Callable[[], int], cut: Callable[[], object]) -> None:
        """Args:
        progress: how far it is.
        cut: ends it.
        """
        self._progress, self._cut = progress, cut
        self._seen = -1
        self._look()

    def end(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        if (moved := self._progress()) == self._seen:
            self._cut()
            return
        self._seen = moved
        self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._look)


async def _take_turn(turns: asyncio.Semaphore) -> None:
    """Wait until few enough others are served; the turn ends with the task that answers, however that ends."""
    await turns.acquire()
    task = asyncio.current_task()
    assert task is not None
    task.add_done_callback(lambda _: turns.release())
