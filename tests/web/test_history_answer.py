"""The history as files, over REST and on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flnet.web import history_files

from .conftest import Client
from .fake_node import FakeNode
from .page_reading import load


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [("csv", "text/csv", b"round,"), ("svg", "image/svg+xml", b"<svg "), ("png", "image/png", b"\x89PNG")],
)
async def test_each_form_is_a_file_to_take_away(
    client: Client, node: FakeNode, form: str, kind: str, begins: bytes
) -> None:
    for number in range(3):
        await client.post("/training/trigger", json={"trainerId": "MNIST"})
        await node.finish_round("MNIST", 0.5, 0.6 + number / 10)
    answer = await client.get(f"/jobs/MNIST/history.{form}?last=2")
    body = await answer.get_data(as_text=False)
    assert (answer.status_code, answer.mimetype, body.startswith(begins)) == (200, kind, True)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="MNIST-NODE_1-history.{form}"'
    if form == "csv":
        assert [line.split(b",")[0] for line in body.splitlines()] == [b"round", b"1", b"2"]


async def test_other_forms_trainers_and_numbers_are_refused(client: Client) -> None:
    for path, status in (("MNIST/history.pdf", 404), ("NONE/history.csv", 404), ("MNIST/history.csv?last=0", 422)):
        assert (await client.get(f"/jobs/{path}")).status_code == status


async def test_the_page_links_to_the_files(client: Client, node: FakeNode) -> None:
    await client.post("/training/trigger", json={"trainerId": "MNIST"})
    await node.finish_round("MNIST", 0.5, 0.6)
    links = [link["href"] for link in (await load(client)).all("a") if "history." in (link.get("href") or "")]
    assert links == [f"/jobs/MNIST/history.{form}" for form in ("csv", "svg", "png")]


async def test_files_are_made_one_at_a_time(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most, as_csv, records = 0, 0, history_files.as_csv, node.records

    async def reading(*asked: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        return await records(*asked)

    def made(rounds: Sequence[Any]) -> bytes:
        nonlocal under_way
        under_way -= 1
        return as_csv(rounds)

    monkeypatch.setattr(node, "records", reading)
    monkeypatch.setattr(history_files, "as_csv", made)
    answers = await asyncio.gather(*(client.get("/jobs/MNIST/history.csv") for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert (most, under_way) == (1, 0)
