"""The endpoints that other nodes call.

A message is given to the node as bytes, and the node's reply is the answer; nothing is decided here. Parameters are
downloaded by their digest, as a whole or from the byte where a transfer was interrupted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

from quart import Request, Response, current_app, request
from quart.wrappers.response import ResponseBody
from werkzeug.exceptions import RequestedRangeNotSatisfiable, UnsupportedMediaType

from flnet.errors import (
    BatchRefused,
    ContributionRefused,
    IdTaken,
    JobBusy,
    NoData,
    NotAccepted,
    NotAnnounced,
    NotComparable,
    NotReady,
    OtherRounds,
    ParamsRefused,
    Pending,
    RoundAhead,
    RoundLost,
    SignatureNeeded,
    SignatureRefused,
    StaleRound,
    UnknownModel,
    UnknownTrainer,
)
from flnet.node.interface import Node
from flnet.params.blob import Blob, Landing
from flnet.protocol.messages import (
    INT8_BLOCKS,
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    AskRound,
    AskVersion,
    Message,
    ModelParams,
    Probe,
    ProbeReply,
    RoundReply,
    StartTraining,
    VersionReply,
)
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import MOST_TOGETHER, SegmentsMessage
from flnet.protocol.vertical import VerticalMessage, VerticalReply
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import caller_ip
from flnet.web.auth.signed_requests import signed_by
from flnet.web.body import (
    BASE_SECONDS,
    SLOWEST_BYTES_PER_SECOND,
    LimitedBody,
    read_body,
    read_landed,
)
from flnet.web.routes import CURL_DEFAULT, JSON, NODES, UNREADABLE, Api, acceptable_type
from flnet.wire.binary_codec import BINARY_TYPE, HEAD_LIMIT, ZSTD
from flnet.wire.transport import FORMS_HEADER, forms_of

UNSIGNED = (SignatureNeeded, SignatureRefused, NotAccepted)  # by a node of a mesh with keys
OF_A_ROUND = (
    *(*UNSIGNED, *UNREADABLE),
    *(ParamsRefused, UnknownTrainer, NoData, StaleRound, RoundAhead, RoundLost, NotReady),
)
api = Api()


async def receive(node: Node, settings: Settings) -> Response:
    """Give the message in the current request to the node, and answer with its reply."""
    content_type, also = request.mimetype, BINARY_TYPE if _takes_binary() else ""
    if also and content_type == also:
        if settings.wire == "json":
            raise UnsupportedMediaType(
                text(
                    "this node takes {expected} only, not {stated}; send the parameters as JSON", JSON, BINARY_TYPE
                )
            )
        body: bytes | memoryview = await read_landed()
    else:
        content_type = acceptable_type(also)
        body = await read_body()
        if content_type == CURL_DEFAULT:
            if body.lstrip()[:1] != b"{":
                raise UnsupportedMediaType(
                    text("the body must be a JSON object ({expected}), but it is form data", JSON)
                )
            content_type = JSON
    signer = await signed_by(body)
    reply = await node.receive(request.path, body, content_type, caller_ip(), signer)
    answer = Response(reply.body, reply.status, content_type=reply.content_type)
    answer.timeout = BASE_SECONDS + len(reply.body) / SLOWEST_BYTES_PER_SECOND
    return answer


def message_body(request: Request, node: Node, settings: Settings) -> LimitedBody:
    """Choose how a body is received: parameters in the binary form go into one buffer, if they are wanted."""
    limit, size = node.body_limit(request.path), request.content_length
    if request.mimetype != BINARY_TYPE or not _takes_binary():
        return LimitedBody(size, limit)
    if size is None or settings.wire == "json":
        return LimitedBody(None, -1)  # refused unread
    wanted = partial(node.inspect, request.path, BINARY_TYPE)
    return LimitedBody(size, limit, Landing(wanted, limit, HEAD_LIMIT, node.memory))


def _takes_binary() -> bool:
    return request.path in BINARY_PATHS


def _declare(kind: type[Message], **details: Any) -> None:
    types = (BINARY_TYPE,) if kind.carries_params else ()
    api.add("POST", kind.path, NODES, receive, accepts=kind, types=types, body=message_body, **details)


_declare(
    Announce,
    what="Announce a node, with the peers that it knows",
    answer=AnnounceReply,
    status=201,
    refuses=(*UNSIGNED, Pending, *UNREADABLE, IdTaken),
)
_declare(
    Probe,
    what="Ask whether this node is alive, and send news of the membership",
    answer=ProbeReply,
    refuses=(*UNSIGNED, *UNREADABLE, IdTaken),
)
_declare(StartTraining, what="Start a round", answer=dict[str, Any], refuses=OF_A_ROUND)
_declare(
    AskRound,
    what="Ask in which round a node is, before a round is believed that is far ahead",
    answer=RoundReply,
    refuses=(*UNSIGNED, *UNREADABLE, UnknownTrainer, OtherRounds),
)
_declare(
    ModelParams,
    what="Deliver an update of a round, or the reason why the sender takes no part",
    answer=dict[str, Any],
    refuses=OF_A_ROUND,
)
_declare(
    Accuracy,
    what="Exchange averages and their accuracies; the answer has the same form as the request",
    answer=AccuracyReply,
    refuses=(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotComparable, JobBusy),
)
_declare(
    AskVersion,
    what="Exchange the newest versions in an asynchronous mesh; the answer has the same form as the request",
    answer=VersionReply,
    refuses=(
        *(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotReady, NotAnnounced),
        *(ContributionRefused, OtherRounds),
    ),
)
_declare(
    SecureSumMessage,
    what="Tell another node something of a secure sum, by which masked updates are added up",
    answer=dict[str, Any],
    refuses=(
        *(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotReady, NotAnnounced),
        *(OtherRounds, RoundAhead),
    ),
)
_declare(
    SegmentsMessage,
    what="Tell another node something of a round whose updates are averaged in segments",
    answer=dict[str, Any],
    refuses=(
        *(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotReady, NotAnnounced),
        *(OtherRounds, RoundAhead),
    ),
)
_declare(
    VerticalMessage,
    what="Tell another holder of columns something in an epoch of a vertical job",
    answer=VerticalReply,
    refuses=(
        *(*UNSIGNED, *UNREADABLE, ParamsRefused, UnknownTrainer, NoData, NotReady, NotAnnounced),
        *(OtherRounds, JobBusy, BatchRefused),
    ),
)
BINARY_PATHS = frozenset(endpoint.rule for endpoint in api if endpoint.types)


MAX_DOWNLOADS = 8  # at once; who comes later waits for a turn
STALL_SECONDS = 30.0  # for a caller to take one piece
_DIGESTS = re.compile(rf"[0-9a-f]{{64}}(,[0-9a-f]{{64}}){{0,{MOST_TOGETHER - 1}}}")
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)


@api.get(f"{ModelParams.path}/<digest>", NODES, answer_type=BINARY_TYPE, refuses=(*UNSIGNED, UnknownModel))
async def params(node: Node, digest: str) -> Response:
    """Parameters by their digest, as a whole or a range of bytes.

    Several digests between commas are those of segments, which come side by side in one body.
    """
    if not _DIGESTS.fullmatch(digest):
        raise UnknownModel(text("a digest is 64 hexadecimal digits, not {value}", repr(digest[:80])))
    await _take_turn(current_app.extensions.setdefault("flnet.downloads", asyncio.Semaphore(MAX_DOWNLOADS)))
    forms = forms_of(request.headers.get(FORMS_HEADER))
    blob = await node.held(digest, asked_codings(), forms)
    answer = blob_answer(blob, entity_tag(digest, forms, blob.coding))
    if request.method == "GET":
        node.gave(digest.partition(",")[0], answer.content_length or 0)
    return answer


def asked_codings() -> tuple[str, ...]:
    """The codings of ours that the request prefers to none (RFC 9110, section 12.5.3)."""
    accepted = request.accept_encodings
    return (ZSTD,) if accepted.quality(ZSTD) > accepted.quality("identity") else ()


def entity_tag(digest: str, forms: Collection[str], coding: str | None) -> str:
    """The tag of parameters: the digest, and what else decides in which bytes they are sent to this caller."""
    which = [INT8_BLOCKS] if INT8_BLOCKS in forms else []
    return f'"{"-".join([digest, *which, *([coding] if coding else [])])}"'


def blob_answer(blob: Blob, tag: str) -> Response:
    """The blob, or the part of it that the request asks for, sent from where it lies.

    Args:
        blob: what there is.
        tag: its entity tag, in quotes.

    Raises:
        RequestedRangeNotSatisfiable: nothing of it lies in the range.
    """
    size, part = len(blob), None
    if request.method == "GET" and request.headers.get("If-Range", tag) == tag:
        part = asked_range(request.headers.get("Range", ""), size)
    start, stop = part or (0, size)
    body = BlobBody(blob, start, stop) if request.method != "HEAD" else b""
    answer = Response(body, content_type=BINARY_TYPE)
    answer.headers.update({"Accept-Ranges": "bytes", "Content-Length": str(stop - start), "ETag": tag})
    answer.headers["Vary"] = f"Accept-Encoding, {FORMS_HEADER}"
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
    match = _RANGE.fullmatch(header)
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, stop = max(size - int(match[2]), 0), size
    else:
        start, stop = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
        if match[2] and int(match[2]) < start:
            return None
    if start >= stop:
        raise RequestedRangeNotSatisfiable(
            size, description=text("there are {count} bytes, and {header} is outside", size, repr(header))
        )
    return start, stop


class BlobBody(ResponseBody):
    """A part of a blob as the body of an answer; a caller that takes nothing for STALL_SECONDS is cut.

    The blob is released afterwards: the objects of the framework form reference cycles that stay until the next
    garbage collection, and a model may have hundreds of megabytes.
    """

    def __init__(self, blob: Blob, start: int, stop: int) -> None:
        self._blob, self._start, self._stop = blob, start, stop
        self._watch: StallTimer | None = None
        self._moved = 0

    async def __aenter__(self) -> BlobBody:
        sending = asyncio.current_task()
        assert sending is not None
        self._watch = StallTimer(lambda: self._moved, sending.cancel)
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._watch is not None:
            self._watch.end()
        self._blob, self._watch = Blob(()), None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._blob.pieces(self._start, self._stop):
            yield bytes(piece)
            self._moved += 1


class StallTimer:
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
        """Stop."""
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
