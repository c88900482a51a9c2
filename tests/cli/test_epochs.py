"""What the command line says of jobs whose nodes hold different columns: holders, epochs, bytes; no models to compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from flnet.cli import epochs
from flnet.cli.epochs import holder_words, size, stage_words
from flnet.cli.progress import progress_line, progress_table
from tests.cli.fake_node import FakeNode, job

Run = Callable[..., Result]
BANK = {"peer": "bank", "columns": 1, "names": ["age"], "has_label": False, "rows": 800}
INSURER = {"peer": "insurer", "columns": 3, "names": [], "has_label": True, "rows": 850}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "POLL_SECONDS", 0.01)


def vertical(**changes: Any) -> dict[str, Any]:
    told = {"holders": [BANK, INSURER], "common": 683, "epochs": 4, "stage": "", "step": 0, "steps": 0}
    figures: dict[str, Any] = {
        "loss": 0.5,
        "accuracy": 0.75,
        "auc": 0.8125,
        "own": None,
        "gain": None,
        "warnings": [],
    }
    return {**told, **figures, "sent": 217_000, "received": 999, **changes}


def split(**changes: Any) -> dict[str, Any]:
    return job(**{"current_round": 3, "vertical": vertical(), "merging_rule": "", **changes})


def ended(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "round": number,
        "initiator": "bank",
        "outcome": f"epoch {number} of the models has ended",
        "contributors": ["bank", "insurer"],
        "examples": 683,
        "post_fedavg_accuracy": 0.75,
        "metrics": {"after": {"loss": 0.5, "auc": 0.8125, "own_auc": 0.75}},
        "seconds": {"align": 1.5, "train": 0.25},
        "bytes": {"sent": 41_000, "received": 51_300},
        "digest": None,
        "error": None,
        **changes,
    }


def given_up(number: int, reason: str) -> dict[str, Any]:
    words = f"abandoned: {reason}"
    return ended(number, outcome=words, error=reason, contributors=[], post_fedavg_accuracy=None, metrics={})


def test_epochs_are_waited_for_and_shown_without_a_word_about_models(ask: Run, fake_node: FakeNode) -> None:
    training = split(phase="TRAINING", current_round=1, vertical=vertical(stage="training", step=5, steps=9))
    fake_node.views = [split(phase="ALIGNING", current_round=0), training, split(current_round=1)]
    fake_node.records = [ended(0), ended(1)]
    shown = ask("train", "MNIST", "--rounds", "2", "--wait")
    assert shown.exit_code == 0
    for words in (
        "round 1: epoch 1 of the models has ended: accuracy 0.7500, auc 0.8125, loss 0.5000; 1.8 s, 41.0 kB sent",
        "MNIST is held by bank (1 column: age; 800 rows), insurer (label and 3 columns; 850 rows)",
        "MNIST: 683 common rows, 4 trained epochs, accuracy 0.7500, auc 0.8125, loss 0.5000",
        "MNIST: 217 kB sent, 999 bytes received since the node was started",
    ):
        assert words in shown.output, words
    assert "DIFFERENT" not in shown.output
    told = ask("train", "MNIST", "--rounds", "2", "--wait", "--json")
    results = json.loads(told.stdout)
    assert [(result["number"], result["has_ended"], result["rows"]) for result in results] == [
        (0, True, 683),
        (1, True, 683),
    ]
    assert results[0]["metrics"] == {"accuracy": 0.75, "loss": 0.5, "auc": 0.8125}
    assert (results[0]["sent"], results[0]["received"]) == (41_000, 51_300)


def test_an_epoch_that_is_tried_again_counts_when_it_has_ended(ask: Run, fake_node: FakeNode) -> None:
    waiting = split(current_round=0, rounds_left=1)
    fake_node.views = [split(phase="TRAINING"), waiting, waiting, waiting, split(current_round=1)]
    fake_node.records = [given_up(0, "insurer is not reachable"), ended(1)]
    shown = ask("train", "MNIST", "--wait")
    assert shown.exit_code == 0
    assert "round 0: abandoned: insurer is not reachable" in shown.output


def test_what_was_given_up_ends_with_code_1_and_the_reason(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [split(phase="ALIGNING", current_round=0), split(current_round=0)]
    fake_node.records = [given_up(0, "bank, insurer have no id in common")]
    shown = ask("train", "MNIST", "--rounds", "3", "--wait", "--json")
    assert shown.exit_code == 1
    assert "0 of 3 epochs trained: abandoned: bank, insurer have no id in common" in shown.stderr
    assert [result["has_ended"] for result in json.loads(shown.stdout)] == [False]
    fake_node.views, fake_node.records = [split(phase="NO_DATA", error="no CSV file")], []
    shown = ask("train", "MNIST", "--wait")
    assert (shown.exit_code, "0 of 1 epoch trained: no CSV file" in shown.stderr) == (1, True)


def test_status_states_holders_rows_epochs_figures_gain_and_warnings(ask: Run, fake_node: FakeNode) -> None:
    gain = {"own": {"accuracy": 0.7, "auc": 0.79}, "gain": {"accuracy": 0.05, "auc": 0.0225}}
    told = vertical(**gain, warnings=["the rows are few\x1b"], stage="training", step=5, steps=9)
    fake_node.views = [split(phase="TRAINING", vertical=told, metrics={"after": {"auc": 0.8125}})]
    shown = ask("status")
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert "MNIST: training, 5 of 9 batches" in lines
    own = "MNIST with the own columns alone: accuracy 0.7000, auc 0.7900; gain accuracy +0.0500, auc +0.0225"
    assert own in lines
    assert r"warning: MNIST: the rows are few\x1b" in lines
    assert "after averaging" not in shown.output
    (stated,) = json.loads(ask("status", "--json").stdout)["jobsInfo"]
    assert stated["vertical"] == told


def test_status_states_the_key_holder_and_what_holders_do_about_leakage(ask: Run, fake_node: FakeNode) -> None:
    clinic = {"peer": "clinic", "columns": 0, "names": [], "has_label": False, "rows": 0, "holds_key": True}
    careful = {**INSURER, "defences": ["figures on hold-out rows are not told"]}
    told = vertical(holders=[BANK, clinic, careful], accuracy=None, auc=None)
    fake_node.views = [split(vertical=told)]
    lines = ask("status").output.splitlines()
    assert (
        "MNIST is held by bank (1 column: age; 800 rows), clinic (key), insurer (label and 3 columns; 850 rows)"
    ) in lines
    assert "MNIST: insurer states: figures on hold-out rows are not told" in lines
    assert "MNIST: 683 common rows, 4 trained epochs, loss 0.5000" in lines


def test_status_calls_no_rows_common_where_only_the_key_holder_knows_which_match(
    ask: Run, fake_node: FakeNode
) -> None:
    fake_node.views = [split(vertical=vertical(hides_matches=True))]
    shown = ask("status").output
    assert "MNIST: 683 positions of rows, of which the key holder knows the matches, 4 trained epochs" in shown
    assert "common row" not in shown


def test_whom_an_epoch_waits_for_is_told(ask: Run, fake_node: FakeNode) -> None:
    waiting = split(rounds_left=2, waiting_for=["insurer"])
    assert progress_line({"n0": waiting}) == "n0 idle, waiting for insurer"


def test_before_the_first_epoch_nothing_is_known_of_rows(ask: Run, fake_node: FakeNode) -> None:
    told = vertical(holders=[], common=None, epochs=0, loss=None, accuracy=None, auc=None, sent=0, received=0)
    fake_node.views = [split(current_round=-1, vertical=told)]
    assert "MNIST: rows are not aligned yet, 0 trained epochs" in ask("status").output.splitlines()


def test_history_has_a_row_for_each_epoch(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [split()], [ended(0), given_up(1, "insurer was restarted")]
    shown = ask("history", "MNIST")
    assert shown.exit_code == 0
    words = " ".join(shown.output.split())
    assert "round by holders rows accuracy auc loss seconds sent received outcome" in words
    assert "0 bank bank, insurer 683 0.7500 0.8125 0.5000 1.75 41.0 kB 51.3 kB epoch 0" in words
    assert "1 bank - - - - - 1.75 41.0 kB 51.3 kB abandoned: insurer was restarted" in words
    assert json.loads(ask("history", "MNIST", "--json").stdout) == fake_node.records


def test_neither_local_epochs_nor_models_are_listed(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [split(hyper={"e": 1, "u": 0.05, "b": 16})]
    shown = ask("params", "MNIST").output
    assert ("learning rate" in shown, "local epochs" in shown, "aggregation" in shown) == (True, False, False)
    fake_node.models = [{"digest": "a" * 64, "round": 0}]
    assert ask("models", "MNIST").output == (
        "MNIST: each node keeps its own part of the model, and no other one can have it\n"
    )


@pytest.mark.parametrize(
    ("stage", "words"),
    [("asking", "asking who holds columns"), ("aligning", "aligning rows"), ("closing", "measuring"), ("", "")],
)
def test_stages_in_words(stage: str, words: str) -> None:
    assert stage_words(vertical(stage=stage)) == words
    line = progress_line({"n0": split(phase="TRAINING", vertical=vertical(stage=stage))})
    assert line == f"n0 {words or 'training'}"
    assert progress_table({"n0": split(vertical=vertical(stage=stage))}).row_count == 1


def test_a_label_alone_and_sizes_in_words() -> None:
    assert holder_words({**INSURER, "columns": 0}) == "insurer (label; 850 rows)"
    assert holder_words({**INSURER, "columns": 0, "holds_key": True}) == "insurer (key)"
    sizes = [size(n) for n in (0, 999, 1000, 123_456, 5_000_000, 7e9, None)]
    assert sizes == ["0 bytes", "999 bytes", "1.0 kB", "123 kB", "5.0 MB", "7.0 GB", "-"]
