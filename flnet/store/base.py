"""What a node remembers of its jobs: the last state of each, and its last models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from flnet.params import Digest, Params, TrainerId

# Of each trainer, besides the model it holds: enough to go back to a better one and to compare, and on a board
# with a gigabyte of memory still little beside a framework.
KEPT_AVERAGES = 5


@dataclass(frozen=True)
class SavedJob:
    """The last saved state of a job: figures, the shared model that it holds, and its private parameters."""

    snapshot: Mapping[str, Any] = field(default_factory=dict)
    params: Params | None = None
    private: Params | None = None


@dataclass(frozen=True)
class KeptModel:
    """A model that is kept: its figures, and where it is asked for, its parameters.

    Attributes:
        digest: of the shared parameters; the model's name.
        figures: what is known of it, plain JSON data.
        nbytes: of all its parameters.
        shared: None in a list.
        private: of this node alone, as they were beside this model; they never leave it for another node.
        pinned: whether a person wants it kept until it is unpinned.
    """

    digest: Digest
    figures: Mapping[str, Any]
    nbytes: int
    shared: Params | None = None
    private: Params | None = None
    pinned: bool = False


class Store(Protocol):
    """Keeps jobs. A call that has returned is kept for as long as the store promises.

    A store on disk writes the arrays of a model to one file, named by the digest, once; what is said of it later
    goes beside it.
    """

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one; parameters that are None stay as they were."""
        ...

    async def load(self, trainer: TrainerId) -> SavedJob | None:
        """The last saved state, or None if there is none."""
        ...

    async def keep_model(
        self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params
    ) -> None:
        """Keep this model as the newest, and KEPT_AVERAGES that came before it; older ones go.

        One that is kept already (equal shared parameters) becomes the newest, with these figures and these
        private parameters; it stays pinned if it was. Pinned models are not counted, and never go.
        """
        ...

    async def models(self, trainer: TrainerId) -> Sequence[KeptModel]:
        """All that are kept, newest first, without their parameters."""
        ...

    async def load_model(self, trainer: TrainerId, digest: Digest) -> KeptModel | None:
        """The model with its parameters, or None if it is not kept (any more)."""
        ...

    async def pin(self, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
        """Keep a model whatever comes after it, or (False) let it go when its turn comes: with the next model.

        Returns:
            False: no such model is kept.
        """
        ...

    async def close(self) -> None:
        """Write what is not written yet, and let go of files."""
        ...
