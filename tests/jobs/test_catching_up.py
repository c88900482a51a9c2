"""A node that missed something: a start, a round, or many; and words that came before their time."""

from __future__ import annotations

import pytest

from flnet.effects import Average, CancelTimer, Send, SetTimer, Train
from flnet.events import (
    RoundTriggered,
    SendRefused,
    TimerFired,
)
from flnet.jobs import Phase
from flnet.messages import HyperParams, ModelParams, StartTraining
from flnet.params import PeerId
from tests.helpers import key, params
from tests.jobs.helpers import Bench, asked, came, declined

START_TIMER = "start:0:a"

# --- only an update told of the round


def test_a_round_known_from_an_update_is_entered_and_its_start_awaited() -> None:
    bench = Bench()
    bench.hear(came("a", 0, "a"))
    assert (bench.phase, bench.state.key, bench.one(SetTimer)) == (
        Phase.GATHERING,
        key(0),
        SetTimer(START_TIMER, 3),
    )
    assert bench.job.view()["received"] == ["a"]


def test_the_start_that_still_comes_is_joined_and_what_was_gathered_counts() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(came("c"))
    bench.hear(asked("a", w=[7, 8], hyper=HyperParams(e=3, u=0.5, b=2)))
    assert (bench.one(Train).params, bench.one(Train).hyper.e) == (params(w=[7, 8]), 3)
    assert CancelTimer(START_TIMER) in bench.effects
    bench.train()
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b", "c"]


def test_without_its_start_the_node_declines_and_averages_what_came() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(TimerFired(START_TIMER))
    said = bench.said(ModelParams)
    assert (said.declined, said.initiator, bench.one(Send).params) == (
        "the start of this round did not reach it",
        "a",
        None,
    )
    bench.hear(came("c"))
    assert [u.peer for u in bench.one(Average).updates] == ["a", "c"]
    bench.average()
    assert bench.w == [1, 1]


def test_after_it_declined_the_start_comes_too_late() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(TimerFired(START_TIMER))
    assert bench.hear(asked("a")) == []
    assert bench.phase is Phase.GATHERING


def test_the_start_timer_of_a_round_that_was_joined_means_nothing() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(asked("a"))
    assert bench.hear(TimerFired(START_TIMER)) == []
    assert bench.phase is Phase.TRAINING


def test_all_peers_updates_do_not_close_a_round_whose_start_may_come() -> None:
    bench = Bench(peers=["a"])
    bench.hear(came("a"))
    assert bench.phase is Phase.GATHERING


def test_a_trigger_while_listening_averages_what_came() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(RoundTriggered())
    assert [u.peer for u in bench.one(Average).updates] == ["a"]


# --- the mesh is ahead of the one who starts


def behind(current: int | None = 7, path: str = StartTraining.path, error: str = "stale_round") -> SendRefused:
    return SendRefused(PeerId("a"), path, key(0, "b"), 409, error, "words", current)


@pytest.mark.parametrize("current", [0, 7])  # 0: a peer averaged this very round already
def test_an_initiator_that_is_behind_starts_the_next_round_and_sits_it_out(current: int) -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(behind(current))
    assert (bench.phase, bench.state.key) == (Phase.GATHERING, key(current + 1, "b"))
    start, word = bench.said(StartTraining), bench.said(ModelParams)
    assert (start.round, start.base_round) == (current + 1, -1)
    assert word.declined == f"its model is of round -1, the mesh is in round {current}"
    assert bench.all(Train) == []
    bench.hear(came("a", current + 1, "b", w=[4, 4]))
    bench.hear(came("c", current + 1, "b", w=[6, 6]))
    bench.average()
    assert bench.w == [5, 5]


@pytest.mark.parametrize(
    "refusal",
    [
        behind(None),
        behind(7, path=ModelParams.path),
        behind(7, error="round_lost"),
        behind(2**53),
        SendRefused(PeerId("a"), StartTraining.path, key(3, "b"), 409, "stale_round", "", 7),  # an older start
    ],
)
def test_other_refusals_move_no_round(refusal: SendRefused) -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(refusal)
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(0, "b"))


def test_an_initiator_that_left_its_start_for_a_round_that_is_over_starts_the_next_one() -> None:
    """A node without its memory hears again what was said in the round that it has just started anew."""
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "a"))
    assert bench.state.key == key(0, "a")
    bench.hear(behind(0))
    assert (bench.phase, bench.state.key) == (Phase.GATHERING, key(1, "b"))
    assert bench.said(StartTraining).round == 1
    assert bench.said(ModelParams).declined == "its model is of round -1, the mesh is in round 0"


def test_a_refusal_of_anothers_round_moves_no_round() -> None:
    bench = Bench()
    bench.hear(asked("a"))
    bench.train()
    bench.hear(SendRefused(PeerId("c"), ModelParams.path, key(0, "a"), 409, "stale_round", "", 7))
    assert bench.state.key == key(0)


# --- words that came early


def test_early_words_wait_for_the_average_and_count_in_their_round() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(came("c", 0, "b"))
    average = bench.one(Average)
    bench.hear(came("a", 1, "a", w=[8, 8]))
    bench.hear(declined("c", 1, "a"))
    assert bench.phase is Phase.AVERAGING
    bench.effects = [average]
    bench.average()
    assert (bench.phase, bench.state.key, bench.job.view()["received"]) == (Phase.GATHERING, key(1), ["a"])
    bench.hear(asked("a", 1))
    bench.train()
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b"]


def test_early_words_of_a_round_that_was_overtaken_are_dropped() -> None:
    bench = Bench()
    bench.hear(declined("c", 3, "a"))
    bench.hear(declined("a", 9, "a"))
    bench.hear(asked("a", 5))
    assert list(bench.state.early) == ["a"]


def test_of_a_peers_early_words_that_on_the_newest_round_is_kept_and_rather_an_update() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))  # averaging now: everything newer is early
    kept = []
    for word in (
        *(declined("a", 1), came("a", 1), declined("a", 1), declined("a", 3)),
        *(came("a", 2), came("a", 3, "z"), came("a", 3)),
    ):
        bench.hear(word)
        kept.append(bench.state.early[PeerId("a")])
    assert [type(word).__name__[0] for word in kept] == ["D", "U", "U", "D", "D", "D", "U"]


def test_strangers_cannot_fill_the_memory_with_early_words() -> None:
    bench = Bench()
    for i in range(300):
        bench.hear(declined(f"stranger-{i}", 3))
    assert len(bench.state.early) == 256
