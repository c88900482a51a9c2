"""The alignment at the beginning of a holder's conversation: a machine of `alignment`, a few units of work in a turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flnet.algorithms.vertical.aligned_batches import ordered_by_ids
from flnet.algorithms.vertical.alignment import Follower, Leader, follower, leader
from flnet.algorithms.vertical.groups import Group
from flnet.algorithms.vertical.holder import (
    Acceptance,
    Agreement,
    Aligned,
    AlignmentOpening,
    AlignmentWork,
    Chunk,
    Effect,
    PairKey,
    Randomness,
    SendToHolder,
    Terms,
)
from flnet.algorithms.vertical.holder import Failed as NothingInCommon
from flnet.algorithms.vertical.wire_form import written
from flnet.params.params import Params, PeerId
from flnet.protocol.vertical import TalkPart

UNITS = 4  # of alignment work in one turn, a tenth of a second each

AlignmentMessage = AlignmentOpening | Acceptance | PairKey | Chunk


@dataclass(frozen=True)
class Sent:
    """What is to be sent to a holder."""

    to: PeerId
    part: TalkPart
    arrays: Params


@dataclass
class Aligning:
    """The alignment of one holder.

    Attributes:
        ids: of its rows, normalised.
        seed: of the job.
        agreement: the common rows, ordered by their ids; None before its end.
        arrived: chunks that came.
    """

    machine: Leader | Follower
    ids: Sequence[str]
    seed: int
    agreement: Agreement | None = field(default=None, init=False)
    arrived: int = field(default=0, init=False)
    _work: AlignmentWork | None = field(default=None, init=False)

    @classmethod
    def of(cls, terms: Terms, me: PeerId, ids: Sequence[str], group: Group, secret: bytes, seed: int) -> Aligning:
        """The alignment of a holder with these ids; see `Conversation`."""
        randomness = Randomness.draw(group, len(ids), secret)
        is_leader = me == terms.leader
        machine = (
            leader(terms, ids, group, randomness) if is_leader else follower(terms, me, ids, group, randomness)
        )
        return cls(machine, ids, seed)

    @property
    def has_work(self) -> bool:
        """Whether there is more to do without a message."""
        return self._work is not None

    def start(self) -> list[Sent]:
        """What the leader has to say first."""
        return self._perform(self.machine.start()) if isinstance(self.machine, Leader) else []

    def receive(self, message: AlignmentMessage) -> list[Sent]:
        """Take a message.

        Raises:
            AlignmentRefused: it is wrong, or the holders have no id in common.
        """
        self.arrived += isinstance(message, Chunk)
        return self._perform(self.machine.receive(message))

    def work(self) -> list[Sent]:
        """Do some of the work that is to be done."""
        sent: list[Sent] = []
        for _ in range(UNITS):
            work, self._work = self._work, None
            if work is None:
                break
            sent += self._perform(self.machine.finished(work, work.run()))
        return sent

    def _perform(self, effects: Iterable[Effect]) -> list[Sent]:
        sent: list[Sent] = []
        for effect in effects:
            match effect:
                case SendToHolder(to, message):
                    sent.append(Sent(PeerId(to), *written(message)))
                case AlignmentWork():
                    self._work = effect
                case NothingInCommon(error):
                    raise error
                case Aligned(agreement):
                    self.agreement = ordered_by_ids(agreement, self.ids, self.seed)
        return sent
