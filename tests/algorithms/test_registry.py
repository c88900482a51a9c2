"""The merging rule of a node: by name, and the same on all nodes."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flnet.algorithms.registry import parse_rule, stated_rule
from flnet.settings import Settings

NAMES = {
    "agg0": "agg0", "agg1": "agg1", "agg2": "agg2", "median": "median", "trimmed-mean": "trimmed-mean:0.2",
    "trimmed-mean:0.3": "trimmed-mean:0.3", "geometric-median": "geometric-median", "krum": "krum:1",
    "krum:2": "krum:2", "multi-krum:2": "multi-krum:2", "multi-krum:2:4": "multi-krum:2:4", "bulyan:3": "bulyan:3",
    "k-means": "k-means", "k-means:1": "k-means", "k-means:0.50": "k-means:0.5",
    "scaffold": "scaffold", "scaffold:0.5": "scaffold:0.5", "scaffold:1:examples": "scaffold:1:examples",
    "fedavgm": "fedavgm:1:0.9", "fedavgm:0.5:0": "fedavgm:0.5:0", "fedadam": "fedadam:0.01:0.9:0.99:0.001",
    "fedyogi:0.1:0.8:0.9:0.0001": "fedyogi:0.1:0.8:0.9:0.0001",
    "consistency": "consistency", "consistency:mad:10": "consistency", "consistency:raw": "consistency:raw",
    "consistency:rows:10": "consistency:rows", "consistency:bounded:10": "consistency:bounded",
    "winsorised-mean": "winsorised-mean:0.2", "winsorised-mean:0.30": "winsorised-mean:0.3",
    "consistency:1": "consistency:1",
    "consistency:ratio:2:0.50": "consistency:ratio:2:0.5",
    "clip,agg0": "clip,agg0", "clip:2.50,cosine,krum": "clip:2.5,cosine,krum:1",
}  # fmt: skip


@pytest.mark.parametrize("rule", NAMES)
def test_every_rule_is_known_by_its_whole_name(rule: str) -> None:
    assert parse_rule(rule).name == NAMES[rule]
    assert Settings(aggregation=f" {rule} ").aggregation == rule


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "mean",
        "agg3",
        "median:1",
        "trimmed-mean:0.5",
        "winsorised-mean:0.5",
        "consistency:bounded:0",
        "krum:-1",
        "k-means:0",
        "k-means:0.0",
        "k-means:1.5",
        "multi-krum:1:0",
        "clip",
        "median,clip",
        "clip:0,median",
        "clip:0.0,median",
        "cosine:1,median",
        "clip,,median",
        ",median",
        "clip," * 9 + "median",
    ],
)
def test_there_is_no_other_rule(rule: str) -> None:
    with pytest.raises(ValidationError, match="expected agg0, agg1"):
        Settings(aggregation=rule)


def test_spaces_between_filters_do_not_matter() -> None:
    assert Settings(aggregation="clip , cosine, median").aggregation == "clip,cosine,median"
    assert stated_rule("clip ,median") == {"merging rule": "clip,median"}


def test_what_is_not_usual_is_stated_with_its_numbers() -> None:
    assert stated_rule("agg1") == {}
    assert stated_rule("trimmed-mean") == stated_rule("trimmed-mean:0.2") == {"merging rule": "trimmed-mean:0.2"}


def test_a_rule_knows_what_follows_from_it() -> None:
    assert parse_rule("agg1").adds_as_they_come
    assert not parse_rule("clip,agg1").adds_as_they_come
    assert parse_rule("cosine,scaffold").changes_training
    assert not parse_rule("median").changes_training
