"""Nodes that label differently take turns, and a trainer with nothing to add sits a round out."""

from __future__ import annotations

import pytest

from flnet.effects import Publish, Train
from flnet.events import Paused, RoundTriggered, TrainingFailed, Turn
from flnet.jobs import Phase
from flnet.messages import ModelParams
from tests.helpers import key
from tests.jobs.helpers import Bench, asked, came, declined, prepared

DESIRED, OTHER = Turn("two-phase", is_desired=True), Turn("two-phase", is_desired=False)


@pytest.mark.parametrize(
    ("turn", "number", "trains"),
    [
        (None, 0, True),
        (DESIRED, 0, True),
        (DESIRED, 1, False),
        (OTHER, 0, False),
        (OTHER, 1, True),
        (Turn("parallel", is_desired=True), 1, True),
        (Turn("parallel", is_desired=False), 0, True),
        (Turn("coarse-first", is_desired=False, turning=2), 1, True),
        (Turn("coarse-first", is_desired=False, turning=1), 1, False),
        (Turn("coarse-first", is_desired=True, turning=2), 1, False),
        (Turn("coarse-first", is_desired=True, turning=1), 1, True),
    ],
)
def test_who_trains_when(turn: Turn | None, number: int, trains: bool) -> None:
    bench = Bench(peers=["a"], prepare=False)
    bench.hear(prepared(turn=turn))
    bench.hear(asked("a", number))
    assert [type(one) for one in bench.all(Train)] == [Train] * trains


def test_who_is_not_at_turn_says_so_and_averages_what_the_others_learn() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    bench.hear(asked("a"))
    words = "this round is for nodes with labels of the desired space; it trains in the next one"
    assert bench.said(ModelParams).declined == words
    bench.hear(came("a", w=(4, 6)))
    bench.average()
    assert (bench.phase, bench.w) == (Phase.MEASURING, [4, 6])


def test_a_round_in_which_nobody_is_at_turn_leaves_the_model_as_it_was() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    before = bench.w
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    assert (bench.phase, bench.w) == (Phase.IDLE, before)
    assert "no update came" in str(bench.job.history()[0]["outcome"])


def test_a_pause_is_told_before_a_turn() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    bench.hear(Paused())
    bench.hear(asked("a"))
    assert bench.said(ModelParams).declined == "paused by a person here"


def test_a_trainer_with_nothing_to_add_sits_out_without_an_error() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(TrainingFailed(key(0, "a"), "the correspondence is not known well enough", is_choice=True))
    assert bench.said(ModelParams).declined == "the correspondence is not known well enough"
    assert (bench.phase, bench.state.error) == (Phase.GATHERING, None)
    assert "sits_out" in {publish.kind for publish in bench.all(Publish)}
    bench.hear(came("a", w=(4, 6)))
    bench.average()
    assert bench.w == [4, 6]
