"""ARFF as Mulan, MEKA and Weka write it is read; everything else is refused with file, line and attribute."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.datasets.arff import Arff, read_arff
from flnet.datasets.labelled import SparseRows, dense_rows
from flnet.datasets.multi_label import MultiLabel, read_multi_label
from flnet.datasets.tables import BadRow
from flnet.errors import TrainerError
from flnet.params.params import Array

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
        (
            HEADER.replace("numeric", "string"),
            "line 2: attribute 'a' is string; expected numeric, or values such as {a,b}; ignore_columns leaves",
        ),
        (HEADER.replace("numeric", "date 'yyyy'"), "'a' is date"),
        (HEADER.replace(" numeric", ""), "'a' is nothing; expected numeric"),
        (HEADER.replace("{0,1}", "{no,yes,no}"), "line 3: attribute 'b' has a value twice"),
        (HEADER.replace("{0,1}", "{no,}"), "'b' is {no,}; expected numeric"),
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


NOMINAL = """@relation r
@attribute height numeric
@attribute cap {bell, conical, 'flat, or so'}
@attribute "smells" {no,yes}
@attribute l {0,1}
@data
"""


def test_a_nominal_attribute_becomes_a_column_for_each_value(tmp_path: Path) -> None:
    arff = read_arff(written(tmp_path, NOMINAL + "1.5,conical,yes,1\n2,'flat, or so', no ,0\n"))
    assert arff.table.names == (
        "height",
        "cap=bell",
        "cap=conical",
        "cap=flat, or so",
        "smells=no",
        "smells=yes",
        "l",
    )
    assert values(arff).tolist() == [[1.5, 0, 1, 0, 0, 1, 1], [2, 0, 0, 1, 1, 0, 0]]


def test_a_sparse_row_that_does_not_name_a_nominal_attribute_has_its_first_value(tmp_path: Path) -> None:
    sparse = NOMINAL + "{0 1.5, 1 conical, 2 yes, 3 1}\n{}\n{1 'flat, or so',0 2}\n"
    arff = read_arff(written(tmp_path, sparse))
    assert values(arff).tolist() == [[1.5, 0, 1, 0, 0, 1, 1], [0, 1, 0, 0, 1, 0, 0], [2, 0, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1,round,no,1", "line 7: 'cap' is 'round'; expected one of bell, conical, flat, or so"),
        ("1,?,no,1", r"line 7: 'cap' has no value \(\?\)"),
        ("{1 round}", "line 7: 'cap' is 'round'"),
        ("{1 bell, 1 bell}", "line 7: column 1 is named twice"),
    ],
)
def test_a_value_that_is_not_declared_is_named_with_those_that_are(tmp_path: Path, row: str, fault: str) -> None:
    with pytest.raises(BadRow, match=fault):
        read_arff(written(tmp_path, NOMINAL + row + "\n"))


def test_nominal_values_are_columns_and_may_not_be_too_many(tmp_path: Path) -> None:
    many = ",".join(f"v{n}" for n in range(60_000))
    header = f"@relation r\n@attribute a {{{many}}}\n@attribute b {{{many}}}\n@data\nv0,v0\n"
    with pytest.raises(TrainerError, match="120,000 columns; expected at most 100,000"):
        read_arff(written(tmp_path, header))


# The same rows and labels out of every kind of file; what does not say what a label is, is refused.


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
    with pytest.raises(
        TrainerError, match=r"does not say which columns are labels: put Mulan's .xml into the same folder"
    ):
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


@pytest.mark.parametrize("sparse", [False, True])
def test_an_ignored_attribute_may_be_of_any_kind(tmp_path: Path, sparse: bool) -> None:
    rows = [f"'p {i}, {i}',{row}" for i, row in enumerate(ROWS.split())]
    if sparse:
        rows = ["{0 'p 0', 1 0.5, 3 1}", "{2 2, 4 1}", "{0 'p 2', 1 1, 3 1, 4 1}"]
    lines = ["@relation r", "@attribute who string", *ATTRIBUTES.values(), "@data", *rows]
    path = tmp_path / "s.arff"
    path.write_text("\n".join(lines), "utf-8")
    assert is_it(read_multi_label(path, label_columns=-2, ignore=("who",)))
    with pytest.raises(TrainerError, match="attribute 'who' is string"):
        read_multi_label(path, label_columns=-2)


def test_meka_counts_ignored_attributes_too(tmp_path: Path) -> None:
    path = arff(tmp_path / "m.arff", "Beach", "Sun set", "f1", "f2", rows=LABELS_FIRST, relation="'r: -C 2'")
    data = read_multi_label(path, ignore=("Sun set",))
    assert (data.labels, data.features) == (("Beach",), ("f1", "f2"))


def test_ignored_columns_of_an_npz_are_no_features(tmp_path: Path) -> None:
    named: dict[str, Any] = {
        "Y": np.array(Y, np.uint8),
        "label_names": ["Beach", "Sun set"],
        "feature_names": ["f1", "who", "f2"],
    }
    wide = np.insert(np.array(X, np.float32), 1, 7, axis=1)
    np.savez(tmp_path / "d.npz", X=wide, **named)
    assert is_it(read_multi_label(tmp_path / "d.npz", ignore=("who",)))


@pytest.mark.parametrize("ending", ["arff", "csv", "npz"])
def test_an_ignored_column_that_is_not_there_is_refused(tmp_path: Path, ending: str) -> None:
    path = arff(tmp_path / "t.arff", "f1", "f2", "Beach", "Sun set").with_suffix(f".{ending}")
    if ending == "csv":
        path.write_text("f1,f2,Beach,Sun set\n" + ROWS)
    elif ending == "npz":
        np.savez(path, X=X, Y=Y, label_names=["Beach", "Sun set"], feature_names=["f1", "f2"])
    with pytest.raises(TrainerError, match="has no column whoo to ignore; it has f1, f2"):
        read_multi_label(path, label_columns=-2, ignore=("whoo",))


@pytest.mark.parametrize("words", ["no,yes", "yes, no", "'false','true'", "TRUE,FALSE"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_label_may_be_no_and_yes_or_false_and_true(tmp_path: Path, words: str, is_sparse: bool) -> None:
    first, other = (word.strip(" '") for word in words.split(","))
    header = f"@relation r\n@attribute f numeric\n@attribute l {{{words}}}\n@attribute m {{0,1}}\n@data\n"
    rows = f"{{0 1}}\n{{0 2, 1 {other}, 2 1}}\n" if is_sparse else f"1,{first},0\n2,{other},1\n"
    data = read_multi_label(written(tmp_path, header + rows), label_columns=("l", "m"))
    marks = [int(word.lower() in ("yes", "true")) for word in (first, other)]
    assert (data.labels, data.features, data.y.tolist()) == (("l", "m"), ("f",), [[marks[0], 0], [marks[1], 1]])
    assert data.nominal == set()


def test_another_nominal_label_is_refused_and_a_nominal_feature_is_not_counted_as_several(tmp_path: Path) -> None:
    path = written(tmp_path, NOMINAL + "1,bell,no,1\n2,conical,yes,0\n")
    data = read_multi_label(path, label_columns=-1)
    assert (data.labels, len(data.features)) == (("l",), 6)
    assert data.nominal == set(data.features) - {"height"}
    assert read_multi_label(path, label_columns=-2).y.tolist() == [[0, 1], [1, 0]]
    expected = "label 'cap' has the values bell, conical, .*; expected 0 and 1, no and yes, or false and true"
    with pytest.raises(TrainerError, match=expected):
        read_multi_label(path, label_columns=-3)


def test_skipped_rows_are_told(tmp_path: Path) -> None:
    path = arff(tmp_path / "s.arff", "f1", "f2", "Beach", "Sun set", rows="?,1,1,1\n" + ROWS)
    data = read_multi_label(path, label_columns=-2, on_bad_rows="skip")
    assert is_it(data)
    assert data.skipped.startswith("skipped rows: 1; the first because")
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


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_and_words_are_alike_in_any_form_of_their_umlauts(
    tmp_path: Path, form: Literal["NFC", "NFD"]
) -> None:
    lines = "@relation x\n@attribute größe numeric\n@attribute hut {spröde,grün}\n@attribute süß {0,1}\n@data\n1,grün,1\n"
    xml = '<labels><label name="süß"/></labels>'
    (tmp_path / "m.arff").write_text(unicodedata.normalize(form, lines), "utf-8")
    (tmp_path / "m.xml").write_text(unicodedata.normalize("NFD", xml), "utf-8")
    data = read_multi_label(tmp_path / "m.arff")
    assert (data.features, data.labels) == (("größe", "hut=spröde", "hut=grün"), ("süß",))
    (tmp_path / "m.csv").write_text(unicodedata.normalize(form, "größe,süß\n1,1\n"), "utf-8")
    table = read_multi_label(tmp_path / "m.csv", label_columns=("süß",))
    assert (table.features, table.labels) == (("größe",), ("süß",))
