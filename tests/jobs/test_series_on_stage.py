"""A series with a goal on a few nodes: it ends on all of them, also without the one where it was asked for."""

from __future__ import annotations

import pytest

from flnet.events import RoundTriggered
from tests.jobs.stage import Stage

GOAL = "accuracy>=0.9"


@pytest.mark.parametrize("rounds", [1, 4])
def test_on_a_few_nodes_a_series_ends_everywhere_in_the_same_round(rounds: int) -> None:
    stage = Stage()
    stage.tell("b", RoundTriggered(rounds, until=GOAL))
    stage.run()
    views = [job.view() for job in stage.jobs.values()]
    assert [view["goal"]["state"] for view in views] == ["given_up"] * 3
    assert [view["current_round"] for view in views] == [rounds - 1] * 3
    assert stage.now == 0  # no timer had to fire


def test_a_series_goes_on_without_the_node_where_it_was_asked_for() -> None:
    stage = Stage()
    stage.tell("a", RoundTriggered(4, until=GOAL))
    while stage.jobs["b"].state.number < 1:
        stage.due.pop(0)()
    stage.cuts = {frozenset("ab"), frozenset("ac")}
    stage.run()
    for name in "bc":
        goal = stage.jobs[name].view()["goal"]
        assert (goal["state"], goal["round"], goal["by"]) == ("given_up", 3, "a")
