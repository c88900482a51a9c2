"""Many nodes of MNIST measured at once: as one by one, but a common model once on the digits that all have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flnet.params import Params
from flnet.training.api import Partition, TrainerSettings
from flnet.training.samples import write_digits

pytest.importorskip("torch", reason="PyTorch is not installed")

from trainers import MNIST


def nodes(folder: Path, count: int) -> list[MNIST.Mnist]:
    """Nodes with unlike parts of made-up digits, each of which knows the whole published test part."""
    (folder / "mnist").mkdir()
    write_digits(folder / "mnist", train=120, test=40)
    found = []
    for part in range(1, count + 1):
        state = folder / f"state-{part}"
        state.mkdir()
        settings = TrainerSettings(folder, state, (part, count), partition=Partition.parse("dirichlet:1"))
        trainer = MNIST.make_trainer(settings)
        assert isinstance(trainer, MNIST.Mnist)
        found.append(trainer)
    return found


def test_scores_are_those_of_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers = nodes(tmp_path, 3)
    models = [Params(trainers[0].initial_params(seed)) for seed in (0, 0, 1)]
    jobs = list(zip(trainers, models, strict=True))
    alone = [trainer.evaluate(params) for trainer, params in jobs]
    measured: list[int] = []
    accuracy = MNIST._accuracy

    def counted(params: Any, part: MNIST.Part) -> float:
        measured.append(len(part.labels))
        return accuracy(params, part)

    monkeypatch.setattr(MNIST, "_accuracy", counted)
    assert MNIST.Mnist.evaluate_many(jobs) == alone
    assert all("official_accuracy" in score.metrics for score in alone)
    assert measured.count(40) == 2  # two models on all 40; each also on its node's own part
    assert len(measured) == 5
