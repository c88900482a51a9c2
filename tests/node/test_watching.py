"""Watched folders: files are taken when they are whole, once; what cannot be used is named and put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flnet.events import Prepared
from flnet.node.core import NodeCore
from flnet.node.feed import RingFeed
from flnet.node.watching import Arrivals, Watch, files_in
from flnet.params import TrainerId
from flnet.training.places import ImportRefused
from tests.helpers import params, peer
from tests.jobs.helpers import declaration

T = TrainerId("T")


class Came:
    """An upload that keeps the names and what is in the files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.discarded = False

    def begin(self, name: str) -> None:
        self.files[name] = b""

    def write(self, data: bytes) -> None:
        self.files[[*self.files][-1]] += data

    def discard(self) -> None:
        self.discarded = True


class Taking:
    """Takes in all but files that hold "bad"; refuses everything while there is no place for data."""

    limit_bytes = 1

    def __init__(self) -> None:
        self.taken: list[Sequence[str]] = []
        self.tries = 0
        self.has_place = True

    def begin(self, trainer: TrainerId, *, replace: bool = False, add: bool = False) -> Any:
        assert add and not replace
        if not self.has_place:
            raise ImportRefused("set FLNET_DATASETS_PATH")
        return Came()

    async def take(self, upload: Any) -> Mapping[str, Any]:
        self.tries += 1
        if bad := [name for name, data in upload.files.items() if b"bad" in data]:
            raise ImportRefused(f"{bad[0]} holds nonsense")
        self.taken.append(sorted(upload.files))
        return {"files": len(upload.files), "added": 3}


class Folder:
    """A watched folder and a clock."""

    def __init__(self, path: Path) -> None:
        core = NodeCore(peer("a"), [T])
        core.hear(T, Prepared(declaration(), params(w=[1, 1])))
        self.job = core.jobs[T]
        self.path, self.feed, self.imports = path / T, RingFeed(lambda: 0.0), Taking()
        self.watch = Watch(core, self.imports, self.feed, path)
        self.now = 0.0

    def drop(self, name: str, data: bytes = b"good") -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(data)

    async def passes(self, seconds: float) -> list[Sequence[str]]:
        """So long, with a look every five seconds; what was taken."""
        before = len(self.imports.taken)
        for _ in range(int(seconds / 5)):
            self.now += 5
            await self.watch.look(T, self.now)
        return self.imports.taken[before:]

    def told(self) -> list[tuple[str, str]]:
        return [(item.kind, item.text) for item in self.feed.recent()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def test_files_are_taken_together_and_once(folder: Folder) -> None:
    folder.drop("cat/1.png")
    folder.drop("cat/2.png")
    assert await folder.passes(15) == [["cat/1.png", "cat/2.png"]]
    assert await folder.passes(300) == []
    assert folder.told() == [("files_added", f"2 new files in {folder.path} were added: 3 rows")]
    folder.drop("cat/3.png")
    assert await folder.passes(15) == [["cat/3.png"]]


async def test_a_file_that_still_grows_waits(folder: Folder) -> None:
    for size in range(1, 8):
        folder.drop("rows.csv", b"x" * size)
        assert await folder.passes(5) == []
    assert await folder.passes(10) == [["rows.csv"]]
    folder.drop("rows.csv", b"x" * 9)  # a machine that adds rows to one file
    assert await folder.passes(15) == [["rows.csv"]]


async def test_a_broken_file_is_tried_twice_and_put_aside_while_the_others_are_taken(folder: Folder) -> None:
    for name in "abdef":
        folder.drop(f"{name}.csv")
    folder.drop("c.csv", b"bad")
    assert sorted(name for batch in await folder.passes(15) for name in batch) == [
        *("a.csv", "b.csv", "d.csv", "e.csv", "f.csv")
    ]
    tries = folder.imports.tries
    assert await folder.passes(40) == []
    assert folder.imports.tries == tries  # it may be half-written: there is a minute for the rest of it
    assert await folder.passes(30) == []
    assert (folder.imports.tries, (folder.path / "set-aside/c.csv").read_bytes()) == (tries + 1, b"bad")
    aside = [text for kind, text in folder.told() if kind == "file_set_aside"]
    assert aside == [f"c.csv cannot be used and is in {folder.path / 'set-aside'} now: c.csv holds nonsense"]
    assert await folder.passes(600) == [] and folder.imports.tries == tries + 1


async def test_a_half_written_file_that_is_finished_within_the_minute_is_taken(folder: Folder) -> None:
    folder.drop("a.csv", b"bad")
    await folder.passes(15)
    folder.drop("a.csv", b"whole now")
    assert await folder.passes(15) == [["a.csv"]]


async def test_while_a_round_is_open_files_wait(folder: Folder) -> None:
    folder.drop("a.csv")
    folder.job.state.phase = type(folder.job.phase).TRAINING
    assert await folder.passes(60) == []
    folder.job.state.phase = type(folder.job.phase).IDLE
    assert await folder.passes(5) == [["a.csv"]]


async def test_where_there_is_no_place_for_data_nothing_is_put_aside_and_people_are_told_once(
    folder: Folder,
) -> None:
    folder.imports.has_place = False
    folder.drop("a.csv")
    await folder.passes(300)
    assert folder.told() == [("files_wait", f"files in {folder.path} wait: set FLNET_DATASETS_PATH")]
    folder.imports.has_place = True
    assert await folder.passes(5) == [["a.csv"]]


async def test_what_cannot_be_moved_is_named_and_not_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", fails)
    folder.drop("a.csv", b"bad")
    await folder.passes(600)
    assert folder.imports.tries == 2
    assert "left where it is (Permission denied)" in folder.told()[0][1]


def test_hidden_and_unfinished_files_links_and_those_put_aside_are_passed_over(tmp_path: Path) -> None:
    for name in ("a.csv", ".b.csv", "c.csv.part", ".d/e.csv", "f/g.PNG", "set-aside/h.csv", "i.crdownload"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    found = files_in(tmp_path)
    assert {name: size for name, (_, size) in found.items()} == {"a.csv": 5, "f/g.PNG": 5}
    assert files_in(tmp_path / "nowhere") == {}


def test_an_empty_file_is_never_whole_and_one_that_comes_back_is_new() -> None:
    arrivals = Arrivals()
    assert [arrivals.whole({"a": (1, 0)}, now) for now in (0, 100)] == [[], []]
    assert [arrivals.whole({"a": (1, 5)}, now) for now in (101, 105, 106)] == [[], [], ["a"]]
    arrivals.done(["a"])
    assert arrivals.whole({"a": (1, 5)}, 200) == []
    arrivals.whole({}, 201)
    assert [arrivals.whole({"a": (1, 5)}, now) for now in (202, 207)] == [[], ["a"]]


async def test_an_upload_that_breaks_off_is_discarded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    came = Came()
    monkeypatch.setattr(folder.imports, "begin", lambda trainer, add: came)
    folder.drop("a.csv")
    await folder.passes(5)
    (folder.path / "a.csv").unlink()
    with pytest.raises(OSError):  # noqa: PT011
        await folder.watch._add(T, ["a.csv"])
    assert came.discarded
