"""GET /mesh: the whole mesh in one answer, and nothing in it that a peer could make strange."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError, StillThere, UnknownPeer
from flnet.node.interface import MAX_JOBS
from flnet.web.api.mesh import Mesh, MeshJob, mesh_of
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode, infos_of

JOB = {
    "trainer_id": "MNIST",
    "current_round": 3,
    "phase": "GATHERING",
    "paused": True,
    "figures_round": 2,
    "pre_fedavg_accuracy": 0.5,
    "post_fedavg_accuracy": 0.75,
    "digest": "0" * 64,
    "waiting_for": ["NODE_3"],
}
NOTHING_KNOWN: dict[str, Any] = {
    **{"current_round": -1, "phase": None, "paused": False, "figures_round": None},
    **{"pre_fedavg_accuracy": None, "post_fedavg_accuracy": None, "digest": None, "waiting_for": []},
}


def around(node: FakeNode, info: Any, error: str | None = None, rtt_ms: float | None = 1.5) -> None:
    """A peer that says this of itself."""
    node.add_peer("NODE_2", "127.0.0.1:4001", "alive" if error is None else "dead")
    node.known = [{**node.known[0], "rtt_ms": rtt_ms}]
    node.around = [{"id": "NODE_2", "address": "127.0.0.1:4001", "info": info, "error": error}]


async def mesh(client: Client) -> list[dict[str, Any]]:
    answer = await client.get("/mesh")
    assert answer.status_code == 200
    nodes: list[dict[str, Any]] = (await answer.get_json())["nodes"]
    return nodes


async def test_this_node_comes_first_then_its_peers(client: Client, node: FakeNode) -> None:
    around(node, {"version": "1.2.3", "jobsInfo": [JOB]})
    me, other = await mesh(client)
    assert (me["id"], me["me"], me["state"], me["version"], me["rtt_ms"]) == ("NODE_1", True, "alive", "0", None)
    assert me["address"] == "127.0.0.1:4000"
    assert [job["trainer_id"] for job in me["jobs"]] == ["MNIST", "MNIST_3_7"]
    assert (me["jobs"][0]["phase"], me["jobs"][0]["current_round"]) == ("IDLE", -1)
    assert other == {
        **{"id": "NODE_2", "address": "127.0.0.1:4001", "state": "alive", "reason": "", "me": False},
        **{
            "version": "1.2.3",
            "machine": "",
            "fingerprint": "",
            "key": "",
            "disputed": False,
            "rtt_ms": 1.5,
            "jobs": [JOB],
            "signs_with_other_key": None,
        },
    }


async def test_fingerprints_tell_nodes_apart(client: Client, node: FakeNode) -> None:
    around(node, {"version": "1.2.3", "jobsInfo": [], "fingerprint": "WHAT-IT-SAYS"})
    node.known = [{**node.known[0], "fingerprint": "AAAAA-BBBBB"}]
    # What is known of a peer counts, not what it says.
    assert [one["fingerprint"] for one in await mesh(client)] == ["", "AAAAA-BBBBB"]


async def test_a_person_forgets_a_peer_whatever_its_name(client: Client, node: FakeNode) -> None:
    answer = await client.delete("/peers/ward%2F7%20b")
    assert (answer.status_code, await answer.get_json(), node.forgotten) == (200, [], ["ward/7 b"])


@pytest.mark.parametrize("refusal", [UnknownPeer("x"), StillThere("x")])
async def test_why_a_peer_is_not_forgotten(client: Client, node: FakeNode, refusal: PeerError) -> None:
    node.failure = refusal
    answer = await client.delete("/peers/x")
    assert (answer.status_code, (await answer.get_json())["error"]) == (refusal.status, refusal.code)


async def test_a_peer_that_does_not_answer_is_there_with_the_reason(client: Client, node: FakeNode) -> None:
    around(node, None, "no\nanswer " + "x" * 1000, None)
    other = (await mesh(client))[1]
    assert (other["state"], other["version"], other["rtt_ms"], other["jobs"]) == ("dead", None, None, [])
    assert other["reason"].startswith("no answer xxx")
    assert len(other["reason"]) == 500


@pytest.mark.parametrize("state", ["suspect", "dead", "left", "pending", "dancing"])
async def test_a_state_is_told_as_the_node_names_it(client: Client, node: FakeNode, state: str) -> None:
    around(node, None, "says why")
    node.known = [{**node.known[0], "state": state}]
    assert [(one["state"], one["reason"]) for one in await mesh(client)] == [("alive", ""), (state, "says why")]


async def test_a_peer_that_was_forgotten_meanwhile_is_left_out(client: Client, node: FakeNode) -> None:
    around(node, {"jobsInfo": [JOB]})
    node.known = []
    assert [one["id"] for one in await mesh(client)] == ["NODE_1"]


async def test_what_breaks_its_rule_is_left_out(client: Client, node: FakeNode) -> None:
    strange = {
        **{"trainer_id": "OWN", "current_round": True, "phase": "DANCING", "paused": "yes"},
        **{"pre_fedavg_accuracy": 1.5, "post_fedavg_accuracy": "0.5", "digest": "<b>", "waiting_for": "NODE_3"},
    }
    jobs = [strange, {**JOB, "trainer_id": "x" * 65}, {"trainer_id": ["MNIST"]}, None, 7, {"trainer_id": "BARE"}]
    around(node, {"version": "<script>", "jobsInfo": jobs})
    other = (await mesh(client))[1]
    assert other["version"] is None
    assert other["jobs"] == [{"trainer_id": name, **NOTHING_KNOWN} for name in ("OWN", "BARE")]


async def test_of_what_a_peer_lists_only_so_much_gets_out(client: Client, node: FakeNode) -> None:
    job = {**JOB, "waiting_for": ["a" * 65, "b", "", *(f"n{i}" for i in range(1000))]}
    around(node, {"jobsInfo": [job] * 5000})
    jobs = (await mesh(client))[1]["jobs"]
    assert (len(jobs), len(jobs[0]["waiting_for"]), jobs[0]["waiting_for"][:2]) == (MAX_JOBS, 254, ["b", "n0"])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("aIDLE0 <\n", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*JOB, "other"]), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["jobsInfo", "version", "iAm"]), ANYTHING | st.lists(ANYTHING)))
def test_whatever_a_peer_says_the_answer_keeps_its_form(info: dict[str, Any]) -> None:
    node = FakeNode()
    around(node, info)
    told = mesh_of(node, infos_of(node.around), "::1").model_dump(mode="json")
    assert Mesh.model_validate_json(orjson.dumps(told)).model_dump(mode="json") == told
    assert told["nodes"][0]["address"] == "[::1]:4000"
    assert all(set(job) == set(MeshJob.model_fields) for job in told["nodes"][1]["jobs"])
