"""Whole nodes of a mesh with a key that average in segments: what they sign, and what a node that lies has signed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from flnet.cli.history import SIGNED, WRONG, disputed_lines, reasons, verdict_of
from flnet.errors import ContributionRefused
from flnet.node.inbound import check_statements
from flnet.protocol.effects import Send
from flnet.protocol.messages import HyperParams, JobMessage, ModelParams, Peer
from flnet.protocol.segments import SegmentResult, SegmentsMessage, SumPart
from flnet.protocol.updates import Contribution
from flnet.rounds.segment_disputes import TWO_UPDATES
from flnet.rounds.segmented_round import SegmentedRound
from flnet.simulation.schedule import RULES_IN_SEGMENTS
from flnet.trainer import Fit, Task
from tests.node.mesh import MNIST_3_7, Linear, Mesh, has_said_all, mesh_of, until

KEYED: dict[str, Any] = {"mesh_key": "k" * 20, "topology": "segments:3"}
DIGEST = "f" * 64


def trainers() -> list[Linear]:
    return [Linear(float(i), examples=10 * (i + 1), numbers=9) for i in range(4)]


def lies(mesh: Mesh, name: str, lie: Any) -> None:
    """Let a node say something else, which it signs then; `lie(message)` is said to node "a" alone if it is no result."""
    outbox = mesh.nodes[name]._performer._outbox
    send = outbox.send

    async def sends(owner: Any, effect: Send) -> None:
        changed = lie(effect.message)
        if changed is None:
            await send(owner, effect)
        elif isinstance(changed, ModelParams):
            await send(owner, replace(effect, to=tuple(peer for peer in effect.to if peer != "a")))
            await send(
                owner,
                replace(effect, to=tuple(peer for peer in effect.to if peer == "a"), message=changed, params=None),
            )
        else:
            await send(owner, replace(effect, message=changed))

    outbox.send = sends  # type: ignore[method-assign]


def wrong_sum(message: Any) -> JobMessage | None:
    if not isinstance(message, SegmentsMessage) or not isinstance(message.part, SumPart):
        return None
    results = tuple(result.model_copy(update={"digest": DIGEST}) for result in message.part.results)
    return message.model_copy(update={"part": message.part.model_copy(update={"results": results})})


def other_offer(message: Any) -> JobMessage | None:
    if not isinstance(message, ModelParams) or not message.segments:
        return None
    return message.model_copy(update={"segments": (DIGEST, *message.segments[1:])})


class Uneven(Linear):
    """Moves each weight by another amount, so that the last bits depend on how averages are computed."""

    trainings = 0

    def fit(self, task: Task) -> Fit:
        self.trainings += 1
        rng = np.random.default_rng([int(self.target), self.trainings])
        moved = {
            name: (array + rng.normal(size=array.shape)).astype(np.float32) for name, array in task.params.items()
        }
        return Fit(moved, self.examples, labels=1 + int(self.target) % 3)


async def averages(topology: str, **settings: Any) -> list[str]:
    """Of two rounds of five nodes: the digest of the average that all of them make of all updates."""
    made = [Uneven(float(i), examples=7 * i + 3, numbers=600) for i in range(5)]
    digests = list[str]()
    async with mesh_of(*made, topology=topology, **settings) as mesh:
        for number in range(2):
            await mesh.train()
            records = [node.history(MNIST_3_7)[-1] for node in mesh.nodes.values()]
            assert {(record["round"], len(record["contributors"])) for record in records} == {(number, 5)}
            assert all(record.get("taken_from") is None for record in records)
            (digest,) = {record["digest"] for record in records}
            digests.append(digest)
    return digests


EVERY_FORM = [("agg1", form) for form in ("json", "float16", "int8")]


@pytest.mark.parametrize(("rule", "wire"), [*((rule, "safetensors") for rule in RULES_IN_SEGMENTS), *EVERY_FORM])
async def test_every_rule_makes_of_updates_in_segments_what_it_makes_in_a_mesh_to_the_last_bit(
    rule: str, wire: str
) -> None:
    expected = await averages("mesh", aggregation=rule, wire=wire)
    assert len(set(expected)) == 2
    for topology in ("segments", "segments:2", "segments:3"):
        assert await averages(topology, aggregation=rule, wire=wire) == expected


async def test_honest_nodes_sign_the_segments_that_they_offer_and_dispute_nothing() -> None:
    async with mesh_of(*trainers(), **KEYED) as mesh:
        await mesh.train()
        assert len(mesh.digests()) == 1
        for name, node in mesh.nodes.items():
            (record,) = await node.records(MNIST_3_7, 1)
            assert "disputed" not in record and len(record["contributors"]) == 4
            read = [Contribution.read(view, MNIST_3_7, 0, "a") for view in record["contributions"]]
            assert [verdict_of(stated) for stated in read] == [SIGNED] * 4
            assert all(stated.segments for stated in read if stated.peer != name)
            assert verdict_of(replace(next(s for s in read if s.segments), segments=DIGEST)) == WRONG


async def test_segments_of_the_average_come_with_their_result_and_cost_no_request() -> None:
    async with mesh_of(*trainers(), topology="segments") as mesh:
        await mesh.train()
        await mesh.train()
        assert len(mesh.digests()) == 1
        for name, node in mesh.nodes.items():
            await until(partial(has_said_all, node))
            record = node.history(MNIST_3_7)[-1]
            # Offer, vote, result and accuracy to each of three; a segment of each other update is downloaded, together with
            # the one that its sender owns alone; who starts the round tells three.
            assert record["messages"] == 4 * 3 + 3 + (3 if name == "a" else 0)
            assert record["bytes"]["sent"] > 0


@pytest.mark.parametrize("topology", ["segments", "segments:3"])
async def test_who_says_that_its_link_is_slow_owns_less_from_the_second_round_on(topology: str) -> None:
    mesh = Mesh()
    try:
        for i, trainer in enumerate(trainers()):
            slow: dict[str, Any] = {"owned_segments": 1} if i == 2 else {}
            await mesh.add("abcd"[i], trainer, ("a",) if i else (), topology=topology, **slow)
        await mesh.full()
        for owned in (None, {"a": 4, "b": 4, "d": 4}):
            await mesh.train("b")
            assert len(mesh.digests()) == 1
            for node in mesh.nodes.values():
                round = node.core.jobs[MNIST_3_7].round
                assert isinstance(round, SegmentedRound) and round.choice is not None
                assert round.choice.owned == owned
                assert len((await node.records(MNIST_3_7, 2))[-1]["contributors"]) == 4
    finally:
        await mesh.stop()


async def test_the_segments_that_an_owner_of_several_needs_come_in_one_request() -> None:
    async with mesh_of(*trainers(), topology="segments:3") as mesh:
        await mesh.train()
        await mesh.train()
        assert len(mesh.digests()) == 1
        for name, node in mesh.nodes.items():
            await until(partial(has_said_all, node))
            # As with one owner, and perhaps a segment of the average that it does not own.
            requests = node.history(MNIST_3_7)[-1]["messages"] - (3 if name == "a" else 0)
            assert 4 * 3 + 3 <= requests <= 4 * 3 + 3 + 1


async def test_a_wrong_result_is_outvoted_and_its_maker_named_with_what_it_signed() -> None:
    async with mesh_of(*trainers(), **KEYED) as mesh:
        lies(mesh, "d", wrong_sum)
        await mesh.train()
        assert len({mesh.nodes[name].job(MNIST_3_7).digest for name in "abc"}) == 1
        for name in "abc":
            (record,) = await mesh.nodes[name].records(MNIST_3_7, 1)
            assert set(record["disputed"]) == {"d"} and set(record["contributors"]) == set("abcd")
            (line,) = disputed_lines(record, MNIST_3_7)
            assert line.startswith("round 0: d: it stated other results of segments ")
            assert SIGNED in line and WRONG not in line and line.partition(" (")[0] in reasons(record)
            told = [news for news in mesh.nodes[name].feed.recent() if news.kind == "peer_disputed"]
            assert [(news.data["peer"], news.data["proven"]) for news in told] == [("d", True)]
            statement = record["disputed"]["d"]["statements"][0] | {"contributors": "0" * 64}
            forged = {**record, "disputed": {"d": {"reason": "", "statements": [statement]}}}
            assert WRONG in disputed_lines(forged, MNIST_3_7)[0]


@pytest.mark.parametrize("topology", ["segments:3", "segments"])
async def test_who_states_no_results_holds_up_nobody_and_is_named(topology: str) -> None:
    async with mesh_of(*trainers(), topology=topology, wait_time_in_seconds_to_force_fedavg=8) as mesh:
        outbox = mesh.nodes["d"]._performer._outbox
        send = outbox.send

        async def sends(owner: Any, effect: Send) -> None:
            if not (isinstance(effect.message, SegmentsMessage) and isinstance(effect.message.part, SumPart)):
                await send(owner, effect)

        outbox.send = sends  # type: ignore[method-assign]
        await mesh.train()
        assert len(mesh.digests()) == 1
        for name in "abc":
            (record,) = await mesh.nodes[name].records(MNIST_3_7, 1)
            assert record["outcome"].endswith("; no results of the segments of d came")
            assert set(record["contributors"]) == set("abcd") and "disputed" not in record
        (record,) = await mesh.nodes["d"].records(MNIST_3_7, 1)
        assert "no results" not in record["outcome"]


@pytest.mark.parametrize("topology", ["segments", "segments:2", "segments:3"])
async def test_who_signs_two_updates_is_left_out_and_both_are_kept(topology: str) -> None:
    # The vote waits for half of this where members may lie.
    settings = {**KEYED, "topology": topology, "wait_time_in_seconds_to_force_fedavg": 8}
    async with mesh_of(*trainers(), **settings) as mesh:
        lies(mesh, "d", other_offer)
        await mesh.train()
        assert len({mesh.nodes[name].job(MNIST_3_7).digest for name in "abc"}) == 1
        for name in "abc":
            (record,) = await mesh.nodes[name].records(MNIST_3_7, 1)
            assert set(record["contributors"]) == set("abc") and record["left_out"] == {"d": TWO_UPDATES}
            stated = record["disputed"]["d"]["statements"]
            read = [Contribution.read(view, MNIST_3_7, 0, "a") for view in stated]
            assert [verdict_of(each) for each in read] == [SIGNED, SIGNED]
            assert read[0].segments != read[1].segments and read[0].peer == read[1].peer == "d"
            assert disputed_lines(record, MNIST_3_7) == [
                f"round 0: d: {TWO_UPDATES} (what it stated is: {SIGNED}, {SIGNED})"
            ]


def result(**fields: Any) -> SegmentsMessage:
    part = SumPart(contributors=DIGEST, results=(SegmentResult(segment=0, digest=DIGEST),), **fields)
    me = Peer(id="b", ip="127.0.0.1", port=4001)
    hyper = HyperParams(e=1, u=0.1, b=8)
    about: dict[str, Any] = {
        "trainer_id": MNIST_3_7,
        "round": 0,
        "initiator": "a",
        "federated_learning_params": hyper,
    }
    return SegmentsMessage(i_am=me, part=part, **about)


async def test_results_that_are_not_signed_by_their_maker_are_refused_and_nothing_is_passed_on_in_an_open_mesh() -> (
    None
):
    async with mesh_of(*trainers()[:2], **KEYED) as mesh:
        claims = mesh.nodes["a"].checks.claims
        signed = mesh.nodes["b"].checks.claims.signed(result())  # type: ignore[union-attr]
        check_statements(claims, signed)
        stolen = signed.model_copy(
            update={"part": signed.part.model_copy(update={"results": (SegmentResult(segment=1, digest=DIGEST),)})}
        )
        for wrong in (result(), stolen, signed.model_copy(update={"round": 1}), result(maker="a")):
            with pytest.raises(ContributionRefused, match=r"what [ab] states about segments is not signed by it"):
                check_statements(claims, wrong)
    check_statements(None, result())
    with pytest.raises(ContributionRefused, match="nothing is signed in this mesh"):
        check_statements(None, result(maker="c"))
