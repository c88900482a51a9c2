"""FedProx around a trainer that honours the term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.algorithms.fed_prox import Proximal
from flnet.params.params import Params
from tests.algorithms.lines import Lines, Point, clouds, task


def test_the_trainer_inside_is_told_mu() -> None:
    """From 1 to the goal 0 by steps of .1 at mu .5: 1 - .1 = .9, then .9 - .1 (.9 - .05) = .815."""
    held = Proximal(Point((0.0,), (1.0,)), 0, 0.5)
    assert held.fit(task(held.initial_params(0), epochs=2)).params["z"][0] == pytest.approx(0.815, abs=1e-12)


def test_without_mu_it_is_the_plain_training_to_the_bit() -> None:
    x, y = clouds(60, 0.0, False)
    plain, held = Lines(x, y), Proximal(Lines(x, y), 0, 0.0)
    start = plain.initial_params(0)
    assert Params(held.fit(task(start)).params) == Params(plain.fit(task(start)).params)
    many = Proximal.fit_many([(held, task(start)), (Proximal(Lines(x, y), 0, 1.0), task(start))])
    assert Params(many[0].params) == Params(plain.fit(task(start)).params)
    assert Params(many[1].params) == Params(plain.fit(replace(task(start), proximal=1.0)).params)
