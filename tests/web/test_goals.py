"""Goals on the page: every choice of the form is a goal that nodes read, and what is shown of one is in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.policies import Goal
from flnet.web.goals import goal_view, goal_words, until_of
from flnet.web.words import english, translator

from .conftest import Client
from .fake_node import FakeNode
from .page_reading import load, post

FIELDS = {"least": "0.95", "patience": "5", "delta": "0.001", "minutes": ""}
VIEW = {
    **{"until": "accuracy>=0.9, within 600.0", "by": "n0", "first_round": 0, "rounds": 30, "round": 4, "done": 3},
    **{"state": "open", "accuracy": 0.8125, "nodes": 4, "best": 0.825, "stale": 1, "words": "x"},
}
spanish = translator("es")


@pytest.mark.parametrize(
    ("choice", "minutes", "goal"),
    [
        ("mean", "", "accuracy>=0.95"),
        ("every", "", "every accuracy>=0.95"),
        ("own", "10", "own accuracy>=0.95, within 600.0"),
        ("gain", "0.5", "no-gain 5 0.001, within 30.0"),
        ("mlfedavg", "", "mlfedavg 0.0"),
        ("cumulative", "", "mlfedavg 0.0 cumulative"),
    ],
)
def test_every_choice_is_a_goal(choice: str, minutes: str, goal: str) -> None:
    assert str(Goal.parse(until_of(FIELDS | {"goal": choice, "minutes": minutes}))) == goal


@given(st.dictionaries(st.sampled_from(["goal", *FIELDS]), st.text(max_size=60)))
def test_whatever_a_form_brings_is_left_to_the_node(fields: dict[str, str]) -> None:
    assert len(until_of(fields)) <= 200


def test_the_way_to_a_goal_in_words() -> None:
    shown = goal_view(VIEW, english)
    assert shown is not None
    assert (shown.is_open, shown.done, shown.rounds) == (True, 3, 30)
    assert shown.words == (
        "Until the mean accuracy of all nodes is 0.9 or 10 minutes are over; 3 of at most 30 rounds; "
        "mean accuracy 81.25 % of 4 nodes; the best so far 82.50 %; asked for at n0"
    )
    reached = goal_view(VIEW | {"state": "reached"}, spanish)
    assert reached is not None
    assert reached.words.startswith("Objetivo alcanzado en la ronda 4; hasta que la exactitud media de todos")
    assert not reached.is_open


@pytest.mark.parametrize(
    "until", ["no-gain 5 0.001", "mlfedavg", "mlfedavg cumulative", "every accuracy>=0.5", "own accuracy>=1"]
)
def test_goals_are_said_in_both_languages(until: str) -> None:
    assert goal_words(until, english) not in ("", until, goal_words(until, spanish))


@pytest.mark.parametrize("wrong", [None, 3, {}, {"state": "odd"}, {"state": "open", "done": "x", "until": 7}])
def test_what_a_peer_tells_may_be_anything(wrong: Any) -> None:
    shown = goal_view(wrong, english)
    assert shown is None or (shown.is_open and shown.rounds == 1)
    assert goal_words("<b>bliss</b>", english) == "<b>bliss</b>"


async def test_the_card_asks_for_a_goal_and_shows_how_far_it_is(client: Client, node: FakeNode) -> None:
    page = await load(client)
    choices = [choice["value"] for choice in page.all("option")]
    assert choices[choices.index("mean") :][:6] == ["mean", "every", "own", "gain", "mlfedavg", "cumulative"]
    fields = {**FIELDS, "goal": "every", "rounds": "30"}
    _, location = await post(client, "/training/trigger/form", trainerId="MNIST", **fields)
    assert "Round 0 of MNIST has been started." in (await load(client, location)).text
    node.jobs["MNIST"].goal = VIEW
    shown = await load(client)
    assert (
        "Until the mean accuracy of all nodes is 0.9 or 10 minutes are over; 3 of at most 30 rounds" in shown.text
    )
    assert "disabled" not in next(button for button in shown.all("button") if button.get("value") == "stop")


async def test_a_goal_that_is_none_is_told_on_the_page(client: Client) -> None:
    _, location = await post(client, "/training/trigger/form", trainerId="MNIST", goal="mean", least="x" * 300)
    assert (await load(client, location)).text
