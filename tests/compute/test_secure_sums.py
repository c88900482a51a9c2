"""The steps of a secure sum with real secrets, and its opening, by the same calls as a node makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, Merged, RoundStart
from flnet.algorithms.noised_sum import SumNoise
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import ImpossibleSumError, threshold
from flnet.compute.secure_sums import KEPT, SecureSums
from flnet.errors import InvalidMessage
from flnet.params.params import Params, PeerId, Schema, TrainerId
from flnet.protocol.effects import Average, SecureStep
from flnet.protocol.secure_sum import (
    DrawKeys,
    ForgetSecrets,
    KeysDrawn,
    MakeShares,
    MaskUpdate,
    OpenedSum,
    RevealShares,
    SecretRequest,
    SecretResult,
    SharesMade,
    SharesRevealed,
    SharesTaken,
    StepFailed,
    TakeShares,
    UpdateMasked,
)
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.model import MASKED
from tests.algorithms.test_differential_privacy import seeded

X = TrainerId("X")
KEY = RoundKey(3, PeerId("n00"))


class Group:
    """Members of one sum, each with its own secrets."""

    def __init__(
        self,
        count: int,
        schema: Schema,
        base: Params,
        rule: str = "secure",
        attempt: int = 0,
        noise: SumNoise | None = None,
    ) -> None:
        self.noise = noise
        self.rule, self.schema, self.base, self.attempt = parse_rule(rule), schema, base, attempt
        self.names = [PeerId(f"n{number:02}") for number in range(count)]
        self.sums = {
            name: SecureSums(name, "mesh", Random(f"{name} {attempt}").randbytes, seeded(count * attempt + number))
            for number, name in enumerate(self.names)
        }
        assert self.rule.secure is not None
        self.threshold = threshold(count, self.rule.secure.part_away)
        self.members = {}
        for name in self.names:
            drawn = self.ask(name, DrawKeys())
            assert isinstance(drawn, KeysDrawn)
            self.members[name] = drawn.keys
        self._share()

    def ask(self, name: PeerId, request: SecretRequest) -> SecretResult:
        step = SecureStep(KEY, self.attempt, request)
        done = self.sums[name].perform(X, step, self.schema, self.rule, self.noise)
        assert done is not None
        assert (done.key, done.attempt) == (KEY, self.attempt)
        return done.result

    def _share(self) -> None:
        made = {name: self.ask(name, MakeShares(self.members, self.threshold)) for name in self.names}
        for name, shares in made.items():
            assert isinstance(shares, SharesMade)
            for receiver, text in shares.shares.items():
                assert self.ask(receiver, TakeShares(name, text)) == SharesTaken(name)

    def masked(self, name: PeerId, params: Params, examples: int = 10, labels: int = 1) -> UpdateMasked:
        result = self.ask(name, MaskUpdate(params, self.base, examples, labels))
        assert isinstance(result, UpdateMasked)
        return result

    def opened(
        self,
        masked: dict[PeerId, Params],
        helpers: Sequence[PeerId] | None = None,
        rule: AggregationRule | None = None,
    ) -> Params:
        return self.merged(masked, helpers, rule).params

    def merged(
        self,
        masked: dict[PeerId, Params],
        helpers: Sequence[PeerId] | None = None,
        rule: AggregationRule | None = None,
        by: PeerId = KEY.initiator,
    ) -> Merged:
        contributors = tuple(sorted(masked))
        revealed = {}
        for name in self.names if helpers is None else helpers:
            result = self.ask(name, RevealShares(frozenset(contributors)))
            assert isinstance(result, SharesRevealed)
            revealed[name] = result.shares
        opened = OpenedSum(self.attempt, self.members, self.threshold, contributors, revealed, self.base)
        updates = tuple(Update(name, KEY, masked[name]) for name in contributors)
        average = Average(KEY, updates, opened=opened)
        return self.sums[by].open(X, average, self.schema, rule or self.rule, math.inf, self.noise)


def model(rng: np.random.Generator) -> Params:
    return Params(
        {
            "w": rng.normal(size=(4, 3)).astype(np.float32),
            "b": rng.normal(size=3),
            "n": np.array([7, 900], np.int64),
        }
    )


@pytest.mark.parametrize("rule", ["secure,agg0", "secure", "secure,agg2", "secure:0.4:64,agg1"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_opened_sum_is_the_mean_of_its_contributors(rule: str, count: int) -> None:
    rng = np.random.default_rng(count)
    base = model(rng)
    group = Group(count, Schema.of(base), base, rule)
    trained = {name: model(rng) for name in group.names}
    figures = {name: (int(rng.integers(1, 5000)), int(rng.integers(1, 9))) for name in group.names}
    contributing = group.names[: group.threshold]
    masked = {name: group.masked(name, trained[name], *figures[name]).params for name in group.names}
    result = group.opened({name: masked[name] for name in contributing}, contributing)
    plain = parse_rule(rule.rpartition(",")[2] if "," in rule else "agg1")
    updates = [Update(name, KEY, trained[name], *figures[name]) for name in contributing]
    expected = plain.merge(None, RoundStart(group.schema, base), updates).params
    for name in ("w", "b"):
        assert np.allclose(result[name], expected[name], atol=1e-4)
    assert result["n"].dtype == np.int64


def test_clusters_of_k_means_go_through_a_sum_of_the_same_form() -> None:
    base = Params(
        {"centroids": np.array([[0, 0], [10, 10], [50, 50]], np.float64), "counts": np.array([0, 0, 0], np.int64)}
    )
    schema = Schema.of(base)
    group = Group(2, schema, base, "secure,k-means:1")
    first = Params(
        {
            "centroids": np.array([[0.5, 0], [10, 10], [50, 50]], np.float64),
            "counts": np.array([2, 1, 0], np.int64),
        }
    )
    second = Params(
        {"centroids": np.array([[0, 0], [10, 10], [50, 50]], np.float64), "counts": np.array([0, 2, 0], np.int64)}
    )
    masked = {
        PeerId("n00"): group.masked(PeerId("n00"), first).params,
        PeerId("n01"): group.masked(PeerId("n01"), second).params,
    }
    assert masked[PeerId("n00")][MASKED].shape == (1 + schema.numbers,)
    result = group.opened(masked)
    assert np.allclose(result["centroids"], np.array([[0.5, 0], [10, 10], [50, 50]], np.float64), atol=1e-5)
    assert result["counts"].tolist() == [2, 3, 0]


def test_too_few_reveals_open_nothing() -> None:
    base = model(np.random.default_rng(0))
    group = Group(4, Schema.of(base), base)
    masked = {name: group.masked(name, base).params for name in group.names}
    with pytest.raises(InvalidMessage, match=r"2 members gave a share.* and 3 are needed"):
        group.opened(masked, group.names[:2])


def test_a_vector_of_nonsense_is_refused_by_everybody_alike() -> None:
    base = model(np.random.default_rng(1))
    group = Group(3, Schema.of(base), base)
    masked = {name: group.masked(name, base).params for name in group.names}
    nonsense = np.frombuffer(Random(2).randbytes(masked[PeerId("n02")].nbytes), np.uint32)
    masked[PeerId("n02")] = Params({MASKED: nonsense})
    with pytest.raises(ImpossibleSumError, match="one of them did not send its update"):
        group.opened(masked)


def test_a_step_is_done_once_and_with_the_secrets_of_its_attempt_only() -> None:
    base = model(np.random.default_rng(3))
    group = Group(3, Schema.of(base), base)
    name = group.names[0]
    group.masked(name, base)
    again = group.ask(name, MaskUpdate(base, base, 10, 1))
    assert isinstance(again, StepFailed)
    assert "masked in this sum before" in again.reason
    assert isinstance(group.ask(name, RevealShares(frozenset(group.names))), SharesRevealed)
    other = group.ask(name, RevealShares(frozenset(group.names[:2])))
    assert isinstance(other, StepFailed)
    assert "opened for other contributors" in other.reason
    group.attempt = 1
    unknown = group.ask(name, RevealShares(frozenset(group.names)))
    assert isinstance(unknown, StepFailed)
    assert "not held any more" in unknown.reason


def test_shares_that_are_damaged_are_refused_with_their_sender() -> None:
    base = model(np.random.default_rng(4))
    group = Group(3, Schema.of(base), base)
    result = group.ask(group.names[0], TakeShares(group.names[1], "AAAA"))
    assert isinstance(result, SharesTaken)
    assert result.sender == group.names[1]
    assert result.refused


def test_secrets_are_forgotten_with_their_round_and_few_attempts_are_held() -> None:
    base = model(np.random.default_rng(5))
    group = Group(3, Schema.of(base), base)
    name, sums = group.names[0], group.sums[group.names[0]]
    forget = SecureStep(KEY, 0, ForgetSecrets())
    assert sums.perform(X, forget, group.schema, group.rule) is None
    assert isinstance(group.ask(name, RevealShares(frozenset(group.names))), StepFailed)
    for attempt in range(KEPT + 1):
        sums.perform(X, SecureStep(KEY, attempt, DrawKeys()), group.schema, group.rule)
    oldest = sums.perform(X, SecureStep(KEY, 0, MakeShares({}, 2)), group.schema, group.rule)
    assert oldest is not None
    assert isinstance(oldest.result, StepFailed)


def test_what_is_cut_is_told() -> None:
    base = Params({"w": np.zeros(4, np.float32)})
    group = Group(2, Schema.of(base), base)
    note = group.masked(
        group.names[0], Params({"w": np.array([0, 100, -100, 1], np.float32)}), examples=2**21
    ).note
    assert "2 numbers of the update were out of range" in note
    assert f"counts for {2**20}" in note
