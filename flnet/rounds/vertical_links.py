"""Messages between the holders of a vertical job, in order and each once, over requests that may fail.

To each holder there is one message under way at most. All that is to be said meanwhile waits, and goes with the next
one. A message that was not answered is repeated as it was, and the receiver knows it by its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from flnet.errors import BatchRefused
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.effects import CancelTimer, Effect, Send, SetTimer
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import MAX_PARTS, AnyPart, VerticalMessage
from flnet.rounds.settings import JobSettings
from flnet.text import text

PACKET_BYTES = 1024 * 1024  # of arrays in one message, but for a single larger one
AGAIN_SECONDS, MOST_AGAIN_SECONDS = 0.25, 4.0  # until a message is repeated
AGAIN = "again:"  # a timer

Said = tuple[AnyPart, Params]
NOTHING = Params()


@dataclass
class Link:
    """What goes to one holder, and how much came from it.

    Attributes:
        waiting: what is to be said.
        under_way: the message that was not answered yet, with its arrays.
        number: of the next message to it.
        expected: number of the next message from it.
        failures: in a row, of the message under way.
    """

    waiting: deque[Said] = field(default_factory=deque)
    under_way: tuple[VerticalMessage, Params] | None = None
    number: int = 0
    expected: int = 0
    failures: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything has arrived."""
        return not self.waiting and self.under_way is None

    def take(self) -> tuple[tuple[AnyPart, ...], Params]:
        """The parts of the next message, and their arrays under the names that they have in it."""
        parts: list[AnyPart] = []
        arrays: dict[str, Array] = {}
        nbytes = 0
        while self.waiting and len(parts) < MAX_PARTS:
            part, values = self.waiting[0]
            if parts and nbytes + values.nbytes > PACKET_BYTES:
                break
            self.waiting.popleft()
            arrays |= {f"{len(parts)}/{name}": array for name, array in values.items()}
            parts.append(part)
            nbytes += values.nbytes
        return tuple(parts), Params(arrays)


def arrays_of(arrays: Params, place: int) -> Params:
    """The arrays of one part of a message."""
    prefix = f"{place}/"
    return Params({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})


class Links:
    """The links of one session to all its holders."""

    def __init__(self, settings: JobSettings, session: str) -> None:
        self._settings, self.session = settings, session
        self.of: dict[PeerId, Link] = {}

    @property
    def pending(self) -> list[PeerId]:
        """Who has not got everything."""
        return sorted(peer for peer, link in self.of.items() if not link.is_idle)

    def say(self, peer: PeerId, part: AnyPart, arrays: Params = NOTHING) -> None:
        """Add a part to what a holder is told; `flush` sends it."""
        self.of.setdefault(peer, Link()).waiting.append((part, arrays))

    def flush(self, key: RoundKey) -> list[Effect]:
        """Send to all holders what can be sent now."""
        effects: list[Effect] = []
        for peer, link in self.of.items():
            if link.under_way is not None or not link.waiting:
                continue
            parts, arrays = link.take()
            message = self._settings.message(
                VerticalMessage, key, session=self.session, number=link.number, parts=parts
            )
            link.under_way, link.failures = (message, arrays), 0
            link.number += 1
            effects.append(self._send(peer, message, arrays))
        return effects

    def delivered(self, peer: PeerId) -> None:
        """The message under way has arrived."""
        if (link := self.of.get(peer)) is not None:
            link.under_way = None

    def is_under_way(self, peer: PeerId, path: str, key: RoundKey) -> bool:
        """Whether a message with this path and round is the one under way to a holder."""
        link = self.of.get(peer)
        if link is None or link.under_way is None or path != VerticalMessage.path:
            return False
        message = link.under_way[0]
        return (message.round, message.initiator) == (key.number, key.initiator)

    def failed(self, peer: PeerId) -> list[Effect]:
        """The message under way has to be repeated after a moment."""
        link = self.of.get(peer)
        if link is None or link.under_way is None:
            return []
        seconds = min(MOST_AGAIN_SECONDS, AGAIN_SECONDS * 2**link.failures)
        link.failures = min(link.failures + 1, 8)
        return [SetTimer(f"{AGAIN}{peer}", seconds)]

    def repeat(self, timer: str) -> list[Effect]:
        """The moment is over."""
        peer = PeerId(timer.removeprefix(AGAIN))
        link = self.of.get(peer)
        return [self._send(peer, *link.under_way)] if link and link.under_way else []

    def is_new(self, peer: PeerId, number: int) -> bool:
        """Whether a message is the next one; otherwise it was here before.

        Raises:
            BatchRefused: messages are missing before it.
        """
        link = self.of.setdefault(peer, Link())
        if number > link.expected:
            raise BatchRefused(
                text("expected message {expected} of this epoch, got {number}", link.expected, number)
            )
        if number < link.expected:
            return False
        link.expected += 1
        return True

    def drop(self, peers: Collection[PeerId]) -> set[PeerId]:
        """Say nothing more to these; those of them that have not got everything."""
        links = {peer: self.of.pop(peer) for peer in peers if peer in self.of}
        return {peer for peer, link in links.items() if not link.is_idle}

    def close(self) -> list[Effect]:
        """Say nothing more to anybody."""
        timers: list[Effect] = [CancelTimer(f"{AGAIN}{peer}") for peer, link in self.of.items() if link.failures]
        self.of.clear()
        return timers

    def _send(self, peer: PeerId, message: VerticalMessage, arrays: Params) -> Send:
        return Send((peer,), message, arrays if len(arrays) else None)
