"""The store on disk does what its twin in memory does, and goes on over restarts, damage and a full disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError, StartError
from flnet.params.params import Digest, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import Update
from flnet.store.base import KeptModel, SavedJob
from flnet.store.sqlite_store import DiskStore
from tests.helpers import key, params

T, OTHER = TrainerId("T"), TrainerId("OTHER")


def kept(peer: str, round: int = 0, digest: str | None = None, **arrays: Any) -> KeptUpdate:
    """An update of a peer; by digest, or with its parameters."""
    found = Update(PeerId(peer), key(round), params(**arrays), 3, 2, 0.5)
    return KeptUpdate(found, None if digest is None else Digest(digest))


def figures(round: int = 0) -> dict[str, Any]:
    """What a store says of a model."""
    return {"round": round, "contributors": 2, "accuracy": 0.5}


async def test_a_job_with_all_its_parts_comes_back_after_a_restart(tmp_path: Path) -> None:
    large = params(w=range(20_000))
    first = SavedJob(
        {"round": 2, "updates_from": 2},
        params(w=[1.0]),
        params(head=[2.0]),
        params(w=[3.0]),
        (kept("b", 2, w=[4.0]), kept("c", 2, digest="c" * 64), kept("d", 2, w=large["w"])),
        ({"round": 1, "initiator": "a", "outcome": "averaged"},),
    )
    store = DiskStore(tmp_path)
    await store.save(T, first)
    await store.close()
    again = DiskStore(tmp_path)
    assert await again.load(T) == first
    assert await again.load(OTHER) is None
    assert again.notices() == []
    await again.close()


async def test_updates_that_are_averaged_go_and_their_files_with_them(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    await store.save(T, SavedJob({"updates_from": 0}, updates=(kept("b", w=range(20_000)), kept("c", 1, w=[1.0]))))
    assert len(list((tmp_path / "models").iterdir())) == 1
    await store.save(T, SavedJob({"updates_from": 1}, params(w=[1.0])))
    loaded = await store.load(T)
    assert loaded is not None
    assert [one.update.peer for one in loaded.updates] == ["c"]
    await store.close()  # after what it does when nobody waits
    assert [path.stem for path in (tmp_path / "models").iterdir()] == [params(w=[1.0]).digest]


async def test_the_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "state")
    modes = [stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) for name in (".", "models", "state.sqlite3")]
    assert modes == [0o700, 0o700, 0o600]
    await store.close()


async def test_a_second_store_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    with pytest.raises(StartError, match="in use by another node"):
        DiskStore(tmp_path)
    await store.close()
    await store.close()
    with pytest.raises(LocalError, match="closed"):
        await store.load(T)
    await DiskStore(tmp_path).close()


async def test_a_save_holds_up_the_store_s_thread_and_not_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, arrived, seen = DiskStore(tmp_path), threading.Event(), []
    real = os.fsync

    def slow(handle: int) -> None:
        seen.append(threading.current_thread().name)
        arrived.wait(30)
        real(handle)

    monkeypatch.setattr("flnet.store.state_folder.os.fsync", slow)
    saving = asyncio.create_task(store.save(T, SavedJob({}, params(w=[1.0]))))
    while not seen:
        await asyncio.sleep(0)  # the loop runs on while the disk is at work
    assert not saving.done()
    arrived.set()
    await saving
    assert set(seen) == {"store_0"}
    await store.close()


async def test_a_damaged_model_is_named_and_the_one_before_it_is_used(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for number, value in enumerate([1.0, 2.0]):
        await store.save(
            T, SavedJob({"model_round": number, "round": number}, params(w=[value]), params(h=[value]))
        )
        await store.keep_model(T, figures(number), params(w=[value]), params(h=[value]))
    await store.close()
    bad = params(w=[2.0]).digest
    path = tmp_path / "models" / f"{bad}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    again = DiskStore(tmp_path)
    loaded = await again.load(T)
    assert loaded is not None
    assert (loaded.params, loaded.private) == (params(w=[1.0]), params(h=[1.0]))
    assert (loaded.snapshot["round"], loaded.snapshot["model_round"]) == (1, 0)
    told = " ".join(again.notices())
    assert f"the file of {bad[:10]} holds other parameters" in told
    assert "goes on from its model of round 0" in told
    assert again.notices() == []  # told once
    assert await again.load_model(T, bad) is None
    assert path.with_name(path.name + ".damaged-1").exists()
    await again.close()


async def test_a_damaged_database_is_set_aside_and_the_model_files_are_used(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for number in range(3):
        await store.save(T, SavedJob({"model_round": number, "contributors": 2}, params(w=[number])))
    await store.keep_model(T, figures(2), params(w=[2.0]), params())
    await store.close()
    (tmp_path / "state.sqlite3").write_bytes(b"\x00 no database \xff" * 1000)
    again = DiskStore(tmp_path)
    told = " ".join(again.notices())
    assert "renamed to state.sqlite3.damaged-1" in told
    assert "T goes on from the average of round 2" in told
    loaded = await again.load(T)
    assert loaded is not None
    assert loaded.params == params(w=[2.0])
    assert loaded.snapshot["round"] == 2
    await again.close()
    await DiskStore(tmp_path).close()
    assert (tmp_path / "state.sqlite3.damaged-1").read_bytes().startswith(b"\x00 no database")


async def test_what_was_not_kept_is_not_half_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(tmp_path)
    before = SavedJob({"round": 1}, params(w=[1.0]))
    await store.save(T, before)
    with pytest.raises(LocalError, match="plain JSON"):
        await store.save(T, SavedJob({"x": float("nan")}, params(w=[2.0])))
    model = KeptModel.of({"x": float("nan")}, params(w=[2.0]), params())
    with pytest.raises(LocalError, match="plain JSON"):
        await store.save(T, SavedJob({"round": 2}, params(w=[2.0]), models=(model,)))
    monkeypatch.setattr("flnet.store.sqlite_tables.as_text", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await store.save(T, SavedJob({"round": 2}, params(w=[2.0])))
    monkeypatch.undo()
    assert await store.load(T) == before
    await store.save(T, SavedJob({"round": 3}, params(w=[1.0])))
    await store.close()
    assert [path.stem for path in (tmp_path / "models").iterdir()] == [params(w=[1.0]).digest]
    await store.close()


async def test_a_job_and_the_model_that_it_came_to_hold_are_one_commit(tmp_path: Path) -> None:
    store, said = DiskStore(tmp_path), list[str]()
    store._db.set_trace_callback(said.append)
    model = KeptModel.of(figures(0), params(w=[1.0]), params(h=[1.0]))
    await store.save(T, SavedJob({"round": 0}, params(w=[1.0]), params(h=[1.0]), models=(model,)))
    assert said.count("COMMIT") == 1
    assert await store.load_model(T, model.digest) == model
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_is_told_and_all_is_well_when_there_is_room_again(small_disk: Path) -> None:
    store = DiskStore(small_disk / "state")
    before = SavedJob({"round": 1}, params(w=[1.0]))
    await store.save(T, before)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(b"0" * 4_000_000)
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:  # to the last page
            file.write(b"0" * 4096)
    with pytest.raises(LocalError, match="cannot be written: No space left on device"):
        await store.save(T, SavedJob({"round": 2}, params(w=range(100_000))))
    with pytest.raises(LocalError, match="cannot be written"):
        await store.save(T, SavedJob({"round": 1, "pad": "x" * 1_000_000}))  # more than SQLite has in reserve
    loaded = await store.load(T)
    assert loaded is not None
    assert loaded.params == before.params
    ballast.unlink()
    after = SavedJob({"round": 2}, params(w=[2.0]))
    await store.save(T, after)
    await store.close()
    again = DiskStore(small_disk / "state")
    assert await again.load(T) == after
    await again.close()


def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="set FLNET_STATE_PATH"):
        DiskStore(tmp_path / "file" / "state")
