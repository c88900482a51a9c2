"""A backup holds a whole state, of a store that is open or closed, and a restore believes nothing that it did not check."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.cli.commands import cli
from flnet.errors import StartError
from flnet.params.params import TrainerId
from flnet.security.keys import ensure
from flnet.store import backup as module
from flnet.store.backup import MANIFEST, back_up, read_backup, restore
from flnet.store.base import KeptModel, SavedJob
from flnet.store.repair import examine
from flnet.store.sqlite_store import DiskStore
from flnet.store.state_folder import identity
from tests.helpers import params

T = TrainerId("T")


def job(round: int) -> SavedJob:
    average = params(w=[float(round)] * 4)
    figures = {"round": round, "contributors": 2, "accuracy": 0.5}
    record = {"round": round, "initiator": "a", "outcome": "averaged"}
    snapshot = {"round": round, "model_round": round, "updates_from": round + 1}
    return SavedJob(snapshot, average, records=(record,), models=(KeptModel.of(figures, average, params()),))


async def filled(folder: Path, rounds: int = 3) -> DiskStore:
    """An open store with some rounds, and all else that a node keeps."""
    store = DiskStore(folder)
    identity(folder, "ana")
    ensure(folder)
    (folder / "trainers" / "T").mkdir(parents=True)
    (folder / "trainers" / "T" / "split-1.npz").write_bytes(b"rows")
    (folder / "trainers" / "T" / "images-1.npy").write_bytes(b"pictures")
    (folder / "node.json.damaged-1").write_bytes(b"{")
    for round in range(rounds):
        await store.save(T, job(round))
    return store


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """An archive of a closed store in `tmp_path / "state"`."""

    async def make() -> None:
        await (await filled(tmp_path / "state")).close()

    asyncio.run(make())
    back_up(tmp_path / "state", tmp_path / "ana.flnet")
    return tmp_path / "ana.flnet"


@pytest.mark.parametrize("is_open", [True, False])
async def test_what_was_backed_up_comes_back(tmp_path: Path, is_open: bool) -> None:
    source, target, archive = tmp_path / "state", tmp_path / "deep" / "again", tmp_path / "ana.flnet"
    store = await filled(source)
    if not is_open:
        await store.close()
    info = back_up(source, archive)
    if is_open:
        await store.close()
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert (info.node, info.missing) == ("ana", ())
    assert read_backup(archive) == restore(archive, target) == info
    held = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert held == {*info.files, "lock"}
    assert {"identity.key", "identity.pub", "node.json", "trainers/T/split-1.npz"} < held
    assert not any("images-" in path or "damaged" in path for path in held)
    assert {stat.S_IMODE((target / path).stat().st_mode) for path in held} == {0o600}
    assert (target / "identity.key").read_bytes() == (source / "identity.key").read_bytes()
    assert [finding for finding in examine(target) if finding.level == "error"] == []
    again, before = DiskStore(target), DiskStore(source)
    assert await again.load(T) == await before.load(T)
    assert await again.records(T) == await before.records(T)
    assert again.notices() == []
    await again.close()
    await before.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ana.flnet", "deep", "state"]


async def test_rows_and_files_of_a_backup_belong_together_while_the_node_saves(tmp_path: Path) -> None:
    store = await filled(tmp_path / "state")
    is_over = False

    async def save() -> int:
        round = 3
        while not is_over:
            await store.save(T, job(round))
            round += 1
        return round

    saving = asyncio.create_task(save())
    for number in range(5):
        info = await asyncio.to_thread(back_up, tmp_path / "state", tmp_path / f"{number}.flnet")
        assert info.missing == ()
    is_over = True
    assert await saving > 3
    await store.close()
    for number in range(5):
        restore(tmp_path / f"{number}.flnet", tmp_path / str(number))
        again = DiskStore(tmp_path / str(number))
        saved = await again.load(T)
        assert saved is not None
        assert saved.params == job(saved.snapshot["round"]).params
        assert again.notices() == []
        await again.close()


def test_a_restore_needs_an_empty_folder(tmp_path: Path, backup: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "node.json").write_text("mine")
    with pytest.raises(StartError, match=r"is not empty \(it holds node\.json\)"):
        restore(backup, target)
    assert [path.name for path in target.iterdir()] == ["node.json"]
    running = DiskStore(tmp_path / "running")
    with pytest.raises(StartError, match="is not empty"):
        restore(backup, tmp_path / "running")
    asyncio.run(running.close())


def test_a_backup_overwrites_nothing_and_does_not_lie_in_what_it_copies(tmp_path: Path, backup: Path) -> None:
    before = backup.read_bytes()
    with pytest.raises(StartError, match="exists"):
        back_up(tmp_path / "state", backup)
    with pytest.raises(StartError, match="in the state folder itself"):
        back_up(tmp_path / "state", tmp_path / "state" / "b")
    with pytest.raises(StartError, match=r"no state of a node in .*: state\.sqlite3 is missing"):
        back_up(tmp_path, tmp_path / "b")
    assert backup.read_bytes() == before


def test_a_model_file_that_is_missing_is_named(tmp_path: Path, backup: Path) -> None:
    model = next((tmp_path / "state" / "models").iterdir())
    model.unlink()
    assert back_up(tmp_path / "state", tmp_path / "b").missing == (model.stem,)


def restored(tmp_path: Path) -> dict[str, bytes]:
    """The files of trainers and of own data sets, once `tmp_path / "state"` was backed up and restored."""
    back_up(tmp_path / "state", tmp_path / "again.flnet")
    target = tmp_path / "target"
    restore(tmp_path / "again.flnet", target)
    found = (path for name in ("trainers", "own-data") for path in (target / name).rglob("*") if path.is_file())
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in found}


def test_what_operating_systems_leave_behind_is_not_backed_up(tmp_path: Path, backup: Path) -> None:
    state = tmp_path / "state"
    (state / "own-data" / "x" / "__MACOSX").mkdir(parents=True)
    (state / "lost+found").mkdir()
    for left in (".DS_Store", "lost+found/1", *(f"own-data/x/{n}" for n in ("Thumbs.db", "._a", "__MACOSX/a"))):
        (state / left).write_bytes(b"x")
    (state / "own-data" / "x" / "a.csv").write_bytes(b"1")
    assert restored(tmp_path) == {"trainers/T/split-1.npz": b"rows", "own-data/x/a.csv": b"1"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (b"trainers/a\\b", "leads out of its folder, so it cannot be in a backup: rename it"),
        (b"trainers/\xff", "has a name that is not UTF-8, so it cannot be in a backup: rename it"),
        (b"trainers/\x07", "has signs in its name that cannot be seen"),
        (b"backup.json", "has the name of the list in a backup"),
    ],
)
def test_a_name_that_cannot_be_restored_is_told_before_it_is_too_late(
    tmp_path: Path, backup: Path, name: bytes, words: str
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "state") + b"/" + name))
    path.write_bytes(b"x")
    with pytest.raises(StartError, match="in the state folder") as caught:
        back_up(tmp_path / "state", tmp_path / "b")
    assert words in caught.value.message
    assert caught.value.message.isprintable()
    assert not (tmp_path / "b").exists()


def test_more_files_than_may_be_open_at_once(tmp_path: Path, backup: Path) -> None:
    folder = tmp_path / "state" / "own-data" / "x"
    folder.mkdir(parents=True)
    for number in range(200):
        (folder / f"{number}.png").write_bytes(str(number).encode())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = max(map(int, os.listdir("/dev/fd")))  # noqa: PTH208 - a list of names
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 50, hard))
    try:
        back_up(tmp_path / "state", tmp_path / "b")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(path.startswith("own-data/") for path in read_backup(tmp_path / "b").files) == 200


def test_a_folder_on_another_disk_is_in_the_backup(tmp_path: Path, backup: Path) -> None:
    state = tmp_path / "state"
    (state / "trainers").rename(tmp_path / "elsewhere")
    (state / "trainers").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "T" / "back").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to(state)
    (tmp_path / "elsewhere" / "U").symlink_to("T")
    assert restored(tmp_path) == {"trainers/T/split-1.npz": b"rows", "trainers/U/split-1.npz": b"rows"}
    with pytest.raises(StartError, match="in the state folder itself"):
        back_up(state, tmp_path / "elsewhere" / "T" / "b")
    assert not (tmp_path / "elsewhere" / "T" / "b").exists()


def test_a_link_to_nothing_is_told(tmp_path: Path, backup: Path) -> None:
    (tmp_path / "state" / "own-trainers").symlink_to(tmp_path / "not-mounted")
    with pytest.raises(StartError, match=r"own-trainers' is a link to what is not there"):
        back_up(tmp_path / "state", tmp_path / "b")


def test_a_file_that_a_running_node_renames_meanwhile_is_there_under_its_new_name(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = tmp_path / "state" / "trainers" / "T" / ".split-2.npz.abcd"
    draft.write_bytes(b"new rows")
    copied = module._copied

    def copied_meanwhile(*files: Any) -> tuple[int, str]:
        if draft.exists():  # listed, and not opened yet: what is copied is before it
            draft.rename(draft.with_name("split-2.npz"))
        return copied(*files)

    others = module._others

    def listed(folder: Path) -> list[str]:
        paths = others(folder)
        monkeypatch.setattr(module, "_copied", copied_meanwhile)
        return paths

    monkeypatch.setattr(module, "_others", listed)
    assert restored(tmp_path) == {"trainers/T/split-1.npz": b"rows", "trainers/T/split-2.npz": b"new rows"}


def rewritten(source: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """The archive with another list or other entries."""
    with zipfile.ZipFile(source) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop(MANIFEST))
    change(manifest, entries)
    target = source.with_suffix(".changed")
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.writestr(MANIFEST, json.dumps(manifest))
    return target


def _renamed(name: str) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    def change(manifest: dict[str, Any], entries: dict[str, bytes]) -> None:
        manifest["files"][name] = manifest["files"].pop("node.json")
        entries[name] = entries.pop("node.json")

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_renamed("../node.json"), "leads out of its folder"),
        (_renamed("/tmp/node.json"), "leads out of its folder"),
        (_renamed("models/../../x"), "leads out of its folder"),
        (_renamed("a//b"), "is no file of a state folder"),
        (_renamed("lock"), "is no file of a state folder"),
        (lambda manifest, _: manifest.update(backup=2), "expected a backup of version 1"),
        (lambda manifest, _: manifest.update(state_version=999), "got 1 and 999"),
        (lambda manifest, _: manifest.update(files=[]), "cannot be read"),
        (lambda manifest, _: manifest["files"].pop("node.json"), "not in both"),
        (lambda _, entries: entries.pop("node.json"), "not in both"),
        (lambda _, entries: entries.update({"more": b""}), "not in both"),
        (lambda _, entries: entries.update({"node.json": b'{"id":"b"}'}), "node.json is not what"),
    ],
)
def test_an_archive_is_refused_before_anything_is_written(
    tmp_path: Path, backup: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None], words: str
) -> None:
    with pytest.raises(StartError, match=words):
        restore(rewritten(backup, change), tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_compressed_entries_and_other_files_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b"{" + b" " * 1_000_000)
    with pytest.raises(StartError, match="compressed"):
        read_backup(tmp_path / "bomb")
    (tmp_path / "other").write_bytes(b"PK or not")
    with pytest.raises(StartError, match="no whole backup"):
        read_backup(tmp_path / "other")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_gives_the_same_files(
    tmp_path: Path, backup: Path, data: st.DataObject
) -> None:
    whole = bytearray(backup.read_bytes())
    expected = read_backup(backup).files
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(whole[: data.draw(st.sampled_from([len(whole), place]))])
    try:
        found = read_backup(damaged).files
    except StartError:
        return
    assert found == expected


def test_the_commands(tmp_path: Path, backup: Path) -> None:
    def flnet(*args: object) -> Any:
        return CliRunner().invoke(cli, [str(arg) for arg in args])

    made = flnet("backup", tmp_path / "b", "--state-path", tmp_path / "state")
    assert (made.exit_code, made.output.splitlines()[0]) == (
        0,
        f"{tmp_path}/b holds the state in {tmp_path}/state",
    )
    assert "node ana, " in made.output
    checked = flnet("restore", tmp_path / "b", "--check", "--json")
    assert json.loads(checked.output)["files"].keys() == read_backup(backup).files.keys()
    target = tmp_path / "target"
    assert flnet("restore", tmp_path / "b", "--state-path", target).exit_code == 0
    again = flnet("restore", tmp_path / "b", "--state-path", target)
    assert (again.exit_code, "is not empty" in again.output) == (1, True)
    absent = flnet("restore", tmp_path / "none", "--state-path", tmp_path / "new")
    assert (absent.exit_code, "No such file" in absent.output) == (1, True)
    assert not os.path.lexists(tmp_path / "new")
