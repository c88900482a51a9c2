"""`flnet labels`: known, estimated, and why there is no estimate yet."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from flnet.datasets.split import split_by_folders
from flnet.store.sqlite_store import DiskStore
from tests.cli.fake_node import FakeNode
from tests.leak_figures import CONFUSION, LEAKS

Run = Callable[..., Result]
MODEL = {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9}
FOUND: dict[str, Any] = {
    "kind": "labels",
    "space": {"id": "two", "classes": ["no", "yes"]},
    "desired": {"id": "three", "classes": ["a", "b", "\u202ec"]},
    "estimated": False,
    "threshold": 0.95,
    "matrix": [[1, 0.25, 0], [0, 0.75, 1]],
    "deviation": None,
    "counts": None,
    "waiting": None,
    "model": MODEL,
}
ESTIMATE = {
    **FOUND,
    "estimated": True,
    "deviation": [[0.01, 0.1, 0.5], [0.01, 0.1, 0.5]],
    "counts": [[40, 3, 0], [0, 9, 0]],
}
WAITING = {"from_round": 11, "share": 0.125, "needed": 0.5, "judged": 300}


def asked(flnet: Run, fake_node: FakeNode, found: Any, *more: str, query: str = "") -> Result:
    fake_node.answers[f"/jobs/MNIST/labels{query}"] = (200, json.dumps(found).encode())
    return flnet("labels", "MNIST", "--node", fake_node.address, *more)


def test_a_known_correspondence(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, FOUND)
    assert shown.exit_code == 0
    assert "two (rows) and three (columns), as the labels file says it" in shown.output
    assert ["no", "1.000", "0.250", "0.000"] in [line.split() for line in shown.output.splitlines()]
    assert "\u202e" not in shown.output
    assert "model 0123456789" in shown.output


def test_an_estimate_with_what_stands_behind_it(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, {**ESTIMATE, "pooled": True})
    assert "each of these nodes tells the others how often its labels occur" in shown.output
    assert "0.750 ±0.100 (9)" in shown.output
    assert ["rows", "behind", "it", "40", "12", "0"] in [line.split() for line in shown.output.splitlines()]


def test_no_estimate_yet_and_why(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, {**ESTIMATE, "matrix": None, "deviation": None, "waiting": WAITING})
    assert "there is no estimate yet" in shown.output
    assert "they do from round 11 on" in shown.output
    assert "sure of 50 % of the rows; now of 12 % of 300" in shown.output


def test_for_scripts_of_a_model_of_choice(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, FOUND, "--json", "--digest", "01/", query="?digest=01%2F")
    assert json.loads(shown.output) == FOUND


# `flnet groups`: the elbow in numbers.

FOUND_groups = {
    "kind": "groups",
    "rows": 9000,
    "judged": 2000,
    "compared": 500,
    "model": {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9},
    "common": {"k": 3, "inertia": 0.51, "silhouette": 0.4},
    "tried": [{"k": 1, "inertia": 2.0, "silhouette": None}, {"k": 2, "inertia": 0.5, "silhouette": 0.4375}],
    "bend": 2,
}


def test_a_row_for_each_number_of_groups(ask: Run, fake_node: FakeNode) -> None:
    fake_node.answers["/jobs/MNIST/groups"] = (200, json.dumps(FOUND_groups).encode())
    shown = ask("groups", "MNIST")
    assert shown.exit_code == 0
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["3", "0.51", "0.400", "the", "common", "model"] in lines
    assert ["1", "2", "-", "own", "rows", "alone"] in lines
    assert ["2", "0.5", "0.438", "own", "rows", "alone,", "bend"] in lines
    assert "on 2000 of 9000 own rows; silhouettes compare 500 of them" in shown.output
    assert json.loads(ask("groups", "MNIST", "--json").output) == FOUND_groups


# `flnet leaks`: what a model gives away of the rows.


def test_the_advantage_with_its_interval_and_what_chance_gives(ask: Run, fake_node: FakeNode) -> None:
    fake_node.answers["/jobs/MNIST/leaks"] = (200, json.dumps(LEAKS).encode())
    shown = ask("leaks", "MNIST")
    assert shown.exit_code == 0
    assert "advantage 0.312 (95 % interval 0.250 to 0.375); 0.300 at the mean loss, AUC 0.700" in shown.output
    assert "on 2000 of 9000 training rows and 2000 of 2400 test rows" in shown.output
    assert "chance alone stays below 0.043" in shown.output
    assert json.loads(ask("leaks", "MNIST", "--json").output) == LEAKS


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await DiskStore(tmp_path).close()
    return tmp_path


def test_a_whole_folder_is_well(flnet: Run, folder: Path) -> None:
    done = flnet("doctor", "--state-path", str(folder))
    assert done.exit_code == 0
    assert done.output.startswith(f"state in {folder}\n  ok      permissions  only its owner may read it\n")


def test_what_is_damaged_ends_with_1_until_it_is_mended(flnet: Run, folder: Path) -> None:
    (folder / "state.sqlite3").write_bytes(b"no database" * 1000)
    arguments = ("doctor", "--state-path", str(folder))
    told = flnet(*arguments, "--json")
    assert told.exit_code == 1
    result = json.loads(told.output)
    assert (result["well"], result["folder"]) == (False, str(folder))
    assert [finding["what"] for finding in result["findings"] if finding["level"] == "error"] == ["database"]
    mended = flnet(*arguments, "--repair")
    assert mended.exit_code == 0
    assert "  mended  database" in mended.output
    assert flnet(*arguments).exit_code == 0


def test_a_folder_that_is_not_there_ends_with_1(flnet: Run, tmp_path: Path) -> None:
    assert flnet("doctor", "--state-path", str(tmp_path / "missing")).exit_code == 1


def test_it_shows_how_much_may_be_kept(flnet: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_KEEP_EVENTS", "77")
    assert "0 events (at most 77)" in flnet("doctor", "--state-path", str(folder)).output


# `flnet doctor` on the splits that trainers keep.


def split_of_pictures(state: Path, trainer: str = "PETS") -> Path:
    rows, path = np.arange(90).reshape(30, 3), state / "trainers" / trainer / "split-images.npz"
    path.parent.mkdir(parents=True)
    split_by_folders(path, rows, np.arange(30) % 2, [""] * 30, {"train": 7, "validation": 1, "test": 2}, 0)
    return path


def test_the_doctor_sees_pictures_that_are_laid_out_anew(
    flnet: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, trainers, data = tmp_path / "state", tmp_path / "trainers", tmp_path / "data"
    asyncio.run(DiskStore(state).close())
    path = split_of_pictures(state)
    (data / "pets" / "cat").mkdir(parents=True)
    trainers.mkdir()
    (trainers / "PETS.toml").write_text('kind = "images"\ndata = "pets"\n')
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(trainers))
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(data))
    shown = flnet("doctor", "--state-path", str(state))
    assert ["ok", "split"] in [line.split()[:2] for line in shown.output.splitlines()]
    for part in ("train", "test"):
        (data / "pets" / part / "cat").mkdir(parents=True)
    (data / "pets" / "cat").rmdir()
    shown = flnet("doctor", "--state-path", str(state))
    words = "PETS: the folders are laid out anew; images that were split before keep their side"
    assert shown.exit_code == 0
    assert words in shown.output
    assert f"stop the node and delete {path}" in shown.output


def test_the_doctor_sees_how_many_pictures_keep_their_side_and_a_damaged_split(flnet: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    asyncio.run(DiskStore(state).close())
    path, shares = split_of_pictures(state), {"train": 7, "validation": 1, "test": 2}
    rows, labels = np.arange(90).reshape(30, 3), np.arange(30) % 2
    kept = split_by_folders(path, rows, labels, ["test"] * 15 + ["train"] * 15, shares, 0).kept
    assert kept > 5
    assert f"PETS: {kept} rows keep the side" in flnet("doctor", "--state-path", str(state)).output
    path.write_bytes(b"PK")
    shown = flnet("doctor", "--state-path", str(state))
    assert shown.exit_code == 1
    assert "cannot be read as an .npz file" in shown.output


def test_confusion_is_a_table_with_its_figures(fake_node: FakeNode, ask: Run) -> None:
    fake_node.answers["/jobs/MNIST/confusion"] = (200, json.dumps(CONFUSION).encode())
    shown = ask("confusion", "MNIST").output
    assert re.search(r"<cat> +30 +10 +40 +0.7500", shown)
    assert "balanced_accuracy 0.8750, f1_macro 0.7620, auc 0.9100" in shown
    assert "on 50 of 2400 test rows; model 0123456789" in shown
    assert json.loads(ask("confusion", "MNIST", "--json").output) == CONFUSION
