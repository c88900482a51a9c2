"""Trainers without code for this node's columns of people whom other nodes know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.vertical.identifiers import normalised_column
from flnet.compute.loader import find_trainers
from flnet.datasets import tables
from flnet.datasets.no_code import OwnColumns, read_own
from flnet.datasets.no_code_columns import read_columns
from flnet.errors import AlignmentRefused, TrainerError
from flnet.settings import Settings
from flnet.vertical_trainer import GradientDefence, OutputDefence
from trainers._own_columns import OwnColumnsTrainer

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
        ("id,w\n" + "".join(f"{n},x{n}\n" for n in range(101)), {}, "101 different values; at most 100"),
        ("id,w\n0,l2\n" + "".join(f"{n},{n}\n" for n in range(1, 200)), {}, "words in 1 of 200 rows"),
        ("id;w\n1;2\n2;3\n", {}, 'set separator = ";"'),
        ("id,w\n1,2\n2,3\n", {"separator": ";"}, 'set separator = ","'),
        ("id;w\n1;2,5\n2;3\n", {"separator": ";"}, "column w has numbers with a decimal comma"),
        ("id,w\n1,NA\n2,3\n3,?\n", {}, "column w has no value in 2 of 3 rows"),
        ("id,w,y\n1,5,yes\n2,3,\n3,4,N/A\n", {"target": "y"}, "column y has no value in 2 of 3 rows"),
        ("id,w\n1.2E+15,4\n1.2E+15,3\n1234,5\n", {}, "2 of 3 ids are written as rounded numbers"),
        (CSV, {"ignore": ["agee"]}, "has no column agee"),
        ("id,w\n1,2,3\n", {}, "3 values for 2 columns"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(
    tmp_path: Path, csv: str, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(TrainerError) as caught:
        read_columns(*own(tmp_path, csv, **fields))
    assert words in str(caught.value)


def test_sparse_rows_stand_for_a_bounded_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", 2_000)
    attributes = "".join(f"@attribute a{number} real\n" for number in range(100))
    path = tmp_path / "t.arff"
    path.write_text(f"@relation r\n@attribute id string\n{attributes}@data\n" + "{0 p}\n" * 500)
    with pytest.raises(TrainerError, match="more than 2,000 values; ignore columns, or bring fewer rows"):
        read_columns(path, own(tmp_path)[1])


def test_a_toml_file_of_kind_vertical_is_a_vertical_trainer_that_needs_no_framework(tmp_path: Path) -> None:
    (tmp_path / "BANK.toml").write_text('kind = "vertical"\ndata = "bank.csv"\nid = "id"\nlabel = "Bank"\n')
    (tmp_path / "CODE.py").write_text('KIND = "vertical"\ndef make_vertical_trainer(settings): ...\n')
    (tmp_path / "ODD.py").write_text('KIND = "diagonal"\n')
    settings = Settings.model_validate({"trainers_path": tmp_path, "trainers": ("BANK", "CODE", "ODD")})
    bank, code, odd = find_trainers(settings)
    assert (bank.kind, bank.error, bank.label, bank.frameworks) == ("vertical", "", "Bank", frozenset())
    assert (code.kind, code.attribute) == ("vertical", "make_vertical_trainer")
    assert 'KIND is "horizontal" or "vertical", not \'diagonal\'' in odd.error


ENCRYPTED = 'method = "encrypted-regression"\n'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (ENCRYPTED + 'data = "x.csv"\nid = "id"\nhidden = [3]\n', "hidden is no option of method = encrypted"),
        (ENCRYPTED + 'target = "y"\n', "target is for a node with data"),
        (ENCRYPTED + 'data = "x.csv"\n', "id is missing"),
        ('id = "id"\n', "data is missing"),
        ('method = "magic"\n', "method"),
        (
            'data = "x.csv"\nid = "id"\nhides_matches = true\n',
            "hides_matches is for method = encrypted-regression only",
        ),
        (
            f'{ENCRYPTED}data = "x.csv"\nid = "id"\nhides_matches = true\nallow_predictions = true\n',
            "allow_predictions would tell which rows match, and hides_matches = true hides that",
        ),
        (
            f"{ENCRYPTED}allow_predictions = true\n",
            "allow_predictions is for a node with data; a node without data holds the key only",
        ),
    ],
)
def test_a_file_of_an_encrypted_regression_that_makes_no_sense_is_refused(
    tmp_path: Path, lines: str, words: str
) -> None:
    (tmp_path / "BANK.toml").write_text(f'kind = "vertical"\n{lines}')
    with pytest.raises(TrainerError) as caught:
        read_own(tmp_path / "BANK.toml")
    assert words in str(caught.value)


def test_a_file_without_data_holds_the_key_and_has_other_defaults(tmp_path: Path) -> None:
    (tmp_path / "BANK.toml").write_text(f'kind = "vertical"\n{ENCRYPTED}batch = 100\nhides_matches = true\n')
    key = read_own(tmp_path / "BANK.toml")
    assert isinstance(key, OwnColumns)
    assert (key.holds_key, key.hides_matches) == (True, True)
    assert key.hyper == (0.05, 100)


def test_inputs_of_an_encrypted_regression_are_standardised_and_far_values_cut(tmp_path: Path) -> None:
    csv = "id,age,city\n" + "".join(f"{n},{900 if n == 7 else n % 5},{'AB'[n == 3]}\n" for n in range(100))
    columns = read_columns(*own(tmp_path, csv, method="encrypted-regression"))
    assert columns.x.shape == (100, 3)
    assert columns.x.max() == 5
    assert np.abs(columns.x.mean(axis=0)).max() < 0.06
    assert columns.x.std(axis=0).max() < 1.01
    three = "id,age,y\n" + "".join(f"{n},{n},{n % 3}\n" for n in range(9))
    with pytest.raises(TrainerError, match="column y has 3 different values; encrypted regression needs two"):
        read_columns(*own(tmp_path, three, target="y", method="encrypted-regression"))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('id = "id"\nepochs = 3\n', "epochs is no option of kind = vertical"),
        ('id = "id"\ntarget = "id"\n', "column id is id and target"),
        ("", "id is missing"),
        ('id = "id"\nwidht = 3\n', "did you mean width"),
        ('id = "id"\nin_flight = 65\n', "line 4: in_flight: Input should be less than or equal to 64 (got 65)"),
        ('id = "id"\noutput_noise = {clip = 4}\n', "line 4: output_noise.multiplier is missing"),
        ('id = "id"\noutput_noise = {clip = 0, multiplier = 1}\n', "output_noise.clip: Input should be greater"),
        ('id = "id"\noutput_noise = {clip = 1, multiplier = 1, x = 1}\n', "output_noise.x: Extra inputs"),
        ('id = "id"\ngradient_noise = {rule = "max-norm"}\n', "gradient_noise is for nodes with a label"),
        ('id = "id"\ntells_score = false\n', "tells_score is for nodes with a label; it needs target"),
        (
            'id = "id"\ntarget = "y"\ngradient_noise = {rule = "max-norm", scale = 2}\n',
            "scale is for rule = isotropic only",
        ),
        ('id = "id"\ntarget = "y"\ngradient_noise = {rule = "marvell"}\n', "gradient_noise.rule: Input should be"),
    ],
)
def test_a_toml_file_that_breaks_a_rule_says_which(tmp_path: Path, lines: str, words: str) -> None:
    path = tmp_path / "BANK.toml"
    path.write_text(f'kind = "vertical"\ndata = "bank.csv"\n{lines}')
    with pytest.raises(TrainerError) as caught:
        read_own(path)
    assert words in str(caught.value)


def test_a_byte_order_mark_and_semicolons_change_nothing(tmp_path: Path) -> None:
    plain = read_columns(*own(tmp_path, target="claim"))
    marked = read_columns(*own(tmp_path, "\ufeff" + CSV.replace(",", ";"), target="claim", separator=";"))
    assert (marked.ids, marked.names, marked.classes) == (plain.ids, plain.names, plain.classes)
    np.testing.assert_array_equal(marked.x, plain.x)


def test_ids_stay_text_with_their_leading_zeros_and_missing_ones_are_counted(tmp_path: Path) -> None:
    columns = read_columns(*own(tmp_path, "id,age\n007,1\n7,2\n 0070 ,3\n1e3,4\n"))
    assert columns.ids == ["007", "7", "0070", "1e3"]
    assert normalised_column(columns.ids) == ["007", "7", "0070", "1e3"]
    missing = read_columns(*own(tmp_path, "id,age\nNA,1\nnull,2\n,3\n4,4\n"))
    with pytest.raises(AlignmentRefused, match="3 of 4 ids are missing or empty"):
        normalised_column(missing.ids)


def test_classes_are_words_in_alphabetical_order_and_may_be_more_than_two(tmp_path: Path) -> None:
    columns = read_columns(
        *own(tmp_path, "id,age,kind\n1,5,late\n2,3,paid\n3,4,in court\n4,4,late\n", target="kind")
    )
    assert columns.classes == ("in court", "late", "paid")
    assert columns.y is not None
    assert columns.y.tolist() == [1, 2, 0, 1]


def test_a_parquet_file_is_read_as_the_same_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `table`)")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, of_csv = own(tmp_path, "id,age,city,claim\n007,20,A,yes\n8,40,B,no\n9,60,A,no\n", target="claim")
    cells = {"id": ["007", "8", "9"], "age": [20, 40, 60], "city": ["A", "B", "A"], "claim": ["yes", "no", "no"]}
    parquet.write_table(pyarrow.table(cells), tmp_path / "data.parquet")
    table, plain = read_columns(tmp_path / "data.parquet", of_csv), read_columns(path, of_csv)
    assert (table.ids, table.classes) == (plain.ids, plain.classes)
    np.testing.assert_array_equal(table.x, plain.x)


@pytest.mark.parametrize(
    ("ids", "same"),
    [
        ([7, 8, 9], ["7", "8", "9"]),
        ([7.0, 8.0, 1e15], ["7", "8", f"1{15 * '0'}"]),
        (["07", "8", "9"], ["07", "8", "9"]),
    ],
)
def test_whole_numbers_as_ids_of_a_parquet_file_are_equal_to_their_text(
    tmp_path: Path, ids: list[object], same: list[str]
) -> None:
    assert normalised_column(read_columns(*parquet_file(tmp_path, ids)).ids) == same


@pytest.mark.parametrize("ids", [[2.0**53, 1.0, 2.0], [1e22, 1.0, 2.0]])
def test_ids_that_are_too_large_to_be_exact_numbers_are_refused(tmp_path: Path, ids: list[object]) -> None:
    with pytest.raises(TrainerError, match="1 of 3 ids are written as rounded numbers"):
        read_columns(*parquet_file(tmp_path, ids))


def test_missing_cells_of_a_parquet_file_are_counted(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="column age has no value in 2 of 3 rows"):
        read_columns(*parquet_file(tmp_path, ["a", "b", "c"], [None, float("nan"), 4.0]))
    columns = read_columns(*parquet_file(tmp_path, ["a", None, None]))
    with pytest.raises(AlignmentRefused, match="2 of 3 ids are missing"):
        normalised_column(columns.ids)


def parquet_file(
    folder: Path, ids: list[object], ages: tuple[object, ...] | list[object] = (1, 2, 3)
) -> tuple[Path, OwnColumns]:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `table`)")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = folder / "data.parquet"
    parquet.write_table(pyarrow.table({"id": ids, "age": list(ages)}), path)
    return path, OwnColumns(kind="vertical", data=str(path), id="id")


def test_defences_and_batches_in_flight_are_settings_of_the_trainer(tmp_path: Path) -> None:
    path, file = own(
        tmp_path,
        target="claim",
        output_noise={"clip": 4, "multiplier": 0.3},
        gradient_noise={"rule": "isotropic", "scale": 10},
        tells_score=False,
        in_flight=4,
    )
    trainer = OwnColumnsTrainer(file, read_columns(path, file))
    assert trainer.output_noise == OutputDefence(4, 0.3)
    assert trainer.gradient_noise == GradientDefence("isotropic", 10)
    assert (trainer.tells_score, trainer.in_flight) == (False, 4)
    path, file = own(tmp_path)
    plain = OwnColumnsTrainer(file, read_columns(path, file))
    assert (plain.output_noise, plain.gradient_noise, plain.tells_score, plain.in_flight) == (None, None, True, 1)
