"""Whole simulated runs, with every kind of fault, go as they did."""

from __future__ import annotations

from typing import Any

import pytest

from . import golden, internals

NAME = "simulations.json"
SEEDS = {"common": range(20), "asynchronous": range(8)}
QUICK = 6  # runs of each kind that are quick enough to be tried all the time
RUNS = [f"{kind} {seed}" for kind, seeds in SEEDS.items() for seed in seeds]
FEW = [f"{kind} {seed}" for kind, seeds in SEEDS.items() for seed in seeds[:QUICK]]


def played(run: str) -> dict[str, Any]:
    kind, _, seed = run.partition(" ")
    return internals.simulated(int(seed), kind == "asynchronous")


@pytest.mark.skipif(golden.is_recording(), reason="test_they_are_recorded makes the recording")
@pytest.mark.parametrize("run", [run if run in FEW else pytest.param(run, marks=pytest.mark.slow) for run in RUNS])
def test_a_run_goes_as_it_did(run: str) -> None:
    golden.must_equal(golden.load(NAME)[run], played(run), run)


@pytest.mark.skipif(not golden.is_recording(), reason="only where recordings are made")
def test_they_are_recorded() -> None:
    golden.check(NAME, {run: played(run) for run in RUNS})
