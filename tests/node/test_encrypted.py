"""Whole nodes that train an encrypted regression: two with columns, one with the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.encryption import PLAIN, Encryption, PlainScheme
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.taylor_regression import taylor_loss
from flnet.compute.vertical import VerticalHost
from flnet.errors import DataMissing
from flnet.protocol.vertical import ENCRYPTED
from flnet.store.memory import MemoryStore
from flnet.store.sqlite_store import DiskStore
from flnet.vertical_trainer import KeyHolderTrainer, VerticalTrainer
from tests.algorithms.vertical.encrypted_holders import RegressionPeople, RegressionTable, weights_of
from tests.algorithms.vertical.holders import Table
from tests.node.mesh import Mesh, trigger, until
from tests.node.test_trust import MARKS
from tests.node.vertical_mesh import FILES, T, job_of, vertical_mesh


def jobs_of(mesh: Mesh) -> dict[str, Any]:
    return {name: job_of(node) for name, node in mesh.nodes.items()}


def outcome(mesh: Mesh, name: str) -> str:
    records = job_of(mesh.nodes[name]).records()
    return str(records[-1]["outcome"]) if records else ""


async def trained(mesh: Mesh, starter: str, rounds: int, seconds: float = 30) -> None:
    jobs = jobs_of(mesh)
    last = max(job.models.closed for job in jobs.values()) + rounds
    await trigger(mesh.nodes[starter], rounds)
    await until(lambda: all(job.models.closed == last and not job.busy for job in jobs.values()), seconds)


@pytest.mark.parametrize("starter", ["a", "b", "c"])
async def test_three_epochs_are_those_of_one_place_and_c_holds_no_row(starter: str) -> None:
    people = RegressionPeople.random()
    async with vertical_mesh(people) as mesh:
        await trained(mesh, starter, 3)
        jobs = jobs_of(mesh)
        parts, whole = weights_of(jobs)
        expected = people.expected(jobs, 3)
        assert parts == pytest.approx(expected, abs=1e-12)
        assert np.abs(expected).max() > 0.05
        assert whole.tolist() == parts.tolist()
        x, y, count = people.rows(jobs)
        for node in mesh.nodes.values():
            view = node.job(T)
            assert view.vertical is not None
            assert (view.vertical.method, view.vertical.common, view.vertical.epochs) == (ENCRYPTED, 90, 3)
            assert view.vertical.loss == pytest.approx(taylor_loss(x[count:], y[count:], expected))
            assert [(h.peer, h.columns, h.has_label, h.holds_key) for h in view.vertical.holders] == [
                ("a", 2, True, False),
                ("b", 3, False, False),
                ("c", 0, False, True),
            ]
            assert [record["contributors"] for record in job_of(node).records()] == [["a", "b", "c"]] * 3
        assert jobs["c"].models.rows is None
        assert sorted(jobs["c"].models.params) == ["1/top/weights/theta", "2/top/weights/theta"]


async def test_warnings_are_told_once_and_stand_in_the_view() -> None:
    people = RegressionPeople.random()
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "b", 2)
        for node in mesh.nodes.values():
            view = node.job(T).vertical
            assert view is not None
            assert ["can compute labels of single rows" in one for one in view.warnings] == [False, True]
            assert "connections of this mesh are not encrypted for their receiver: if c" in view.warnings[0]
            told = [event for event in node.feed.recent() if event.kind == "vertical_warning"]
            assert [event.text for event in told] == view.warnings


@pytest.mark.parametrize("restarted", ["a", "b", "c"])
async def test_a_restarted_node_goes_on_from_the_last_whole_epoch(restarted: str, tmp_path: Path) -> None:
    people = RegressionPeople.random()
    async with vertical_mesh(people) as mesh:
        stores = {name: DiskStore(tmp_path / name) for name in mesh.nodes}
        for name, node in list(mesh.nodes.items()):
            await node.stop()
            await mesh.add(name, people.hosts()[name], ("a",) if name != "a" else (), stores[name], files=FILES)
        await mesh.full()
        await trained(mesh, "a", 2)
        await mesh.nodes[restarted].stop()
        others = tuple(name for name in mesh.nodes if name != restarted)
        again = await mesh.add(
            restarted, people.hosts()[restarted], others, DiskStore(tmp_path / restarted), files=FILES
        )
        await until(lambda: bool(again.ready()["data_loaded"]))
        assert job_of(again).models.closed == 1
        await mesh.full()
        await trained(mesh, restarted, 1)
        jobs = jobs_of(mesh)
        assert weights_of(jobs)[0] == pytest.approx(people.expected(jobs, 3), abs=1e-12)


async def test_a_key_holder_that_dies_in_an_epoch_costs_that_epoch_only() -> None:
    people, store = RegressionPeople.random(), MemoryStore()
    async with vertical_mesh(people) as mesh:
        await mesh.nodes["c"].stop()
        await mesh.add("c", people.hosts()["c"], ("a", "b"), store, files=FILES)
        await mesh.full()
        await trained(mesh, "a", 1)
        key_holder = job_of(mesh.nodes["c"])
        await trigger(mesh.nodes["a"], 2)
        await until(
            lambda: key_holder.round is not None and key_holder.round.begin is not None and key_holder.busy
        )
        await mesh.nodes["c"].stop()
        assert key_holder.models.closed == 0
        await mesh.add("c", people.hosts()["c"], ("a", "b"), store, files=FILES)
        jobs = jobs_of(mesh)
        await until(lambda: all(job.models.closed == 2 and not job.busy for job in jobs.values()))
        assert weights_of(jobs)[0] == pytest.approx(people.expected(jobs, 3), abs=1e-12)
        outcomes = [str(record["outcome"]) for record in jobs["a"].records()]
        assert [one for one in outcomes if one.startswith("abandoned: ") and "c " in one], outcomes
        assert sum(one.endswith("has ended") for one in outcomes) == 3


def named(name: str) -> Encryption:
    return Encryption(lambda: name, PlainScheme, PlainScheme.open_key)


def missing() -> str:
    raise DataMissing("encrypted training needs TenSEAL, which is not installed", "install it")


X = np.random.default_rng(1).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(np.int64)
IDS = [str(number) for number in range(40)]


def hosts(**tables: VerticalTrainer) -> dict[str, VerticalHost]:
    return {name: VerticalHost(table, name, SafePrimeGroup, encryption=PLAIN) for name, table in tables.items()}


class Given:
    """Hosts as they are."""

    def __init__(self, given: dict[str, VerticalHost]) -> None:
        self.given = given

    def hosts(self) -> dict[str, VerticalHost]:
        return self.given


A, B, C = RegressionTable(IDS, X, Y), RegressionTable(IDS, X), KeyHolderTrainer()


def host_with(encryption: Encryption) -> VerticalHost:
    return VerticalHost(C, "c", SafePrimeGroup, encryption=encryption)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (hosts(a=A, b=B), "no node holds the key"),
        (hosts(a=A, c=C), "only a holds columns"),
        (hosts(b=B, c=C), "no holder has the label"),
        (hosts(a=A, b=RegressionTable(IDS, X, Y), c=C), "a, b all hold a label"),
        (
            hosts(a=A, b=B, c=C, d=RegressionTable(IDS, X)),
            "a, b, d hold columns; an encrypted regression takes two",
        ),
        (hosts(a=A, b=B, c=C, d=KeyHolderTrainer()), "c, d have this job and no data of it; only one"),
        (
            hosts(a=Table(IDS, X.astype(np.float32), Y), b=B, c=C),
            "method differs: split-network at a, encrypted-regression at b",
        ),
        ({**hosts(a=A, b=B), "c": host_with(named("other"))}, "encryption differs: plain at a, other at c"),
        (
            {
                **hosts(a=A, b=B),
                "c": VerticalHost(
                    C, "c", SafePrimeGroup, encryption=Encryption(missing, PlainScheme, PlainScheme.open_key)
                ),
            },
            "encrypted training needs TenSEAL",
        ),
    ],
)
async def test_nodes_that_cannot_train_together_are_refused_before_any_training(
    given: dict[str, VerticalHost], words: str
) -> None:
    mesh = Mesh()
    try:
        for name, host in given.items():
            await mesh.add(
                name, host, () if name == "a" or not mesh.nodes else (next(iter(mesh.nodes)),), files=FILES
            )
        await until(lambda: all(len(n.core.members.alive) == len(given) - 1 for n in mesh.nodes.values()))
        await until(lambda: all(n.job(T).phase in ("IDLE", "NO_DATA") for n in mesh.nodes.values()))
        first = next(iter(given))
        await trigger(mesh.nodes[first], 2)
        await until(lambda: bool(outcome(mesh, first)))
        assert words in outcome(mesh, first)
        assert {job_of(node).models.closed for node in mesh.nodes.values()} == {-1}
    finally:
        await mesh.stop()


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"b": RegressionTable(IDS, X * 9)}, "needs standardised columns"),
        (
            {"a": RegressionTable([*IDS, "x"], X[[*range(40), 0]], np.arange(41) // 40)},
            "one value only in the 32 common rows",
        ),
        ({"a": RegressionTable(IDS, X, np.arange(40) % 3)}, "expected 0 and 1"),
        ({"b": RegressionTable(IDS[:3] + [f"x{n}" for n in range(37)], X)}, "3 ids in common; at least 10"),
        (
            {
                "b": RegressionTable(
                    IDS[:12] + [f"x{n}" for n in range(28)], np.random.default_rng(2).normal(size=(40, 14))
                )
            },
            "the largest batch has 10 rows; at least 15 are needed",
        ),
    ],
)
async def test_rows_that_cannot_be_trained_on_end_the_epoch_in_words_at_all_nodes(
    tables: dict[str, VerticalTrainer], words: str
) -> None:
    async with vertical_mesh(Given(hosts(**{"a": A, "b": B, "c": C, **tables}))) as mesh:
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: all(words in outcome(mesh, name) for name in "abc"))
        assert {job.models.closed for job in jobs_of(mesh).values()} == {-1}
        assert job_of(mesh.nodes["a"]).series.left == 0


async def test_only_the_key_holder_keeps_which_rows_match_where_that_is_hidden() -> None:
    people = RegressionPeople.hiding()
    async with vertical_mesh(people) as mesh:
        await trained(mesh, "a", 2)
        await mesh.nodes["c"].stop()
        await mesh.add("c", people.hosts()["c"], ("a", "b"), MemoryStore(), files=FILES)
        await mesh.full()
        await trigger(mesh.nodes["b"])
        await until(lambda: "no common epoch to go on from" in outcome(mesh, "b"))
        body = b'{"trainerId": "MNIST_3_7", "newNumbering": true}'
        await mesh.nodes["b"].receive("/training/trigger", body, "application/json", "127.0.0.1")
        jobs = jobs_of(mesh)
        await until(lambda: all(job.models.closed == 0 and not job.busy for job in jobs.values()))
        await trained(mesh, "c", 2)
        jobs = jobs_of(mesh)
        rows = {name: np.asarray(job.models.rows) for name, job in jobs.items()}
        assert [len(one) for one in rows.values()] == [120] * 3
        assert int(rows["c"].sum()) == 90
        assert len({job.models.alignment for job in jobs.values()}) == 1
        told = [event.text for event in mesh.nodes["a"].feed.recent() if event.kind == "rows_aligned"]
        assert (
            told == ["rows of MNIST_3_7 stand at 120 positions; only the node with the key knows which match"] * 2
        )
        view = mesh.nodes["c"].job(T).vertical
        assert view is not None
        assert view.common == 120  # the number of matches is told to nobody


async def test_nodes_that_do_not_hide_matches_alike_are_refused() -> None:
    people = RegressionPeople.hiding()
    people.tables["c"].hides_matches = False
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"])
        words = "alignment differs: by the node with the key at a, by the nodes with data at c"
        await until(lambda: words in outcome(mesh, "a"))


async def test_in_a_pinned_mesh_nobody_warns_of_its_connections() -> None:
    people, mesh = RegressionPeople.random(), Mesh()
    try:
        for name, bootstrap in (("a", ()), ("b", ("a",)), ("c", ("a",))):
            trusted = tuple(mark for other, mark in MARKS.items() if other != name)
            host = people.hosts()[name]
            await mesh.add(name, host, bootstrap, files=FILES, mesh_mode="pinned", trusted_peers=trusted)
        await mesh.full()
        await trained(mesh, "a", 1)
        for node in mesh.nodes.values():
            view = node.job(T).vertical
            assert view is not None
            assert [one[:7] for one in view.warnings] == ["batches"]
    finally:
        await mesh.stop()
