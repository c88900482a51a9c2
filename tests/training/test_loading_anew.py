"""A trainer is loaded again when its data have changed, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.params import TrainerId
from flnet.settings import load_settings
from flnet.training.pool import make_pool

READER = """
import pathlib

import numpy as np

from flnet.training.api import Fit, Score, Trainer


class Reader(Trainer):
    def __init__(self):
        self.label = pathlib.Path(__file__).with_name("words").read_text()

    def initial_params(self, seed):
        return {"w": np.zeros(1, "float32")}

    def fit(self, task):
        return Fit(task.params, 1)

    def evaluate(self, params):
        return Score(0.5, 1)


def make_trainer(settings):
    return Reader()
"""


@pytest.mark.parametrize("compute", ["process", "thread"])
async def test_a_trainer_whose_data_changed_is_loaded_again(tmp_path: Path, compute: str) -> None:
    (tmp_path / "READER.py").write_text(READER)
    (tmp_path / "words").write_text("before")
    folders = {"trainers_path": tmp_path, "state_path": tmp_path / "state"}
    pool, reader = make_pool(load_settings({**folders, "compute": compute}, {})), TrainerId("READER")
    try:
        assert (await pool.prepare(reader))[0].label == "before"
        (tmp_path / "words").write_text("after")
        assert (await pool.prepare(reader))[0].label == "before"
        assert (await pool.prepare(reader, anew=True))[0].label == "after"
    finally:
        await pool.close()
