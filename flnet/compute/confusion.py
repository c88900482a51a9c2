"""Which classes a model mistakes for which, asked of its trainer on the test rows of this node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.compute.prediction import MAX_INPUTS, check_inputs, checked_prediction, names_of_classes
from flnet.datasets.metrics import class_counts, figures_of
from flnet.errors import NotOffered, TrainerError
from flnet.params.params import Array
from flnet.protocol.counts import PooledCounts
from flnet.text import text
from flnet.trainer import Rows, Trainer

MOST_ROWS = 20_000
MOST_CLASSES = 100


def confusion_of(trainer: Trainer, params: Mapping[str, Array], name: str) -> dict[str, Any]:
    """The confusion matrix of a model on this node's test rows, with figures over all classes and of each.

    At most `MOST_ROWS` rows are predicted, the same ones each time.

    Args:
        name: the trainer's id, for messages.

    Raises:
        NotOffered: its rows do not have one class each, or too many classes; says so.
        TrainerError: the trainer's rows or predictions make no sense.
    """
    rows, spec = trainer.tests().get("accuracy"), trainer.input_spec()
    if rows is None or spec is None or not (rows.labels >= 0).any():
        raise NotOffered(text("{trainer} does not give its test rows with one class each, as this needs", name))
    total = int((rows.labels >= 0).sum())
    some = np.flatnonzero(rows.labels >= 0)
    some = np.sort(np.random.default_rng(0).permutation(some)[:MOST_ROWS])
    drawn = Rows(rows.inputs[some], rows.labels[some])
    values = np.concatenate(
        [
            _predicted(trainer, params, check_inputs(drawn.inputs[start : start + MAX_INPUTS], spec), name)
            for start in range(0, len(some), MAX_INPUTS)
        ]
    )
    classes = names_of_classes(trainer.data_info().classes, values)
    if len(classes) > MOST_CLASSES:
        raise NotOffered(
            text("{trainer} has {count} classes; the table has at most {most}", name, len(classes), MOST_CLASSES)
        )
    if drawn.labels.max() >= len(classes):
        raise TrainerError(
            text(
                "{trainer} gives a label {number} for {count} classes", name, int(drawn.labels.max()), len(classes)
            )
        )
    return {"kind": "confusion", "rows": total, "judged": len(some), **_compared(drawn.labels, values, classes)}


def _predicted(trainer: Trainer, params: Mapping[str, Array], inputs: Array, name: str) -> Array:
    classes = len(trainer.data_info().classes)
    prediction = checked_prediction(trainer.predict(params, inputs), len(inputs), classes, name, trainer)
    if prediction.meaning == "any_of" or prediction.values.shape[1] < 2:
        raise NotOffered(text("{trainer} does not predict one class of several, as this needs", name))
    return prediction.values


def _compared(labels: Array, values: Array, classes: Sequence[str]) -> dict[str, Any]:
    guess, k = values.argmax(axis=1), len(classes)
    matrix = np.bincount(labels * k + guess, minlength=k * k).reshape(k, k)
    is_chance = float(values.min()) >= 0 and float(values.max()) <= 1
    counts = class_counts(labels, guess, classes, values if is_chance else None)
    pooled = PooledCounts()
    pooled.add(counts)
    each = pooled.by_label()
    return {
        "classes": list(classes),
        "matrix": matrix.tolist(),
        "figures": figures_of(counts),
        "each": {figure: [None if v is None else round(v, 6) for v in values] for figure, values in each.items()},
    }
