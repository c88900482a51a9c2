"""The single lane in which all CPU-bound work runs, one task at a time, and what it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from flnet.events import Declaration
from flnet.messages import HyperParams
from flnet.params import Params, TrainerId
from flnet.training.api import Fit, Prediction, Score
from flnet.training.backend import Inputs

T = TypeVar("T")


class Pool(Protocol):
    """One worker, one task at a time, first come first served; every call waits for its turn.

    Failures are TrainerError (DataMissing, WorkerDied among them), of `predict` and `export` also InputRefused
    and NotOffered; the pool itself survives all of them.
    """

    async def prepare(self, trainer: TrainerId, *, anew: bool = False) -> tuple[Declaration, Params]:
        """Load the trainer and its data; its declaration and initial parameters.

        Args:
            trainer: by its id.
            anew: forget one that is loaded already: its data have changed.
        """
        ...

    async def fit(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int, number: int = 0
    ) -> tuple[Fit, Score]:
        """Train, then measure the result on the test split."""
        ...

    async def personalise(
        self, trainer: TrainerId, params: Params, hyper: HyperParams, seed: int
    ) -> tuple[Params, Score]:
        """Let private parameters learn on from a new average, then measure: what they became, and the score."""
        ...

    async def evaluate(self, trainer: TrainerId, params: Params) -> Score:
        """Measure on the test split."""
        ...

    async def predict(self, trainer: TrainerId, params: Params, inputs: Inputs) -> Prediction:
        """Judge inputs (n, ...), or one picture."""
        ...

    async def findings(self, trainer: TrainerId, params: Params) -> Mapping[str, Any]:
        """What a model shows on the own rows (`flnet.training.findings`); NotOffered where it shows nothing."""
        ...

    async def export(self, trainer: TrainerId, params: Params, metadata: Mapping[str, str]) -> bytes:
        """The model as an ONNX file with these words in it."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function of this process in the lane (averaging of large models)."""
        ...

    def cancel(self, trainer: TrainerId) -> None:
        """Stop the running `fit` of this trainer at its next batch; it ends in TrainerError."""
        ...

    async def close(self) -> None:
        """End the worker; waiting tasks end in TrainerError."""
        ...
