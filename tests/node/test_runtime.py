"""Whole nodes over the in-memory twins: a round from trigger to exchange, and what must not stop it."""

from __future__ import annotations

import asyncio
import json

import pytest

from flnet.errors import (
    InvalidMessage,
    JobBusy,
    LocalError,
    ParamsRefused,
    StaleRound,
    UnknownPath,
    UnknownTrainer,
    UnreadableBody,
)
from flnet.node.core import NodeCore
from flnet.node.interface import EditHyperParams
from flnet.node.runtime import NodeRuntime, readiness
from flnet.params.params import TrainerId
from flnet.protocol.events import Prepared, PrepareFailed
from flnet.protocol.messages import HyperParams, Peer
from tests.helpers import params
from tests.node.mesh import MNIST_3_7, Linear, mesh_of, trigger, until
from tests.rounds.helpers import declaration

JSON = "application/json"
IAM = {"id": "NODE_1", "ip": None, "port": "4000"}
HYPER = {"e": 2, "u": 1e-05, "b": 64}


async def send_json(node: NodeRuntime, path: str, body: object) -> tuple[int, dict[str, object]]:
    reply = await node.receive(path, json.dumps(body).encode(), JSON, "127.0.0.1")
    return reply.status, json.loads(reply.body)


async def test_a_round_ends_with_one_model_everywhere() -> None:
    async with mesh_of(0.0, 1.0, 2.0) as mesh:
        assert await trigger(mesh.nodes["b"]) == (202, {"trainerId": "MNIST_3_7", "round": 0})
        await mesh.idle(0)
        views = [node.job(MNIST_3_7) for node in mesh.nodes.values()]
        assert len({view.digest for view in views}) == 1
        assert [view.contributors for view in views] == [3, 3, 3]
        assert [view.fed_learn_done for view in views] == ["Yes"] * 3
        # all start from 0 and go half way to 0, 1 and 2; weights 10, 20, 30: (20 * .5 + 30 * 1) / 60
        model = mesh.nodes["a"].core.jobs[MNIST_3_7].held.model
        assert model is not None
        assert model.shared["bias"][0] == pytest.approx((20 * 0.5 + 30 * 1.0) / 60, abs=1e-6)


async def test_a_series_of_rounds_runs_by_itself() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await mesh.train(rounds=4)
        for node in mesh.nodes.values():
            history = node.history(MNIST_3_7)
            assert [record["round"] for record in history] == [0, 1, 2, 3]
            assert all(record["contributors"] == ["a", "b"] for record in history)
            assert all("all expected updates arrived" in record["outcome"] for record in history)


async def test_the_history_says_how_long_each_part_of_a_round_took() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await mesh.train(rounds=2)
        for record in mesh.nodes["a"].history(MNIST_3_7):
            assert record["seconds"].keys() >= {"train", "average", "measure", "exchange"}
            assert all(seconds >= 0 for seconds in record["seconds"].values())
        alone = mesh.nodes["b"]
        await alone.steer(MNIST_3_7, "pause")
        await mesh.train()
        assert alone.history(MNIST_3_7)[2]["seconds"].keys() >= {"wait", "average", "measure", "exchange"}
        assert "train" not in alone.history(MNIST_3_7)[2]["seconds"]


async def test_the_history_says_how_many_bytes_a_round_moved() -> None:
    async with mesh_of(0.0, 1.0, 2.0) as mesh:
        await mesh.train()
        moved = [node.history(MNIST_3_7)[0]["bytes"] for node in mesh.nodes.values()]
        assert sum(each["sent"] for each in moved) == sum(each["received"] for each in moved)
        # Two updates of three numbers of 4 bytes, at least.
        assert all(each["received"] > 2 * 3 * 4 for each in moved)
        node = mesh.nodes["a"]
        node.gave(str(node.job(MNIST_3_7).digest), 1000)
        node.gave("0" * 64, 5000)
        assert node.history(MNIST_3_7)[0]["bytes"]["sent"] == moved[0]["sent"] + 1000


async def test_what_is_refused_is_not_counted() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        node = mesh.nodes["a"]
        await mesh.train(node.me.id)
        before = node.history(MNIST_3_7)[0]["bytes"]
        right = {"weights": [[0.0], [0.0]], "bias": [0.0]}
        late = {
            "iAm": {**IAM, "id": "late"},
            "trainerId": "MNIST_3_7",
            "round": 0,
            "initiator": "a",
            "modelParams": right,
        }
        await send_json(node, "/announce", {"iAm": late["iAm"], "myKnownPeers": []})
        with pytest.raises(StaleRound):
            await send_json(node, "/training/model_params", {**late, "federatedLearningParams": HYPER})
        assert node.history(MNIST_3_7)[0]["bytes"] == before


async def test_a_peer_whose_training_fails_ends_nothing() -> None:
    broken = Linear(1.0)
    broken.fails = True
    async with mesh_of(Linear(1.0), broken) as mesh:
        await mesh.train()
        for node in mesh.nodes.values():
            assert node.history(MNIST_3_7)[0]["contributors"] == ["a"]
        assert "asked to fail" in str(mesh.nodes["b"].job(MNIST_3_7).error)
        broken.fails = False
        await mesh.train("b")
        assert mesh.nodes["a"].history(MNIST_3_7)[1]["contributors"] == ["a", "b"]
        assert mesh.nodes["b"].job(MNIST_3_7).error is None


@pytest.mark.usefixtures("hurried")
async def test_a_dead_peer_is_not_waited_for() -> None:
    async with mesh_of(1.0, 1.0, 1.0) as mesh:
        gone = mesh.nodes.pop("c")
        mesh.network.unregister(gone.me.address)
        await gone.stop()
        await mesh.train()
        record = mesh.nodes["a"].history(MNIST_3_7)[0]
        assert record["contributors"] == ["a", "b"]
        assert "all expected updates arrived" in record["outcome"]
        await until(lambda: [peer["state"] for peer in mesh.nodes["a"].peers()] == ["alive", "dead"])


@pytest.mark.usefixtures("hurried")
async def test_a_node_that_comes_back_takes_part_again() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        a, b = mesh.nodes["a"].me.address, mesh.nodes["b"].me.address
        mesh.network.part({a}, {b})
        await trigger(mesh.nodes["a"])
        await until(lambda: mesh.nodes["a"].job(MNIST_3_7).phase == "IDLE")
        assert "averaged alone" in mesh.nodes["a"].history(MNIST_3_7)[0]["outcome"]
        mesh.network.heal_all()
        await until(lambda: mesh.nodes["a"].peers()[0]["state"] == "alive")
        await mesh.train()
        assert mesh.nodes["a"].history(MNIST_3_7)[1]["contributors"] == ["a", "b"]


async def test_messages_that_cannot_be_used_are_refused_in_words_and_change_nothing() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes["a"]
        update = {"iAm": IAM, "trainerId": "MNIST_3_7", "round": 0, "federatedLearningParams": HYPER}
        right = {"weights": [[0.0], [0.0]], "bias": [0.0]}
        before = node.job(MNIST_3_7)
        for wrong, error, words in [
            ({**update, "modelParams": {"weights": [[0.0], [0.0]]}}, ParamsRefused, "missing 'bias'"),
            ({**update, "modelParams": {**right, "extra": [1.0]}}, ParamsRefused, "not known here 'extra'"),
            ({**update, "modelParams": {**right, "bias": [0.0, 0.0]}}, ParamsRefused, "shape [2]; expected [1]"),
            ({**update, "modelParams": {**right, "bias": ["x"]}}, ParamsRefused, "bias"),
            (update, ParamsRefused, "modelParams is missing"),
            ({**update, "modelParams": right, "trainerId": "CIFAR10"}, UnknownTrainer, "'CIFAR10'"),
            ({**update, "modelParams": right, "round": -1}, InvalidMessage, "round"),
            ({**update, "modelParams": right, "iAm": {"id": "x"}}, InvalidMessage, "port"),
        ]:
            with pytest.raises(error) as caught:
                await send_json(node, "/training/model_params", wrong)
            assert words in str(caught.value)
            shown = node.feed.recent()[-1]
            assert shown.kind == "refused_here"
            assert words in shown.text
        for body in (b'{"iAm": ', b"", b"\x00" * 1000, b"[" * 100_000, b'{"a": NaN}'):
            with pytest.raises((UnreadableBody, InvalidMessage)):
                await node.receive("/training/model_params", body, JSON, "127.0.0.1")
        with pytest.raises(UnknownPath):
            await node.receive("/nowhere", b"{}", JSON, "127.0.0.1")
        assert node.job(MNIST_3_7) == before


async def test_an_update_that_is_not_finite_is_refused() -> None:
    async with mesh_of(1.0) as mesh:
        body = (
            b'{"iAm": {"id": "b", "ip": null, "port": 4001}, "trainerId": "MNIST_3_7", "round": 0,'
            b' "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1},'
            b' "modelParams": {"weights": [[1e300], [0]], "bias": [0]}}'
        )
        with pytest.raises(ParamsRefused, match="not finite"):
            await mesh.nodes["a"].receive("/training/model_params", body, JSON, "127.0.0.1")


async def test_a_trigger_while_training_is_refused_with_the_reason() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes["a"]
        first, second = await asyncio.gather(trigger(node), trigger(node), return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, JobBusy)
        assert "round 0" in str(second)


async def test_hyper_parameters_are_edited_and_used() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        view = await mesh.nodes["a"].edit_hyper_params(MNIST_3_7, EditHyperParams(e=5))
        assert view.hyper == HyperParams(e=5, u=1e-05, b=64)
        await mesh.train()
        assert mesh.nodes["b"].job(MNIST_3_7).federated_learning_params == (
            "Learning Rate: 1e-05, Epochs: 5, Batch size: 64"
        )


async def test_a_paused_node_is_not_waited_for_and_takes_part_again_when_resumed() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        assert (await mesh.nodes["b"].steer(MNIST_3_7, "pause")).paused is True
        with pytest.raises(JobBusy, match="paused by a person here"):
            await trigger(mesh.nodes["b"])
        await mesh.train()
        assert [node.history(MNIST_3_7)[0]["contributors"] for node in mesh.nodes.values()] == [["a"], ["a"]]
        assert (await mesh.nodes["b"].steer(MNIST_3_7, "resume")).paused is False
        await trigger(mesh.nodes["b"], rounds=1_000_000)
        assert (await mesh.nodes["b"].steer(MNIST_3_7, "stop")).rounds_left == 0
        await mesh.idle(1)
        assert [node.history(MNIST_3_7)[1]["contributors"] for node in mesh.nodes.values()] == [["a", "b"]] * 2
        with pytest.raises(UnknownTrainer):
            await mesh.nodes["a"].steer(TrainerId("NONE"), "stop")


async def test_peers_are_not_told_of_single_classes_of_the_own_data_nor_what_is_thought_of_them() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes["a"]
        own_people_only = {"counts", "checksum", "inputs", "note", "parts", "counts_little", "finds", "differs"}
        assert node.job(MNIST_3_7).as_json().keys() >= own_people_only
        (told,) = node.info()["jobsInfo"]
        assert not told.keys() & own_people_only
        assert told.keys() == node.job(MNIST_3_7).as_json().keys() - own_people_only


async def test_the_body_limit_follows_the_model() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes["a"]
        assert node.body_limit("/training/trigger") == 64 * 1024
        assert node.body_limit("/training/model_params") == 64 * 1024 + 3 * 32 + 2 * 256


async def test_the_feed_says_how_the_round_ended() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await mesh.train()
        items = mesh.nodes["a"].feed.recent()
        assert [item.id for item in items] == list(range(1, len(items) + 1))
        closed = [item for item in items if item.kind == "round_closed"]
        assert len(closed) == 1
        assert "averaged 2 updates" in closed[0].text


async def test_a_stopped_node_answers_with_an_error_and_does_not_hang() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes.pop("a")
        await node.stop()
        with pytest.raises(LocalError):
            await trigger(node)


# A node says of itself whether it can take part, and what is missing.


ONE, TWO = TrainerId("ONE"), TrainerId("TWO")


def core() -> NodeCore:
    return NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [ONE, TWO])


def test_what_loads_and_who_does_not_answer_is_named() -> None:
    view = readiness(core(), ["10.0.0.9:4000"])
    assert (view["ready"], view["mesh_joined"], view["data_loaded"]) == (False, False, False)
    assert view["reasons"] == [
        "no bootstrap peer has answered yet: 10.0.0.9:4000",
        "ONE is still loading",
        "TWO is still loading",
    ]


def test_a_node_that_waits_to_be_accepted_says_where() -> None:
    node = core()
    node.members.state.waits_at |= {"10.0.0.9:4000", "10.0.0.10:4000"}
    where = "a person has to accept the fingerprint of this node at 10.0.0.10:4000, 10.0.0.9:4000"
    assert readiness(node, ["10.0.0.9:4000"])["reasons"][0] == where
    node.members.state.joined = True
    assert where not in readiness(node, ["10.0.0.9:4000"])["reasons"]


def test_one_trainer_with_data_is_enough() -> None:
    node = core()
    node.hear(ONE, PrepareFailed("no rows"))
    assert readiness(node, [])["reasons"] == ["TWO is still loading", "ONE: no rows"]
    node.hear(TWO, Prepared(declaration(), params(w=[0, 0])))
    view = readiness(node, [])
    assert (view["ready"], view["reasons"]) == (True, [])
    node.members.state.joined = False
    assert readiness(node, ["10.0.0.9:4000"])["ready"] is False
