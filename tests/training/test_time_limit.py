"""A training that may take so long: it ends with its batch, and says how much it saw."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from flnet.messages import HyperParams
from flnet.params import Array, Params
from flnet.settings import Settings
from flnet.training import Fit, Score, Task, Trainer, TrainerFile, TrainerSettings
from flnet.training import local as module
from flnet.training.backend import Assignment, FitOrder, assignment
from flnet.training.frames import assignment_fields, read_assignment
from flnet.training.local import LocalBackend

ROWS, EACH_S = 100, 1.0


class Clock:
    """Stands still but for what trainers take."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Slow(Trainer):
    """Takes a second for each batch of ten rows."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        w, batches = task.params["w"], task.hyper.e * ROWS // task.hyper.b
        done = 0
        for done in range(1, batches + 1):
            self.clock.now += EACH_S
            w = w + np.float32(1)
            task.progress(done, batches)
            if task.is_over():
                break
        return Fit({"w": w}, min(ROWS, done * task.hyper.b))

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        self.clock.now += 1000 * EACH_S  # measuring is not training
        return Score(0.5, 10)


@pytest.mark.parametrize(
    ("limit", "epochs", "batches", "examples"),
    [(None, 2, 20, 100), (2.5, 2, 3, 30), (0.001, 1, 1, 10), (15.0, 2, 15, 100), (99.0, 2, 20, 100)],
)
def test_the_time_ends_a_training_with_its_batch(
    limit: float | None, epochs: int, batches: int, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    who = Assignment(TrainerFile("SLOW", "given"), TrainerSettings(None, Path(), max_seconds=limit))
    backend = LocalBackend(lambda _: Slow(clock))
    start = Params({"w": np.zeros(1, np.float32)})
    for number in (1, 2):  # every training has the whole time
        order = FitOrder(number, start, HyperParams(e=epochs, u=0.1, b=10), 0)
        fit, _ = backend.fit(who, order, lambda done, total: None)
        assert (float(fit.params["w"][0]), fit.examples) == (batches, examples)


def test_the_setting_reaches_the_child(tmp_path: Path) -> None:
    settings = Settings(state_path=tmp_path, max_training_seconds=7.5)
    who = assignment(settings, TrainerFile("T", "given"))
    assert read_assignment(assignment_fields(who)).settings.max_seconds == 7.5
