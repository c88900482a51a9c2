"""The next rounds of a node: rounds that a person requested, a series with a goal, a round that a peer started.

`Opening` is a round about to open, `Inbox` keeps messages that came too early for it, and `Series` decides what opens
next. Nothing here touches the round that is open: what peers wait for, they get.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flnet.params.params import PeerId
from flnet.protocol.effects import CancelTimer, Effect, SetTimer
from flnet.protocol.events import (
    DeclineReceived,
    Planned,
    TrainingAsked,
    UpdateOffered,
    UpdateReceived,
    WillingnessChanged,
)
from flnet.protocol.messages import LAST_ROUND, MAX_PEERS, ChoiceMessage, HyperParams, SeriesMessage
from flnet.protocol.updates import RoundKey
from flnet.rounds.model import Start
from flnet.rounds.peers import Peers
from flnet.rounds.settings import JobSettings, Tell
from flnet.rounds.stopping import ALONE, Stopping
from flnet.text import text

Word = UpdateReceived | UpdateOffered | DeclineReceived  # what a peer says in a round


def key_of(word: Word) -> RoundKey:
    """The round that a peer's message is about."""
    return word.key if isinstance(word, DeclineReceived) else word.update.key


def next_key(number: int, me: PeerId, spoken: Collection[RoundKey]) -> RoundKey:
    """The round that a node starts next: none that peers have answered already, for it started that and forgot it.

    Args:
        number: of the newest round that it entered, below LAST_ROUND.
        spoken: rounds that are not open here yet and of which peers sent messages.
    """
    following = number + 1
    while following < LAST_ROUND and RoundKey(following, me) in spoken:
        following += 1
    return RoundKey(following, me)


@dataclass(frozen=True)
class Opening:
    """A round about to open.

    Attributes:
        hyper: what it is trained with; None when only an update told of it.
        start: the initiator's model; None when only an update told of it, or this node is the initiator.
        sits_out: why this node does not train in it; empty if it does.
        heard_start: False when only an update told of it: the start may still be on its way.
        series: with a goal, that the start says the round belongs to.
        choice: of who trains, as the start, or an update, says it.
        run: of the initiator's node, in which it started the round, as the start says it.
        why: why a schedule starts it here; empty if none does.
    """

    key: RoundKey
    hyper: HyperParams | None = None
    start: Start | None = None
    sits_out: str = ""
    heard_start: bool = True
    series: SeriesMessage | None = None
    choice: ChoiceMessage | None = None
    run: str | None = None
    why: str = ""

    @classmethod
    def told_by(cls, event: UpdateReceived | UpdateOffered) -> Opening:
        """A round of which only an update told."""
        return cls(event.update.key, heard_start=False, choice=event.choice, run=event.run)

    def started_by(self, me: PeerId) -> bool:
        """Whether this node is the initiator."""
        return self.key.initiator == me


class Inbox:
    """Messages that came too early: of rounds that are not open here yet, or before the trainer was loaded.

    Attributes:
        early: the newest one of each peer.
        asked_while_loading: the start of a round that comes first in the total order.
    """

    def __init__(self) -> None:
        self.early: dict[PeerId, Word] = {}
        self.asked_while_loading: TrainingAsked | None = None

    @property
    def keys(self) -> set[RoundKey]:
        """The rounds that the early messages are about."""
        return {key_of(word) for word in self.early.values()}

    @property
    def updates(self) -> list[UpdateReceived | UpdateOffered]:
        """The updates among the early messages."""
        return [word for word in self.early.values() if not isinstance(word, DeclineReceived)]

    def put(self, peer: PeerId, word: Word) -> None:
        """Keep a peer's message: of two, that of the newer round; of one round, rather an update than a refusal."""
        old = self.early.get(peer)
        if old is None:
            keep = len(self.early) < MAX_PEERS
        elif key_of(old) == key_of(word):
            keep = isinstance(old, DeclineReceived) and not isinstance(word, DeclineReceived)
        else:
            keep = key_of(word).beats(key_of(old))
        if keep:
            self.early[peer] = word

    def put_again(self, peer: PeerId, word: Word) -> None:
        """Keep, after a restart, the update that a peer had offered in the open round, until the peer is reachable."""
        self.early[peer] = word

    def take(self, peer: PeerId, key: RoundKey) -> Word | None:
        """A peer's message about this round, which is open now."""
        word = self.early.get(peer)
        if word is None or key_of(word) != key:
            return None
        return self.early.pop(peer)

    def take_all(self, key: RoundKey) -> list[Word]:
        """The messages about the round that opens now, updates before refusals so that none is too late.

        Those of later rounds stay, those of older ones go.
        """
        ripe = [word for word in self.early.values() if key_of(word) == key]
        self.early = {peer: word for peer, word in self.early.items() if key_of(word).beats(key)}
        return sorted(ripe, key=lambda word: isinstance(word, DeclineReceived))

    def clear(self) -> None:
        """The job begins with another model: what was said of the old one is worth nothing."""
        self.early = {}

    def ask_later(self, event: TrainingAsked) -> None:
        """Keep the start of a round until the trainer is loaded."""
        if self.asked_while_loading is None or event.key.beats(self.asked_while_loading.key):
            self.asked_while_loading = event

    def take_asked(self) -> TrainingAsked | None:
        """The start that was kept; asked once."""
        asked, self.asked_while_loading = self.asked_while_loading, None
        return asked


REGROUP = "regroup"  # timer
PAUSED = text("paused by a person here")  # what peers read


@dataclass(frozen=True)
class OwnSchedule:
    """The schedule that a person gave a job here, and from when it counts.

    Attributes:
        when: as `flnet.rounds.schedule` reads it; None while nobody set one: the node's own counts.
        since: seconds of the node's own clock, when the newest round was noticed; None if it never was needed.
    """

    when: str | None = None
    since: float | None = None


class Series:
    """The rounds that this node is to start, and whether it takes part in those of others.

    Attributes:
        left: rounds that this node was asked for and has not started yet.
        pending: a round that opens as soon as the step in progress allows it.
        paused: a person wants this node to sit rounds out.
        unwilling: why this node takes no part in rounds of others now, by its schedule; empty if it does.
        plan: when rounds start by themselves here.
        waits_for: peers that a series waits for after a restart. What a node would train alone before it has met
            its mesh again would outrun the mesh, or be refused by it.
        stopping: rounds that go on until a goal is reached.
    """

    def __init__(self, settings: JobSettings, peers: Peers, tell: Tell) -> None:
        self._settings, self._peers, self._tell = settings, peers, tell
        self.left = 0
        self.pending: Opening | None = None
        self.paused = False
        self.unwilling = ""
        self.plan = OwnSchedule()
        self.waits_for: set[PeerId] = set()
        self.stopping = Stopping(settings, peers, tell)

    @property
    def is_held_up(self) -> bool:
        """Whether a series waits: a person paused this node, or peers are not back after a restart."""
        return self.paused or bool(self.waits_for)

    @property
    def is_under_way(self) -> bool:
        """Whether rounds that a person asked for are still to come."""
        return self.left > 0 or self.stopping.series is not None

    @property
    def is_next(self) -> bool:
        """Whether this node starts the next round of those it was asked for."""
        return self.left > 0 and not self.is_held_up

    @property
    def is_due(self) -> bool:
        """Whether it is this node's turn to start the next round of a series with a goal."""
        return self.stopping.due and not (self.is_held_up or self.unwilling)

    # --- what opens next

    def propose(self, opening: Opening) -> None:
        """Remember a round to open; of several, the one that comes first in the total order stays.

        While it is paused, this node starts none itself.
        """
        if self.paused and opening.started_by(self._settings.my_id):
            return
        if (
            self.pending is None
            or opening.key.beats(self.pending.key)
            or (opening.key == self.pending.key and opening.heard_start)
        ):
            self.pending = opening

    def take_pending(self) -> Opening | None:
        """The round that opens now."""
        opening, self.pending = self.pending, None
        return opening

    def ask(self, rounds: int) -> None:
        """A person asked for so many rounds after the one that opens now."""
        self.left = rounds

    def count_down(self) -> None:
        """One of the rounds that were asked for is started."""
        self.left = max(0, self.left - 1)

    # --- what a person says

    def stop(self) -> list[Effect]:
        """Start none of the rounds that this node was asked for; an open one is the last."""
        left = self.left + self._withdraw()
        self.left = 0
        if not left:
            return []
        words = (
            text("no further round is started here: {count} of those asked for is left out", left)
            if left == 1
            else text("no further round is started here: {count} of those asked for are left out", left)
        )
        return [self._tell("series_stopped", words, left_out=left)]

    def pause(self) -> list[Effect]:
        """Sit out the rounds of peers and start none; those that were asked for stay until this node goes on."""
        if self.paused:
            return []
        self.paused = True
        self.left += self._withdraw()
        words = text("{trainer} takes no part in rounds here until a person resumes it", self._settings.trainer)
        return [self._tell("paused", words)]

    def resume(self) -> list[Effect]:
        """Take part again; a series that a pause held up goes on."""
        if not self.paused:
            return []
        self.paused = False
        return [self._tell("resumed", text("{trainer} takes part in rounds again", self._settings.trainer))]

    def schedule(self, event: Planned) -> list[Effect]:
        """A person set a schedule, or a round began from which the next one is counted."""
        before, self.plan = self.plan, OwnSchedule(event.when, event.since)
        if event.when == before.when:
            return []
        words = (
            text("the schedule of this node counts again")
            if event.when is None
            else text("the schedule is {schedule}", event.when)
        )
        return [self._tell("scheduled", words)]

    def change_willingness(self, event: WillingnessChanged) -> list[Effect]:
        """A condition of the schedule does not hold any more, or does again."""
        if event.reason == self.unwilling:
            return []
        self.unwilling = event.reason
        if event.reason:
            return [
                self._tell("unwilling", text("takes no part in rounds that others start: {reason}", event.reason))
            ]
        return [self._tell("willing", text("takes part in rounds of others again"))]

    # --- restarts

    def regroup(self, peers: Collection[str], key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """The trainer is loaded: if a series is under way, wait for the peers that were reachable before."""
        if not self.is_under_way:
            return []
        self.waits_for = set(map(PeerId, peers)) - self._peers.here
        deadline = self.stopping.restart_deadline()
        if self.waits_for:
            return [*deadline, SetTimer(REGROUP, ALONE * self._settings.waits.start)]
        return [*deadline, *self._go_on(key, is_idle)]

    def met(self, peer: PeerId, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """A peer is reachable: if it was the last one that was missing, the series goes on."""
        if peer not in self.waits_for:
            return []
        self.waits_for.discard(peer)
        return [] if self.waits_for else [CancelTimer(REGROUP), *self._go_on(key, is_idle)]

    def waited(self, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """Some peers did not come back in time: the series goes on without them."""
        if not self.waits_for:
            return []
        self.waits_for.clear()
        return self._go_on(key, is_idle)

    def view(self, number: int) -> Mapping[str, Any]:
        """Its figures in the view of the job.

        Args:
            number: of the round that the job is in.
        """
        return {"rounds_left": self.left, "goal": self.stopping.view(number), "paused": self.paused}

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        # The round that waits for an average counts, too.
        waits = self._has_withdrawable and self.stopping.series is None
        left = self.left + waits
        return {
            "rounds_left": left,
            "peers": sorted(self._peers.here | self.waits_for) if left or self.stopping.series else [],
            "pursuit": self.stopping.kept(),
            "paused": self.paused,
            "plan": [self.plan.when, self.plan.since],
        }

    def restore(self, left: int, stopping: Stopping, paused: bool, plan: OwnSchedule) -> None:
        """Take up what an earlier run saved."""
        self.left, self.stopping, self.paused, self.plan = left, stopping, paused, plan

    def restart_round(self) -> None:
        """A round that was asked for is begun again later."""
        self.left += 1

    def give_up(self) -> None:
        """The job begins with another model than the series was about."""
        self.left, self.stopping = 0, self.stopping.none()

    def _go_on(self, key: RoundKey | None, is_idle: bool) -> list[Effect]:
        """A series with a goal looks whose turn it is; the others begin by themselves when nothing holds them."""
        return self.stopping.take_turn(key) if self.stopping.series is not None and is_idle else []

    @property
    def _has_withdrawable(self) -> bool:
        return self.pending is not None and self.pending.started_by(self._settings.my_id)

    def _withdraw(self) -> int:
        """Take back a round of our own that only waits for the average in progress; how many that were."""
        if not self._has_withdrawable:
            return 0
        self.pending = None
        return 1
