"""Which of two models a round starts from: every node must decide alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flnet.jobs.model import Model
from flnet.jobs.opening import Start
from flnet.params import Params, PeerId, Schema
from tests.helpers import params


def model(w: float, round: int = 0, contributors: int = 1) -> Model:
    shared = params(w=[w])
    return Model(Schema.of(shared), shared, params(head=[1.0]), round, contributors)


def better(ours: Model, theirs: Model) -> Params:
    return ours.better_of(theirs.shared, theirs.round, theirs.contributors).shared


def test_the_newer_average_wins_whatever_its_size() -> None:
    assert better(model(1, round=3, contributors=1), model(2, round=2, contributors=9)) == params(w=[1])


def test_of_one_round_the_larger_average_wins() -> None:
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


def test_whoever_starts_the_round_decides_where_a_person_went_back() -> None:
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
