"""How much updates counted, as a job's card shows it."""

from __future__ import annotations

from typing import Any

import pytest
from quart import Quart

from flnet.rounds.view import LittleView
from flnet.text import text
from flnet.web.charts import MAX_LINES
from flnet.web.page.weights import (
    LEAVE_ONE_OUT_ROWS,
    ROUNDS,
    ROWS,
    LeaveOneOutRow,
    LeaveOneOutTable,
    WeightsView,
    leave_one_out_table,
    weights_view,
)
from flnet.web.translation import translator
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load, post

EVIL = "<img src=x onerror=alert(1)>"
english = translator("en")
TOO_FAR = text(
    "it moved {moved} from the base of the round, more than {ratio} times the median of {usual}", "9.5", 3, 1
)


def record(number: int, weighed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    counting = [peer for peer, one in weighed.items() if not one.get("reason")]
    return {
        "round": number,
        "weighed": weighed,
        "contributions": [{"peer": peer, "examples": 10} for peer in counting],
    }


def alike(count: int, **others: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Updates of n00, n01 ... that differ in nothing, and others."""
    return {**{f"n{place:02}": {"weight": 1 / count, "norm": 1.0} for place in range(count)}, **others}


def counts_little(peer: str, since: int) -> LittleView:
    return LittleView(peer=peer, since=since, weight=0.01, fair=0.25, reason="")


def view(*records: dict[str, Any], me: str = "n00", little: Any = ()) -> WeightsView:
    found = weights_view(me, "T", records, little, english)
    assert found is not None
    return found


def test_each_update_of_the_newest_round_has_a_row_with_what_is_known_of_it() -> None:
    weighed: dict[str, dict[str, Any]] = {
        "a": {"weight": 0.625, "norm": 1.0, "cosine": 0.934},
        "b": {"weight": 0.365, "norm": 0.875, "cosine": -0.125},
        "c": {"weight": 0.01, "norm": 120.4},
        "d": {"weight": 0.0, "norm": 9.5, "reason": TOO_FAR},
    }
    shown = view(record(6, alike(4)), record(7, weighed), me="b", little=[counts_little("c", 5)])
    assert shown.columns == ("Weight", "Length", "Direction")
    assert [(row.peer, row.is_me, row.figures, row.state, row.since) for row in shown.rows] == [
        ("b", True, ("36.5 %", "0.88", "-0.12"), "counts", ""),
        ("c", False, ("1.0 %", "120", "—"), "little", "5"),
        ("d", False, ("0.0 %", "9.50", "—"), "out", ""),
        ("a", False, ("62.5 %", "1.00", "0.93"), "counts", ""),
    ]
    assert (shown.summary, shown.hidden, shown.little) == ("3 of 4 in round 7, 1 left out", 0, "c")
    assert shown.spread == "weights from 0.0 % to 62.5 %, an equal share is 25.0 %"


def test_the_chart_and_the_table_beside_it_show_the_same_rounds() -> None:
    rounds = [record(number, alike(2)) for number in range(ROUNDS + 3)]
    rounds[-1]["weighed"]["n01"]["weight"] = 0.125
    shown = view(*rounds)
    assert shown.chart is not None
    assert [(line.name, line.last) for line in shown.chart.lines] == [("n00", "50.0 %"), ("n01", "12.5 %")]
    assert [tick.label for tick in shown.chart.levels] == ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]
    assert shown.names == ("n00", "n01")
    assert shown.table[:2] == (("14", ("50.0 %", "12.5 %")), ("13", ("50.0 %", "50.0 %")))
    assert len(shown.table) == ROUNDS


def test_of_a_hundred_nodes_this_one_and_those_that_stand_out_are_shown() -> None:
    others: dict[str, dict[str, Any]] = {
        "x_out": {"weight": 0.0, "norm": 9.0, "reason": TOO_FAR},
        "x_short": {"weight": 0.0101, "norm": 0.01},
    }
    little: dict[str, dict[str, Any]] = {"n77": {"weight": 0.0009, "norm": 1.0}}
    shown = view(record(0, {**alike(98), **others, **little}), me="n42", little=[counts_little("n77", 0)])
    assert [row.peer for row in shown.rows][:3] == ["n42", "n77", "x_out"]
    assert "x_short" in [row.peer for row in shown.rows]
    assert (len(shown.rows), shown.hidden) == (ROWS, 100 - ROWS)
    assert shown.chart is not None
    assert len(shown.chart.lines) == len(shown.names) == MAX_LINES


def test_where_the_rule_gives_no_weights_lengths_are_drawn() -> None:
    shown = view(record(0, {"a": {"norm": 1.0}, "b": {"norm": 2.5}}), me="a")
    assert (shown.columns, shown.spread) == (("Length",), "")
    assert shown.chart_name == "Lengths of the updates by round"
    assert shown.chart is not None
    assert [line.last for line in shown.chart.lines] == ["1.00", "2.50"]


@pytest.mark.parametrize("history", [[], [{"round": 0}], [{"round": 0, "weighed": {}}]])
def test_where_no_record_tells_nothing_is_shown(history: list[dict[str, Any]]) -> None:
    assert weights_view("a", "T", history, (), english) is None


def test_rounds_in_which_this_node_took_no_part_are_shown_too() -> None:
    shown = view(record(0, {"b": {"weight": 1.0}}), me="a")
    assert [row.peer for row in shown.rows] == ["b"]


async def test_the_page_shows_the_card_in_both_languages_as_text(client: Client, node: FakeNode) -> None:
    weighed: dict[str, dict[str, Any]] = {
        "NODE_1": {"weight": 0.99, "norm": 1.0},
        EVIL: {"weight": 0.01, "norm": 3.0, "reason": TOO_FAR},
    }
    node.jobs["MNIST"].records.append(record(0, weighed))
    node.jobs["MNIST"].more = {"counts_little": [counts_little(EVIL, 0)], "merging_rule": "median"}
    page = await load(client)
    for words in ("1 of 2 in round 0, 1 left out", "99.0 %", TOO_FAR, EVIL, "Aggregation rule median"):
        assert words in page.text
    assert f"{EVIL}: updates count little here" in page.text
    page = await load(client, accept_language="es")
    assert "Cuánto contó cada actualización: 1 de 2 en la ronda 0, 1 sin contar" in page.text
    assert "más de 3 veces la mediana de 1" in page.text
    assert [one for one in page.all("img") if "onerror" in one] == []


async def test_the_page_names_peers_that_use_another_rule(client: Client, node: FakeNode) -> None:
    other = FakeNode("NODE_2", 4001)
    other.jobs["MNIST"].more = {"merging_rule": EVIL}
    node.jobs["MNIST"].more = {"merging_rule": "median"}
    node.around = [{"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None}]
    page = await load(client)
    assert f"NODE_2 uses the aggregation rule {EVIL}, this node uses median" in page.text
    assert "choose the same rule on all of them" in page.text
    other.jobs["MNIST"].more = {"merging_rule": "median"}
    node.around = [{"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None}]
    assert "choose the same rule on all of them" not in (await load(client)).text
    assert translator("es")("Aggregation rule") == "Regla de agregación"


async def test_a_card_says_that_there_are_too_few_nodes_for_the_rule(client: Client, node: FakeNode) -> None:
    """Before any round: as soon as the nodes know each other."""
    other = FakeNode("NODE_2", 4001)
    node.around = [{"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None}]
    node.jobs["MNIST"].more = {"merging_rule": "krum:9", "rule_needs": 21}
    words = (
        "krum:9 needs 21 updates; nodes with this job: 2. The coordinate-wise median of their updates is taken."
    )
    assert words in (await load(client)).text
    assert "krum:9 necesita 21 actualizaciones" in (await load(client, accept_language="es")).text
    node.jobs["MNIST"].more = {"merging_rule": "krum:0", "rule_needs": 2}
    assert "updates; nodes with this job" not in (await load(client)).text


async def test_the_usual_rule_is_named_in_words_and_its_setting_stays(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].more = {"merging_rule": "clip,agg1"}
    assert "Aggregation rule clip, weighted average (agg1)" in (await load(client)).text
    assert "clip, media ponderada (agg1)" in (await load(client, Accept_Language="es")).text


async def test_a_person_changes_the_aggregation_rule_on_the_page(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].more = {"merging_rule": "agg1"}
    (field,) = [one for one in (await load(client)).all("input") if one.get("name") == "aggregation"]
    assert (field["value"], field["type"]) == ("agg1", "text")
    status, where = await post(client, "/training/params/form", trainerId="MNIST", aggregation="clip,median")
    assert status == 303
    page = await load(client, where)
    assert (
        "MNIST Dataset uses the aggregation rule clip, median here. Choose the same on all other nodes."
        in page.text
    )
    assert node.jobs["MNIST"].more["merging_rule"] == "clip,median"
    assert node.jobs["MNIST"].hyper.e == 2
    _, where = await post(client, "/training/params/form", trainerId="MNIST", aggregation="the best one")
    assert len((await load(client, where)).alerts()) == 1
    assert node.jobs["MNIST"].more["merging_rule"] == "clip,median"


ELSEWHERE = ("10.1.2.3", 5000)


def measured(*rounds: dict[str, float], accuracy: float = 0.75, why_not: str = "") -> dict[str, Any]:
    """What was measured in rounds 0, 1 ...: accuracies without each peer."""
    return {
        "on": True,
        "why_not": why_not,
        "rounds": [
            {"round": number, "accuracy": accuracy, "examples": 360, "seconds": 1.0, "without": without}
            for number, without in enumerate(rounds)
        ],
    }


def table_of(said: dict[str, Any]) -> LeaveOneOutTable:
    shown = leave_one_out_table(said)
    assert shown is not None
    return shown


def test_peers_are_ranked_by_what_they_bring_on_average() -> None:
    shown = table_of(measured({"a": 0.5, "gone": 0.1}, {"a": 0.8, "b": 0.7, "c": 0.75}))
    assert (shown.round, shown.accuracy, shown.examples, shown.rounds) == ("1", "75.00 %", "360", 2)
    assert shown.rows == (
        LeaveOneOutRow("a", "80.00 %", "-5.00", "+10.00"),  # brought 25 points before
        LeaveOneOutRow("b", "70.00 %", "+5.00", "+5.00"),
        LeaveOneOutRow("c", "75.00 %", "+0.00", "+0.00"),
    )


def test_of_many_peers_those_that_bring_most_and_least_are_shown() -> None:
    shown = table_of(measured({f"n{place:02}": place / 100 for place in range(50)}))
    assert [row.peer for row in shown.rows] == [f"n{place:02}" for place in (*range(6), *range(44, 50))]
    assert (len(shown.rows), shown.hidden) == (LEAVE_ONE_OUT_ROWS, 38)


def test_before_the_first_round_and_where_it_is_off() -> None:
    assert table_of(measured()).rows == ()
    assert leave_one_out_table({"on": False, "why_not": "", "rounds": []}) is None


async def test_persons_see_it_on_the_page_and_as_json(client: Client, node: FakeNode) -> None:
    assert "What each peer contributes (leave-one-out)" not in (await load(client)).text
    node.leave_one_out.found = measured()
    assert "It is measured when a series of rounds is over." in (await load(client)).text
    node.leave_one_out.found = measured(
        {EVIL: 0.5, "b": 0.77}, why_not="the updates of a round are too large to be held on to"
    )
    page = await load(client)
    assert f"What each peer contributes (leave-one-out): most from {EVIL}, +25.00 points" in page.text
    assert "-2.00" in page.text
    page = await load(client, accept_language="es")
    assert "demasiado grandes para guardarlas" in page.text
    answer = await client.get("/jobs/MNIST/gains")
    assert (answer.status_code, await answer.get_json()) == (200, node.leave_one_out.found)


async def test_who_is_no_person_of_this_node_sees_nothing_of_it(app: Quart, node: FakeNode) -> None:
    node.leave_one_out.found = measured({"b": 0.5})
    stranger = app.test_client()
    page = await stranger.get("/", scope_base={"client": ELSEWHERE})
    assert page.status_code == 200
    assert "What each peer contributes (leave-one-out)" not in await page.get_data(as_text=True)
    answer = await stranger.get("/jobs/MNIST/gains", scope_base={"client": ELSEWHERE})
    assert answer.status_code in (401, 403)
