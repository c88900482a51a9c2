from __future__ import annotations

from copy import deepcopy
from io import StringIO

import pytest
from rich.console import Console

from flnet.cli.alone import Comparison, comparison_table, different_data

TOGETHER = {"a": {"accuracy": 0.75, "auc": 0.5, "loss": 1.0}, "b": {"accuracy": 1.0, "auc": 0.75}}
ALONE = {"a": {"accuracy": 0.5, "auc": 0.25}, "b": {"accuracy": 0.75}}


def rows(comparison: Comparison) -> list[list[str]]:
    out = StringIO()
    Console(file=out, width=160).print(comparison_table(comparison, every=False))
    return [line.split() for line in out.getvalue().splitlines() if line.split()[2:]][2:]


def test_each_node_and_the_mean_stand_side_by_side() -> None:
    assert rows(Comparison(TOGETHER, ALONE)) == [
        ["accuracy", "a", "0.7500", "0.5000", "+0.2500"],
        ["accuracy", "b", "1.0000", "0.7500", "+0.2500"],
        ["accuracy", "mean", "0.8750", "0.6250", "+0.2500"],
        ["auc", "a", "0.5000", "0.2500", "+0.2500"],
        ["auc", "b", "-", "-", "-"],
        ["auc", "mean", "0.5000", "0.2500", "+0.2500"],
    ]


@pytest.mark.parametrize(
    ("together", "alone", "verdict"),
    [
        (0.75, 0.5, "together it is higher by 0.2500"),
        (0.5, 0.75, "alone it is higher by 0.2500"),
        (0.5, 0.50001, "they are equal in four digits"),
    ],
)
def test_one_sentence_says_which_mean_is_higher(together: float, alone: float, verdict: str) -> None:
    said = Comparison({"a": {"accuracy": together}}, {"a": {"accuracy": alone}}).words()
    assert said == f"mean accuracy {together:.4f} together and {alone:.4f} alone: {verdict}"


def test_without_a_common_node_nothing_is_compared() -> None:
    comparison = Comparison(TOGETHER, {})
    assert "nothing to compare" in comparison.words()
    assert rows(comparison)[-1] == ["accuracy", "mean", "-", "-", "-"]


def test_other_data_the_second_time_are_told() -> None:
    data: dict[str, dict[str, object]] = {"a": {"source": "x", "rows": {"train": 1}}, "b": {"source": "x"}}
    assert different_data(data, deepcopy(data)) is None
    assert different_data(data, data | {"b": {"source": "y"}}) == "beware: the data changed meanwhile on b"
