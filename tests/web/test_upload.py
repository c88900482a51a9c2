"""Bodies go to disk where they arrive, as one file or as the files of a form, and no more of them is kept."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import BadRequest

from flnet.errors import BodyTooLarge, UnreadableBody
from flnet.training.api import TrainerFile
from flnet.training.importing import Upload
from flnet.training.places import ImportRefused, place_of
from flnet.web.upload import Files, UploadBody


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


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
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


@pytest.mark.parametrize("at_once", range(1, 12))
def test_a_form_that_comes_in_tiny_pieces_is_read(at_once: int) -> None:
    sink, made = files()
    for start in range(0, len(WHOLE), at_once):
        sink.write(WHOLE[start : start + at_once])
    sink.write(b"")
    assert made[0].files == {"pets/cat/1.png": b"--her\r\n" * 50, "b": b""}


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
    body = UploadBody(6, 100)
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
        await UploadBody(101, 100).arrive_in(files()[0])
    body = UploadBody(None, 100)
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
    body = UploadBody(None, 100)
    arriving = asyncio.create_task(body.arrive_in(sink))
    await asyncio.sleep(0)
    body.append(b"ab")
    with pytest.raises(ImportRefused, match="holds more than"):
        await arriving
    upload.discard()
    assert list(tmp_path.iterdir()) == []
