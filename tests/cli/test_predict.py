from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
MODEL = {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9}


def asked(tmp_path: Path) -> str:
    path = tmp_path / "in.json"
    path.write_text("[[1, 2], [3, 4]]")
    return str(path)


def test_answers_for_people(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b", "c", "d"],
        "probabilities": [[0.1, 0.6, 0.2, 0.1], [0, 0, 0, 1]],
        "predicted": ["b", "d"],
        "model": MODEL,
        "note": "this is no diagnosis",
    }
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address)
    assert shown.exit_code == 0
    assert "b 0.6000, c 0.2000, d 0.1000" in shown.output
    assert "model 0123456789 of round 3" in shown.output
    assert "note: this is no diagnosis" in shown.output
    assert fake_node.posted == [{"inputs": [[1, 2], [3, 4]]}]


def test_several_labels_none_and_scores(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b"],
        "scores": [[7.5, -1], [0, 0]],
        "predicted": [["a", "b"], []],
        "model": {**MODEL, "round": -1},
    }
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address)
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


def test_a_file_that_cannot_be_used_is_wrong_usage(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    shown = flnet("predict", "MNIST", "--input", str(tmp_path / "none.csv"), "--node", fake_node.address)
    assert shown.exit_code == 2
    assert "cannot be read" in shown.stderr
    assert fake_node.posted == []


def test_a_refusal_is_told_and_is_failure(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    with_no_such_job = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", "127.0.0.1:1")
    assert with_no_such_job.exit_code == 3


def test_which_of_two_models_answered_and_why(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    fake_node.prediction = {
        "classes": ["a", "b"],
        "probabilities": [[0.1, 0.9], [1, 0]],
        "predicted": ["b", "a"],
        "model": MODEL,
        "choice": {"answered": ["local", "global"], "errors": [0.0125, 0.5], "limit": 0.0412},
    }
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address).output
    rows = [line.split() for line in shown.splitlines()]
    assert [row[-2:] for row in rows if row[:1] in (["0"], ["1"])] == [["local", "0.0125"], ["global", "0.5"]]
    assert "answers where the error of rebuilding the input is at most 0.0412" in shown
    fake_node.prediction["choice"] = {"answered": ["local", "local"], "errors": [], "limit": None}
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address).output
    assert "local" in shown
    assert "rebuilding" not in shown


def test_what_it_means_in_the_labels_of_the_own_rows(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    coarse = {"space": "pairs", "classes": ["ab", "cd"], "estimated": True}
    fake_node.prediction = {
        "classes": ["a", "b", "c", "d"],
        "probabilities": [[0.25, 0.5, 0.25, 0]],
        "predicted": ["b"],
        "model": MODEL,
        "coarse": {**coarse, "probabilities": [[0.75, 0.25]], "predicted": ["ab"]},
    }
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address)
    assert "in the labels of pairs, by an estimated correspondence:" in shown.output
    assert "ab 0.7500, cd 0.2500" in shown.output
    fake_node.prediction = {**fake_node.prediction, "coarse": {**coarse, "probabilities": [], "predicted": []}}
    shown = flnet("predict", "MNIST", "--input", asked(tmp_path), "--node", fake_node.address)
    assert "nothing can be said yet" in shown.output
