"""What the settings of a method say, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.protocol.messages import HyperParams
from flnet.trainer import (
    Fit,
    GroupFindings,
    Grouping,
    LabelFindings,
    Method,
    Score,
    Task,
    Trainer,
    Waiting,
    fields_of,
)
from tests.compute.conftest import as_it_was  # noqa: F401


@pytest.mark.parametrize(
    ("local", "mu"), [("plain", 0.0), ("proximal", 0.01), ("proximal:0.5", 0.5), ("proximal:0", 0.0)]
)
def test_the_proximal_term_has_a_number(local: str, mu: float) -> None:
    assert Method(local).mu == mu


@pytest.mark.parametrize(
    ("personal", "share", "optimiser"),
    [
        ("apfl", (0.5, 1e-4), ""),
        ("apfl:0.25", (0.25, 1e-4), ""),
        ("apfl:0.25:0.01", (0.25, 0.01), ""),
        ("apfl:0.25:0.01:adam", (0.25, 0.01), "adam"),
    ],
)
def test_apfl_begins_as_it_is_told(personal: str, share: tuple[float, float], optimiser: str) -> None:
    method = Method(personal=personal)
    assert (method.kind, method.share, method.optimiser) == ("apfl", share, optimiser)


def test_an_increment_trains_for_the_epochs_of_the_round_or_its_own() -> None:
    assert Method(personal="increment").epochs is None
    assert Method(personal="increment:5").epochs == 5
    assert Method(personal="increment:5").kind == "increment"


def test_without_words_a_method_is_the_trainers_own() -> None:
    assert (Method().mu, Method().kind, Method().controls) == (0.0, "none", False)
    assert Method(**Method("proximal:1", "apfl", "local", True).fields()) == Method(
        "proximal:1", "apfl", "local", True
    )


# Findings as JSON-ready data, and what is refused.


KNOWN = LabelFindings("two", ("a", "b"), "three", ("x", "y", "z"), np.array([[1, 0.25, 0], [0, 0.75, 1]]), 0.9)
GROUPS = GroupFindings(9, 9, 9, Grouping(2, 0.5, 0.25), (Grouping(1, 2.0, None),), 1)


def test_a_correspondence_that_is_known() -> None:
    fields = fields_of(KNOWN, "X")
    assert fields is not None
    assert fields["space"] == {"id": "two", "classes": ["a", "b"]}
    assert (fields["estimated"], fields["matrix"][1]) == (False, [0, 0.75, 1])
    assert (fields["deviation"], fields["counts"], fields["waiting"], fields["pooled"]) == (
        None,
        None,
        None,
        False,
    )


def test_an_estimate_that_nothing_was_counted_for_yet() -> None:
    waiting = Waiting(11, 0.1, 0.5, 300)
    result = replace(KNOWN, matrix=None, counts=np.zeros((2, 3), np.int64), waiting=waiting)
    fields = fields_of(result, "X")
    assert fields is not None
    assert (fields["estimated"], fields["matrix"], fields["counts"][0]) == (True, None, [0, 0, 0])
    assert fields["waiting"] == {"from_round": 11, "share": 0.1, "needed": 0.5, "judged": 300}


@pytest.mark.parametrize(
    "found",
    [
        {"matrix": 1},
        replace(KNOWN, matrix=np.eye(2)),
        replace(KNOWN, deviation=np.full((2, 3), np.nan)),
        replace(KNOWN, counts=np.full((2, 3), -1)),
        replace(GROUPS, common=Grouping(2, float("inf"), None)),
    ],
)
def test_what_makes_no_sense_is_refused(found: Any) -> None:
    with pytest.raises(TrainerError, match="findings of trainer X gave"):
        fields_of(found, "X")


def test_nothing_stays_nothing() -> None:
    assert fields_of(None, "X") is None


class Adder(Trainer):
    """Adds its own number as often as it is told to train."""

    def __init__(self, number: float) -> None:
        self.number = number

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit({"w": task.params["w"] + np.float32(self.number * task.hyper.e)}, examples=task.seed)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(float(params["w"][0] == self.number), examples=1)


def test_many_trainings_give_what_each_gives_by_itself() -> None:
    start = {"w": np.array([1.0], np.float32)}
    jobs = [(Adder(n), Task(start, HyperParams(e=e, u=1, b=1), seed=n)) for n, e in ((1, 1), (2, 3))]
    fits = Adder.fit_many(jobs)
    assert [(float(fit.params["w"][0]), fit.examples) for fit in fits] == [(2.0, 1), (7.0, 2)]
    assert Adder.fit_many([]) == []


def test_many_models_are_measured_each_by_its_own_trainer() -> None:
    models = [{"w": np.array([value], np.float32)} for value in (1.0, 1.0)]
    scores = Adder.evaluate_many([(Adder(1), models[0]), (Adder(2), models[1])])
    assert [score.accuracy for score in scores] == [1.0, 0.0]
