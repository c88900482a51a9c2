"""Request bodies: collected, landed in one buffer, or handed on to an upload, never more bytes than the route takes."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug.exceptions import BadRequest

from flnet.datasets.dataset_import import Upload, place_of
from flnet.errors import BodyTooLarge, ImportRefused, ParamsRefused, PeerError, StaleRound, UnreadableBody
from flnet.params.blob import Landing
from flnet.settings import load_settings
from flnet.trainer import TrainerFile
from flnet.web import body as limits
from flnet.web.app import create_app
from flnet.web.body import EARLY_BYTES, Files, LimitedBody
from flnet.wire.binary_codec import BINARY_TYPE
from tests.web.conftest import SETTINGS, Client, Running
from tests.web.fake_node import CONTROL, WANTED, FakeNode

ZEROS = bytes(64 * 1024)
JSON = {"Content-Type": "application/json"}
PATH = "/training/model_params"
BINARY = {"Content-Type": BINARY_TYPE}
MEGA = 1024 * 1024


def begun(path: str, kind: str, size: int, start: bytes = b"") -> bytes:
    """The head of a request, and how its body begins."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + start


async def answer_to(port: int, start: bytes, parts: Iterable[bytes] = ()) -> tuple[int, dict[str, str]]:
    """Send a raw request, as much of it as is taken; status and JSON body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        for part in (start, *parts):
            writer.write(part)
            await writer.drain()
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), orjson.loads(rest.partition(b"\r\n\r\n")[2])


async def test_a_length_above_the_limit_is_refused_before_any_byte_is_read(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.05)
    async with running() as port:
        status, told = await answer_to(port, begun("/training/model_params", "application/json", 104857600))
    assert (status, told["error"]) == (413, "body_too_large")
    assert "1048576" in told["message"]
    assert "104857600" in told["message"]
    assert node.received == []


@pytest.mark.parametrize(
    ("path", "chunked"),
    [("/training/model_params", True), ("/training/model_params", False), ("/jobs/MNIST/params", True)],
)
async def test_a_hundred_megabytes_of_zeros_leave_the_memory_flat(
    running: Running, node: FakeNode, path: str, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 60)  # on a busy machine 100 MB take longer than the usual two
    verb = "PATCH" if "jobs" in path else "POST"
    length = "Transfer-Encoding: chunked" if chunked else "Content-Length: 104857600"
    start = f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    parts = [b"10000\r\n" + ZEROS + b"\r\n" if chunked else ZEROS] * 1600
    async with running() as port:
        tracemalloc.start()
        try:
            status, told = await answer_to(port, start.encode(), [*parts, *[b"0\r\n\r\n"] * chunked])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (status, told["error"]) == (413, "body_too_large")
    assert peak < node.limit + 4 * 1024 * 1024
    assert node.received == []


async def test_an_ordinary_client_that_sends_too_much_reads_why(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 60)  # on a busy machine 30 MB take longer than the usual two
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        url = f"http://127.0.0.1:{port}/training/model_params"
        answer = await http.post(url, content=bytes(30_000_000), headers=JSON)
        again = await http.get(f"http://127.0.0.1:{port}/health")
    assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")
    assert again.status_code == 200


async def test_a_body_of_exactly_the_limit_is_read_with_and_without_a_length(
    running: Running, node: FakeNode
) -> None:
    async def pieces() -> object:
        for _ in range(node.limit // len(ZEROS)):
            yield ZEROS

    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        url = f"http://127.0.0.1:{port}/training"
        await http.post(url, content=bytes(node.limit), headers=JSON)
        await http.post(url, content=pieces(), headers=JSON)  # type: ignore[arg-type]
    assert [size for _, size, _, _ in node.received] == [node.limit, node.limit]


async def test_each_path_has_its_own_limit(client: Client, node: FakeNode) -> None:
    large = bytes(CONTROL + 1)
    assert (await client.post("/announce", data=large, headers=JSON)).status_code == 413
    assert (await client.post("/training", data=large, headers=JSON)).status_code == 422
    assert (await client.patch("/jobs/MNIST/params", data=large, headers=JSON)).status_code == 413
    assert (await client.post("/training/trigger/form", data=large, headers=JSON)).status_code == 413


# A small JSON body is collected, a binary one lands in a buffer as soon as its head is known.
BEGINNINGS = pytest.mark.parametrize(
    "beginning",
    [
        begun("/training/trigger", "application/json", 60_000, b'{"trai'),
        begun("/training/model_params", BINARY_TYPE, 60_000, WANTED),
    ],
    ids=["json", "binary"],
)


@BEGINNINGS
async def test_a_caller_that_stalls_is_cut(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(limits, "BASE_SECONDS", 3600.0)  # for the whole of it, which must not be what ends it
    async with running() as port, asyncio.timeout(60):
        status, told = await answer_to(port, beginning)
    assert (status, told["error"]) == (408, "request_timeout")
    assert node.received == []


@BEGINNINGS
async def test_a_caller_that_trickles_is_cut(
    running: Running, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(limits, "BASE_SECONDS", 0.3)
    monkeypatch.setattr(limits, "SLOWEST_BYTES_PER_SECOND", 1024**3)
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginning)
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b" ")
            await asyncio.wait({answer}, timeout=0.02)
        writer.close()
    assert b" 408 " in await answer


@BEGINNINGS
async def test_a_caller_that_leaves_in_mid_body_harms_nobody(
    running: Running, node: FakeNode, beginning: bytes
) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginning)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await http.get(f"http://127.0.0.1:{port}/health")).json() == {"status": "ok"}
    assert (node.received, node.landed) == ([], [])


async def test_quarts_own_ways_to_read_a_body_hold_the_limit_too() -> None:
    whole, parts = LimitedBody(None, 10), LimitedBody(None, 10)
    for one in (whole, parts):
        one.append(b"ab")
        one.set_result(b"cd")
    assert await whole == b"abcd"
    assert [part async for part in parts] == [b"abcd"]


async def test_a_body_that_nobody_reads_is_not_kept() -> None:
    unread = LimitedBody(None, 10)
    for _ in range(100):
        unread.append(b"12345678")
    assert unread._parts == []
    with pytest.raises(BodyTooLarge):
        await unread.read()


async def test_a_connection_outlives_a_refusal_if_the_whole_body_had_come(
    running: Running, node: FakeNode
) -> None:
    node.failure = StaleRound(3, 2)
    head = "POST /training/model_params HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    message = f"{head}Content-Length: 2\r\n\r\n{{}}"
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(message.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 409 " in answer.partition(b"\r\n")[0]
            assert b"connection: close" not in answer.lower()
            size = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
        writer.close()


# Uploads: written to disk where they arrive, as one file or as the files of a form.


class Kept:
    """Takes what is written, as an upload does."""

    def __init__(self, *, replace: bool = False) -> None:
        self.replace = replace
        self.files: dict[str, bytes] = {}
        self._name = ""

    def begin(self, name: str) -> None:
        self._name = name
        self.files[name] = b""

    def write(self, data: bytes) -> None:
        self.files[self._name] += bytes(data)


def form(*parts: tuple[str, str | None, bytes]) -> bytes:
    body = b""
    for name, file, data in parts:
        named = f'; filename="{file}"' if file is not None else ""
        body += f'--here\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"
    return body + b"--here--\r\n"


def files(kind: str = "multipart/form-data", **options: Any) -> tuple[Files, list[Kept]]:
    made: list[Kept] = []

    def begin(replace: bool) -> Any:
        made.append(Kept(replace=replace))
        return made[-1]

    return Files(begin, kind, {"boundary": "here"}, **{"name": "x.csv", "replace": False, **options}), made


WHOLE = form(
    ("replace", None, b"true"),
    ("file", "", b""),
    ("folder", "pets/cat/1.png", b"--her\r\n" * 50),
    ("file", "b", b""),
)


EVERYWHERE = st.integers(1, 11).map(lambda step: list(range(0, len(WHOLE), step)))


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6) | EVERYWHERE)
def test_a_form_is_read_wherever_it_is_cut(cuts: list[int]) -> None:
    sink, made = files()
    at = [0, *sorted(cuts), len(WHOLE)]
    for start, end in pairwise(at):
        if start != end:
            sink.write(WHOLE[start:end])
    sink.write(b"")
    (kept,) = made
    assert (kept.replace, kept.files) == (True, {"pets/cat/1.png": b"--her\r\n" * 50, "b": b""})


@pytest.mark.parametrize("content", [b"", b"1,2\r\n", b"x--here", b"\r", b"\r\n--her"])
def test_wherever_a_form_ends_in_two_pieces_its_last_file_is_the_same(content: bytes) -> None:
    whole = form(("file", "b", content))
    for cut in range(1, len(whole)):
        sink, made = files()
        sink.write(whole[:cut])
        sink.write(whole[cut:])
        sink.write(b"")
        assert made[0].files == {"b": content}, whole[cut:]


@pytest.mark.parametrize("at_once", [1_000_000, 100_000, 65_537, 1_000])
def test_however_much_of_a_form_comes_at_once_it_is_read(at_once: int) -> None:
    """On a busy machine much waits to be read, and comes as one piece."""
    sink, made = files()
    data = bytes(range(256)) * 1_500
    whole = form(("file", "a", data), ("file", "b", data))
    for start in range(0, len(whole), at_once):
        sink.write(whole[start : start + at_once])
    sink.write(b"")
    (kept,) = made
    assert kept.files == {"a": data, "b": data}


@given(st.binary(max_size=300))
def test_what_is_no_form_is_refused_and_nothing_else_happens(data: bytes) -> None:
    sink, _ = files()
    try:
        if data:
            sink.write(data)
        sink.write(b"")
    except UnreadableBody as exc:
        assert "the form cannot be read" in str(exc)  # noqa: PT017
    assert sink.upload is None


def test_a_form_without_boundary_is_refused() -> None:
    with pytest.raises(BadRequest):
        Files(lambda replace: None, "multipart/form-data", {}, name="", replace=False)  # type: ignore[arg-type, return-value]


async def test_a_plain_body_is_one_file() -> None:
    sink, made = files("application/octet-stream")
    body = LimitedBody(6, 100, kept=EARLY_BYTES)
    body.append(b"ab")  # before the route begins
    arriving = asyncio.create_task(body.arrive_in(sink))
    await asyncio.sleep(0)
    assert body._parts == []  # nothing is kept
    body.append(b"cdef")
    assert made[0].files == {"x.csv": b"abcdef"}
    assert body._parts == []
    body.set_complete()
    await arriving


async def test_too_much_is_refused_at_once_or_where_it_is_found() -> None:
    with pytest.raises(BodyTooLarge):
        await LimitedBody(101, 100, kept=EARLY_BYTES).arrive_in(files()[0])
    body = LimitedBody(None, 100, kept=EARLY_BYTES)
    arriving = asyncio.create_task(body.arrive_in(files("text/csv")[0]))
    await asyncio.sleep(0)
    body.append(bytes(101))
    with pytest.raises(BodyTooLarge):
        await arriving
    body.append(b"more")  # is dropped


async def test_what_the_disk_refuses_ends_the_body(tmp_path: Path) -> None:
    place = place_of(TrainerFile("X", "", place="x.csv"), tmp_path)
    upload = Upload(place, 1e-9)
    sink = Files(lambda replace: upload, "text/csv", {}, name="x.csv", replace=False)
    body = LimitedBody(None, 100, kept=EARLY_BYTES)
    arriving = asyncio.create_task(body.arrive_in(sink))
    await asyncio.sleep(0)
    body.append(b"ab")
    with pytest.raises(ImportRefused, match="holds more than"):
        await arriving
    upload.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/training", PATH, f"{PATH}/accuracy"])
async def test_a_binary_body_reaches_the_node_in_the_buffer_that_it_landed_in(
    client: Client, node: FakeNode, path: str
) -> None:
    body = WANTED + bytes(range(256)) * 100
    headers = {**BINARY, "Content-Length": str(len(body))}
    answer = await client.post(path, data=body, headers=headers, scope_base={"client": ("10.0.0.9", 5)})
    assert answer.status_code == 200
    assert node.received == [(path, len(body), BINARY_TYPE, "10.0.0.9")]
    assert node.landed[0] == body
    assert node.landed[0].readonly
    assert np.shares_memory(node.landed[0], node.given_memory[0])
    assert node.inspected[0][:2] == (path, BINARY_TYPE)
    assert node.inspected[0][3] == len(body)


@pytest.mark.parametrize("path", ["/announce", "/training/trigger", "/jobs/MNIST/params"])
async def test_messages_without_arrays_are_json_only(client: Client, node: FakeNode, path: str) -> None:
    send = client.patch if "jobs" in path else client.post
    answer = await send(path, data=WANTED, headers=BINARY)
    assert (answer.status_code, (await answer.get_json())["error"]) == (415, "unsupported_media_type")
    assert node.inspected == []


async def test_a_node_that_was_set_to_json_takes_nothing_else(node: FakeNode) -> None:
    client = create_app(node, load_settings({"wire": "json"}, {})).test_client()
    answer = await client.post(PATH, data=WANTED, headers=BINARY)
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (415, "unsupported_media_type")
    assert "application/json" in told["message"]
    assert node.inspected == []


async def test_what_may_be_sent_is_told_by_path(client: Client) -> None:
    for path, told in ((PATH, True), ("/announce", False)):
        answer = await client.post(path, data=b"x", headers={"Content-Type": "text/plain"})
        assert (BINARY_TYPE in (await answer.get_json())["message"]) is told


async def test_a_binary_body_states_its_size(running: Running, node: FakeNode) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield WANTED

    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(f"http://127.0.0.1:{port}{PATH}", content=pieces(), headers=BINARY)
    assert (answer.status_code, answer.json()["error"]) == (411, "length_required")
    assert "Content-Length" in answer.json()["message"]
    assert node.inspected == []


@pytest.mark.parametrize(
    ("announced", "sent", "words"),
    [
        (100, WANTED, "expected 100 bytes, but 12 came"),
        (len(WANTED), WANTED + b"more", "more came"),
        (100, WANTED[:4], "expected 100 bytes, but 4 came"),
        (4, WANTED[:4], "do not hold its whole head"),
    ],
)
async def test_another_size_than_was_stated_is_refused(
    client: Client, node: FakeNode, announced: int, sent: bytes, words: str
) -> None:
    answer = await client.post(PATH, data=sent, headers={**BINARY, "Content-Length": str(announced)})
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (422, "unreadable_body")
    assert words in told["message"]
    assert node.landed == []


async def test_a_large_body_that_is_not_wanted_is_refused_by_its_head(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.05)
    node.limit = 200 * MEGA
    async with running() as port:
        tracemalloc.start()
        try:
            # And no more of it.
            status, told = await answer_to(port, begun(PATH, BINARY_TYPE, 100 * MEGA, b"another head"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (status, told["error"]) == (422, "params_refused")
    assert peak < MEGA


@pytest.mark.parametrize(("limit", "error"), [(200 * MEGA, "params_refused"), (MEGA, "body_too_large")])
async def test_who_sends_all_of_it_reads_why_it_was_refused_and_memory_stays_flat(
    running: Running, node: FakeNode, limit: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 60)  # on a busy machine 64 MB take longer than the usual two
    node.limit = limit
    async with running() as port:
        tracemalloc.start()
        try:
            start, parts = begun(PATH, BINARY_TYPE, 64 * MEGA), [b"another head" + bytes(MEGA - 12)] * 64
            _, told = await answer_to(port, start, parts)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert told["error"] == error
    assert peak < 6 * MEGA
    assert node.landed == []


async def test_a_large_body_is_held_once(running: Running, node: FakeNode) -> None:
    node.limit = 64 * MEGA
    part = bytes(MEGA)
    async with running() as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:

        async def pieces() -> AsyncIterator[bytes]:
            yield WANTED
            for _ in range(32):
                yield part

        headers = {**BINARY, "Content-Length": str(len(WANTED) + 32 * MEGA)}
        tracemalloc.start()
        try:
            answer = await http.post(f"http://127.0.0.1:{port}{PATH}", content=pieces(), headers=headers)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert answer.status_code == 200
    assert len(node.landed[0]) == 32 * MEGA + len(WANTED)
    assert peak < (32 + 6) * MEGA


async def test_a_fault_in_looking_at_the_head_is_answered_and_logged(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(node, "inspect", broken)
    client, headers = create_app(node, SETTINGS).test_client(), {**BINARY, "Content-Length": str(len(WANTED))}
    answer = await client.post(PATH, data=WANTED, headers=headers)
    assert (answer.status_code, (await answer.get_json())["error"]) == (500, "internal_error")
    assert "the secret inside" in caplog.text


async def test_a_refused_body_leaves_the_memory() -> None:
    async def receive() -> weakref.ref[LimitedBody]:
        node = FakeNode()
        body = LimitedBody(
            250, 250, Landing(lambda head, total: node.inspect(PATH, BINARY_TYPE, head, total), 250, 64)
        )
        body.append(b"not wanted" * 20)
        body.set_complete()
        with suppress(PeerError):
            await body.read()
            pytest.fail("it is not wanted")
        return weakref.ref(body)

    gc.collect()
    gc.disable()  # what refers to itself in a circle stays
    try:
        assert (await receive())() is None
    finally:
        gc.enable()


@given(st.binary(max_size=300), st.integers(0, 320), st.lists(st.integers(1, 300), max_size=20), st.booleans())
@settings(deadline=None)
def test_any_bytes_in_any_pieces_are_taken_whole_or_refused_in_words(
    rest: bytes, announced: int, cuts: list[int], wanted: bool
) -> None:
    sent = WANTED + rest if wanted else rest
    node = FakeNode()

    async def receive() -> bytes:
        landing = Landing(lambda head, total: node.inspect(PATH, BINARY_TYPE, head, total), 250, 64)
        body = LimitedBody(announced, 250, landing)
        edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
        for start, stop in pairwise(edges):
            body.append(sent[start:stop])
        body.set_complete()
        return bytes(await body.read())

    whole = sent.startswith(WANTED) and len(sent) == announced <= 250
    if whole or announced == len(sent) == 0:
        assert asyncio.run(receive()) == sent
    else:
        with pytest.raises(PeerError) as told:
            asyncio.run(receive())
        assert type(told.value) in (BodyTooLarge, ParamsRefused, UnreadableBody)


async def test_a_refused_body_drops_what_still_comes() -> None:
    body = LimitedBody(100, 250, Landing(lambda head, total: True, 250, 64))
    body.append(b"x" * 60)
    body.clear()
    body.append(b"x" * 60)
    body.set_complete()
    assert body.received == 120
    assert body.landing is None
    with pytest.raises(BodyTooLarge):
        await body.read()
