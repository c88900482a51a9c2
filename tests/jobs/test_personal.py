"""Private parameters learn on from each average, in the step that measures it."""

from __future__ import annotations

from flnet.effects import CancelWork, Evaluate, Save, Send
from flnet.events import Evaluated, RoundTriggered, Trained
from flnet.jobs import Phase
from flnet.params import Params
from tests.helpers import HYPER, key, params
from tests.jobs.helpers import Bench, asked, came, prepared
from tests.jobs.restarting import Lasting


def averaged(bench: Bench) -> Evaluate:
    bench.hear(RoundTriggered())
    bench.train()
    for name in sorted(bench.state.peers):
        bench.hear(came(name, 0, "b"))
    bench.average()
    return bench.one(Evaluate)


def personal(bench: Bench, own: float) -> Params | None:
    """Carry out the measurement that the last event asked for, in which the private part becomes this."""
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.8, private=params(own=[own])))
    return bench.state.model.private if bench.state.model else None


def test_a_measurement_asks_for_it_only_where_the_trainer_personalises() -> None:
    assert averaged(Bench(peers=["a"])).hyper is None
    assert averaged(Bench(peers=["a"], personalises=True)).hyper == HYPER


def test_what_was_learnt_is_saved_before_the_accuracy_is_told() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    assert personal(bench, 5) == params(own=[5])
    assert bench.state.model is not None and bench.state.model.is_personal
    kinds = [type(effect) for effect in bench.effects]
    assert kinds.index(Save) < kinds.index(Send)
    assert bench.all(Save)[0].private == params(own=[5])


def test_the_next_training_begins_with_it_and_the_next_average_is_not_personal_yet() -> None:
    bench = Bench(peers=[], personalises=True)
    averaged(bench)
    personal(bench, 5)
    bench.hear(RoundTriggered())
    assert bench.state.key is not None
    bench.hear(Trained(bench.state.key, params(w=[2, 4], own=[6]), 1, 0.5))
    bench.average()
    assert bench.state.model is not None
    assert (bench.state.model.private, bench.state.model.is_personal) == (params(own=[6]), False)


def test_a_start_that_comes_meanwhile_ends_it_and_the_private_part_stays() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    left = bench.state.model.private if bench.state.model else None
    bench.hear(asked("a", 1))
    assert bench.one(CancelWork).key == key(0, "b")
    assert bench.phase is Phase.TRAINING
    bench.hear(Evaluated(key(0, "b"), params(w=[0, 0]).digest, 0.8, private=params(own=[5])))
    assert bench.state.model is not None and bench.state.model.private == left


def test_after_a_restart_it_is_done_again() -> None:
    bench = Lasting(peers=[])
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    before = averaged(bench)
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    assert bench.one(Evaluate) == before
    assert before.hyper == HYPER
