"""Further examples over HTTP to a real node: added, counted, and trained on if the schedule says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from flnet.node.build import assemble
from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import Peer
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from flnet.trainer import TrainerFile
from flnet.web.app import create_app
from flnet.wire.memory import MemoryNetwork
from tests.compute.inline_queue import InlineQueue
from tests.node.test_data_import import ONE, Readers
from tests.web.conftest import SETTINGS, Client

HERE = "/data/MNIST_3_7/import?name=more.txt&add=true"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeRuntime]:
    folder = tmp_path / "data"
    (folder / "numbers").mkdir(parents=True)
    (folder / "numbers/numbers.txt").write_text("0\n1\n2\n")  # the first line is the name of the column
    me = Peer(id="a", ip="127.0.0.1", port=4000)
    running = assemble(
        Settings(datasets_path=folder, train_when="new 2"),
        me,
        [ONE],
        pool=InlineQueue(Readers(folder)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
        files={ONE: TrainerFile(ONE, "", place="numbers/numbers.txt")},
    )
    await running.start()
    await until(lambda: running.job(ONE).as_json()["phase"] == "IDLE")
    yield running
    await running.stop()


@pytest.fixture
def client(node: NodeRuntime) -> Client:
    return create_app(node, SETTINGS).test_client()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


async def test_rows_are_added_counted_and_trained_on(client: Client, node: NodeRuntime, tmp_path: Path) -> None:
    told = await (await client.post(HERE, data=b"0\n2\n7\n")).get_json()
    assert (told["added"], told["rows"], told["aside"]) == (1, {"train": 4}, None)
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "0\n1\n2\n7\n"
    await until(lambda: node.job(ONE).as_json()["schedule"]["new_examples"] == 1)
    node.schedules.tick()
    assert node.job(ONE).as_json()["schedule"]["next_words"] == "when new examples have come: 1 of 2 so far"
    again = await (await client.post(HERE, data=b"0\n2\n7\n")).get_json()
    assert (again["added"], again["files"]) == (0, 0)
    await client.post(HERE, data=b"0\n8\n")
    await until(lambda: node.job(ONE).as_json()["schedule"]["new_examples"] == 2)
    node.schedules.tick()
    await until(lambda: bool(node.history(ONE)))
    assert [(one["why"], one["examples"]) for one in node.history(ONE)] == [("2 new examples have come", 5)]
    assert node.job(ONE).as_json()["schedule"]["new_examples"] == 0


async def test_what_the_trainer_cannot_read_is_taken_out_again(
    client: Client, node: NodeRuntime, tmp_path: Path
) -> None:
    answer = await client.post(HERE, data=b"0\nseven\n")
    assert (answer.status_code, (await answer.get_json())["error"]) == (422, "import_refused")
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "0\n1\n2\n"
    assert [path.name for path in (tmp_path / "data/numbers").iterdir()] == ["numbers.txt"]
    assert node.job(ONE).as_json()["schedule"]["new_examples"] == 0


async def test_other_columns_are_refused(client: Client, tmp_path: Path) -> None:
    answer = await client.post(HERE, data=b"x,y\n1,2\n")
    assert "has the columns x, y; expected 0" in (await answer.get_json())["message"]
