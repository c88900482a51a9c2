"""How this node's rows are labelled: the file that a setting names, and what its rows carry in an experiment."""

from __future__ import annotations

import numpy as np

from flnet.errors import SettingsError
from flnet.labels import MAX_BYTES, Labelling, must_be_learnable, read_toml
from flnet.params import Array
from flnet.refusals import LabelsRefused
from flnet.settings import Settings
from flnet.training.lesson import Labels


def labels_of(settings: Settings) -> Labelling | None:
    """What FLNET_LABELS says; None where it is not set.

    Raises:
        SettingsError: the file cannot be read, or nothing could be learnt from what it says; says what is missing.
    """
    if settings.labels is None:
        return None
    what = f"FLNET_LABELS={settings.labels}"
    try:
        with settings.labels.open("rb") as file:
            found = read_toml(file.read(MAX_BYTES + 1))
        must_be_learnable(found)
    except OSError as exc:
        raise SettingsError(f"{what} cannot be read: {exc}") from exc
    except LabelsRefused as exc:
        raise SettingsError(f"{what}: {exc.message}") from exc
    return found


def carried(labelling: Labelling, classes: Array, chance: np.random.Generator) -> tuple[Labels, Labels]:
    """Which labels rows of a published data set carry, in the desired space and in the coarse one, -1 for none.

    Args:
        classes: (n,) what they are, as numbers in the desired space.
        chance: draws the coarse label where more than one is possible, and the rows that carry desired ones.
    """
    truth = np.asarray(classes, np.int64)
    nothing = np.full(len(truth), -1, np.int64)
    fine = nothing.copy()
    if labelling.is_desired or labelling.rows is not None:
        some = _spread(truth, labelling.rows, chance)
        fine[some] = truth[some]
    if labelling.is_desired or labelling.correspondence is None:
        return fine, nothing
    limits = np.cumsum(labelling.correspondence.matrix, axis=0)[:, truth]
    drawn = (chance.random(len(truth)) >= limits).sum(axis=0)
    return fine, np.minimum(drawn, len(labelling.space) - 1)


def _spread(truth: Labels, count: int | None, chance: np.random.Generator) -> Labels:
    """Numbers of so many rows, of each class as many as of any other, as far as there are."""
    order = chance.permutation(len(truth))
    if count is None or count >= len(truth):
        return np.sort(order)
    place = np.zeros(len(truth), np.int64)  # of each row among those of its class
    for name in np.unique(truth):
        its = order[truth[order] == name]
        place[its] = np.arange(len(its))
    return np.sort(order[np.argsort(place[order], kind="stable")][:count])
