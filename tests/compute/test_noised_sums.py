"""Five nodes that spread the noise of a sum among them: real secrets and masks, and what the opened sum shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from flnet.aggregation.base import MERGING
from flnet.algorithms.differential_privacy import Privacy
from flnet.algorithms.noised_sum import NoisedTerms, SumNoise
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import threshold
from flnet.compute.queue import ComputeQueue
from flnet.compute.secure_sums import SecureSums
from flnet.compute.tasks import ComputeTasks
from flnet.params.params import Params, PeerId, Schema, TrainerId
from flnet.protocol.effects import Average, SecureStep, Train
from flnet.protocol.events import Prepared, SecureStepDone, Trained
from flnet.protocol.secure_sum import (
    DrawKeys,
    KeysDrawn,
    MakeShares,
    MaskUpdate,
    OpenedSum,
    RevealShares,
    SecretRequest,
    SharesMade,
    SharesRevealed,
    StepFailed,
    TakeShares,
    UpdateMasked,
)
from flnet.protocol.updates import Release, RoundKey, Update
from flnet.rounds.job import Job
from flnet.rounds.model import MASKED
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.rounds.settings import Rules
from flnet.trainer import NoisySteps
from tests.algorithms.test_differential_privacy import seeded
from tests.compute.inline_queue import InlineQueue
from tests.compute.test_private_updates import Moves, plan
from tests.helpers import HYPER, key
from tests.rounds.helpers import declaration, settings

T = TrainerId("T")
NODES = [PeerId(name) for name in "abcde"]
NOISE = SumNoise(1.0, 1.5)
RULE = parse_rule("secure,agg0")
BASE = Params(
    {
        "bias": np.zeros(301, np.float32),
        "count": np.array([7], np.int64),
        "kernel": np.full((60, 50), 3.0, np.float32),
        "mean": np.full(200, 100.0, np.float64),
    }
)
SCHEMA = Schema.of(BASE)
FLOATS = ("bias", "kernel", "mean")


class Five:
    """One sum of five nodes; the masked updates of all stay readable here."""

    def __init__(self, seed: int, number: int = 0, noise: SumNoise | None = NOISE) -> None:
        self.key, self.noise = RoundKey(number, NODES[0]), noise
        self.threshold = threshold(len(NODES))
        self.nodes = {
            peer: SecureSums(peer, "mesh", Random(f"{seed} {number} {peer}").randbytes) for peer in NODES
        }
        self.masked: dict[PeerId, Params] = {}
        self.keys: dict[PeerId, str] = {}
        for peer in NODES:
            self.keys[peer] = self.do(peer, DrawKeys(), KeysDrawn).keys
        made = {peer: self.do(peer, MakeShares(self.keys, self.threshold), SharesMade).shares for peer in NODES}
        for sender, shares in made.items():
            for receiver, share in shares.items():
                self.do(receiver, TakeShares(sender, share), object)

    def do(self, peer: PeerId, request: SecretRequest, expected: Any) -> Any:
        step = SecureStep(self.key, 0, request)
        done = self.nodes[peer].perform(T, step, SCHEMA, RULE, self.noise)
        assert isinstance(done, SecureStepDone)
        assert isinstance(done.result, expected), done.result
        return done.result

    def mask(self, peer: PeerId, params: Params) -> None:
        request = MaskUpdate(params, BASE, 10, 1)
        self.masked[peer] = self.do(peer, request, UpdateMasked).params

    def open(self, contributors: Sequence[PeerId], by: PeerId = NODES[0]) -> tuple[Params, str]:
        """The mean and what is said of it."""
        inside = frozenset(contributors)
        revealed = {
            peer: self.do(peer, RevealShares(inside), SharesRevealed).shares for peer in sorted(contributors)
        }
        opened = OpenedSum(0, self.keys, self.threshold, tuple(sorted(inside)), revealed, BASE)
        updates = tuple(Update(peer, self.key, self.masked[peer]) for peer in sorted(inside))
        effect = Average(self.key, updates, opened=opened)
        merged = self.nodes[by].open(T, effect, SCHEMA, RULE, math.inf, self.noise)
        return merged.params, merged.note


def stays() -> Params:
    """An update that changes nothing, but for a count that must not leave."""
    return Params(dict(BASE) | {"count": np.array([99], np.int64)})


def whole(seed: int, contributors: Sequence[PeerId], number: int = 0) -> tuple[Params, str]:
    """The mean of a sum of nodes that learnt nothing: the noise alone."""
    five = Five(seed, number)
    for peer in contributors:
        five.mask(peer, stays())
    return five.open(contributors)


def within(square: float, degrees: int) -> None:
    """Check that a sum of squares of standard normal numbers is within 4 standard deviations of a chi-square variable."""
    assert abs(square - degrees) < 4 * math.sqrt(2 * degrees), (square, degrees)


@pytest.mark.parametrize("inside", [NODES, NODES[:4]], ids=["all", "one has vanished"])
def test_the_opened_sum_has_the_noise_of_its_contributors_in_every_array(inside: list[PeerId]) -> None:
    honest = 3  # of five, with a threshold of four
    variance = len(inside) / honest * NOISE.multiplier**2  # of the sum
    together = 0.0
    for seed in range(3):
        mean, note = whole(seed, inside)
        assert note == "noise of the sum: 1.5 times the clip of 1, if at least 3 of 5 nodes are honest"
        assert mean["count"].tolist() == [7]
        for name in FLOATS:
            noise = np.subtract(mean[name], BASE[name], dtype=np.float64) * len(inside)
            square = float((noise**2).sum()) / variance
            within(square, noise.size)
            together += square
            assert abs(float(noise.mean())) < 4 * math.sqrt(variance / noise.size)
    within(together, 3 * 3501)


def test_without_the_noise_of_any_two_the_rest_is_what_was_promised() -> None:
    """Two of five may work together. They know their own noise, so they subtract it from the sum."""
    five = Five(1)
    for peer in NODES:
        five.mask(peer, stays())
    mean, _ = five.open(NODES)
    alone = [own_noise(1, peer) for peer in NODES[:2]]
    left = np.concatenate([(mean[name] - BASE[name].astype(np.float64)).ravel() * 5 for name in FLOATS])
    within(float(((left - sum(alone)) ** 2).sum()) / NOISE.multiplier**2, left.size)
    within(float((left**2).sum()) / (5 / 3 * NOISE.multiplier**2), left.size)


def own_noise(seed: int, peer: PeerId) -> NDArray[np.float64]:
    """The noise that a node of `Five(seed)` added: drawn again, from the same random bytes."""
    five = Five(seed)
    terms = five.nodes[peer]._terms(SCHEMA, RULE, BASE, (5, five.threshold), NOISE)
    numbers = terms.encode(stays(), 10, 1).numbers.view(np.int32)
    places = np.r_[1:302, 303:3303, 3303:3503]
    return np.multiply(numbers[places], cast(NoisedTerms, terms).width, dtype=np.float64)


def test_the_sums_of_two_rounds_have_noise_of_their_own() -> None:
    first, second = (whole(2, NODES, number)[0] for number in (0, 1))
    noises = [
        np.concatenate([(mean[name] - BASE[name].astype(np.float64)).ravel() * 5 for name in FLOATS])
        for mean in (first, second)
    ]
    variance = 5 / 3 * NOISE.multiplier**2
    within(float(((noises[0] + noises[1]) ** 2).sum()) / (2 * variance), 3501)
    within(float(((noises[0] - noises[1]) ** 2).sum()) / (2 * variance), 3501)


def test_the_change_of_each_node_is_shortened_from_the_model_of_the_sum() -> None:
    five, without = Five(3), Five(3)
    for peer in NODES:
        five.mask(peer, Params(dict(BASE) | {"kernel": BASE["kernel"] + np.float32(9.0)}))
        without.mask(peer, stays())
    (moved, _), (noise, _) = five.open(NODES), without.open(NODES)
    change = moved["kernel"].astype(np.float64) - noise["kernel"]
    assert float(np.linalg.norm(change)) == pytest.approx(1.0, rel=1e-3)
    assert np.allclose(moved["bias"], noise["bias"])


def test_all_nodes_open_the_same_bits_and_a_vector_is_masked_once() -> None:
    five = Five(4)
    for peer in NODES:
        five.mask(peer, stays())
    again = five.do(NODES[0], MaskUpdate(stays(), BASE, 10, 1), StepFailed)
    assert "a vector was masked in this sum before" in again.reason
    assert len({five.open(NODES, by)[0].digest for by in NODES}) == 1


def test_nothing_of_the_update_is_in_what_leaves() -> None:
    five = Five(5)
    five.mask(NODES[0], stays())
    assert list(five.masked[NODES[0]]) == [MASKED]
    numbers = five.masked[NODES[0]][MASKED]
    places = np.bincount(numbers >> np.uint32(28), minlength=16)
    within(float(((places - numbers.size / 16) ** 2).sum() / (numbers.size / 16)), 15)


def test_a_rule_with_weights_is_refused_by_the_step() -> None:
    five = Five(6)
    step = SecureStep(five.key, 0, MaskUpdate(stays(), BASE, 10, 1))
    done = five.nodes[NODES[0]].perform(T, step, SCHEMA, parse_rule("secure,agg1"), NOISE)
    assert done is not None
    assert isinstance(done.result, StepFailed)
    assert "secure,agg0 only" in done.result.reason


# The tasks of a node.


def tasks(trainer: Moves, promise: PrivacyPlan, drawn: list[int]) -> tuple[ComputeTasks, Job]:
    """Of a node b that shares noise.

    Args:
        drawn: takes how many words were drawn, each time.
    """
    random = seeded()

    def words(count: int) -> NDArray[np.uint64]:
        drawn.append(count)
        return random(count)

    job = Job(settings(rules=Rules(privacy=promise, averaging={MERGING: RULE.name})))
    job.receive(Prepared(declaration(data={"rows": {"train": 1000}}), Params(trainer.initial_params(0))))
    queue = cast(ComputeQueue, InlineQueue({T: trainer}))
    return ComputeTasks(queue, RULE, PeerId("b"), 0, lambda _: job, words=words), job


async def test_a_node_adds_its_share_when_the_sum_is_masked_and_not_before() -> None:
    drawn: list[int] = []
    made, job = tasks(Moves(5.0), plan(multiplier=2.0), drawn)
    event = await made.train(T, Train(key(), job.held.current.full, HYPER))
    assert isinstance(event, Trained) and event.shared is not None
    assert set(event.shared["w"].tolist()) == {5.0}
    assert event.release == Release("node", 2.0)

    async def step(request: SecretRequest) -> Any:
        done = await made.secure_step(T, SecureStep(key(), 0, request))
        assert isinstance(done, SecureStepDone)
        return done.result

    other = SecureSums(PeerId("c"), made._mesh).perform(T, SecureStep(key(), 0, DrawKeys()), job.held.schema, RULE)
    assert other is not None and isinstance(other.result, KeysDrawn)
    await step(MakeShares({PeerId("b"): (await step(DrawKeys())).keys, PeerId("c"): other.result.keys}, 2))
    assert drawn == []
    request = MaskUpdate(event.shared, job.held.current.shared, 10, 1)
    assert isinstance(await step(request), UpdateMasked)
    assert sum(drawn) > event.shared["w"].size


async def test_noise_on_rows_is_no_matter_of_the_sum() -> None:
    made, job = tasks(Moves(5.0, NoisySteps(0.05, 17)), plan("rows"), [])
    event = await made.train(T, Train(key(), job.held.current.full, HYPER))
    assert isinstance(event, Trained) and event.release == Release("rows", 2.0, 0.05, 17)
    assert made._noise_of_sums(T) is None


def test_what_nodes_must_promise_alike_is_a_short_text() -> None:
    promise = PrivacyPlan(Privacy("node", 3, 1e-5, 0.1), 20, lambda spent: 0.0, lambda rate, steps: 1.23456)
    assert promise.stated_of_sums == "epsilon 3, delta 1e-05, clip 0.1, 20 rounds, noise 1.2346"
    assert promise.in_sums == SumNoise(0.1, 1.2346)
