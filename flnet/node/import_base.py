"""What the web layer may ask of whoever takes in data that a person brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flnet.params import TrainerId
from flnet.training.importing import Upload

View = Mapping[str, Any]


class Imports(Protocol):
    """Takes in data that a person brings; see `flnet.node.importing`."""

    @property
    def limit_bytes(self) -> int:
        """How many bytes may come at once."""
        ...

    def begin(self, trainer: TrainerId, *, replace: bool = False, add: bool = False) -> Upload:
        """Where files go as they come; hand it to `take`, or discard it.

        Raises:
            UnknownTrainer, JobBusy: there is no such job, or it has no time.
            ImportRefused, DataThere, NoRoom: it would come to nothing.
        """
        ...

    async def take(self, upload: Upload) -> View:
        """Move what came into its place, and load the trainer again; what it says of its data then.

        Raises:
            ImportRefused, DataThere, NoRoom: nothing has changed; says why.
        """
        ...
