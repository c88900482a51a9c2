"""Drift in a simulated mesh: the rows of some nodes change from round to round, as those of a school may over the years.

    shares:S    at a share S of the nodes, the shares of the classes turn round: what the first class had, the last one
                gets. Rows stay as they are; those of a class that becomes more frequent are repeated
    labels:S    at a share S of the nodes, rows of the last class come to be labelled as the first one, up to six in ten:
                equal rows have another meaning than at other nodes

Which nodes drift is drawn by the seed. Nothing changes in the first quarter of the rounds, and nothing more in the last
one. Training and test rows change alike, so that a node is measured on the rows of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.experiments.attacks import Side
from flnet.experiments.learners import Learner, changeable, rows_of
from flnet.params.params import Array

BEGINS, ENDS = 0.25, 0.75  # of the rounds
RELABELLED = 0.6  # of the last class, at the end
Change = Callable[[Labelled, float, int, np.random.Generator], Labelled]


def turned_shares(rows: Labelled, done: float, classes: int, chance: np.random.Generator) -> Labelled:
    """As many rows, whose shares of classes are so far, 0 to 1, on the way to the opposite ones.

    Classes of which there are no rows stay so.
    """
    have = np.bincount(rows.y, minlength=classes)
    there, wanted = np.flatnonzero(have), np.zeros(classes, np.int64)
    wanted[there] = np.rint((1 - done) * have[there] + done * have[there][::-1])
    drawn = []
    for label, count in enumerate(wanted):
        own = chance.permutation(np.flatnonzero(rows.y == label))
        drawn.append(np.resize(own, count if len(own) else 0))
    return rows.take(np.sort(np.concatenate(drawn)))


def relabelled(rows: Labelled, done: float, classes: int, chance: np.random.Generator) -> Labelled:
    """The same rows, of which a growing share of the last class is labelled as the first one."""
    last = chance.permutation(np.flatnonzero(rows.y == classes - 1))
    labels = rows.y.copy()
    labels[last[: round(RELABELLED * done * len(last))]] = 0
    return Labelled(rows.x, labels)


_CHANGES: dict[str, Change] = {"shares": turned_shares, "labels": relabelled}
_SIDES: tuple[Side, ...] = ("train", "test")


class Drift:
    """The drift of one mesh.

    Attributes:
        places: of the nodes that drift, from 0.
    """

    def __init__(self, drift: str, learners: Sequence[Learner], rounds: int, seed: int) -> None:
        """Args:
        drift: as in `Setup`; empty for none.

        Raises:
            LocalError: a trainer does not let its rows be changed.
        """
        kind, _, share = drift.partition(":")
        count = round(float(share) * len(learners)) if drift else 0
        chance = np.random.default_rng([seed, *b"drift"])
        self.places = sorted(chance.choice(len(learners), count, replace=False).tolist())
        self._change, self._rounds, self._seed = _CHANGES.get(kind), rounds, seed
        self._learners = {place: learners[place] for place in self.places}
        self._first = {p: [rows_of(of, side) for side in _SIDES] for p, of in self._learners.items()}
        self._done = dict.fromkeys(self.places, 0.0)

    def reach(self, place: int, number: int) -> bool:
        """Bring the rows of a node to a round, numbered from 0; whether they changed."""
        done = min(max((number / self._rounds - BEGINS) / (ENDS - BEGINS), 0.0), 1.0)
        if self._change is None or self._done.get(place, done) == done:
            return False
        learner = self._learners[place]
        trainer, classes = changeable(learner), len(learner.trainer.data_info().classes)
        for side, rows in zip(_SIDES, self._first[place], strict=True):
            # The same rows first in every round.
            chance = np.random.default_rng([self._seed, place, *side.encode()])
            changed = self._change(rows, done, classes, chance)
            trainer.change_rows(lambda _: changed, side)  # noqa: B023  called at once
        learner.measured.clear()
        self._done[place] = done
        return True


class Pool:
    """All training rows of a mesh in one place, for a central training that is measured at each node."""

    def __init__(self, central: Learner, parts: Sequence[Learner], drift: Drift) -> None:
        """Args:
        parts: the nodes; their rows change with the drift.
        """
        self.parts = parts
        self._central, self._drift = central, drift
        self._fill()

    def reach(self, number: int) -> None:
        """Bring the rows of all nodes to a round."""
        changed = [self._drift.reach(place, number) for place in range(len(self.parts))]
        if any(changed):
            self._fill()

    def _fill(self) -> None:
        rows = [rows_of(part, "train") for part in self.parts]
        together = Labelled(np.concatenate([of.x for of in rows]), np.concatenate([of.y for of in rows]))
        changeable(self._central).change_rows(lambda _: together)


def unlikeness(counts: Sequence[Array]) -> list[float]:
    """Of each node, how far its shares of the classes are from those of all: total variation distance, 0 to 1.

    Args:
        counts: of each node its training rows by class.
    """
    of_all = np.sum(counts, axis=0) / np.sum(counts)
    return [float(np.abs(of / of.sum() - of_all).sum() / 2) for of in counts]
