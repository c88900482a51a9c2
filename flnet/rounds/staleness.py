"""Bounded staleness: a slow node keeps training while other nodes move on, and its update counts in a later round.

Nobody waits for such a node until its training is as many rounds old as people allow: that round waits for it. A
late update counts with a lower weight, the same on every node, because it states itself how late it is. So slow
nodes are neither waited for in every round nor left out for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flnet.errors import ParamsRefused
from flnet.params.params import Digest, Params
from flnet.protocol.effects import CancelWork, Effect, Train
from flnet.protocol.events import Trained, TrainingFailed
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.history import RoundRecord
from flnet.rounds.model import HeldModel
from flnet.rounds.settings import JobSettings
from flnet.text import text

LATE = text("its training goes on over this round, and counts when it is done")  # what peers read


@dataclass(frozen=True)
class Behind:
    """A training that is under way for an earlier round, or one whose rounds do not wait for it.

    Attributes:
        base: of the shared parameters that it began with.
    """

    key: RoundKey
    base: Digest


@dataclass(frozen=True)
class Late:
    """The result of a training that finished after its round closed.

    Attributes:
        update: as of the round in which the training began.
        event: with the figures.
    """

    update: Update
    event: Trained

    def counted_in(self, key: RoundKey, memory: Digest | None) -> Update:
        """The update as it is sent in a later round.

        Args:
            memory: see `Update`.
        """
        return replace(self.update, key=key, staleness=key.number - self.update.key.number, memory=memory)


class Staleness:
    """A local training that lasts longer than its round, or its result, which counts in the next round.

    Attributes:
        behind: the training that is under way.
        late: its result.
    """

    def __init__(self, settings: JobSettings, held: HeldModel) -> None:
        self._settings, self._held = settings, held
        self.behind: Behind | None = None
        self.late: Late | None = None

    @property
    def bound(self) -> int:
        """The number of rounds that an update may be late; 0 if it may not."""
        return self._settings.rules.staleness

    @property
    def base(self) -> Digest | None:
        """The digest of the parameters that the current training began with."""
        return self.behind.base if self.behind else None

    def leave(self, key: RoundKey) -> list[Effect]:
        """A newer round begins while this node trains: the training goes on, or stops where no update may be late."""
        if not self.bound:
            return [CancelWork(key)]
        self.behind = self.behind or Behind(key, self._held.current.shared.digest)
        return []

    def enter_round(self, number: int) -> list[Effect]:
        """Give up what would come too late for the round that opens."""
        if self.late is not None and number - self.late.update.key.number > self.bound:
            self.late = None
        if self.behind is None or number - self.behind.key.number <= self.bound:
            return []
        stopped = CancelWork(self.behind.key)
        self.behind = None
        return [stopped]

    def give_up(self) -> list[Effect]:
        """A person ends the training that is under way."""
        behind, self.behind = self.behind, None
        return [] if behind is None else [CancelWork(behind.key, at_once=True)]

    def is_awaited(self, number: int) -> bool:
        """Whether the round waits for the training that is under way, which may not be later."""
        return self.behind is not None and number - self.behind.key.number >= self.bound

    def take_late(self, number: int) -> Late | None:
        """The result that counts in this round; asked once."""
        if self.late is None or self.late.update.key.number >= number:
            return None
        late, self.late = self.late, None
        return late

    def begin(self, key: RoundKey) -> list[Effect]:
        """Train from the model held, over as many rounds as it takes; not if a training is under way already."""
        if self.behind is not None:
            return []
        model, hyper = self._held.current, self._settings.round_hyper
        assert hyper is not None
        self.behind = Behind(key, model.shared.digest)
        return [Train(key, model.full, hyper)]

    def is_of(self, key: RoundKey) -> bool:
        """Whether the end of this training is the one that is awaited here."""
        return self.behind is not None and key == self.behind.key

    def end(self, event: Trained | TrainingFailed) -> Late | str:
        """The training is over: its result, or why there is none."""
        behind, self.behind = self.behind, None
        assert behind is not None
        if isinstance(event, TrainingFailed):
            return event.reason
        try:
            shared, private = self._held.split(event)
        except ParamsRefused as exc:
            return text("training gave unusable parameters: {reason}", exc)
        self._held.learn(private)
        figures = (event.examples, event.labels, event.accuracy, behind.base)
        return Late(Update(self._settings.my_id, event.key, shared, *figures), event)

    def keep(self, late: Late) -> None:
        """The result counts in the next round."""
        self.late = late

    def take_back(self, record: RoundRecord, number: int) -> None:
        """Another start of the open round counts: a late update that was sent in this one is sent again in that."""
        own = self._held.own_of(record.key)
        if own is None or not own.staleness:
            return
        began = replace(own, key=replace(own.key, number=number - own.staleness))
        figures = (own.examples or 0, record.pre_accuracy or 0.0, own.labels, record.seconds.get("train", 0.0))
        self.late = Late(began, Trained(began.key, Params(), *figures, record.metrics.get("before", {})))
