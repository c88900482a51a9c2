"""A job on the bench whose node can be killed: what it saved goes to the job that takes its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from flnet.errors import StaleRound
from flnet.node.performer import restored_of
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, Effect, Evaluate, Save
from flnet.protocol.events import (
    AveragingFailed,
    ClaimReceived,
    DataChanged,
    EvaluationFailed,
    Event,
    Fetched,
    Paused,
    PeerLost,
    PeerSeen,
    PrepareFailed,
    Restored,
    Resumed,
    RoundTriggered,
    SendRefused,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateOffered,
    WillingnessChanged,
)
from flnet.protocol.messages import ChoiceMessage, StartTraining
from flnet.rounds.job import Job
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.store.base import SavedJob
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, declaration, declined, prepared, settings


class Lasting(Bench):
    """Keeps every Save, as a store would."""

    def __init__(self, me: str = "b", peers: Sequence[str] = ("a", "c"), rules: Rules | None = None) -> None:
        self.saved, self.rules = SavedJob(), rules
        super().__init__(me, peers, rules=rules)

    def hear(self, event: Event) -> list[Effect]:
        super().hear(event)
        for save in self.all(Save):
            self.saved = kept(self.saved, save)
        return self.effects

    def restart(self, prepare: bool = True) -> list[Effect]:
        """Kill the node, and start it again: it knows what was saved, and no peer yet."""
        self.job = Job(settings(self.job.settings.my_id, self.rules))
        self.hear(restored_of(self.saved))
        return self.hear(prepared(w=(50, 50))) if prepare else self.effects

    def meet(self, name: str) -> list[Effect]:
        """A peer is reachable (again)."""
        return self.hear(PeerSeen(PeerId(name)))


def kept(saved: SavedJob, save: Save) -> SavedJob:
    """What is kept after this Save."""
    return saved.then(SavedJob.of(save))


def _earlier(*events: str) -> Restored:
    bench = Lasting(peers=["a"])
    bench.hear(RoundTriggered())
    for event in events:
        if event == "trained":
            bench.train()
        elif event == "came":
            bench.hear(came("a", 0, "b"))
        else:
            bench.average()
    return restored_of(bench.saved)


def _goes_on(*events: str) -> list[Event]:
    return [_earlier(*events), prepared()]


def _a_series_goes_on() -> list[Event]:
    """A series that a pause had held up goes on when the peer of then is back."""
    bench = Lasting(peers=["a"])
    for event in (RoundTriggered(2), Paused(), TrainingFailed(key(0, "b"), "no memory"), declined("a", 0, "b")):
        bench.hear(event)
    return [restored_of(bench.saved), prepared(), Resumed(), PeerSeen(PeerId("a"))]


# What a job hears after a restart, so that every step out of LOADING that only a restart takes is seen; and rounds that
# a person requests while the data are being loaded.
def _missed_while_loading(*then: Event) -> list[Event]:
    """Two peers state an average that this node has no part in, before its data are there."""
    peers = [PeerSeen(PeerId(name)) for name in "ac"]
    return [*peers, *(ClaimReceived(claim(name, 4, contributors=2)) for name in "ac"), *then]


def _takes_an_average_again() -> list[Event]:
    bench = Lasting(peers=["a", "c"])
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, contributors=2)))
    return [restored_of(bench.saved), prepared(), TimerFired("start:0:a")]


RESTARTS = [
    _goes_on(),
    _goes_on("trained"),
    _goes_on("trained", "came"),
    _goes_on("trained", "came", "averaged"),
    _a_series_goes_on(),
    _takes_an_average_again(),
    [RoundTriggered(), prepared()],
    _missed_while_loading(PrepareFailed("no rows"), prepared()),
    _missed_while_loading(PrepareFailed("no rows"), DataChanged(declaration(), params(w=(0, 0)))),
]


# --- Short runs of a job around rounds for which this node may not be chosen, for the table of steps.


A = PeerId("a")
SOME = Rules(Participation(0.3, 1))  # one of three nodes trains


class Others(Participation):
    """Node a always trains, whichever node starts a round."""

    def choice_of(self, members: Collection[PeerId], *more: object) -> ChoiceMessage:
        return ChoiceMessage(members=("a",), take=1)


OTHERS = Rules(Others())


def a_better_model_of_the_exchange_is_no_good(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=3))
    for number in (0, 1):
        bench.train()
        bench.hear(came("a", number, "b"))
        bench.average()
        bench.measure()
        better = claim("a", number, accuracy=0.99)
        bench.hear(ClaimReceived(replace(better, params=None) if number else better))
        bench.hear(Fetched(key(number, "b"), A, better.digest or params().digest, params(w=[1])))
        bench.hear(EvaluationFailed(key(number, "b"), better.digest or params().digest, "killed"))


def the_only_peer_is_lost_while_the_average_is_measured(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    measure = bench.one(Evaluate)
    bench.hear(PeerLost(A, "silent"))
    bench.effects = [measure]
    bench.measure()


def the_only_peer_is_lost_in_the_exchange(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    bench.hear(PeerLost(A, "silent"))


def a_round_that_was_begun_before_ends_by_what_was_said_then(bench: Bench) -> None:
    """This node was started again without its memory: who is chosen took no part in its round 0, and says so."""
    bench.job.settings.rules = OTHERS
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    bench.hear(SendRefused(A, StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0))


CHOOSING: list[Callable[[Bench], None]] = [
    a_better_model_of_the_exchange_is_no_good,
    the_only_peer_is_lost_while_the_average_is_measured,
    the_only_peer_is_lost_in_the_exchange,
    a_round_that_was_begun_before_ends_by_what_was_said_then,
]


# --- A node that is much slower than its peers, and short runs of it for the table of steps.


LATE = Rules(staleness=2)


def slow(bench: Bench) -> Bench:
    """Of this node it is known that it takes ten times as long as its peers."""
    bench.job.settings.rules = LATE
    for name, seconds in (("a", 1.0), ("b", 10.0), ("c", 1.0)):
        bench.job.peers.paces.note(PeerId(name), seconds, 1)
    return bench


def ended(number: int, w: float = 8.0) -> Event:
    """The training that began in this round, which a started, is done."""
    return Trained(key(number), params(w=[w, w]), 4, 0.5, seconds=10.0)


def go_by(bench: Bench, number: int) -> None:
    """A round of the others begins, and is averaged here."""
    bench.hear(asked("a", number))
    for name in sorted(bench.job.peers.here):
        bench.hear(came(name, number))
    bench.average()


def awaited(bench: Bench) -> None:
    """Two rounds have gone by: the third one waits for this node."""
    slow(bench)
    go_by(bench, 0)
    go_by(bench, 1)
    bench.hear(asked("a", 2))


def awaited_and_done(bench: Bench) -> None:
    awaited(bench)
    bench.hear(came("a", 2))
    bench.hear(ended(0))


def awaited_and_failed(bench: Bench) -> None:
    awaited(bench)
    bench.hear(came("a", 2))
    bench.hear(TrainingFailed(key(0), "no memory"))


def awaited_and_failed_without_any_update(bench: Bench) -> None:
    awaited(bench)
    for peer in sorted(bench.job.peers.here):
        bench.hear(came(peer, 2)) if peer != "a" else None
    bench.round.gathering.expected.discard(PeerId("a"))
    bench.hear(TrainingFailed(key(0), "no memory"))


def awaited_and_failed_in_a_series(bench: Bench) -> None:
    awaited(bench)
    bench.job.series.left = 1
    bench.round.gathering.expected.discard(PeerId("a"))
    bench.hear(TrainingFailed(key(0), "no memory"))


AWAITED: list[Callable[[Bench], None]] = [
    awaited_and_done,
    awaited_and_failed,
    awaited_and_failed_without_any_update,
    awaited_and_failed_in_a_series,
]


# --- Scripts for the steps of a paused job: rare in a random walk, each of them possible.


PAUSE = Paused()
HOURS_END = WillingnessChanged("outside of its hours")  # unlike a pause, it ends no training
LATER = 7  # a round far ahead: joined without an average in between


def nothing(bench: Bench) -> None:
    """IDLE."""


def training(bench: Bench) -> None:
    bench.hear(RoundTriggered())


def listening(bench: Bench) -> None:
    bench.hear(came("a"))


def fetching(bench: Bench) -> None:
    bench.hear(replace(asked("a"), params=None, digest=params(w=[1, 1]).digest))


def averaging(bench: Bench) -> None:
    training(bench)
    bench.train()
    bench.hear(came("a", 0, "b"))


def measuring(bench: Bench) -> None:
    averaging(bench)
    bench.average()


def exchanging(bench: Bench) -> None:
    bench.through_average(by=["a"])


def offered(by: str) -> UpdateOffered:
    """An update of the later round, to be fetched."""
    update = came(by, LATER, by).update
    return UpdateOffered(replace(update, params=Params()), update.params.digest)


STARTED: list[Event] = [asked("a", LATER)]
STARTED_WITHOUT_ITS_PEER: list[Event] = [declined("a", LATER), asked("a", LATER)]
TOLD_BY_ITS_UPDATE: list[Event] = [came("a", LATER)]
SPOKE_OF_A_NEWER_ONE: list[Event] = [declined("a", LATER, "z"), declined("z", LATER + 2, "z")]
TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE: list[Event] = [*SPOKE_OF_A_NEWER_ONE, came("z", LATER, "z")]
OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE: list[Event] = [*SPOKE_OF_A_NEWER_ONE, offered("z")]


def then(reach: Callable[[Bench], None], events: Sequence[Event], bench: Bench, stop: Event = PAUSE) -> None:
    """Get somewhere, pause, and hear these."""
    reach(bench)
    bench.hear(stop)
    for event in events:
        bench.hear(event)


def others_have_spoken(reach: Callable[[Bench], None], word: Event, bench: Bench) -> None:
    """A person pauses the job when nobody but this node is waited for."""
    reach(bench)
    bench.hear(word)
    bench.hear(Paused())


def average_ends(events: Sequence[Event], fails: bool, bench: Bench) -> None:
    """While the average of round 0 is made, a later round begins elsewhere."""
    averaging(bench)
    average = bench.one(Average)
    then(nothing, events, bench)
    bench.effects = [average]
    if fails:
        bench.hear(AveragingFailed(key(0, "b"), "overflow"))
    else:
        bench.average()
    assert not bench.all(Evaluate)


def a_series_goes_on(bench: Bench) -> None:
    """A series is held up after its first round, and goes on."""
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(Paused())
    bench.hear(declined("a", 0, "b"))
    bench.average()
    bench.measure()
    bench.hear(PeerLost(PeerId("a"), "silent"))
    bench.hear(Resumed())


SAT_OUT_ALONE = (
    STARTED_WITHOUT_ITS_PEER,
    TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE,
    OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE,
)
PAUSING: list[Callable[[Bench], None]] = [
    a_series_goes_on,
    *(
        partial(then, reach, events)
        for reach, events in product(
            (nothing, training, listening, fetching, measuring, exchanging),
            (
                STARTED,
                STARTED_WITHOUT_ITS_PEER,
                TOLD_BY_ITS_UPDATE,
                TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE,
                OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE,
            ),
        )
    ),
    *(
        partial(then, reach, events, stop=HOURS_END)
        for reach, events in product(
            (training, fetching),
            (STARTED_WITHOUT_ITS_PEER, TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE, OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE),
        )
    ),
    *(
        partial(others_have_spoken, reach, word)
        for reach, word in (
            (fetching, came("a")),
            (fetching, declined("a")),
            (awaited, came("a", 2)),
            (awaited, declined("a", 2)),
        )
    ),
    *(
        partial(average_ends, events, fails)
        for events, fails in product((TOLD_BY_ITS_UPDATE, STARTED_WITHOUT_ITS_PEER), (False, True))
    ),
]


# --- What happens to a job in series with a goal, as scripts for the table of steps.


def peers_series(bench: Bench) -> None:
    """A round of a series that peer a started, over here and there."""
    mine = Bench("a", peers=["b"])
    mine.hear(RoundTriggered(9, until="accuracy>=0.9"))
    bench.hear(asked("a", 0, series=mine.job.series.stopping.message()))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.measure(0.5)
    bench.hear(TimerFired("exchange:0:a"))


def who_was_to_start_the_next_round_is_gone(bench: Bench) -> None:
    peers_series(bench)
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(PeerLost(A, "gone"))


def its_turn_comes_while_it_is_unwilling(bench: Bench) -> None:
    peers_series(bench)
    bench.hear(WillingnessChanged("outside of the hours"))
    bench.hear(TimerFired("goal:next"))
    bench.hear(WillingnessChanged())


WITH_GOAL = [
    who_was_to_start_the_next_round_is_gone,
    its_turn_comes_while_it_is_unwilling,
]
