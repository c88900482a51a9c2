"""What a trainer offers is declared in full, and a prediction is checked before a person sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.training.api import Array, DataInfo, InputSpec, Prediction
from flnet.training.offers import checked_prediction, names_of_classes, offered, predicted, spec_of
from tests.training.plugins.TINY import Tiny


class Offering(Tiny):
    note = "for a test"
    spec: Any = InputSpec("table", (2,), 0, names=("x", "y"), hint="a point")

    def data_info(self) -> DataInfo:
        return DataInfo("points", {"train": 3}, ("below", "above"), counts={"train": (1, 2)})

    def input_spec(self) -> Any:
        return self.spec

    def onnx(self, params: Mapping[str, Array]) -> bytes | None:
        return b""


def test_a_trainer_that_offers_nothing_says_so() -> None:
    offers = offered(Tiny(0), "TINY")
    assert (offers["inputs"], offers["formats"]) == (None, ["safetensors"])
    assert (offers["note"], offers["licence"], offers["counts"]) == ("", "not stated", {})
    assert spec_of(offers) is None


def test_what_is_offered_survives_json() -> None:
    offers = json.loads(json.dumps(offered(Offering(0), "TINY")))
    assert spec_of(offers) == Offering.spec
    assert offers["formats"] == ["safetensors", "onnx"]
    assert (offers["note"], offers["counts"]) == ("for a test", {"train": [1, 2]})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("a point", "expected an InputSpec"),
        (InputSpec("sound", (2,)), "of kind image, features, table"),  # type: ignore[arg-type]
        (InputSpec("image", (2,)), r"shape \[2\] for an input of kind 'image'"),
        (InputSpec("image", (2, 2, 4)), r"shape \[2, 2, 4\]"),
        (InputSpec("table", (2, 2)), r"shape \[2, 2\]"),
        (InputSpec("table", (0,)), r"shape \[0\]"),
        (InputSpec("table", (2,), names=("a",)), "gave 1 names; expected 2"),
        (InputSpec("table", (2,), names=("a", "a")), "expected 2 different ones"),
        (InputSpec("table", (2,), low=float("nan")), "bound of nan"),
    ],
)
def test_a_spec_that_makes_no_sense_is_found_when_the_trainer_is_loaded(spec: Any, words: str) -> None:
    trainer = Offering(0)
    trainer.spec = spec
    with pytest.raises(TrainerError, match=words):
        offered(trainer, "TINY")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 2)), "gave a ndarray; expected a Prediction"),
        (Prediction(np.zeros((2, 2)), "maybe"), "expected a Prediction"),  # type: ignore[arg-type]
        (Prediction(np.zeros((1, 2))), r"values \[1, 2\]; expected \[2, 2\]"),
        (Prediction(np.zeros((2, 3))), r"expected \[2, 2\]"),
        (Prediction(np.full((2, 2), np.nan), "scores"), "not finite"),
        (Prediction(np.full((2, 2), 2.0), "any_of"), r"outside \[0, 1\]"),
        (Prediction(np.full((2, 2), 0.9)), "do not sum to 1"),
        (Prediction(np.array([["a", "b"]] * 2)), "no numbers"),
    ],
)
def test_nonsense_is_no_prediction(given: Any, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_prediction(given, 2, 2, "TINY")


def test_the_winner_or_all_that_hold_are_named() -> None:
    names = ["a", "b", "c"]
    one = checked_prediction(Prediction(np.array([[0.2, 0.5, 0.3]])), 1, 3, "T")
    some = checked_prediction(Prediction(np.array([[0.9, 0.1, 0.6], [0, 0, 0]]), "any_of"), 2, 3, "T")
    assert one.values.dtype == np.float32
    assert predicted(one, names) == ["b"]
    assert predicted(some, names) == [["a", "c"], []]
    assert predicted(checked_prediction(Prediction(np.array([[-4, 7]]), "scores"), 1, 0, "T"), ["0", "1"]) == ["1"]
    assert names_of_classes((), np.zeros((1, 2))) == ["0", "1"]
    assert names_of_classes(("x", "y"), np.zeros((1, 2))) == ["x", "y"]


def test_which_model_answered_is_handed_on_in_plain_numbers() -> None:
    given = Prediction(np.ones((2, 1)), answered=("local", "global"), why=(0.5, 2), limit=1)
    checked = checked_prediction(given, 2, 0, "T")
    assert (checked.answered, checked.why, checked.limit) == (("local", "global"), (0.5, 2.0), 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Prediction(np.ones((2, 1)), answered=("local",)), "which model answered"),
        (Prediction(np.ones((2, 1)), answered=("local", "other")), "which model answered"),
        (Prediction(np.ones((2, 1)), why=(0.0,)), "why a model answered"),
        (Prediction(np.ones((2, 1)), why=(0.0, float("nan"))), "why a model answered"),
    ],
)
def test_a_model_that_there_is_not_cannot_have_answered(given: Prediction, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_prediction(given, 2, 0, "T")
