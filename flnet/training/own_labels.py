"""What the labels of own data mean where nodes label differently: in which of two spaces a word is a class.

A label that is a class of the node's own space is one of these; any other has to be a class of the desired space.
So a node may have rows of both kinds, and rows with both labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from flnet.labels import Labelling
from flnet.params import Array
from flnet.training.lesson import Labels


@dataclass(frozen=True)
class OwnLabels:
    """The words that may stand as labels.

    Attributes:
        desired: classes in which the model answers, in the order of their numbers.
        own: those of the node's own space; none where it labels in the desired one.
    """

    desired: tuple[str, ...]
    own: tuple[str, ...] = ()

    @classmethod
    def of(cls, labelling: Labelling | None, classes: Sequence[str] | None = None) -> OwnLabels | None:
        """As the file in FLNET_LABELS has them; None where nodes label alike.

        Args:
            classes: the desired ones as the trainer's file has them, if it does; `ByLabels` refuses other ones.
        """
        if labelling is None:
            return None
        own = () if labelling.is_desired else labelling.space.classes
        return cls(tuple(classes or labelling.target.classes), own)

    @property
    def words(self) -> tuple[str, ...]:
        """All of them, each once: the own ones first."""
        return (*self.own, *(name for name in self.desired if name not in self.own))

    def numbers(self, words: Iterable[str], coarse: Iterable[str] | None = None) -> tuple[Labels, Labels]:
        """(n,) in the desired space and (n,) in the own one, -1 where a row has none.

        Args:
            words: of each row one of `words`, or nothing.
            coarse: of each row a class of the own space beside it, or nothing.
        """
        own = {name: at for at, name in enumerate(self.own)}
        desired = {name: at for at, name in enumerate(self.desired) if name not in own}
        said = list(words)
        fine = np.array([desired.get(word, -1) for word in said], np.int64)
        other = np.array([own.get(word, -1) for word in said], np.int64)
        if coarse is not None:
            beside = np.array([own.get(word, -1) for word in coarse], np.int64)
            # beside a label of the own space a word of both spaces is meant as the desired one
            both = {name: at for at, name in enumerate(self.desired)}
            fine = np.where(beside >= 0, np.array([both.get(word, -1) for word in said], np.int64), fine)
            other = np.where(beside >= 0, beside, other)
        return fine, other

    def kinds(self, fine: Labels, coarse: Labels) -> Labels:
        """(n,) a number for each kind of label, by which rows are dealt and split evenly."""
        return np.where(fine >= 0, fine, len(self.desired) + coarse)


def counted(labels: Array, classes: int) -> tuple[int, ...]:
    """How many rows each class has; rows without a label of it do not count."""
    return tuple(np.bincount(labels[labels >= 0], minlength=classes).tolist())
