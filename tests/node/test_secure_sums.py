"""Whole nodes whose updates are masked: what people see of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.cli.history import IN_SUM, reasons
from flnet.cli.status import merging_lines, sum_lines
from flnet.store.memory import MemoryStore
from flnet.web.api.monitoring import metrics_text
from tests.node.mesh import MNIST_3_7, Linear, mesh_of

SUM = "only the sum of 3 updates was opened; 2 of 3 nodes are needed to open one"


async def test_people_read_what_was_opened_and_by_whom() -> None:
    async with mesh_of(1.0, 2.0, 3.0, aggregation="secure") as mesh:
        node = mesh.nodes["b"]
        before = node.job(MNIST_3_7).secure
        assert before is not None and (before.round, before.members, before.threshold) == (None, 3, 2)
        assert before.words == "no sum was opened yet; 2 of the 3 nodes here are needed for that"
        await mesh.train()
        assert len(mesh.digests()) == 1
        view = node.job(MNIST_3_7).secure
        assert view is not None
        assert view.part_away == pytest.approx(1 / 3, abs=1e-3) and view.bits == 32
        assert (view.round, view.members, view.threshold, view.contributors) == (0, 3, 2, 3)
        (record,) = await node.records(MNIST_3_7, 1)
        assert record["secure"] == {"members": ["a", "b", "c"], "threshold": 2, "words": SUM}
        assert reasons(record) == [f"secure sum of round 0: {SUM}"]
        info = node.info()
        line, stranger, liar = sum_lines(info["jobsInfo"], info["mode"])
        assert line == f"{MNIST_3_7} secure sum: {SUM} (round 0)"
        assert "an active stranger" in stranger and "2 of 3 nodes open a sum" in liar
        (rule,) = merging_lines(info["jobsInfo"], 3)
        assert "secure sum (up to 1/3 of the nodes may vanish, 32 bits), weighted average (agg1)" in rule
        figures = metrics_text(info, node.ready(), {}).decode()
        for name, value in (("members", 3), ("threshold", 2), ("contributors", 3)):
            assert f'flnet_secure_sum_{name}{{trainer="{MNIST_3_7}"}} {value}.0' in figures


async def test_a_restart_remembers_the_newest_sum() -> None:
    async with mesh_of(1.0, 2.0, 3.0, aggregation="secure") as mesh:
        store = MemoryStore()
        await mesh.nodes["c"].stop()
        await mesh.add("c", Linear(3.0, 30), ("a",), store, aggregation="secure")
        await mesh.full()
        await mesh.train()
        before = mesh.nodes["c"].job(MNIST_3_7).secure
        assert before is not None and before.round == 0
        await mesh.nodes["c"].stop()
        await mesh.add("c", Linear(3.0, 30), ("a",), store, aggregation="secure")
        await mesh.full()
        assert mesh.nodes["c"].job(MNIST_3_7).secure == before


async def test_a_card_and_its_audit_name_who_is_in_the_sum_and_no_statement(tmp_path: Path) -> None:
    async with mesh_of(1.0, 2.0, 3.0, aggregation="secure") as mesh:
        await mesh.train()
        node = mesh.nodes["a"]
        digest = node.job(MNIST_3_7).digest
        assert digest is not None
        card = (await node.card(MNIST_3_7, digest)).body.decode()
    assert f"| secure sum | {SUM} |" in card
    assert "| b | hidden in the sum | hidden in the sum | hidden in the sum |" in card
    path = tmp_path / "card.md"
    path.write_text(card)
    result = CliRunner().invoke(cli, ["audit", "--card", str(path), "--json"])
    rows = json.loads(result.stdout)
    assert [(row["peer"], row["verdict"], row["examples"]) for row in rows] == [
        (peer, IN_SUM, None) for peer in "abc"
    ]
    shown = CliRunner().invoke(cli, ["audit", "--card", str(path)])
    assert shown.exit_code == 0
    assert f"secure sum of round 0: {SUM}" in shown.output
    assert "those on whom its members agreed by vote" in " ".join(shown.output.split())


async def test_where_updates_are_not_masked_nothing_is_said_of_sums() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        await mesh.train()
        node = mesh.nodes["a"]
        assert node.job(MNIST_3_7).secure is None
        (record,) = await node.records(MNIST_3_7, 1)
        assert "secure" not in record
        assert sum_lines(node.info()["jobsInfo"], "open") == []
        assert b"secure_sum" not in metrics_text(node.info(), node.ready(), {})
