"""The simulated network: bodies are delayed, lost, doubled or damaged on their way, and so are the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Protocol

from flnet.codec import JsonCodec
from flnet.errors import PeerError
from flnet.events import Event
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    AskVersion,
    Message,
    Packet,
    Peer,
    Probe,
    ProbeReply,
    VersionReply,
)
from flnet.node.core import NodeCore
from flnet.node.translate import KINDS
from flnet.params import PeerId, TrainerId
from flnet.simulation.clock import VirtualClock
from flnet.simulation.local_clock import LocalClock
from flnet.simulation.node import Answered
from flnet.simulation.tasks import Died
from flnet.simulation.weather import Weather

REPLIES: dict[str, type[Message]] = {
    Announce.path: AnnounceReply,
    Probe.path: ProbeReply,
    Accuracy.path: AccuracyReply,
    AskVersion.path: VersionReply,
}
REMEMBERED = 4096  # bodies whose content is known; most probes are equal to earlier ones


class Receiver(Protocol):
    """A node as the network sees it."""

    core: NodeCore
    address: str
    id: PeerId
    local: LocalClock

    def ask(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Take an event, and hand on the answer to it."""
        ...

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """Take an event that nobody waits for."""
        ...


class SimulatedNetwork:
    """Carries bodies between nodes by address.

    Attributes:
        cuts: ways (from, to) that are closed. A request crosses one way, the answer to it the other.
        refusing: addresses at which a machine is, but no node: a connection to them fails at once.
        moved: bytes of bodies by path, of each that was sent.
    """

    def __init__(self, clock: VirtualClock, rng: Random, weather: Weather) -> None:
        self.cuts: set[tuple[PeerId, PeerId]] = set()
        self.refusing: set[str] = set()
        self.moved: Counter[str] = Counter()
        self.weather = weather
        self.nodes: dict[str, Receiver] = {}
        self.clock, self.rng = clock, rng
        self.listen: Callable[[str], None] | None = None
        self._codec = JsonCodec()
        self._read = lru_cache(REMEMBERED)(self._codec.decode)
        self._bare_reply = lru_cache(1024)(self._encoded_reply)  # most are equal

    def clear(self) -> None:
        """Forget all nodes and bodies."""
        self.nodes.clear()
        self._read.cache_clear()
        self._bare_reply.cache_clear()

    def encode(self, packet: Packet) -> bytes:
        """The body of a message."""
        return self._codec.encode(packet)

    def _encoded_reply(self, me: Peer, incarnation: int) -> bytes:
        return self.encode(Packet(ProbeReply(i_am=me, incarnation=incarnation)))

    def is_open(self, sender: PeerId, receiver: PeerId) -> bool:
        """Whether anything passes this way."""
        return not self.cuts or (sender, receiver) not in self.cuts

    def chance(self, probability: float) -> bool:
        """Whether something happens that has this probability."""
        return probability > 0 and self.rng.random() < probability

    def delay(self) -> float:
        """Seconds of one way."""
        shortest, longest = self.weather.delay
        return shortest + (longest - shortest) * self.rng.random()

    def carry(
        self,
        sender: Receiver,
        address: str,
        path: str,
        body: bytes,
        answered: Answered,
        failed: Callable[[], None],
        background: bool = False,
    ) -> None:
        """Take a message across and its answer back, as the weather allows."""
        weather, receiver, way = self.weather, self.nodes.get(address), self.delay()
        self.moved[path] += len(body)
        if receiver is None and address in self.refusing:
            self.clock.after(way, failed, background=background)
            return
        if receiver is None or not self.is_open(sender.id, receiver.id) or self.chance(weather.lose_request):
            self._says(f"{path} of {sender.id} to {address} is lost")
            self.clock.after(weather.give_up, failed, background=background)
            return
        is_lost = self.chance(weather.lose_reply)
        if self.chance(weather.corrupt):
            self._says(f"{path} of {sender.id} to {receiver.id} is damaged")
            body = damaged(body, self.rng)
            is_lost = is_lost or self._is_readable(
                KINDS[path], body
            )  # by its checksum, which codecs do not look at
            if is_lost:
                self.clock.after(weather.give_up, failed, background=background)
                return

        def reply(answer: Packet | PeerError | Died | None) -> None:
            closed = is_lost or not self.is_open(receiver.id, sender.id)
            if closed or isinstance(answer, Died):
                self._says(f"the answer of {receiver.id} to {path} of {sender.id} is lost")
                self.clock.after(weather.give_up, failed, background=background)
                return
            if isinstance(answer, Packet):
                answer = self._across(path, answer)
            self.clock.after(self.delay(), lambda: answered(answer), background=background)

        self.clock.after(way, lambda: self._arrive(receiver, sender, path, body, reply), background=background)
        if self.chance(weather.duplicate):
            again = way + self.delay()
            self.clock.after(
                again, lambda: self._arrive(receiver, sender, path, body, lambda _: None), background=background
            )

    def _arrive(self, receiver: Receiver, sender: Receiver, path: str, body: bytes, reply: Answered) -> None:
        if self.nodes.get(receiver.address) is not receiver:  # it was killed meanwhile
            reply(Died())
            return
        try:
            packet = self._read(KINDS[path], body)
            owner, event = receiver.core.read(packet, sender.address.partition(":")[0])
            contacts = receiver.core.contacts(packet)
        except PeerError as exc:
            reply(exc)
            return
        for contact in contacts:
            receiver.tell(None, contact)
        receiver.ask(owner, event, reply)

    def _across(self, path: str, answer: Packet) -> Packet | PeerError:
        """An answer as its bytes tell it at the other end."""
        message = answer.message
        if isinstance(message, ProbeReply) and not message.news and message.key is None:
            body = self._bare_reply(message.i_am, message.incarnation)
        else:
            body = self.encode(answer)
        if self.chance(self.weather.corrupt):
            body = damaged(body, self.rng)
            if self._is_readable(REPLIES[path], body):
                return self._read(REPLIES[path], self.encode(answer))  # the checksum had it sent again
        try:
            return self._read(REPLIES[path], body)
        except PeerError as exc:
            return exc

    def _is_readable(self, kind: type[Message], body: bytes) -> bool:
        try:
            self._codec.decode(kind, body)
        except PeerError:
            return False
        return True

    def _says(self, text: str) -> None:
        if self.listen is not None:
            self.listen(text)


def damaged(body: bytes, rng: Random) -> bytes:
    """The same bytes but for one, which is another one."""
    if not body:
        return body
    at = rng.randrange(len(body))
    return body[:at] + bytes([body[at] ^ rng.randint(1, 255)]) + body[at + 1 :]
