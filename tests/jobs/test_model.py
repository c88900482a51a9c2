"""Which of two models a round starts from: every node must decide alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flnet.jobs.model import Model
from flnet.params import Params, Schema
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
