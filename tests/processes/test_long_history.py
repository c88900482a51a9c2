"""A node that has trained thousands of rounds shows them all, and holds few of them while it does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flnet.params.params import TrainerId
from flnet.store.base import USUAL
from flnet.store.sqlite_store import DiskStore
from tests.processes.harness import RealNode, harness, until
from tests.threats.stranger import MEGA, peak

pytestmark = pytest.mark.slow
SLOW, ROUNDS = TrainerId("SLOW"), 10_000  # which have 9 MB as JSON


async def lengthen(folder: Path) -> None:
    """Let the node of this state folder have trained so many rounds, each like the one that it has."""
    store = DiskStore(folder, USUAL)
    try:
        saved = await store.load(SLOW)
        assert saved is not None
        (record,) = saved.records
        records = tuple({**record, "round": number} for number in range(ROUNDS))
        await store.save(SLOW, replace(saved, records=records))
    finally:
        await store.close()


def read(node: RealNode, path: str) -> bytes:
    """The whole answer."""
    answer = node.http.get(path)
    assert answer.status_code == 200
    return answer.content


def test_a_long_history_is_sent_in_pieces(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        made.go()
        node = made.start()
        made.ready()
        node.trigger()
        until(lambda: len(node.history()) == 1 and node.job()["phase"] == "IDLE", "a round")
        node.process.terminate()
        node.process.wait()
        asyncio.run(lengthen(made.state(node)))
        made.again(node)
        made.up(node)
        read(node, "/jobs/SLOW/history?last=1000")
        before = peak(node)
        assert [record["round"] for record in node.history()] == list(range(ROUNDS))
        assert len(read(node, "/jobs/SLOW/history.csv").splitlines()) == ROUNDS + 1
        assert b"<svg" in read(node, "/jobs/SLOW/history.svg")
        assert peak(node) - before < 24 * MEGA
