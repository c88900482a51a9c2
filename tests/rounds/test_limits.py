"""Starts of other nodes that ask for more than this node trains for others: it sits the round out, and says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.protocol.effects import Send, Train
from flnet.protocol.events import Declaration, RoundTriggered
from flnet.protocol.messages import HyperParams, ModelParams, StartTraining
from flnet.rounds.limits import Limits
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench, asked, came, declaration, prepared
from tests.rounds.scenarios import Lasting

LIMITS = Limits(epochs=20, batch_size=64, batches=500, learning_rate=10_000)
HUGE = HyperParams(e=10_000, u=0.1, b=1)
WORDS = "the start asks for too much: expected at most 20 epochs in a round of another node, got 10000"


def hyper(e: int, b: int, u: float = 0.1) -> HyperParams:
    return HyperParams(e=e, u=u, b=b)


def declared(rows: int = 100, defaults: HyperParams = HYPER, **limits: float) -> Declaration:
    return declaration(data={"rows": {"train": rows}}, defaults=defaults, limits=limits)


@pytest.mark.parametrize(
    ("asked", "declared", "refusal"),
    [
        (hyper(20, 4), declared(), ""),
        (hyper(21, 4), declared(), "at most 20 epochs in a round of another node, got 21"),
        (hyper(5, 1), declared(), ""),
        (hyper(6, 1), declared(), "at most 500 batches in all in a round of another node, got 600"),
        (hyper(1, 1_000_000), declared(rows=64), ""),  # no batch is larger than all rows
        (
            hyper(1, 1_000_000),
            declared(rows=65),
            "batches of at most 64 examples in a round of another node, got 65",
        ),
        (hyper(20, 1), declared(rows=0), ""),  # nobody knows how many batches that is
        (hyper(1, 65), declared(rows=0), "batches of at most 64 examples"),
        (hyper(4, 8), declared(epochs=3), "at most 3 epochs"),  # the trainer declares less
        (hyper(4, 8), declared(batches=51), "at most 51 batches in all in a round of another node, got 52"),
        (hyper(21, 4), declared(epochs=9_999), "at most 20 epochs"),  # it cannot declare more
        (hyper(30, 200), declared(defaults=hyper(30, 200)), ""),  # but what it does by default is allowed
        (hyper(31, 200), declared(defaults=hyper(30, 200)), "at most 30 epochs"),
    ],
)
def test_epochs_batches_and_their_size_are_limited(
    asked: HyperParams, declared: Declaration, refusal: str
) -> None:
    words = LIMITS.exceeded(asked, declared)
    assert refusal in words and bool(words) == bool(refusal)


@pytest.mark.parametrize(
    ("u", "declared", "most"),
    [
        (0.008, declared(defaults=hyper(1, 1, u=0.0008)), ""),  # 10 * 0.0008, whatever floating point makes of it
        (0.0081, declared(defaults=hyper(1, 1, u=0.0008)), "0.008"),
        (1000, declared(defaults=hyper(1, 1, u=0.1)), "1"),
        (1e-9, declared(defaults=hyper(1, 1, u=0.1)), ""),
        (0.3, declared(defaults=hyper(1, 1, u=0.1), learning_rate=0.2), "0.2"),  # the trainer declares less
        (5, declared(defaults=hyper(1, 1, u=0.1), learning_rate=100), "1"),  # it cannot declare more
        (0.1, declared(defaults=hyper(1, 1, u=0.1), learning_rate=0.01), ""),  # but its default is allowed
    ],
)
def test_the_learning_rate_is_limited_as_a_multiple_of_the_trainers_default(
    u: float, declared: Declaration, most: str
) -> None:
    refusal = f"expected a learning rate of at most {most} in a round of another node, got {u:g}"
    words = replace(LIMITS, learning_rate=10).exceeded(hyper(1, 64, u), declared)
    assert words == (f"the start asks for too much: {refusal}" if most else "")


def test_what_this_node_decides_itself_is_not_limited() -> None:
    limits = replace(LIMITS, own={"e": 500, "b": 50})
    assert limits.exceeded(HUGE, declared()) == ""
    # The operator's own rate is not what a start asks for.
    own_rate = replace(LIMITS, own={"u": 1000.0, "e": 1, "b": 50})
    assert not own_rate.exceeded(HUGE, declared())
    assert "at most 20 epochs" in replace(LIMITS, own={"b": 50}).exceeded(HUGE, declared())


def limited() -> Bench:
    return Bench(rules=Rules(limits=LIMITS))


def test_it_tells_all_peers_why_it_sits_the_round_out_and_averages_what_they_send() -> None:
    bench = limited()
    bench.hear(asked("a", hyper=HUGE))
    message = bench.said(ModelParams)
    assert (bench.one(Send).to, message.declined) == (("a", "c"), WORDS)
    assert bench.published["sits_out"] == f"this node sits the round out: {WORDS}"
    assert (bench.phase, bench.all(Train)) == (Phase.GATHERING, [])
    bench.hear(came("a", w=[2, 2]))
    bench.hear(came("c", w=[4, 4]))
    bench.average()
    bench.measure()
    assert bench.w == [3, 3]


def test_the_next_rounds_train_as_before() -> None:
    bench = limited()
    bench.hear(asked("a", hyper=HUGE))
    assert bench.job.settings.hyper == HYPER
    bench.hear(asked("a", 1, hyper=hyper(20, 8)))
    assert bench.one(Train).hyper == hyper(20, 8)


def test_a_start_that_follows_an_update_of_its_round_is_limited_too() -> None:
    bench = limited()
    bench.hear(came("c"))
    bench.hear(asked("a", hyper=HUGE))
    assert (bench.said(ModelParams).declined, bench.all(Train), bench.job.settings.hyper) == (WORDS, [], HYPER)


def test_a_start_that_came_while_the_data_were_loaded_is_limited_too() -> None:
    bench = Bench(prepare=False, rules=Rules(limits=LIMITS))
    bench.hear(asked("a", hyper=HUGE))
    bench.hear(prepared())
    assert (bench.said(ModelParams).declined, bench.all(Train)) == (WORDS, [])


def test_a_model_that_is_not_trained_from_is_not_fetched() -> None:
    bench = limited()
    bench.hear(replace(asked("a", hyper=HUGE), params=None, digest=params(w=[9, 9]).digest))
    assert (bench.phase, bench.round.starting_model.awaited) == (Phase.GATHERING, None)


def test_a_person_here_may_ask_for_more() -> None:
    bench = limited()
    bench.hear(RoundTriggered(hyper=HUGE))
    assert bench.one(Train).hyper == HUGE
    assert bench.said(StartTraining).federated_learning_params == HUGE


def test_a_training_that_began_before_there_was_a_limit_does_not_begin_again_after_a_restart() -> None:
    bench = Lasting()
    bench.hear(asked("a", hyper=HUGE))
    assert bench.one(Train).hyper == HUGE
    bench.rules = Rules(limits=LIMITS)  # set since
    bench.restart()
    assert (bench.all(Train), bench.job.settings.hyper) == ([], HYPER)
    bench.meet("a")
    assert bench.said(ModelParams).declined == WORDS
    own = Lasting()
    own.hear(RoundTriggered(hyper=HUGE))
    own.rules = Rules(limits=LIMITS)
    own.restart()
    assert own.one(Train).key == key(0, "b")
