"""Meshes whose updates are masked: what is opened, what is not, and that nothing that vanishes stops the others."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import threshold
from flnet.compute.secure_sums import SecureSums
from flnet.names import DEFAULT_MESH
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import SecureStep
from flnet.protocol.events import PartReceived, SecureStepDone
from flnet.protocol.secure_sum import HeldPart, MaskUpdate, RevealShares, UpdateMasked
from flnet.protocol.updates import RoundKey
from flnet.rounds.group_search import GroupSearch
from flnet.rounds.model import MASKED
from flnet.rounds.participation import chosen
from flnet.rounds.secure_round import SecureRound
from flnet.rounds.series import MOST_PARTS
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import SecureLedger
from flnet.simulation.node import TRAINER
from flnet.simulation.schedule import Reduction, draw
from flnet.simulation.search import broken_by, play
from tests.simulation.helpers import digests, idle, mesh, play_round, seeds

PART = 10


def secure(rule: str = "secure") -> Rules:
    return Rules(averaging={MERGING: parse_rule(rule).name})


@pytest.mark.parametrize("part", seeds(2, 100))
def test_no_schedule_breaks_a_mesh_whose_updates_are_masked(part: int) -> None:
    broken = broken_by(range(part * PART, (part + 1) * PART), secure=True)
    assert [f"python -m flnet.simulation --secure --replay {f.schedule.seed}: {f.reason}" for f in broken] == []


BROKE = (12, 27, 48, 66, 93, 113, 125, 226, 265, 1001, 1053, 1775, 2377, 25174, 35286)
BROKE_LATER = (
    40887,
    41038,
    41189,
    42374,
    42384,
    42859,
    46219,
    46518,
    47719,
    51358,
    66855,
    72887,
    73444,
    90387,
    101663,
)


@pytest.mark.parametrize("seed", [*BROKE, *BROKE_LATER])
def test_schedules_that_once_broke_a_masked_mesh_do_so_no_more(seed: int) -> None:
    assert play(Reduction(secure=True).of(draw(seed))) is None


@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("rule", ["secure", "secure:0:64", "secure:0.4:32"])
def test_all_nodes_open_the_same_sum(size: int, rule: str) -> None:
    cluster = mesh(size, 1, rules=secure(rule))
    play_round(cluster, "n01", rounds=2)
    assert len(digests(cluster)) == 1
    for node in cluster.nodes.values():
        assert node.job.history.records[-1].contributors == tuple(sorted(cluster.nodes))
        assert node.job.held.current.contributors == size
        record = node.job.history.records[-1].secure
        assert record is not None and record.members == tuple(sorted(cluster.nodes))
        assert record.threshold == threshold(size, parse_rule(rule).secure.part_away)  # type: ignore[union-attr]
    assert isinstance(cluster.ledger, SecureLedger)
    assert len(cluster.ledger.opened) == 2


def test_no_single_update_leaves_a_node() -> None:
    """All that travels is a vector of numbers that look drawn at random, and none of them is what was trained."""
    cluster = mesh(4, 2, rules=secure())
    seen = []
    send = cluster.calls.send

    def listen(node: object, owner: object, effect: object) -> None:
        if effect.params is not None and effect.message.path == "/training/model_params":  # type: ignore[attr-defined]
            seen.append((effect.message, effect.params))  # type: ignore[attr-defined]
        send(node, owner, effect)  # type: ignore[arg-type]

    cluster.calls.send = listen  # type: ignore[method-assign]
    play_round(cluster, "n00")
    assert len({message.i_am.id for message, _ in seen}) == 4
    for message, params in seen:
        assert list(params) == [MASKED]
        assert message.examples is None
        assert message.accuracy is None
        assert message.group is not None


def killed_when(cluster: Cluster, name: str, happens: Callable[[SecureRound], bool]) -> None:
    """Kill a node as soon as its open round is so far, once all have heard of it."""
    node = cluster.nodes[PeerId(name)]
    for _ in range(4000):
        cluster.run_for(0.005)
        have_heard = all(other.job.busy for other in cluster.alive)
        if have_heard and isinstance(node.job.round, SecureRound) and happens(node.job.round):
            cluster.kill(PeerId(name))
            return
    raise AssertionError("it was never so far")


STEPS: dict[str, Callable[[SecureRound], bool]] = {
    "the round has begun": lambda round: True,
    "it has drawn keys": lambda round: round.sum.building.has_started,
    "the group is known": lambda round: round.sum.building.group is not None,
    "the sum has begun": lambda round: round.sum.building.has_begun,
    "its update has left": lambda round: round.own is not None,
    "all updates are here": lambda round: len(round.gathering.updates) == 6,
    "the contributors are settled": lambda round: round.sum.settled is not None,
    "it has opened the sum": lambda round: round.phase is Phase.MEASURING,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("victim", ["n00", "n04"])  # who leads, and another one
def test_a_node_that_vanishes_at_any_step_stops_nobody(step: str, victim: str) -> None:
    cluster = mesh(6, 3, rules=secure())
    assert cluster.trigger(PeerId("n00"))
    killed_when(cluster, victim, STEPS[step])
    idle(cluster)
    alive = [node for node in cluster.nodes.values() if not node.is_dead]
    outcomes = {node.id: node.job.history.records[-1] for node in alive}
    assert {record.digest for record in outcomes.values()} == {alive[0].job.held.digest}, outcomes
    for record in outcomes.values():
        assert set(record.contributors) >= {node.id for node in alive}
        assert record.alone == {}


def test_as_many_may_vanish_as_the_threshold_leaves() -> None:
    cluster = mesh(9, 4, rules=secure())
    assert cluster.trigger(PeerId("n00"))
    killed_when(cluster, "n08", STEPS["its update has left"])
    cluster.kill(PeerId("n07"))
    cluster.kill(PeerId("n00"))
    idle(cluster)
    alive = [node for node in cluster.nodes.values() if not node.is_dead]
    assert len(alive) == threshold(9) == 6
    assert len({node.job.held.digest for node in alive}) == 1
    assert all(node.job.history.records[-1].digest for node in alive)


def test_below_the_threshold_nothing_is_opened() -> None:
    cluster = mesh(6, 5, rules=secure())
    assert cluster.trigger(PeerId("n00"))
    killed_when(cluster, "n05", STEPS["its update has left"])
    for name in ("n04", "n03"):
        cluster.kill(PeerId(name))
    idle(cluster)
    assert isinstance(cluster.ledger, SecureLedger)
    assert cluster.ledger.opened == {}
    for name in ("n00", "n01", "n02"):
        job = cluster.nodes[PeerId(name)].job
        assert job.held.current.round == -1
        assert "was not opened" in (job.error or "")
        assert "4 are needed" in (job.error or "")
        assert job.history.records[-1].secure is None
        view = job.view().secure
        assert view is not None and view.round is None


def test_a_node_alone_opens_no_sum_of_its_own_update() -> None:
    cluster = mesh(2, 6, rules=secure())
    cluster.kill(PeerId("n01"))
    cluster.run_for(120)
    play_round(cluster, "n00")
    job = cluster.nodes[PeerId("n00")].job
    assert job.held.current.round == -1
    assert "needs the updates of two nodes" in (job.error or "")


def test_a_node_that_is_restarted_takes_the_average_of_the_others() -> None:
    cluster = mesh(5, 7, rules=secure())
    play_round(cluster, "n00")
    assert cluster.trigger(PeerId("n00"))
    killed_when(cluster, "n03", STEPS["its update has left"])
    cluster.restart(cluster.nodes[PeerId("n03")])
    idle(cluster)
    assert len(digests(cluster)) == 1
    assert "secrets of a secure sum are never kept" in cluster.nodes[PeerId("n03")].job.history.records[
        -1
    ].outcome or (cluster.nodes[PeerId("n03")].job.history.records[-1].taken_from is not None)


def test_no_secret_is_in_what_a_node_keeps() -> None:
    """All bytes that the simulation draws for secrets are known here, and none of them is on the disk."""
    cluster = mesh(4, 8, rules=secure())
    drawn: list[bytes] = []
    node = cluster.nodes[PeerId("n02")]

    def remembered(count: int) -> bytes:
        drawn.append(cluster.rng.randbytes(count))
        return drawn[-1]

    node.secrets = SecureSums(node.id, DEFAULT_MESH, remembered)
    assert cluster.trigger(PeerId("n00"))
    killed_when(cluster, "n02", STEPS["its update has left"])
    kept = repr(node.saved)
    assert len(drawn) >= 3
    for secret in drawn:
        for text in (secret.hex(), base64.b64encode(secret).decode(), repr(secret)):
            assert text not in kept
    assert node.saved.parts[2] is None  # not even the masked update


def test_a_node_reveals_for_one_set_only_and_masks_once() -> None:
    cluster = mesh(5, 9, rules=secure())
    asked: dict[tuple[str, str], list[object]] = {}
    does_step = cluster.does_step

    def watch(node: object, owner: object, effect: SecureStep) -> None:
        if isinstance(effect.request, RevealShares | MaskUpdate):
            place = (node.id, f"{effect.key} {effect.attempt} {type(effect.request).__name__}")  # type: ignore[attr-defined]
            asked.setdefault(place, []).append(effect.request)
        does_step(node, owner, effect)  # type: ignore[arg-type]

    cluster.does_step = watch  # type: ignore[method-assign]
    play_round(cluster, "n00", rounds=3)
    assert len(asked) == 5 * 3 * 2
    assert all(len(requests) == 1 for requests in asked.values())


def test_parts_of_a_round_that_nobody_started_are_bounded() -> None:
    cluster = mesh(3, 10, rules=secure())
    play_round(cluster, "n00")
    node, sender = cluster.nodes[PeerId("n01")], PeerId("n02")
    agreed = node.job.settings.agreement
    for number in range(200):
        part = HeldPart(group=f"{number:064}")
        node.tell(TRAINER, PartReceived(sender, RoundKey(1, sender), number % 3, part, agreed))
    assert len(node.job.inbox.take_parts(RoundKey(1, sender))) == MOST_PARTS
    assert node.job.inbox.take_parts(RoundKey(1, sender)) == []


def test_a_node_without_masks_and_one_with_them_refuse_each_other() -> None:
    cluster = mesh(3, 11, rules=secure())
    plain = cluster.nodes[PeerId("n02")]
    plain.job.settings.rules = Rules()
    assert cluster.trigger(PeerId("n00"))
    idle(cluster)
    assert plain.job.number == -1
    assert cluster.nodes[PeerId("n00")].job.history.records[-1].contributors == ("n00", "n01")


def spoil(cluster: Cluster, name: str) -> None:
    """Let a node send random numbers in place of its update."""
    node = cluster.nodes[PeerId(name)]
    perform = node.secrets.perform

    def spoilt(*asked: Any) -> SecureStepDone | None:
        done = perform(*asked)
        if done is None or not isinstance(done.result, UpdateMasked):
            return done
        array = done.result.params[MASKED]
        nonsense = np.frombuffer(cluster.rng.randbytes(array.nbytes), array.dtype)
        return replace(done, result=UpdateMasked(Params({MASKED: nonsense})))

    node.secrets.perform = spoilt  # type: ignore[method-assign, assignment]


def test_a_sum_that_is_spoilt_is_searched_in_smaller_groups() -> None:
    told: list[tuple[str, str]] = []
    cluster = Cluster(7, 12, rules=secure(), listen=lambda at, node, text: told.append((node, text)))
    cluster.start()
    cluster.run_for(60)
    spoil(cluster, "n03")
    play_round(cluster, "n00")
    records = [list(node.job.history.records) for node in cluster.nodes.values()]
    assert {len(of_node) for of_node in records} == {3}
    first, *groups = zip(*records, strict=True)
    assert {record.digest for record in first} == {None}
    assert all("one of them did not send its update" in record.outcome for record in first)
    for records_of_group in groups:
        chosen = {record.chosen for record in records_of_group}
        assert len(chosen) == 1
        has_liar = "n03" in chosen.pop()
        assert len({record.digest for record in records_of_group}) == 1
        assert (records_of_group[0].digest is None) == has_liar
    found = {text for _, text in told if "one of them sends no update" in text}
    assert len(found) == 1
    assert "n03" in found.pop()
    assert len({node.job.held.digest for node in cluster.nodes.values()}) == 1


def test_a_spoilt_sum_of_few_is_not_searched() -> None:
    cluster = mesh(5, 13, rules=secure())
    spoil(cluster, "n04")
    play_round(cluster, "n00")
    assert {len(node.job.history.records) for node in cluster.nodes.values()} == {1}
    assert {node.job.held.current.round for node in cluster.nodes.values()} == {-1}


def test_a_start_for_a_group_is_followed_only_after_a_failed_sum() -> None:
    search, other = GroupSearch(), GroupSearch()
    names = [PeerId(f"n{number:02}") for number in range(7)]
    assert search.begin(4, names)
    first = search.choice()
    assert first is not None
    assert search.believes(first)
    assert not other.believes(first)
    assert not search.believes(first.model_copy(update={"members": first.members[:5]}))
    assert not search.believes(first.model_copy(update={"failed": 3}))
    groups = [chosen(first.model_copy(update={"group": group}), "X", 5 + group) for group in range(2)]
    assert groups[0] | groups[1] == set(names)
    assert not groups[0] & groups[1]
    search.ended(first)
    assert not search.believes(first)  # it was its turn, and a smaller sum once more would tell something
    second = search.choice()
    assert second is not None
    search.ended(second)
    assert search.choice() is None
