from __future__ import annotations

from typing import Any

import pytest

from flnet.cli.figures import chosen, figure_words, figures_of, means


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (["recall", "auc", "f1_macro"], ["f1_macro", "auc", "recall"]),
        (["official_accuracy", "official_auc", "balanced_accuracy"], ["balanced_accuracy", "official_auc"]),
        (["hamming", "global_argmax_accuracy", "global_f1_macro"], ["global_f1_macro", "global_argmax_accuracy"]),
        (["wauc", "auc"], ["auc", "wauc"]),
    ],
)
def test_telling_figures_come_first(given: list[str], first: list[str]) -> None:
    assert chosen(["accuracy", *given, *given], every=False)[: len(first)] == first


def test_at_most_six_are_chosen_unless_all_are_asked_for() -> None:
    names = [f"n{i}" for i in range(9)]
    assert chosen(names, every=False) == names[:6]
    assert chosen(names, every=True) == names


def test_hidden_figures_are_counted() -> None:
    figures = {f"n{i}": 0.5 for i in range(8)}
    assert figure_words(figures, every=False).endswith("n5 0.5000, and 2 more (--metrics all)")
    assert figure_words(figures, every=True).endswith("n7 0.5000")
    assert figure_words({"accuracy": 1.0}, every=True) == ""


def test_names_are_made_printable() -> None:
    assert figure_words({"a\x1b[2J": 1.0}, every=True) == r"a\x1b[2J 1.0000"


def test_the_accuracy_is_the_one_that_is_averaged() -> None:
    view = {"post_fedavg_accuracy": 0.5, "metrics": {"before": {"x": 1.0}, "after": {"accuracy": 0.4, "auc": 1}}}
    assert figures_of(view) == {"accuracy": 0.5, "auc": 1.0}


@pytest.mark.parametrize("metrics", [None, [], {"after": None}, {"after": {"auc": "0.5", "ok": True}}, {}])
def test_a_foreign_node_may_give_anything(metrics: Any) -> None:
    assert figures_of({"metrics": metrics, "post_fedavg_accuracy": None}) == {}


def test_a_mean_is_over_the_nodes_that_have_the_figure() -> None:
    assert means([{"a": 0.5}, {"a": 1.0, "b": 0.25}]) == {"a": 0.75, "b": 0.25}
