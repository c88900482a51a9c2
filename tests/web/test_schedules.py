"""Schedules on the page: the next start in words, and the form that sets them."""

from __future__ import annotations

import time

import pytest

from flnet.web.schedules import ScheduleView, schedule_view
from flnet.web.words import english, translator

from .conftest import Client
from .fake_job import NO_SCHEDULE
from .fake_node import FakeNode
from .page_reading import load, post

NEXT = {"when": "every 6h", "by_person": True, "next_seconds": 3600, "next_words": "6h after the last round"}


def test_the_next_start_is_told_in_the_nodes_own_time() -> None:
    now = time.mktime((2026, 1, 2, 21, 0, 0, 0, 0, -1))
    assert schedule_view({**NEXT, "unwilling": ""}, english, now) == ScheduleView(
        "every 6h", True, "given by a person", "2026-01-02 22:00", "6h after the last round", ""
    )
    assert schedule_view({"when": "never"}, translator("es"), now) == ScheduleView(
        "never", False, "según la configuración del nodo", "", "", ""
    )


@pytest.mark.parametrize("seconds", [None, 0, -5, True, "1", 1e300, 10**12, float("nan")])
def test_what_is_no_time_to_come_is_none(seconds: object) -> None:
    view = schedule_view({**NEXT, "next_seconds": seconds}, english)
    assert view is not None and view.next_at == ""


@pytest.mark.parametrize("claimed", [None, 7, [], "every 6h"])
def test_what_is_no_schedule_is_none(claimed: object) -> None:
    assert schedule_view(claimed, english) is None


async def test_the_card_tells_when_and_why_the_next_round_starts(client: Client, node: FakeNode) -> None:
    assert "by itself:" not in (await load(client)).text.replace("Nothing starts by itself with:", "")
    declines = "outside of the hours 22:00-06:00"
    node.jobs["MNIST"].schedule = {**NO_SCHEDULE, **NEXT, "unwilling": declines}
    page = await load(client)
    assert "Next round by itself at 20" in page.text and "node's time: 6h after the last round" in page.text
    assert f"Takes no part in rounds of others now: {declines}" in page.text
    assert "Start rounds by itself : every 6h" in page.text.replace("itself:", "itself :")
    spanish = await load(client, Accept_Language="es")
    assert "hora de este nodo: 6h después de la última ronda" in spanish.text
    assert "fuera de las horas 22:00-06:00" in spanish.text


async def test_the_form_gives_a_schedule_and_takes_it_back(client: Client, node: FakeNode) -> None:
    path, who = "/training/schedule/form", {"trainerId": "MNIST"}
    _, location = await post(client, path, **who, when="every 6h,new 5", do="set")
    page = await load(client, location)
    assert "Rounds start by themselves: every 6h, new 5" in page.text
    assert "every 6h, new 5" in [field["value"] for field in page.all("input") if field.get("name") == "when"]
    await post(client, path, **who, when="every 6h", do="reset")
    assert (node.jobs["MNIST"].schedule["by_person"], node.jobs["MNIST"].schedule["when"]) == (False, "never")
    _, location = await post(client, path, **who, when="sometimes", do="set")
    assert (await load(client, location)).alerts()


async def test_rest_gives_a_schedule_and_takes_it_back(client: Client, node: FakeNode) -> None:
    path, json = "/jobs/MNIST/schedule", {"Content-Type": "application/json"}
    answer = await client.put(path, data=b'{"when": "new 5"}', headers=json)
    assert (answer.status_code, (await answer.get_json())["schedule"]["when"]) == (200, "new 5")
    answer = await client.put(path, data=b'{"when": null}', headers=json)
    assert (await answer.get_json())["schedule"]["by_person"] is False
    for body in (b'{"when": "sometimes"}', b"{}", b'{"when": 5}', b"[]"):
        assert (await client.put(path, data=body, headers=json)).status_code == 422
