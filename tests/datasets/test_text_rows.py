"""Rows out of files that cost little to make and much to read, and what stands between columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flnet.datasets import text_rows as reading
from flnet.datasets.arff import read_arff
from flnet.datasets.multi_label import read_multi_label
from flnet.datasets.tables import composed
from flnet.datasets.text_rows import separator_of, text_rows
from flnet.errors import TrainerError

MEGABYTE = 1_000_000


def rows_of(path: Path) -> list[list[str]]:
    with text_rows(path) as table:
        return [cells for _, cells in table.rows]


def stored(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    """A Parquet file of these columns."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path, **options)
    return path


@contextmanager
def counted_bytes() -> Iterator[Any]:
    """A pool that knows the most bytes that Arrow has held."""
    arrow = pytest.importorskip("pyarrow")
    before = arrow.default_memory_pool()
    pool = arrow.proxy_memory_pool(before)
    arrow.set_memory_pool(pool)
    try:
        yield pool
    finally:
        arrow.set_memory_pool(before)


def test_times_that_python_does_not_have_are_text(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    times = {
        "fine": arrow.array([1_700_000_000_123_456_789, None], arrow.timestamp("ns")),
        "late": arrow.array([9_999_999, 0], arrow.int32()).cast(arrow.date32()),
        "far": arrow.array([600_000_000_000, 0], arrow.timestamp("s")),
        "long": arrow.array([1, 2], arrow.duration("ns")),
    }
    assert rows_of(stored(tmp_path / "t.parquet", times)) == [
        ["2023-11-14 22:13:20.123456789", "29349-01-25", "20983-03-30 10:40:00", "1"],
        ["", "1970-01-01", "1970-01-01 00:00:00", "2"],
    ]


def test_cells_that_are_no_text_are_refused_in_words(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    ends = arrow.array(range(3), arrow.int32()).buffers()[1]
    broken = arrow.Array.from_buffers(arrow.string(), 2, [None, ends, arrow.py_buffer(b"\xff\xff")])
    zone = arrow.array([1, 2], arrow.timestamp("us", "Mars/Phobos"))
    for column in (broken, zone):
        path = stored(tmp_path / "t.parquet", {"a": column, "y": ["b", "c"]})
        with pytest.raises(TrainerError, match=r"t\.parquet cannot be read as a Parquet file: .*(utf-8|Phobos)"):
            rows_of(path)


@pytest.mark.parametrize("size", [100_000, MEGABYTE])
def test_a_text_that_stands_in_many_rows_is_in_memory_once(tmp_path: Path, size: int) -> None:
    arrow = pytest.importorskip("pyarrow")
    places = arrow.array([0] * 1500, arrow.int32())
    repeated = arrow.DictionaryArray.from_arrays(places, arrow.array(["x" * size])).cast("string")
    path = stored(tmp_path / "t.parquet", {"a": repeated, "y": ["b"] * 1500}, compression="zstd")
    assert path.stat().st_size < 5_000
    with counted_bytes() as pool:
        if size > reading.LONGEST_CELL:
            with pytest.raises(TrainerError, match="column a has a cell of more than 131,072 characters"):
                rows_of(path)
        else:
            assert [len(cells[0]) for cells in rows_of(path)] == [size] * 1500
        assert pool.max_memory() < 20 * MEGABYTE


def test_a_row_of_many_long_texts_is_refused(tmp_path: Path) -> None:
    columns = {f"c{number}": ["x" * 120_000] for number in range(36)}
    with pytest.raises(TrainerError, match="a line or a row of more than 4,194,304 characters"):
        rows_of(stored(tmp_path / "t.parquet", columns))


def test_wide_rows_are_read_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(tmp_path / "t.parquet", {f"c{number}": list(range(100)) for number in range(50)})
    expected = [[str(number)] * 50 for number in range(100)]
    monkeypatch.setattr(reading, "_BATCH", 30_000)
    with counted_bytes() as pool:
        assert rows_of(path) == expected
        few = pool.max_memory()
    monkeypatch.undo()
    with counted_bytes() as pool:
        assert rows_of(path) == expected
        assert few < pool.max_memory()


def test_cells_of_a_fixed_width_have_a_bound_too(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.array([b"x" * 200_000], arrow.binary(200_000))
    with pytest.raises(TrainerError, match="column a has a cell of more than 131,072 characters"):
        rows_of(stored(tmp_path / "t.parquet", {"a": wide}))


def test_a_file_that_unpacks_to_much_more_than_it_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = {"a": [0.0] * 100_000}
    path = stored(tmp_path / "t.parquet", zeros, compression="zstd", use_dictionary=False)
    assert len(rows_of(path)) == 100_000
    monkeypatch.setattr(reading, "SMALL", 1000)
    with pytest.raises(TrainerError, match=r"t\.parquet would unpack to more than 200 times its size"):
        rows_of(path)


def test_lists_are_not_read_and_stand_there_as_what_they_are(tmp_path: Path) -> None:
    columns = {"a": [{"b": 1}, None], "a.b": [5, 6], "c.d": [7, 8], "l": [[1.0] * 9, []], "y": ["n", "m"]}
    read = rows_of(stored(tmp_path / "t.parquet", columns))
    assert [[cells[2], cells[4]] for cells in read] == [["7", "n"], ["8", "m"]]
    assert {cells[0] for cells in read} == {"struct<b: int64>"}
    assert all("list<" in cells[3] for cells in read)
    only = rows_of(stored(tmp_path / "t.parquet", {"l": [[1], [2], [3]]}))
    assert len(only) == 3


MARKS = ["\u0300\u0316" * 501, "\u0f73" * 1001, "\u0344" * 1001, "\U0001d165" * 1001]


@pytest.mark.parametrize("marks", MARKS, ids=["two in turn", "hidden", "of two", "music"])
@pytest.mark.parametrize("ending", ["csv", "arff", "parquet"])
def test_many_accents_on_one_sign_are_refused_in_words(tmp_path: Path, marks: str, ending: str) -> None:
    path, words = tmp_path / f"t.{ending}", "more than 30 accents on one sign; no text has so many"
    if ending == "csv":
        path.write_text(f"a,y\n1,1\na{marks},1\n", "utf-8")
    elif ending == "arff":
        path.write_text(f"@relation r\n@attribute a {{x}}\n@attribute y {{b}}\n@data\na{marks},b\n", "utf-8")
    else:
        stored(path, {"a": [f"a{marks}"], "y": ["b"]})
    with pytest.raises(TrainerError, match=words) as refusal:
        rows_of(path)
    assert refusal.value.message.startswith(str(path))
    if ending == "arff":
        with pytest.raises(TrainerError, match=f"line 5: {words}"):
            read_arff(path, "skip")
    if ending == "csv":
        with pytest.raises(TrainerError, match=f"line 3: {words}"):
            read_multi_label(path, label_columns=1)


@pytest.mark.parametrize("words", ["x\u0300\u0316" * 500, "a" + "\u0323\u0307" * 15, "größe" * 99, "日本語" * 99])
def test_text_that_people_write_is_composed(words: str) -> None:
    for form in ("NFC", "NFD"):
        assert composed(unicodedata.normalize(form, words), "here") == unicodedata.normalize("NFC", words)


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("a,b;c,d", ","),
        ("a;b", ";"),
        ("a\tb,c\td", "\t"),
        ('"weight, kg";"height, cm";y', ";"),
        ('\ufeff"a ""b"", c, d";y', ";"),
        ('"a;b;c","d;e"', ","),
        ('5" pipe,6" pipe,"a;b;c;d"', ","),
        ('"a, b, c;', ","),
        ("alone", ","),
    ],
)
def test_signs_in_quotes_separate_nothing(tmp_path: Path, line: str, sign: str) -> None:
    (tmp_path / "t.csv").write_text(f"{line}\n1;1;1,1\n", "utf-8")
    assert separator_of(tmp_path / "t.csv") == sign


def test_of_signs_that_are_as_frequent_the_expected_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("weight, kg;height, cm;y\n", "utf-8")
    assert [separator_of(tmp_path / "t.csv", sign) for sign in (",", ";", "\t")] == [",", ";", ","]
