from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from flnet.cli.params import parse
from tests.cli.fake_node import FakeNode, job

Run = Callable[..., Result]
HYPER = {"e": 2, "u": 0.05, "b": 16}


def test_they_are_shown(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=HYPER)]
    shown = flnet("params", "MNIST", "--node", fake_node.address)
    assert shown.exit_code == 0
    assert "learning rate" in shown.output
    assert "0.05" in shown.output
    assert fake_node.posted == []


def test_they_are_changed_one_by_one(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.prediction = job(hyper={**HYPER, "e": 5})
    shown = flnet("params", "MNIST", "e=5", "u=1e-3", "--json", "--node", fake_node.address)
    assert json.loads(shown.stdout) == {**HYPER, "e": 5}
    assert fake_node.posted == [{"e": 5, "u": 0.001}]


def test_a_job_that_has_none_yet_says_why(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=None, error="no MNIST files")]
    assert "none yet: no MNIST files" in flnet("params", "MNIST", "--node", fake_node.address).output


def test_the_merging_rule_is_shown_and_changed(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=HYPER, merging_rule="clip,agg1")]
    assert "clip,agg1" in flnet("params", "MNIST", "--node", fake_node.address).output
    fake_node.prediction = job(hyper=HYPER, merging_rule="median")
    shown = flnet("params", "MNIST", "aggregation=median", "--node", fake_node.address)
    assert shown.exit_code == 0
    assert "median" in shown.output
    assert fake_node.posted == [{"aggregation": "median"}]


@pytest.mark.parametrize("change", ["x=1", "e", "e=", "e=1.5", "u=fast", "b=1e3", "=3"])
def test_a_change_that_is_none_is_wrong_usage(flnet: Run, fake_node: FakeNode, change: str) -> None:
    shown = flnet("params", "MNIST", change, "--node", fake_node.address)
    assert shown.exit_code == 2
    assert "got" in shown.stderr
    assert fake_node.posted == []


def test_a_name_comes_once() -> None:
    with pytest.raises(ValueError, match="at most once"):
        parse(["e=1", "e=2"])
