"""What a trainer gives back is checked once, in words, for every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.compute.checks import checked_fit, checked_params, checked_score, declared
from flnet.errors import TrainerError
from flnet.params.params import Params
from flnet.protocol.counts import GroupAccuracy, Measured
from flnet.trainer import Array, DataInfo, Fit, HyperParams, NoisySteps, RowPrivacy, Score, Task, Trainer
from tests.helpers import params

GIVEN = params(w=[1.0, 2.0], steps=np.array([3]))


class Plain(Trainer):
    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return GIVEN

    def fit(self, task: Task) -> Fit:
        return Fit(task.params, 1)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(1.0, 1)


def fit(examples: Any = 1, labels: Any = 1, metrics: Any = None, **arrays: Any) -> Fit:
    return Fit({**GIVEN, **arrays}, examples, labels, metrics or {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Fit({}, 1), "gave no parameters"),
        (Fit({1: np.zeros(1)}, 1), "gave no parameters"),  # type: ignore[dict-item]
        (Fit({"x": np.zeros(1)}, 1), "not known here 'x'"),
        (fit(w=np.zeros(3)), r"'w' has shape \[3\]; expected \[2\]"),
        (fit(w=np.array(["a", "b"])), "gave no arrays of numbers"),
        (fit(w=np.array([1.0, np.inf])), "training diverged: 'w' has numbers that are not finite; try a smaller"),
        (fit(w=np.array([1e300, 0.0])), "'w' has numbers that are not finite in float32"),
        (fit(w=np.zeros(2, np.longdouble)), "gave 'w' as .*; expected at most 8 bytes a number"),
        (fit(steps=np.array([0.5])), "'steps' has dtype float64; expected int64"),
        (fit(examples=-1), "gave -1 examples; expected 0 or more"),
        (fit(examples=None), "gave None examples; expected a whole number"),
        (fit(labels=float("inf")), "gave inf labels; expected a whole number"),
        (fit(examples=10**12 + 1), "gave 1000000000001 examples; expected at most 1000000000000"),
        (fit(labels=10**6 + 1), "gave 1000001 labels; expected at most 1000000"),
        (None, "fit of trainer T gave a NoneType; expected a Fit"),
    ],
)
def test_a_fit_that_cannot_be_used_is_refused(given: Any, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_fit(given, GIVEN, "T")


def test_a_good_fit_gets_the_dtypes_it_began_with_and_arrays_of_its_own() -> None:
    mine = np.array([5.0, 6.0])
    checked = checked_fit(fit(w=mine, examples=np.int64(7)), GIVEN, "T")
    mine[:] = 0
    assert checked.params["w"].tolist() == [5.0, 6.0]
    assert checked.params["w"].dtype == np.float32
    assert type(checked.examples) is int


@pytest.mark.parametrize(
    ("noisy", "words"),
    [
        (None, r"fit of trainer T was asked to hide single rows and gave noisy=None; expected NoisySteps"),
        ((0.5, 3), r"gave noisy=\(0.5, 3\); expected NoisySteps"),
        (NoisySteps(0.5, 2.5), "gave noisy=.*2.5.*; expected NoisySteps"),  # type: ignore[arg-type]
        (NoisySteps(0.0, 3), "gave the sampling rate 0 and 3 noisy steps; expected a rate above 0 and up to 1"),
        (NoisySteps(1.5, 3), "gave the sampling rate 1.5 and 3 noisy steps"),
        (NoisySteps(float("nan"), 3), "gave the sampling rate nan"),
        (NoisySteps(0.5, 0), "gave the sampling rate 0.5 and 0 noisy steps; expected .* 1 step or more"),
    ],
)
def test_a_training_that_was_to_hide_rows_must_say_what_it_did(noisy: Any, words: str) -> None:
    given = replace(fit(), noisy=noisy)
    with pytest.raises(TrainerError, match=words):
        checked_fit(given, GIVEN, "T", RowPrivacy(1.0, 1.0))
    assert checked_fit(given, GIVEN, "T").noisy is None  # nobody asked


def test_what_a_training_did_to_hide_rows_is_told_on() -> None:
    given = replace(fit(), noisy=NoisySteps(np.float32(0.25), np.int64(7)))  # type: ignore[arg-type]
    assert checked_fit(given, GIVEN, "T", RowPrivacy(1.0, 1.0)).noisy == NoisySteps(0.25, 7)


def test_figures_that_are_no_numbers_do_not_spoil_a_training() -> None:
    metrics = {"loss": np.float32(0.5), "worst": float("nan"), "name": "x"}
    assert checked_fit(fit(metrics=metrics), GIVEN, "T").metrics == {"loss": 0.5}


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, float("nan"), None])
def test_an_impossible_accuracy_is_refused(accuracy: Any) -> None:
    with pytest.raises(TrainerError, match="gave the accuracy"):
        checked_score(Score(accuracy, 1), "T")


WARD = GroupAccuracy(name="ward", accuracy=0.5, examples=5)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (Score(0.5, 10, groups=(WARD, WARD)), "T gave a group twice, or one with more rows than the 10 examples"),
        (Score(0.5, 4, groups=(WARD,)), "T gave a group twice, or one with more rows than the 4 examples"),
        (Score(0.5, 10**9 + 1), "T gave 1000000001 examples; expected at most 1000000000"),
    ],
)
def test_what_its_node_could_not_state_of_a_score_is_refused(score: Score, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_score(score, "T")
    good = checked_score(Score(0.5, 10**9, groups=(WARD,)), "T")
    assert Measured(accuracy=good.accuracy, examples=good.examples, groups=tuple(good.groups))


def test_a_declaration_is_read_off_the_trainer() -> None:
    declaration = declared(Plain(), "T", GIVEN)
    assert (declaration.label, declaration.shared, declaration.merge) == ("T", ("w", "steps"), {})
    assert declaration.data["source"] == "not described"


def test_statistics_of_a_batch_normalisation_are_buffers_by_their_usual_names() -> None:
    """Of a trainer that names none, so that a network of PyTorch or Keras is averaged rightly as it is."""
    names = ("0.weight", "1.running_mean", "1.running_var", "1.num_batches_tracked", "norm/moving_mean", "moving")
    initial = Params({name: np.zeros(2, np.float32) for name in names})
    assert declared(Plain(), "T", initial).buffers == names[1:5]
    told = type("Told", (Plain,), {"buffers": ("moving",), "shared": names[:4]})()
    assert declared(told, "T", initial).buffers == ()  # what is private is nobody else's business
    told.shared = names
    assert declared(told, "T", initial).buffers == ("moving",)


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("shared", ("w", "bias"), "declares bias shared, merged or buffers; it has w, steps"),
        ("merge", {"bias": "max"}, "declares bias shared, merged or buffers"),
        ("defaults", {"e": 1}, r"defaults is .*; expected HyperParams\(e, u, b\)"),
        ("exchange_threshold", 2.0, "exchange_threshold is 2; expected 0 to 1"),
        (
            "limits",
            {"e": 3},
            "limits is .*; expected whole numbers above 0 for some of epochs, batch_size, batches",
        ),
        ("limits", {"epochs": 0}, "limits is {'epochs': 0}; expected whole numbers above 0"),
        ("limits", {"batches": 2.5}, "limits is {'batches': 2.5}; expected whole numbers above 0"),
        (
            "limits",
            {"learning_rate": 0.0},
            "limits is {'learning_rate': 0.0}; .* or a number above 0 for learning_rate",
        ),
        ("limits", {"learning_rate": float("nan")}, "or a number above 0 for learning_rate"),
        ("limits", {"learning_rate": "fast"}, "or a number above 0 for learning_rate"),
    ],
)
def test_a_wrong_declaration_is_refused(attribute: str, value: object, words: str) -> None:
    odd = type("Odd", (Plain,), {attribute: value})()
    with pytest.raises(TrainerError, match=words):
        declared(odd, "T", GIVEN)


def test_defaults_and_private_parameters_may_differ_between_instances() -> None:
    trainer = Plain()
    trainer.defaults = HyperParams(e=9, u=1, b=1)
    trainer.shared = ("w",)
    declaration = declared(trainer, "T", GIVEN)
    assert (declaration.defaults.e, declaration.shared) == (9, ("w",))


def test_initial_parameters_must_be_finite_numbers() -> None:
    with pytest.raises(TrainerError, match="the initial 'w' has numbers that are not finite"):
        declared(Plain(), "T", params(w=[float("nan")]))
    with pytest.raises(TrainerError, match="gave no arrays of numbers"):
        checked_params({"w": object()}, "initial_params")


def test_data_info_is_plain_data() -> None:
    info = DataInfo("here", {"train": np.int64(3)}, ("a",), note="more")  # type: ignore[dict-item]
    trainer = type("Told", (Plain,), {"data_info": lambda self: info})()
    assert declared(trainer, "T", GIVEN).data == {
        "source": "here",
        "rows": {"train": 3},
        "classes": ["a"],
        "sample": False,
        "note": "more",
    }


def test_without_copies_the_trainer_s_own_arrays_are_handed_on() -> None:
    mine = np.array([1, 2], np.float32)
    checked = checked_fit(fit(w=mine), GIVEN, "T", copies=False)
    assert np.shares_memory(checked.params["w"], mine)
    assert not np.shares_memory(checked_fit(fit(w=mine), GIVEN, "T").params["w"], mine)
