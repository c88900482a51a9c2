"""The vertical trainer without code, from its file to a trained epoch in two hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flnet.algorithms.vertical.encryption import PLAIN
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.compute.loader import find_trainers, import_trainer
from flnet.compute.vertical import Opened, VerticalHost
from flnet.datasets.no_code import OwnColumns
from flnet.params.params import Array
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import BeginPart, PositionPart
from flnet.rounds.vertical_round import UNTOLD
from flnet.settings import Settings
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


def first_outputs(folder: Path, state: Path) -> Array:
    """What a node with output noise sends first in an epoch, after it loaded its trainer as nodes do."""
    state.mkdir(exist_ok=True)
    (file,) = find_trainers(Settings.model_validate({"trainers_path": folder, "trainers": ("BANK",)}))
    host = import_trainer(file, TrainerSettings(None, state))
    assert isinstance(host, VerticalHost)
    offered = host.declared(1).offers["vertical"]
    fields = {name: value for name, value in offered.items() if name not in UNTOLD}
    bank = PositionPart(**fields, number=-1)
    insurer = bank.model_copy(update={"has_label": True, "output_noise": None})
    begin = BeginPart(holders={"a": bank, "b": insurer}, closed=-1, aligns=False, seed=1).as_dict()
    rows, hyper = np.arange(4), HyperParams(e=1, u=0.1, b=4)
    turn = host.open(Opened("a", "s", begin, hyper, rows=rows, alignment="ab" * 32))
    (sent,) = turn.sent
    return np.asarray(sent["arrays"]["values"])


def test_noise_follows_from_a_key_in_the_folder_of_the_trainer(tmp_path: Path) -> None:
    """A node that was restarted sends a batch again as it was; no other node has its noise."""
    (tmp_path / "bank.csv").write_text("id,age\n1,20\n2,40\n3,60\n4,90\n")
    toml = f'kind = "vertical"\ndata = "{tmp_path / "bank.csv"}"\nid = "id"\n'
    (tmp_path / "BANK.toml").write_text(toml)
    plain = first_outputs(tmp_path, tmp_path / "a")
    assert not (tmp_path / "a" / "noise.key").exists()
    (tmp_path / "BANK.toml").write_text(toml + "output_noise = {clip = 100, multiplier = 0.01}\n")
    noisy = first_outputs(tmp_path, tmp_path / "a")
    assert 0.2 < (noisy - plain).std() < 5  # 1 on average
    assert (first_outputs(tmp_path, tmp_path / "a") == noisy).all()
    assert (first_outputs(tmp_path, tmp_path / "b") != noisy).all()
