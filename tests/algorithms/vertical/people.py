"""Rows for the tests: the oracle's three, breast cancer in two halves of columns, and a run of all positions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.encrypted_regression import (
    KeyHolder,
    Message,
    Output,
    Position,
    RegressionFeatureHolder,
    RegressionLabelHolder,
    RegressionPlan,
    run,
)
from flnet.algorithms.vertical.encryption import OpenKey, PlainScheme, SecretScheme, Vector
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels, standardise

X_A = np.array([[1.0, 2], [0, 1], [-1, 1]])
X_B = np.array([[1.0], [2], [0]])
Y = np.array([1.0, -1, 1])
THETA = np.array([0.1, -0.2, 0.3])
SMALL = RegressionPlan(2, 1, (3,), epochs=1, rate=0.1, intercept=False, fewest=1)


@dataclass(frozen=True)
class People:
    """Breast cancer: A has the 10 means and the label, B the 20 other columns; 455 rows to train, 114 held out."""

    a: Any
    b: Any
    labels: Any
    train: int = 455

    @property
    def all(self) -> Any:
        return np.column_stack([np.ones(len(self.a)), self.a, self.b])

    def accuracy(self, theta: Any) -> float:
        scores = self.all[self.train :] @ theta
        return float((np.where(scores > 0, 1, -1) == self.labels[self.train :]).mean())


@cache
def breast_cancer(seed: int = 0) -> People:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    scaled, _, _ = standardise(rows[order])
    return People(scaled[:, :10], scaled[:, 10:], signed_labels(labels[order]))


def plan_of(people: People, epochs: int = 20, batch: int = 32) -> RegressionPlan:
    batches = fixed_batches(people.train, batch)
    return RegressionPlan(11, people.b.shape[1], batches, len(people.a) - people.train, epochs=epochs)


Recorded = list[tuple[Position, Position, Message]]


def trained(
    people: People,
    plan: RegressionPlan,
    keys: SecretScheme,
    open_key: OpenKey,
    start: Vector | None = None,
    recorded: Recorded | None = None,
) -> tuple[Vector, dict[Position, list[Output]]]:
    """Theta as A and B keep it, and what the positions said."""
    n, heard = people.train, recorded if recorded is not None else []
    a = RegressionLabelHolder(plan, people.a[:n], people.labels[:n], open_key, people.a[n:], people.labels[n:])
    b = RegressionFeatureHolder(plan, people.b[:n], open_key, people.b[n:])
    said = run((a, b, KeyHolder(plan, keys, start=start)), lambda *sent: heard.append(sent))
    assert a.kept is not None
    assert b.kept is not None
    return np.concatenate([a.kept.theta, b.kept.theta]), said


def small_run(
    keys: SecretScheme, open_key: OpenKey, mask: Vector | None, plan: RegressionPlan = SMALL
) -> tuple[Vector, Recorded]:
    """C's theta after one step over the oracle's rows, and all messages."""
    heard: Recorded = []
    holders = (
        RegressionLabelHolder(plan, X_A, Y, open_key, strict=False),
        RegressionFeatureHolder(plan, X_B, open_key, strict=False),
        KeyHolder(plan, keys, mask, start=THETA),
    )
    run(holders, lambda *sent: heard.append(sent))
    return holders[2].theta, heard


def first(heard: Recorded, kind: type) -> Any:
    return next(message for _, _, message in heard if isinstance(message, kind))


def plain_run(
    people: People, plan: RegressionPlan, start: Vector | None = None
) -> tuple[Vector, dict[Position, list[Output]]]:
    return trained(people, plan, PlainScheme(), PlainScheme.open_key, start)


def contents(message: Message) -> Iterator[bytes]:
    """All that a message carries, as bytes."""
    for field in fields(message):
        value = getattr(message, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            yield part if isinstance(part, bytes) else struct.pack("<d", part) if isinstance(part, float) else b""
