"""Messages of other nodes, taken in and answered without the framework, if they look as flnet's nodes send them.

Nearly all requests of a round are such messages, and what Quart does for each of them (three tasks, two contexts,
headers of its own) took a third of the event loop's time. The rules are those of all other requests, and stand
where those find them: intake.py, guard.py and body.py. A request with a header that nodes do not send, one to
another path, and every one in a mesh with a key goes the usual way; the answers are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flnet.codec.binary import BINARY_TYPE
from flnet.node.base import Node
from flnet.settings import Settings
from flnet.web.answers import JSON, dumped, failure_of
from flnet.web.body import (
    BASE_SECONDS,
    LINGER_SECONDS,
    SLOWEST_BYTES_PER_SECOND,
    CallerGone,
    LimitedBody,
    Receive,
)
from flnet.web.caller import Asked, host_in, ip_of
from flnet.web.guard import HEADERS, check_name, host_names
from flnet.web.intake import NODE_PATHS, Intake
from flnet.web.training import BINARY_PATHS, binary_body

Send = Callable[[Any], Any]  # of ASGI
# What tells nothing about a caller that would have to be looked at.
_USUAL = frozenset(
    {b"host", b"accept", b"accept-encoding", b"user-agent", b"connection", b"content-type", b"content-length"}
)
_TYPES = {JSON.encode(): JSON, BINARY_TYPE.encode(): BINARY_TYPE}
_ALWAYS = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
_MOST_DIGITS = 18  # of a body's size
TOO_SLOW = 408  # the status for a caller whose rest nobody waits for again


@dataclass(frozen=True)
class Message:
    """One of these requests; see `flnet.web.caller.Asked`."""

    scope: Mapping[str, Any]
    path: str
    mimetype: str
    content_length: int
    host: str
    method: str = "POST"


def read_message(scope: Mapping[str, Any]) -> Message | None:
    """The message that a request brings; None where it has to go the usual way."""
    path, fields = scope["path"], scope["headers"]
    if path not in NODE_PATHS or scope["method"] != "POST" or scope["query_string"] or scope["scheme"] != "http":
        return None
    headers = dict(fields)
    if len(headers) != len(fields) or not headers.keys() <= _USUAL or headers.get(b"accept", b"*/*") != b"*/*":
        return None
    kind, size = _TYPES.get(headers.get(b"content-type", b"")), headers.get(b"content-length", b"")
    if kind is None or not size.isdigit() or len(size) > _MOST_DIGITS or b"host" not in headers:
        return None
    if kind == BINARY_TYPE and path not in BINARY_PATHS:
        return None
    return Message(scope, path, kind, int(size), headers[b"host"].decode("latin-1"))


class Direct:
    """Answers them for one node."""

    def __init__(self, node: Node, settings: Settings, intake: Intake) -> None:
        self._node, self._settings, self._intake = node, settings, intake
        self._body = intake.bodies(self._body_of)

    def reads(self, scope: Mapping[str, Any]) -> Message | None:
        """The message in a request, if it is to be answered here."""
        asked = read_message(scope)
        if asked is None or (asked.mimetype == BINARY_TYPE and self._settings.wire == "json"):
            return None
        return asked

    async def answer(self, asked: Message, receive: Receive, send: Send) -> None:
        """Take in the rest of a message and answer it, unless its caller goes before it has sent all."""
        body = self._body(asked)
        headers = _ALWAYS
        try:
            reply = await self._replied(asked, body, receive)
            status, content, form = reply.status, bytes(reply.body), reply.content_type
        except CallerGone:
            return
        except Exception as exc:
            failure = failure_of(exc, asked.method, asked.path)
            status, content, form = failure.status, dumped(failure.fields), JSON
            headers += tuple((name.lower().encode(), value.encode()) for name, value in failure.headers.items())
        finally:
            self._intake.done(body)
        headers += ((b"content-type", form.encode()), (b"content-length", b"%d" % len(content)))
        start = {"type": "http.response.start", "status": status, "headers": headers}
        rest = _Rest(body, receive) if status >= 400 and status != TOO_SLOW and asked.content_length else None
        if rest is not None and not await rest.has_come():
            await rest.linger(send, start, content)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(BASE_SECONDS + len(content) / SLOWEST_BYTES_PER_SECOND):
                await send(start)
                await send({"type": "http.response.body", "body": content, "more_body": False})

    async def _replied(self, asked: Message, body: LimitedBody, receive: Receive) -> Any:
        self._intake.admit(asked, body)
        check_name(host_in([asked.host]), host_names(self._node, self._settings))
        content = await body.taken(receive)
        return await self._node.receive(asked.path, content, asked.mimetype, ip_of(asked), "")

    def _body_of(self, asked: Asked) -> LimitedBody:
        if asked.mimetype == BINARY_TYPE:
            return binary_body(asked, self._node, self._settings)
        return LimitedBody(asked.content_length, self._node.body_limit(asked.path))


class _Rest:
    """What a refused caller still sends: it is dropped, see `flnet.web.body.linger`."""

    def __init__(self, body: LimitedBody, receive: Receive) -> None:
        self._body = body
        self._task = asyncio.ensure_future(body.dropped(receive))

    async def has_come(self) -> bool:
        """Whether all of it is here already."""
        await asyncio.sleep(0)
        return self._task.done()

    async def linger(self, send: Send, start: dict[str, Any], words: bytes) -> None:
        """Send the answer, and end it when the rest has come or enough time has passed."""
        try:
            await send({**start, "headers": (*start["headers"], (b"connection", b"close"))})
            await send({"type": "http.response.body", "body": words, "more_body": True})
            await asyncio.wait({self._task}, timeout=LINGER_SECONDS)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._task.cancel()
