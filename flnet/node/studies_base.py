"""What the web layer may ask of whoever looks at this node's own rows, for its people alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flnet.params import TrainerId


class Studies(Protocol):
    """Looks at what a model shows on the own rows; see `flnet.training.findings`."""

    async def findings(self, trainer: TrainerId, kind: str, digest: str | None = None) -> Mapping[str, Any]:
        """What a model shows, and which one it is: {kind, ..., model: {digest, round, accuracy}}.

        Args:
            kind: "labels" or "groups".
            digest: of the model; None for the one that is held.

        Raises:
            UnknownTrainer, NoData, UnknownModel: there is no such job or model.
            NotOffered: nothing of this kind is to be seen there.
            NotReady: the turn did not come in time.
        """
        ...
