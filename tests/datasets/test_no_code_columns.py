"""Trainers without code for this node's columns of people whom other nodes know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.compute.loader import find_trainers
from flnet.datasets.no_code import OwnColumns, read_own
from flnet.datasets.no_code_columns import read_columns
from flnet.errors import TrainerError
from flnet.settings import Settings

CSV = "id,age,city,claim\n1,20,A,yes\n2,40,B,no\n3,60,A,no\n"


def own(folder: Path, csv: str = CSV, **fields: object) -> tuple[Path, OwnColumns]:
    path = folder / "data.csv"
    path.write_text(csv)
    return path, OwnColumns.model_validate({"kind": "vertical", "data": str(path), "id": "id", **fields})


def test_numbers_are_standardised_and_words_become_one_input_each(tmp_path: Path) -> None:
    columns = read_columns(*own(tmp_path, target="claim"))
    assert columns.ids == ["1", "2", "3"]
    assert columns.names == ("age", "city")
    assert columns.classes == ("no", "yes")
    assert columns.y is not None
    assert columns.y.tolist() == [1, 0, 0]
    root = (3 / 2) ** 0.5  # (20, 40, 60): mean 40, spread sqrt(800 / 3)
    np.testing.assert_allclose(columns.x, [[-root, 1, 0], [0, 0, 1], [root, 1, 0]], rtol=1e-6)


def test_columns_can_be_named_or_left_out_and_a_node_may_have_the_label_alone(tmp_path: Path) -> None:
    assert read_columns(*own(tmp_path, ignore=["claim", "age"])).names == ("city",)
    assert read_columns(*own(tmp_path, features=["age"])).y is None
    alone = read_columns(*own(tmp_path, target="claim", features=[]))
    assert alone.x.shape == (3, 0)


@pytest.mark.parametrize(
    ("csv", "fields", "words"),
    [
        (CSV, {"target": "label"}, "has no column label; it has"),
        ("id,age\n", {}, "has no rows below its header"),
        ("id,age\n1,\n2,3\n", {}, "column age has no value in 1 of 2 rows"),
        ("id,age\n1,7\n2,7\n", {}, "feature column age has the same value in all rows"),
        ("id,age\n1,7\n2,inf\n", {}, "column age has numbers that are not finite"),
        ("id,w\n" + "".join(f"{n},x{n}\n" for n in range(101)), {}, "101 different ones; at most 100"),
        ("id,w\n1,2,3\n", {}, "3 values for 2 columns"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(
    tmp_path: Path, csv: str, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(TrainerError) as caught:
        read_columns(*own(tmp_path, csv, **fields))
    assert words in str(caught.value)


def test_a_toml_file_of_kind_vertical_is_a_vertical_trainer_that_needs_no_framework(tmp_path: Path) -> None:
    (tmp_path / "BANK.toml").write_text('kind = "vertical"\ndata = "bank.csv"\nid = "id"\nlabel = "Bank"\n')
    (tmp_path / "CODE.py").write_text('KIND = "vertical"\ndef make_vertical_trainer(settings): ...\n')
    (tmp_path / "ODD.py").write_text('KIND = "diagonal"\n')
    settings = Settings.model_validate({"trainers_path": tmp_path, "trainers": ("BANK", "CODE", "ODD")})
    bank, code, odd = find_trainers(settings)
    assert (bank.kind, bank.error, bank.label, bank.frameworks) == ("vertical", "", "Bank", frozenset())
    assert (code.kind, code.attribute) == ("vertical", "make_vertical_trainer")
    assert 'KIND is "horizontal" or "vertical", not \'diagonal\'' in odd.error


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('id = "id"\nepochs = 3\n', "epochs is no option of kind = vertical"),
        ('id = "id"\ntarget = "id"\n', "column id is id and target"),
        ("", "id is missing"),
        ('id = "id"\nwidht = 3\n', "did you mean width"),
    ],
)
def test_a_toml_file_that_breaks_a_rule_says_which(tmp_path: Path, lines: str, words: str) -> None:
    path = tmp_path / "BANK.toml"
    path.write_text(f'kind = "vertical"\ndata = "bank.csv"\n{lines}')
    with pytest.raises(TrainerError) as caught:
        read_own(path)
    assert words in str(caught.value)
