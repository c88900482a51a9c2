"""Methods by name: aggregation rules, the same on all nodes, and wrappers around local training."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flnet.algorithms.apfl import Adaptive
from flnet.algorithms.fed_prox import Proximal
from flnet.algorithms.fl_protector import Increment
from flnet.algorithms.registry import parse_rule, stated_rule, with_method
from flnet.algorithms.scaffold import Controlled
from flnet.errors import TrainerError
from flnet.settings import Settings
from flnet.trainer import Method, Trainer
from tests.algorithms.lines import Lines, Point, clouds, task

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


# --- local training


def point() -> Point:
    return Point((0.0,), (1.0,))


class Whole(Lines):
    """Cannot be taken apart."""

    gradients = Trainer.gradients  # type: ignore[assignment]


def lines() -> Lines:
    return Whole(*clouds(20, 0.0, False))


def test_a_plain_method_leaves_the_trainer_alone() -> None:
    one = point()
    assert with_method(one, Method(), 0, "P") is one
    assert with_method(one, Method("proximal:0"), 0, "P") is one


def test_each_method_has_its_wrapper() -> None:
    assert isinstance(with_method(lines(), Method("proximal:0.1"), 0, "L"), Proximal)
    assert isinstance(with_method(point(), Method(controls=True), 0, "P"), Controlled)
    assert isinstance(with_method(point(), Method(personal="apfl"), 0, "P"), Adaptive)
    both = with_method(lines(), Method("proximal:0.1", "increment"), 0, "L")
    assert isinstance(both, Increment)
    assert isinstance(both.inner, Proximal)


def test_the_second_training_is_not_held_back() -> None:
    """The proximal term belongs to what is averaged."""
    plain, held = (with_method(lines(), Method(how, "increment"), 0, "L") for how in ("plain", "proximal:100"))
    start = plain.initial_params(0)
    assert (
        plain.personalise(task(start))["personal/w"].tolist()
        == held.personalise(task(start))["personal/w"].tolist()
    )


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            Method(controls=True),
            "FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which L lacks",
        ),
        (
            Method(personal="apfl"),
            "FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which L lacks",
        ),
        (Method(personal="apfl", controls=True), "change the same steps of training"),
    ],
)
def test_what_a_trainer_cannot_do_is_refused_in_words(method: Method, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        with_method(lines(), method, 0, "L")


def test_a_trainer_that_does_not_honour_the_term_is_refused() -> None:
    words = (
        r"FLNET_LOCAL_TRAINING=proximal:0.1 needs a trainer that honours the proximal term, which P does not; set"
    )
    with pytest.raises(TrainerError, match=words):
        with_method(point(), Method("proximal:0.1"), 0, "P")
    assert with_method(point(), Method("proximal:0.1", "apfl"), 0, "P")  # flnet does the steps, and the term
