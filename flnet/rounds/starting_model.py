"""From which model a node trains in a round: the initiator's, or its own.

The own one is kept where the initiator's is worse on the rows here, or does not come. Where all must begin with the same
one, the initiator's is due, and without it a node takes no part.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from enum import Enum, auto

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Effect, Fetch, SetTimer
from flnet.protocol.events import Evaluated, EvaluationFailed, Fetched, FetchFailed
from flnet.protocol.updates import RoundKey
from flnet.rounds.download import in_turn
from flnet.rounds.model import HeldModel, Start
from flnet.rounds.parts import LARGE_BYTES
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text

APART = text("a person here went back to another model than the one that this round starts from")


class AfterStart(Enum):
    """What the round does next."""

    WAIT = auto()  # it is not decided yet
    TRAIN = auto()  # from the model that is held
    TRAIN_FROM_START = auto()  # likewise; it is the initiator's, since now
    SIT_OUT = auto()
    FAIL = auto()  # sit out, because something did not work


@dataclass(frozen=True)
class StartDecision:
    """What follows for the round.

    Attributes:
        why: this node sits the round out; empty if it does not.
    """

    next: AfterStart
    effects: list[Effect]
    why: str = ""


class StartingModel:
    """Decides for one round from which model this node trains.

    Attributes:
        awaited: the initiator's model, while it is being downloaded or compared with the own one.
    """

    def __init__(
        self,
        key: RoundKey,
        settings: JobSettings,
        held: HeldModel,
        tell: Tell,
        came: Callable[[Digest, Params], None],
        here: Set[PeerId],
    ) -> None:
        """Args:
        here: peers that are reachable, now and later; they may hold a large model, too, and serve parts of it.
        came: is told of the initiator's model as soon as its parameters are here.
        """
        self._key, self._settings, self._held, self._tell, self._came = key, settings, held, tell, came
        self._here = here
        self.awaited: Start | None = None
        self._measured: dict[Digest, Evaluated] = {}

    @property
    def timer(self) -> str:
        """The timer that bounds the download of a start by a peer that has never sent an update."""
        return f"fetch:{self._key.number}:{self._key.initiator}"

    @property
    def is_due(self) -> bool:
        """Whether this node cannot train before the initiator's model has been downloaded."""
        return self.awaited is not None and self.awaited.is_due

    @property
    def is_compared(self) -> bool:
        """Whether the initiator's model and the own one are being measured."""
        return self.awaited is not None and self.awaited.params is not None

    def expect(self, start: Start | None) -> list[Effect]:
        """Note the initiator's model; one that is due and did not have to be downloaded is held at once."""
        if start is not None and start.is_due and start.params is not None:
            return self._hold(start, start.params)
        self.awaited = start
        return []

    def drop(self) -> None:
        """A node that does not train needs no start."""
        self.awaited = None

    def begin(self, has_contributed: Callable[[PeerId], bool]) -> StartDecision:
        """Decide, or find out what is needed for that.

        Args:
            has_contributed: whether an update of a peer was ever averaged here. Others are not waited for without end.
        """
        start = self.awaited
        if start is None:
            return StartDecision(AfterStart.TRAIN, [])
        if start.params is not None:
            return self._compare(start, start.params)
        words = text("fetching the model of round {number} from {peer}", start.round, start.peer)
        effects: list[Effect] = [
            Fetch(self._key, start.peer, start.digest, others=self._others(start.peer)),
            self._tell("fetching", words, peer=start.peer),
        ]
        if not (start.is_due or has_contributed(start.peer)):
            effects.append(SetTimer(self.timer, self._settings.waits.start))
        return StartDecision(AfterStart.WAIT, effects)

    def timer_fired(self) -> StartDecision:
        """Do not wait for the model of a peer that has never sent an update: it may never come."""
        start = self.awaited
        if start is None or start.params is not None:
            return StartDecision(AfterStart.WAIT, [])
        return self._keep_own(start, text("it did not come in time"))

    def fetched(self, event: Fetched | FetchFailed) -> StartDecision:
        """Go on with the initiator's model, or without it if it could not be downloaded.

        Without one that is due this node takes no part, because its own model differs.
        """
        start = self.awaited
        assert start is not None
        if isinstance(event, Fetched):
            if not start.is_due:
                return self._compare(start, event.params)
            return StartDecision(AfterStart.TRAIN_FROM_START, self._hold(start, event.params))
        number, peer = self._key.number, start.peer
        words = text(
            "the model that round {number} starts from could not be fetched from {peer}: {reason}",
            number,
            peer,
            event.reason,
        )
        if not start.is_due:
            return self._keep_own(start, words)
        self.awaited = None
        return StartDecision(AfterStart.FAIL, [self._tell("fetch_failed", words, peer=peer)], words)

    def measured(self, event: Evaluated | EvaluationFailed) -> StartDecision:
        """Handle a measurement of the initiator's model or of the own one: the better one is the start."""
        start = self.awaited
        assert start is not None and start.params is not None
        if event.digest not in (start.digest, self._held.digest):
            return StartDecision(AfterStart.WAIT, [])
        if isinstance(event, EvaluationFailed):
            return self._keep_own(start, text("one of the two could not be measured: {reason}", event.reason))
        self._measured[event.digest] = event
        own = self._held.current.shared
        theirs, ours = (self._measured.get(digest) for digest in (start.digest, own.digest))
        if theirs is None or ours is None:
            return StartDecision(AfterStart.WAIT, [self._held.compared(self._key, own)])
        rows = text("validation rows") if theirs.split == ours.split == "validation" else text("test rows")
        figures = (f"{theirs.accuracy:.4f}", f"{ours.accuracy:.4f}", rows)
        if not theirs.accuracy >= ours.accuracy:
            return self._keep_own(start, text("accuracy {theirs} against {ours} on {rows} of this node", *figures))
        words = text(
            "round {number} starts from the model of {peer}: accuracy {theirs} against {ours} on {rows} of this node",
            self._key.number,
            start.peer,
            *figures,
        )
        told = self._tell("start_taken", words, peer=start.peer, digest=start.digest)
        return StartDecision(AfterStart.TRAIN_FROM_START, [*self._hold(start, start.params), told])

    def _others(self, peer: PeerId) -> tuple[PeerId, ...]:
        if self._held.schema.nbytes < LARGE_BYTES:
            return ()
        return tuple(other for other in in_turn(self._here, self._settings.my_id) if other != peer)

    def _compare(self, start: Start, params: Params) -> StartDecision:
        """Measure the initiator's model, and the own one after it."""
        self._came(start.digest, params)
        self.awaited, self._measured = replace(start, params=params), {}
        return StartDecision(AfterStart.WAIT, [self._held.compared(self._key, params)])

    def _hold(self, start: Start, params: Params) -> list[Effect]:
        """Hold the initiator's model; people read of it if this ends a rollback of this node."""
        self._came(start.digest, params)
        self.awaited, left = None, self._held.start_with(start, params)
        if left is None:
            return []
        words = text(
            "going back to the model {digest} ends here: {peer} started a round from another one",
            left[:10],
            start.peer,
        )
        return [self._tell("roll_back_ended", words, digest=left, peer=start.peer)]

    def _keep_own(self, start: Start, why: str) -> StartDecision:
        """Train from the own model; a node whose person went back to it sits the round out, to disturb nobody's."""
        self.awaited = None
        words = text("the model that {peer} starts the round from was not taken: {reason}", start.peer, why)
        told: list[Effect] = [self._tell("start_refused", words, peer=start.peer, digest=start.digest)]
        if self._held.rolled_back:
            return StartDecision(AfterStart.SIT_OUT, told, APART)
        return StartDecision(AfterStart.TRAIN, told)
