"""The plug-in API of trainers, and the single lane in which they work."""

from flnet.messages import HyperParams
from flnet.training.api import (
    DataInfo,
    Fit,
    InputSpec,
    MakeTrainer,
    Prediction,
    Score,
    Task,
    Trainer,
    TrainerFile,
    TrainerSettings,
)
from flnet.training.base import Pool
from flnet.training.loader import find_trainers
from flnet.training.pool import make_pool

__all__ = [
    "DataInfo",
    "Fit",
    "HyperParams",
    "InputSpec",
    "MakeTrainer",
    "Pool",
    "Prediction",
    "Score",
    "Task",
    "Trainer",
    "TrainerFile",
    "TrainerSettings",
    "find_trainers",
    "make_pool",
]
