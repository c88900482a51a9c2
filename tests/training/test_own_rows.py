"""Tables held cell by cell against what was agreed: every fault has a file, a line and a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.training.own_rows import Table, read_table
from tests.training.own_files import table

GOOD = "age,sex,y\n40,f,no\n50,m,yes\n"
SEX = {"categories": {"sex": ["f", "m"]}}


def read(tmp_path: Path, text: str, **options: Any) -> Table:
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8")
    return read_table(path, table(**options))


def fault(tmp_path: Path, text: str, **options: Any) -> str:
    with pytest.raises(TrainerError) as refusal:
        read(tmp_path, text, **options)
    return refusal.value.message.replace(f"{tmp_path}/", "")


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
        ("age;y\n1;no\n", {}, "found age;y; is separator right?"),
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
    assert found.note.startswith("3 rows were skipped, the first because")
    assert "t.csv, line 4: 'age' has no value" in found.note


def test_what_is_missing_can_be_taken_as_the_mean_but_not_a_target(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD + ",f,no\n60,NA,no\n70,m,?\n", missing="mean", **SEX)
    assert np.isnan(found.x[2, 0])
    assert found.x[3].tolist() == [60, 0, 0]
    assert "1 rows were skipped" in found.note
    assert "2 missing values were taken as the mean" in found.note


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
