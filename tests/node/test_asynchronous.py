"""Whole nodes without common rounds: versions, what a caller of the thesis' form gets, and signed meshes."""

from __future__ import annotations

import pytest

from flnet.errors import JobBusy, NotComparable, OtherRounds
from flnet.protocol.messages import AskVersion
from flnet.store.memory import MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, trigger, until


def versions(mesh: Mesh, name: str) -> dict[str, tuple[int, int | None]]:
    """By peer, the version that a node knows of, and the one that it has merged."""
    rows = mesh.nodes[name].job(MNIST_3_7).as_json()["versions"]["peers"]
    return {row["peer"]: (row["version"], row["merged"]) for row in rows}


async def test_nodes_merge_each_others_versions_and_show_them() -> None:
    async with mesh_of(0.0, 1.0, 2.0, rounds="asynchronous") as mesh:
        await trigger(mesh.nodes["a"])
        await until(lambda: mesh.nodes["a"].job(MNIST_3_7).as_json()["versions"]["own"] == 1)
        await until(lambda: versions(mesh, "c").get("a") == (1, None))
        await trigger(mesh.nodes["c"], rounds=2)
        await until(lambda: mesh.nodes["c"].job(MNIST_3_7).as_json()["versions"]["own"] == 2)
        assert versions(mesh, "c")["a"] == (1, 1)
        records = mesh.nodes["c"].history(MNIST_3_7)
        assert [record["outcome"] for record in records] == [
            "merged a v1, trained, now v1",
            "merged nothing, for nobody had a newer model, trained, now v2",
        ]
        assert records[0]["contributors"] == ["a", "c"] and records[0]["bytes"]["received"] > 0
        row = next(
            row for row in mesh.nodes["c"].job(MNIST_3_7).as_json()["versions"]["peers"] if row["peer"] == "a"
        )
        assert row["into"] == 1 and row["at"] > 1e9
        wanted = "merged a v1, trained, now v1; accuracy here "
        await until(lambda: any(item.text.startswith(wanted) for item in mesh.nodes["c"].feed.recent()))
        assert mesh.nodes["b"].job(MNIST_3_7).as_json()["versions"]["own"] == 0


async def test_versions_outlive_a_restart_of_the_node() -> None:
    async with mesh_of(0.0, 1.0, rounds="asynchronous") as mesh:
        store = MemoryStore()
        await mesh.add("e", Linear(2.0), ("a",), store=store, rounds="asynchronous")
        await mesh.full()
        await trigger(mesh.nodes["a"])
        await until(lambda: mesh.nodes["a"].job(MNIST_3_7).as_json()["versions"]["own"] == 1)
        await trigger(mesh.nodes["e"])
        await until(lambda: mesh.nodes["e"].job(MNIST_3_7).as_json()["versions"]["own"] == 1)
        await mesh.nodes["e"].stop()
        await mesh.add("e", Linear(2.0), ("a",), store=store, rounds="asynchronous")
        await until(lambda: mesh.nodes["e"].job(MNIST_3_7).as_json()["phase"] == "IDLE")
        assert versions(mesh, "e")["a"] == (1, 1)
        assert mesh.nodes["e"].job(MNIST_3_7).as_json()["versions"]["own"] == 1


async def test_people_read_that_a_node_has_other_rounds_and_nothing_is_mixed() -> None:
    async with mesh_of(0.0, 1.0, rounds="asynchronous") as mesh:
        await mesh.add("e", Linear(1.0), ("a",))
        await mesh.full()
        await trigger(mesh.nodes["e"])
        await until(
            lambda: any(
                "of each node by itself (asynchronous) at a" in one.text for one in mesh.nodes["e"].feed.recent()
            )
        )
        await trigger(mesh.nodes["a"])
        await until(lambda: any("common to all nodes at e" in one.text for one in mesh.nodes["a"].feed.recent()))
        await until(lambda: mesh.nodes["a"].job(MNIST_3_7).as_json()["versions"]["own"] == 1)
        assert mesh.nodes["a"].history(MNIST_3_7)[-1]["contributors"] == ["a"]


THESIS = (
    b'{"iAm": {"id": "b", "ip": "127.0.0.1", "port": "4001"}, "trainerId": "MNIST_3_7",'
    b' "modelParams": {"weights": [[0], [0]], "bias": [0]}, "round": 0,'
    b' "federatedLearningParams": {"e": 2, "u": 1e-05, "b": 64}%s}'
)


@pytest.mark.parametrize(
    ("path", "more", "error"),
    [
        ("/training", b"", OtherRounds),
        ("/training/model_params", b"", OtherRounds),
        ("/training/model_params/accuracy", b', "accuracy": 0.5', NotComparable),
    ],
)
async def test_a_caller_of_the_thesis_form_is_told_that_there_are_no_rounds(
    path: str, more: bytes, error: type[Exception]
) -> None:
    async with mesh_of(0.0, 1.0, rounds="asynchronous") as mesh:
        node = mesh.nodes["a"]
        with pytest.raises(error, match="no common rounds"):
            await node.receive(path, THESIS % more, "application/json", "127.0.0.1")
        assert (
            node.job(MNIST_3_7).as_json()["phase"] == "IDLE" and node.info()["jobsInfo"][0]["current_round"] == -1
        )


async def test_a_version_cannot_be_asked_of_common_rounds() -> None:
    async with mesh_of(0.0, 1.0) as mesh:
        body = THESIS.replace(b'"modelParams": {"weights": [[0], [0]], "bias": [0]}, ', b"") % (
            b', "run": "x", "digest": "' + b"0" * 64 + b'"'
        )
        with pytest.raises(OtherRounds, match="common to all nodes"):
            await mesh.nodes["a"].receive(AskVersion.path, body, "application/json", "127.0.0.1")


async def test_a_second_version_waits_for_the_first() -> None:
    async with mesh_of(0.0, rounds="asynchronous") as mesh:
        await trigger(mesh.nodes["a"], rounds=100)
        with pytest.raises(JobBusy):
            await trigger(mesh.nodes["a"])
