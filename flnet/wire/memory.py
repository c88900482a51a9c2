"""A network inside one process: the same bytes without sockets, with faults that a seed repeats.

The twin of HTTP for tests and simulations. The far node decodes the bytes, so nothing is shared by
accident; an error that it raises becomes the answer that its web layer would give.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType

from flnet.errors import Challenged, FlnetError, PeerRefused, PeerTimeout, PeerUnreachable
from flnet.params.blob import PIECE, Blob, Landing
from flnet.params.params import Rng
from flnet.security.signing import RequestSigner
from flnet.text import text
from flnet.wire.transport import CONTROL_BYTES, Reply, forms_header, too_large, wait_of

# (path, body, content type, the caller's "host:port") -> reply
Receiver = Callable[[str, bytes, str, str], Awaitable[Reply]]
# the same, and the headers of the request
SignedReceiver = Callable[[str, bytes, str, str, Mapping[str, str]], Awaitable[Reply]]
Sleep = Callable[[float], Awaitable[object]]
Headers = Mapping[str, str]
NOTHING: Headers = MappingProxyType({})

PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts while a peer is not ready


@dataclass
class NetworkFaults:
    """What the network does to messages; may be changed at any time.

    Attributes:
        drop_request: probability that a request is lost: never handled, PeerTimeout for the sender.
        drop_reply: probability that a reply is lost: the request was handled, PeerTimeout for the sender.
        duplicate: probability that a request is delivered a second time, its second reply thrown away.
        shortest_delay: seconds that a request and a reply take at least, each way.
        longest_delay: seconds that they take at most.
        give_up: seconds that a sender waits until it gives up on what was lost.
        break_transfer: probability that a download breaks off midway, each time that it begins or goes on.
    """

    drop_request: float = 0.0
    drop_reply: float = 0.0
    duplicate: float = 0.0
    shortest_delay: float = 0.0
    longest_delay: float = 0.0
    give_up: float = 0.0
    break_transfer: float = 0.0


class MemoryNetwork:
    """Nodes by address, and the faults between them."""

    def __init__(self, rng: Rng, sleep: Sleep = asyncio.sleep, faults: NetworkFaults | None = None) -> None:
        """An empty network; `sleep` is how time passes in it (a virtual clock's, in simulations)."""
        self.faults = faults or NetworkFaults()
        self._rng = rng
        self.sleep = sleep
        self._receivers: dict[str, SignedReceiver] = {}
        self._cuts: set[tuple[str, str]] = set()

    def register(self, address: str, receiver: Receiver) -> None:
        """From now on `receiver` answers at this address."""

        async def receive(
            path: str, body: bytes, content_type: str, caller: str, headers: Mapping[str, str]
        ) -> Reply:
            return await receiver(path, body, content_type, caller)

        self.register_signed(address, receive)

    def register_signed(self, address: str, receiver: SignedReceiver) -> None:
        """The same for a receiver that looks at signatures."""
        self._receivers[address] = receiver

    def unregister(self, address: str) -> None:
        """Nobody answers at this address any more; not an error if nobody did."""
        self._receivers.pop(address, None)

    def cut(self, sender: str, receiver: str) -> None:
        """No requests from `sender` to `receiver` any more; the other way stays open, as behind a firewall."""
        self._cuts.add((sender, receiver))

    def heal(self, sender: str, receiver: str) -> None:
        """Let requests from `sender` to `receiver` through again."""
        self._cuts.discard((sender, receiver))

    def part(self, *groups: set[str]) -> None:
        """Cut every way between members of different groups, both directions."""
        for group in groups:
            for other in groups:
                self._cuts |= {(a, b) for a in group for b in other if other is not group}

    def heal_all(self) -> None:
        """Undo every cut."""
        self._cuts.clear()

    def transport(self, address: str, signer: RequestSigner | None = None) -> MemoryTransport:
        """The transport of the node at this address; with a signer it signs, and wants signed answers."""
        return MemoryTransport(self, address, signer)

    async def carry(
        self,
        sender: str,
        address: str,
        path: str,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Take one request across and its reply back, with the faults that chance decides.

        Raises:
            PeerUnreachable: nobody at that address, or the way is cut.
            PeerTimeout: request or reply were lost.
        """
        faults = self.faults
        # Always the same number of draws: changing one probability leaves the other faults where they were.
        lost, unanswered, twice, out, back = (self._rng.random() for _ in range(5))
        await self.sleep(self._delay(out))
        if (sender, address) in self._cuts or address not in self._receivers:
            raise PeerUnreachable(text("{address}: no connection", address))
        if lost < faults.drop_request:
            await self.sleep(faults.give_up)
            raise PeerTimeout(text("{address}: no answer (request lost)", address))
        receiver = self._receivers[address]
        reply = await _answer(receiver, path, body, content_type, sender, headers or {})
        if twice < faults.duplicate:
            await _answer(receiver, path, body, content_type, sender, headers or {})
        if unanswered < faults.drop_reply:
            await self.sleep(faults.give_up)
            raise PeerTimeout(text("{address}: no answer (reply lost)", address))
        await self.sleep(self._delay(back))
        return reply

    def comes(self, left: int) -> int:
        """How many of the bytes that are left of a download come before it breaks off; at least one does."""
        broken, where = self._rng.random(), self._rng.random()
        return max(1, int(where * left)) if broken < self.faults.break_transfer else left

    def _delay(self, chance: float) -> float:
        shortest, longest = self.faults.shortest_delay, self.faults.longest_delay
        return shortest + chance * max(0.0, longest - shortest)


class MemoryTransport:
    """What one node sees of the network."""

    def __init__(self, network: MemoryNetwork, address: str, signer: RequestSigner | None = None) -> None:
        self._network, self._signer = network, signer
        self._address = address
        self._closed = False

    async def send(
        self, address: str, path: str, body: bytes | Blob, content_type: str, reply_limit: int = CONTROL_BYTES
    ) -> Reply:
        """Send to "host:port"; an answer 503 "not_ready" is asked again a few times, as over HTTP.

        Raises:
            PeerUnreachable: nobody there, the way is cut, or this transport is closed.
            PeerTimeout: request or reply were lost.
            TransportError: the answer is larger than allowed.
        """
        return _within(reply_limit, address, await self._ready(address, path, bytes(body), content_type))

    async def knock(self, address: str, path: str, body: bytes, content_type: str) -> Reply:
        """Send, also to a node whose key is not accepted here.

        Raises:
            PeerUnreachable, PeerTimeout: as for `send`.
        """
        reply = await self._carry(address, path, body, content_type, stranger=True)
        return _within(CONTROL_BYTES, address, reply)

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
        """Get what lies at this path: a request without a body and without a content type.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`.
        """
        return _within(reply_limit, address, await self._carry(address, path, b"", ""))

    async def download(self, address: str, path: str, landing: Landing) -> None:
        """Ask as `fetch` does, and let the answer land; after a break, the rest of a further answer.

        It comes as it is, whatever codings `landing` takes: nothing is slow here.

        Raises:
            PeerRefused: the peer answered with an error.
            PeerUnreachable, PeerTimeout: as for `send`.
            PeerError: `landing` does not want it.
        """
        while True:
            reply = await self._ready(address, path, b"", "", forms_header(landing))
            if reply.status >= 400:
                raise PeerRefused.read(reply.status, reply.body)
            landing.expect(len(reply.body))
            part = memoryview(reply.body)[landing.first : landing.stop]
            end = landing.received + self._network.comes(len(part) - landing.received)
            while landing.received < min(end, len(part)):
                landing.write(part[landing.received : min(landing.received + PIECE, end)])
            if landing.complete:
                return
            await self._network.sleep(PAUSES[0])

    async def close(self) -> None:
        """Nothing is sent afterwards."""
        self._closed = True

    async def _ready(
        self, address: str, path: str, body: bytes, content_type: str, headers: Headers = NOTHING
    ) -> Reply:
        reply = await self._carry(address, path, body, content_type, headers)
        for pause in PAUSES:
            if self._closed or wait_of(reply) is None:
                break
            await self._network.sleep(pause)
            reply = await self._carry(address, path, body, content_type, headers)
        return reply

    async def _carry(
        self,
        address: str,
        path: str,
        body: bytes,
        content_type: str,
        headers: Headers = NOTHING,
        stranger: bool = False,
    ) -> Reply:
        if self._closed:
            raise PeerUnreachable(text("{address}: this node has closed its connections", address))
        if self._signer is None:
            return await self._network.carry(self._address, address, path, body, content_type, headers)
        try:
            return await self._signed(self._signer, address, path, body, content_type, headers, stranger)
        except Challenged:
            return await self._signed(self._signer, address, path, body, content_type, headers, stranger)

    async def _signed(
        self,
        signer: RequestSigner,
        address: str,
        path: str,
        body: bytes,
        content_type: str,
        headers: Headers,
        stranger: bool,
    ) -> Reply:
        plain, _, query = path.partition("?")
        method, digest = "POST" if content_type else "GET", sha256(body).digest()
        signed = signer.request(address, method, plain, query, digest, content_type or None, stranger=stranger)
        stated = {**headers, **signed.headers}
        reply = await self._network.carry(self._address, address, path, body, content_type, stated)
        if signer.learn(address, signed, reply.status, reply.header):
            raise Challenged(text("{address}: asks for another signature again and again", address))
        verified = signed.answered(reply.status, reply.header)
        if verified is None:
            raise PeerRefused.read(reply.status, reply.body)
        if verified.sha256 is not None or content_type:
            verified.came(sha256(reply.body).digest())
        return replace(reply, signer=verified.key)


def _within(limit: int, address: str, reply: Reply) -> Reply:
    if len(reply.body) > limit:
        raise too_large(address, limit, len(reply.body))
    return reply


async def _answer(
    receiver: SignedReceiver,
    path: str,
    body: bytes,
    content_type: str,
    sender: str,
    headers: Mapping[str, str],
) -> Reply:
    try:
        return await receiver(path, body, content_type, sender, headers)
    except FlnetError as exc:
        answer = {"error": exc.code, "message": exc.message, **exc.details()}
        return Reply(exc.status, json.dumps(answer).encode())
