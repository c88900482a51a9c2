"""What a trainer's TOML file may say: each rule, and an error with file, line and key for what breaks it."""

from __future__ import annotations

import tomllib
import unicodedata
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.datasets.no_code import KINDS, OwnImages, OwnLabels, OwnTable, checked_own, counted, listed, read_own
from flnet.errors import DataMissing, InvalidMessage, TrainerError
from flnet.labels.spaces import read_fields
from flnet.trainer import TrainerSettings
from tests.datasets.own_files import images, table

IMAGES = 'kind = "images"\ndata = "x"\n'
MARKS = "\u0300\u0316" * 1_000
TABLE = 'kind = "table"\ndata = "t.csv"\ntarget = "y"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "MY.toml"
    path.write_text(text, "utf-8")
    return path


def fault(tmp_path: Path, text: str) -> str:
    with pytest.raises(TrainerError) as refusal:
        read_own(written(tmp_path, text))
    return refusal.value.message.replace(str(tmp_path / "MY.toml"), "MY.toml")


def test_a_name_of_many_accents_is_refused_and_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    composing = unicodedata.normalize

    def noted(form: Literal["NFC"], words: str) -> str:
        asked.append(len(words))
        return composing(form, words)

    monkeypatch.setattr(unicodedata, "normalize", noted)
    for names in ({"target": "a" + MARKS}, {"classes": ["a", "b" + MARKS]}, {"categories": {"c" + MARKS: ["d"]}}):
        with pytest.raises(InvalidMessage, match="expected 1 to 200 printable characters"):
            checked_own({"kind": "table", "data": "t.csv", "target": "y", **names})
    assert max(asked) < 1000
    assert len(table(target="a\u0302\u0301" * 150).target) == 150


def test_little_is_needed(tmp_path: Path) -> None:
    own = read_own(written(tmp_path, IMAGES))
    assert isinstance(own, OwnImages)
    assert (own.size, own.colour, own.classes, own.on_bad_file) == (32, "rgb", None, "stop")
    own_table = read_own(written(tmp_path, TABLE))
    assert isinstance(own_table, OwnTable)
    assert own_table.shares == {"train": 70, "validation": 10, "test": 20}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'MY.toml: expected kind = "images", kind = "table" or kind = "vertical"'),
        (
            'kind = "sound"',
            'MY.toml, line 1: expected kind = "images", kind = "table" or kind = "vertical", got "sound"',
        ),
        ("a = 1\nkind = [", "MY.toml, line 2: "),
        (f"{TABLE}epochs = {'9' * 5000}", "MY.toml cannot be read as TOML: Exceeds the limit"),
        (f"{TABLE}epochs = 0x{'f' * 5000}", "equal to 10000 (got a number that is too long)"),
        (
            f"{TABLE}[scale]\na = 0x{'f' * 5000}",
            "scale.a: Input should be a valid list (got a number that is too long)",
        ),
        (f"kind = 0x{'f' * 5000}", 'or kind = "vertical", got a number that is too long'),
        ("kind = 7", 'or kind = "vertical", got 7'),
        ("kind = 1\nkind = 2", "MY.toml, line 2: Cannot overwrite a value"),
        (IMAGES + "sise = 3", "MY.toml, line 3: sise is no option of kind = images; did you mean size"),
        (IMAGES + "zzz = 3", "MY.toml, line 3: zzz is no option of kind = images; expected data, label"),
        (IMAGES + "size = 7", "MY.toml, line 3: size: Input should be greater than or equal to 8 (got 7)"),
        (IMAGES + 'size = "32"', "MY.toml, line 3: size: Input should be a valid integer (got '32')"),
        (IMAGES + "size = true", "MY.toml, line 3: size: Input should be a valid integer"),
        (IMAGES + 'colour = "red"', "line 3: colour: Input should be 'grey' or 'rgb' (got 'red')"),
        (IMAGES + 'classes = ["a", "a"]', "line 3: classes: a stands there twice"),
        (IMAGES + 'classes = ["a"]', "line 3: classes: List should have at least 2 items"),
        (IMAGES + 'classes = ["a", " b"]', "line 3: classes.1: expected 1 to 200 printable characters"),
        (IMAGES + "rate = nan", "line 3: rate: "),
        (IMAGES + "split = [1, 1]", "line 3: split: List should have at least 3 items"),
        (IMAGES + "split = [1, 0, 1]", "line 3: split.1: Input should be greater than 0"),
        ('kind = "images"', "MY.toml: data is missing"),
        ('kind = "table"\ndata = "x"', "MY.toml: target is missing"),
        (TABLE + 'task = "regress"', "MY.toml: task = regress needs target_scale = [mean, spread]"),
        (
            TABLE + 'task = "regress"\ntarget_scale = [1, 0]',
            "the spread of target_scale is 0; expected more than 0",
        ),
        (TABLE + "target_scale = [0, 1]", "target_scale is for task = regress only"),
        (
            TABLE + 'task = "regress"\ntarget_scale = [0, 1]\nclasses = ["a", "b"]',
            "classes is for task = classify only",
        ),
        (TABLE + 'features = ["y"]', "column y is target and features; expected one of them"),
        (TABLE + 'id = "p"\nsplit_by = "q"', "id deals rows together, and split_by says where each goes"),
        (TABLE + 'id = "p"\nignore = ["p"]', "column p is id and ignore; expected one of them"),
        (TABLE + 'features = ["a"]\n[categories]\nb = ["c"]', "categories names b, which is no feature"),
        (TABLE + "[scale]\ny = [0, 1]", "scale names y, which is no feature"),
        (TABLE + "[scale]\na = [0, -1]", "the spread of a is -1; expected more than 0"),
        (TABLE + '[categories]\na = ["b"]\n[scale]\na = [0, 1]', "a stands in categories and in scale"),
        (TABLE + "[categories]\na = []", "line 4: categories.a: List should have at least 1 item"),
    ],
)
def test_what_breaks_a_rule_is_named_with_file_line_and_key(tmp_path: Path, text: str, words: str) -> None:
    assert words in fault(tmp_path, text)


def test_all_wrong_keys_are_named_at_once(tmp_path: Path) -> None:
    words = fault(tmp_path, IMAGES + "size = 1\nepochs = 0\n")
    assert "line 3: size" in words
    assert "line 4: epochs" in words


def test_files_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "MY.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TrainerError, match=r"MY.toml cannot be read as TOML"):
        read_own(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(TrainerError, match="larger than"):
        read_own(path)
    path.write_text("a = " + "[" * 5000)
    with pytest.raises(TrainerError, match=r"MY\.toml"):
        read_own(path)
    with pytest.raises(TrainerError, match=r"ABSENT\.toml cannot be read"):
        read_own(tmp_path / "ABSENT.toml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted({key for kind in KINDS.values() for key in kind.model_fields} | {"other"})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["images", "table"]), options=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)
)
def test_any_options_give_a_trainers_file_or_an_error(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    path = written(
        tmp_path, "\n".join(f"{key} = {toml(value)}" for key, value in ({"kind": kind} | options).items())
    )
    try:
        read = read_own(path)
    except TrainerError as exc:
        words = exc.message
    else:
        assert isinstance(read, tuple(KINDS.values()))
        return
    assert "MY.toml" in words
    assert len(words) < 5000


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_any_bytes_give_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "MY.toml"
    path.write_bytes(content)
    with pytest.raises(TrainerError, match=r"MY\.toml"):
        read_own(path)


def toml(value: Any) -> str:
    """A value as TOML writes it; what TOML cannot say becomes 0."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str() if value.isprintable():
            return "'" + value.replace("'", "") + "'"
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            inner = (f'"{key}" = {toml(v)}' for key, v in value.items() if key.isalnum() and key.isascii())
            return "{" + ", ".join(inner) + "}"
    return "0"


def test_the_writer_of_these_tests_writes_toml() -> None:
    assert tomllib.loads(f"a = {toml([1, True, 'x', {'b': 2.5}])}") == {"a": [1, True, "x", {"b": 2.5}]}


def test_data_are_looked_for_below_the_data_sets_or_by_their_whole_path(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    told = TrainerSettings(tmp_path, tmp_path)
    assert images(data="x").path(told) == tmp_path / "x"
    assert images(data=str(tmp_path / "x")).path(TrainerSettings(None, tmp_path)) == tmp_path / "x"
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH, which is not set"):
        images(data="x").path(TrainerSettings(None, tmp_path))
    with pytest.raises(DataMissing, match="absent is not there"):
        images(data="absent").path(told)


def test_what_must_be_alike_holds_neither_paths_nor_what_is_this_nodes_own() -> None:
    here = images(data="a", on_bad_file="skip", epochs=1, split=[1, 1, 1], classes=["x", "y"])
    there = images(data="b", label="other", rate=0.5, batch=3)
    assert here.agreement(("x", "y")) == there.agreement(("x", "y"))
    assert table(data="a.csv", missing="mean", id="p").agreement(("a",), ("x", "y")) == table(
        data="b.csv", separator=";"
    ).agreement(("a",), ("x", "y"))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "mlp"},
        {"model": "mlp", "hidden": [8, 4]},
        {"categories": {"a": ["m", "f"]}},
        {"categories": {"a": ["f", "m"]}},
        {"scale": {"a": [0, 2]}},
        {"task": "regress", "target_scale": [0, 1]},
        {"target": "z"},
    ],
)
def test_what_changes_the_meaning_of_parameters_changes_the_agreement(change: dict[str, Any]) -> None:
    assert table(**change).agreement(("a", "b"), ("x", "y")) != table().agreement(("a", "b"), ("x", "y"))


def test_the_agreement_of_a_table_reads_well() -> None:
    own = table(
        model="mlp",
        hidden=[16, 8],
        categories={"sex": ["f", "m"]},
        scale={"age": [54, 12.5]},
        classes=["no", "yes"],
    )
    assert own.agreement(("age", "bmi", "sex"), ("no", "yes")) == {
        "task": "classify",
        "target": "y",
        "classes": "no, yes",
        "features": "age [54 12.5], bmi, sex (f/m)",
        "model": "mlp 16, 8",
    }


@given(
    st.lists(st.text(min_size=1, max_size=5), max_size=4), st.lists(st.text(min_size=1, max_size=5), max_size=4)
)
def test_lists_that_differ_are_written_differently(one: list[str], other: list[str]) -> None:
    assert (listed(one) == listed(other)) == (one == other)


# Words as labels of two spaces: which one is meant, and by what rows are dealt.


SPACES = {
    "id": "two",
    "classes": ["healthy", "ill"],
    "desired": {"id": "three", "classes": ["healthy", "cold", "flu"]},
    "mapping": {"healthy": ["healthy"], "ill": ["cold", "flu"]},
}


def spaces() -> OwnLabels:
    found = OwnLabels.of(read_fields(SPACES))
    assert found is not None
    return found


def test_a_word_is_a_class_of_the_own_space_first() -> None:
    assert spaces().words == ("healthy", "ill", "cold", "flu")
    fine, coarse = spaces().numbers(["ill", "flu", "healthy", ""])
    assert (fine.tolist(), coarse.tolist()) == ([-1, 2, -1, -1], [1, -1, 0, -1])


def test_a_row_may_carry_both_labels() -> None:
    fine, coarse = spaces().numbers(["flu", "healthy", "", "cold"], ["ill", "healthy", "ill", ""])
    assert (fine.tolist(), coarse.tolist()) == ([2, 0, -1, 1], [1, 0, 1, -1])


def test_rows_are_dealt_by_the_finest_label_that_they_have() -> None:
    fine, coarse = spaces().numbers(["ill", "flu", "healthy"])
    assert spaces().kinds(fine, coarse).tolist() == [4, 2, 3]
    assert counted(fine, 3) == (0, 0, 1)


def test_who_labels_in_the_desired_space_has_its_words_alone() -> None:
    assert OwnLabels.of(None) is None
    found = OwnLabels.of(read_fields(SPACES["desired"]))
    assert found == OwnLabels(("healthy", "cold", "flu"))
    assert found.words == found.desired
    named = OwnLabels.of(read_fields(SPACES), ["a", "b", "c"])
    assert named is not None and named.desired == ("a", "b", "c")
