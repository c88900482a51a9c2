"""GET /events: what happens on this node as server-sent events, resumable by Last-Event-ID."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

import orjson
from quart import Quart, Response, current_app, request
from werkzeug.exceptions import ServiceUnavailable

from flnet.errors import InvalidMessage
from flnet.node.event_log import EventLog, FeedItem
from flnet.node.interface import Node
from flnet.security.rate_limits import network_of
from flnet.text import text
from flnet.web.auth.permissions import caller_ip, may_act, permissions
from flnet.web.auth.signed_requests import signer_of_request
from flnet.web.routes import MESH, Api, json_answer
from flnet.web.translation import ENGLISH, LANGUAGES, translate_sentence

HEARTBEAT_SECONDS = 3.0  # a comment, so that readers find out within seconds that the node is gone
MAX_STREAMS = 64  # open at once, of readers who are not the operator; each costs a socket and a queue
MAX_STREAMS_PER_ADDRESS = 16  # of these
MAX_OPERATOR_STREAMS = 64  # of the operator
OPERATOR = "operator"
PIECE = 16 * 1024  # bytes of the event log that are sent at once
_NAME, _LINES = "flnet.streams", "flnet.event_lines"
api = Api()


class Streams:
    """The open streams of one app, and the order to end them.

    Attributes:
        open: streams by reader: an address, or OPERATOR, for whom others leave room.
    """

    def __init__(self) -> None:
        self.open = Counter[str]()
        self.ending = asyncio.Event()

    def take(self, reader: str) -> StreamSlot:
        """Count one more stream of a reader.

        Raises:
            ServiceUnavailable: this reader, or all together, have as many as there may be.
        """
        mine, most = self.open[reader], MAX_OPERATOR_STREAMS
        if reader != OPERATOR:
            most = MAX_STREAMS_PER_ADDRESS
            if (others := self.open.total() - self.open[OPERATOR]) >= MAX_STREAMS > mine:
                mine, most = others, MAX_STREAMS
        if mine >= most:
            raise ServiceUnavailable(
                text("{count} callers watch this node already; close one and try again", most)
            )
        return StreamSlot(self.open, reader)


class StreamSlot:
    """One stream that counts, until it ends."""

    def __init__(self, count: Counter[str], reader: str) -> None:
        self._count, self._reader, self._counts = count, reader, True
        count[reader] += 1

    def end(self) -> None:
        """The stream has ended; it may be said more than once."""
        if self._counts:
            self._counts = False
            self._count[self._reader] -= 1
            if not self._count[self._reader]:
                del self._count[self._reader]


def streams_of(app: Quart) -> Streams:
    """The streams of an app."""
    return cast(Streams, app.extensions.setdefault(_NAME, Streams()))


@api.get("/events", MESH, answer_type="text/event-stream")
async def events(node: Node) -> Response:
    """The events of this node as they happen, as server-sent events."""
    streams = streams_of(current_app)
    after = _resume_point(node.feed, request.headers.get("Last-Event-ID"))
    if request.method == "HEAD":
        return json_answer(None)
    place = streams.take(OPERATOR if may_act() else network_of(caller_ip()))
    language = request.args.get("language", ENGLISH)
    items = _stream(node.feed, after, streams.ending, place, language, _may_read(node))
    weakref.finalize(items, place.end)  # if its reader leaves before it begins
    answer = Response(items, content_type="text/event-stream")
    answer.timeout = None  # a stream ends when its reader leaves or the node stops, not by the clock
    answer.headers["X-Accel-Buffering"] = "no"
    return answer


@api.get("/events.jsonl", MESH, answer_type="application/x-ndjson")
async def event_lines(node: Node) -> Response:
    """The event log, one JSON object per line."""
    lines = await cast(EventLines, current_app.extensions.setdefault(_LINES, EventLines())).get(node)
    answer = Response(lines.pieces(), content_type="application/x-ndjson")
    answer.content_length = len(lines.body)
    answer.headers["Content-Disposition"] = 'attachment; filename="events.jsonl"'
    return answer


class EventLines:
    """The event log as lines: made for one caller at a time, and shared by those who ask meanwhile."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._newest = -1  # id of the newest event when they were made
        self._made: weakref.ref[Lines] | None = None

    async def get(self, node: Node) -> Lines:
        """The lines of all events that are kept now."""
        async with self._turn:
            made = self._made() if self._made is not None else None
            if made is None or self._newest != node.feed.last_id:
                self._newest = node.feed.last_id
                made = Lines(await asyncio.to_thread(_as_lines, await node.events()))
                self._made = weakref.ref(made)
            return made


class Lines:
    """Lines that are sent in pieces: a caller that reads nothing holds none of its own."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def pieces(self) -> AsyncIterator[bytes]:
        """The lines, at most PIECE bytes at a time."""
        for start in range(0, len(self.body), PIECE):
            yield self.body[start : start + PIECE]


def _as_lines(items: Sequence[FeedItem]) -> bytes:
    names = ("id", "at", "kind", "text", "trainer", "data")
    dumped = [orjson.dumps({name: getattr(item, name) for name in names}, default=str) for item in items]
    return b"".join(line + b"\n" for line in dumped)


def _resume_point(feed: EventLog, header: str | None) -> int | None:
    """The item after which the stream begins; None if it begins with the next event.

    An id that is greater than any of ours is from before this node's restart: all that is kept is new then.
    """
    if header is None or header == "":
        return None
    if not header.isascii() or not header.isdigit():
        raise InvalidMessage(text("Last-Event-ID: expected a whole number, got {value}", repr(header[:60])))
    kept = feed.recent()
    newest = kept[-1].id if kept else 0
    after = int(header[:20])
    return after if after <= newest else 0


def _may_read(node: Node) -> Callable[[], bool]:
    """Whether the reader may go on: its token or session holds, and in a pinned mesh its key is accepted."""
    holds, signer, trust = permissions().still_holds(), signer_of_request(), node.trust
    return lambda: holds() and (signer is None or trust is None or trust.trusts(signer.key))


async def _stream(
    feed: EventLog,
    after: int | None,
    node_ends: asyncio.Event,
    place: StreamSlot,
    language: str,
    may_read: Callable[[], bool],
) -> AsyncIterator[bytes]:
    items = feed.watch(after)
    ending = asyncio.ensure_future(node_ends.wait())
    following = asyncio.ensure_future(_next(items))
    try:
        yield b"retry: 2000\n\n"
        while True:
            # Not wait_for: its time-out would cancel the feed's iterator, and lose what it was about to give.
            await asyncio.wait({following, ending}, timeout=HEARTBEAT_SECONDS, return_when="FIRST_COMPLETED")
            if ending.done() or not may_read():
                return
            if not following.done():
                yield b": still here\n\n"
            elif (item := following.result()) is None:
                return
            else:
                following = asyncio.ensure_future(_next(items))
                yield as_event(item, language)
    finally:
        place.end()
        ending.cancel()
        following.cancel()


async def _next(items: AsyncIterator[FeedItem]) -> FeedItem | None:
    """The next item; None at the end."""
    return await anext(items, None)


def as_event(item: FeedItem, language: str = ENGLISH) -> bytes:
    """One item in the text/event-stream form (WHATWG HTML, section 9.2).

    Args:
        language: of the reader; if it is known and not English, the translation is added to the text.
    """
    data: dict[str, object] = {
        "id": item.id,
        "at": item.at,
        "kind": item.kind,
        "text": item.text,
        "trainer": item.trainer,
        "data": item.data,
    }
    if language in LANGUAGES and language != ENGLISH:
        sentence = translate_sentence(language, item.text)
        data |= {"shown": sentence.text, "shown_language": sentence.language or language}
    kind = " ".join(item.kind.split())  # a line break would begin another field
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (item.id, kind.encode(), orjson.dumps(data))
