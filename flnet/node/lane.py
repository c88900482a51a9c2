"""CPU-bound effects: prepare, train, evaluate in the pool, and average; each ends in an event."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from flnet.codec import lowered
from flnet.contributions import Contribution
from flnet.effects import Average, CancelWork, Evaluate, Fold, Train
from flnet.errors import FlnetError, LocalError, ParamsRefused
from flnet.events import (
    Averaged,
    AveragingFailed,
    Evaluated,
    EvaluationFailed,
    Event,
    Prepared,
    PrepareFailed,
    SumSpoilt,
    Trained,
    TrainingFailed,
)
from flnet.jobs.state import JobState
from flnet.node.gains import Merge, remerge
from flnet.node.merging import strategy_for
from flnet.packing import Encoding
from flnet.params import Digest, Params, PeerId, RoundKey, Schema, TrainerId, Update
from flnet.refusals import SitsOut
from flnet.screening import USUAL, Bounds, Screening
from flnet.signing import NodeKey
from flnet.strategies import Merged, RoundStart, Running, Strategy
from flnet.training import Fit, Pool
from flnet.vectors import clipped

_ARITHMETIC = (FlnetError, ArithmeticError, ValueError, MemoryError)


@dataclass
class _Sum:
    """The running merge of one round; `failure` is what spoilt it."""

    key: RoundKey
    running: Running
    screening: Screening
    failure: Exception | None = None
    is_second: bool = False  # in place of one that held what does not count


class _SpoiltError(Exception):
    """The sum holds updates that do not count, and they cannot be taken out of it."""


@dataclass(frozen=True)
class _Lost:
    """What rounding took from an update, to be added to the next one if that update was sent."""

    digest: Digest
    residual: Params


class Lane:
    """Runs the work of all jobs in the pool.

    Attributes:
        keep: who is handed the updates of each round, with the way in which they are merged.
    """

    keep: Callable[[TrainerId, Average, Merge], None] | None = None

    def __init__(
        self,
        pool: Pool,
        strategy: Strategy,
        me: PeerId,
        seed: int,
        state_of: Callable[[TrainerId], JobState],
        *,
        own_hyper: Mapping[str, int] | None = None,
        encoding: Encoding = "float32",
        bounds: Bounds = USUAL,
        signer: NodeKey | None = None,
    ) -> None:
        """Args:
        strategy: of all trainers that declare none of their own, and for which no person chose another one.
        seed: of the run; every round and node trains with a seed of its own that follows from it.
        state_of: what a job knows.
        own_hyper: hyper-parameters (e, b) that this node trains with whatever a round says.
        encoding: to what own updates are rounded before they are sent; what is lost goes into the next one.
        bounds: how far updates may move, the own ones too.
        signer: key with which this node signs what it states of its updates.
        """
        self._pool, self._usual, self._me, self._seed = pool, strategy, me, seed
        self._made = lru_cache(strategy_for)  # asked for several times in a round
        self._state_of, self._encoding = state_of, encoding
        self._own_hyper, self._bounds = dict(own_hyper or {}), bounds
        self._signer = signer
        self._sums: dict[TrainerId, _Sum] = {}
        self._lost: dict[TrainerId, _Lost] = {}
        self._residuals: dict[TrainerId, Params] = {}  # of the newest update that was sent
        self._training: dict[TrainerId, RoundKey] = {}  # asked for last
        self._merging: dict[TrainerId, asyncio.Lock] = {}  # merges of a job are done in the order asked for

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
        self._training[trainer] = effect.key
        try:
            seed = round_seed(self._seed, effect.key, self._me)
            hyper = effect.hyper.model_copy(update=self._own_hyper)
            fit, score = await self._pool.fit(trainer, effect.params, hyper, seed, effect.key.number)
        except FlnetError as exc:
            return TrainingFailed(effect.key, str(exc), isinstance(exc, SitsOut))
        metrics = {**fit.metrics, **score.metrics}
        params = Params(fit.params)
        shared = await asyncio.to_thread(self._to_send, trainer, params, effect.params)
        stated = None if shared is None else await asyncio.to_thread(self._stated, trainer, effect, fit, shared)
        seconds = time.monotonic() - started
        figures = (fit.examples, score.accuracy, fit.labels, seconds, metrics)
        return Trained(effect.key, params, *figures, shared, hyper, stated, time.time())

    def cancel(self, trainer: TrainerId, effect: CancelWork) -> None:
        """Stop the training of a round that was left, and forget its sum."""
        if self._training.get(trainer) == effect.key:
            self._pool.cancel(trainer)
        if trainer in self._sums and self._sums[trainer].key == effect.key:
            del self._sums[trainer]

    async def fold(self, trainer: TrainerId, effect: Fold) -> None:
        """Add updates to the running merge of their round; a failure is told by `average`."""
        async with self._turn(trainer):
            there = self._sums.get(trainer)
            if there is None or there.key != effect.key:
                there = self._sums[trainer] = self._begun(trainer, effect.key, self._screening(trainer))
            try:
                await asyncio.to_thread(lambda: there.running.add(there.screening.take(effect.updates)))
            except _ARITHMETIC as exc:
                there.failure = there.failure or exc

    async def average(self, trainer: TrainerId, effect: Average) -> Event:
        """Merge the updates by the strategy, with those that were folded before.

        Beside the lane and not in it: a merge is short, and may not wait for another trainer's long training.
        """
        async with self._turn(trainer):
            started = time.monotonic()
            if self.keep is not None:
                start, remembered = self._start(trainer, effect.key), self._state_of(trainer).remembered
                self.keep(trainer, effect, remerge(self._bounds, self._strategy(trainer), start, remembered))
            try:
                merged, screening = await asyncio.to_thread(self._merge, trainer, effect)
            except _SpoiltError:
                there = self._sums[trainer]
                return SumSpoilt(effect.key, there.screening.refused())
            except _ARITHMETIC as exc:
                return AveragingFailed(effect.key, f"{type(exc).__name__}: {exc}")
            seconds = time.monotonic() - started
            is_common = screening.is_common and merged.is_common
            said = (screening.refused(), is_common, screening.weighed(merged.weighed), merged.state)
            return Averaged(effect.key, merged.params, seconds, *said)

    async def evaluate(self, trainer: TrainerId, effect: Evaluate) -> Event:
        """Measure a model on the own test split; if so asked, once private parameters have learnt on from it."""
        digest, private = effect.shared.digest, None
        try:
            if effect.hyper is None:
                score = await self._pool.evaluate(trainer, effect.params)
            else:
                self._training[trainer] = effect.key
                seed = round_seed(self._seed, effect.key, self._me)
                hyper = effect.hyper.model_copy(update=self._own_hyper)
                private, score = await self._pool.personalise(trainer, effect.params, hyper, seed)
        except FlnetError as exc:
            return EvaluationFailed(effect.key, digest, str(exc))
        return Evaluated(effect.key, digest, score.accuracy, score.examples, score.metrics, private)

    def _merge(self, trainer: TrainerId, effect: Average) -> tuple[Merged, Screening]:
        there = self._sums.pop(trainer, None)
        if there is not None and there.key != effect.key:
            there = None
        if there is not None and there.failure is not None:
            raise there.failure
        screening = self._screening(trainer) if there is None else there.screening
        counting = _counting(screening, effect)
        if screening.refused().keys() & set(effect.folded):
            if there is not None and there.is_second:
                raise LocalError(
                    "other updates came when they were fetched again: the sum holds what does not count"
                )
            # What was decided of these updates stands for those of them that the next sum is made of.
            self._sums[trainer] = replace(self._begun(trainer, effect.key, screening), is_second=True)
            raise _SpoiltError
        if effect.folded:
            if there is None:
                raise LocalError(f"the updates of {', '.join(effect.folded)} were folded into a sum that is gone")
            there.running.add(counting)
            merged = there.running.result()
        else:
            remembered = self._state_of(trainer).remembered
            merged = self._strategy(trainer).merge(remembered, self._start(trainer, effect.key), counting)
        merged = merged._replace(params=self._schema(trainer).conform(merged.params))
        for one in (merged.params, merged.state):
            assert one is None or one.digest  # computed here, where it does not hold up the event loop
        return merged, screening

    def _strategy(self, trainer: TrainerId) -> Strategy:
        state = self._state_of(trainer)
        own = (state.declaration.merging if state.declaration else "") or state.rules.by_person
        return self._made(own) if own else self._usual

    def _begun(self, trainer: TrainerId, key: RoundKey, screening: Screening) -> _Sum:
        begin = self._strategy(trainer).running
        assert begin is not None  # or the job would not fold
        return _Sum(key, begin(self._state_of(trainer).remembered, self._start(trainer, key)), screening)

    def _start(self, trainer: TrainerId, key: RoundKey) -> RoundStart:
        state = self._state_of(trainer)
        members = frozenset({self._me, *state.peers})
        return RoundStart(self._schema(trainer), state.screened_from, key.number, self._me, members)

    def _screening(self, trainer: TrainerId) -> Screening:
        state = self._state_of(trainer)
        assert state.model is not None
        return Screening(self._bounds, state.screened_from, state.model.schema, self._strategy(trainer).needs_base)

    def _to_send(self, trainer: TrainerId, params: Params, base: Params) -> Params | None:
        """The part of trained parameters that leaves this node, rounded to what is sent, with its digest known."""
        schema = self._schema(trainer)
        try:
            shared = schema.conform(params.select(schema.specs))
        except ParamsRefused:
            return None  # the job finds out too, and says so
        if self._bounds.clip:
            shared = clipped(base, shared, schema, self._bounds.clip)
        if self._encoding != "float32":
            shared = schema.conform(self._rounded(trainer, shared))
        assert shared.digest
        return shared

    def _stated(self, trainer: TrainerId, effect: Train, fit: Fit, shared: Params) -> Contribution | None:
        """What this node states of its update."""
        model = self._state_of(trainer).model
        if model is None:
            return None
        key, schema = effect.key, model.schema
        base = self._state_of(trainer).training_from.digest
        said = (self._me, trainer, key.number, key.initiator, schema.digest, base, shared.digest)
        stated = Contribution(*said, fit.examples, fit.labels)
        if self._signer is None:
            return stated
        stated = replace(stated, key=self._signer.text)
        return replace(stated, signature=base64.b64encode(self._signer.sign(stated.statement())).decode())

    def _rounded(self, trainer: TrainerId, shared: Params) -> Params:
        lost, sent = self._lost.get(trainer), self._state_of(trainer).sent
        if lost is not None and sent is not None and sent.digest == lost.digest:
            self._residuals[trainer] = lost.residual
        rounded, residual = lowered(shared, self._residuals.get(trainer), self._encoding)
        self._lost[trainer] = _Lost(rounded.digest, residual)
        return rounded

    def _schema(self, trainer: TrainerId) -> Schema:
        model = self._state_of(trainer).model
        assert model is not None
        return model.schema

    def _turn(self, trainer: TrainerId) -> asyncio.Lock:
        return self._merging.setdefault(trainer, asyncio.Lock())


def _counting(screening: Screening, effect: Average) -> tuple[Update, ...]:
    """The updates that are not folded yet, without those that do not count."""
    updates = screening.take(effect.updates)
    refused = screening.refused()
    return tuple(update for update in updates if update.peer not in refused)


def round_seed(seed: int, key: RoundKey, me: PeerId) -> int:
    """A seed for one node's training in one round: equal runs are equal, rounds and nodes differ."""
    text = f"{seed}:{key.number}:{me}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
