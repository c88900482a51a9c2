"""Single rows hidden in a training: the noisy mean of their gradients, which trainers can, and what breaks it.

The guarantee of DP-SGD (Abadi et al. 2016, Algorithm 1) holds if each step adds up gradients of rows, each of which
depends on its own row and on what earlier noisy steps gave. Whatever else of the rows reaches a step breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from flnet.algorithms.wrapper import Wrapped, usual_buffers
from flnet.text import joined, text
from flnet.trainer import Array, Method, RowPrivacy, Trainer, TrainerError

SETTING = "FLNET_PRIVACY=rows"
HONOUR = "row-privacy"
SHIPPED = (
    *("CHEST_SUBTYPES", "CIFAR10_HEADS", "CIFAR10_SMALL", "DIGIT_DOMAINS"),
    *("MNIST", "MNIST_3_7", "MOOC", "MULTI_LABEL"),
)


def hidden_mean(
    gradients: Mapping[str, Array], privacy: RowPrivacy, expected: int, normal: Callable[[int], Array]
) -> dict[str, Array]:
    """One step's gradient, for trainers in numpy: rows clipped, added up with noise, divided.

    Args:
        gradients: of each row, (n, *shape) for each array; n may be 0.
        expected: how many rows a step has on average, known without looking at the draw.
        normal: gives so many standard normal numbers that nobody can foresee: `flnet.security.noise.system_noise`.

    Returns:
        (*shape) for each array.
    """
    squares = [np.square(g, dtype=np.float64).sum(tuple(range(1, g.ndim))) for g in gradients.values()]
    shares = privacy.clip / np.maximum(np.sqrt(sum(squares)), privacy.clip)
    mean = {}
    for name, rows in gradients.items():
        noise = normal(int(np.prod(rows.shape[1:]))).reshape(rows.shape[1:])
        total = np.tensordot(shares, rows, 1) + privacy.noise_multiplier * privacy.clip * noise
        mean[name] = (total / expected).astype(rows.dtype)
    return mean


def must_hide_rows(trainer: Trainer, method: Method, seed: int, name: str) -> None:
    """Refuse what would not hide single rows.

    Args:
        seed: of the initial parameters, whose names are looked at.
        name: the trainer's id, for people.

    Raises:
        TrainerError: this trainer, or this method with it, would not; says what would.
    """
    _refuse_combinations(trainer, method)
    offered = text("{names} and trainers without code (TOML files)", ", ".join(SHIPPED))
    if buffers := trainer.buffers or usual_buffers(trainer.initial_params(seed)):
        raise TrainerError(
            text(
                "{setting} cannot hide single rows in the training of {name}: its batch normalisation ({arrays}) "
                "mixes the rows of a batch; build the network with group normalisation, or take one of {offered}",
                SETTING,
                name,
                _few(buffers),
                offered,
            )
        )
    if HONOUR not in trainer.honours:
        raise TrainerError(
            text(
                "{setting} needs a trainer that can hide single rows, which {name} cannot; these can: {offered}",
                SETTING,
                name,
                offered,
            )
        )
    _refuse_leaks(trainer, name)


def _refuse_combinations(trainer: Trainer, method: Method) -> None:
    """Refuse methods around the trainer that make steps without noise, or mix rows."""
    if method.controls or method.kind == "apfl":
        other = "FLNET_AGGREGATION=scaffold" if method.controls else "FLNET_PERSONAL_MODEL=apfl"
        raise TrainerError(
            text(
                "{setting} and {other} do not go together: the second one makes its own steps of training, which have "
                "no noise; leave one of them away (FLNET_PERSONAL_MODEL=increment goes with rows)",
                SETTING,
                other,
            )
        )
    if isinstance(trainer, Wrapped):
        raise TrainerError(
            text(
                "{setting} and FLNET_LABELS do not go together: where nodes label differently, rows are mixed with "
                "each other and counted; leave one of them away",
                SETTING,
            )
        )


def _refuse_leaks(trainer: Trainer, name: str) -> None:
    """Refuse ways by which rows reach the steps of training without noise."""
    if trainer.personalises:
        raise TrainerError(
            text(
                "{setting} cannot hide single rows in the training of {name}: it trains private layers without noise, "
                "and the gradients of the shared ones follow from them",
                SETTING,
                name,
            )
        )
    spec = trainer.input_spec()
    if spec is not None and spec.scale_is_own:
        raise TrainerError(
            joined(
                [
                    text(
                        "{setting} cannot hide single rows in the training of {name}: columns are scaled by mean and "
                        "spread of all own rows, to which each row contributes",
                        SETTING,
                        name,
                    ),
                    text("state the scale of each column instead, under [scale] in a trainer without code"),
                ]
            )
        )


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
