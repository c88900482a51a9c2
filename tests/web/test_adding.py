"""Further examples over HTTP to a real node: added, counted, and trained on if the schedule says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from flnet.messages import Peer
from flnet.node import NodeRuntime, assemble
from flnet.settings import Settings
from flnet.store import MemoryStore
from flnet.training import TrainerFile
from flnet.training.memory import InlinePool
from flnet.transport import MemoryNetwork
from flnet.web import create_app
from tests.node.test_importing import ONE, Readers

from .conftest import SETTINGS, Client

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
        pool=InlinePool(Readers(folder)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
        files=[TrainerFile(ONE, "", place="numbers/numbers.txt")],
    )
    await running.start()
    await until(lambda: running.job(ONE)["phase"] == "IDLE")
    yield running
    await running.stop()


@pytest.fixture
def client(node: NodeRuntime) -> Client:
    return create_app(node, SETTINGS).test_client()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_rows_are_added_counted_and_trained_on(client: Client, node: NodeRuntime, tmp_path: Path) -> None:
    told = await (await client.post(HERE, data=b"0\n2\n7\n")).get_json()
    assert (told["added"], told["rows"], told["aside"]) == (1, {"train": 4}, None)
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "0\n1\n2\n7\n"
    await until(lambda: node.job(ONE)["schedule"]["new_examples"] == 1)
    node.schedules.tick()
    assert node.job(ONE)["schedule"]["next_words"] == "when 2 new examples have come (1 so far)"
    again = await (await client.post(HERE, data=b"0\n2\n7\n")).get_json()
    assert (again["added"], again["files"]) == (0, 0)
    await client.post(HERE, data=b"0\n8\n")
    await until(lambda: node.job(ONE)["schedule"]["new_examples"] == 2)
    node.schedules.tick()
    await until(lambda: bool(node.history(ONE)))
    assert [(one["why"], one["examples"]) for one in node.history(ONE)] == [("2 new examples have come", 5)]
    assert node.job(ONE)["schedule"]["new_examples"] == 0


async def test_what_the_trainer_cannot_read_is_taken_out_again(
    client: Client, node: NodeRuntime, tmp_path: Path
) -> None:
    answer = await client.post(HERE, data=b"0\nseven\n")
    assert (answer.status_code, (await answer.get_json())["error"]) == (422, "import_refused")
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "0\n1\n2\n"
    assert [path.name for path in (tmp_path / "data/numbers").iterdir()] == ["numbers.txt"]
    assert node.job(ONE)["schedule"]["new_examples"] == 0


async def test_other_columns_are_refused(client: Client, tmp_path: Path) -> None:
    answer = await client.post(HERE, data=b"x,y\n1,2\n")
    assert "has the columns x, y; expected 0" in (await answer.get_json())["message"]
