"""What a model gives away of a node's rows: memorisers, models that know no row, and trainers that cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from flnet.compute import leakage
from flnet.compute.leakage import membership_of
from flnet.compute.verbs import VERBS, MembershipRequest, Work
from flnet.errors import NotOffered, TrainerError
from flnet.params.params import Array, Params
from flnet.protocol.events import Turn
from flnet.trainer import DataInfo, Fit, InputSpec, Meaning, Prediction, Rows, Score, Task, Trainer

CLASSES = 3


def rows_of(count: int, seed: int, shift: float = 0.0) -> Rows:
    chance = np.random.default_rng(seed)
    return Rows(chance.normal(shift, 1, (count, 2)), chance.integers(0, CLASSES, count))


@dataclass
class Remembering(Trainer):
    """Is sure of the rows that it trained on, as far as its model has learnt them (params["learnt"], 0 to 1)."""

    train: Rows = field(default_factory=lambda: rows_of(300, 1))
    test: Rows = field(default_factory=lambda: rows_of(200, 2))
    meaning: Meaning = "one_of"
    asked: list[int] = field(default_factory=list)

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"learnt": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit(task.params, 1)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 1)

    def data_info(self) -> DataInfo:
        return DataInfo("rows", {}, tuple("abc"))

    def input_spec(self) -> InputSpec | None:
        return InputSpec("features", (2,))

    def inputs(self) -> Array | None:
        return self.train.inputs

    def labels(self) -> Array | None:
        return self.train.labels

    def tests(self) -> Mapping[str, Rows]:
        return {"accuracy": self.test}

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        self.asked.append(len(inputs))
        known = {row.tobytes(): label for row, label in zip(self._stored(), self.train.labels, strict=True)}
        chance = np.random.default_rng(len(inputs))
        values = chance.dirichlet(np.ones(CLASSES), len(inputs))
        for place, row in enumerate(inputs):
            if row.tobytes() in known and chance.random() < params["learnt"][0]:
                values[place] = np.eye(CLASSES)[known[row.tobytes()]]
        return Prediction(values, self.meaning)

    def _stored(self) -> Array:
        return self.train.inputs.astype(np.float32)


def model(learnt: float) -> Params:
    return Params({"learnt": np.array([learnt], np.float32)})


def test_a_memoriser_gives_its_rows_away_and_an_ignorant_model_does_not() -> None:
    found = [membership_of(Remembering(), model(learnt), "X") for learnt in (0, 0.5, 1)]
    assert [one["seen"] for one in found] == [False, True, True]
    assert found[0]["advantage"] < found[0]["by_chance"] < 0.4 < found[1]["advantage"] < 0.65
    assert found[2]["advantage"] > 0.98
    assert found[2]["auc"] > 0.98


def test_at_most_so_many_rows_of_each_kind_are_compared_and_not_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = Remembering(rows_of(300, 1), rows_of(20_000, 2))
    found = membership_of(trainer, model(1), "X")
    assert (found["members"], found["others"]) == (300, leakage.MOST_ROWS)
    monkeypatch.setattr(leakage, "MOST_ROWS", 100)
    found = membership_of(trainer, model(1), "X")
    assert (found["members"], found["others"], found["rows"]) == (100, 100, {"train": 300, "test": 20_000})
    assert found == membership_of(trainer, model(1), "X")
    monkeypatch.setattr(leakage, "MOST_ROWS", 5000)
    large = Remembering(rows_of(6000, 1), rows_of(6000, 2))
    membership_of(large, model(0), "X")
    assert max(large.asked) <= 1000 and sum(large.asked) == 10_000


def test_who_trained_on_the_test_rows_shows_nothing() -> None:
    rows = rows_of(300, 1)
    found = membership_of(Remembering(rows, rows), model(1), "X")
    assert (found["advantage"], found["auc"]) == (0, 0.5)


class Unlabelled(Remembering):
    def labels(self) -> Array | None:
        return None


class InTurns(Remembering):
    turn = Turn("parallel", True, 0)


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        (Unlabelled(), "X does not give its rows with one class each"),
        (InTurns(), "X learns from labels of several label spaces"),
        (Remembering(meaning="scores"), "X predicts no probabilities of classes"),
        (Remembering(test=rows_of(0, 1)), "X has no training rows or no test rows"),
    ],
)
def test_where_it_cannot_be_measured_the_reason_is_said(trainer: Trainer, words: str) -> None:
    with pytest.raises(NotOffered, match=words):
        membership_of(trainer, model(1), "X")


def test_labels_beyond_the_classes_are_the_trainers_fault() -> None:
    rows = rows_of(50, 1)
    strange = Remembering(Rows(rows.inputs, rows.labels + 1))
    with pytest.raises(TrainerError, match="X gives labels from 1 to 3; expected numbers of its 3 classes"):
        membership_of(strange, model(0), "X")


def test_the_verb_tells_a_failing_trainer_in_words() -> None:
    class Failing(Remembering):
        def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
            raise RuntimeError("no weights")

    verb = VERBS[MembershipRequest]
    assert verb.perform(Work(Remembering(), "X"), MembershipRequest(model(1)))["kind"] == "leaks"
    with pytest.raises(TrainerError, match="trainer X failed in predict"):
        verb.perform(Work(Failing(), "X"), MembershipRequest(model(1)))
