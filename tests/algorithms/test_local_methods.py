"""Which wrapper a method asks for, and what is refused in words."""

from __future__ import annotations

import pytest

from flnet.algorithms.apfl import Adaptive
from flnet.algorithms.fed_prox import Proximal
from flnet.algorithms.fl_protector import Increment
from flnet.algorithms.local_methods import with_method
from flnet.algorithms.scaffold import Controlled
from flnet.errors import TrainerError
from flnet.trainer import Method, Trainer
from tests.algorithms.lines import Lines, Point, clouds, task


def point() -> Point:
    return Point((0.0,), (1.0,))


class Whole(Lines):
    """Cannot be taken apart."""

    gradients = Trainer.gradients  # type: ignore[assignment]


def lines() -> Lines:
    return Whole(*clouds(20, 0.0, False))


def test_a_plain_method_leaves_the_trainer_alone() -> None:
    one = point()
    assert with_method(one, Method(), 0, "P") is one
    assert with_method(one, Method("proximal:0"), 0, "P") is one


def test_each_method_has_its_wrapper() -> None:
    assert isinstance(with_method(lines(), Method("proximal:0.1"), 0, "L"), Proximal)
    assert isinstance(with_method(point(), Method(controls=True), 0, "P"), Controlled)
    assert isinstance(with_method(point(), Method(personal="apfl"), 0, "P"), Adaptive)
    both = with_method(lines(), Method("proximal:0.1", "increment"), 0, "L")
    assert isinstance(both, Increment)
    assert isinstance(both.inner, Proximal)


def test_the_second_training_is_not_held_back() -> None:
    """The proximal term belongs to what is averaged."""
    plain, held = (with_method(lines(), Method(how, "increment"), 0, "L") for how in ("plain", "proximal:100"))
    start = plain.initial_params(0)
    assert (
        plain.personalise(task(start))["personal/w"].tolist()
        == held.personalise(task(start))["personal/w"].tolist()
    )


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            Method(controls=True),
            "FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which L lacks",
        ),
        (
            Method(personal="apfl"),
            "FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which L lacks",
        ),
        (Method(personal="apfl", controls=True), "change the same steps of training"),
    ],
)
def test_what_a_trainer_cannot_do_is_refused_in_words(method: Method, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        with_method(lines(), method, 0, "L")


def test_a_trainer_that_does_not_honour_the_term_is_refused() -> None:
    words = (
        r"FLNET_LOCAL_TRAINING=proximal:0.1 needs a trainer that honours the proximal term, which P does not; set"
    )
    with pytest.raises(TrainerError, match=words):
        with_method(point(), Method("proximal:0.1"), 0, "P")
    assert with_method(point(), Method("proximal:0.1", "apfl"), 0, "P")  # flnet does the steps, and the term
