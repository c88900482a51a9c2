"""Confusion matrices against scikit-learn's, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.compute import confusion
from flnet.compute.confusion import confusion_of
from flnet.compute.verbs import VERBS, ConfusionRequest, Work
from flnet.errors import NotOffered, TrainerError
from flnet.trainer import Rows
from tests.compute.test_leakage import Remembering, Unlabelled, model, rows_of


class Guessing(Remembering):
    """Predicts by chance, the better the more it has learnt; `names` are its classes."""

    def tests(self) -> Any:
        return {"accuracy": self.train}


def guessed(trainer: Guessing, learnt: float) -> tuple[Any, Any]:
    inputs = trainer.train.inputs.astype(np.float32)
    values = np.concatenate(
        [trainer.predict(model(learnt), inputs[s : s + 1000]).values for s in range(0, len(inputs), 1000)]
    )
    return values, values.argmax(axis=1)


@pytest.mark.parametrize("learnt", [0.0, 0.6])
def test_matrix_and_figures_are_those_of_scikit_learn(learnt: float) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    trainer = Guessing(rows_of(1300, 1))
    found = confusion_of(trainer, model(learnt), "X")
    truth = trainer.train.labels
    values, guess = guessed(trainer, learnt)
    assert found["matrix"] == metrics.confusion_matrix(truth, guess).tolist()
    assert (found["rows"], found["judged"]) == (1300, 1300)
    figures = found["figures"]
    assert figures["accuracy"] == pytest.approx(metrics.accuracy_score(truth, guess))
    assert figures["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, guess))
    assert figures["f1_macro"] == pytest.approx(metrics.f1_score(truth, guess, average="macro"))
    # Its curve has bins.
    assert figures["auc"] == pytest.approx(metrics.roc_auc_score(truth, values, multi_class="ovr"), abs=0.01)
    assert found["each"]["recall"] == pytest.approx(metrics.recall_score(truth, guess, average=None), abs=1e-6)


def test_rows_without_a_class_are_left_out_and_of_many_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(500, 1)
    labels = np.where(np.arange(500) < 200, -1, rows.labels)
    monkeypatch.setattr(confusion, "MOST_ROWS", 100)
    found = confusion_of(Guessing(Rows(rows.inputs, labels)), model(1), "X")
    assert (found["rows"], found["judged"], sum(map(sum, found["matrix"]))) == (300, 100, 100)
    assert found == confusion_of(Guessing(Rows(rows.inputs, labels)), model(1), "X")


def test_what_cannot_be_shown_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(50, 1)
    without = Guessing(Rows(rows.inputs, np.full(50, -1)))
    with pytest.raises(NotOffered, match="X does not give its test rows with one class each"):
        confusion_of(without, model(1), "X")
    with pytest.raises(TrainerError, match="X gives a label 3 for 3 classes"):
        confusion_of(Guessing(Rows(rows.inputs, rows.labels + 1)), model(0), "X")
    monkeypatch.setattr(confusion, "MOST_CLASSES", 2)
    with pytest.raises(NotOffered, match="X has 3 classes; the table has at most 2"):
        confusion_of(Guessing(rows), model(1), "X")


def test_a_trainer_that_keeps_its_training_rows_to_itself_is_shown_all_the_same() -> None:
    found = VERBS[ConfusionRequest].perform(Work(Unlabelled(), "X"), ConfusionRequest(model(1)))
    assert found["kind"] == "confusion"
