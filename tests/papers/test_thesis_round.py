"""A node of García Pérez (2021) averages a round by itself, and what it gets is what our nodes hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.params.params import Params
from tests.node.mesh import until
from tests.papers.test_thesis_bodies import ACCURACY, TRAINING, Thesis, with_numbers

NUMBERS = 2000  # so many that int8 rounds them
UPDATE, CLAIM = "/training/model_params", "/training/model_params/accuracy"


def read(body: dict[str, Any]) -> Params:
    return Params({name: np.array(values, np.float32) for name, values in body["modelParams"].items()})


def written(params: Params) -> dict[str, Any]:
    return {name: array.tolist() for name, array in params.items()}


def mean(a: Params, b: Params) -> Params:
    """Section 3.2.4.1: the plain mean, number by number."""
    return Params({n: ((a[n].astype(np.float64) + b[n]) / 2).astype(np.float32) for n in a})


def is_rounded(array: np.ndarray) -> bool:
    """Whether each 256 numbers are whole multiples of a 127th of the largest one."""
    blocks = np.split(array.ravel().astype(np.float64), range(256, array.size, 256))
    steps = [block / (np.abs(block).max() / 127) for block in blocks]
    return all(np.allclose(step, np.rint(step), atol=1e-3) for step in steps)


@pytest.mark.parametrize("wire", ["safetensors", "json", "int8"])
async def test_a_node_of_the_thesis_and_one_of_ours_hold_one_average(wire: str) -> None:
    thesis = Thesis(wire, NUMBERS)
    await thesis.node.start()
    await until(lambda: bool(thesis.node.ready()["data_loaded"]))
    await thesis.meet_old_node()
    drawn = np.random.default_rng(7).normal(size=(NUMBERS, 1)).astype(np.float32)
    start = Params({"weights": drawn, "bias": np.zeros(1, np.float32)})
    mine = Params({name: array * np.float32(0.75) for name, array in start.items()})

    await thesis.post("/training", with_numbers(TRAINING, modelParams=written(start)))
    await until(lambda: thesis.job()["phase"] == "GATHERING" and bool(thesis.old.bodies(UPDATE)))
    (sent,) = thesis.old.bodies(UPDATE)
    yours = read(sent)
    assert len(np.unique(yours["weights"])) > 100
    assert is_rounded(yours["weights"]) == (wire == "int8")
    average = mean(mine, yours)
    thesis.old.held = written(average)

    await thesis.post(UPDATE, with_numbers(TRAINING, modelParams=written(mine)))
    await until(lambda: thesis.job()["phase"] == "IDLE")
    (claim,) = thesis.old.bodies(CLAIM)
    assert read(claim) == average
    assert thesis.job()["digest"] == average.digest
    compared = with_numbers(ACCURACY, modelParams=written(average))
    status, answer = await thesis.post(CLAIM, compared)
    assert (status, read(answer)) == (200, average)
    await thesis.node.stop()
