"""Private parameters that learn on from each average, in every lane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.params import TrainerId
from flnet.training.api import Array, Fit, Score, Task, Trainer
from flnet.training.memory import InlinePool
from tests.helpers import HYPER, params
from tests.training.conftest import MakeBench

OWN = TrainerId("OWN")
AVERAGE = params(w=[3.0], own=[1.0])
TEXT = """
import numpy as np
from flnet.training.api import *

class Own(Trainer):
    shared = ("w",)
    personalises = True
    def initial_params(self, seed):
        return {"w": np.zeros(1, np.float32), "own": np.zeros(1, np.float32)}
    def fit(self, task):
        return Fit(dict(task.params), examples=1)
    def evaluate(self, params):
        return Score(0.5, 4, {"own": float(params["own"][0])})
    def personalise(self, task):
        task.progress(1, 1)
        return {"own": task.params["own"] + task.params["w"]}

def make_trainer(settings):
    return Own()
"""


class Personal(Trainer):
    """What it becomes is given."""

    shared = ("w",)
    personalises = True

    def __init__(self, learnt: Any) -> None:
        self.learnt = learnt

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32), "own": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit(task.params, 1)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 4)

    def personalise(self, task: Task) -> Mapping[str, Array]:
        task.progress(1, 1)
        found: Mapping[str, Array] = self.learnt
        return found


async def test_private_parameters_learn_on_and_are_measured(compute: str, bench: MakeBench, folder: Path) -> None:
    (folder / "OWN.py").write_text(TEXT)
    one = bench(compute)
    declaration, _ = await one.pool.prepare(OWN)
    assert declaration.personalises
    learnt, score = await one.pool.personalise(OWN, AVERAGE, HYPER, seed=1)
    assert learnt == params(own=[4.0])
    assert score.metrics == {"own": 4.0}
    assert one.progress == [("OWN", 1, 1)]


@pytest.mark.parametrize(
    ("learnt", "words"),
    [
        ({"w": np.ones(1)}, "personalise of trainer OWN gave w; expected private parameters only: own"),
        (
            {"own": np.array([np.nan])},
            "personalise of trainer OWN diverged: 'own' has numbers",
        ),
        ({"own": np.ones(2)}, "personalise of trainer OWN gave parameters that do not fit"),
        (None, "personalise of trainer OWN gave no parameters"),
    ],
)
async def test_what_is_no_private_parameter_is_refused(learnt: Any, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        await InlinePool({"OWN": Personal(learnt)}).personalise(OWN, AVERAGE, HYPER, seed=1)


async def test_it_can_be_cancelled_as_a_training_can() -> None:
    pool = InlinePool({"OWN": Personal({"own": np.ones(1)})}, lambda *told: pool.cancel(OWN))
    with pytest.raises(TrainerError, match="the training of OWN was cancelled"):
        await pool.personalise(OWN, AVERAGE, HYPER, seed=1)


async def test_a_trainer_that_does_not_say_how_is_asked_in_vain() -> None:
    class Silent(Personal):
        personalise = Trainer.personalise

    with pytest.raises(Exception, match="this trainer has no method personalise"):
        await InlinePool({"OWN": Silent({})}).personalise(OWN, AVERAGE, HYPER, seed=1)
