from __future__ import annotations

import gzip
import re

import httpx
import pytest

from flnet.web.compressing import SMALLEST_BYTES

from .conftest import Client, Running


async def fetch(client: Client, path: str, codings: str) -> tuple[bytes, str | None]:
    """The body as it travels, and its coding."""
    answer = await client.get(path, headers={"Accept-Encoding": codings} if codings else {})
    assert answer.status_code == 200
    return bytes(await answer.get_data(as_text=False)), answer.headers.get("Content-Encoding")


@pytest.mark.parametrize("path", ["/", "/?fragment=main", "/view/api", "/web/style.css", "/web/live.js"])
async def test_a_page_that_a_browser_asks_for_travels_compressed_and_is_the_same(
    client: Client, path: str
) -> None:
    plain, none = await fetch(client, path, "")
    packed, coding = await fetch(client, path, "gzip, deflate, br")
    assert (none, coding) == (None, "gzip")
    opened = gzip.decompress(packed)
    assert re.sub(rb"\d\d:\d\d:\d\d", b"", opened) == re.sub(rb"\d\d:\d\d:\d\d", b"", plain)
    assert len(packed) < len(plain) / 2


@pytest.mark.parametrize("codings", ["", "br", "identity", "gzip;q=0", "deflate, gzip;q=0.0"])
async def test_who_does_not_take_gzip_gets_none(client: Client, codings: str) -> None:
    assert (await fetch(client, "/", codings))[1] is None


@pytest.mark.parametrize("path", ["/info", "/openapi.json", "/events.jsonl", "/health"])
async def test_what_programs_ask_for_stays_as_it_is(client: Client, path: str) -> None:
    assert (await fetch(client, path, "gzip"))[1] is None


async def test_the_stream_of_events_is_not_held_up(running: Running) -> None:
    async with (
        running() as port,
        httpx.AsyncClient(trust_env=False, timeout=20) as http,
        http.stream("GET", f"http://127.0.0.1:{port}/events", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert "Content-Encoding" not in answer.headers
        assert await anext(answer.aiter_lines()) == "retry: 2000"


async def test_a_small_answer_is_not_worth_it(client: Client) -> None:
    plain, coding = await fetch(client, "/web/icon.svg", "gzip")
    assert len(plain) < SMALLEST_BYTES
    assert coding is None


async def test_what_has_not_changed_is_told_so_with_and_without_gzip(client: Client) -> None:
    first = await client.get("/view/api", headers={"Accept-Encoding": "gzip"})
    assert "Accept-Encoding" in first.headers["Vary"]
    page = await client.get("/?fragment=main", headers={"Accept-Encoding": "gzip"})
    again = await client.get(
        "/?fragment=main", headers={"Accept-Encoding": "gzip", "If-None-Match": page.headers["ETag"]}
    )
    assert again.status_code == 304
    assert await again.get_data(as_text=False) == b""
