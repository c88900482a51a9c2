"""The same rows and labels out of every kind of file; what does not say what a label is, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.training.matrix import SparseRows, dense_rows
from flnet.training.multi_label import MultiLabel, read_multi_label

X = [[0.5, 0.0], [0.0, 2.0], [1.0, 0.0]]
Y = [[1, 0], [0, 1], [1, 1]]
XML = (
    '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    '<label name="Beach"></label><label name="Sun set"></label></labels>'
)
ATTRIBUTES = {
    "f1": "@attribute f1 numeric",
    "f2": "@attribute f2 numeric",
    "Beach": "@attribute Beach {0,1}",
    "Sun set": "@attribute 'Sun set' {0,1}",
}
ROWS = "0.5,0,1,0\n0,2,0,1\n1,0,1,1\n"
LABELS_FIRST = "1,0,0.5,0\n0,1,0,2\n1,1,1,0\n"


def arff(path: Path, *names: str, rows: str = ROWS, relation: str = "r") -> Path:
    lines = [f"@relation {relation}", *(ATTRIBUTES[name] for name in names), "@data", rows]
    path.write_text("\n".join(lines), "utf-8")
    return path


def is_it(data: MultiLabel) -> bool:
    x = dense_rows(data.x, np.arange(len(data)))
    assert data.features in {("f1", "f2"), ("0", "1")}  # an .npz need not name them
    return (
        x.tolist() == X
        and data.y.tolist() == Y
        and data.labels == ("Beach", "Sun set")
        and data.y.dtype == np.uint8
    )


def test_mulan_with_its_xml_beside_it_or_elsewhere(tmp_path: Path) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set")
    (tmp_path / "other.xml").write_text(XML, "utf-8")
    assert is_it(read_multi_label(path, labels_xml=tmp_path / "other.xml"))
    (tmp_path / "other.xml").rename(tmp_path / "s.xml")
    assert is_it(read_multi_label(path))


def test_mulan_sparse(tmp_path: Path) -> None:
    sparse = "{0 0.5,2 1}\n{1 2,3 1}\n{0 1,2 1,3 1}\n"
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set", rows=sparse)
    (tmp_path / "s.xml").write_text(XML, "utf-8")
    data = read_multi_label(path)
    assert isinstance(data.x, SparseRows)
    assert is_it(data)


def test_meka_has_its_labels_first_or_last(tmp_path: Path) -> None:
    first = arff(tmp_path / "m.arff", "Beach", "Sun set", "f1", "f2", rows=LABELS_FIRST, relation="'r: -C 2'")
    assert is_it(read_multi_label(first))
    assert is_it(
        read_multi_label(arff(tmp_path / "m.arff", "f1", "f2", "Beach", "Sun set", relation="'r: -C -2'"))
    )


@pytest.mark.parametrize("columns", [("Beach", "Sun set"), -2])
def test_arff_that_does_not_say_it_is_told(tmp_path: Path, columns: Any) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set")
    assert is_it(read_multi_label(path, label_columns=columns))
    with pytest.raises(TrainerError, match=r"does not say which columns are labels: put Mulan's .xml beside it"):
        read_multi_label(path)


@pytest.mark.parametrize("columns", [("Beach", "Sun set"), -2, 2, "label "])
def test_csv(tmp_path: Path, columns: Any) -> None:
    lines = ["f1,f2,Beach,Sun set", *ROWS.split()]
    if columns == 2:
        lines = ["Beach,Sun set,f1,f2", *LABELS_FIRST.split()]
    elif columns == "label ":
        lines[0] = "f1,f2,label Beach,label Sun set"
    (tmp_path / "t.csv").write_text("\ufeff" + "\r\n".join(lines), "utf-8")
    data = read_multi_label(tmp_path / "t.csv", label_columns=columns)
    assert is_it(data) or (data.labels == ("label Beach", "label Sun set") and data.y.tolist() == Y)


def test_an_ignored_column_of_a_csv_may_hold_text(tmp_path: Path) -> None:
    rows = [f'"p {i}, {i}",{row}' for i, row in enumerate(ROWS.split())]
    (tmp_path / "t.csv").write_text("\n".join(["who,f1,f2,Beach,Sun set", *rows]), "utf-8")
    assert is_it(read_multi_label(tmp_path / "t.csv", label_columns=-2, ignore=("who",)))
    with pytest.raises(TrainerError, match="line 2: 'who' is 'p 0, 0'; expected a number"):
        read_multi_label(tmp_path / "t.csv", label_columns=-2)


def test_skipped_rows_are_told(tmp_path: Path) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set", rows="?,1,1,1\n" + ROWS)
    data = read_multi_label(path, label_columns=-2, on_bad_rows="skip")
    assert is_it(data)
    assert data.skipped.startswith("1 rows were skipped, the first because")
    with pytest.raises(TrainerError, match=r"s.arff, line 7: 'f1' has no value"):
        read_multi_label(path, label_columns=-2)


def test_npz_dense_and_sparse(tmp_path: Path) -> None:
    names = ["Beach", "Sun set"]
    np.savez(tmp_path / "d.npz", X=np.array(X, np.float32), Y=np.array(Y, np.uint8), label_names=names)
    assert is_it(read_multi_label(tmp_path / "d.npz"))
    sparse: dict[str, Any] = {
        "X_data": [0.5, 2.0, 1.0],
        "X_indices": [0, 1, 0],
        "X_indptr": [0, 1, 2, 3],
        "X_shape": [3, 2],
    }
    np.savez(tmp_path / "s.npz", **sparse, Y=np.array(Y, np.uint8), label_names=names)
    assert is_it(read_multi_label(tmp_path / "s.npz"))


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"X": X, "Y": Y}, "lacks label_names"),
        ({"X": X, "Y": Y[:2], "label_names": ["a", "b"]}, r"3 rows came with labels of shape \[2, 2\]"),
        ({"X": X, "Y": Y, "label_names": ["a"]}, "with 1 names"),
        ({"X": X, "Y": Y, "label_names": ["a", "b"], "feature_names": ["a"]}, "came with 1 names of features"),
        ({"X": X, "Y": [[1, 0], [0, 2], [1, 1]], "label_names": ["a", "b"]}, "Y has other values than 0 and 1"),
        ({"X": X, "Y": [[1, 0], [0, 256], [1, 1]], "label_names": ["a", "b"]}, "Y has other values"),
        ({"X": [[np.nan, 0]] * 3, "Y": Y, "label_names": ["a", "b"]}, "finite"),
        ({"X": [["a", "b"]] * 3, "Y": Y, "label_names": ["a", "b"]}, "table of finite numbers"),
    ],
)
def test_a_wrong_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], fault: str) -> None:
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(TrainerError, match=fault):
        read_multi_label(tmp_path / "w.npz")


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        (("Beach", "Sea"), r"s.arff has no column Sea; it has f1, f2, Beach, Sun set"),
        (("f1",), "label 'f1' has other values than 0 and 1"),
        (("f1", "f2", "Beach", "Sun set"), "all 4 columns are labels"),
        (4, "4 of 4 columns cannot be the labels"),
        (0, "0 of 4 columns"),
        ("x", "no column begins with 'x'"),
    ],
)
def test_labels_that_cannot_be_are_refused(tmp_path: Path, columns: Any, fault: str) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set")
    with pytest.raises(TrainerError, match=fault):
        read_multi_label(path, label_columns=columns)


@pytest.mark.parametrize(
    ("xml", "fault"),
    [
        ("<labels></labels>", "lists no labels"),
        ("<labels", "cannot be read as Mulan's list of labels"),
        (
            '<!DOCTYPE x [<!ENTITY a "b">]><labels><label name="&a;"/></labels>',
            r"declarations \(<!...>\) are not read",
        ),
        ('<labels><label name="Sea"/></labels>', "has no column Sea"),
    ],
)
def test_a_wrong_list_of_labels_is_refused(tmp_path: Path, xml: str, fault: str) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set")
    (tmp_path / "s.xml").write_text(xml, "utf-8")
    with pytest.raises(TrainerError, match=fault):
        read_multi_label(path)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("t.csv", "", "line 1: expected a header of different names, got nothing"),
        ("t.csv", "a,a\n1,1", "different names"),
        ("t.csv", "a,b\n1", "line 2: 1 values for 2 columns"),
        ("t.csv", 'a,b\n"1,1', "is not CSV text"),
        ("t.txt", "", "is no file of a known kind: expected .arff, .csv or .npz"),
        ("t.npz", "x", "cannot be read as an .npz file"),
        ("t.npz", "PK\x03\x04 cut off", "cannot be read as an .npz file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(TrainerError, match=fault):
        read_multi_label(tmp_path / name, label_columns=1)
