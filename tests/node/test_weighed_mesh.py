"""A mesh in which one node works against all others: what the others find, and what they say of it."""

from __future__ import annotations

import orjson
import pytest

from flnet.algorithms.registry import parse_rule
from flnet.errors import InvalidMessage
from flnet.node.interface import EditHyperParams
from flnet.protocol.messages import Trigger
from tests.node.mesh import MNIST_3_7, mesh_of, until


async def test_who_pulls_away_from_all_others_is_named_by_each_of_them() -> None:
    async with mesh_of(1.0, 1.0, 1.25, -9.0, aggregation="cosine,agg0") as mesh:
        for number in range(3):
            body = orjson.dumps({"trainerId": MNIST_3_7})
            await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
            await mesh.idle(number)
        for node in mesh.nodes.values():
            weighed = node.history(MNIST_3_7)[-1]["weighed"]
            assert weighed["d"]["cosine"] < 0 < weighed["a"]["cosine"]
            assert (weighed["d"]["weight"], weighed["a"]["weight"]) == (0.0, 1 / 3)
            (told,) = [item for item in node.feed.recent() if item.kind == "weight_collapsed"]
            assert told.text.startswith("the updates of d have been left out since round 0: ")
            assert [one.peer for one in node.job(MNIST_3_7).counts_little] == ["d"]


async def test_where_all_pull_alike_nobody_is_named() -> None:
    async with mesh_of(1.0, 1.1, 1.2, aggregation="clip,cosine,agg1") as mesh:
        for number in range(4):
            body = orjson.dumps({"trainerId": MNIST_3_7})
            await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
            await mesh.idle(number)
        for node in mesh.nodes.values():
            assert {item.kind for item in node.feed.recent()} & {"weight_collapsed", "weight_recovered"} == set()
            assert node.job(MNIST_3_7).counts_little == []


async def test_a_rule_that_people_choose_on_all_nodes_merges_the_next_round() -> None:
    async with mesh_of(1.0, 3.0, 50.0) as mesh:
        body = orjson.dumps({"trainerId": MNIST_3_7})
        nodes = list(mesh.nodes.values())
        for node in nodes[:2]:
            view = await node.edit_hyper_params(MNIST_3_7, EditHyperParams(aggregation="clip:1000,median"))
            assert view.merging_rule == "clip:1000,median"
        await nodes[0].receive(Trigger.path, body, "application/json", "127.0.0.1")
        await until(lambda: nodes[0].job(MNIST_3_7).phase == "IDLE" and len(nodes[0].history(MNIST_3_7)) == 1)
        assert nodes[0].history(MNIST_3_7)[0]["contributors"] == [
            "a",
            "b",
        ]  # c merges by the mean, so it is not heard
        await nodes[2].edit_hyper_params(MNIST_3_7, EditHyperParams(aggregation="clip:1000,median", e=3))
        await nodes[0].receive(Trigger.path, body, "application/json", "127.0.0.1")
        await mesh.idle(1)
        for node in nodes:
            record = node.history(MNIST_3_7)[-1]
            assert record["contributors"] == ["a", "b", "c"]
            assert all("weight" not in one for one in record["weighed"].values())  # medians give none
        with pytest.raises(InvalidMessage):
            await nodes[0].edit_hyper_params(MNIST_3_7, EditHyperParams(aggregation="scaffold"))


@pytest.mark.parametrize(
    "rule",
    [
        *("agg0", "median", "trimmed-mean", "winsorised-mean", "geometric-median", "krum", "multi-krum:2:3"),
        *("bulyan", "k-means", "consistency:bounded"),
        *(
            "consistency:raw",
            "consistency",
            "fedavgm",
            "fedadam:0.1",
            "fedyogi",
            "clip,cosine,agg2",
            "clip:2.5,krum:2",
        ),
    ],
)
def test_the_name_of_a_rule_names_that_rule(rule: str) -> None:
    name = parse_rule(rule).name
    assert parse_rule(name).name == name
