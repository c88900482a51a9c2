"""Cells become numbers or an error that says where; a refused row leaves no trace."""

from __future__ import annotations

import importlib.util
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from flnet.datasets.labelled import dense_rows
from flnet.datasets.tables import BadRow, ColumnSpec, RowBuilder, Table, gather, near, shown
from flnet.datasets.text_rows import text_rows
from flnet.errors import DataMissing, TrainerError
from flnet.installing import install
from flnet.params.params import Array

COLUMNS = [ColumnSpec("a"), ColumnSpec("b", frozenset({0.0, 1.0}))]


def held(builder: RowBuilder) -> Array:
    matrix = builder.matrix()
    return dense_rows(matrix, np.arange(matrix.shape[0]))


def test_a_refused_row_leaves_no_trace() -> None:
    dense, sparse = RowBuilder(COLUMNS), RowBuilder(COLUMNS)
    dense.add_dense(["1", "1"], "here")
    sparse.add_sparse([("0", "1"), ("1", "1")], "here")
    for cells in (["2", "7"], ["2"], ["?", "1"]):
        with pytest.raises(BadRow):
            dense.add_dense(cells, "here")
    for named in ([("0", "2"), ("1", "7")], [("0", "2"), ("9", "1")]):
        with pytest.raises(BadRow):
            sparse.add_sparse(named, "here")
    assert held(dense).tolist() == held(sparse).tolist() == [[1, 1]]


def test_a_number_too_long_for_python_is_no_number() -> None:
    with pytest.raises(BadRow, match="expected a number"):
        ColumnSpec("a").number("9" * 5000, "here")


def test_rows_are_skipped_only_when_asked_and_are_counted() -> None:
    rows = [(3, ["1", "1"]), (4, ["", "1"]), (5, ["x", "0"])]
    builder = RowBuilder(COLUMNS)
    table = gather(Path("f"), builder, rows, builder.add_dense, "skip")
    assert (table.values.shape, table.skipped) == ((1, 2), 2)
    assert table.first_skipped == "f, line 4: 'a' has no value (an empty cell)"
    other = RowBuilder(COLUMNS)
    with pytest.raises(BadRow, match="f, line 4"):
        gather(Path("f"), other, rows, other.add_dense, "stop")


def test_columns_are_found_by_name() -> None:
    table = Table(("a", "b", "c"), np.zeros((1, 3), np.float32))
    assert table.numbers_of(["c", "a"], "f").tolist() == [2, 0]
    with pytest.raises(TrainerError, match="f has no column x; it has a, b, c"):
        table.numbers_of(["a", "x"], "f")


# Rows of text out of CSV and Parquet: where each stands, and what is wrong with a file as a whole.


PARQUET = importlib.util.find_spec("pyarrow") is not None


def read(path: Path, separator: str = ",") -> tuple[tuple[str, ...], list[tuple[str, list[str]]]]:
    with text_rows(path, separator) as text:
        return text.header, [(where.replace(str(path), "t"), cells) for where, cells in text.rows]


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_rows_come_with_their_lines_empty_ones_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeffa, b\n1,2\n\n"x\ny",3\n4\n')
    assert read(path) == (
        ("a", "b"),
        [("t, line 2", ["1", "2"]), ("t, line 5", ["x\ny", "3"]), ("t, line 6", ["4"])],
    )


def test_other_separators(tmp_path: Path) -> None:
    assert read(written(tmp_path, "a;b\n1,5;2\n"), ";") == (("a", "b"), [("t, line 2", ["1,5", "2"])])
    assert read(written(tmp_path, "a\tb\n1\t2\n"), "\t")[1] == [("t, line 2", ["1", "2"])]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty: expected a first line with the names of the columns"),
        ("\n1,2\n", "is empty"),
        ("a,,c\n", "line 1: column 2 has no name"),
        ("a,b,a,b\n", "line 1: a, b stands there twice"),
        ("a,\x1b[31m\n", "is no name for a column"),
        (b"\xff\xfe\x00", "is not CSV text in UTF-8"),
        ('a,b\n"1,2\n', "is not CSV text in UTF-8"),
        ("a\n" + "x" * 200_000, "is not CSV text in UTF-8: field larger"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(TrainerError, match=r"t\.csv") as refusal:
        read(written(tmp_path, text))
    assert words in refusal.value.message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="is a folder; expected"):
        read(tmp_path)
    with pytest.raises(TrainerError, match="cannot be read"):
        read(tmp_path / "absent.csv")


def test_without_pyarrow_a_parquet_file_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        DataMissing, match=r"pyarrow, .* is not installed; install it \(" + re.escape(install("table"))
    ):
        read(tmp_path / "t.parquet")


@pytest.mark.skipif(not PARQUET, reason="needs pyarrow")
def test_parquet_gives_the_same_text(tmp_path: Path) -> None:
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

    path = tmp_path / "t.parquet"
    table = pyarrow.table({"a": [1.5, None], "b": ["x", "y"], "c": [1, 2]})
    pyarrow.parquet.write_table(table, path)
    assert read(path) == (("a", "b", "c"), [("t, row 1", ["1.5", "x", "1"]), ("t, row 2", ["", "y", "2"])])
    path.write_bytes(b"PAR1 no PAR1")
    with pytest.raises(TrainerError, match="cannot be read as a Parquet file"):
        read(path)


def test_long_lists_are_cut() -> None:
    assert shown(["a", "b"]) == "a, b"
    assert shown([]) == "none"
    assert shown([str(i) for i in range(14)]).endswith("10, 11 and 2 more")
    sentence = "Blüten/zz.jpg (image file is truncated (41 bytes not processed))"
    assert shown([sentence]) == sentence
    assert shown([f"{sentence} {sentence}"]) == f"{sentence} Blüten/zz.jpg (image file is ..."
    assert shown(["x" * 150]) == "x" * 97 + " ..."


def test_the_nearest_name_is_suggested() -> None:
    names = [*(f"x{n}" for n in range(300)), "edible", "poisonous"]
    assert near(["poisonus"], names) == "did you mean poisonous"
    assert near(["zzz"], names) == "it has x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11 and 290 more"


def test_text_is_read_alike_in_any_form_of_its_umlauts(tmp_path: Path) -> None:
    written = 'größe,"Körperteil"\n1,"für;\u037e, älter"\n'
    (tmp_path / "c.csv").write_text(written, "utf-8")
    (tmp_path / "d.csv").write_text(unicodedata.normalize("NFD", written), "utf-8")
    (tmp_path / "s.csv").write_text("a;b\nf\u037e\u0308;1\n", "utf-8")
    assert read(tmp_path / "c.csv")[0][0] == "größe"
    (_, composed), (_, apart) = (read(tmp_path / name)[1][0] for name in ("c.csv", "d.csv"))
    assert composed == apart == ["1", "für;;, älter"]
    assert len(read(tmp_path / "s.csv", ";")[1][0][1]) == 2  # a sign that NFC makes a semicolon separates nothing
