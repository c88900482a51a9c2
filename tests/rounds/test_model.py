"""Which of two models a round starts from: every node must decide alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.effects import CancelWork, Evaluate, Save, Send
from flnet.protocol.events import ClaimReceived, Evaluated, RoundTriggered, Trained
from flnet.rounds.model import Model, Start
from flnet.rounds.steps import Phase
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench, asked, came, claim, prepared
from tests.rounds.scenarios import Lasting


def model(w: float, round: int = 0, contributors: int = 1) -> Model:
    shared = params(w=[w])
    return Model(Schema.of(shared), shared, params(head=[1.0]), round, contributors)


def better(ours: Model, theirs: Model) -> Params:
    return ours.better_of(theirs.shared, theirs.round, theirs.contributors).shared


def test_the_newer_average_wins_whatever_its_size_and_of_one_round_the_larger() -> None:
    assert better(model(1, round=3, contributors=1), model(2, round=2, contributors=9)) == params(w=[1])
    assert better(model(1, contributors=2), model(2, contributors=3)) == params(w=[2])


def test_of_equals_the_lower_digest_wins() -> None:
    lower = min(params(w=[1]), params(w=[2]), key=lambda p: p.digest)
    assert better(model(1), model(2)) == better(model(2), model(1)) == lower


def test_the_private_part_stays_at_home() -> None:
    chosen = model(1).better_of(params(w=[2]), 1, 1)
    assert (chosen.private, chosen.full) == (params(head=[1]), params(w=[2], head=[1]))


MODELS = st.builds(model, st.integers(0, 4), st.integers(-1, 2), st.integers(0, 2))


@given(st.lists(MODELS, min_size=1, max_size=5))
def test_the_choice_does_not_depend_on_the_order_in_which_models_are_seen(models: list[Model]) -> None:
    orders = [models, models[::-1], sorted(models, key=lambda m: m.shared.digest)]
    chosen = set()
    for order in orders:
        held = order[0]
        for other in order[1:]:
            held = held.better_of(other.shared, other.round, other.contributors)
        chosen.add((held.shared.digest, held.round, held.contributors))
    assert len(chosen) == 1


# --- models that a person went back to


def start(w: float, round: int = 0, contributors: int = 1, restored_at: int | None = None) -> Start:
    shared = params(w=[w])
    return Start(shared.digest, shared, PeerId("a"), round, contributors, restored_at)


def test_a_model_gone_back_to_comes_before_every_average_of_the_round_that_was_reached() -> None:
    assert model(1, round=3, contributors=9).gives_way_to(start(2, round=0, restored_at=3))
    assert not model(1, round=3, contributors=1).gives_way_to(start(2, round=0, contributors=9))
    assert not model(1, round=4).gives_way_to(start(2, round=0, restored_at=3))


def test_the_initiator_decides_where_a_person_went_back() -> None:
    back = model(1).holding(params(w=[1]), 0, 1, restored_at=3)
    assert (back.round, back.standing) == (0, 3)
    assert back.gives_way_to(start(2, round=3))
    assert back.gives_way_to(start(2, round=0, restored_at=3))
    assert not back.gives_way_to(start(2, round=2, contributors=9))
    assert back.gives_way_to(start(2, round=4))


def test_a_rival_of_the_round_that_was_left_does_not_take_its_place_but_a_newer_average_does() -> None:
    back = model(1).holding(params(w=[1]), 0, 1, restored_at=3)
    assert back.better_of(params(w=[2]), 3, 9) is back
    newer = back.better_of(params(w=[2]), 4, 1)
    assert (newer.shared, newer.restored_at) == (params(w=[2]), None)


STARTS = st.builds(start, st.integers(0, 4), st.integers(-1, 2), st.integers(0, 2), st.none() | st.integers(-1, 2))


@given(st.lists(MODELS, min_size=1, max_size=5), STARTS)
def test_nodes_of_the_round_that_was_reached_all_take_a_start_that_was_gone_back_to(
    models: list[Model], begun: Start
) -> None:
    for held in models:
        if begun.restored_at is not None and held.standing <= begun.standing:
            assert held.gives_way_to(begun)
        if begun.restored_at is None and held.restored_at is None:
            assert held.gives_way_to(begun) == held.yields_to(begun.round, begun.contributors, begun.digest)


# --- A mesh whose averages differ starts the next round from one of them: every node from the same.


def differing(contributors: int, w: tuple[float, float] = (7, 7)) -> Bench:
    """Our average of round 0 has 3 contributors; peer "a" showed another one."""
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1, w=w, contributors=contributors)))
    bench.hear(ClaimReceived(claim("c", accuracy=0.1, w=w, contributors=1)))
    return bench


def test_the_next_start_uses_the_average_with_most_contributors() -> None:
    bench = differing(4)
    bench.hear(RoundTriggered())
    assert (bench.w, bench.job.held.current.contributors) == ([7, 7], 4)
    bench = differing(2)
    own = bench.w
    bench.hear(RoundTriggered())
    assert bench.w == own


def test_of_equally_large_averages_the_lower_digest_is_used() -> None:
    bench = differing(3)
    ours, theirs = params(w=bench.w), params(w=[7, 7])
    bench.hear(RoundTriggered())
    assert bench.job.held.current.shared.digest == min(ours.digest, theirs.digest)


def test_the_better_of_own_seen_and_started_is_used_when_a_peer_starts() -> None:
    bench = differing(4)
    bench.hear(asked("a", 1, w=[8, 8], base_round=0, contributors=9))
    assert bench.w == [8, 8]
    bench = differing(4)
    bench.hear(asked("a", 1, w=[8, 8], base_round=0, contributors=3))
    assert bench.w == [7, 7]


def test_what_was_seen_in_an_older_round_is_forgotten() -> None:
    bench = differing(9)
    bench.hear(RoundTriggered())
    assert bench.w == [7, 7]
    assert bench.job.held.rival is None


def test_after_the_round_is_closed_a_better_average_is_still_noticed() -> None:
    bench = Bench().through_round()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1, w=[7, 7], contributors=8)))
    bench.hear(RoundTriggered())
    assert bench.w == [7, 7]


@pytest.mark.parametrize("order", ["ac", "ca"])
def test_of_equally_large_averages_that_were_seen_the_lower_digest_is_remembered(order: str) -> None:
    bench, shown = Bench().through_average(), {"a": [7, 7], "c": [8, 8]}
    for name in order:
        bench.hear(ClaimReceived(claim(name, accuracy=0.1, w=shown[name], contributors=9)))
    bench.hear(RoundTriggered())
    assert params(w=bench.w).digest == min(params(w=w).digest for w in shown.values())


# --- Private parameters learn on from each average, in the step that measures it.


def averaged(bench: Bench) -> Evaluate:
    bench.hear(RoundTriggered())
    bench.train()
    for name in sorted(bench.job.peers.here):
        bench.hear(came(name, 0, "b"))
    bench.average()
    return bench.one(Evaluate)


def personal(bench: Bench, own: float) -> Params | None:
    """Carry out the measurement that the last event asked for, in which the private part becomes this."""
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.8, private=params(own=[own])))
    return bench.job.held.current.private


def test_a_measurement_asks_for_it_only_where_the_trainer_personalises() -> None:
    assert averaged(Bench(peers=["a"])).hyper is None
    assert averaged(Bench(peers=["a"], personalises=True)).hyper == HYPER


def test_what_was_learnt_is_saved_before_the_accuracy_is_told() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    assert personal(bench, 5) == params(own=[5])
    assert bench.job.held.current.is_personal
    kinds = [type(effect) for effect in bench.effects]
    assert kinds.index(Save) < kinds.index(Send)
    assert bench.all(Save)[0].private == params(own=[5])


def test_the_next_training_begins_with_it_and_the_next_average_is_not_personal_yet() -> None:
    bench = Bench(peers=[], personalises=True)
    averaged(bench)
    personal(bench, 5)
    bench.hear(RoundTriggered())
    assert bench.job.key is not None
    bench.hear(Trained(bench.job.key, params(w=[2, 4], own=[6]), 1, 0.5))
    bench.average()
    assert (bench.job.held.current.private, bench.job.held.current.is_personal) == (params(own=[6]), False)


def test_a_start_that_comes_meanwhile_ends_it_and_the_private_part_stays() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    left = bench.job.held.current.private
    bench.hear(asked("a", 1))
    assert bench.one(CancelWork).key == key(0, "b")
    assert bench.phase is Phase.TRAINING
    bench.hear(Evaluated(key(0, "b"), params(w=[0, 0]).digest, 0.8, private=params(own=[5])))
    assert bench.job.held.current.private == left


def test_after_a_restart_it_is_done_again() -> None:
    bench = Lasting(peers=[])
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    before = averaged(bench)
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    assert bench.one(Evaluate) == before
    assert before.hyper == HYPER
