"""Sums of counts against scikit-learn on the pooled rows, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sklearn_metrics
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flnet.datasets.metrics import class_counts, label_counts
from flnet.errors import InvalidMessage
from flnet.params.params import PeerId
from flnet.protocol.counts import (
    BINS,
    MOST_BINNED,
    MOST_GROUPS,
    MOST_LABELS,
    EvaluationCounts,
    Measured,
    PooledCounts,
    Scored,
    jain_index,
    mean_accuracy,
    standard_deviation,
)
from flnet.protocol.messages import MAX_PEERS, Accuracy
from flnet.rounds.evaluation import MeshEvaluation
from flnet.wire.transport import CONTROL_BYTES

NAMES = tuple("abcdefg")


def _parts(chance: np.random.Generator, rows: int) -> list[np.ndarray]:
    """The rows of two to six nodes, of unlike sizes; some may have none."""
    cuts = np.sort(chance.integers(0, rows + 1, int(chance.integers(1, 6))))
    return np.split(chance.permutation(rows), cuts)


def _mesh(counts: list[EvaluationCounts], order: np.ndarray) -> MeshEvaluation:
    mesh = MeshEvaluation()
    for place in order:
        each = counts[place]
        stated = Measured(accuracy=each.right / max(1, each.examples), examples=each.examples, counts=each)
        mesh.heard(PeerId(f"n{place}"), stated.accuracy, Measured.model_validate(stated.model_dump(mode="json")))
    return mesh


def _binned(chances: np.ndarray) -> np.ndarray:
    bins: np.ndarray = np.clip(np.floor(chances * BINS), 0, BINS - 1)
    return bins


def _view(mesh: MeshEvaluation) -> dict[str, Any]:
    view = mesh.view()
    assert view is not None
    return dict(view)


def _equal(figures: dict[str, float], expected: dict[str, float]) -> None:
    assert figures.keys() == expected.keys()
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, abs=1e-9), name


def _over_labels(truth: np.ndarray, guess: np.ndarray, **more: Any) -> dict[str, float]:
    """scikit-learn's figures; a ratio without a denominator is 0."""
    each = {"zero_division": 0, **more}
    precision, recall, f1, _ = sklearn_metrics.precision_recall_fscore_support(
        truth, guess, average="macro", **each
    )
    micro = sklearn_metrics.f1_score(truth, guess, average="micro", **each)
    return {"precision_macro": precision, "recall_macro": recall, "f1_macro": f1, "f1_micro": micro}


def _areas(has: np.ndarray, chances: np.ndarray) -> list[float]:
    """scikit-learn's area under the ROC curve of the binned scores, of each label that some rows have and some not."""
    bins = _binned(chances)
    some = [k for k in range(has.shape[1]) if 0 < has[:, k].sum() < len(has)]
    return [sklearn_metrics.roc_auc_score(has[:, k], bins[:, k]) for k in some]


@pytest.mark.parametrize("seed", range(20))  # each with ten partitions
def test_figures_of_a_mesh_are_those_of_scikit_learn_on_the_pooled_rows(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, classes = int(chance.integers(20, 300)), int(chance.integers(2, len(NAMES) + 1))
    truth = chance.choice(classes, rows, p=chance.dirichlet(np.ones(classes)))
    chances = chance.dirichlet(np.full(classes, 0.5), rows)
    chances[np.arange(rows), truth] += chance.random(rows)
    chances = (chances / chances.sum(axis=1, keepdims=True)).astype(np.float32)
    guess = chances.argmax(axis=1)
    present = np.unique(truth)
    expected = {
        "accuracy": sklearn_metrics.accuracy_score(truth, guess),
        # scikit-learn's balanced_accuracy_score, without its warning about classes that were guessed and do not occur
        "balanced_accuracy": sklearn_metrics.recall_score(truth, guess, labels=present, average="macro"),
        **_over_labels(truth, guess, labels=np.arange(classes)),
    }
    areas = _areas(truth[:, None] == np.arange(classes), chances)
    for _ in range(10):
        parts = _parts(chance, rows)
        counts = [class_counts(truth[some], guess[some], NAMES[:classes], chances[some]) for some in parts]
        mesh = _view(_mesh(counts, chance.permutation(len(parts))))
        _equal(mesh["figures"], expected | ({"auc": float(np.mean(areas))} if areas else {}))
        assert mesh["basis"] == "counts" and mesh["accuracy"] == mesh["figures"]["accuracy"]
        assert mesh["examples"] == rows and mesh["nodes"] == len(parts)
        assert mesh == _view(_mesh(counts, chance.permutation(len(parts))))  # whatever the order


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_several_labels(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, labels = int(chance.integers(20, 200)), int(chance.integers(1, 7))
    truth = (chance.random((rows, labels)) < chance.random(labels)).astype(np.int64)
    chances = np.clip(truth * 0.3 + chance.random((rows, labels)) * 0.7, 0, 1)
    guess = (chances >= 0.5).astype(np.int64)
    right = (truth.argmax(axis=1) == chances.argmax(axis=1)).astype(np.int64)
    parts = _parts(chance, rows)
    counts = [
        label_counts(truth[some], guess[some], NAMES[:labels], int(right[some].sum()), chances[some])
        for some in parts
    ]
    figures = _view(_mesh(counts, np.arange(len(parts))))["figures"]
    figures.pop("balanced_accuracy", None)  # where by chance all rows have one label
    expected = {"accuracy": float(right.mean())}
    expected |= _over_labels(truth, guess) if labels > 1 else _over_labels(truth, guess, labels=[1])
    areas = _areas(truth, chances)
    _equal(figures, expected | ({"auc": float(np.mean(areas))} if areas else {}))


def test_the_mean_of_ratios_would_be_far_off() -> None:
    truth = np.array([0, 1] * 500 + [0, 1])
    guess = np.array([0, 1] * 450 + [1, 0] * 50 + [1, 0])
    parts = np.arange(1000), np.arange(1000, 1002)
    counts = [class_counts(truth[some], guess[some], NAMES[:2]) for some in parts]
    mesh = _view(_mesh(counts, np.arange(2)))
    ratios = [each.right / each.examples for each in counts]
    assert mesh["accuracy"] == sklearn_metrics.accuracy_score(truth, guess) == 900 / 1002
    assert mesh["accuracy"] - np.mean(ratios) > 0.4  # the mean of 0.9 and 0
    assert {node: each["accuracy"] for node, each in mesh["by_node"].items()} == {"n0": 0.9, "n1": 0.0}


def test_nodes_that_do_not_count_are_weighted_by_examples_and_those_that_say_nothing_not_at_all() -> None:
    counted, weighted, plain = Scored(0.5, 10, 5), Scored(1.0, 30), Scored(0.0)
    assert mean_accuracy([counted]) == (0.5, "counts")
    assert mean_accuracy([counted, weighted]) == (0.875, "examples")
    assert mean_accuracy([counted, weighted, plain]) == (0.5, "nodes")
    assert mean_accuracy([Scored(0.2, 0, 0), Scored(0.4, 0, 0)])[1] == "nodes"


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10**9) | st.none()), min_size=1, max_size=6))
def test_the_mean_lies_between_the_accuracies_in_whatever_order(nodes: list[tuple[float, int | None]]) -> None:
    scores = [Scored(*node) for node in nodes]
    means = {mean_accuracy(list(some)) for some in itertools.permutations(scores)}
    assert len(means) == 1
    assert min(s.accuracy for s in scores) <= means.pop()[0] <= max(s.accuracy for s in scores)


def test_nodes_with_other_labels_add_up_only_what_needs_no_labels() -> None:
    truth, guess = np.array([0, 1, 1]), np.array([0, 1, 0])
    counts = [class_counts(truth, guess, names) for names in ("ab", "ab", "ac")]
    for order in itertools.permutations(range(3)):
        mesh = _view(_mesh(counts, np.array(order)))
        assert mesh["labels"] == {} and mesh["figures"] == {"accuracy": 6 / 9, "f1_micro": 6 / 9}
    assert _view(_mesh(counts[:2], np.arange(2)))["labels"]["recall"] == [1.0, 0.5]


def test_a_node_without_rows_changes_nothing() -> None:
    some = class_counts(np.array([0, 1]), np.array([0, 0]), "ab", np.array([[1, 0], [0.75, 0.25]]))
    nothing = class_counts(np.zeros(0, np.int64), np.zeros(0, np.int64), "ab", np.zeros((0, 2)))
    pooled = PooledCounts()
    for each in (some, nothing):
        pooled.add(each)
    alone = PooledCounts()
    alone.add(some)
    assert pooled.figures() == alone.figures() and "auc" in pooled.figures()


def test_a_node_is_heard_once() -> None:
    mesh = MeshEvaluation()
    for right in (1, 2):
        counts = EvaluationCounts(right=right, examples=2)
        mesh.heard(PeerId("a"), right / 2, Measured(accuracy=right / 2, examples=2, counts=counts))
    assert mesh.view() is None  # nobody else has told anything
    mesh.heard(PeerId("thesis"), 1.0, None)
    assert _view(mesh)["accuracy"] == 0.75 and _view(mesh)["basis"] == "nodes" and _view(mesh)["examples"] is None


def test_fairness_figures_at_their_ends() -> None:
    assert jain_index([0.5, 0.5]) == 1 and jain_index([1, 0, 0, 0]) == 0.25 and jain_index([0, 0]) is None
    assert standard_deviation([0.25, 0.75]) == 0.25


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_fairness_does_not_depend_on_the_order(values: list[float]) -> None:
    orders = [list(some) for some in itertools.permutations(values)]
    assert len({jain_index(some) for some in orders}) == len({standard_deviation(some) for some in orders}) == 1
    assert (index := jain_index(values)) is None or 1 / len(values) - 1e-9 <= index <= 1


@pytest.mark.parametrize(
    "groups",
    [
        [{"name": "a", "accuracy": 0.5, "examples": 3}],
        [{"name": "a", "accuracy": 0.5, "examples": 1}] * 2,
        [{"name": " ", "accuracy": 0.5, "examples": 1}],
        [{"name": "a", "accuracy": 1.5, "examples": 1}],
        [{"name": f"{n}", "accuracy": 0.5, "examples": 1} for n in range(MOST_GROUPS + 1)],
    ],
)
def test_groups_that_cannot_be_are_refused(groups: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        Measured.model_validate({"accuracy": 0.5, "examples": 2, "groups": groups})


ONE = {"right": 1, "examples": 2, "labels": "0" * 16, "tp": [1], "fp": [0], "fn": [1], "tn": [0]}
FULL, EMPTY = [2] + [0] * (BINS - 1), [0] * BINS


@pytest.mark.parametrize(
    "change",
    [
        {"right": 3},
        {"right": -1},
        {"right": 1.0},
        {"right": True},
        {"right": "1"},
        {"examples": 3},
        {"examples": 10**9 + 1},
        {"tp": [2]},
        {"tp": [1, 1]},
        {"fn": []},
        {"fn": [-1], "tn": [2]},
        {"labels": "other"},
        {"positives": [FULL]},
        {"positives": [FULL], "negatives": [FULL]},
        {"positives": [FULL[:-1]], "negatives": [EMPTY]},
        {"positives": [FULL] * 2, "negatives": [EMPTY] * 2},
        {**{name: [2] * (MOST_LABELS + 1) for name in ("tp",)}, "fp": [0] * (MOST_LABELS + 1)},
    ],
)
def test_counts_that_do_not_add_up_are_refused(change: dict[str, Any]) -> None:
    assert EvaluationCounts.model_validate({**ONE, "positives": [FULL], "negatives": [EMPTY]})
    with pytest.raises(ValidationError):
        EvaluationCounts.model_validate({**ONE, **change})


ROUND = {
    "iAm": {"id": "a", "port": 4001},
    "trainerId": "T",
    "round": 1,
    "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1},
    "accuracy": 0.5,
}


def test_a_message_with_counts_that_contradict_its_accuracy_is_refused() -> None:
    measured = {"accuracy": 0.5, "examples": 2, "counts": ONE}
    assert Accuracy.read({**ROUND, "measured": measured}).measured.counts.tp == (1,)
    assert "measured" not in Accuracy.read(ROUND).fields()
    for change in ({"accuracy": 0.6}, {"examples": 3}):
        with pytest.raises(InvalidMessage, match="measured"):
            Accuracy.read({**ROUND, "measured": {**measured, **change}})
    report = {"accuracy": 0.5, "examples": 4, "right": 2}
    assert Accuracy.read({**ROUND, "report": report}).report.right == 2
    for wrong in ({"right": 3}, {"right": 5}, {"examples": 3}):
        with pytest.raises(InvalidMessage, match="report"):
            Accuracy.read({**ROUND, "report": {**report, **wrong}})


@pytest.mark.parametrize("labels", [MOST_BINNED, MOST_LABELS])
def test_the_largest_message_is_smaller_than_what_a_node_reads(labels: int) -> None:
    rows, nothing = 10**9, (0,) * labels
    bins = ((rows // BINS,) * (BINS - 1) + (rows - rows // BINS * (BINS - 1),),) * labels
    is_binned = labels <= MOST_BINNED
    counts = EvaluationCounts(
        right=rows,
        examples=rows,
        labels="0" * 16,
        tp=(rows,) * labels,
        fp=nothing,
        fn=nothing,
        tn=nothing,
        positives=bins if is_binned else (),
        negatives=((0,) * BINS,) * labels if is_binned else (),
    )
    message = Accuracy.read(
        {**ROUND, "accuracy": 1, "measured": {"accuracy": 1, "examples": rows, "counts": counts}}
    )
    assert len(message.model_dump_json(by_alias=True)) < CONTROL_BYTES * 3 // 4


def test_more_nodes_than_a_mesh_has_are_not_kept() -> None:
    mesh = MeshEvaluation()
    for number in range(MAX_PEERS + 20):
        mesh.heard(PeerId(f"n{number}"), 0.5, None)
    assert _view(mesh)["nodes"] == len(_view(mesh)["by_node"]) == MAX_PEERS + 1
