"""ARFF as Mulan, MEKA and Weka write it is read; everything else is refused with file, line and attribute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.arff import Arff, read_arff
from flnet.training.matrix import SparseRows, dense_rows
from flnet.training.table import BadRow

HEADER = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@data\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "t.arff"
    path.write_bytes(text.encode())
    return path


def values(arff: Arff) -> Array:
    return dense_rows(arff.table.values, np.arange(arff.table.values.shape[0]))


def test_a_dense_file_with_all_that_the_format_allows(tmp_path: Path) -> None:
    text = """\ufeff% a comment
@RELATION 'scene: it\\'s'\r
@Attribute\tAtt1\tREAL
@attribute "with % and space" integer  % a comment after it
@attribute 'it\\'s' { '0' , "1" }

@DATA
1.5, -2e1 ,1   % the first
% nothing
'3',4,"0"
"""
    arff = read_arff(written(tmp_path, text))
    assert arff.table.names == ("Att1", "with % and space", "it's")
    assert values(arff).tolist() == [[1.5, -20.0, 1.0], [3.0, 4.0, 0.0]]
    assert values(arff).dtype == np.float32
    assert arff.relation == "scene: it's"
    assert arff.meka_labels is None


def test_sparse_rows_name_what_is_not_zero(tmp_path: Path) -> None:
    arff = read_arff(written(tmp_path, HEADER + "{0 2.5, 1 1}\n{ }\n{1\t1}\n{}\n"))
    assert isinstance(arff.table.values, SparseRows)
    assert values(arff).tolist() == [[2.5, 1], [0, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("relation", "labels"),
    [
        ("'slashdot: -C 22 -split-percentage 50'", 22),
        ("'x: -C -3'", -3),
        ("x: -C 5", 5),
        ("'MIX-C 5'", None),
        ("plain", None),
    ],
)
def test_mekas_count_of_labels_is_read_off_the_relation(tmp_path: Path, relation: str, labels: int | None) -> None:
    assert (
        read_arff(written(tmp_path, HEADER.replace("@relation r", f"@relation {relation}") + "1,1")).meka_labels
        == labels
    )


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("1,1\n?,0", r"t.arff, line 6: 'a' has no value \(\?\)"),
        ("1,?", r"line 5: 'b' has no value"),
        ("{1 ?}", r"line 5: 'b' has no value"),
        ("1,", "line 5: 'b' has no value"),
        ("x,1", "line 5: 'a' is 'x'; expected a number"),
        ("1,2", "line 5: 'b' is '2'; expected 0 or 1"),
        ("1,0.5", "line 5: 'b' is '0.5'; expected 0 or 1"),
        ("nan,1", "line 5: 'a' is 'nan'"),
        ("1e39,1", "line 5: 'a' is '1e39'"),
        ("1_0,1", "line 5: 'a' is '1_0'"),
        ("1", "line 5: 1 values for 2 columns"),
        ("1,1,1", "line 5: 3 values for 2 columns"),
        ("1,1,{5}", "3 values for 2"),
        ("{0 1", "a sparse row ends with }"),
        ("{0 1}, {5}", "'a' is '1}'"),
        ("{2 1}", "'2' is no column; expected 0 to 1"),
        ("{-1 1}", "'-1' is no column"),
        ("{a 1}", "'a' is no column"),
        ("{0 1, 0 2}", "column 0 is named twice"),
        ("{0}", "'a' has no value"),
        ("1,1\n{0 1}", "line 6: dense and sparse rows are mixed"),
    ],
)
def test_a_bad_row_stops_or_is_skipped_and_counted(tmp_path: Path, rows: str, fault: str) -> None:
    path = written(tmp_path, f"{HEADER}{rows}\n")
    with pytest.raises(BadRow, match=fault):
        read_arff(path)
    good = "1,1" if not rows.startswith("{") else "{1 1}"
    path = written(tmp_path, f"{HEADER}{rows}\n{good}\n{good}\n")
    table = read_arff(path, "skip").table
    assert table.values.shape == (2 + rows.count("\n"), 2)
    assert table.skipped == 1
    assert fault.split(r"\(")[0].rpartition(": ")[2] in table.first_skipped


def test_a_file_of_bad_rows_only_has_none(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"has no rows that can be used: .* line 5"):
        read_arff(written(tmp_path, HEADER + "?,1\n"), "skip")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is no ARFF file: it has no line @data"),
        ("a,b\n1,2\n", "line 1: expected @relation, @attribute or @data, got 'a,b'"),
        ("@relation r\n@data\n1\n", "line 2: @data before any @attribute"),
        (HEADER, "has no rows"),
        (HEADER.replace("numeric", "string"), "line 2: attribute 'a' is string; expected numeric or {0,1}"),
        (HEADER.replace("numeric", "date 'yyyy'"), "'a' is date"),
        (HEADER.replace(" numeric", ""), "'a' is nothing; expected numeric"),
        (HEADER.replace("{0,1}", "{no,yes}"), "'b' is {no,yes}; expected numeric"),
        (HEADER.replace("{0,1}", "{}"), "'b' is {}"),
        (HEADER.replace("attribute b", "attribute a"), "line 3: two attributes are named 'a'"),
        (HEADER.replace("@attribute b {0,1}", "@attribute"), "line 3: an attribute is named ''"),
        (HEADER.replace("{0,1}", "{1,0}") + "{0 1}\n", "rows are sparse, .* would be 1 in 'b'"),
    ],
)
@pytest.mark.parametrize("on_bad_rows", ["stop", "skip"])
def test_a_bad_header_always_stops(tmp_path: Path, text: str, fault: str, on_bad_rows: str) -> None:
    with pytest.raises(TrainerError, match=fault):
        read_arff(written(tmp_path, text), on_bad_rows)  # type: ignore[arg-type]


def test_dense_rows_may_declare_one_before_zero(tmp_path: Path) -> None:
    assert values(read_arff(written(tmp_path, HEADER.replace("{0,1}", "{1,0}") + "5,0\n"))).tolist() == [[5, 0]]


def test_what_is_no_text_or_not_there_is_a_trainers_error(tmp_path: Path) -> None:
    (tmp_path / "t.arff").write_bytes(b"@relation \xff\n")
    with pytest.raises(TrainerError, match="is not UTF-8 text"):
        read_arff(tmp_path / "t.arff")
    with pytest.raises(TrainerError, match="cannot be read"):
        read_arff(tmp_path / "absent.arff")


@given(
    text=st.text(st.sampled_from("@attribute relation data numeric\n\t{}01,?%'\"\\.- ax"), max_size=200),
    header=st.booleans(),
)
def test_any_text_is_a_table_or_a_trainers_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, header: bool
) -> None:
    path = written(tmp_path_factory.getbasetemp(), (HEADER if header else "") + text)
    try:
        table = read_arff(path, "skip").table
    except TrainerError:
        return
    assert table.values.shape[1] == len(table.names)
