"""Wraps a trainer in the methods of local training that the node's settings ask for."""

from __future__ import annotations

from flnet.algorithms.apfl import Adaptive
from flnet.algorithms.fed_prox import Proximal
from flnet.algorithms.fl_protector import Increment
from flnet.algorithms.scaffold import Controlled
from flnet.algorithms.wrapper import overrides
from flnet.text import text
from flnet.trainer import Method, Trainer, TrainerError


def with_method(trainer: Trainer, method: Method, seed: int, name: str) -> Trainer:
    """Wrap the trainer in the given method; return it unchanged if the method adds nothing.

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
            text(
                "FLNET_AGGREGATION=scaffold and FLNET_PERSONAL_MODEL=apfl change the same steps of "
                "training; leave one of them away, or take the personal model increment"
            )
        )
    if method.controls and not takes_apart:
        raise TrainerError(
            text("FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which {name} lacks", name)
        )
    if method.kind == "apfl" and not takes_apart:
        raise TrainerError(
            text("FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which {name} lacks", name)
        )
    steps_itself = not method.controls and method.kind != "apfl"
    if method.mu and steps_itself and "proximal" not in trainer.honours:
        raise TrainerError(
            text(
                "FLNET_LOCAL_TRAINING={value} needs a trainer that honours the proximal term, which "
                "{name} does not; set FLNET_LOCAL_TRAINING to plain on all nodes",
                method.local,
                name,
            )
        )
