"""The store on disk does what its twin in memory does, and goes on over restarts, damage and a full disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError, StartError
from flnet.params.params import Digest, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import Update
from flnet.store import repair
from flnet.store.base import KeptModel, Retention, SavedJob
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


async def with_models(folder: Path, count: int = 3) -> list[str]:
    """A closed store with a job that has had so many models; the names of its model files."""
    store = DiskStore(folder)
    for number in range(count):
        snapshot = {"round": number, "model_round": number, "updates_from": number, "phase": "IDLE"}
        model = KeptModel.of(figures(number), params(w=[number]), params(h=[number]))
        record = {"round": number, "initiator": "a"}
        updates = (kept("b", number, w=[7.0]), kept("c", number, w=[8.0]))
        job = SavedJob(snapshot, model.shared, model.private, updates=updates, records=(record,), models=(model,))
        await store.save(T, job)
    await store.save_peers([{"id": name, "address": f"{name}:4000"} for name in "bc"])
    await store.save_trust([{"fingerprint": name} for name in "fg"])
    await store.begin_events()
    await store.add_events(
        [{"id": n, "at": 1.0, "kind": "k", "text": "t", "trainer": "", "data": {"n": n}} for n in (1, 2)]
    )
    await store.close()
    return models_in(folder)


def models_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "models").iterdir())


KILLED = """import os, sys
from pathlib import Path
from flnet.store import repair
from flnet.store.sqlite_store import DiskStore
setattr(repair, sys.argv[2], lambda *_: os._exit(9))
DiskStore(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("moment", ["rebuild", "set_aside", "sync_folder"])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_rebuild_that_is_killed_is_begun_again_and_no_model_is_lost(
    tmp_path: Path, moment: str, is_gone: bool
) -> None:
    await with_models(tmp_path)
    averages = {f"{params(w=[number]).digest}.safetensors" for number in range(3)}
    database = tmp_path / "state.sqlite3"
    database.unlink() if is_gone else database.write_bytes(b"no database" * 1000)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False)
    assert killed.returncode == 9
    for _ in range(2):
        again = DiskStore(tmp_path)
        loaded = await again.load(T)
        await again.close()
        assert averages <= set(models_in(tmp_path))
        assert loaded is not None
        assert (loaded.params, loaded.snapshot["round"]) == (params(w=[2.0]), 2)
    assert not list(tmp_path.glob("*.unfinished*"))


async def test_without_room_for_a_new_database_the_damaged_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await with_models(tmp_path)
    (tmp_path / "state.sqlite3").write_bytes(b"no database" * 1000)

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(repair, "put_job", full)
    with pytest.raises(StartError, match="disk is full"):
        DiskStore(tmp_path)
    assert (tmp_path / "state.sqlite3").read_bytes().startswith(b"no database")
    monkeypatch.undo()
    again = DiskStore(tmp_path)
    assert "T goes on from the average of round 2" in " ".join(again.notices())
    await again.close()
    assert models_in(tmp_path) == before


async def test_damaged_models_beside_a_damaged_database_are_kept_under_another_name(tmp_path: Path) -> None:
    names = await with_models(tmp_path, 1)
    for name in names:
        (tmp_path / "models" / name).write_bytes(b"damaged")
    (tmp_path / "state.sqlite3").write_bytes(b"no database" * 1000)
    again = DiskStore(tmp_path)
    assert "no model file could be used" in again.notices()
    await again.close()
    await DiskStore(tmp_path).close()
    assert models_in(tmp_path) == [f"{name}.damaged-1" for name in names]


# A damaged sector inside the text of one row, of which SQLite's own check finds nothing.


DAMAGE = pytest.mark.parametrize(
    "damage", [b"\0" * 8, b"\xff\xfe" * 4, b"[] "], ids=["zeros", "no UTF-8", "no object"]
)


def damage_row(folder: Path, table: str, column: str, damage: bytes, where: str = "1") -> None:
    """Damage one row: it becomes this, or is overwritten with it from its first sign on."""
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite3")) as db, db:
        (said,) = db.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
        now = damage if damage.isascii() and damage.strip(b"\0") else damage + said.encode()[len(damage) :]
        db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", (now,))
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@DAMAGE
async def test_without_its_snapshot_a_job_goes_on_from_its_newest_model(tmp_path: Path, damage: bytes) -> None:
    before = await with_models(tmp_path)
    damage_row(tmp_path, "jobs", "snapshot", damage)
    store = DiskStore(tmp_path)
    loaded = await store.load(T)
    assert loaded is not None
    assert (loaded.params, loaded.private) == (params(w=[2.0]), params(h=[2.0]))
    assert [loaded.snapshot[name] for name in ("round", "model_round", "contributors", "phase")] == [
        2,
        2,
        2,
        "IDLE",
    ]
    assert [record["round"] for record in loaded.records] == [0, 1, 2]
    told = store.notices()
    assert "a row of the table jobs in the database is damaged" in told[0]
    assert told[1:] == ["T goes on from its model of round 2"]
    await store.close()
    assert models_in(tmp_path) == before


@DAMAGE
async def test_a_job_of_which_nothing_is_left_is_told_in_words(tmp_path: Path, damage: bytes) -> None:
    store = DiskStore(tmp_path)
    await store.save(T, SavedJob({"round": 0}))
    await store.save(OTHER, SavedJob({"round": 4}))
    await store.close()
    damage_row(tmp_path, "jobs", "snapshot", damage, "trainer = 'T'")
    again = DiskStore(tmp_path)
    with pytest.raises(LocalError, match="a row of the table jobs in the database is damaged"):
        await again.load(T)
    assert await again.load(OTHER) == SavedJob({"round": 4})
    await again.close()


@DAMAGE
async def test_one_damaged_row_costs_what_it_held_and_nothing_else(tmp_path: Path, damage: bytes) -> None:
    await with_models(tmp_path)
    damage_row(tmp_path, "rounds", "record", damage, "round = 1")
    damage_row(tmp_path, "peers", "fields", damage, "id = 'b'")
    damage_row(tmp_path, "events", "data", damage, "id = 1")
    damage_row(tmp_path, "updates", "more", damage, "peer = 'b'")
    damage_row(tmp_path, "models", "figures", damage, "place = 3")
    store = DiskStore(tmp_path)
    loaded = await store.load(T)
    assert loaded is not None
    assert ([one["round"] for one in loaded.records], loaded.params) == ([0, 2], params(w=[2.0]))
    assert [one.update.peer for one in loaded.updates] == ["c"]
    assert [one["round"] for one in await store.records(T)] == [0, 2]
    assert [one["round"] for one in await store.records_after(T, (-1, ""), 9)] == [0, 2]
    assert [one["round"] for one in await store.every_record(T, 1)] == [0, 2]
    assert await store.load_peers() == [{"id": "c", "address": "c:4000"}]
    assert [one["id"] for one in await store.events(9)] == [2]
    assert [one.figures["round"] for one in await store.models(T)] == [1, 0]
    assert await store.load_model(T, params(w=[2.0]).digest) is None
    told = store.notices()
    tables = ("rounds", "updates", "peers", "events", "models")
    assert len(told) == len(tables)  # once for each
    assert all(f"the table {table} in" in words for table, words in zip(tables, told, strict=True))
    await store.close()


@DAMAGE
async def test_events_are_forgotten_in_their_turn_also_where_one_is_damaged(tmp_path: Path, damage: bytes) -> None:
    await with_models(tmp_path)
    damage_row(tmp_path, "events", "data", damage, "id = 1")
    store = DiskStore(tmp_path, Retention(1, 10**9, 9, 1))
    await store.add_events([{"id": 3, "at": 1.0, "kind": "k", "text": "t", "trainer": "", "data": {}}])
    assert [one["id"] for one in await store.events(9)] == [3]
    await store.close()


@DAMAGE
async def test_no_decision_on_a_key_is_left_out(tmp_path: Path, damage: bytes) -> None:
    await with_models(tmp_path)
    damage_row(tmp_path, "trust", "fields", damage, "fingerprint = 'f'")
    store = DiskStore(tmp_path)
    with pytest.raises(LocalError, match=r"the table trust in the database is damaged: .*; restore a backup"):
        await store.load_trust()
    await store.close()


async def test_a_damaged_number_of_events_is_told_in_words(tmp_path: Path) -> None:
    await with_models(tmp_path)
    damage_row(tmp_path, "node", "value", b"\0\0")
    store = DiskStore(tmp_path)
    with pytest.raises(LocalError, match="the table node in the database is damaged"):
        await store.begin_events()
    await store.end_events(7)
    assert await store.begin_events() == 7
    await store.close()


@pytest.mark.parametrize("damage", [b"\0" * 64, b"\xff" * 64], ids=["zeros", "no UTF-8"])
async def test_no_file_is_removed_while_a_damaged_row_may_hide_that_it_is_needed(
    tmp_path: Path, damage: bytes
) -> None:
    store = DiskStore(tmp_path)
    await store.save(T, SavedJob({"round": 0, "model_round": 0}, params(w=[1.0])))
    await store.close()
    damage_row(tmp_path, "jobs", "params", damage)
    again = DiskStore(tmp_path)
    assert "the table jobs in the database is damaged: expected the name of a model file" in again.notices()[0]
    loaded = await again.load(T)
    assert loaded is not None
    assert loaded.params is None
    await again.save(OTHER, SavedJob({}, params(w=[2.0])))
    await again.close()
    assert models_in(tmp_path) == sorted(f"{params(w=[value]).digest}.safetensors" for value in (1.0, 2.0))


# A file that cannot be read now may be whole.


@contextlib.contextmanager
def no_free_handle() -> Any:
    """A process that has as many files open as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_model_for_which_no_handle_is_free_stays_where_it_is(tmp_path: Path) -> None:
    before = await with_models(tmp_path)
    store, digest = DiskStore(tmp_path), params(w=[1.0]).digest
    with no_free_handle():
        with pytest.raises(LocalError, match="cannot be read: Too many open files"):
            await store.load_model(T, digest)
        with pytest.raises(LocalError, match="cannot be read: Too many open files"):
            await store.load(T)
    assert store.notices() == []
    assert models_in(tmp_path) == before
    model = await store.load_model(T, digest)
    assert model is not None
    assert model.shared == params(w=[1.0])
    await store.close()


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
