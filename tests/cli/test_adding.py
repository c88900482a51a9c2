"""`flnet data add` as a person uses it, with a stopped node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.processes.test_arriving import TRAINER

Flnet = Callable[..., Result]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of a node with one trainer."""
    for name in ("code", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "code/NUMBERS.py").write_text(TRAINER)
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


def test_what_cannot_be_read_changes_nothing(flnet: Flnet, table: Path, tmp_path: Path) -> None:
    before = table.read_text()
    (tmp_path / "more.csv").write_text("x\nseven\n")
    refused = flnet("data", "add", "NUMBERS", str(tmp_path / "more.csv"))
    assert (refused.exit_code, table.read_text()) == (1, before)
    assert "cannot use what came, and nothing was changed" in refused.stderr
