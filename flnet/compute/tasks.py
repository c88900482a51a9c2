"""Performs the CPU-bound effects of jobs: prepare, train, evaluate, average. Each ends with an event, also on failure."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, Running, note_of_lateness
from flnet.aggregation.screening import USUAL, Bounds, Merge, Screening, remerge
from flnet.aggregation.segments import merged_segment
from flnet.algorithms.differential_privacy import RandomWords, released
from flnet.algorithms.gossip import mixed
from flnet.algorithms.noised_sum import SumNoise
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import ImpossibleSumError
from flnet.compute.queue import ComputeQueue
from flnet.compute.verbs import (
    EvaluateRequest,
    FitRequest,
    OpenEpochRequest,
    OutputsRequest,
    PersonaliseRequest,
    PrepareRequest,
    TurnRequest,
    VerticalPredictRequest,
)
from flnet.compute.vertical import (
    asked_outputs,
    asked_prediction,
    done,
    opened,
    outputs_computed,
    prediction_computed,
)
from flnet.errors import FlnetError, LocalError, ParamsRefused, SitsOut
from flnet.names import DEFAULT_MESH
from flnet.params.arithmetic import clipped
from flnet.params.params import Digest, Params, PeerId, Schema, TrainerId
from flnet.params.quantization import Encoding, lowered
from flnet.protocol.counts import EvaluationCounts, GroupAccuracy, Measured, Scored
from flnet.protocol.effects import (
    Average,
    CancelWork,
    ComputeOutputs,
    ComputePrediction,
    Evaluate,
    Fold,
    OpenEpoch,
    SecureStep,
    Talk,
    Train,
)
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    Evaluated,
    EvaluationFailed,
    Event,
    PredictionNotComputed,
    Prepared,
    PrepareFailed,
    SumSpoilt,
    Trained,
    TrainingFailed,
    VerticalFailed,
)
from flnet.protocol.updates import Contribution, NoisyRelease, RoundKey, Update
from flnet.rounds.base_job import AnyJob
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.security.noise import system_words
from flnet.security.signatures import NodeKey
from flnet.text import joined, text
from flnet.trainer import Fit, RowPrivacy, Score

if TYPE_CHECKING:
    from flnet.compute.secure_sums import SecureSums

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
    """The rounding error of an update, which is added to the next one if that update was sent."""

    digest: Digest
    residual: Params


class ComputeTasks:
    """Performs the CPU-bound effects of all jobs of a node.

    Attributes:
        keep: who is handed the updates of each round, with the way in which they are merged.
    """

    keep: Callable[[TrainerId, Average, Merge], None] | None = None

    def __init__(
        self,
        queue: ComputeQueue,
        rule: AggregationRule,
        me: PeerId,
        seed: int,
        job_of: Callable[[TrainerId], AnyJob],
        *,
        own_hyper: Mapping[str, float] | None = None,
        encoding: Callable[[], Encoding] = lambda: "float32",
        bounds: Bounds = USUAL,
        signer: NodeKey | None = None,
        mesh: str = DEFAULT_MESH,
        words: RandomWords = system_words,
    ) -> None:
        """Args:
        rule: of all trainers that declare none of their own, and for which no person chose another one.
        seed: of the run; every round and node trains with a seed of its own that follows from it.
        job_of: the job of a trainer.
        own_hyper: hyper-parameters (e, u, b) that this node trains with whatever a round says.
        encoding: says to what an own update is rounded before it is sent; what is lost goes into the next one.
        bounds: how far updates may move, the own ones too.
        signer: key with which this node signs what it states of its updates.
        mesh: its name, to which the keys of secure sums are bound.
        words: of which the noise of updates is made.
        """
        self._queue, self._usual, self._me, self._seed = queue, rule, me, seed
        self._made = lru_cache(parse_rule)  # asked for several times in a round
        self._job_of, self._encoding = job_of, encoding
        self._own_hyper, self._bounds = dict(own_hyper or {}), bounds
        self._mesh = mesh
        self._signer, self._words = signer, words
        self._sums: dict[TrainerId, _Sum] = {}
        self._lost: dict[TrainerId, _Lost] = {}
        self._residuals: dict[TrainerId, Params] = {}  # of the newest update that was sent
        self._training: dict[TrainerId, RoundKey] = {}  # asked for last
        self._merging: dict[TrainerId, asyncio.Lock] = {}  # merges of a job are done in the order asked for

    async def prepare(self, trainer: TrainerId) -> Event:
        """Load the trainer and its data."""
        try:
            declaration, params = await self._queue.call(trainer, PrepareRequest())
        except FlnetError as exc:
            return PrepareFailed(str(exc))
        return Prepared(declaration, params)

    async def train(self, trainer: TrainerId, effect: Train) -> Event:
        """Train and measure."""
        started = time.monotonic()
        self._training[trainer] = effect.key
        settings = self._job_of(trainer).settings
        plan, declared = settings.rules.privacy, settings.declaration
        try:
            seed = round_seed(self._seed, effect.key, self._me)
            hyper = effect.hyper.model_copy(update=self._own_hyper)
            release = None if plan is None else plan.release(hyper, declared.training_rows if declared else 0)
            rows = _row_privacy(plan, release)
            request = FitRequest(effect.params, hyper, seed, effect.key.number, rows, effect.validates)
            fit, score = await self._queue.call(trainer, request)
            params, noise = Params(fit.params), _noise(plan, release)
            shared = await asyncio.to_thread(
                self._to_send, trainer, params, effect.params, self._encoding(), noise
            )
        except FlnetError as exc:
            return TrainingFailed(effect.key, str(exc), isinstance(exc, SitsOut))
        except ValueError as exc:
            return TrainingFailed(effect.key, text("it cannot be kept private: {error}", exc))
        if release is not None and fit.noisy is not None:  # what the training did, not what it was to do
            release = replace(release, sampling_rate=fit.noisy.sampling_rate, steps=fit.noisy.steps)
        stated = None if shared is None else await asyncio.to_thread(self._stated, trainer, effect, fit, shared)
        seconds, metrics = time.monotonic() - started, {**fit.metrics, **score.metrics}
        figures = (fit.examples, score.accuracy, fit.labels, seconds, metrics)
        counts, groups, validation = evaluation_of(score)
        tested = Measured(accuracy=score.accuracy, examples=score.examples, counts=counts, groups=groups or None)
        measured = (tested, validation)
        return Trained(effect.key, params, *figures, shared, hyper, stated, time.time(), release, *measured)

    def cancel(self, trainer: TrainerId, effect: CancelWork) -> None:
        """Stop the training of a round that was left, and forget its sum."""
        if self._training.get(trainer) == effect.key:
            self._queue.cancel(trainer, at_once=effect.at_once)
        if trainer in self._sums and self._sums[trainer].key == effect.key:
            del self._sums[trainer]

    async def fold(self, trainer: TrainerId, effect: Fold) -> None:
        """Add updates to the running merge of their round; a failure is told by `average`."""
        async with self._turn(trainer):
            open_sum = self._sums.get(trainer)
            if open_sum is None or open_sum.key != effect.key:
                open_sum = self._sums[trainer] = self._begun(trainer, effect.key, self._screening(trainer))
            try:
                await asyncio.to_thread(lambda: open_sum.running.add(open_sum.screening.take(effect.updates)))
            except _ARITHMETIC as exc:
                open_sum.failure = open_sum.failure or exc

    async def average(self, trainer: TrainerId, effect: Average) -> Event:
        """Merge the updates by the rule, with those that were folded before.

        Not in the compute queue: a merge is short, and must not wait for another trainer's long training.
        """
        async with self._turn(trainer):
            started = time.monotonic()
            if effect.opened is not None:
                return await self._open_sum(trainer, effect)
            if effect.segment is not None:
                return await self._average_segment(trainer, effect, effect.segment)
            if effect.links is not None:
                return await asyncio.to_thread(self._mixed, trainer, effect, effect.links)
            if self.keep is not None:
                start, remembered = self._start(trainer, effect.key), self._job_of(trainer).held.remembered
                self.keep(trainer, effect, remerge(self._bounds, self._rule(trainer), start, remembered))
            try:
                merged, screening = await asyncio.to_thread(self._merge, trainer, effect)
            except _SpoiltError:
                spoilt = self._sums[trainer]
                return SumSpoilt(effect.key, spoilt.screening.refused())
            except _ARITHMETIC as exc:
                return AveragingFailed(effect.key, f"{type(exc).__name__}: {exc}")
            seconds = time.monotonic() - started
            is_common = screening.is_common and merged.is_common and not effect.is_apart
            verdict = (
                screening.refused(),
                is_common,
                screening.weighed(merged.weighed),
                merged.state,
                merged.note,
            )
            return Averaged(effect.key, merged.params, seconds, *verdict)

    async def _average_segment(self, trainer: TrainerId, effect: Average, segment: tuple[int, int]) -> Event:
        started, place = time.monotonic(), segment[0]
        start, rule = self._start(trainer, effect.key), self._rule(trainer)
        start = start if effect.base is None else replace(start, base=effect.base)
        how = (effect.updates, segment, self._bounds, effect.moved)
        try:
            merged, squares = await asyncio.to_thread(merged_segment, rule, start, *how)
            assert merged.digest
        except _ARITHMETIC as exc:
            return AveragingFailed(effect.key, f"{type(exc).__name__}: {exc}", segment=place)
        return Averaged(effect.key, merged, time.monotonic() - started, segment=place, squares=squares)

    def _mixed(self, trainer: TrainerId, effect: Average, links: Mapping[PeerId, float]) -> Event:
        started, screening = time.monotonic(), self._screening(trainer)
        rule, start = self._rule(trainer).name, self._start(trainer, effect.key)
        try:
            is_new = self._job_of(trainer).held.current.is_initial
            made = mixed(rule, start, _counting(screening, effect), links, is_new)
            params = start.schema.conform(made.params)
            assert params.digest
        except _ARITHMETIC as exc:
            return AveragingFailed(effect.key, f"{type(exc).__name__}: {exc}")
        seconds, refused, weighed = (
            time.monotonic() - started,
            screening.refused(),
            screening.weighed(made.weighed),
        )
        return Averaged(effect.key, params, seconds, refused, True, weighed, None, made.note, spread=made.spread)

    @cached_property
    def _secure_sums(self) -> SecureSums:
        from flnet.compute.secure_sums import SecureSums  # noqa: PLC0415 - cryptography takes 9 MB

        return SecureSums(self._me, self._mesh, words=self._words)

    async def secure_step(self, trainer: TrainerId, effect: SecureStep) -> Event | None:
        """Do a step of a secure sum with this node's secrets; None if nothing follows from it."""
        async with self._turn(trainer):
            schema, rule = self._schema(trainer), self._rule(trainer)
            noise = self._noise_of_sums(trainer)
            return await asyncio.to_thread(self._secure_sums.perform, trainer, effect, schema, rule, noise)

    def _noise_of_sums(self, trainer: TrainerId) -> SumNoise | None:
        plan = self._job_of(trainer).settings.rules.privacy
        return None if plan is None else plan.in_sums

    async def _open_sum(self, trainer: TrainerId, effect: Average) -> Event:
        started, clip = time.monotonic(), self._bounds.clip or math.inf
        schema, rule = self._schema(trainer), self._rule(trainer)
        try:
            noise = self._noise_of_sums(trainer)
            merged = await asyncio.to_thread(self._secure_sums.open, trainer, effect, schema, rule, clip, noise)
            assert merged.params.digest
        except _ARITHMETIC as exc:
            return AveragingFailed(effect.key, str(exc), isinstance(exc, ImpossibleSumError))
        return Averaged(effect.key, merged.params, time.monotonic() - started, note=merged.note)

    async def evaluate(self, trainer: TrainerId, effect: Evaluate) -> Event:
        """Measure a model on own rows; if so asked, once private parameters have learnt on from it."""
        digest, private = effect.shared.digest, None
        try:
            if effect.hyper is None:
                score = await self._queue.call(
                    trainer, EvaluateRequest(effect.params, effect.split, effect.validates)
                )
            else:
                self._training[trainer] = effect.key
                seed = round_seed(self._seed, effect.key, self._me)
                hyper = effect.hyper.model_copy(update=self._own_hyper)
                request = PersonaliseRequest(
                    effect.params, hyper, seed, split=effect.split, validates=effect.validates
                )
                private, score = await self._queue.call(trainer, request)
        except FlnetError as exc:
            return EvaluationFailed(effect.key, digest, str(exc), effect.split)
        figures = (score.accuracy, score.examples, score.metrics)
        return Evaluated(effect.key, digest, *figures, private, score.split, *evaluation_of(score))

    async def take_turn(self, trainer: TrainerId, effect: OpenEpoch | Talk) -> Event:
        """Begin an epoch of a vertical job, or let its conversation go on."""
        try:
            if isinstance(effect, OpenEpoch):
                turn = await self._queue.call(trainer, OpenEpochRequest(opened(effect, self._me)))
            else:
                received = [
                    {"sender": str(peer), "part": part.as_dict(), "arrays": arrays}
                    for peer, part, arrays in effect.received
                ]
                turn = await self._queue.call(trainer, TurnRequest(effect.session, received))
            return done(turn, effect.session)
        except FlnetError as exc:
            return VerticalFailed(effect.session, str(exc))

    async def predict(self, trainer: TrainerId, effect: ComputeOutputs | ComputePrediction) -> Event:
        """Compute this node's part in a prediction of a vertical job, or the prediction from the parts of all."""
        try:
            if isinstance(effect, ComputeOutputs):
                found = await self._queue.call(trainer, OutputsRequest(asked_outputs(effect)))
                return outputs_computed(effect, found)
            answer = await self._queue.call(trainer, VerticalPredictRequest(asked_prediction(effect, self._me)))
            return prediction_computed(effect, answer)
        except FlnetError as exc:
            return PredictionNotComputed(effect.asker, effect.session, str(exc))

    def _merge(self, trainer: TrainerId, effect: Average) -> tuple[Merged, Screening]:
        open_sum = self._sums.pop(trainer, None)
        if open_sum is not None and open_sum.key != effect.key:
            open_sum = None
        if open_sum is not None and open_sum.failure is not None:
            raise open_sum.failure
        screening = self._screening(trainer) if open_sum is None else open_sum.screening
        counting = _counting(screening, effect)
        if screening.refused().keys() & set(effect.folded):
            if open_sum is not None and open_sum.is_second:
                raise LocalError(
                    text("other updates came when they were fetched again: the sum holds what does not count")
                )
            # What was decided of these updates stands for those of them that the next sum is made of.
            self._sums[trainer] = replace(self._begun(trainer, effect.key, screening), is_second=True)
            raise _SpoiltError
        if effect.folded:
            if open_sum is None:
                raise LocalError(
                    text("the updates of {names} were folded into a sum that is gone", ", ".join(effect.folded))
                )
            open_sum.running.add(counting)
            merged = open_sum.running.result()
        else:
            remembered = self._job_of(trainer).held.remembered
            rule = self._rule(trainer)
            merged = rule.merge(remembered, self._start(trainer, effect.key), counting)
            notes = filter(None, (merged.note, note_of_lateness(rule, counting)))
            merged = merged._replace(note=joined([*notes]))
        merged = merged._replace(params=self._schema(trainer).conform(merged.params))
        for result in (merged.params, merged.state):
            assert result is None or result.digest  # computed here, where it does not hold up the event loop
        return merged, screening

    def _rule(self, trainer: TrainerId) -> AggregationRule:
        settings = self._job_of(trainer).settings
        is_own = settings.needed_rule or settings.rules.by_person
        return self._made(settings.rule) if is_own else self._usual

    def _begun(self, trainer: TrainerId, key: RoundKey, screening: Screening) -> _Sum:
        begin = self._rule(trainer).running
        assert begin is not None  # or the job would not fold
        return _Sum(key, begin(self._job_of(trainer).held.remembered, self._start(trainer, key)), screening)

    def _start(self, trainer: TrainerId, key: RoundKey) -> RoundStart:
        job = self._job_of(trainer)
        members = frozenset({self._me, *job.peers.here})
        return RoundStart(self._schema(trainer), job.screened_from, key.number, self._me, members)

    def _screening(self, trainer: TrainerId) -> Screening:
        job = self._job_of(trainer)
        return Screening(self._bounds, job.screened_from, job.held.schema, self._rule(trainer).needs_base)

    def _to_send(
        self,
        trainer: TrainerId,
        params: Params,
        base: Params,
        encoding: Encoding,
        noise: tuple[float, float] | None = None,
    ) -> Params | None:
        """The part of trained parameters that leaves this node, rounded to what is sent, with its digest known.

        Noise comes before the rounding, so that what is lost there and sent with the next update is private, too. An update
        for a secure sum gets its noise where it is masked (`flnet.compute.secure_sums`).

        Args:
            noise: the clip of the whole change and the noise multiplier; None for no noise.

        Raises:
            ValueError: the change is not finite, so it can get no noise.
        """
        schema = self._schema(trainer)
        try:
            shared = schema.conform(params.select(schema.specs))
            if noise is not None and self._rule(trainer).secure is None:  # else it is added when the sum is masked
                shared = schema.conform(released(base, shared, *noise, self._words))
        except ParamsRefused:
            return None  # the job finds out too, and says so
        if self._bounds.clip:
            shared = clipped(base, shared, schema, self._bounds.clip)
        if encoding != "float32" and self._rule(trainer).secure is None:
            shared = schema.conform(self._rounded(trainer, shared, encoding))
        assert shared.digest
        return shared

    def _stated(self, trainer: TrainerId, effect: Train, fit: Fit, shared: Params) -> Contribution | None:
        """The statement of this node about its update."""
        model = self._job_of(trainer).held.model
        if model is None:
            return None
        key, schema = effect.key, model.schema
        base = self._job_of(trainer).training_from.digest
        facts = (self._me, trainer, key.number, key.initiator, schema.digest, base, shared.digest)
        stated = Contribution(*facts, fit.examples, fit.labels)
        if self._signer is None:
            return stated
        stated = replace(stated, key=self._signer.text)
        return replace(stated, signature=base64.b64encode(self._signer.sign(stated.statement())).decode())

    def _rounded(self, trainer: TrainerId, shared: Params, encoding: Encoding) -> Params:
        lost, sent = self._lost.get(trainer), self._job_of(trainer).held.sent
        if lost is not None and sent is not None and sent.digest == lost.digest:
            self._residuals[trainer] = lost.residual
        rounded, residual = lowered(shared, self._residuals.get(trainer), encoding)
        self._lost[trainer] = _Lost(rounded.digest, residual)
        return rounded

    def _schema(self, trainer: TrainerId) -> Schema:
        return self._job_of(trainer).held.schema

    def _turn(self, trainer: TrainerId) -> asyncio.Lock:
        return self._merging.setdefault(trainer, asyncio.Lock())


def _row_privacy(plan: PrivacyPlan | None, release: NoisyRelease | None) -> RowPrivacy | None:
    """How a training is to hide each row; None if it need not."""
    if plan is None or release is None or plan.privacy.level != "rows":
        return None
    return RowPrivacy(release.noise_multiplier, plan.privacy.clip)


def _noise(plan: PrivacyPlan | None, release: NoisyRelease | None) -> tuple[float, float] | None:
    """Clip and noise multiplier of a whole update that is to hide all rows of this node; None if it need not."""
    if plan is None or release is None or plan.privacy.level != "node":
        return None
    return plan.privacy.clip, release.noise_multiplier


def _counting(screening: Screening, effect: Average) -> tuple[Update, ...]:
    """The updates that are not folded yet, without those that do not count."""
    updates = screening.take(effect.updates)
    refused = screening.refused()
    return tuple(update for update in updates if update.peer not in refused)


def round_seed(seed: int, key: RoundKey, me: PeerId) -> int:
    """A seed for one node's training in one round: equal runs are equal, rounds and nodes differ."""
    text = f"{seed}:{key.number}:{me}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def evaluation_of(score: Score) -> tuple[EvaluationCounts | None, tuple[GroupAccuracy, ...], Scored | None]:
    """The counts, groups and validation of a score, as Evaluated has them."""
    return score.counts, tuple(score.groups), None if score.validation is None else score.validation.scored
