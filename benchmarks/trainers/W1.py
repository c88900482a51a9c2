"""Work W1 as a trainer; see _work.py."""

from __future__ import annotations

from benchmarks.trainers._work import WORKS, WorkTrainer
from flnet.trainer import Trainer, TrainerSettings


def make_trainer(settings: TrainerSettings) -> Trainer:
    """The work with this node's share of the made-up data."""
    return WorkTrainer(WORKS["W1"], settings)
