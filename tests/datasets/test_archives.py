"""Data sets brought in: as they were, whole or not at all, and nothing outside their folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.datasets.archives import copy_or_unpack, member_path
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.errors import DataMissing, ImportRefused
from flnet.trainer import TrainerFile
from tests.datasets.evil_archives import EVIL, tarred, zipped, zipped_on_unix

FILES = (("pets/cat/1.txt", b"cat"), ("pets/dog/2.txt", b"dogs"), ("__MACOSX/x", b""), ("pets/.DS_Store", b""))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(source: Path, tmp_path: Path, **options: object) -> str:
    """The words of the refusal; nothing may be left behind."""
    with pytest.raises(DataMissing) as caught:
        copy_or_unpack(source, tmp_path / "data", **options)  # type: ignore[arg-type]
    assert contents(tmp_path / "data") == {}
    assert list((tmp_path / "data").glob("*")) == []
    return caught.value.message


@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("make", [zipped, tarred])
def test_an_archive_with_one_folder_brings_that_folder(
    tmp_path: Path, make: Callable[..., Path], name: str | None
) -> None:
    source = make(tmp_path / ("a.zip" if make is zipped else "a.tar.gz"), *FILES)
    found = copy_or_unpack(source, tmp_path / "data", name)
    assert (found.place, found.files, found.size) == (tmp_path / "data" / (name or "pets"), 2, 7)
    assert contents(found.place) == {"cat/1.txt": b"cat", "dog/2.txt": b"dogs"}
    assert source.exists()
    assert [path.name for path in (tmp_path / "data").iterdir()] == [name or "pets"]


@pytest.mark.parametrize(
    ("pack", "options"),
    [(zipped, {}), (zipped_on_unix, {}), (zipped_on_unix, {"encoding": "cp437"})],
    ids=["flagged UTF-8", "UTF-8 without flag, as zip of Linux", "code page 437"],
)
def test_names_with_umlauts_are_read_as_they_were_written(
    tmp_path: Path, pack: Callable[..., Path], options: dict[str, str]
) -> None:
    source = pack(tmp_path / "a.zip", ("Blüten/größe.txt", b"x"), ("Äpfel/1.txt", b"y"), **options)
    place = copy_or_unpack(source, tmp_path / "data").place
    assert contents(place) == {"Blüten/größe.txt": b"x", "Äpfel/1.txt": b"y"}


def test_an_archive_that_zip_of_linux_made_has_its_names(tmp_path: Path) -> None:
    if shutil.which("zip") is None:
        pytest.skip("zip is not installed")
    (tmp_path / "pics/Blüten").mkdir(parents=True)
    (tmp_path / "pics/Blüten/ä.txt").write_bytes(b"x")
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(["zip", "-qr", "../x.zip", "."], cwd=tmp_path / "pics", env=env, check=True)
    assert contents(copy_or_unpack(tmp_path / "x.zip", tmp_path / "data").place) == {"ä.txt": b"x"}


def test_another_archive_is_called_after_itself(tmp_path: Path) -> None:
    found = copy_or_unpack(tarred(tmp_path / "pets.v1.tar", ("./a/1", b"1"), ("b/2", b"2")), tmp_path / "data")
    assert found.place.name == "pets.v1"
    assert contents(found.place) == {"a/1": b"1", "b/2": b"2"}


def test_a_folder_and_a_file_are_copied(tmp_path: Path) -> None:
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    (tmp_path / "pets/cat/1.jpg").write_bytes(b"x")
    assert contents(copy_or_unpack(tmp_path / "pets", tmp_path / "data").place) == {"cat/1.jpg": b"x"}
    packed = zipped(tmp_path / "mnist.npz", *FILES)  # a zip file inside, but no archive of a data set
    found = copy_or_unpack(packed, tmp_path / "data")
    assert found.place == tmp_path / "data/mnist.npz"
    assert found.place.read_bytes() == packed.read_bytes()


def test_what_is_there_stays(tmp_path: Path) -> None:
    source = zipped(tmp_path / "a.zip", *FILES)
    copy_or_unpack(source, tmp_path / "data")
    with pytest.raises(DataMissing, match="pets is there already; remove it, or give another name with --as"):
        copy_or_unpack(source, tmp_path / "data")
    assert len(contents(tmp_path / "data")) == 2


@pytest.mark.parametrize("name", EVIL)
def test_evil_archives_are_refused_in_words_and_leave_nothing(tmp_path: Path, name: str) -> None:
    make, words = EVIL[name]
    source = make(tmp_path)
    before = set(tmp_path.iterdir())
    assert words in refused(source, tmp_path)
    place = place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")
    with pytest.raises(ImportRefused, match=words):
        bring_to(place, source, 1.0)
    assert list(place.datasets.iterdir()) == []
    assert set(tmp_path.iterdir()) == {*before, tmp_path / "data"}


def test_links_in_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/x").symlink_to("/etc/passwd")
    assert "pets/x is a link" in refused(tmp_path / "pets", tmp_path)


def test_more_than_allowed_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "large.csv"
    source.write_bytes(bytes(3000))
    words = refused(source, tmp_path, limit_gigabytes=2e-6)
    assert "holds more than 2e-06 GB; if that is right, allow more with --limit-gigabytes" in words


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz"])
def test_a_broken_archive_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is no archive at all" * 40)
    assert f"{name} cannot be unpacked" in refused(tmp_path / name, tmp_path)


def test_nothing_and_nonsense_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert "nowhere is not there" in refused(tmp_path / "nowhere", tmp_path)
    (tmp_path / "empty").mkdir()
    assert "holds no files" in refused(tmp_path / "empty", tmp_path)
    for name in ("a/b", "..", "", ".hidden"):
        assert "is no name for a data set" in refused(tmp_path / "empty", tmp_path, name=name)


# member_names


ROOT = Path("/data/here")
STEPS = st.lists(
    st.sampled_from(["..", ".", "", "a", "b.png", "C:", "~", "\\", "\0", "\u202e", "ü" * 200]), max_size=6
)


@given(st.one_of(st.text(max_size=80), STEPS.map("/".join)))
def test_whatever_the_name_a_file_stays_in_its_folder(name: str) -> None:
    try:
        inside = member_path(name)
    except ValueError:
        return
    if inside is not None:
        target = Path(os.path.normpath(ROOT.joinpath(*inside.parts)))
        assert ROOT in target.parents
        assert all(len(os.fsencode(step)) <= 255 and "\0" not in step for step in inside.parts)


def test_usual_names_are_taken_and_what_systems_leave_behind_is_passed_over() -> None:
    assert {str(member_path(name)) for name in ("a/b.png", "./a/b.png", "a//b.png")} == {"a/b.png"}
    left = ("", ".", "__MACOSX/a", "a/.DS_Store", "a/._b.png", "Thumbs.db")
    assert {member_path(name) for name in left} == {None}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../a", "leads out"),
        ("/etc/passwd", "leads out"),
        ("a\\b", "leads out"),
        ("c:a", "leads out"),
        ("a\nb", "cannot be seen"),
        ("a/" * 41, "folders deep"),
        ("é" * 128, "255 bytes"),
        ("\ud800", "cannot be seen"),
    ],
)
def test_others_are_refused_in_words(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        member_path(name)
