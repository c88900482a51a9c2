"""The lane's twin keeps the lane's promises, without thread or process."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.errors import TrainerError
from flnet.params import TrainerId
from flnet.training.api import TrainerSettings
from flnet.training.memory import InlinePool
from tests.helpers import HYPER, params
from tests.training.bench import TINY
from tests.training.plugins.TINY import Tiny, make_trainer

START = params("float64", w=[0, 0], b=[0])


async def test_given_trainers_are_prepared_trained_and_measured() -> None:
    told: list[tuple[str, int, int]] = []
    pool = InlinePool({"TINY": Tiny(seed=0)}, lambda *progress: told.append(progress))
    declaration, start = await pool.prepare(TINY)
    assert (declaration.label, start) == ("Points of a plane", START)
    fit, score = await pool.fit(TINY, start, declaration.defaults, seed=1)
    assert (fit.examples, score.examples, score.accuracy > 0.9) == (100, 100, True)
    assert told == [("TINY", n, 5) for n in range(1, 6)]
    assert await pool.evaluate(TINY, start.merged_with(fit.params)) == score


async def test_a_training_can_be_cancelled_from_its_progress() -> None:
    pool = InlinePool({"TINY": Tiny(seed=0)}, lambda *told: pool.cancel(TINY))
    with pytest.raises(TrainerError, match="the training of TINY was cancelled"):
        await pool.fit(TINY, START, HYPER, seed=1)


async def test_unknown_trainers_failures_and_a_closed_pool_end_in_words() -> None:
    pool = InlinePool({"TINY": Tiny(seed=0)})
    with pytest.raises(TrainerError, match="this node has no trainer 'X'; it has TINY"):
        await pool.prepare(TrainerId("X"))
    with pytest.raises(TrainerError, match="failed in evaluate: KeyError: 'w'"):
        await pool.evaluate(TINY, params(b=[0]))
    with pytest.raises(TrainerError, match="the work failed: ZeroDivisionError"):
        await pool.run(lambda: 1 // 0)
    assert await pool.run(lambda: 5) == 5
    await pool.close()
    with pytest.raises(TrainerError, match="the node is stopping"):
        await pool.evaluate(TINY, START)


def test_the_smallest_trainer_is_complete() -> None:
    assert isinstance(make_trainer(TrainerSettings(None, Path())), Tiny)


async def test_a_trainer_is_loaded_anew_only_when_that_is_asked_for() -> None:
    there = {"TINY": Tiny(seed=0)}
    pool = InlinePool(there)
    await pool.prepare(TINY)
    there["TINY"] = Tiny(seed=0)
    there["TINY"].label = "Other points"
    assert (await pool.prepare(TINY))[0].label == "Points of a plane"
    assert (await pool.prepare(TINY, anew=True))[0].label == "Other points"
