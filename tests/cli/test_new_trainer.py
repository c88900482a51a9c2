"""`flnet new-trainer`: guesses, files that trainers are made of, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from flnet.datasets.no_code import OwnTable, read_own
from tests.datasets.own_files import class_folders, csv_file, two_clouds

Flnet = Callable[..., Result]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path / "trainers"))
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return csv_file(tmp_path / "data" / "rows.csv", ["a", "b", "y"], two_clouds(60))


def test_a_table_becomes_a_trainer_that_can_read_it(flnet: Flnet, rows: Path, tmp_path: Path) -> None:
    made = flnet("new-trainer", "ROWS", str(rows), "--offer", "--use", "b=ignore", "--label", "My rows")
    assert made.exit_code == 0, made.output
    file = tmp_path / "trainers" / "ROWS.toml"
    own = read_own(file)
    assert isinstance(own, OwnTable)
    assert (own.data, own.target, own.classes, own.ignore) == ("rows.csv", "y", ["no", "yes"], ["b"])
    assert (own.offered, own.label) == (True, "My rows")
    assert f"{file}: written" in made.output
    assert re.search(r"^ a +number +about", made.output, re.MULTILINE)
    listed = flnet("data", "list", "--json")
    (view,) = [view for view in json.loads(listed.stdout) if view["trainer"] == "ROWS"]
    assert sum(view["rows"].values()) == 60
    again = flnet("new-trainer", "ROWS", str(rows))
    assert again.exit_code == 1
    assert "there is a trainer ROWS already" in again.output


def test_a_guess_is_shown_and_nothing_written(flnet: Flnet, rows: Path, tmp_path: Path) -> None:
    shown = flnet("new-trainer", "ROWS", str(rows), "--show", "--json", "--target", "0")
    assert (json.loads(shown.stdout)["target"], json.loads(shown.stdout)["task"]) == ("a", "regress")
    assert not (tmp_path / "trainers").exists()


def test_pictures_become_a_trainer(flnet: Flnet, rows: Path, tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "pets", each=10)
    made = flnet("new-trainer", "PETS", str(folder))
    assert made.exit_code == 0, made.output
    assert f'data = "{folder}"\nsize = 12' in (tmp_path / "trainers" / "PETS.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["MNIST"], 1, "there is a trainer MNIST already"),
        (["A B"], 1, "'A B' is no name of a trainer"),
        (["ROWS", "--use", "b"], 2, "--use b: expected COLUMN=USE"),
        (["ROWS", "--use", "b=target"], 2, "expected COLUMN=USE, with USE one of number, words, ignore, id"),
        (["ROWS", "--words", "y"], 2, "--words y: expected COLUMN=A,B"),
        (["ROWS", "--words", "y=no,yes,maybe"], 0, 'classes = ["no", "yes", "maybe"]'),
        (["ROWS", "--target", "z"], 1, "there is no column 'z'"),
        (["ROWS", "--target", "y", "--use", "b=id"], 0, "written"),
    ],
)
def test_what_cannot_be_is_refused(flnet: Flnet, rows: Path, arguments: list[str], code: int, words: str) -> None:
    answer = flnet("new-trainer", arguments[0], str(rows), *arguments[1:])
    assert (answer.exit_code, words in answer.output) == (code, True), answer.output


def test_data_that_the_trainer_cannot_read_leave_no_file(flnet: Flnet, rows: Path, tmp_path: Path) -> None:
    few = csv_file(tmp_path / "few.csv", ["a", "y"], [[1, "no"], [2, "yes"]])
    answer = flnet("new-trainer", "FEW", str(few))
    assert answer.exit_code == 1
    assert "too few rows" in answer.output
    assert list((tmp_path / "trainers").iterdir()) == []
