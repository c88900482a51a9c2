"""`flnet data import TRAINER SOURCE` as a person uses it, with a stopped node and with a running one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.processes.harness import RealNode, harness, until
from tests.web.digit_files import TRAINER, digit_archive

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
Flnet = Callable[..., Result]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
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
    brought = flnet("data", "import", "DIGITS", str(archive))
    assert brought.exit_code == 0, brought.stderr
    assert brought.stdout.splitlines() == [
        f"{here / 'digits'}: 4 files, {sum(p.stat().st_size for p in (here / 'digits').iterdir()) / 1e6:,.1f} MB",
        f"DIGITS: idx files in {here / 'digits'} (train 1,500, test 297)",
    ]
    there = flnet("data", "import", "DIGITS", str(archive))
    assert (there.exit_code, "with replace=true" in there.stderr) == (1, True)
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
    brought = flnet("data", "import", "DIGITS", str(archive.with_suffix("")), "--node", node)
    assert brought.exit_code == 0, brought.stderr
    assert f"{tmp_path / 'own/digits'}: 4 files" in brought.stdout
    until(lambda: running.get("/jobs/DIGITS")["phase"] == "IDLE", "the job to be ready")
    refused = flnet("data", "import", "DIGITS", str(archive), "--node", node)
    assert refused.exit_code == 1
    assert "has data in" in refused.stderr
