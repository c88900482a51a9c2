"""Data brought to a trainer: whole, in their place, and nowhere else; or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flnet.training import bringing, importing
from flnet.training.api import TrainerFile
from flnet.training.importing import Upload, bring_to
from flnet.training.places import DataThere, ImportRefused, NoRoom, Place, place_of

from .evil_archives import EVIL, tarred, zipped

GB = 1.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")


@pytest.fixture
def table(tmp_path: Path) -> Place:
    return place_of(TrainerFile("X", "x.toml", place="ill.csv"), tmp_path / "data")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def given(upload: Upload, *files: tuple[str, bytes]) -> Upload:
    for name, data in files:
        upload.begin(name)
        upload.write(data[:1])
        upload.write(data[1:])
    return upload


@pytest.mark.parametrize("name", EVIL)
def test_evil_archives_are_refused_in_words_and_leave_nothing(tmp_path: Path, place: Place, name: str) -> None:
    make, words = EVIL[name]
    outside = set(tmp_path.iterdir())
    source = make(tmp_path)
    with pytest.raises(ImportRefused, match=words):
        bring_to(place, source, GB)
    assert list(place.datasets.iterdir()) == []
    assert {path.name for path in set(tmp_path.iterdir()) - outside} <= {source.name, "inner.zip", "data"}


def test_bombs_are_refused(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped(tmp_path / "a.zip", ("zeros", bytes(3_000_000)))
    with pytest.raises(ImportRefused, match=r"a.zip holds more than 0.001 GB; FLNET_MAX_IMPORT_GIGABYTES=0.001"):
        bring_to(place, bomb, 0.001)
    monkeypatch.setattr(bringing, "_SMALL", 1000)
    with pytest.raises(ImportRefused, match="holds more than"):  # 200 times as large, and no more
        bring_to(place, bomb, GB)
    monkeypatch.setattr(bringing, "MAX_FILES", 10)
    with pytest.raises(ImportRefused, match="more than 10 files"):
        bring_to(place, zipped(tmp_path / "b.zip", *((str(n), b"") for n in range(20))), GB)
    assert list(place.datasets.iterdir()) == []


@pytest.mark.parametrize(
    "pack",
    [
        lambda f: zipped(f / "a.zip", ("pets/cat/1", b"11"), ("pets/dog/2", b"2"), ("__MACOSX/x", b"")),
        lambda f: tarred(f / "a.tar.gz", ("cat/1", b"11"), ("dog/2", b"2")),
    ],
)
def test_an_archive_fills_the_place(tmp_path: Path, place: Place, pack: Callable[[Path], Path]) -> None:
    moved = bring_to(place, pack(tmp_path), GB)
    assert (moved.place, moved.files, moved.size, moved.aside) == (place.path, 2, 3, None)
    assert contents(place.datasets) == {"pets/cat/1": b"11", "pets/dog/2": b"2"}


def test_files_of_a_chosen_folder_fill_the_place(place: Place) -> None:
    upload = given(Upload(place, GB), ("chosen/cat/1", b"11"), ("chosen/.DS_Store", b"x"), ("chosen/dog/2", b"2"))
    assert contents(upload.settle().place) == {"cat/1": b"11", "dog/2": b"2"}
    assert [path.name for path in place.datasets.iterdir()] == ["pets"]


def test_one_file_goes_into_a_folder_or_becomes_the_file_that_is_read(
    place: Place, table: Place, tmp_path: Path
) -> None:
    given(Upload(place, GB), ("x.npz", b"xyz")).settle()
    given(Upload(table, GB), ("other name.csv", b"a,b")).settle()
    assert contents(place.datasets) == {"pets/x.npz": b"xyz", "ill.csv": b"a,b"}
    with pytest.raises(ImportRefused, match=r"reads one file, ill.csv; 2 came"):
        given(Upload(table, GB, replace=True), ("a.csv", b"1"), ("b.csv", b"2")).settle()
    assert contents(table.datasets)["ill.csv"] == b"a,b"
    bring_to(table, zipped(tmp_path / "a.zip", ("t/x.csv", b"new")), GB, replace=True)
    assert contents(table.datasets)["ill.csv"] == b"new"


def test_what_is_there_stays_unless_it_is_to_be_replaced(place: Place) -> None:
    first = Upload(place, GB)
    given(Upload(place, GB), ("x", b"old")).settle()
    with pytest.raises(DataThere, match=r"has data in .*pets already"):
        Upload(place, GB)
    with pytest.raises(DataThere):  # both began before there was anything
        given(first, ("x", b"late")).settle()
    moved = given(Upload(place, GB, replace=True), ("x", b"new")).settle()
    assert contents(place.datasets) == {"pets/x": b"new", "pets.before-1/x": b"old"}
    again = given(Upload(place, GB, replace=True), ("x", b"newer")).settle()
    assert (moved.aside, again.aside) == (place.datasets / "pets.before-1", place.datasets / "pets.before-2")
    again.undo()
    assert contents(place.datasets) == {"pets/x": b"new", "pets.before-1/x": b"old"}
    moved.undo()
    assert contents(place.datasets) == {"pets/x": b"old"}


def test_a_broken_upload_leaves_nothing(place: Place) -> None:
    upload = given(Upload(place, GB), ("x", b"half"))
    assert len(contents(place.datasets)) == 1
    upload.discard()
    upload.discard()
    assert list(place.datasets.iterdir()) == []
    with pytest.raises(ImportRefused, match="no files came"):
        Upload(place, GB).settle()
    with pytest.raises(ImportRefused, match="File exists"):
        given(Upload(place, GB), ("x", b"1"), ("./x", b"2"))


def test_more_than_allowed_is_refused_while_it_comes(place: Place) -> None:
    upload = Upload(place, 2e-6)
    upload.begin("x")
    upload.write(bytes(2000))
    with pytest.raises(ImportRefused, match="holds more than 2e-06 GB"):
        upload.write(b"1")
    upload.discard()


def test_a_full_disk_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, data: Any) -> None:
            raise OSError(errno.ENOSPC, "no space")

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "no space")

    upload = Upload(place, GB)
    upload._open = Full()  # type: ignore[assignment]
    with pytest.raises(NoRoom, match=r"the disk of .* is full; make room"):
        upload.write(b"x")
    upload.discard()
    assert list(place.datasets.iterdir()) == []


def test_a_rename_that_fails_puts_the_old_data_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given(Upload(place, GB), ("x", b"old")).settle()
    upload = given(Upload(place, GB, replace=True), ("y", b"new"))
    plain = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "came":
            raise PermissionError(errno.EPERM, "not allowed")
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(ImportRefused, match="not allowed"):
        upload.settle()
    assert contents(place.datasets) == {"pets/x": b"old"}


def test_what_a_killed_process_left_is_swept_away(place: Place) -> None:
    place.datasets.mkdir()
    dead, alive = place.datasets / ".import-999999999-x", place.datasets / f".import-{os.getppid()}-x"
    for folder in (dead, alive, place.datasets / ".import-mine"):
        folder.mkdir()
    Upload(place, GB).discard()
    assert not dead.exists()
    assert alive.exists()
    assert importing.DRAFT == ".import-"


def test_links_and_nothing_are_not_brought(place: Place, tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/x").symlink_to("/etc/passwd")
    with pytest.raises(ImportRefused, match="is a link or a device"):
        bring_to(place, tmp_path / "pets", GB)
    with pytest.raises(ImportRefused, match="is not there"):
        bring_to(place, tmp_path / "nowhere", GB)
