"""What a model gives away of the rows of this node, asked of its trainer where the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from flnet.algorithms.membership_inference import membership, row_losses
from flnet.compute.prediction import MAX_INPUTS, check_inputs, checked_prediction
from flnet.errors import NotOffered, TrainerError
from flnet.params.params import Array
from flnet.text import text
from flnet.trainer import InputSpec, Rows, Trainer

MOST_ROWS = 2000  # of each kind: a few seconds, and chance alone comes up to 0.04


class OwnRows(NamedTuple):
    """Rows of this node on which it trains, and others."""

    train: Rows
    test: Rows
    spec: InputSpec


def membership_of(trainer: Trainer, params: Mapping[str, Array], name: str) -> dict[str, Any]:
    """How well a model's loss tells this node's training rows from its test rows, as JSON-ready data.

    At most `MOST_ROWS` of each kind, the same ones each time. Both kinds need not have as many: each figure compares
    shares.

    Args:
        name: the trainer's id, for messages.

    Raises:
        NotOffered: this cannot be measured with this trainer; says why.
        TrainerError: the trainer's rows or predictions make no sense.
    """
    rows = _own_rows(trainer, name)
    if not (len(rows.train.labels) and len(rows.test.labels)):
        raise NotOffered(text("{trainer} has no training rows or no test rows here to compare", name))
    train, test = (_losses(trainer, params, _drawn(part), rows.spec, name) for part in rows[:2])
    found = membership(train, test)
    figures = {key: round(value, 6) for key, value in asdict(found).items()}
    sizes = {"train": len(rows.train.labels), "test": len(rows.test.labels)}
    return {"kind": "leaks", **figures, "seen": found.is_seen, "rows": sizes}


def _own_rows(trainer: Trainer, name: str) -> OwnRows:
    if trainer.turn is not None:  # set where FLNET_LABELS is: rows then teach by other labels, or not at all
        raise NotOffered(
            text("{trainer} learns from labels of several label spaces: a row's loss is not measured there", name)
        )
    spec, inputs, labels = trainer.input_spec(), trainer.inputs(), trainer.labels()
    test = trainer.tests().get("accuracy")
    if spec is None or inputs is None or labels is None or test is None:
        raise NotOffered(text("{trainer} does not give its rows with one class each, as this needs", name))
    return OwnRows(Rows(inputs, labels), test, spec)


def _drawn(rows: Rows) -> Rows:
    some = np.sort(np.random.default_rng(0).permutation(len(rows.labels))[:MOST_ROWS])
    return Rows(rows.inputs[some], rows.labels[some])


def _losses(trainer: Trainer, params: Mapping[str, Array], rows: Rows, spec: InputSpec, name: str) -> Array:
    """The loss of each row; few rows at a time, as for the predictions of people."""
    classes = len(trainer.data_info().classes)
    parts = []
    for start in range(0, len(rows.labels), MAX_INPUTS):
        inputs = check_inputs(rows.inputs[start : start + MAX_INPUTS], spec)
        labels = rows.labels[start : start + MAX_INPUTS]
        prediction = checked_prediction(trainer.predict(params, inputs), len(inputs), classes, name, trainer)
        if prediction.meaning != "one_of":
            raise NotOffered(text("{trainer} predicts no probabilities of classes, as this needs", name))
        if labels.min() < 0 or labels.max() >= prediction.values.shape[1]:
            raise TrainerError(
                text(
                    "{trainer} gives labels from {low} to {high}; expected numbers of its {count} classes",
                    name,
                    int(labels.min()),
                    int(labels.max()),
                    prediction.values.shape[1],
                )
            )
        parts.append(row_losses(prediction.values, labels))
    return np.concatenate(parts)
