"""A trainer whose table lacks a column on the second node, and loads its data only when a test lets it."""

from __future__ import annotations

COLUMNS = [f"c{number}" for number in range(1, 11)]
TRAINER = '''
"""Its data are there once the file "load" lies beside it; node 2 of the shards has a column less."""

import pathlib
import time

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer

LOAD = pathlib.Path(__file__).with_name("load")


class Unlike(Trainer):
    def __init__(self, settings):
        part = settings.shard[0]
        self.columns = [f"c{number}" for number in range(1, 10 if part == 2 else 11)]
        self.agreement = {"columns": ", ".join(self.columns)}

    def initial_params(self, seed):
        return {"w": np.zeros(len(self.columns), "float32")}

    def fit(self, task):
        return Fit({"w": task.params["w"] + np.float32(1)}, examples=10)

    def evaluate(self, params):
        return Score(0.5, examples=10)

    def data_info(self):
        return DataInfo(source="a table", rows={"train": 10, "test": 10})


def make_trainer(settings):
    while not LOAD.exists():
        time.sleep(0.01)
    return Unlike(settings)
'''
