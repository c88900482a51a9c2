"""HTTP/1.1 to other nodes: connections are kept, bodies go in pieces, what fails for a moment is tried again.

The timeout is one budget for all attempts of a request, except that a transfer that moves is never cut off:
each further piece, sent or received, allows it another timeout, and more where the peer is known to be slow
(see flnet.transport.pace). Two limits remain for a peer that means harm: a piece must move within its time, and
an answer has a largest size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from flnet.blob import Blob, Landing
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable, TransportError
from flnet.networks import Networks
from flnet.params import Rng
from flnet.signing import Proven, Seal, Sealed
from flnet.signing.refusals import StrangerThere
from flnet.transport.base import Reply, wait_of
from flnet.transport.faults import because, empty_frames, fault_of
from flnet.transport.lean_import import no_authorities
from flnet.transport.limits import Budget, Watch, now
from flnet.transport.outgoing import Request, pieces, post, url_of
from flnet.transport.pace import STEP, Pace
from flnet.transport.places import Places
from flnet.transport.ranges import Resumption
from flnet.transport.receiving import receive, refusal
from flnet.transport.sealing import Challenged, sha256_of
from flnet.transport.session import Channel, key_shown, open_session
from flnet.transport.straight import receive_straight

with no_authorities():
    import aiohttp
    import yarl
    from aiohttp.http_exceptions import HttpProcessingError

MAX_REPLY_BYTES = 512 * 1024 * 1024

Result = TypeVar("Result")
Read = Callable[[aiohttp.ClientResponse, Watch, Proven | None], Awaitable[Result]]


class _Broken(Exception):
    """An attempt that failed: what that means, and whether another one may help."""

    def __init__(self, error: TransportError, again: bool) -> None:
        super().__init__(error)
        self._error, self.again = error, again

    def taken(self) -> TransportError:
        """What it means; held no longer, because an error that is raised while this is handled holds this."""
        error = self._error
        del self._error
        self.args = ()
        return error


class HttpTransport:
    """Sends bodies over HTTP; see the module."""

    def __init__(
        self,
        timeout_seconds: float,
        rng: Rng,
        *,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        seal: Seal | None = None,
        networks: Networks | None = None,
        channel: Channel | None = None,
    ) -> None:
        """Open nothing yet; connections come with the first request to an address.

        Args:
            timeout_seconds: for one request, all attempts together; see the module.
            rng: spreads the pauses between attempts, so that nodes do not knock in step.
            max_reply_bytes: largest answer that `send` and `fetch` read.
            seal: signs what is sent and checks the answers; None in an open mesh.
            networks: in which peers are called; None: everywhere.
            channel: TLS of a pinned mesh; None: nothing is encrypted.
        """
        self._timeout, self._seal = timeout_seconds, seal
        self._rng, self._max_reply_bytes = rng, max_reply_bytes
        self._places, self._pace = Places(networks, channel is not None), Pace(timeout_seconds, time.monotonic)
        self._channel = channel
        self._open: aiohttp.ClientSession | None = None
        self._under_way, self._closed = set[asyncio.Timeout](), False

    async def send(self, address: str, path: str, body: bytes | Blob, content_type: str) -> Reply:
        """Send to "host:port" and wait for the answer; an answer 503 "not_ready" or 429 is asked again later.

        Raises:
            PeerUnreachable: no connection, or it broke, until the timeout was used up.
            PeerTimeout: connected, but no answer in time.
            TransportError: the answer is larger than allowed.
        """
        budget, request = Budget(self._timeout, self._rng), post(body, content_type)
        while True:
            try:
                reply = await self._attempt(address, path, request, budget.deadline, self._reply)
            except _Broken as broken:
                if not broken.again or not await budget.pause():
                    raise broken.taken() from broken.__cause__
            else:
                least = wait_of(reply)
                if least is None or not await budget.pause(least):
                    return reply

    async def knock(self, address: str, path: str, body: bytes, content_type: str) -> Reply:
        """Send, in one attempt, also to a node whose key is not accepted here; the reply says whose it is.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`, and where two keys are shown.
        """
        stranger = self._channel.stranger() if self._channel else None
        request = post(body, content_type)._replace(stranger=True, context=stranger)
        try:
            reply = await self._attempt(address, path, request, now() + self._timeout, self._reply)
        except _Broken as broken:
            raise broken.taken() from broken.__cause__
        if stranger is not None and self._seal is not None and stranger.seen != self._seal.key_at(address):
            raise TransportError(f"{address}: the key of its certificate is not the one that it names")
        return reply

    async def fetch(self, address: str, path: str) -> Reply:
        """Get what lies at this path of "host:port", in one attempt.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`.
        """
        try:
            return await self._attempt(address, path, Request("GET"), now() + self._timeout, self._reply)
        except _Broken as broken:
            raise broken.taken() from broken.__cause__

    async def download(self, address: str, path: str, landing: Landing) -> None:
        """Get the large body at this path of "host:port" into `landing`; go on where it broke off.

        An attempt that moved something gives the next one the whole timeout again.

        Raises:
            PeerRefused: the peer answered with an error.
            PeerUnreachable, PeerTimeout: as for `send`.
            TransportError: the answer is not the body that was asked for, or not the rest of it.
            PeerError: `landing` does not want it; no more of it is read.
        """
        codings = landing.codings if self._pace.is_slow(address) else ()
        budget, rest = Budget(self._timeout, self._rng), Resumption(landing, codings)

        async def land(response: aiohttp.ClientResponse, watch: Watch, proven: Proven | None) -> None:
            await _land(response, watch, rest, landing)

        while True:
            before = landing.received
            try:
                request = Request("GET", headers=rest.headers())
                return await self._attempt(address, path, request, budget.deadline, land)
            except _Broken as broken:
                if landing.complete:
                    return None
                moved = landing.received - before >= STEP
                if moved:
                    budget.renew()
                if self._closed or not (moved or broken.again) or not await budget.pause():
                    raise broken.taken() from broken.__cause__
            except PeerRefused as refused:
                if refused.error != "not_ready" or not await budget.pause():
                    raise

    async def close(self) -> None:
        """Give connections back; requests under way end in PeerUnreachable, later ones too."""
        self._closed = True
        for timer in list(self._under_way):
            with suppress(RuntimeError):  # it has just run out
                timer.reschedule(0)
        if self._open is not None:
            await self._open.close()

    async def _attempt(
        self, address: str, path: str, request: Request, deadline: float, read: Read[Result]
    ) -> Result:
        """One request, and its answer read by `read`; what fails on the way is raised as _Broken."""
        try:
            return await self._once(address, path, request, deadline, read)
        except Challenged:
            return await self._once(address, path, request, deadline, read)

    async def _once(
        self, address: str, path: str, request: Request, deadline: float, read: Read[Result]
    ) -> Result:
        timer = asyncio.timeout_at(deadline)
        watch = Watch(timer, self._pace, address)
        self._under_way.add(timer)
        try:
            if self._closed:
                raise ConnectionError
            sealed = await self._sealed(address, path, request)
            async with timer, self._request(address, path, request, watch, sealed) as response:
                proven = await self._proven(address, response, watch, sealed) if sealed else None
                result = await read(response, watch, proven)
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as exc:
            watch.stopped()
            empty_frames(exc)
            raise self._broken(address, exc, watch) from exc
        finally:
            self._under_way.discard(timer)
        watch.finished()
        return result

    async def _sealed(self, address: str, path: str, request: Request) -> Sealed | None:
        if self._seal is None:
            return None
        url, content_type = yarl.URL(url_of(address, path)), request.headers.get("Content-Type")
        digest = await sha256_of(request.body)
        where = (request.verb, url.raw_path, url.raw_query_string)
        return self._seal.request(address, *where, digest, content_type, stranger=request.stranger)

    async def _proven(
        self, address: str, response: aiohttp.ClientResponse, watch: Watch, sealed: Sealed
    ) -> Proven:
        assert self._seal is not None
        header = response.headers.get
        if self._seal.learn(address, sealed, response.status, header):
            raise Challenged(f"{address}: asks for another signature again and again")
        proven = sealed.answered(response.status, header)
        if proven is None:
            raise PeerRefused.read(response.status, await refusal(response, watch))
        return proven

    def _request(
        self, address: str, path: str, request: Request, watch: Watch, sealed: Sealed | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        body = request.body
        watch.begins(0 if body is None else len(body))
        data = pieces(body, watch) if isinstance(body, Blob) else body
        headers = {**request.headers, **sealed.headers} if sealed else request.headers
        url = self._places.url(address, path)
        tls: dict[str, Any] = {}
        if self._channel is not None:
            tls = {"ssl": request.context or self._channel.known, "server_hostname": self._channel.name}
        if self._open is None:
            self._open = open_session(self._places, self._timeout)
        return self._open.request(request.verb, url, data=data, headers=headers, allow_redirects=False, **tls)

    async def _reply(self, response: aiohttp.ClientResponse, watch: Watch, proven: Proven | None) -> Reply:
        parts: list[bytes] = []
        left = self._max_reply_bytes

        def take(part: bytes) -> None:
            nonlocal left
            left -= len(part)
            if left < 0:
                raise TransportError(f"{_from(response)}: more than {self._max_reply_bytes} bytes of answer")
            parts.append(part)

        await receive(response, watch, take)
        body, signer = b"".join(parts), None
        if proven is not None:
            proven.came(await sha256_of(body))
            signer = proven.key
        return Reply(response.status, body, response.headers.get("Content-Type", ""), signer=signer)

    def _broken(self, address: str, exc: Exception, watch: Watch) -> _Broken:
        if self._closed:
            return _Broken(PeerUnreachable(f"{address}: this node has closed its connections"), again=False)
        if type(exc) is TimeoutError:
            return _Broken(PeerTimeout(f"{address}: no answer within {watch.seconds:.3g} s"), again=False)
        if (key := key_shown(exc)) is not None:
            return _Broken(StrangerThere(address, key), again=False)
        fault = fault_of(exc)
        return _Broken(fault.error(f"{address}: {fault.words}{because(exc)}"), fault.again)


async def _land(response: aiohttp.ClientResponse, watch: Watch, rest: Resumption, landing: Landing) -> None:
    if response.status >= 400:
        raise PeerRefused.read(response.status, await refusal(response, watch))
    try:
        rest.accept(response.status, response.headers)
    except TransportError as exc:
        raise TransportError(f"{_from(response)}: {exc}") from None

    def begin(part: bytes) -> bool:
        landing.write(part)
        return landing.room is not None

    await receive(response, watch, begin)
    if not await receive_straight(response, watch, landing):
        await receive(response, watch, landing.write)
    if not landing.complete:
        raise aiohttp.ClientPayloadError(f"{landing.received} of {landing.total} bytes")


def _from(response: aiohttp.ClientResponse) -> str:
    return response.url.authority
