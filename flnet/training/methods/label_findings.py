"""What a node's people see of label spaces: the correspondence with its uncertainty, and judgements through it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flnet.labels import Estimate, Labelling, Matrix, WarmUp, guesses, projected
from flnet.training.api import Array, Prediction
from flnet.training.findings import LabelFindings, Waiting
from flnet.training.records import InCoarse


def label_findings(
    labelling: Labelling, known: Matrix, counts: Array | None, waiting: Waiting | None
) -> LabelFindings:
    """What is known of a correspondence.

    Args:
        known: (J, K) as the file gives it; not looked at where there are counts.
        counts: (J, K) behind an estimate; None where the correspondence is known.
        waiting: why the node does not learn from its labels yet.
    """
    target = labelling.target
    found = LabelFindings(
        labelling.space.id,
        labelling.space.classes,
        target.id,
        target.classes,
        known,
        labelling.threshold,
        waiting=waiting,
        pooled=labelling.pool_counts,
    )
    if counts is None:
        return found
    whole = np.asarray(counts, np.int64)
    if not whole.any():
        return replace(found, matrix=None, counts=whole)
    estimate = Estimate(whole)
    return replace(found, matrix=estimate.matrix, deviation=estimate.deviation, counts=whole)


def waiting_for(judged: Matrix, threshold: float) -> Waiting:
    """How far a warm-up is.

    Args:
        judged: (n, K) what the model says of own rows.
        threshold: from which probability on it is sure.
    """
    warm_up = WarmUp()
    return Waiting(warm_up.least, guesses(judged, threshold).share, warm_up.share, len(judged))


def with_coarse(prediction: Prediction, labelling: Labelling, matrix: Matrix | None) -> Prediction:
    """A prediction with what it means in the own label space of the node.

    Args:
        prediction: in the desired space; where it has no probabilities, nothing can be said.
        matrix: (J, K); None where there is no estimate yet.
    """
    if prediction.meaning != "one_of":
        return prediction
    space, width = labelling.space, len(labelling.space)
    if matrix is None:
        values = np.zeros((0, width))
    else:
        values = projected(np.asarray(prediction.values, np.float64), matrix)
    return replace(prediction, coarse=InCoarse(space.id, space.classes, values, labelling.estimate))
