"""CPU-bound effects: prepare, train, evaluate in the pool, and average; each ends in an event."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from flnet.effects import Average, CancelWork, Evaluate, Train
from flnet.errors import FlnetError
from flnet.events import (
    Averaged,
    AveragingFailed,
    Evaluated,
    EvaluationFailed,
    Event,
    Prepared,
    PrepareFailed,
    Trained,
    TrainingFailed,
)
from flnet.params import Params, PeerId, RoundKey, Schema, TrainerId
from flnet.strategies import Strategy
from flnet.training import Pool

LARGE_BYTES = 8 * 1024 * 1024  # averages of more than this wait for their turn in the lane


class Lane:
    """Runs the work of all jobs in the pool."""

    def __init__(
        self,
        pool: Pool,
        strategy: Strategy,
        me: PeerId,
        seed: int,
        schema_of: Callable[[TrainerId], Schema],
        *,
        own_hyper: Mapping[str, int] | None = None,
    ) -> None:
        """Args:
        seed: of the run; every round and node trains with a seed of its own that follows from it.
        schema_of: the schema of a job, for merging.
        own_hyper: hyper-parameters (e, b) that this node trains with whatever a round says.
        """
        self._pool, self._strategy, self._me, self._seed = pool, strategy, me, seed
        self._schema_of = schema_of
        self._own_hyper = dict(own_hyper or {})
        self._states: dict[TrainerId, Any] = {}  # what the strategy remembers between rounds

    async def prepare(self, trainer: TrainerId) -> Event:
        """Load the trainer and its data."""
        try:
            declaration, params = await self._pool.prepare(trainer)
        except FlnetError as exc:
            return PrepareFailed(str(exc))
        return Prepared(declaration, params)

    async def train(self, trainer: TrainerId, effect: Train) -> Event:
        """Train and measure."""
        started = time.monotonic()
        try:
            seed = round_seed(self._seed, effect.key, self._me)
            hyper = effect.hyper.model_copy(update=self._own_hyper)
            fit, score = await self._pool.fit(trainer, effect.params, hyper, seed)
        except FlnetError as exc:
            return TrainingFailed(effect.key, str(exc))
        metrics = {**fit.metrics, **score.metrics}
        seconds = time.monotonic() - started
        params = Params(fit.params)
        return Trained(effect.key, params, fit.examples, score.accuracy, fit.labels, seconds, metrics, hyper)

    def cancel(self, trainer: TrainerId, effect: CancelWork) -> None:
        """Stop the training of a round that was left."""
        self._pool.cancel(trainer)

    async def average(self, trainer: TrainerId, effect: Average) -> Event:
        """Merge the updates by the strategy."""
        started = time.monotonic()

        def merge() -> tuple[Params, Any]:
            state = self._states.get(trainer)
            merged, state = self._strategy.merge(state, self._schema_of(trainer), effect.updates)
            assert merged.digest  # computed here, where it does not hold up the event loop
            return merged, state

        size = sum(update.params.nbytes for update in effect.updates)
        try:
            params, state = await (self._pool.run(merge) if size > LARGE_BYTES else asyncio.to_thread(merge))
        except (FlnetError, ArithmeticError, ValueError, MemoryError) as exc:
            return AveragingFailed(effect.key, f"{type(exc).__name__}: {exc}")
        self._states[trainer] = state
        return Averaged(effect.key, params, time.monotonic() - started)

    async def evaluate(self, trainer: TrainerId, effect: Evaluate) -> Event:
        """Measure a model on the own test split."""
        digest = effect.shared.digest
        try:
            score = await self._pool.evaluate(trainer, effect.params)
        except FlnetError as exc:
            return EvaluationFailed(effect.key, digest, str(exc))
        return Evaluated(effect.key, digest, score.accuracy, score.examples, score.metrics)


def round_seed(seed: int, key: RoundKey, me: PeerId) -> int:
    """A seed for one node's training in one round: equal runs are equal, rounds and nodes differ."""
    text = f"{seed}:{key.number}:{me}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
