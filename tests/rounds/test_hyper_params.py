"""Whose hyper-parameters a round has: those of its start, for that round alone. A node keeps its own for its own rounds."""

from __future__ import annotations

from dataclasses import replace

from flnet.node.performer import restored_of
from flnet.params.params import PeerId
from flnet.protocol.effects import Train
from flnet.protocol.events import (
    HyperParamsEdited,
    PeerLost,
    PeerSeen,
    RoundTriggered,
    TimerFired,
    TrainingAsked,
)
from flnet.protocol.messages import HyperParams, SeriesMessage, StartTraining
from flnet.rounds.limits import Limits
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import HYPER
from tests.rounds.helpers import Bench, asked, came
from tests.rounds.scenarios import Lasting
from tests.rounds.test_peer_versions import AloneBench

THEIRS = HyperParams(e=5, u=0.25, b=16)
CHOSEN = HyperParams(e=3, u=0.5, b=8)
LIMITS = Limits(epochs=4, batch_size=64, batches=500, learning_rate=1e6)
SERIES = SeriesMessage(by="a", first=0, until="accuracy>=0.9", rounds=9)


def of_a(number: int = 0, hyper: HyperParams = THEIRS, series: SeriesMessage | None = None) -> TrainingAsked:
    return asked("a", number, hyper=hyper, series=series)


def play(bench: Bench, start: TrainingAsked) -> None:
    """A round that the only peer starts, over here and there."""
    bench.hear(start)
    if bench.all(Train):
        bench.train()
    bench.hear(came("a", start.key.number))
    bench.average()
    bench.measure(0.5)
    bench.hear(TimerFired(f"exchange:{start.key.number}:a"))
    assert bench.phase is Phase.IDLE


def its_turn(bench: Bench) -> None:
    """The peer that started all rounds so far does not start the next one in time, or is gone and another is here."""
    bench.hear(TimerFired("goal:next"))


def test_those_of_a_peer_count_for_its_round_alone() -> None:
    bench = Bench(peers=["a"])
    play(bench, of_a())
    bench.hear(RoundTriggered())
    assert bench.one(Train).hyper == HYPER
    assert bench.said(StartTraining).federated_learning_params == HYPER


def test_what_a_person_chose_stays_whatever_peers_start() -> None:
    bench = Bench(peers=["a"])
    bench.hear(HyperParamsEdited({"e": 3, "u": 0.5, "b": 8}))
    play(bench, of_a())
    bench.hear(RoundTriggered(rounds=2))
    assert bench.one(Train).hyper == CHOSEN
    bench.hear(of_a(2))  # between two rounds that were asked for here
    assert bench.one(Train).hyper == THEIRS
    bench.train()
    bench.hear(came("a", 2))
    bench.average()
    bench.measure()
    bench.hear(TimerFired("exchange:2:a"))
    assert bench.one(Train).hyper == CHOSEN


def test_the_view_tells_the_rounds_from_this_nodes() -> None:
    bench = Bench(peers=["a"])
    assert (bench.job.view().hyper, bench.job.view().round_hyper) == (HYPER, None)
    bench.hear(of_a())
    bench.hear(HyperParamsEdited({"e": 9}))  # in the middle of it
    view = bench.job.view()
    assert (view.hyper, view.round_hyper) == (HYPER.model_copy(update={"e": 9}), THEIRS)
    assert view.federated_learning_params == THEIRS.words()


def test_a_round_that_asks_for_too_much_has_none_that_this_node_trains_by() -> None:
    bench = Bench(peers=["a"], rules=Rules(limits=LIMITS))
    bench.hear(of_a())
    assert (bench.all(Train), bench.job.view().round_hyper) == ([], None)


def test_what_other_nodes_would_not_train_by_is_said_where_it_is_chosen() -> None:
    rules = Rules(limits=LIMITS)
    bench = Bench(peers=["a"], rules=rules)
    assert "asks_too_much" not in bench.job.view().as_json()
    bench.hear(HyperParamsEdited({"e": 5}))
    view = bench.job.view()
    assert "expected at most 4 epochs in a round of another node, got 5" in view.asks_too_much
    assert "asks_too_much" not in view.for_peers()
    bench.hear(RoundTriggered())  # no limit binds the rounds that start here
    assert bench.one(Train).hyper.e == 5
    bench.hear(HyperParamsEdited({"e": 4}))
    assert bench.job.view().asks_too_much == ""
    asynchronous = AloneBench(peers=())
    asynchronous.job.settings.rules = replace(asynchronous.job.settings.rules, limits=LIMITS)
    asynchronous.hear(HyperParamsEdited({"e": 5}))  # nobody else trains by them
    assert asynchronous.job.view().asks_too_much == ""


def test_a_restart_keeps_both_and_a_round_goes_on_with_its_own() -> None:
    bench = Lasting(peers=["a"])
    bench.hear(HyperParamsEdited({"e": 3, "u": 0.5, "b": 8}))
    bench.hear(of_a())
    bench.restart()
    assert bench.one(Train).hyper == THEIRS
    assert (bench.job.settings.hyper, bench.job.view().round_hyper) == (CHOSEN, THEIRS)


def test_a_state_of_an_earlier_version_goes_on_with_the_only_ones_that_it_has() -> None:
    bench = Lasting(peers=["a"])
    bench.hear(of_a())
    before = restored_of(bench.saved)
    snapshot = {**before.snapshot, "hyper": THEIRS.fields()}
    del snapshot["round_hyper"]
    again = Bench(peers=[], prepare=False)
    again.hear(replace(before, snapshot=snapshot))
    assert (again.job.settings.hyper, again.job.settings.of_round) == (THEIRS, THEIRS)


# --- series with a goal


def test_a_node_goes_on_with_a_peers_series_by_the_hyper_parameters_of_the_series() -> None:
    bench = Bench(peers=["a"])
    play(bench, of_a(series=SERIES))
    its_turn(bench)
    start = bench.said(StartTraining)
    assert (start.federated_learning_params, bench.one(Train).hyper) == (THEIRS, THEIRS)
    assert start.series is not None and start.series.hyper is None  # they are those of the start
    assert bench.job.settings.hyper == HYPER


def test_a_round_that_a_person_starts_meanwhile_changes_nothing_for_the_series() -> None:
    bench, other = Bench(peers=["a"]), Bench("a", peers=["b"])
    play(bench, of_a(series=SERIES))
    bench.hear(RoundTriggered())
    start = bench.said(StartTraining)
    assert (start.federated_learning_params, start.series and start.series.hyper) == (HYPER, THEIRS)
    other.hear(
        asked("b", 1, hyper=HYPER, series=start.series.model_copy(update={"by": "c"}) if start.series else None)
    )
    assert other.one(Train).hyper == HYPER
    assert other.job.series.stopping.hyper == THEIRS  # which it would start the next round with


def test_the_series_of_this_node_follows_nobody_else() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered(9, CHOSEN, until="accuracy>=0.9"))
    mine = bench.said(StartTraining).series
    bench.hear(of_a(1, series=mine))
    assert bench.one(Train).hyper == THEIRS
    assert bench.job.series.stopping.hyper == CHOSEN


def test_a_series_that_asks_for_too_much_is_left_to_others() -> None:
    bench = Bench(peers=["a", "c"], rules=Rules(limits=LIMITS))
    bench.hear(of_a(series=SERIES))
    bench.hear(came("a"))
    bench.hear(came("c"))
    bench.average()
    bench.measure(0.5)
    bench.hear(TimerFired("exchange:0:a"))
    bench.hear(PeerLost(PeerId("a"), "gone"))
    its_turn(bench)
    assert (bench.phase, bench.all(Train)) == (Phase.IDLE, [])
    bench.hear(asked("c", 1, series=SERIES))  # whose start states other ones
    assert bench.one(Train).hyper == HYPER


def test_a_restart_keeps_those_of_a_peers_series() -> None:
    bench = Lasting(peers=["a"])
    play(bench, of_a(series=SERIES))
    bench.restart()
    bench.hear(PeerSeen(PeerId("a")))
    its_turn(bench)
    assert bench.one(Train).hyper == THEIRS


def test_a_node_without_common_rounds_trains_by_its_own() -> None:
    bench = AloneBench(peers=())
    bench.hear(RoundTriggered(hyper=CHOSEN))
    assert bench.one(Train).hyper == CHOSEN
    bench.hear(HyperParamsEdited({"e": 9}))
    assert bench.job.view().round_hyper == CHOSEN
