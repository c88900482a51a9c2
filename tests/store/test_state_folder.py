"""Parameter files: whole under their digest, or not there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import StartError
from flnet.params.params import Digest, Params, former_digest_of
from flnet.store import state_folder as module
from flnet.store.state_folder import (
    NAME,
    DamagedFile,
    FolderLock,
    ModelFiles,
    from_bytes,
    holder,
    identity,
    to_bytes,
)
from tests.helpers import params

MODEL = params(w=[[1.0, 2.0]], b=[3.0])


def test_what_was_written_is_read_and_says_what_it_is(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    digest = files.write(MODEL, {"trainer": "T"})
    assert digest == MODEL.digest
    assert files.read(digest) == MODEL
    assert files.metadata(digest) == {"trainer": "T"}
    assert list(files.names()) == [digest]
    assert files.unfinished() == []


def test_equal_parameters_are_written_once(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    written = files.path(files.write(MODEL, {})).stat().st_mtime_ns
    assert files.path(files.write(params(w=[[1.0, 2.0]], b=[3.0]), {})).stat().st_mtime_ns == written


def test_all_dtypes_scalars_and_nothing_at_all_come_back(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    mixed = Params(
        {
            "half": np.ones(3, np.float16),
            "count": np.int64(7),
            "flags": np.array([True, False]),
            "none": np.empty((0, 4), np.float32),
        }
    )
    for one in (mixed, Params()):
        assert files.read(files.write(one, {})).digest == one.digest


@given(st.data())
def test_any_damage_is_seen(data: st.DataObject) -> None:
    whole = to_bytes(MODEL)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for body in (bytes(damaged), cut):
        try:
            found = from_bytes(body)
        except DamagedFile:
            continue
        # Spaces of the header may change; whatever else is read must show in the digest.
        assert found.digest != MODEL.digest or found == MODEL


def test_a_file_with_other_parameters_is_not_taken_for_whole(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    digest = files.write(MODEL, {})
    files.path(digest).write_bytes(to_bytes(params(w=[[1.0, 2.0]], b=[4.0])))
    with pytest.raises(DamagedFile, match="holds other parameters"):
        files.read(digest)
    (tmp_path / f"{digest}.safetensors.damaged-1").touch()
    assert files.set_aside(digest).name.endswith(".safetensors.damaged-2")
    assert files.names() == {}
    with pytest.raises(DamagedFile, match="No such file"):
        files.read(digest)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.ENOMEM])
def test_a_file_that_cannot_be_read_now_does_not_count_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    files = ModelFiles(tmp_path)
    digest = files.write(MODEL, {})

    def fails(path: Path) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", fails)
    for read in (files.read, files.metadata):
        with pytest.raises(OSError, match=os.strerror(number)):
            read(digest)


def test_a_sector_that_the_disk_cannot_read_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ModelFiles(tmp_path)
    digest = files.write(MODEL, {})

    def fails(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fails)
    with pytest.raises(DamagedFile, match="cannot be read: Input/output error"):
        files.read(digest)
    assert files.metadata(digest) == {}


def test_a_name_that_no_file_can_have_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="cannot be read"):
        ModelFiles(tmp_path).read(Digest("\0" * 64))


def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ModelFiles(tmp_path)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("flnet.store.state_folder.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(MODEL, {})
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_forced_to_the_disk_once_for_all_new_files_and_again_where_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, works = ModelFiles(tmp_path), False
    forced: list[int] = []

    def sync(folder: Path) -> None:
        if not works:
            raise OSError(errno.EIO, "Input/output error")
        forced.append(len(files.names()))

    monkeypatch.setattr(module, "sync_folder", sync)
    models = [(params(w=[float(number)]), {"number": str(number)}) for number in range(3)]
    with pytest.raises(OSError, match="Input/output"):
        files.write_all(models[:1])
    works = True
    files.write_all(models[:1])  # its file is there, but its name might not survive
    files.write_all(models)
    files.write_all(models)
    assert forced == [1, 3]
    assert [files.metadata(one.digest) for one, _ in models] == [said for _, said in models]


def test_what_a_stopped_writer_left_is_removed(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    files.path(MODEL.digest).with_suffix(module.UNFINISHED).write_bytes(b"half")
    assert files.remove_unfinished() == 1
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_wanted_stays(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    stays, goes = files.write(MODEL, {}), files.write(params(w=[9.0]), {})
    assert files.keep_only({stays}) == [goes]
    assert list(files.names()) == [stays]


def test_a_file_of_an_earlier_version_is_read_under_its_name(tmp_path: Path) -> None:
    files, former = ModelFiles(tmp_path), Digest(former_digest_of(MODEL))
    files.path(files.write(MODEL, {})).rename(files.path(former))
    assert files.read(former) == MODEL
    files.path(former).write_bytes(to_bytes(params(w=[[1.0, 2.0]], b=[4.0])))
    with pytest.raises(DamagedFile, match="holds other parameters"):
        files.read(former)


def test_an_id_stays_until_another_is_given(tmp_path: Path) -> None:
    first, told = identity(tmp_path)
    assert uuid.UUID(first) and told == ""
    assert identity(tmp_path) == (first, "")
    name, told = identity(tmp_path, "WARD_7")
    assert name == "WARD_7" and f"was {first} and is WARD_7 now" in told
    assert identity(tmp_path, "WARD_7") == identity(tmp_path) == ("WARD_7", "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 3}', '{"id": "a b\\n"}', "\x00"])
def test_a_damaged_file_is_named_and_kept_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    name, told = identity(tmp_path)
    assert uuid.UUID(name)
    assert "renamed to node.json.damaged-1" in told
    assert (tmp_path / "node.json.damaged-1").read_text() == text


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be kept"):
        identity(tmp_path / "missing")


# Two processes on one folder: the second is told.


HOLD = "import sys; from pathlib import Path; from flnet.store.state_folder import FolderLock\n"
HOLD += "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def test_a_second_holder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(StartError, match=f"in use by another node .process {os.getpid()}."):
        FolderLock(tmp_path)
    lock.close()
    FolderLock(tmp_path).close()


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StartError, match=str(other.pid)):
            FolderLock(tmp_path)
        other.kill()
        other.wait()
    FolderLock(tmp_path).close()


@pytest.mark.parametrize("text", ["", "nobody", "\x00\xff"])
def test_what_is_no_number_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text, "latin-1")
    assert holder(tmp_path) == ""
    assert holder(tmp_path / "missing") == ""
