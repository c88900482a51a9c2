"""Guesses at tables and pictures that a person brings, and the descriptions that are made of them."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from flnet.datasets import guess as guessing
from flnet.datasets.guess import Choices, ImagesGuess, TableGuess, described, guess, listing_of, stated, words_in
from flnet.datasets.no_code import OwnTable, checked_own, read_own, toml_of, write_own
from flnet.datasets.no_code_table import read_table
from flnet.errors import FlnetError, ImportRefused, InvalidMessage, NoRoom, TrainerError
from tests.datasets.own_files import class_folders, picture, save

HEADER = ["patient", "age", "bmi", "sex", "visit", "ward", "notes", "stroke"]
WORDS = ("fell in the night", "came alone", "nothing", "was here before")


def people(count: int = 60) -> list[list[str]]:
    """Rows with every kind of column, some of them dirty."""
    rows = []
    for i in range(count):
        age = "unknown" if i % 20 == 7 else str(30 + i)
        bmi = "" if i % 15 == 4 else f"{20 + i / 7:.2f}"
        visit, note = f"2024-0{1 + i % 9}-1{i % 10}", f"{WORDS[i % 4]} {i}"
        rows.append([f"P{i // 2}", age, bmi, "fm"[i % 2], visit, "W1", note, ("no", "yes")[i % 3 == 0]])
    return rows


def as_csv(folder: Path, separator: str = ",", decimal: str = ".") -> Path:
    path = folder / "people.csv"
    lines = [HEADER, *([cell.replace(".", decimal) for cell in row] for row in people())]
    path.write_text("\n".join(separator.join(line) for line in lines) + "\n", "utf-8")
    return path


def as_arff(folder: Path) -> Path:
    path = folder / "people.arff"
    kinds = ["string", "string", "numeric", "{f,m}", "date", "{W1}", "string", "{no,yes}"]
    head = [f"@attribute {name} {kind}" for name, kind in zip(HEADER, kinds, strict=True)]
    rows = [
        ",".join("?" if not cell else f"'{cell}'" if " " in cell else cell for cell in row) for row in people()
    ]
    path.write_text("\n".join(["@relation people", *head, "@data", *rows]) + "\n", "utf-8")
    return path


def as_parquet(folder: Path) -> Path:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(HEADER, map(list, zip(*people(), strict=True)), strict=True))
    numbers = {"bmi": [float(cell) if cell else None for cell in columns["bmi"]]}
    parquet.write_table(arrow.table({**columns, **numbers}), folder / "people.parquet")
    return folder / "people.parquet"


@pytest.mark.parametrize("write", [as_csv, as_arff, as_parquet])
def test_the_same_table_is_guessed_alike_in_every_format(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path)
    found = guess(path)
    assert isinstance(found, TableGuess)
    assert (found.rows, found.is_part, found.target.name) == (60, False, "stroke")
    uses = {column.name: column.use for column in found.columns}
    assert uses == {
        **{"patient": "id", "age": "number", "bmi": "number", "sex": "words"},
        **{"visit": "ignore", "ward": "ignore", "notes": "ignore", "stroke": "target"},
    }
    age = found.column("age")
    assert (age.odd, age.missing, found.column("bmi").missing) == (("unknown",), 3, 4)
    own = described(found, Choices(), str(path))
    assert isinstance(own, OwnTable)
    assert (own.no_value, own.missing, own.categories) == (["unknown"], "mean", {"sex": ["f", "m"]})
    read = read_table(path, own)
    assert read.features == ("age", "bmi", "sex")
    assert (int(np.isnan(read.x).sum()), len(read.y), read.classes) == (3 + 4, 60, ("no", "yes"))


def test_another_separator_and_decimal_commas_are_found(tmp_path: Path) -> None:
    plain, comma = tmp_path / "plain", tmp_path / "comma"
    plain.mkdir()
    comma.mkdir()
    first, second = as_csv(plain), as_csv(comma, ";", ",")
    own = [described(guess(path), Choices(), str(path)) for path in (first, second)]
    assert isinstance(own[1], OwnTable)
    assert (own[1].separator, own[1].decimal) == (";", ",")
    tables = [read_table(path, one) for path, one in zip((first, second), own, strict=True)]  # type: ignore[arg-type]
    np.testing.assert_array_equal(tables[0].x, tables[1].x)


def test_classes_may_be_numbers_with_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;klasse\n" + "1,5;10,0\n2,5;2,0\n" * 10)
    own = described(guess(path), Choices(), str(path))
    assert isinstance(own, OwnTable)
    assert (own.separator, own.decimal, own.classes) == (";", ",", ["2,0", "10,0"])
    assert read_table(path, own).y.tolist() == [1, 0] * 10


def test_commas_in_the_quotes_of_a_header_separate_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"weight, kg";"height, cm";y\n' + "1;2;a\n2;3;b\n" * 5)
    found = guess(path)
    assert isinstance(found, TableGuess)
    assert [column.name for column in found.columns] == ["weight, kg", "height, cm", "y"]


def test_what_a_person_chooses_wins(tmp_path: Path) -> None:
    found = guess(as_csv(tmp_path))
    uses: Any = {"-1": "words", "0": "ignore", "ward": "words"}
    chosen = Choices("bmi", uses, {"ward": ("W1", "W2")}, "skip", "common", "mlp", "Body")
    own = described(found, chosen, "people.csv")
    assert isinstance(own, OwnTable)
    assert (own.target, own.task, own.id, own.missing, own.model, own.label) == (
        *("bmi", "regress", None, "skip"),
        *("mlp", "Body"),
    )
    assert own.target_scale == own.model_validate(own.model_dump()).target_scale
    assert own.scale.keys() == {"age"}
    assert own.categories == {"sex": ["f", "m"], "stroke": ["no", "yes"], "ward": ["W1", "W2"]}
    assert set(own.ignore or ()) == {"patient", "visit", "notes"}


def test_a_person_lists_the_classes_that_other_nodes_have(tmp_path: Path) -> None:
    path = as_csv(tmp_path)
    own = described(guess(path), Choices(words={"stroke": ("no", "yes", "unclear")}), str(path))
    assert isinstance(own, OwnTable)
    assert own.classes == ["no", "yes", "unclear"]
    assert "no row of unclear" in read_table(path, own).note


@given(st.lists(st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=6), max_size=5))
def test_listed_words_are_read_again(words: list[str]) -> None:
    assert words_in(listing_of(words)) == tuple(words)


def test_a_list_of_words_without_its_quote_is_refused() -> None:
    assert words_in(' a , "b, c",, ') == ("a", "b, c")
    with pytest.raises(InvalidMessage, match="cannot be read"):
        words_in('a,"b')


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (Choices("wight"), "there is no column 'wight'; it has patient, age"),
        (Choices("-9"), "there is no column '-9'"),
        (Choices("notes"), "column 'notes' cannot be predicted: expected numbers, or a few different words"),
        (Choices(uses={"sex": "number"}), "column 'sex' holds words; expected numbers"),
        (Choices(uses={"notes": "words"}), "column 'notes' has more than 50 different values"),
        (Choices(uses={"sex": "id"}), "patient, sex are ids; expected one column"),
        (Choices(uses=dict.fromkeys(("age", "bmi", "sex"), "ignore")), "all columns are left out"),
        (Choices(model="forest"), "model: Input should be 'linear' or 'mlp'"),
    ],
)
def test_choices_that_do_not_fit_are_refused(tmp_path: Path, choices: Choices, words: str) -> None:
    found = guess(as_csv(tmp_path))
    with pytest.raises(InvalidMessage) as refusal:
        described(found, choices, "people.csv")
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "", "is empty: expected a first line"),
        ("t.csv", "a,y\n", "has no rows below its header"),
        ("t.csv", "a,y\n1,no\n2\n", "line 3: 1 values for 2 columns"),
        ("t.csv", "a\n,\n", "line 2: 2 values for 1 columns"),
        ("t.csv", "a,b\n1,\n1,\n", "t.csv has no column that could be predicted: its columns are a, b"),
        ("t.docx", "a", "t.docx is of no known kind; expected a .csv, .parquet or .arff file, or a folder"),
        ("t.arff", "@relation r\n", "is no ARFF file"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_words(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(TrainerError) as refusal:
        guess(tmp_path / name)
    assert words in refusal.value.message


def test_only_a_part_of_a_long_table_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "MOST_CELLS", 80)
    found = guess(as_csv(tmp_path))
    assert isinstance(found, TableGuess)
    assert found.is_part
    assert found.rows < 60


def test_pictures_are_guessed_by_their_folders(tmp_path: Path) -> None:
    class_folders(tmp_path / "pets", each=3)
    found = guess(tmp_path / "pets")
    assert found == ImagesGuess({"cat": 3, "dog": 3}, 12, "rgb")
    own = described(found, Choices(size=16, colour="grey", model="linear"), "pets")
    options = {"kind": "images", "data": "pets", "classes": ["cat", "dog"], "size": 16, "colour": "grey"}
    assert own == checked_own({**options, "on_bad_file": "skip", "model": "linear"})


def test_pictures_that_are_split_already_and_damaged_ones_are_counted(tmp_path: Path) -> None:
    for part in ("train", "test"):
        class_folders(tmp_path / "pets" / part, each=2)
    (tmp_path / "pets" / "train" / "cat" / "bad.png").write_bytes(b"no picture")
    save(tmp_path / "pets" / "train" / "cat" / "large.png", picture(1, 0, 300))
    found = guess(tmp_path / "pets")
    assert isinstance(found, ImagesGuess)
    assert found.classes == {"cat": 6, "dog": 4}


def test_only_jpeg_and_png_files_are_looked_at(tmp_path: Path) -> None:
    class_folders(tmp_path / "pets", each=3)
    for number in range(9):
        Image.fromarray(picture(number, 0, 300)).save(tmp_path / f"pets/cat/bitmap{number}.png", "BMP")
    assert guess(tmp_path / "pets") == ImagesGuess({"cat": 12, "dog": 3}, 12, "rgb")


def test_without_pillow_pictures_are_guessed_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_folders(tmp_path / "pets", each=3)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert guess(tmp_path / "pets") == ImagesGuess({"cat": 3, "dog": 3}, 32, "rgb")


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "pets" / "cat" / "1.png", picture(1, 0))
    with pytest.raises(TrainerError, match=r"there are pictures of 1 classes \(cat\); expected a folder"):
        guess(tmp_path / "pets")


NAMES = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(NAMES, min_size=5, max_size=5, unique_by=lambda name: name.casefold()),
    label=st.text(max_size=20),
)
def test_a_written_file_is_read_as_the_same_description(tmp_path: Path, names: list[str], label: str) -> None:
    target, column, word, other, ignored = names
    fields = {
        **{"kind": "table", "data": f"{column}.csv", "target": target, "classes": [word, other], "label": label},
        **{
            "categories": {column: [other, word]},
            "ignore": [ignored],
            "no_value": [word],
            "rate": 0.5,
            "split": [7, 1, 2],
        },
    }
    try:
        own = checked_own(fields)
    except FlnetError:
        return  # names that are one in NFC, or a broken character: refused, in words
    tomllib.loads(toml_of(own))
    path = tmp_path / "T.toml"
    path.unlink(missing_ok=True)
    assert read_own(write_own(tmp_path, "T", own)) == own
    assert checked_own({**json.loads(json.dumps(stated(own))), "data": own.data}) == own


def test_no_file_is_written_over_another_or_outside_of_the_folder(tmp_path: Path) -> None:
    own = checked_own({"kind": "images", "data": "pets", "offered": True})
    write_own(tmp_path / "new", "PETS", own)
    with pytest.raises(ImportRefused, match=r"PETS\.toml is there already"):
        write_own(tmp_path / "new", "PETS", own)
    for name in ("", "../PETS", "A B", "a" * 65, "PETS.toml"):
        with pytest.raises(ImportRefused, match="is no name of a trainer"):
            write_own(tmp_path / "new", name, own)
    (tmp_path / "file").write_text("")
    with pytest.raises(NoRoom, match="cannot be written"):
        write_own(tmp_path / "file", "PETS", own)
    assert "data" not in stated(own)
    assert "offered" not in stated(own)
    with pytest.raises(InvalidMessage, match="expected kind images, table or vertical"):
        checked_own({"kind": "code"})
