"""Tables held cell by cell against what was agreed: every fault has a file, a line and a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.datasets import tables
from flnet.datasets.no_code_table import LabelledTable, TableData, load_table, read_table, standardised
from flnet.errors import DataMissing, TrainerError
from tests.datasets.own_files import csv_file, node, table, two_clouds

GOOD = "age,sex,y\n40,f,no\n50,m,yes\n"
SEX = {"categories": {"sex": ["f", "m"]}}


def read(tmp_path: Path, text: str, **options: Any) -> LabelledTable:
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8")
    return read_table(path, table(**options))


def fault(tmp_path: Path, text: str, **options: Any) -> str:
    with pytest.raises(TrainerError) as refusal:
        read(tmp_path, text, **options)
    return refusal.value.message.replace(f"{tmp_path}/", "")


def test_sparse_rows_and_categories_stand_for_a_bounded_number_of_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", 2_000)
    attributes = "".join(f"@attribute a{number} real\n" for number in range(100))
    path = tmp_path / "t.arff"
    path.write_text(f"@relation r\n{attributes}@attribute y {{a,b}}\n@data\n" + "{}\n" * 500)
    most = path.stat().st_size // 101
    assert 20 < most < 100
    with pytest.raises(TrainerError, match=f"line {103 + most + 1}: more than 2,000 values; ignore columns"):
        read_table(path, table(data="t.arff"))
    words = ",".join(f'"w{number}"' for number in range(100))
    with pytest.raises(TrainerError, match="more than 2,000 values"):
        read(tmp_path, "c,y\n" + "w1,a\nw2,b\n" * 500, categories={"c": words.replace('"', "").split(",")})
    assert len(read(tmp_path, "a,b,y\n" + "1,,a\n2,,b\n" * 1_000, missing="mean").y) == 2_000


CURATED = ["a", "b", "y", "part"]


def curated(folder: Path, parts: Sequence[str], count: int = 60) -> TableData:
    """A table whose rows have these parts in turn."""
    rows = [[*row, parts[i % len(parts)]] for i, row in enumerate(two_clouds(count))]
    csv_file(folder / "t.csv", CURATED, rows)
    return load_table(table(split_by="part"), node(folder))


def test_a_column_may_say_which_rows_are_for_the_test(tmp_path: Path) -> None:
    data = curated(tmp_path, ["train", "train", "train", "val", "val", "test"])
    assert {side: len(y) for side, (_, y) in data.sides.items()} == {"train": 30, "validation": 20, "test": 10}
    assert data.table.features == ("a", "b")
    tested = {round(float(a), 3) for a in data.sides["test"][0][:, 0] * data.scales[0, 1] + data.scales[0, 0]}
    assert tested == {row[0] for row in two_clouds(60)[5::6]}


def test_validation_rows_are_dealt_where_the_column_names_none(tmp_path: Path) -> None:
    sides = curated(tmp_path, ["train", "train", "train", "train", "test", "test"]).sides
    assert len(sides["test"][1]) == 20
    assert 0 < len(sides["validation"][1]) < len(sides["train"][1])


def test_a_row_keeps_the_side_that_its_column_named_first(tmp_path: Path) -> None:
    before = curated(tmp_path, ["train", "val", "test"])
    after = curated(tmp_path, ["train", "val", "train"])
    for side, (x, _) in before.sides.items():
        assert (after.sides[side][0] == x).all()
    assert "20 rows keep the side of the split that they had before" in after.info.note
    assert "keep the side" not in before.info.note


def test_a_table_becomes_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD, **SEX)
    assert found.features == ("age", "sex")
    assert found.x.tolist() == [[40, 1, 0], [50, 0, 1]]
    assert (found.classes, found.y.tolist()) == (("no", "yes"), [0, 1])
    assert np.isnan(found.scales[0]).all()
    assert found.scales[1:].tolist() == [[0, 1], [0, 1]]
    assert found.note == ""


def test_the_order_of_columns_does_not_matter(tmp_path: Path) -> None:
    other = read(tmp_path, "y,sex,age\nno,f,40\nyes,m,50\n", **SEX)
    assert other.features == ("age", "sex")
    assert other.x.tolist() == read(tmp_path, GOOD, **SEX).x.tolist()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "t.csv is empty: expected a first line"),
        ("age,y\n", {}, "t.csv has no rows below its header"),
        ("age,age,y\n1,2,no\n", {}, "t.csv, line 1: age stands there twice"),
        (
            "Age,y\n1,no\n",
            {"features": ["age", "bmi"]},
            "t.csv, line 1: wrong header: missing age, bmi; not expected Age; found Age, y",
        ),
        (
            "age;y\n1;no\n",
            {},
            'line 1: the columns seem to be separated by ";", but the trainer\'s file says ","; '
            'set separator = ";" in it',
        ),
        ("age,y\n1,no\n", {"separator": "tab"}, 'file says "tab"; set separator = "," in it'),
        ("z\n1\n", {"features": ["age"]}, "line 1: wrong header: missing age, y; not expected z; found z"),
        ("y\nno\n", {"features": ["age"]}, "line 1: wrong header: missing age; found y"),
        ("y\nno\n", {}, "t.csv has no features: its columns are y"),
        ("a,y\n1,no,3\n", {}, "t.csv, line 2: 3 values for 2 columns"),
        (
            "a,y\n1,no\n,yes\n",
            {},
            """t.csv, line 3: 'a' has no value (an empty cell); fill it in, or set missing""",
        ),
        ("a,y\nNA,no\n", {}, "t.csv, line 2: 'a' has no value (NA)"),
        ("a,y\n1,\n", {}, "t.csv, line 2: the target 'y' has no value (an empty cell)"),
        ("a,p,y\n1,,no\n", {"id": "p"}, "t.csv, line 2: the id 'p' has no value"),
        (
            "a,p,y\n1,tset,no\n",
            {"split_by": "p"},
            "line 2: 'p' is 'tset'; expected one of train, val, valid, validation, test",
        ),
        ("a,y\n1,no\n", {"split_by": "p"}, "missing p"),
        ("a,y\nold,no\n", {}, "t.csv, line 2: 'a' is 'old'; expected a number, or the values of a listed under"),
        ("a,y\n1_000,no\n", {}, "line 2: 'a' is '1_000'; expected a number"),
        ("a,y\ninf,no\n", {}, "line 2: 'a' is 'inf'; expected a number"),
        ('a,y\n"1,5",no\n', {}, "line 2: 'a' is '1,5'; expected a number"),
        (GOOD + "60,d,no\n", SEX, "t.csv, line 4: 'sex' is 'd'; expected one of f, m"),
        (
            "a,y\n1,maybe\n",
            {"classes": ["no", "yes"]},
            "line 2: the target 'y' is 'maybe'; expected one of no, yes",
        ),
        ("a,y\n1,no\n2,no\n", {}, "t.csv: 'y' has 1 values; expected 2 to 1000 classes: list them under classes"),
        ("a,y\n1,no\n", {"task": "regress", "target_scale": [0, 1]}, "line 2: 'y' is 'no'; expected a number"),
        ("a,y\n,no\n", {"missing": "skip"}, "t.csv has no rows that can be used: "),
    ],
)
def test_what_is_not_as_agreed_is_named_with_file_line_and_column(
    tmp_path: Path, text: str, options: dict[str, Any], words: str
) -> None:
    assert words in fault(tmp_path, text, **options)


def test_skipped_rows_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD + ",f,no\n60,,no\n70,m,\n80,f,yes\n", missing="skip", **SEX)
    assert len(found.y) == 3
    assert found.note.startswith("skipped rows: 3; the first because")
    assert "t.csv, line 4: 'age' has no value" in found.note


def test_what_is_missing_can_be_taken_as_the_mean_but_not_a_target(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD + ",f,no\n60,NA,no\n70,m,?\n", missing="mean", **SEX)
    assert np.isnan(found.x[2, 0])
    assert found.x[3].tolist() == [60, 0, 0]
    assert "skipped rows: 1; " in found.note
    assert "missing values taken as the mean: 2" in found.note


def test_a_category_may_be_called_what_otherwise_means_missing(tmp_path: Path) -> None:
    found = read(tmp_path, "a,y\nNA,no\nx,yes\n", categories={"a": ["x", "NA"]})
    assert found.x.tolist() == [[0, 1], [1, 0]]


def test_columns_that_are_not_used_and_classes_without_rows_are_named(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD, features=["age"], classes=["yes", "no", "unknown"])
    assert found.note == "columns not used: sex; no row of unknown"
    assert found.y.tolist() == [1, 0]


def test_ignored_columns_and_the_id_are_no_features(tmp_path: Path) -> None:
    found = read(tmp_path, "a,name,p,y\n1,Ann,7,no\n2,Bob,8,yes\n", ignore=["name"], id="p")
    assert (found.features, found.groups, found.note) == (("a",), ("7", "8"), "")


def test_a_regression_is_in_units_of_its_agreed_scale(tmp_path: Path) -> None:
    found = read(tmp_path, "a,y\n1,200\n2,260\n", task="regress", target_scale=[200, 20], scale={"a": [1, 2]})
    assert (found.y.tolist(), found.classes) == ([0, 3], ())
    assert found.scales.tolist() == [[1, 2]]
    assert len(found.kinds) == 2


CELLS = st.sampled_from(["1", "2.5", "-3e2", "", "NA", "x", "f", "m", "no", "yes", '"', "nan", "1e400", "é\x00"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.lists(st.sampled_from(["age", "sex", "y", "", " y"]), max_size=4) | st.just(["age", "sex", "y"]),
    rows=st.lists(st.lists(CELLS, max_size=4) | st.lists(CELLS, min_size=3, max_size=3), max_size=6),
    missing=st.sampled_from(["stop", "skip", "mean"]),
    listed=st.booleans(),
)
def test_any_csv_gives_a_table_or_an_error_that_names_the_file(
    tmp_path: Path, header: list[str], rows: list[list[str]], missing: str, listed: bool
) -> None:
    text = "\n".join(",".join(cells) for cells in [header, *rows])
    check(tmp_path, text, missing=missing, **(SEX if listed else {}))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60) | st.text(alphabet="ay,10\n\"'", max_size=40).map(lambda rest: "a,y\n" + rest))
def test_any_text_gives_a_table_or_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    check(tmp_path, text)


def check(tmp_path: Path, text: str, **options: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(errors="replace"))
    try:
        found = read_table(path, table(**options))
    except TrainerError as exc:
        words = exc.message
    else:
        assert len(found.x) == len(found.y) > 0
        assert found.x.shape[1] == len(found.scales)
        assert not np.isinf(found.x).any()
        assert options.get("missing") == "mean" or not np.isnan(found.x).any()
        return
    assert "t.csv" in words


# One node's rows: split for good and by groups, standardised by what is agreed or by the node's own figures.


def test_rows_are_split_in_the_proportions_asked_for_and_for_good(tmp_path: Path) -> None:
    rows = two_clouds(200)
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], rows)
    first = load_table(table(split=[60, 20, 20]), node(tmp_path))
    assert {side: len(y) for side, (_, y) in first.sides.items()} == {"train": 120, "validation": 40, "test": 40}
    assert first.info.source == f"table {tmp_path / 't.csv'}"
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], [*two_clouds(40, seed=9), *reversed(rows)])
    again = load_table(table(split=[60, 20, 20]), node(tmp_path))
    assert {side: len(y) for side, (_, y) in again.sides.items()} == {"train": 144, "validation": 48, "test": 48}


def test_numbers_are_standardised_by_the_nodes_own_training_rows(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(200))
    x, _ = load_table(table(), node(tmp_path)).sides["train"]
    assert x.dtype == np.float32
    assert np.allclose(x.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(x.std(axis=0), 1, atol=1e-5)


def test_an_agreed_scale_is_taken_instead(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, "ny"[i % 2]] for i in range(50)])
    data = load_table(table(scale={"a": [10, 5]}), node(tmp_path))
    x, _ = data.sides["train"]
    assert set(np.round(x[:, 0] * 5 + 10).astype(int)) <= set(range(50))


def test_missing_values_become_the_mean_and_a_constant_column_does_no_harm(tmp_path: Path) -> None:
    rows = [[i if i % 5 else "", 7, "ny"[i % 2]] for i in range(60)]
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], rows)
    data = load_table(table(missing="mean"), node(tmp_path))
    everything = np.concatenate([x for x, _ in data.sides.values()])
    assert np.isfinite(everything).all()
    assert (everything[:, 0] == 0).sum() == 12
    assert (everything[:, 1] == 0).all()


def test_one_wild_number_is_bounded() -> None:
    out = standardised(np.array([[np.nan, 3e38]], np.float32), np.array([[0.0, 1.0], [0.0, 1e-30]]))
    assert out.tolist() == [[0, 1e6]]


@pytest.mark.parametrize("partition", ["iid", "groups", "pathological:1"])
def test_groups_stay_together_over_shards_and_sides(tmp_path: Path, partition: str) -> None:
    rows = [[a, b, f"patient {i // 4}", y] for i, (a, b, y) in enumerate(two_clouds(240))]
    csv_file(tmp_path / "t.csv", ["a", "b", "p", "y"], rows)
    owner: dict[tuple[float, ...], int] = {}
    seen: list[set[str]] = []
    own = table(id="p", scale={"a": [0, 1], "b": [0, 1]})
    numbers = np.array([[a, b] for a, b, _, _ in rows], np.float32).tolist()
    patient = {tuple(pair): row[2] for pair, row in zip(numbers, rows, strict=True)}
    for part in (1, 2):
        data = load_table(own, node(tmp_path, f"node{part}", (part, 2), partition))
        for x, _ in data.sides.values():
            seen.append({str(patient[tuple(row)]) for row in x.tolist()})
            owner |= {tuple(row): part for row in x.tolist()}
    assert len(owner) == 240
    assert sum(map(len, seen)) == len(set().union(*seen)) == 60


def test_rows_are_dealt_by_a_partition_and_groups_need_an_id(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(240))
    data = [load_table(table(), node(tmp_path, f"n{i}", (i, 2), "pathological:1")) for i in (1, 2)]
    assert [sum(one.info.rows.values()) for one in data] == [120, 120]
    assert [sum(map(bool, one.info.counts["test"])) for one in data] == [1, 1]
    assert data[1].info.note == "this node has part 2 of 2 of the partition pathological:1"
    with pytest.raises(TrainerError, match="this trainer gives none"):
        load_table(table(), node(tmp_path, "n3", (1, 2), "groups"))


def test_a_regression_is_split_evenly_over_its_target(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, 3 * i] for i in range(200)])
    data = load_table(table(task="regress", target_scale=[300, 170]), node(tmp_path))
    means = [float(y.mean()) for _, y in data.sides.values()]
    assert max(means) - min(means) < 0.2


def test_too_few_rows_are_told(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[1, "n"], [2, "y"]])
    with pytest.raises(DataMissing, match=r"too few rows in .*t.csv: .* in train"):
        load_table(table(), node(tmp_path))


ARFF = """@relation people
@attribute age numeric
@attribute sex {f,m}
@attribute 'day of visit' date
@attribute y {no,yes}
@data
40,f,'1 May',no
?,m,'2 May',yes
"""


def test_an_arff_file_is_a_table_like_others(tmp_path: Path) -> None:
    path = tmp_path / "t.arff"
    path.write_text(ARFF, "utf-8")
    found = read_table(path, table(**SEX, ignore=["day of visit"], missing="mean"))
    as_csv = read(tmp_path, "age,sex,y\n40,f,no\n,m,yes\n", **SEX, missing="mean")
    assert (found.features, found.classes, found.note) == (as_csv.features, as_csv.classes, as_csv.note)
    np.testing.assert_array_equal(found.x, as_csv.x)


def test_a_sparse_arff_row_has_the_first_word_of_what_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "t.arff"
    head = "@relation r\n@attribute a numeric\n@attribute sex {f,m}\n@attribute y {no,yes}\n@data\n"
    path.write_text(head + "{0 2}\n{1 m, 2 yes}\n", "utf-8")
    found = read_table(path, table(**SEX))
    assert (found.x.tolist(), found.y.tolist()) == ([[2, 1, 0], [0, 0, 1]], [0, 1])


def test_words_for_no_value_and_decimal_commas_are_read(tmp_path: Path) -> None:
    body = "a;y\n1,5;no\nunknown;yes\n-2;yes\n"
    found = read(tmp_path, body, separator=";", decimal=",", no_value=["unknown"], missing="mean")
    assert found.x[[0, 2], 0].tolist() == [1.5, -2]
    assert np.isnan(found.x[1, 0])
    assert "'a' is '1,5'; expected a number" in fault(tmp_path, body, separator=";", no_value=["unknown"])
    assert "'a' has no value (unknown)" in fault(tmp_path, body, separator=";", decimal=",", no_value=["unknown"])
