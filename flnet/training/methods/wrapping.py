"""A trainer as a node's method wants it."""

from __future__ import annotations

from flnet.training.api import Trainer, TrainerError
from flnet.training.method import Method
from flnet.training.methods.adaptive import Adaptive
from flnet.training.methods.base import overrides
from flnet.training.methods.controlled import Controlled
from flnet.training.methods.increment import Increment
from flnet.training.methods.proximal import Proximal


def with_method(trainer: Trainer, method: Method, seed: int, name: str) -> Trainer:
    """The trainer in what the method does around it; itself if there is nothing.

    Args:
        seed: of its initial parameters.
        name: its id, for people.

    Raises:
        TrainerError: it lacks what the method needs; says which setting to change.
    """
    _refuse(trainer, method, name)
    if method.controls:
        wrapped: Trainer = Controlled(trainer, seed, method.mu)
    elif method.kind == "apfl":
        return Adaptive(trainer, seed, method)
    else:
        wrapped = Proximal(trainer, seed, method.mu) if method.mu else trainer
    return Increment(wrapped, trainer, seed, method) if method.kind == "increment" else wrapped


def _refuse(trainer: Trainer, method: Method, name: str) -> None:
    takes_apart = overrides(trainer, "gradients")
    if method.controls and method.kind == "apfl":
        raise TrainerError(
            "FLNET_AGGREGATION=scaffold and FLNET_PERSONAL_MODEL=apfl change the same steps of training; leave "
            "one of them away, or take the personal model increment"
        )
    if method.controls and not takes_apart:
        raise TrainerError(
            f"FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which {name} lacks"
        )
    if method.kind == "apfl" and not takes_apart:
        raise TrainerError(
            f"FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which {name} lacks"
        )
    steps_itself = not method.controls and method.kind != "apfl"
    if method.mu and steps_itself and "proximal" not in trainer.honours:
        raise TrainerError(
            f"FLNET_LOCAL_TRAINING={method.local} needs a trainer that honours the proximal term, which {name} "
            "does not; set FLNET_LOCAL_TRAINING to plain on all nodes"
        )
