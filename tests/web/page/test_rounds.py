"""The page of a past round: its steps, the nodes after each of them, and what each peer brings."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from flnet.node.replay import STATES
from flnet.web.page.rounds import CHIPS, MOST_NODES, MOST_STEPS
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import Page, load

HERE = "/view/rounds/MNIST"
LOOPBACK = {"client": ("127.0.0.1", 5)}
EVIL = "<img src=x onerror=alert(1)>"


def record(number: int, **more: Any) -> dict[str, Any]:
    return {
        **{"round": number, "initiator": "NODE_1", "outcome": "averaged 2 updates", "error": None},
        **{"pre_fedavg_accuracy": 0.5, "post_fedavg_accuracy": 0.75, "contributors": ["NODE_1", EVIL]},
        **{"missing": ["NODE_3"], "left_out": {"NODE_3": "it did not answer"}},
        **more,
    }


@pytest.fixture
def node() -> FakeNode:
    made = FakeNode()
    job = made.jobs["MNIST"]
    weighed = {"NODE_1": {"weight": 0.25}, EVIL: {"weight": 0.75}}
    job.records += [record(0), record(1, weighed=weighed), record(2, weighed=weighed)]
    for kind, peer in (
        ("round_opened", ""),
        ("trained", ""),
        ("update_received", EVIL),
        ("averaged", ""),
        ("round_closed", ""),
    ):
        data = {"round": 1, **({"peer": peer} if peer else {"initiator": "NODE_1", **record(1)})}
        made.feed.publish(kind, f"{kind} {peer}".strip(), "MNIST", data)
    return made


def states(html: str) -> list[str]:
    return [unescape(words) for words in re.findall(r"<span [^>]*data-state[^>]*>([^<]*)</span>", html)]


async def html_of(client: Client, path: str, **more: Any) -> str:
    answer = await client.get(path, **more)
    assert answer.status_code == 200
    return str(await answer.get_data(as_text=True))


async def test_a_round_is_told_step_by_step(client: Client, node: FakeNode) -> None:
    html = await html_of(client, f"{HERE}?round=1")
    page = Page(html)
    assert f"+0.00 s NODE_1 trained +0.00 s {EVIL} update_received {EVIL}" in re.sub(
        r"\+\d\.\d\d", "+0.00", page.text
    )
    assert states(html) == ["counts in the average", "counts in the average", "is not in the average"]
    assert "it did not answer" in page.text and "averaged 2 updates" in page.text
    assert page.inline == "" and EVIL not in html
    changes = [json.loads(step["data-changes"] or "") for step in page.all("li") if "data-changes" in step]
    assert changes[:3] == [{"NODE_1": ["trains", ""]}, {"NODE_1": ["sent", ""]}, {EVIL: ["arrived", ""]}]
    html = await html_of(client, f"{HERE}?round=1&step=2")
    assert states(html) == ["sent its update", "waited for", "waited for"]
    assert "The nodes after step 2" in Page(html).text


def test_every_state_has_a_look() -> None:
    assert CHIPS.keys() == STATES.keys()


async def test_rounds_lead_to_each_other_and_the_newest_comes_first(client: Client, node: FakeNode) -> None:
    page = await load(client, HERE)
    assert "Round 2 step by step" in page.text
    assert "The events of this round are not kept any more. A node keeps a limited number of events" in page.text
    assert [link["href"] for link in page.all("a") if link.get("rel") == "prev"] == [f"{HERE}?round=1"]
    page = await load(client, f"{HERE}?round=0")
    assert [link["href"] for link in page.all("a") if link.get("rel")] == [f"{HERE}?round=1"]


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ("round=7", 404, "neither a record nor events of round 7 are kept here"),
        ("round=x", 422, "round: expected a whole number from 0"),
        ("round=1&step=9", 422, "step: expected a whole number from 1 to 5"),
        ("round=1&step=0", 422, "step: expected a whole number from 1 to 5"),
        (f"round={10**30}", 422, "round: expected a whole number from 0"),
    ],
)
async def test_what_is_not_there_is_said(client: Client, asked: str, status: int, words: str) -> None:
    answer = await client.get(f"{HERE}?{asked}")
    assert answer.status_code == status
    assert words in Page(await answer.get_data(as_text=True)).text


async def test_a_job_without_rounds_says_so(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].records.clear()
    assert "No round is over yet." in (await load(client, HERE)).text
    answer = await client.get("/view/rounds", follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"].rpartition("/")[2]) == (303, "MNIST")


async def test_many_nodes_and_steps_are_bounded(client: Client, node: FakeNode) -> None:
    names = [f"n{place}" for place in range(MOST_NODES + 5)]
    node.feed.keep = 1000
    node.jobs["MNIST"].records.append(record(3, contributors=names, missing=[], left_out={}))
    for name in names * 4:
        node.feed.publish("update_received", "u", "MNIST", {"round": 3, "peer": name})
    html = await html_of(client, f"{HERE}?round=3")
    page = Page(html)
    assert len(states(html)) == MOST_NODES
    assert "6 more nodes are in the JSON" in page.text
    assert f"{len(names) * 4 - MOST_STEPS} more steps are in the JSON" in page.text


async def test_what_each_peer_brings_is_a_chart_for_those_who_may_see_it(client: Client, node: FakeNode) -> None:
    rounds = [
        {"round": number, "accuracy": 0.8, "examples": 50, "seconds": 1.0, "without": {EVIL: 0.7, "NODE_3": 0.81}}
        for number in range(3)
    ]
    node.leave_one_out.found = {"on": True, "why_not": "", "rounds": rounds}
    answer = await client.get(HERE, scope_base=LOOPBACK)
    page = Page(await answer.get_data(as_text=True))
    assert "What each peer brings" in page.text and "Weights in the average by round" in page.text
    assert "with all 80.00 %" in page.text and f"without {EVIL} 70.00 %" in page.text
    away = await client.get(HERE, scope_base={"client": ("192.0.2.7", 5)})
    assert "without" not in Page(await away.get_data(as_text=True)).text


async def test_it_speaks_spanish(client: Client) -> None:
    html = await html_of(client, f"{HERE}?round=1&step=2", headers={"Accept-Language": "es"})
    assert states(html) == ["envió su actualización", "se la espera", "se la espera"]


async def test_scripts_get_the_same_as_json(client: Client, node: FakeNode) -> None:
    answer = await client.get("/jobs/MNIST/history/1")
    told = await answer.get_json()
    assert [step["kind"] for step in told["steps"]][:2] == ["round_opened", "trained"]
    assert told["nodes"]["NODE_3"] == {"state": "left_out", "why": "it did not answer"}
    assert (told["missing"], told["record"]["round"]) == ([], 1)
    assert (await client.get("/jobs/MNIST/history/9")).status_code == 404
    assert (await client.get("/jobs/MNIST/history/-1")).status_code == 422
