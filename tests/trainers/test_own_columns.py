"""The vertical trainer without code, from its file to a trained epoch in two hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flnet.algorithms.vertical.encryption import PLAIN
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.compute.vertical import VerticalHost
from flnet.datasets.no_code import OwnColumns
from flnet.trainer import TrainerSettings
from tests.compute.test_vertical import Job
from trainers._own_columns import make_own_columns


def test_a_bank_and_an_insurer_train_together(tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    x = chance.normal(size=(120, 2))
    bank = "".join(f"{row},{x[row, 0]:.4f},{'AB'[row % 2]}\n" for row in chance.permutation(120)[:110])
    insurer = "".join(f"{row},{x[row, 1]:.4f},{int(x[row].sum() > 0)}\n" for row in chance.permutation(120))
    (tmp_path / "bank.csv").write_text(f"id,age,city\n{bank}")
    (tmp_path / "insurer.csv").write_text(f"person,cost,claim\n{insurer}")
    settings = TrainerSettings(tmp_path, tmp_path)
    files = {
        "bank": OwnColumns(kind="vertical", data="bank.csv", id="id", share_names=True, batch=32),
        "insurer": OwnColumns(
            kind="vertical", data="insurer.csv", id="person", target="claim", batch=32, allow_predictions=True
        ),
    }
    hosts = {
        name: VerticalHost(make_own_columns(file, settings), name, SafePrimeGroup) for name, file in files.items()
    }
    job = Job(hosts)
    positions = job.positions()
    assert (positions["bank"].columns, positions["bank"].names) == (2, ("age", "city"))
    assert (positions["insurer"].columns, positions["insurer"].names) == (1, ())
    assert [position.has_label for position in positions.values()] == [False, True]
    assert hosts["insurer"].declared(0).data["classes"] == []
    allowed = {name: host.declared(0).offers["vertical"]["allowsPredictions"] for name, host in hosts.items()}
    assert allowed == {"bank": False, "insurer": True}
    assert list(hosts["insurer"].trainer.class_names()) == ["0", "1"]
    job.epoch(aligns=True)
    for _ in range(9):
        job.epoch(aligns=False)
    assert len(job.rows["bank"]) == 110
    losses = [turn.report["loss"] for turn in job.turns["bank"] if turn.report]
    assert losses[-1] < 0.7 * losses[0]


def test_three_files_train_a_regression_under_encryption(tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    x = chance.normal(size=(120, 2))
    bank = "".join(f"{row},{x[row, 0]:.4f},{'AB'[row % 2]}\n" for row in chance.permutation(120))
    insurer = "".join(f"{row},{x[row, 1]:.4f},{int(x[row].sum() > 0)}\n" for row in chance.permutation(120))
    (tmp_path / "bank.csv").write_text(f"id,age,city\n{bank}")
    (tmp_path / "insurer.csv").write_text(f"person,cost,claim\n{insurer}")
    settings = TrainerSettings(tmp_path, tmp_path)
    method: dict[str, Any] = {"kind": "vertical", "method": "encrypted-regression"}
    files = {
        "bank": OwnColumns(data="bank.csv", id="id", **method),
        "insurer": OwnColumns(data="insurer.csv", id="person", target="claim", **method),
        "notary": OwnColumns(**method),
    }
    hosts = {
        name: VerticalHost(make_own_columns(file, settings), name, SafePrimeGroup, encryption=PLAIN)
        for name, file in files.items()
    }
    job = Job(hosts)
    positions = job.positions()
    assert [(p.columns, p.width, p.has_label, p.closes) for p in positions.values()] == [
        (2, 3, False, False),
        (1, 1, True, False),
        (0, 0, False, True),
    ]
    job.epoch(aligns=True)
    for _ in range(9):
        job.epoch(aligns=False)
    assert job.turns["notary"][-1].common is None
    losses = [turn.report["loss"] for turn in job.turns["bank"] if turn.report]
    assert len(losses) == 10
    assert losses[-1] < losses[0] < 0.69
