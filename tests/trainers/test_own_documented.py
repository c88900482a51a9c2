"""docs/own-data.md is true: its files work as they stand, and no option or error is missing or invented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flnet.compute.checks import checked_fit, checked_score
from flnet.compute.loader import find_trainers, import_trainer
from flnet.datasets.no_code import KINDS
from flnet.datasets.tables import ABSENT
from flnet.params.params import Params
from flnet.settings import Settings
from flnet.trainer import Task, Trainer
from tests.datasets.own_files import class_folders, csv_file, node, two_clouds

TEXT = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text("utf-8")
FILES: dict[str, str] = dict(re.findall(r"<!-- own:(\w+) -->\n```toml\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The data as the document describes them, and its files as they stand there."""
    class_folders(tmp_path / "skin", ("benign", "malignant"), each=40)
    cases = [
        [f"P{i // 3}", 50 + 20 * float(str(a)), b if i % 9 else "", "fm"[i % 2], "A", y]
        for i, (a, b, y) in enumerate(two_clouds(300))
    ]
    csv_file(tmp_path / "stroke.csv", ["patient", "age", "glucose", "sex", "ward", "stroke"], cases)
    stays = "\n".join(f"{i % 60 + 30};{i % 7};x;{(i % 60) / 10 + i % 7}" for i in range(200))
    (tmp_path / "stay.csv").write_text("age;glucose;remark;days\n" + stays)
    for name, content in FILES.items():
        (tmp_path / f"{name}.toml").write_text(content, "utf-8")
    return tmp_path


def trainer_of(home: Path, name: str) -> Trainer:
    files = {file.id: file for file in find_trainers(Settings.model_validate({"trainers_path": home}))}
    return import_trainer(files[name], node(home, name))


def test_there_is_an_example_of_each_kind() -> None:
    assert set(FILES) == {"SKIN", "STROKE", "STAY", "CLAIMS", "CLAIMS_KEY"}
    assert {re.search(r'kind = "(\w+)"', text)[1] for text in FILES.values()} == set(KINDS)  # type: ignore[index]


@pytest.mark.parametrize(("name", "least"), [("SKIN", 0.9), ("STROKE", 0.8), ("STAY", 0.8)])
def test_the_examples_work_as_they_stand(home: Path, name: str, least: float) -> None:
    trainer = trainer_of(home, name)
    params = Params(trainer.initial_params(0))
    for seed in range(3):
        fit = checked_fit(trainer.fit(Task(params, trainer.defaults, seed)), params, name)
        params = Params(fit.params)
    assert checked_score(trainer.evaluate(params), name).accuracy >= least


def test_what_is_filled_in_or_not_used_is_shown_with_the_data(home: Path) -> None:
    assert trainer_of(home, "STROKE").data_info().note == "missing values taken as the mean: 34"
    assert trainer_of(home, "STAY").data_info().note == "columns not used: remark"


def test_every_option_is_described_with_its_default_and_none_is_invented() -> None:
    described = dict(re.findall(r"^\| `(\w+)`(?:, `\w+`, `\w+`)? \| (.*?) \|", TEXT, re.MULTILINE))
    described |= dict.fromkeys(("rate", "batch"), "") if "epochs" in described else {}
    known = {name for kind in KINDS.values() for name in kind.model_fields}
    assert set(described) == known
    for kind in KINDS.values():
        for name, field in kind.model_fields.items():
            if isinstance(field.default, int | list) and name in described and name not in ("epochs", "batch"):
                default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
                assert default in described[name], name


def test_every_word_for_a_missing_value_is_named() -> None:
    assert all(f"`{word}`" in TEXT for word in ABSENT - {""})
