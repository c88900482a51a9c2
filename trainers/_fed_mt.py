"""FedMT's losses in PyTorch; `flnet.algorithms.fed_mt` explains them and names their sources.

Labels are numbers from 0; any other number says that a row has no such label. A mean over no rows is 0, and its
gradient too. Nothing here is taken from probabilities: all is computed from scores in log space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.trainer import Array, Fit, Lesson, Task

from ._torch import Steps

Changed = Callable[[Tensor, torch.Generator], Tensor]
NOISE = 0.1  # of a standardised column's spread
SHIFT = 0.1  # of a picture's side, at most, by which changed pictures are shifted


def projected_loss(scores: Tensor, matrix: Tensor, labels: Tensor) -> Tensor:
    """FedMT's loss of rows with labels of a coarse space.

    Args:
        scores: (n, K) before the softmax.
        matrix: (J, K), matrix[j, k] = P(label j | class k), of the scores' dtype.
        labels: (n,) int64; rows whose label no class can have do not count.
    """
    possible = (labels >= 0) & (labels < len(matrix))
    classes = torch.where(possible, labels, 0)
    counts = possible & (matrix[classes] > 0).any(dim=1)
    scores, likelihoods = scores[counts], matrix[classes[counts]].log()
    return _mean(scores.logsumexp(1) - (scores + likelihoods).logsumexp(1), scores)


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """The ordinary loss of rows with labels of the desired space."""
    counts = (labels >= 0) & (labels < scores.shape[1])
    scores = scores[counts]
    return _mean(F.cross_entropy(scores, labels[counts], reduction="none"), scores)


def mixed_cross_entropy(scores: Tensor, first: Tensor, second: Tensor, share: float) -> Tensor:
    """The loss of rows that were mixed of two others: share of the one's label, the rest of the other's."""
    return share * cross_entropy(scores, first) + (1 - share) * cross_entropy(scores, second)


def loss_of_both(scores: Tensor, labels: Tensor, coarse: Tensor, matrix: Tensor) -> Tensor:
    """The loss of a node with labels of both spaces: the sum of both means."""
    return cross_entropy(scores, labels) + projected_loss(scores, matrix, coarse)


def taught_steps(
    task: Task,
    lesson: Lesson,
    shown: Callable[[Tensor], Tensor],
    outputs: Callable[[Mapping[str, Tensor], Tensor], Tensor],
    fit: Callable[[Mapping[str, Array], int, float], Fit],
    device: torch.device,
    changed: Changed | None = None,
) -> Steps[Tensor]:
    """A training of a network where nodes label differently.

    Args:
        task: with size and seed of the batches.
        lesson: what the rows teach.
        shown: rows by number as the network takes them; pictures are (n, channels, height, width).
        outputs: scores (n, K) of parameters on them.
        fit: what is said of a training: parameters, batches done, mean loss over them.
        device: where the rows are.
        changed: what is made of rows for the loss on changed ones; shifted pictures if absent.
    """
    fine, coarse, guesses = (
        torch.tensor(labels, device=device) for labels in (lesson.labels, lesson.coarse, lesson.guesses)
    )
    change = changed or shifted
    matrix = torch.tensor(lesson.matrix, device=device)
    chance, draws = torch.Generator().manual_seed(task.seed), np.random.default_rng([task.seed, 1])

    def between(params: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The loss on rows between two others."""
        mix = lesson.mix(rows.cpu().numpy(), draws)
        first, second = (torch.tensor(some, device=device) for some in (mix.first, mix.second))
        mixed = mix.share * shown(first) + (1 - mix.share) * shown(second)
        return mixed_cross_entropy(outputs(params, mixed), guesses[first], guesses[second], mix.share)

    def loss(params: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        pictures = shown(rows)
        scores = outputs(params, pictures)
        total = loss_of_both(scores, fine[rows], coarse[rows], matrix.to(scores.dtype))
        if lesson.fixed:
            held = cross_entropy(outputs(params, change(pictures, chance)), guesses[rows])
            total = total + lesson.fixed * held
        return total + lesson.mixed * between(params, rows) if lesson.mixed else total

    batches = [torch.tensor(rows, device=device) for rows in lesson.batches(task.hyper.b, task.seed)]
    return Steps(batches, lambda rows: (rows,), loss, fit, device)


def shifted(pictures: Tensor, chance: torch.Generator) -> Tensor:
    """Pictures (n, channels, height, width), all moved by one draw; what comes in at the edge is what left."""
    most = [max(1, int(SHIFT * side)) for side in pictures.shape[2:]]
    moves = [int(torch.randint(-far, far + 1, (), generator=chance)) for far in most]
    return pictures.roll(moves, (2, 3))


def noisy(rows: Tensor, chance: torch.Generator) -> Tensor:
    """Rows of a standardised table with a little of everything added."""
    return rows + NOISE * torch.randn(rows.shape, generator=chance).to(rows.device)


def _mean(each: Tensor, scores: Tensor) -> Tensor:
    return each.mean() if len(each) else scores.sum()  # 0 of no rows, with a gradient
