"""The three positions with real encryption: O14 and whole runs within the stated error, and what reaches each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.encrypted_regression import (
    Combined,
    EncryptedGradients,
    HoldoutTerms,
    LossMeasured,
    Message,
    Position,
    RegressionPlan,
    Residual,
)
from flnet.algorithms.vertical.encryption import OpenKey, PlainScheme, SecretScheme, Shape
from flnet.algorithms.vertical.taylor_regression import slices, taylor_loss, train
from tests.algorithms.vertical.people import (
    SMALL,
    People,
    Recorded,
    breast_cancer,
    contents,
    first,
    plan_of,
    small_run,
    trained,
)
from tests.algorithms.vertical.searching import found, unpacked

pytest.importorskip("tenseal", reason="TenSEAL is not installed")

from flnet.security.ckks import CkksKeys, CkksScheme

A, B, C = Position.LABELS, Position.FEATURES, Position.KEY


@cache
def keys() -> CkksKeys:
    return CkksKeys()


def test_oracle_14() -> None:
    plan = replace(SMALL, ridge=0.0)
    theta, heard = small_run(keys(), CkksScheme.open_key, np.array([1.0, 1, 0]), plan)

    def opened(data: bytes, summed: bool = False) -> list[float]:
        values: list[float] = keys().decrypt(keys().load(data, Shape(3, 2, summed))).tolist()
        return values

    near = 5 * plan.noise(keys())
    assert opened(first(heard, Residual).residual) == pytest.approx([-0.575, 0.45, 0], abs=1e-8)
    assert opened(first(heard, Combined).residual) == pytest.approx([-0.5, 0.6, 0], abs=1e-8)
    assert opened(first(heard, EncryptedGradients).gradient_a, summed=True) == pytest.approx(
        [-0.5, -0.4], abs=near
    )
    assert opened(first(heard, EncryptedGradients).gradient_b, summed=True)[0] == pytest.approx(0.7, abs=near)
    expected = np.array([0.1, -0.2, 0.3]) - 0.1 * np.array([-0.25, -0.2, 0.35])
    assert theta == pytest.approx(expected, abs=5 * 0.1 * np.sqrt(2) * plan.noise(keys()) / 2)
    assert near < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "epochs"), [(32, 4), (200, 20), pytest.param(32, 20, marks=pytest.mark.long)])
def test_a_run_ends_near_the_taylor_run(batch: int, epochs: int) -> None:
    people = breast_cancer()
    plan = plan_of(people, epochs, batch)
    start = np.concatenate([np.random.default_rng(1).normal(size=11) / 4, np.zeros(20)])
    theta, said = trained(people, plan, keys(), CkksScheme.open_key, start)
    rows, labels = people.all, people.labels
    expected = train(rows[: people.train], labels[: people.train], plan.batches, start, epochs)
    error = plan.weight_error(keys())
    assert np.abs(theta - expected).max() < 5 * error < 0.01
    assert abs(people.accuracy(theta) - people.accuracy(expected)) <= 0.005
    losses = [output.loss for output in said[C] if isinstance(output, LossMeasured)]
    exact = taylor_loss(rows[people.train :], labels[people.train :], theta)
    assert losses[-1] == pytest.approx(exact, abs=10 * plan.loss_noise(keys()))
    assert len(losses) == epochs


# What reaches each node


def secrets(people: People, plan: RegressionPlan) -> dict[str, Any]:
    """What no other node may see, for the first steps of a run from 0."""
    n, steps = people.train, slices(plan.batches)
    rows, labels, theta = people.all, people.labels, np.zeros(31)
    residuals, products = [], []
    for part in steps:
        w = rows[:n][part] @ theta / 4 - labels[:n][part] / 2
        residuals.append(w)
        products.append(rows[:n][part, 1:] * w[:, None])
        theta = train(rows[:n][part], labels[:n][part], (len(w),), theta, epochs=1)
    return {
        "features of A": people.a,
        "features of B": people.b,
        "labels": np.column_stack([labels, labels]),
        "residuals": np.concatenate(residuals),
        "gradients of rows": np.concatenate(products),
    }


@cache
def recorded(encrypted: bool) -> tuple[People, RegressionPlan, Recorded]:
    people = replace(breast_cancer(), train=96)
    people = replace(people, a=people.a[:130], b=people.b[:130], labels=people.labels[:130])
    plan, heard = plan_of(people, epochs=1), Recorded()
    scheme: SecretScheme = keys() if encrypted else PlainScheme()
    open_key: OpenKey = CkksScheme.open_key if encrypted else PlainScheme.open_key
    trained(people, plan, scheme, open_key, recorded=heard)
    return people, plan, heard


def told_of(encrypted: bool, chosen: Callable[[Position, Message], bool] = lambda to, message: True) -> set[str]:
    people, plan, heard = recorded(encrypted)
    told = {
        data
        for _, to, message in heard
        if chosen(to, message)
        for part in contents(message)
        for data in unpacked(part)
    }
    return found(told, secrets(people, plan))


@pytest.mark.slow
def test_nothing_of_a_row_reaches_another_node() -> None:
    assert told_of(encrypted=True) == set()
    _, _, heard = recorded(encrypted=True)
    assert {type(message).__name__ for _, _, message in heard} == {
        *("Keys", "OwnWeights", "Residual", "Combined", "EncryptedGradients", "HoldoutTerms", "HoldoutLoss")
    }


@pytest.mark.slow
def test_the_search_finds_what_the_twin_sends_in_clear_text() -> None:
    """The positive control: without encryption, residuals of rows are there; gradients are totals in both."""
    assert told_of(encrypted=False) == {"residuals"}  # from which labels follow
    assert told_of(encrypted=False, chosen=lambda to, message: isinstance(message, Combined)) == {"residuals"}
    assert told_of(encrypted=False, chosen=lambda to, message: to is C) == set()
    people, plan, _ = recorded(encrypted=False)
    for name, values in secrets(people, plan).items():
        for kind in ("<f4", "<f8"):
            data = b"some" + np.asarray(values, np.float64).astype(kind).tobytes() + b"bytes"
            assert found([data], {name: values}) == {name}, kind


def test_only_the_two_data_holders_get_ciphertexts_of_rows() -> None:
    _, _, heard = recorded(encrypted=True)
    to_c = {type(message) for _, to, message in heard if to is C}
    assert {kind.__name__ for kind in to_c} == {"EncryptedGradients", "HoldoutLoss"}
    assert all(to is not C for _, to, message in heard if isinstance(message, Residual | Combined | HoldoutTerms))


def test_equal_numbers_are_never_sent_as_equal_bytes() -> None:
    """From theta = 0 the residuals of all first batches with equal labels would be alike."""
    _, _, heard = recorded(encrypted=True)
    bodies = [part for _, _, message in heard for part in contents(message) if len(part) > 1000]
    sent_twice = {bodies.index(body) for body in bodies if bodies.count(body) > 1}
    doubled = {
        type(m).__name__
        for _, _, m in heard
        for part in contents(m)
        if len(part) > 1000 and bodies.count(part) > 1
    }
    # A passes [[X_B' w]] on, and both get the keys.
    assert doubled == {"Keys", "Combined", "EncryptedGradients"}, sent_twice
