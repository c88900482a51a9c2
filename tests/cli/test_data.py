"""`flnet data`: listing, checking, downloading, importing and adding data, with stopped and running nodes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import Result

from flnet.cli.data import check_lines, data_lines, size_of
from flnet.datasets.download import DATA_SETS, FileCheck, PublishedData, PublishedFile
from flnet.web.formatting import size_words
from tests.cli.fake_node import FakeNode
from tests.processes.harness import RealNode, harness, until
from tests.processes.test_arriving import TRAINER as TABLE_TRAINER
from tests.web.digit_files import TRAINER, digit_archive

Flnet = Callable[..., Result]


def test_sample_check_and_list_go_together(flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path))
    made = flnet("data", "sample", "mnist")
    assert made.exit_code == 0
    assert f"try it:  FLNET_DATASETS_PATH={tmp_path} flnet demo --trainer MNIST" in made.output
    assert flnet("data", "check").exit_code == 0
    monkeypatch.setenv("FLNET_TRAINERS", "MNIST_3_7,MULTI_LABEL")
    monkeypatch.setenv("FLNET_DATA_SHARD", "2/4")  # of a node; here all is counted
    listed = flnet("data", "list")
    assert listed.exit_code == 0
    size = size_words(sum(file.stat().st_size for file in (tmp_path / "mnist").iterdir()))
    assert f"MNIST_3_7: sample data: MNIST idx files in {tmp_path / 'mnist'} ({size})" in listed.stdout
    assert "test               40 rows   3: 20; 7: 20" in listed.stdout
    assert "MULTI_LABEL: no data\n    no multi-label data set was found" in listed.stdout


def test_data_are_listed_without_importing_a_framework(tmp_path: Path) -> None:
    for framework in ("torch", "tensorflow", "keras"):
        (tmp_path / "none" / framework).mkdir(parents=True)
        (tmp_path / "none" / framework / "__init__.py").write_text("raise SystemExit('a framework was imported')")
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers" / "ROWS.toml").write_text(
        'kind = "table"\ndata = "rows.csv"\ntarget = "y"\nclasses = ["a", "b"]\nlabel = "Own rows"\n'
    )
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(40)))
    names = ("CIFAR10", "CIFAR10_SMALL", "CHEST_SUBTYPES", "DIGIT_DOMAINS", "MNIST", "MOOC", "MULTI_LABEL", "ROWS")
    settings = {"FLNET_TRAINERS": ",".join(names), "FLNET_TRAINERS_PATH": str(tmp_path / "trainers")}
    path = os.pathsep.join([str(tmp_path / "none"), str(Path(__file__).parents[2])])
    listed = subprocess.run(
        [sys.executable, "-m", "flnet", "data", "list", "--json", "--path", str(tmp_path)],
        env={**os.environ, **settings, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    views = {view["trainer"]: view for view in json.loads(listed.stdout)}
    assert views.keys() == set(names)
    assert "framework" not in listed.stdout
    assert (views["MNIST"]["label"], views["MNIST"]["missing"]) == ("MNIST Dataset", "")
    assert sum(views["MNIST"]["counts"]["test"]) == views["MNIST"]["rows"]["test"] == 360
    assert (views["ROWS"]["label"], sum(views["ROWS"]["rows"].values())) == ("Own rows", 40)
    assert "was not found in" in views["CIFAR10_SMALL"]["missing"]
    assert "chest_xray" in views["CHEST_SUBTYPES"]["missing"]


def test_a_list_for_scripts(flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_TRAINERS", "MNIST_3_7")
    (view,) = json.loads(flnet("data", "list", "--json", "--path", str(tmp_path)).stdout)
    assert sum(view["counts"]["test"]) == view["rows"]["test"]
    assert (view["trainer"], view["classes"], view["missing"], view["bytes"]) == (
        "MNIST_3_7",
        ["3", "7"],
        "",
        None,
    )


@pytest.mark.parametrize("name", [pytest.param("images", marks=pytest.mark.long), "table"])
def test_a_sample_comes_with_its_trainer(
    flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install flnet[torch]")
    pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[images]")
    made = flnet("data", "sample", name, "--path", str(tmp_path))
    assert made.exit_code == 0
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path / "sample-trainers"))
    monkeypatch.setenv("FLNET_TRAINERS", f"SAMPLE_{name.upper()}")
    (view,) = json.loads(flnet("data", "list", "--json", "--path", str(tmp_path)).stdout)
    assert (view["sample"], view["missing"]) == (True, "")
    assert view["bytes"] > 1000
    again = flnet("data", "sample", name, "--path", str(tmp_path))
    assert again.exit_code == 1
    assert "is there already" in again.stderr


def test_without_a_folder_the_usage_is_explained(flnet: Flnet) -> None:
    for words in (["check"], ["fetch", "mnist"], ["import", "x"], ["sample", "table"]):
        refused = flnet("data", *words)
        assert refused.exit_code == 2
        assert "give --path, or set FLNET_DATASETS_PATH" in refused.stderr


def test_a_check_names_what_is_damaged_or_missing(flnet: Flnet, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").write_bytes(b"x")
    np.savez(tmp_path / "good.npz", x=np.zeros(3))
    checked = flnet("data", "check", "--path", str(tmp_path))
    assert checked.exit_code == 1
    assert "t10k-labels-idx1-ubyte.gz: its checksum is not that of the published file" in checked.stdout
    assert "t10k-images-idx3-ubyte.gz missing" in checked.stdout
    assert "good.npz: whole, x [3]" in checked.stdout
    result = json.loads(flnet("data", "check", "--json", "--path", str(tmp_path)).stdout)
    assert len(result["files"]) == 2
    assert len(result["missing"][str(tmp_path / "mnist")]) == 3


def test_an_archive_is_imported(flnet: Flnet, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("pets/cat/1.txt", "x" * 2100)
    imported = flnet("data", "import", str(tmp_path / "a.zip"), "--as", "mine", "--path", str(tmp_path / "data"))
    assert (imported.exit_code, imported.stdout) == (0, f"{tmp_path / 'data/mine'}: 1 file, 2.1 kB\n")
    refused = flnet("data", "import", str(tmp_path / "b.zip"), "--path", str(tmp_path / "data"))
    assert refused.exit_code == 1
    assert "b.zip is not there" in refused.stderr


def test_a_data_set_is_fetched_once(
    flnet: Flnet, fake_node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"digits" * 1000
    fake_node.answers["/x.gz"] = (200, body)
    file = PublishedFile(f"http://{fake_node.address}/x.gz", hashlib.sha256(body).hexdigest(), len(body))
    monkeypatch.setitem(DATA_SETS, "mnist", PublishedData("mnist", "made up", (file,)))
    first, again = (flnet("data", "fetch", "mnist", "--path", str(tmp_path)) for _ in range(2))
    assert (first.exit_code, again.exit_code, len(fake_node.headers)) == (0, 0, 1)
    assert "x.gz: fetched, checksum right" in first.stdout
    assert "x.gz: was there already" in again.stdout
    assert (tmp_path / "mnist/x.gz").read_bytes() == body


def test_nothing_is_fetched_over_sample_data_or_without_network(
    flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise httpx.ConnectError("no network")

    monkeypatch.setattr(httpx, "stream", fail)
    refused = flnet("data", "fetch", "mnist", "--path", str(tmp_path))
    assert refused.exit_code == 1
    assert "could not be fetched: no network; try again later, or put the file at" in refused.stderr
    assert not list((tmp_path / "mnist").iterdir())
    (tmp_path / "mnist").rmdir()
    flnet("data", "sample", "mnist", "--path", str(tmp_path))
    assert (
        "holds sample data; remove that folder first"
        in flnet("data", "fetch", "mnist", "--path", str(tmp_path)).stderr
    )


# What is shown of data: sizes of what is named, long lists cut, strangers' names harmless.


def test_the_size_of_what_is_named_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "x").write_bytes(bytes(10))
    assert size_of(f"images in {tmp_path / 'my data'}", tmp_path) == 10
    assert size_of(f"table {tmp_path / 'my data' / 'x'}", None) == 10
    assert size_of(f"the digits, because MNIST was not found in {tmp_path}", tmp_path) is None
    assert size_of("made up", tmp_path) is None
    assert size_of("", None) is None


def test_lines_for_people() -> None:
    classes = [f"c{number}" for number in range(20)]
    view = {
        "trainer": "T\x1b",
        "missing": "",
        "source": "here",
        "bytes": 1_500_000,
        "sample": True,
        "rows": {"train": 2000, "test": 20},
        "classes": classes,
        "counts": {"train": [100] * 20},
        "note": "a word",
    }
    assert data_lines(view) == [
        r"T\x1b: sample data: here (1.5 MB)",
        "    train           2,000 rows   " + "; ".join(f"c{n}: 100" for n in range(12)) + "; and 8 more",
        "    test               20 rows",
        "    a word",
        "",
    ]
    assert data_lines({"trainer": "T", "missing": "why"}) == ["T: no data", "    why", ""]
    assert data_lines({"trainer": "T", "missing": "why", "faulty": True})[0] == "T: not readable"


def test_data_that_cannot_be_read_are_told_from_data_that_are_missing(
    flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ROWS.toml").write_text('kind = "table"\ndata = "rows.csv"\ntarget = "y"\n')
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path))
    monkeypatch.setenv("FLNET_TRAINERS", "ROWS")
    absent = flnet("data", "list", "--path", str(tmp_path))
    assert (absent.exit_code, absent.stdout.splitlines()[0]) == (0, "ROWS: no data")
    (tmp_path / "rows.csv").write_text("x;y\n1;a\n")
    wrong = flnet("data", "list", "--path", str(tmp_path))
    assert (wrong.exit_code, wrong.stdout.splitlines()[0]) == (1, "ROWS: not readable")
    assert 'set separator = ";" in it' in wrong.stdout
    (view,) = json.loads(flnet("data", "list", "--json", "--path", str(tmp_path)).stdout)
    assert view["faulty"] is True


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    assert check_lines(tmp_path, [], {}) == [f"{tmp_path}: no files"]
    many = [FileCheck(tmp_path / "a" / f"{n}.png", "1x1") for n in range(3)]
    assert check_lines(tmp_path, many, {}) == [f"{tmp_path / 'a'}: 3 files whole"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of a node with one trainer."""
    for name in ("code", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "code/NUMBERS.py").write_text(TABLE_TRAINER)
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path / "code"))
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path / "data"))
    table = tmp_path / "data/numbers.csv"
    table.write_text("x\n" + "".join(f"{number}\n" for number in range(20)))
    return table


def test_examples_are_added_once(flnet: Flnet, table: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("x\n19\n20\n21\n")
    added = flnet("data", "add", "NUMBERS", str(tmp_path / "more.csv"), "--json")
    assert added.exit_code == 0, added.stderr
    assert (json.loads(added.stdout)["files"], table.read_text().splitlines()[-3:]) == (1, ["19", "20", "21"])
    again = flnet("data", "add", "NUMBERS", str(tmp_path / "more.csv"))
    assert again.stdout.splitlines()[0] == f"{table}: all of it is there already"
    assert len(table.read_text().splitlines()) == 23


def test_the_folder_may_be_named_from_here(
    flnet: Flnet, tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.csv").write_text("x\n19\n")
    again = flnet("data", "add", "NUMBERS", "more.csv", "--path", "data")
    assert again.exit_code == 0, again.stderr
    assert again.stdout.splitlines()[0] == f"{table}: all of it is there already"


CHECKS = """
        for line, word in enumerate(self.path.read_text().splitlines()[1:], start=2):
            if not word.isdigit():
                raise DataMissing(f"{self.path}, line {line}: {word!r} is no number", "correct it")
"""


def test_what_cannot_be_read_changes_nothing(flnet: Flnet, table: Path, tmp_path: Path) -> None:
    code = TABLE_TRAINER.replace("import DataInfo,", "import DataInfo, DataMissing,")
    place = "settings.datasets_path / DATA_PLACE\n"
    (tmp_path / "code/NUMBERS.py").write_text(code.replace(place, place + CHECKS))
    before = table.read_text()
    (tmp_path / "more.csv").write_text("x\nseven\n")
    refused = flnet("data", "add", "NUMBERS", str(tmp_path / "more.csv"))
    assert (refused.exit_code, table.read_text()) == (1, before)
    assert (
        "cannot use what came, and nothing was changed: more.csv, line 2: 'seven' is no number" in refused.stderr
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    return digit_archive(tmp_path / "packed")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of data sets of a node with one trainer."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/DIGITS.py").write_text(TRAINER)
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path / "code"))
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path / "data"))
    return tmp_path / "data"


def test_data_go_where_the_trainer_of_a_stopped_node_looks(flnet: Flnet, here: Path, archive: Path) -> None:
    imported = flnet("data", "import", "DIGITS", str(archive))
    assert imported.exit_code == 0, imported.stderr
    assert imported.stdout.splitlines() == [
        f"{here / 'digits'}: 4 files, {size_words(sum(p.stat().st_size for p in (here / 'digits').iterdir()))}",
        f"DIGITS: idx files in {here / 'digits'} (train 1,500, test 297)",
    ]
    there = flnet("data", "import", "DIGITS", str(archive))
    assert (there.exit_code, "--replace" in there.stderr) == (1, True)
    again = flnet("data", "import", "DIGITS", str(archive.with_suffix("")), "--replace", "--json")
    told = json.loads(again.stdout)
    assert (told["aside"], told["files"], sum(told["counts"]["train"])) == (str(here / "digits.before-1"), 4, 1500)


def test_what_the_trainer_cannot_read_is_not_left_there(flnet: Flnet, here: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no digits")
    refused = flnet("data", "import", "DIGITS", str(tmp_path / "notes.txt"))
    assert refused.exit_code == 1
    assert "DIGITS cannot use what came, and nothing was changed" in refused.stderr
    assert list(here.iterdir()) == []


def test_wrong_usage_is_told(flnet: Flnet, here: Path, archive: Path) -> None:
    for words in (
        ["a", "b", "c"],
        [str(archive), "--replace"],
        ["DIGITS", str(archive), "--as", "x"],
        ["DIGITS", str(archive), "--node", "nowhere"],
        ["DIGITS", str(archive), "--node", "127.0.0.1:1", "--path", str(here)],
    ):
        assert flnet("data", "import", *words).exit_code == 2
    assert flnet("data", "import", "NONE", str(archive)).exit_code == 2
    assert flnet("data", "import", "DIGITS", str(archive.with_suffix(".none"))).exit_code == 1


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RealNode]:
    with harness(tmp_path) as h:
        (h.trainers / "DIGITS.py").write_text(TRAINER)
        one = h.start(TRAINERS="DIGITS", DATA_SHARD="1/1", DATASETS_PATH=str(tmp_path / "own"), COMPUTE="thread")
        until(lambda: _answers(one), "the node to answer")
        yield one


def _answers(node: RealNode) -> bool:
    try:
        return bool(node.get("/jobs/DIGITS")["phase"] == "NO_DATA")
    except Exception as exc:
        if type(exc).__module__.startswith("httpx"):
            return False
        raise


@pytest.mark.slow
def test_a_running_node_takes_them_in(flnet: Flnet, running: RealNode, archive: Path, tmp_path: Path) -> None:
    node = f"127.0.0.1:{running.port}"
    imported = flnet("data", "import", "DIGITS", str(archive.with_suffix("")), "--node", node)
    assert imported.exit_code == 0, imported.stderr
    assert f"{tmp_path / 'own/digits'}: 4 files" in imported.stdout
    until(lambda: running.get("/jobs/DIGITS")["phase"] == "IDLE", "the job to be ready")
    refused = flnet("data", "import", "DIGITS", str(archive), "--node", node)
    assert refused.exit_code == 1
    assert "has data in" in refused.stderr
