"""`flnet train --until`: what it asks for, how long it waits, and how its exit codes tell the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from flnet.cli.output import time_words
from flnet.cli.train import parse
from tests.cli.fake_node import FakeNode, job, record

Run = Callable[..., Result]
GOAL = ("--until", "accuracy>=0.9")


def goal(state: str, number: int, words: str = "") -> dict[str, Any]:
    return {"until": "accuracy>=0.9", "state": state, "round": number, "words": words}


def test_a_goal_is_asked_for_with_its_bound(ask: Run, fake_node: FakeNode) -> None:
    shown = ask("train", "MNIST", *GOAL, "--max-rounds", "7")
    assert shown.exit_code == 0
    assert "rounds of MNIST from 0 on, 7 at most, until accuracy>=0.9" in shown.output
    told = ask("train", "MNIST", *GOAL, "--json")
    assert json.loads(told.stdout) == {"trainerId": "MNIST", "round": 0, "rounds": 100, "until": "accuracy>=0.9"}
    assert fake_node.posted == [{"trainerId": "MNIST", "rounds": n, "until": "accuracy>=0.9"} for n in (7, 100)]


@pytest.mark.parametrize(
    "options", [("--max-rounds", "3"), (*GOAL, "--rounds", "3"), (*GOAL, "--max-rounds", "0")]
)
def test_rounds_and_bounds_are_not_mixed_up(ask: Run, fake_node: FakeNode, options: tuple[str, ...]) -> None:
    assert ask("train", "MNIST", *options).exit_code == 2
    assert fake_node.posted == []


@pytest.mark.parametrize(("state", "code"), [("reached", 0), ("given_up", 4)])
def test_the_end_of_a_series_is_waited_for_and_told(ask: Run, fake_node: FakeNode, state: str, code: int) -> None:
    fake_node.views = [
        job(phase="TRAINING", current_round=0, goal=goal("open", 0)),
        job(current_round=0, goal=goal("open", 0)),  # another node is to start the next round
        job(current_round=0, goal=goal("open", 0)),
        job(phase="TRAINING", current_round=1, goal=goal("open", 1)),
        job(current_round=1, goal=goal(state, 1, "as it is")),
    ]
    fake_node.records = [record(0, "d0"), record(1, "d1")]
    shown = ask("train", "MNIST", *GOAL, "--wait", "--json")
    assert shown.exit_code == code
    assert [result["number"] for result in json.loads(shown.stdout)] == [0, 1]
    assert f"{state.replace('_', ' ')}: accuracy>=0.9: as it is" in shown.stderr


def test_a_round_alone_warns_and_ends_with_code_4_with_the_reason_from_this_nodes_side(
    ask: Run, fake_node: FakeNode
) -> None:
    differing = {"peer": "n1", "words": "columns missing here: c10"}
    fake_node.views = [job(current_round=0, differs=[differing])]
    alone = {"n1": "the nodes do not agree on columns", "n2": "no answer in time"}
    fake_node.records = [record(0, "d0") | {"alone": alone}]
    shown = ask("train", "MNIST", "--wait", "--json")
    assert shown.exit_code == 4
    assert [result["number"] for result in json.loads(shown.stdout)] == [0]
    assert "warning: n1 cannot train with this node: columns missing here: c10" in shown.stderr
    assert "in round 0 this node was alone: n1: columns missing here: c10; n2: no answer in time" in shown.stderr
    fake_node.records = [record(0, "d0")]
    assert ask("train", "MNIST", "--wait").exit_code == 0


MORE = {"contributors": ["n0", "n1"], "left_out": {"n2": "no answer in time"}}


def test_each_round_says_how_many_updates_it_averaged_and_who_is_left_out_is_warned_of_once(
    ask: Run, fake_node: FakeNode
) -> None:
    fake_node.views = [job(current_round=2)]
    fake_node.records = [record(n, "d0") | MORE for n in (0, 1)]
    fake_node.records.append(record(2, "d0") | {"contributors": ["n0", "n1", "n2"], "left_out": {}})
    shown = ask("train", "MNIST", "--rounds", "3", "--wait")
    assert shown.exit_code == 0
    assert "after 0.7500, 2 of 3 updates, model" in shown.stdout
    assert "3 of 3" in shown.stdout
    warnings = [line for line in shown.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == ["warning: round 0 averaged 2 of 3 updates: n2: no answer in time"]


def test_rounds_alone_are_warned_of_as_soon_as_the_first_is_over_and_end_with_code_4(
    ask: Run, fake_node: FakeNode
) -> None:
    alone = {"n1": "asks for too much", "n2": "asks for too much"}
    fake_node.views = [job(current_round=1)]
    fake_node.records = [record(n) | {"contributors": ["n0"], "left_out": alone, "alone": alone} for n in (0, 1)]
    shown = ask("train", "MNIST", "--rounds", "2", "--wait")
    assert shown.exit_code == 4
    assert "1 of 3 updates" in shown.stdout
    reasons = "this node was alone: n1, n2: asks for too much"
    assert shown.stderr.splitlines() == [f"warning: in round 0 {reasons}", f"Error: in rounds 0, 1 {reasons}"]


def test_who_turns_out_not_to_fit_during_the_wait_is_warned_of(ask: Run, fake_node: FakeNode) -> None:
    loading = job(phase="LOADING", rounds_left=1)
    differs = [{"peer": "n2", "words": "model: here mlp 24, 12; there mlp 24, 8"}]
    fake_node.views = [loading, loading, job(phase="TRAINING", current_round=0), job(current_round=0)]
    fake_node.views.append(job(current_round=0, differs=differs))
    fake_node.records = [record(0, "d0")]
    shown = ask("train", "MNIST", "--wait")
    assert shown.exit_code == 0
    assert f"warning: n2 cannot train with this node: {differs[0]['words']}" in shown.stderr


LIMIT = "expected a learning rate of at most 0.0024 in a round of another node, got 0.005"


def test_hyper_parameters_that_other_nodes_will_not_train_by_are_warned_of_where_they_are_set_and_used(
    ask: Run, fake_node: FakeNode
) -> None:
    fake_node.prediction = job(hyper=HYPER, asks_too_much=LIMIT)
    fake_node.views = [fake_node.prediction]
    words = f"warning: nodes with the limits of this node do not train in rounds that start here: {LIMIT}\n"
    for command in (("params", "MNIST", "u=0.005"), ("params", "MNIST", "u=0.005", "--json"), ("train", "MNIST")):
        shown = ask(*command)
        assert (shown.exit_code, shown.stderr) == (0, words)


def test_rounds_asked_for_while_data_are_loading_are_said_to_begin_later(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(phase="LOADING", rounds_left=2)]
    shown = ask("train", "MNIST", "--rounds", "2")
    assert shown.output == "MNIST is loading its data; the requested rounds begin when they are there\n"
    assert "2 requested rounds will begin when they are there" in " ".join(ask("status").output.split())


def test_the_wait_goes_on_while_data_are_loading(ask: Run, fake_node: FakeNode) -> None:
    loading = job(phase="LOADING", rounds_left=1)
    fake_node.views = [*[loading] * 3, job(phase="TRAINING", current_round=0), job(current_round=0)]
    fake_node.records = [record(0, "d0")]
    assert ask("train", "MNIST", "--wait").exit_code == 0


HYPER = {"e": 2, "u": 0.05, "b": 16}


def test_they_are_shown_and_changed_one_by_one_with_the_aggregation_rule(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=HYPER, merging_rule="clip,agg1")]
    shown = ask("params", "MNIST")
    assert (shown.exit_code, fake_node.posted) == (0, [])
    assert all(
        text in shown.output for text in ("learning rate", "0.05", "clip,agg1", "clip, weighted average (agg1)")
    )
    fake_node.prediction = job(hyper={**HYPER, "e": 5}, merging_rule="median")
    assert json.loads(ask("params", "MNIST", "e=5", "u=1e-3", "--json").stdout) == {**HYPER, "e": 5}
    assert "median" in ask("params", "MNIST", "aggregation=median").output
    assert fake_node.posted == [{"e": 5, "u": 0.001}, {"aggregation": "median"}]


def test_those_of_a_round_of_another_node_are_shown_where_they_differ(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=HYPER, round_hyper=HYPER, current_round=3)]
    assert "round 3" not in ask("params", "MNIST").output
    fake_node.views = [job(hyper=HYPER, round_hyper={**HYPER, "e": 7}, current_round=3)]
    assert "round 3 has e=7, u=0.05, b=16" in ask("params", "MNIST").output


def test_a_job_that_has_none_yet_says_why(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(hyper=None, error="no MNIST files")]
    assert "none yet: no MNIST files" in ask("params", "MNIST").output


@pytest.mark.parametrize("change", ["x=1", "e", "e=", "e=1.5", "u=fast", "b=1e3", "=3"])
def test_a_change_that_is_none_is_wrong_usage(ask: Run, fake_node: FakeNode, change: str) -> None:
    shown = ask("params", "MNIST", change)
    assert shown.exit_code == 2
    assert "got" in shown.stderr
    assert fake_node.posted == []


def test_a_name_comes_once() -> None:
    with pytest.raises(ValueError, match="at most once"):
        parse(["e=1", "e=2"])


# `flnet schedule`, and what `flnet status` says of goals and of the next start.


Flnet = Callable[..., Result]


def schedule(**changes: Any) -> dict[str, Any]:
    usual = {
        "when": "every 6h",
        "by_person": False,
        "next_seconds": 11_520,
        "next_words": "6h after the last round",
    }
    return {**usual, "new_examples": 0, "unwilling": "", **changes}


def test_it_is_shown_with_the_next_start(fake_node: FakeNode, ask: Flnet) -> None:
    fake_node.views = [job(schedule=schedule())]
    done = ask("schedule", "MNIST")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "MNIST: every 6h (of the node's settings)",
        "next round in 3 h 12 min: 6h after the last round",
    ]


@pytest.mark.parametrize(("given", "when"), [(["new 5"], "new 5"), (["--reset"], None)])
def test_it_is_changed(fake_node: FakeNode, ask: Flnet, given: list[str], when: str | None) -> None:
    message = schedule(
        when="new 5", by_person=True, next_seconds=None, next_words="", unwilling="the battery is low"
    )
    fake_node.prediction = job(schedule=message)
    done = ask("schedule", "MNIST", *given)
    assert fake_node.posted == [{"when": when}]
    assert done.output.splitlines() == [
        "MNIST: new 5 (given by a person)",
        "takes no part in rounds of others now: the battery is low",
    ]


def test_one_of_the_two_is_asked_for(ask: Flnet) -> None:
    assert ask("schedule", "MNIST", "new 5", "--reset").exit_code == 2


def test_status_tells_goal_and_next_start(fake_node: FakeNode, ask: Flnet) -> None:
    goal = {"until": "accuracy>=0.9", "by": "n1", "state": "open", "done": 3, "rounds": 30, "best": 0.75}
    fake_node.views = [job(goal=goal, schedule=schedule(unwilling="outside of the hours 22:00-06:00"))]
    lines = ask("status").output.splitlines()
    fake_node.views = [job(goal={"state": "reached"}, schedule=schedule(next_words=""))]
    assert "\nMNIST " not in ask("status").output
    assert "MNIST until accuracy>=0.9: 3 of at most 30 rounds, best mean accuracy 0.7500; asked for at n1" in lines
    assert "MNIST next round in 3 h 12 min: 6h after the last round (every 6h)" in lines
    assert "MNIST takes no part in rounds of others now: outside of the hours 22:00-06:00" in lines


def test_durations() -> None:
    assert [time_words(n) for n in (5, 65, 3600, 90_000)] == ["5 s", "1 min 5 s", "1 h 0 min", "1 d 1 h"]
