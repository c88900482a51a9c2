"""The model of a label holder's own columns alone."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.algorithms.vertical.own_model import OwnModel, gain
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.params.params import PeerId
from flnet.trainer import HyperParams
from tests.algorithms.vertical.holders import Table

B, HYPER = PeerId("b"), HyperParams(e=1, u=0.05, b=16)


def own_model(count: int, table: Table) -> OwnModel:
    plan = SplitPlan({PeerId("a"): 2, B: 3}, {B: None}, AlignedBatches(count, 16, 1, "x"))
    bottom, top = table.bottom_model(1, HYPER), table.top_model(3, 2, HYPER)
    assert bottom is not None
    assert top is not None
    return OwnModel(B, plan, table, np.arange(count)[::-1], bottom, top, 0)


def table(count: int) -> Table:
    chance = np.random.default_rng(3)
    x = chance.normal(size=(count, 2)).astype(np.float32)
    return Table(list(range(count)), x, (x[:, 0] > 0).astype(np.int64))


def test_it_makes_the_steps_that_are_done_and_no_other() -> None:
    model, stepwise = own_model(100, table(100)), own_model(100, table(100))
    assert model.steps == 5
    before = model.top.state().digest
    model.train_to(0)
    assert model.top.state().digest == before
    model.train_to(5)
    for done in (1, 1, 3, 5, 5):
        stepwise.train_to(done)
    assert stepwise.top.state().digest == model.top.state().digest != before
    figures = model.figures()
    assert figures is not None
    assert sorted(figures) == ["accuracy", "auc", "loss"]


def test_without_hold_out_rows_there_is_nothing_to_state() -> None:
    model = own_model(8, table(8))
    model.train_to(1)
    assert model.figures() is None


def test_numbers_that_are_not_finite_end_it_without_an_error() -> None:
    data = table(100)
    assert data.x is not None
    model = own_model(100, data)
    data.x[:] = np.inf
    with np.errstate(all="ignore"):
        model.train_to(5)
    assert model.figures() is None


def test_the_gain_is_the_difference_of_what_both_state() -> None:
    assert gain({"accuracy": 0.75, "auc": 0.5, "f1": 1.0}, {"accuracy": 0.5, "loss": 0.25}) == {"accuracy": 0.25}
    assert gain({"loss": 0.25}, {"loss": 0.5}) == pytest.approx({"loss": -0.25})
