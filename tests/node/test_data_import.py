"""Data that come to a running node: they are proved by loading them, between rounds, or nothing has changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.datasets.dataset_import import Upload
from flnet.datasets.no_code_images import load_images
from flnet.errors import DataMissing, DataThere, ImportRefused, JobBusy, NotReady, UnknownTrainer
from flnet.node import data_import as importing
from flnet.node.build import assemble
from flnet.node.core import NodeCore
from flnet.node.data_import import DataImports, FileArrivals, FolderWatcher, files_in
from flnet.node.event_log import EventLog
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array, PeerId, TrainerId
from flnet.protocol.events import (
    Event,
    Prepared,
    RoundTriggered,
    TrainingAsked,
    TrainingFailed,
    UpdateReceived,
)
from flnet.protocol.messages import Peer
from flnet.rounds.steps import Phase
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from flnet.trainer import DataInfo, Fit, Score, Task, Trainer, TrainerFile, TrainerSettings
from flnet.wire.memory import MemoryNetwork
from tests.compute.inline_queue import InlineQueue
from tests.datasets.own_files import class_folders, images
from tests.helpers import HYPER, key, params, peer, update
from tests.node.mesh import trigger
from tests.rounds.helpers import declaration

ONE, TWO, BACK, ELSE = TrainerId("MNIST_3_7"), TrainerId("TWO"), TrainerId("BACK"), TrainerId("ELSE")
PLACES = {ONE: "numbers", TWO: "numbers", BACK: "numbers", ELSE: "others"}


class Reader(Trainer):
    """Reads numbers from a file; BACK has others to fall back to."""

    def __init__(self, path: Path, *, falls_back: bool) -> None:
        self.source = f"numbers in {path.parent}"
        if path.is_file():
            try:
                self.rows = [float(word) for word in path.read_text().split()]
            except ValueError as exc:
                raise DataMissing(f"{path} holds no numbers", "expected numbers with spaces between") from exc
        elif falls_back:
            self.source, self.rows = "made-up numbers", [0.0]
        else:
            raise DataMissing(f"{path} is not there", "bring it")

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit({"w": task.params["w"] + np.float32(len(self.rows))}, len(self.rows))

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 1)

    def data_info(self) -> DataInfo:
        return DataInfo(self.source, {"train": len(self.rows)}, note="bring numbers.txt", checksum=str(self.rows))


class Readers(Mapping[str, Trainer]):
    """Makes a trainer each time, as the worker does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Trainer:
        return Reader(self.folder / PLACES[TrainerId(name)] / "numbers.txt", falls_back=name == BACK)

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeRuntime]:
    folder = tmp_path / "data"
    me = Peer(id="a", ip="127.0.0.1", port=4000)
    files = {name: TrainerFile(name, "", place=place) for name, place in PLACES.items()}
    running = assemble(
        Settings(datasets_path=folder),
        me,
        list(PLACES),
        pool=InlineQueue(Readers(folder)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
        files=files,
    )
    await running.start()
    await _until(running, lambda: running.core.jobs[ONE].phase is Phase.NO_DATA)
    await _until(running, lambda: running.core.jobs[BACK].phase is Phase.IDLE)
    yield running
    await running.stop()


async def _until(node: NodeRuntime, condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


def said(node: NodeRuntime) -> list[str]:
    """What its people read of the first job."""
    return [item.text for item in node.feed.recent() if item.trainer == ONE]


def upload(node: NodeRuntime, text: str, trainer: TrainerId = ONE, *, replace: bool = False) -> Upload:
    came = node.imports.begin(trainer, replace=replace)
    came.begin("numbers.txt")
    came.write(text.encode())
    return came


async def test_a_job_without_data_trains_once_they_have_come(node: NodeRuntime, tmp_path: Path) -> None:
    told = await node.imports.take(upload(node, "1 2 3"))
    place = tmp_path / "data/numbers"
    assert (told["place"], told["files"], told["bytes"], told["aside"]) == (str(place), 1, 5, None)
    assert (told["rows"], told["checksum"]) == ({"train": 3}, "[1.0, 2.0, 3.0]")
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    assert node.job(ONE).data.source == f"numbers in {place}"
    await _until(node, lambda: "works on other data now" in said(node)[-1])
    await trigger(node)
    await _until(node, lambda: node.history(ONE) and node.job(ONE).phase == "IDLE")
    assert node.job(ONE).post_fedavg_accuracy == 0.5


async def test_all_trainers_of_the_place_hear_of_it(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(TWO).phase == "IDLE")
    await _until(node, lambda: node.job(BACK).data.rows == {"train": 2})


async def test_data_that_are_not_what_it_reads_are_taken_out_again(node: NodeRuntime, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"nothing was changed: numbers\.txt holds no numbers; expected"):
        await node.imports.take(upload(node, "one two"))
    assert list((tmp_path / "data").iterdir()) == []
    assert node.job(ONE).phase == "NO_DATA"
    await node.imports.take(upload(node, "1 2"))
    with pytest.raises(DataThere):
        upload(node, "3")
    with pytest.raises(ImportRefused, match="holds no numbers"):
        await node.imports.take(upload(node, "x", replace=True))
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "1 2"
    told = await node.imports.take(upload(node, "3", replace=True))
    assert told["aside"] == str(tmp_path / "data/numbers.before-1")


class OfPictures(Reader):
    """What a folder of pictures says of itself."""

    def __init__(self, settings: TrainerSettings) -> None:
        self.info = load_images(images(), settings).info
        self.rows = [0.0]

    def data_info(self) -> DataInfo:
        return self.info


class PictureReaders(Readers):
    """The same for a folder of pictures; its split is stored."""

    def __getitem__(self, name: str) -> Trainer:
        state = self.folder.parent / "state"
        state.mkdir(exist_ok=True)
        return OfPictures(TrainerSettings(self.folder, state))


async def test_pictures_that_are_laid_out_anew_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    folder, me = tmp_path / "data", Peer(id="a", ip="127.0.0.1", port=4000)
    old = class_folders(folder / "pictures", each=20)
    running = assemble(
        Settings(datasets_path=folder),
        me,
        [ONE],
        pool=InlineQueue(PictureReaders(folder)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
        files={ONE: TrainerFile(ONE, "", place="pictures")},
    )
    await running.start()
    try:
        await _until(running, lambda: running.core.jobs[ONE].phase is Phase.IDLE)
        brought = running.imports.begin(ONE, replace=True)
        for number, path in enumerate(sorted(old.glob("*/*"))):
            brought.begin(f"{'train' if number % 4 else 'test'}/{path.relative_to(old)}")
            brought.write(path.read_bytes())
        told = await running.imports.take(brought)
        assert told["aside"] == str(folder / "pictures.before-1")
        assert sum(told["rows"].values()) == 40
        assert running.core.jobs[ONE].phase is Phase.IDLE
        assert "to split all of them anew" in str(running.job(ONE).data.note)
    finally:
        await running.stop()


async def test_a_trainer_that_falls_back_to_others_does_not_read_what_came(node: NodeRuntime) -> None:
    came = node.imports.begin(BACK)
    came.begin("else.txt")
    came.write(b"1")
    with pytest.raises(ImportRefused, match=r"goes on with made-up numbers; bring numbers\.txt"):
        await node.imports.take(came)


async def test_an_import_waits_for_the_end_of_the_round_and_no_series_is_cut(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    job = node.core.jobs[ONE]
    job.receive(RoundTriggered())
    assert job.busy and job.key is not None
    taking = asyncio.create_task(node.imports.take(upload(node, "5", replace=True)))
    await asyncio.sleep(0)
    node.feed.publish("update_received", "something else", ONE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not taking.done()
    job.receive(TrainingFailed(job.key, "no memory"))
    assert not job.busy
    node.feed.publish("round_closed", "over", ONE)
    assert (await taking)["rows"] == {"train": 1}
    job.series.left = 3
    with pytest.raises(JobBusy, match="stop the series"):
        node.imports.begin(ONE, replace=True)
    job.series.left = 0
    with pytest.raises(UnknownTrainer):
        node.imports.begin(TrainerId("NONE"))


async def test_who_waits_for_the_end_of_a_round_keeps_nobody_waiting_else(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    node.core.jobs[ONE].receive(RoundTriggered())
    waiting = asyncio.create_task(node.imports.take(upload(node, "5", replace=True)))
    async with asyncio.timeout(60):
        assert (await node.imports.take(upload(node, "3 4", ELSE)))["rows"] == {"train": 2}
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.parametrize("brings_update", [False, True])
async def test_peers_begin_no_round_while_data_wait_for_the_end_of_one(
    node: NodeRuntime, brings_update: bool
) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    job, begins = node.core.jobs[ONE], TrainingAsked(PeerId("b"), key(7, "b"), None, HYPER)
    event = UpdateReceived(update("b", round=7)) if brings_update else begins
    job.receive(RoundTriggered())
    assert job.key is not None
    same = UpdateReceived(update("b", round=job.key.number))
    node.imports.check_round(ONE, event)
    taking = asyncio.create_task(node.imports.take(upload(node, "5", replace=True)))
    await _until(node, lambda: _is_held(node, event))
    node.imports.check_round(ONE, same)
    node.imports.check_round(TWO, event)
    job.receive(TrainingFailed(job.key, "no memory"))
    node.feed.publish("round_closed", "over", ONE)
    await taking
    node.imports.check_round(ONE, event)


def _is_held(node: NodeRuntime, event: Event) -> bool:
    try:
        node.imports.check_round(ONE, event)
    except NotReady as exc:
        return "data are being imported" in exc.message
    return False


async def test_an_archive_that_is_refused_does_not_wait_for_the_end_of_a_round(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    node.core.jobs[ONE].receive(RoundTriggered())
    waiting = asyncio.create_task(node.imports.take(upload(node, "5", replace=True)))
    came = node.imports.begin(ONE, replace=True)
    came.begin("numbers.zip")
    came.write(b"PK no archive")
    async with asyncio.timeout(60):
        with pytest.raises(ImportRefused, match="cannot be unpacked"):
            await node.imports.take(came)
    assert not waiting.done()
    waiting.cancel()


async def test_a_caller_that_goes_does_not_leave_it_half_done(node: NodeRuntime, tmp_path: Path) -> None:
    taking = asyncio.create_task(node.imports.take(upload(node, "1 2")))
    await asyncio.sleep(0)
    taking.cancel()
    await _until(node, lambda: node.job(ONE).phase == "IDLE")
    await _until(node, lambda: [path.name for path in (tmp_path / "data").iterdir()] == ["numbers"])


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


class Taking(DataImports):
    """Takes in all but files that hold "bad"; refuses everything while there is no place for data."""

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
        if any(b"odd" in data for data in upload.files.values()):
            raise OverflowError("date value out of range")
        self.taken.append(sorted(upload.files))
        return {"files": len(upload.files), "added": 3}


class Folder:
    """A watched folder and a clock."""

    def __init__(self, path: Path) -> None:
        core = NodeCore(peer("a"), [T])
        core.hear(T, Prepared(declaration(), params(w=[1, 1])))
        self.job = core.jobs[T]
        self.path, self.feed, self.imports = path / T, EventLog(lambda: 0.0), Taking()
        self.watch = FolderWatcher(core, self.imports, self.feed, path)
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
    assert folder.told() == [("files_added", f"2 new files in {folder.path} were added; new rows: 3")]
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


async def test_a_file_that_cannot_be_opened_does_not_hold_up_the_others(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def fails_for_one(path: Path, *given: Any, **more: Any) -> Any:
        if path.name == "b.csv":
            raise PermissionError(13, "Permission denied")
        return opened(path, *given, **more)

    for name in "abc":
        folder.drop(f"{name}.csv")
    monkeypatch.setattr(Path, "open", fails_for_one)
    assert sorted(name for batch in await folder.passes(15) for name in batch) == ["a.csv", "c.csv"]
    await folder.passes(70)
    aside = [text for kind, text in folder.told() if kind == "file_set_aside"]
    assert aside == [
        f"b.csv cannot be used and is in {folder.path / 'set-aside'} now: b.csv cannot be read: Permission denied"
    ]


async def test_a_file_that_brings_about_a_mistake_of_ours_is_put_aside_and_the_others_are_taken(
    folder: Folder,
) -> None:
    for name in "abd":
        folder.drop(f"{name}.csv")
    folder.drop("c.csv", b"odd")
    assert sorted(name for batch in await folder.passes(15) for name in batch) == ["a.csv", "b.csv", "d.csv"]
    await folder.passes(70)
    aside = [text for kind, text in folder.told() if kind == "file_set_aside"]
    where = folder.path / "set-aside"
    assert aside == [f"c.csv cannot be used and is in {where} now: OverflowError: date value out of range"]
    assert (where / "c.csv").read_bytes() == b"odd"


async def test_no_mistake_ends_the_watch_and_it_is_told_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    async def fails(trainer: TrainerId, now: float) -> None:
        looks.append(now)
        raise ArithmeticError("no such date")

    monkeypatch.setattr(importing, "EVERY_SECONDS", 0)
    monkeypatch.setattr(folder.watch, "look", fails)
    watching = asyncio.create_task(folder.watch.keep())
    while len(looks) < 3 and not watching.done():
        await asyncio.sleep(0)
    assert not watching.done()
    watching.cancel()
    assert folder.told() == [("files_wait", f"files in {folder.path} wait: ArithmeticError: no such date")]


async def test_one_file_is_told_of_as_one(folder: Folder) -> None:
    folder.drop("a.csv")
    await folder.passes(15)
    assert folder.told() == [("files_added", f"1 new file in {folder.path} was added; new rows: 3")]


async def test_a_half_written_file_that_is_finished_within_the_minute_is_taken(folder: Folder) -> None:
    folder.drop("a.csv", b"bad")
    await folder.passes(15)
    folder.drop("a.csv", b"whole now")
    assert await folder.passes(15) == [["a.csv"]]


async def test_while_a_round_is_open_files_wait(folder: Folder) -> None:
    folder.drop("a.csv")
    folder.job.receive(RoundTriggered())
    assert folder.job.key is not None
    assert await folder.passes(60) == []
    folder.job.receive(TrainingFailed(folder.job.key, "no memory"))
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
    arrivals = FileArrivals()
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
    with pytest.raises(ImportRefused, match=r"a\.csv cannot be read: No such file or directory"):
        await folder.watch._add(T, ["a.csv"])
    assert came.discarded
