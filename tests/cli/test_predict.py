from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from flnet.cli import predict as inputs
from flnet.cli.predict import question_of
from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
MODEL = {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9}


def asked(tmp_path: Path) -> str:
    path = tmp_path / "in.json"
    path.write_text("[[1, 2], [3, 4]]")
    return str(path)


def test_answers_for_people(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b", "c", "d"],
        "probabilities": [[0.1, 0.6, 0.2, 0.1], [0, 0, 0, 1]],
        "predicted": ["b", "d"],
        "model": MODEL,
        "note": "this is no diagnosis",
    }
    shown = ask("predict", "MNIST", "--input", asked(tmp_path))
    assert shown.exit_code == 0
    assert "b 0.6000, c 0.2000, d 0.1000" in shown.output
    assert "model 0123456789 of round 3" in shown.output
    assert "note: this is no diagnosis" in shown.output
    assert fake_node.posted == [{"inputs": [[1, 2], [3, 4]]}]


def test_several_labels_none_and_scores(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b"],
        "scores": [[7.5, -1], [0, 0]],
        "predicted": [["a", "b"], []],
        "model": {**MODEL, "round": -1},
    }
    shown = ask("predict", "MNIST", "--input", asked(tmp_path))
    assert "a, b" in shown.output
    assert "none" in shown.output
    assert "a 7.5000, b -1.0000" in shown.output
    assert "of no round" in shown.output


def test_answers_for_scripts_by_a_model_of_choice(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {"predicted": ["\u202eevil"], "model": MODEL}
    words = (
        "predict",
        "MNIST",
        "--input",
        asked(tmp_path),
        "--digest",
        "01",
        "--json",
        "--node",
        fake_node.address,
    )
    shown = flnet(*words)
    assert json.loads(shown.stdout) == fake_node.prediction
    assert fake_node.posted[0]["digest"] == "01"


def test_a_file_that_cannot_be_used_is_wrong_usage(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    shown = ask("predict", "MNIST", "--input", str(tmp_path / "none.csv"))
    assert shown.exit_code == 2
    assert "cannot be read" in shown.stderr
    shown = ask("predict", "MNIST", "--input", str(tmp_path / "nothing"))
    assert shown.exit_code == 2
    assert "nothing is not there" in " ".join(shown.stderr.split())
    assert fake_node.posted == []


def test_one_image_is_called_by_the_name_of_its_file(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {"classes": ["x"], "probabilities": [[1.0]], "predicted": ["x"], "model": MODEL}
    image = str(pictures(tmp_path, "a.png") / "a.png")
    assert any(
        line.split()[:2] == ["a.png", "x"] for line in ask("predict", "T", "--input", image).output.splitlines()
    )
    assert json.loads(ask("predict", "T", "--input", image, "--json").stdout)["files"] == ["a.png"]


def test_images_of_other_kinds_are_named_as_refused(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {"classes": ["x"], "probabilities": [[1.0]], "predicted": ["x"], "model": MODEL}
    folder = pictures(tmp_path / "new", "a.png", "b.webp", "more/c.TIF", "notes.txt", ".hidden/d.bmp")
    shown = ask("predict", "T", "--input", str(folder), "--json")
    assert shown.exit_code == 1
    answer = json.loads(shown.stdout)
    assert (answer["files"], set(answer["refused"])) == (["a.png"], {"b.webp", "more/c.TIF"})
    assert "2 of 3 images cannot be used: b.webp (it ends in '.webp'; expected .png, .jpg, .jpeg)" in shown.stderr
    (folder / "a.png").unlink()
    shown = ask("predict", "T", "--input", str(folder))
    assert shown.exit_code == 2
    assert "found b.webp, c.TIF" in " ".join(shown.stderr.split())


def test_which_of_two_models_answered_and_why(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b"],
        "probabilities": [[0.1, 0.9], [1, 0]],
        "predicted": ["b", "a"],
        "model": MODEL,
        "choice": {"answered": ["local", "global"], "errors": [0.0125, 0.5], "limit": 0.0412},
    }
    shown = ask("predict", "MNIST", "--input", asked(tmp_path)).output
    rows = [line.split() for line in shown.splitlines()]
    assert [row[-2:] for row in rows if row[:1] in (["0"], ["1"])] == [["local", "0.0125"], ["global", "0.5"]]
    assert "answers where the error of rebuilding the input is at most 0.0412" in shown
    fake_node.prediction["choice"] = {"answered": ["local", "local"], "errors": [], "limit": None}
    shown = ask("predict", "MNIST", "--input", asked(tmp_path)).output
    assert "local" in shown
    assert "rebuilding" not in shown


def test_what_it_means_in_the_labels_of_the_own_rows(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    coarse = {"space": "pairs", "classes": ["ab", "cd"], "estimated": True}
    fake_node.prediction = {
        "classes": ["a", "b", "c", "d"],
        "probabilities": [[0.25, 0.5, 0.25, 0]],
        "predicted": ["b"],
        "model": MODEL,
        "coarse": {**coarse, "probabilities": [[0.75, 0.25]], "predicted": ["ab"]},
    }
    shown = ask("predict", "MNIST", "--input", asked(tmp_path))
    assert "in the labels of pairs, by an estimated correspondence:" in shown.output
    assert "ab 0.7500, cd 0.2500" in shown.output
    fake_node.prediction = {**fake_node.prediction, "coarse": {**coarse, "probabilities": [], "predicted": []}}
    shown = ask("predict", "MNIST", "--input", asked(tmp_path))
    assert "not available yet" in shown.output


def pictures(folder: Path, *names: str) -> Path:
    """A folder of these images, each of which holds its own name."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def sent(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


def test_a_folder_has_a_row_for_each_image_in_it_and_in_its_folders(
    ask: Run, fake_node: FakeNode, tmp_path: Path
) -> None:
    folder = pictures(tmp_path / "new", "b.JPG", "a.png", "more/c.jpeg", "notes.txt", ".hidden/d.png", "._a.png")
    fake_node.prediction = {
        "classes": ["x", "y"],
        "probabilities": [[0.3, 0.7]],
        "predicted": ["y"],
        "model": MODEL,
    }
    shown = ask("predict", "MNIST", "--input", str(folder), "--digest", "01")
    assert shown.exit_code == 0
    rows = [line.split()[:2] for line in shown.output.splitlines() if "0.7000" in line]
    assert rows == [["a.png", "y"], ["b.JPG", "y"], ["more/c.jpeg", "y"]]
    names = ("a.png", "b.JPG", "more/c.jpeg")
    assert fake_node.posted == [{"image": sent(name), "digest": "01"} for name in names]
    answer = json.loads(ask("predict", "MNIST", "--input", str(folder), "--json").stdout)
    assert (answer["files"], answer["predicted"], answer["refused"]) == ([*names], ["y"] * 3, {})


def test_an_image_that_cannot_be_used_keeps_no_other_from_its_answer(
    ask: Run, fake_node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BUSY_SECONDS", 0.0)
    folder = pictures(tmp_path / "new", "a.png", "b.png", "c.png", "d.png")
    monkeypatch.setattr(inputs, "MAX_BYTES", 5)
    (folder / "c.png").write_bytes(b"x" * 6)
    fake_node.prediction = {"classes": ["x"], "probabilities": [[1.0]], "predicted": ["x"], "model": MODEL}
    fake_node.refused_images = {
        sent("b.png"): (422, {"error": "input_refused", "message": "this is no image"}),
        sent("d.png"): (429, {"error": "too_many_requests", "message": "too much is asked for"}),
    }
    shown = ask("predict", "MNIST", "--input", str(folder), "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["files"] == ["a.png", "d.png"]
    assert "2 of 4 images cannot be used: b.png (this is no image), c.png (" in shown.stderr
    fake_node.refused_images = {
        sent(name): (404, {"error": "not_offered", "message": "no"}) for name in ("a.png", "b.png")
    }
    before = len(fake_node.posted)
    assert ask("predict", "MNIST", "--input", str(folder)).exit_code == 1
    assert len(fake_node.posted) == before + 1  # it holds for all of them
    monkeypatch.setattr(inputs, "MAX_BYTES", 0)
    none = ask("predict", "MNIST", "--input", str(folder))
    assert none.exit_code == 1 and "4 of 4 images cannot be used: a.png (" in none.stderr


def test_a_folder_without_images_is_wrong_usage(ask: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    shown = ask("predict", "MNIST", "--input", str(pictures(tmp_path / "new", "a.csv")))
    assert shown.exit_code == 2
    assert "holds no images; expected .png, .jpg, .jpeg" in " ".join(shown.stderr.split())
    assert fake_node.posted == []


# Files of every kind become the question that a node is asked.


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


def test_csv_in_the_form_of_a_training_file(tmp_path: Path) -> None:
    rows = 'id;age;sex;ill\nK1;41.5;"f; m";yes\nK2;;nan;\n'
    assert question_of(written(tmp_path, "t.csv", rows)) == {
        "inputs": [
            {"id": "K1", "age": 41.5, "sex": "f; m", "ill": "yes"},
            {"id": "K2", "age": "", "sex": "nan", "ill": ""},
        ]
    }
    assert question_of(written(tmp_path, "t.tsv", "age\tsex\n1\tm\n")) == {"inputs": [{"age": 1, "sex": "m"}]}


ARFF = """@relation r
@attribute who string
@attribute height numeric
@attribute cap {bell, 'flat, or so'}
@attribute rare {0,1}
@data
"""


def test_arff_dense_and_sparse(tmp_path: Path) -> None:
    dense = question_of(written(tmp_path, "d.arff", ARFF + "p1, 2.5, 'flat, or so', 0\n"))
    assert dense == {"inputs": [{"who": "p1", "height": 2.5, "cap": "flat, or so", "rare": 0}]}
    sparse = question_of(written(tmp_path, "s.arff", ARFF + "{1 2, 3 1}\n{2 'flat, or so'}\n"))
    assert sparse == {
        "inputs": [
            {"who": "", "height": 2, "cap": "bell", "rare": 1},
            {"who": "", "height": 0, "cap": "flat, or so", "rare": 0},
        ]
    }


def test_a_sparse_file_that_stands_for_too_many_cells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_CELLS", 8)
    with pytest.raises(ValueError, match="it has more than 8 cells"):
        question_of(written(tmp_path, "s.arff", ARFF + "{}\n" * 3))


def test_a_long_file_is_asked_in_parts_and_answered_as_one(
    ask: Run, fake_node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_AT_ONCE", 2)
    fake_node.prediction = {
        "classes": ["a", "b"],
        "probabilities": [[0.1, 0.9], [1, 0]],
        "predicted": ["b", "a"],
        "model": MODEL,
        "choice": {"answered": ["local", "global"], "errors": [], "limit": None},
        "coarse": {
            "space": "s",
            "classes": ["ab"],
            "estimated": False,
            "probabilities": [[1], [1]],
            "predicted": [],
        },
    }
    path = written(tmp_path, "t.csv", "age,sex\n1,f\n2,f\n3,f\n4,m\n")
    shown = ask("predict", "MNIST", "--input", str(path), "--json")
    asked = [row["age"] for question in fake_node.posted for row in question["inputs"]]
    assert ([len(question["inputs"]) for question in fake_node.posted], asked) == ([2, 2], [1, 2, 3, 4])
    answer = json.loads(shown.stdout)
    assert answer["predicted"] == ["b", "a", "b", "a"]
    assert len(answer["probabilities"]) == len(answer["choice"]["answered"]) == 4
    assert (answer["classes"], answer["coarse"]["classes"]) == (["a", "b"], ["ab"])
    assert len(answer["coarse"]["probabilities"]) == 4


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
        ("a.arff", "1,2", "holds no usable inputs: .*expected @relation"),
        ("a.arff", ARFF + "1,2", "holds no usable inputs: .*line 7: 2 values for 4 columns"),
        ("a.arff", ARFF + "{9 1}", "'9' is no column"),
        ("a.npy", "no array", "holds no usable inputs"),
        ("a.csv", "größe\n1".encode("latin-1"), "a.csv is not text in UTF-8; save it as UTF-8"),
        ("a.arff", ARFF.encode() + b"\xfc", "a.arff is not text in UTF-8; save it as UTF-8"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_name(
    tmp_path: Path, name: str, contents: str | bytes, words: str
) -> None:
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


BY_ID = {
    "ids": ["4711", "4712"],
    "unknown": ["x\u202e"],
    "epoch": 4,
    "predictions": [
        {
            "holder": "insurer",
            "classes": ["no", "yes"],
            "probabilities": [[0.75, 0.25], [0.125, 0.875]],
            "predicted": ["no", "yes"],
        }
    ],
}


def test_predictions_by_id_are_shown_with_the_ids_that_others_do_not_have(ask: Run, fake_node: FakeNode) -> None:
    fake_node.prediction = BY_ID
    shown = ask("predict", "BANK", "--id", "4711", "--id", "4712", "--id", "x")
    assert shown.exit_code == 0
    assert fake_node.posted == [{"ids": ["4711", "4712", "x"]}]
    assert "label of insurer, epoch 4" in shown.output
    assert "yes 0.8750, no 0.1250" in shown.output
    assert "4712" in shown.output
    assert "not among the rows that all holders have: x" in shown.output
    assert "\u202e" not in shown.output
    assert json.loads(ask("predict", "BANK", "--id", "1", "--json").stdout) == BY_ID


def test_ids_come_from_a_column_of_a_file_in_parts(
    ask: Run, fake_node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_AT_ONCE", 2)
    fake_node.prediction = BY_ID
    path = tmp_path / "customers.csv"
    path.write_text("customer;age\n007;3\nB 2;4\n5;6\n")
    answer = json.loads(
        ask("predict", "BANK", "--ids-from", str(path), "--id-column", "customer", "--json").stdout
    )
    assert fake_node.posted == [{"ids": ["007", "B 2"]}, {"ids": ["5"]}]
    assert answer["ids"] == ["4711", "4712"] * 2
    assert len(answer["predictions"][0]["predicted"]) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,x\n", "has no rows"),
        ("a,b\n1,2\n", "it has no column 'id', but a, b"),
        ("id,x\n1,2\n,3\n", "has no id in 1 of 2 rows"),
    ],
)
def test_files_without_usable_ids_are_refused(ask: Run, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "ids.csv"
    path.write_text(text)
    shown = ask("predict", "BANK", "--ids-from", str(path))
    assert shown.exit_code == 2
    assert words in " ".join(shown.output.replace("\u2502", " ").split())


def test_ids_and_inputs_are_not_asked_for_together(ask: Run, tmp_path: Path) -> None:
    for options in ((), ("--input", asked(tmp_path), "--id", "1")):
        shown = ask("predict", "BANK", *options)
        assert shown.exit_code == 2
        assert "expected either --input, or --id" in shown.output
    assert "--digest goes with --input" in ask("predict", "BANK", "--id", "1", "--digest", "ab").output
