"""What the web layer may ask of whoever measures what each peer brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flnet.params import TrainerId


class Gains(Protocol):
    """Measures averages without each peer in turn; see `flnet.node.gains`."""

    def view(self, trainer: TrainerId) -> Mapping[str, Any]:
        """{on (whether that is wanted), why_not (the newest round was not measured, in words; or ""), rounds
        [{round, accuracy (with all), examples, seconds, without {peer: accuracy}}], oldest first}.

        Raises:
            UnknownTrainer: no such job.
        """
        ...
