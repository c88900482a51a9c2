"""Five nodes that spread the noise of a sum among them: real secrets and masks, and what the opened sum shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from flnet.aggregation.base import MERGING, Merged
from flnet.algorithms.differential_privacy import Privacy
from flnet.algorithms.noised_sum import NoisedMeanEncoder, SumNoise
from flnet.algorithms.registry import parse_rule
from flnet.compute.queue import ComputeQueue
from flnet.compute.secure_sums import SecureSums
from flnet.compute.tasks import ComputeTasks
from flnet.params.params import Params, PeerId, Schema, TrainerId
from flnet.protocol.effects import SecureStep, Train
from flnet.protocol.events import Prepared, SecureStepDone, Trained
from flnet.protocol.secure_sum import (
    DrawKeys,
    KeysDrawn,
    MakeShares,
    MaskUpdate,
    SecretRequest,
    StepFailed,
    UpdateMasked,
)
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.job import Job
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.rounds.settings import Rules
from flnet.trainer import NoisySteps
from tests.algorithms.test_differential_privacy import seeded
from tests.compute.inline_queue import InlineQueue
from tests.compute.test_private_updates import Moves, plan
from tests.compute.test_secure_sums import Group
from tests.helpers import HYPER, key
from tests.rounds.helpers import declaration, settings

T = TrainerId("T")
NODES = [PeerId(f"n{number:02}") for number in range(5)]
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


class Five(Group):
    """One sum of five nodes.

    Attributes:
        masked_of: what left each node.
    """

    def __init__(self, seed: int, updates: Mapping[PeerId, Params] | None = None) -> None:
        """Args:
        seed: of all that the nodes draw.
        updates: of those that send one; by default all five send one that changes nothing.
        """
        super().__init__(5, SCHEMA, BASE, RULE.name, seed, NOISE)
        sent = dict.fromkeys(self.names, stays()) if updates is None else updates
        self.masked_of = {name: self.masked(name, params).params for name, params in sent.items()}

    def mean(self, by: PeerId = NODES[0]) -> Merged:
        return self.merged(self.masked_of, sorted(self.masked_of), by=by)


def stays() -> Params:
    """An update that changes nothing, but for a count that must not leave."""
    return Params(dict(BASE) | {"count": np.array([99], np.int64)})


def noise_in(mean: Params, inside: int = 5) -> NDArray[np.float64]:
    """What a sum of nodes that learnt nothing holds, all arrays of floats as one vector."""
    return np.concatenate(
        [np.subtract(mean[name], BASE[name], dtype=np.float64).ravel() * inside for name in FLOATS]
    )


def within(numbers: NDArray[np.float64], variance: float) -> None:
    """Check that normal numbers have this variance: the chi-square variable is within 4 of its standard deviations."""
    square = float((numbers**2).sum()) / variance
    assert abs(square - numbers.size) < 4 * math.sqrt(2 * numbers.size), (square, numbers.size)
    assert abs(float(numbers.mean())) < 4 * math.sqrt(variance / numbers.size)


@pytest.mark.parametrize("inside", [5, 4], ids=["all", "one has vanished"])
def test_the_opened_sum_has_the_noise_of_its_contributors_in_every_array(inside: int) -> None:
    variance = inside / 3 * NOISE.multiplier**2  # three of five are counted on, and every node adds a third
    noises = []
    for seed in range(3):
        merged = Five(seed, dict.fromkeys(NODES[:inside], stays())).mean()
        assert merged.note == "noise of the sum: 1.5 times the clip of 1, if at least 3 of 5 nodes are honest"
        assert merged.params["count"].tolist() == [7]
        noises.append(noise_in(merged.params, inside))
        for part in np.split(noises[-1], [301, 3301]):
            within(part, variance)
    within(np.concatenate(noises), variance)


def test_without_the_noise_of_any_two_the_rest_is_what_was_promised() -> None:
    """One of five may work with the one that reads the sum. They know their own noise, so they subtract it."""
    left = noise_in(Five(1).mean().params)
    within(left, 5 / 3 * NOISE.multiplier**2)
    within(left - own_noise(1, NODES[0]) - own_noise(1, NODES[3]), NOISE.multiplier**2)


def own_noise(seed: int, peer: PeerId) -> NDArray[np.float64]:
    """The noise that a node of `Five(seed)` added: drawn again, from the same random bytes."""
    five = Five(seed, {})
    encoder = five.sums[peer]._encoder(SCHEMA, RULE, BASE, (5, five.threshold), NOISE)
    numbers = encoder.encode(stays(), 10, 1).numbers.view(np.int32)
    places = np.r_[1:302, 303:3303, 3303:3503]
    return np.multiply(numbers[places], cast(NoisedMeanEncoder, encoder).width, dtype=np.float64)


def test_the_sums_of_two_rounds_have_noise_of_their_own() -> None:
    first, second = (noise_in(Five(seed).mean().params) for seed in (2, 3))
    variance = 5 / 3 * NOISE.multiplier**2
    within(first + second, 2 * variance)
    within(first - second, 2 * variance)


def test_the_change_of_each_node_is_shortened_from_the_model_of_the_sum() -> None:
    far = Params(dict(BASE) | {"kernel": BASE["kernel"] + np.float32(9.0)})
    moved, noise = Five(4, dict.fromkeys(NODES, far)).mean().params, Five(4).mean().params
    change = moved["kernel"].astype(np.float64) - noise["kernel"]
    assert float(np.linalg.norm(change)) == pytest.approx(1.0, rel=1e-3)
    assert np.allclose(moved["bias"], noise["bias"])


def test_all_nodes_open_the_same_bits_and_a_vector_is_masked_once() -> None:
    five = Five(5)
    again = five.ask(NODES[0], MaskUpdate(stays(), BASE, 10, 1))
    assert isinstance(again, StepFailed) and "a vector was masked in this sum before" in again.reason
    assert len({five.mean(by).params.digest for by in NODES}) == 1


def test_a_rule_with_weights_is_refused_by_the_step() -> None:
    five = Five(6, {})
    five.rule = parse_rule("secure,agg1")
    refused = five.ask(NODES[0], MaskUpdate(stays(), BASE, 10, 1))
    assert isinstance(refused, StepFailed) and "secure,agg0 only" in refused.reason


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
    assert event.release == NoisyRelease("node", 2.0)

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
    assert isinstance(event, Trained) and event.release == NoisyRelease("rows", 2.0, 0.05, 17)
    assert made._noise_of_sums(T) is None


def test_what_nodes_must_promise_alike_is_a_short_text() -> None:
    promise = PrivacyPlan(Privacy("node", 3, 1e-5, 0.1), 20, lambda spent: 0.0, lambda rate, steps: 1.23456)
    assert promise.stated_of_sums == "epsilon 3, delta 1e-05, clip 0.1, 20 rounds, noise 1.2346"
    assert promise.in_sums == SumNoise(0.1, 1.2346)
