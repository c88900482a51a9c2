"""Real nodes with watched folders: files that are dropped there start one round of the whole mesh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, harness, until

pytestmark = pytest.mark.slow

# Learns the mean of a column; reads its table again each time it is made.
TRAINER = '''
"""The mean of the numbers in a table."""

import csv

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer
from flnet.datasets.split import stored_split

DATA_PLACE = "numbers.csv"
SHARES = {"train": 70, "validation": 10, "test": 20}


class Numbers(Trainer):
    def __init__(self, settings):
        self.path = settings.datasets_path / DATA_PLACE
        with self.path.open(newline="") as file:
            self.x = np.array([[float(row["x"])] for row in csv.DictReader(file)], "float32")
        labels = np.zeros(len(self.x), int)
        self.sides = stored_split(settings.state_path / "split.npz", self.x, labels, SHARES, settings.seed)

    def initial_params(self, seed):
        return {"w": np.zeros(1, "float32")}

    def fit(self, task):
        return Fit({"w": self.x[self.sides["train"]].mean(0)}, examples=len(self.sides["train"]))

    def evaluate(self, params):
        return Score(float(1 / (1 + abs(self.x[self.sides["test"]].mean() - params["w"][0]))), examples=1)

    def data_info(self):
        rows = {side: len(numbers) for side, numbers in self.sides.items()}
        return DataInfo(source=f"table {self.path}", rows=rows, checksum=str(self.x.sum()))


def make_trainer(settings):
    return Numbers(settings)
'''


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        made.module = "tests.processes.hurried"
        (made.trainers / "NUMBERS.py").write_text(TRAINER)
        for index in range(3):
            data = tmp_path / f"data{index}"
            data.mkdir()
            rows = "".join(f"{index}{number:02}.5\n" for number in range(40))
            (data / "numbers.csv").write_text("x\n" + rows)
            watched = {"WATCH_DATA": str(tmp_path / f"incoming{index}"), "DATASETS_PATH": str(data)}
            made.start(TRAINERS="NUMBERS", DATA_SHARD="1/1", **watched)
        made.ready()
        yield made


def drop(folder: Path, index: int, name: str, text: str) -> Path:
    path = folder / f"incoming{index}/NUMBERS" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{name}.part")
    unfinished.write_text(text)
    return unfinished.rename(path)  # in one piece, however long the machine takes to write it


def has_learnt_all(node: RealNode) -> bool:
    """Whether a node is between rounds, and no example waits for the next one."""
    job = node.job("NUMBERS")
    return bool(job["phase"] == "IDLE" and job["schedule"]["new_examples"] == 0)


def rows(node: RealNode) -> int:
    return sum(node.job("NUMBERS")["data"]["rows"].values())


def test_new_files_on_one_node_start_one_round_of_all(mesh: Harness, tmp_path: Path) -> None:
    first, second, third = mesh.nodes
    drop(tmp_path, 1, "more.csv", "x\n7.25\n8.25\n0.5\n")
    broken = drop(tmp_path, 1, "broken.csv", "x\nseven\n")
    unfinished = drop(tmp_path, 1, "later.csv.part", "x\n1.125\n")
    until(lambda: all(node.history("NUMBERS") for node in mesh.nodes), "the round")
    assert rows(second) == 43 and rows(first) == rows(third) == 40
    (record,) = second.history("NUMBERS")
    assert (record["initiator"], record["why"]) == ("n1", "3 new examples have come")
    assert record["contributors"] == ["n0", "n1", "n2"]
    assert broken.exists()  # it has a minute to become whole before it is put aside
    # Two nodes find files at once: that is one round, as all that came before it is in it.
    unfinished.rename(unfinished.with_suffix(""))
    drop(tmp_path, 0, "a.csv", "x\n11.25\n")
    until(lambda: rows(first) == 41 and rows(second) == 44, "the files of both")
    until(lambda: all(node.job("NUMBERS")["current_round"] >= 1 for node in mesh.nodes), "the next round")
    until(lambda: all(has_learnt_all(node) for node in mesh.nodes), "the end of the last one")
    asked = sum(len(node.told("round_scheduled")) for node in mesh.nodes)
    rounds = first.job("NUMBERS")["current_round"]
    assert asked in (2, 3) and rounds in (1, 2)
