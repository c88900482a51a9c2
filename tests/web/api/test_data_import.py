"""Data brought over HTTP to a real node: by programs, by the form, from this machine only."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from quart import Quart
from werkzeug.datastructures import FileStorage

from flnet.node.runtime import NodeRuntime
from flnet.web.api.data_import import ImportView
from flnet.web.app import create_app
from tests.node.test_data_import import ONE
from tests.node.test_data_import import node as node
from tests.web.conftest import SETTINGS, Client

HERE = "/data/MNIST_3_7/import"


@pytest.fixture
def client(node: NodeRuntime) -> Client:
    app: Quart = create_app(node, SETTINGS)
    return app.test_client()


async def idle(node: NodeRuntime) -> None:
    async with asyncio.timeout(60):
        while node.job(ONE).phase != "IDLE":
            await asyncio.sleep(0)


def file(text: str, name: str = "numbers.txt") -> FileStorage:
    return FileStorage(io.BytesIO(text.encode()), filename=name)


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").iterdir()) if (tmp_path / "data").exists() else []


async def test_a_program_brings_a_file(client: Client, node: NodeRuntime, tmp_path: Path) -> None:
    answer = await client.post(f"{HERE}?name=numbers.txt", data=b"1 2 3")
    told = ImportView.model_validate(await answer.get_json())
    assert (answer.status_code, told.rows, told.files) == (200, {"train": 3}, 1)
    await idle(node)
    again = await client.post(f"{HERE}?name=numbers.txt", data=b"4")
    assert (again.status_code, (await again.get_json())["error"]) == (409, "data_there")
    replaced = await client.post(f"{HERE}?name=numbers.txt&replace=true", data=b"4")
    assert (await replaced.get_json())["aside"] == str(tmp_path / "data/numbers.before-1")
    assert left(tmp_path) == ["numbers", "numbers.before-1"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (f"{HERE}?name=numbers.txt", b"no numbers", 422, "nothing was changed: "),
        (f"{HERE}?name=../numbers.txt", b"1", 422, "leads out of its folder"),
        (HERE, b"1", 422, "no files came"),
        ("/data/NONE/import?name=x", b"1", 404, "no trainer 'NONE'"),
    ],
)
async def test_refusals_leave_nothing(
    client: Client, tmp_path: Path, path: str, body: bytes, status: int, words: str
) -> None:
    answer = await client.post(path, data=body)
    assert answer.status_code == status
    assert words in (await answer.get_json())["message"]
    assert left(tmp_path) == []


async def test_the_form_works_and_leads_back_to_the_view(client: Client, node: NodeRuntime) -> None:
    answer = await client.post("/view/data/MNIST_3_7", form={}, files={"file": file("1 2")})
    assert answer.status_code == 303
    assert answer.headers["Location"].endswith("#of-MNIST_3_7")
    page = await (await client.get(answer.headers["Location"].partition("#")[0])).get_data(as_text=True)
    assert "Imported files: 1; rows: 2." in page
    await idle(node)
    refused = await client.post("/view/data/MNIST_3_7", form={}, files={"file": file("3")})
    page = await (await client.get(refused.headers["Location"].partition("#")[0])).get_data(as_text=True)
    assert 'role="alert"' in page
    assert "the tick on the page, or replace=true in a request" in page
    done = await client.post("/view/data/MNIST_3_7", form={"replace": "true"}, files={"file": file("3")})
    page = await (await client.get(done.headers["Location"].partition("#")[0])).get_data(as_text=True)
    assert "The data that were there before are now in" in page


@pytest.mark.parametrize("path", [HERE, "/view/data/MNIST_3_7"])
async def test_other_machines_and_other_sites_bring_nothing(client: Client, tmp_path: Path, path: str) -> None:
    far: Any = {"client": ("192.0.2.7", 4000)}
    answer = await client.post(f"{path}?name=numbers.txt", data=b"1", scope_base=far)
    if path == HERE:
        assert (answer.status_code, (await answer.get_json())["error"]) == (401, "sign_in_needed")
    foreign = await client.post(f"{path}?name=n", data=b"1", headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    assert left(tmp_path) == []
    page = await (await client.get("/view/data", scope_base=far)).get_data(as_text=True)
    assert "data-import" not in page
