"""Measures what an update or a model tells of the rows behind it, for each mechanism that hides it.

`flnet experiment leak` runs it on the digits of the trainer MNIST. Nodes train a small network (`sigmoid_network`) in
rounds of federated averaging. The attacker is a node of the mesh: it knows the model that a round began with, and sees
what the mechanism lets it see of the others, which is each update, or the sum of all alone. It attacks that in two ways:

- Membership inference on the last round: by the loss (Yeom et al. 2018), and with shadow models (Shokri et al. 2017),
  which are whole meshes that the attacker simulates on rows of its own, under the same mechanism.
- Gradient inversion (Zhu et al. 2019) on an update of one step, with the model with which training begins.

Sums and noise are those of `flnet.algorithms.secure_sum` and `flnet.algorithms.differential_privacy`, multipliers of
the noise those of `flnet.compute.privacy_accounting`. The noise is drawn from the seed, so that runs can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.differential_privacy import Level, Privacy, released, row_schedule, words_of
from flnet.algorithms.membership_inference import membership, row_losses
from flnet.algorithms.secure_sum import MeanEncoder
from flnet.compute.privacy_accounting import multiplier_for
from flnet.datasets.labelled import Labelled
from flnet.experiments.gradient_inversion import guess_labels, image_in_closed_form, likeness, search_images, ssim
from flnet.experiments.shadow_models import Confidences, ShadowAttack
from flnet.experiments.sigmoid_network import (
    NAMES,
    Model,
    Numbers,
    forward,
    gradient,
    initial,
    noisy_gradient,
    train,
)
from flnet.params.params import Params, Schema
from flnet.trainer import RowPrivacy

NODES, CLASSES, SIDE = 10, 10, 28
DELTA = 1e-5
LIKE = 500  # rows of the attacker that show how the model answers such rows


@dataclass(frozen=True)
class Mechanism:
    """How a mesh hides what its nodes learn.

    Attributes:
        summed: over how many nodes the attacker sees the sum alone; 0: it sees every update.
        privacy: noise of nodes, or in the gradients of rows.
    """

    name: str
    summed: int = 0
    privacy: Privacy | None = None

    @property
    def nodes(self) -> int:
        """How many nodes the mesh has."""
        return self.summed or NODES


def _noise(level: Level, epsilon: float) -> Privacy:
    return Privacy(level, epsilon, DELTA)


MECHANISMS = (
    Mechanism("each update, plain"),
    Mechanism("secure sum of 4", 4),
    Mechanism("secure sum of 10", 10),
    *(Mechanism(f"each update, noise of the node, epsilon {e}", 0, _noise("node", e)) for e in (8, 3, 1)),
    Mechanism("secure sum of 10, noise of the nodes, epsilon 8", 10, _noise("node", 8)),
    *(Mechanism(f"each update, noise of rows, epsilon {e}", 0, _noise("rows", e)) for e in (8, 3, 1)),
)


@dataclass(frozen=True)
class Scale:
    """How large the measurement is.

    Attributes:
        rows: most training rows of a node; fewer where there are not so many.
        rounds, epochs, batch, rate: of the training that membership inference attacks.
        hidden: neurons of the hidden layer.
        shadows: meshes that the attacker simulates.
        batches: images of each node in the step that gradient inversion attacks.
    """

    rows: int = 300
    rounds: int = 3
    epochs: int = 10
    batch: int = 30
    rate: float = 0.5
    hidden: int = 64
    shadows: int = 2
    batches: tuple[int, ...] = (1, 2, 4, 8)


QUICK = Scale(rows=30, rounds=1, epochs=3, shadows=1, batches=(1, 2))


class MeshRows(NamedTuple):
    """The rows of one mesh: those on which each node trains, and for each as many on which nobody does."""

    parts: Sequence[Labelled]
    others: Sequence[Labelled]


class ObservedModel(NamedTuple):
    """A model that the attacker saw, and the rows on which it was trained, as far as they are one node's."""

    model: Model
    rows: Labelled


class TrainedMesh(NamedTuple):
    """What a mesh learnt in its rounds."""

    seen: Sequence[ObservedModel]
    common: Model


class MembershipFigures(NamedTuple):
    """Figures of membership inference, means over the nodes; see `flnet.algorithms.membership_inference`.

    Attributes:
        accuracy: of the common model on rows on which nobody trained.
        shadow: the advantage of the attack with shadow models.
    """

    accuracy: float
    advantage: float
    by_mean: float
    auc: float
    shadow: float


class InversionFigures(NamedTuple):
    """How well images are recovered from one step.

    Attributes:
        ssim, psnr: of the images of one node with the guesses that are nearest to them.
        labels: share of the labels of all images that were guessed right.
        closed: SSIM of the closed form, which gives one image.
        original, guesses: (n, side, side) images of that node, and the guesses for them.
    """

    ssim: float
    psnr: float
    labels: float
    closed: float
    original: Numbers
    guesses: Numbers


def scaled(rows: Labelled) -> Labelled:
    """Images of bytes as rows (n, d) in [0, 1]."""
    return Labelled(rows.x.reshape(len(rows), -1) / 255.0, rows.y.astype(np.int64))


def deal_rows(rows: Labelled, seed: int, scale: Scale) -> list[MeshRows]:
    """Images of bytes, as rows for the attacked mesh and for each that the attacker simulates, no row twice.

    Raises:
        ValueError: there are too few.
    """
    meshes = 1 + scale.shadows
    count = min(scale.rows, len(rows) // (meshes * 2 * NODES))
    if not count:
        raise ValueError(f"{len(rows)} rows; expected at least {meshes * 2 * NODES}")
    order = np.random.default_rng(seed).permutation(len(rows))[: meshes * 2 * NODES * count]
    parts = [[scaled(rows.take(numbers)) for numbers in mesh] for mesh in order.reshape(meshes, 2 * NODES, count)]
    return [MeshRows(mesh[:NODES], mesh[NODES:]) for mesh in parts]


def multiplier(mechanism: Mechanism, rows: int, scale: Scale) -> float:
    """The noise multiplier with which all rounds together cost the mechanism's epsilon; 0 without noise."""
    if mechanism.privacy is None:
        return 0.0
    rate, steps = (1.0, 1) if mechanism.privacy.level == "node" else row_schedule(rows, scale.batch, scale.epochs)
    return _multiplier(mechanism.privacy, scale.rounds, rate, steps)


@lru_cache(maxsize=64)
def _multiplier(privacy: Privacy, rounds: int, rate: float, steps: int) -> float:
    return multiplier_for(privacy.epsilon, privacy.delta, rounds, rate, steps)


def row_privacy(mechanism: Mechanism, noise: float) -> RowPrivacy | None:
    """What a training is told of noise in the gradients of rows."""
    if mechanism.privacy is None or mechanism.privacy.level != "rows":
        return None
    return RowPrivacy(noise, mechanism.privacy.clip)


def sent(mechanism: Mechanism, base: Model, learnt: Model, noise: float, chance: np.random.Generator) -> Model:
    """What leaves a node of what it learnt: with noise where that is the node's.

    Nodes that send into a sum add an equal part of its variance each.
    """
    if mechanism.privacy is None or mechanism.privacy.level != "node":
        return learnt
    part = noise / max(1, mechanism.summed) ** 0.5
    return dict(released(base, Params(learnt), mechanism.privacy.clip, part, words_of(chance)))


def mean_of(mechanism: Mechanism, base: Model, updates: Sequence[Model]) -> Model:
    """The mean of updates with equal weights; that of a secure sum in its fixed-point numbers."""
    if not mechanism.summed:
        return {name: np.mean([update[name] for update in updates], axis=0) for name in NAMES}
    encoder = MeanEncoder(Schema.of(Params(base)), base, len(updates), "agg0")
    vectors = [encoder.encode(update, 1).numbers for update in updates]
    return dict(encoder.decode(np.sum(vectors, axis=0, dtype=vectors[0].dtype), len(updates)).params)


def run_mesh(
    mechanism: Mechanism, parts: Sequence[Labelled], scale: Scale, chance: np.random.Generator
) -> TrainedMesh:
    """Train in rounds; what is seen is that of the last one."""
    parts, noise = parts[: mechanism.nodes], multiplier(mechanism, len(parts[0]), scale)
    privacy, common = row_privacy(mechanism, noise), initial(0, SIDE**2, scale.hidden, CLASSES)
    updates: list[Model] = []
    for _ in range(scale.rounds):
        base = common
        learnt = (
            train(base, part.x, part.y, chance, scale.epochs, scale.rate, scale.batch, privacy) for part in parts
        )
        updates = [sent(mechanism, base, model, noise, chance) for model in learnt]
        common = mean_of(mechanism, base, updates)
    models = [common] * len(parts) if mechanism.summed else updates
    return TrainedMesh([ObservedModel(*pair) for pair in zip(models, parts, strict=True)], common)


def confidences(seen: ObservedModel, others: Labelled) -> Confidences:
    """What a model says of the rows of its node, and of as many others."""
    x, y = np.concatenate([seen.rows.x, others.x]), np.concatenate([seen.rows.y, others.y])
    return Confidences(forward(seen.model, x).probabilities, y, np.arange(len(y)) < len(seen.rows))


def attack_by_membership(
    mechanism: Mechanism, meshes: Sequence[MeshRows], tests: Labelled, scale: Scale, seed: int
) -> MembershipFigures:
    """Attack the first mesh by membership inference.

    Args:
        meshes: the attacked one, and those of the attacker.
        tests: rows on which nobody trained, for the accuracy.
    """
    answers: list[list[Confidences]] = []  # by mesh and node
    accuracy = 0.0
    for place, mesh in enumerate(meshes):
        run = run_mesh(mechanism, mesh.parts, scale, np.random.default_rng([seed, place]))
        answers.append([confidences(*pair) for pair in zip(run.seen, mesh.others, strict=False)])
        if place == 0:
            right = forward(run.common, tests.x).probabilities.argmax(axis=1) == tests.y
            accuracy = float(right.mean())
    attacked, shadows = answers[0], answers[1:]
    attack = ShadowAttack(Confidences.together([rows for nodes in shadows for rows in nodes]))
    by_loss = []
    for rows in attacked:
        losses = row_losses(rows.probabilities, rows.labels)
        by_loss.append(membership(losses[rows.seen], losses[~rows.seen]))
    return MembershipFigures(
        accuracy,
        fmean(figures.advantage for figures in by_loss),
        fmean(figures.by_mean for figures in by_loss),
        fmean(figures.auc for figures in by_loss),
        fmean(map(attack.advantage, attacked)),
    )


def attack_by_inversion(
    mechanism: Mechanism, parts: Sequence[Labelled], known: Labelled, noise: float, scale: Scale, seed: int
) -> InversionFigures:
    """Attack one step of training by gradient inversion.

    Args:
        parts: the images of the step on each node, as many on each; those of the first one are looked for.
        known: rows of the attacker.
        noise: the noise multiplier of the mechanism.
    """
    parts, count = parts[: max(1, mechanism.summed)], len(parts[0])
    chance, base = np.random.default_rng([seed, count]), initial(seed, SIDE**2, scale.hidden, CLASSES)
    updates = [_stepped(mechanism, base, part, noise, scale, chance) for part in parts]
    moved = mean_of(mechanism, base, updates)
    seen = {name: (base[name] - moved[name]) / scale.rate for name in NAMES}
    total, truth = count * len(parts), np.concatenate([part.y for part in parts])
    labels = guess_labels(base, seen, total, known.x[:LIKE])
    guesses = _images(search_images(base, seen, labels, chance))
    closed = _images(image_in_closed_form(seen)[None])
    return _compared(parts[0], guesses, closed, _agreeing(labels, truth) / total)


def guess_without_update(rows: Labelled, known: Labelled) -> InversionFigures:
    """The guess of an attacker who sees no update, but is told the labels: the mean image of each class."""
    guesses = _images(np.stack([known.x[known.y == label].mean(axis=0) for label in rows.y]))
    return _compared(rows, guesses, guesses, 1.0)


def _compared(rows: Labelled, guesses: Numbers, closed: Numbers, labels: float) -> InversionFigures:
    images = _images(rows.x)
    alike = likeness(images, guesses)
    best = float(ssim(images[:, None], np.clip(closed, 0, 1)[None]).max())
    return InversionFigures(alike.ssim, alike.psnr, labels, best, images, np.clip(guesses[alike.pairs], 0, 1))


def _stepped(
    mechanism: Mechanism, base: Model, rows: Labelled, noise: float, scale: Scale, chance: np.random.Generator
) -> Model:
    """What leaves a node after one step on all these rows."""
    privacy = row_privacy(mechanism, noise)
    slopes = (
        gradient(base, rows.x, rows.y)
        if privacy is None
        else noisy_gradient(base, rows.x, rows.y, privacy, chance)
    )
    learnt = {name: base[name] - scale.rate / len(rows) * slopes[name] for name in NAMES}
    return sent(mechanism, base, learnt, noise, chance)


def _images(rows: Numbers) -> Numbers:
    return rows.reshape(-1, SIDE, SIDE)


def _agreeing(guess: NDArray[np.int64], truth: NDArray[np.int64]) -> int:
    """How many labels two lists have in common, each as often as it is in both."""
    counts = (np.bincount(labels, minlength=CLASSES) for labels in (guess, truth))
    return int(np.minimum(*counts).sum())
