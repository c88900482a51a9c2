"""Files of every kind become the question that a node is asked."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from flnet.cli import inputs
from flnet.cli.inputs import question_of


def written(folder: Path, name: str, contents: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


def test_json_is_a_list_of_inputs_or_the_whole_question(tmp_path: Path) -> None:
    assert question_of(written(tmp_path, "a.json", "[[1, 2]]")) == {"inputs": [[1, 2]]}
    assert question_of(written(tmp_path, "b.json", '{"inputs": [[1]]}')) == {"inputs": [[1]]}


def test_an_array_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.float32).reshape(1, 2, 2))
    assert question_of(tmp_path / "a.npy") == {"inputs": [[[0.0, 1.0], [2.0, 3.0]]]}


@pytest.mark.parametrize("name", ["a.png", "a.JPG", "a.jpeg"])
def test_a_picture_goes_as_it_is(tmp_path: Path, name: str) -> None:
    assert question_of(written(tmp_path, name, b"\x89x")) == {"image": base64.b64encode(b"\x89x").decode()}


def test_csv_with_names_of_columns_and_without(tmp_path: Path) -> None:
    assert question_of(written(tmp_path, "a.csv", "1,2\n\n3,4.5\n")) == {"inputs": [[1, 2], [3, 4.5]]}
    named = question_of(written(tmp_path, "b.csv", "\ufeffage, height\n1,2\n3,4\n"))
    assert named == {"inputs": [{"age": 1, "height": 2}, {"age": 3, "height": 4}]}
    assert question_of(written(tmp_path, "c.csv", "")) == {"inputs": []}


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("a.txt", "1", r"ends in '.txt'; expected .json, .csv"),
        ("a", "1", "ends in 'nothing'"),
        ("a.json", "[1", "holds no usable inputs"),
        ("a.json", "[NaN]", "holds no usable inputs"),
        ("a.csv", "1,2\n3,x\n", "line 2: could not convert"),
        ("a.csv", "a,b\n3\n", "line 2 has 1 values for 2 columns"),
        ("a.csv", "1,nan\n", "holds no usable inputs"),
        ("a.npy", "no array", "holds no usable inputs"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_name(tmp_path: Path, name: str, contents: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        question_of(written(tmp_path, name, contents))


def test_a_file_that_is_not_there_and_one_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        question_of(tmp_path / "a.json")
    monkeypatch.setattr(inputs, "MAX_BYTES", 3)
    with pytest.raises(ValueError, match="has 4 bytes; a node takes at most 3"):
        question_of(written(tmp_path, "a.png", b"1234"))


def test_objects_in_an_array_of_numpy_are_not_revived(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object))  # numpy pickles it; reading it back is refused
    with pytest.raises(ValueError, match="holds no usable inputs"):
        question_of(tmp_path / "a.npy")
