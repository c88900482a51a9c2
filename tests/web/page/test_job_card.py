from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.rounds.goals import Goal
from flnet.rounds.view import (
    DataView,
    DiffersView,
    GoalView,
    JobView,
    MeshFiguresView,
    MetricsView,
    PeerVersionView,
)
from flnet.text import text
from flnet.web.charts import MAX_LINES
from flnet.web.formatting import NONE
from flnet.web.page.index import until_of
from flnet.web.page.job_card import (
    FIGURES_SHOWN,
    ROWS_SHOWN,
    Card,
    PeerJob,
    VersionRow,
    alone_in,
    card_of,
    classes_words,
    data_words,
    exchange_words,
    goal_words,
    mesh_words,
    next_start,
    same_job,
    until_words,
    version_row,
)
from flnet.web.translation import Translate, translator
from tests.web.conftest import Client
from tests.web.fake_job import NO_SCHEDULE
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load, post

DIGEST, OTHER = "a" * 64, "b" * 64
english, spanish = translator("en"), translator("es")


def job(**fields: Any) -> JobView:
    told = {"trainer_id": "T", "trainer_label": "T", "phase": "IDLE", "current_round": 3, "fed_learn_done": "Yes"}
    return JobView.claimed({**told, "digest": DIGEST, "post_fedavg_accuracy": 0.5, **fields})


def record(number: int, **fields: Any) -> dict[str, Any]:
    figures = {"round": number, "pre_fedavg_accuracy": 0.25, "post_fedavg_accuracy": 0.5}
    told = {"contributors": ["me", "b"], "seconds": {"train": 1.5, "average": 0.004}}
    return {**figures, **told, "outcome": f"outcome {number}", **fields}


def card(*history: dict[str, Any], t: Translate = english, peer_rounds: Any = (), **fields: Any) -> Card:
    return card_of("me", job(**fields), [], history, dict(peer_rounds), t)


def test_who_was_not_part_of_a_round_alone_is_told_from_this_nodes_side_if_that_is_known() -> None:
    alone = {"b": "the nodes do not agree on columns: x, y at b; x at me", "c": "no answer in time"}
    differs = [DiffersView(peer="b", words="columns missing here: y")]
    assert alone_in(record(0, alone=alone), differs) == (
        ("b", "columns missing here: y"),
        ("c", "no answer in time"),
    )
    assert alone_in(record(0), differs) == alone_in({}, []) == ()


async def test_a_card_says_in_red_that_other_nodes_will_not_train_by_what_is_set(
    client: Client, node: FakeNode
) -> None:
    before = [p for p in (await load(client)).all("p") if p.get("class") == "notice bad"]
    node.jobs["MNIST"].more = {"asks_too_much": "expected at most 4 epochs, got 5"}
    page = await load(client)
    assert len([p for p in page.all("p") if p.get("class") == "notice bad"]) == len(before) + 1
    words = "Nodes with the limits of this node do not train in rounds that start here: expected at most 4 epochs"
    assert words in page.text


async def test_a_card_says_in_red_who_cannot_train_with_this_node_and_that_it_was_alone(
    client: Client, node: FakeNode
) -> None:
    before = [p for p in (await load(client)).all("p") if p.get("class") == "notice bad"]
    shown = node.jobs["MNIST"]
    words = text("{key} missing here: {names}", "columns", "c10")
    shown.more = {"differs": [DiffersView(peer="b<i>", words=words)]}
    shown.records = [record(0, alone={"b<i>": "the nodes do not agree", "c": "no answer in time"})]
    page = await load(client)
    red = [p for p in page.all("p") if p.get("class") == "notice bad"]
    assert len(red) == len(before) + 2
    assert (
        "In the last round this node was alone: no update of another node is in its average, or no other node has it."
        in page.text
    )
    assert page.text.count("b<i>: columns missing here: c10") == 2
    assert "no answer in time" in page.text
    assert "columns que faltan aquí: c10" in (await load(client, accept_language="es")).text


async def test_a_card_shows_the_distance_of_neighbours_where_there_is_one(client: Client, node: FakeNode) -> None:
    assert "Distance of neighbours" not in (await load(client)).text
    node.jobs["MNIST"].more = {"spread": 0.0512}
    assert "Distance of neighbours 5.12 %" in (await load(client)).text
    assert "Distancia de los vecinos 5.12 %" in (await load(client, accept_language="es")).text


async def test_rounds_may_be_asked_for_while_data_are_loading(client: Client, node: FakeNode) -> None:
    before = len((await load(client)).buttons())
    node.jobs["MNIST"].phase = "LOADING"
    assert len((await load(client)).buttons()) == before


def test_a_card_shows_the_rounds_newest_first_and_what_the_last_one_took() -> None:
    shown = card(*(record(number) for number in range(40)), t=spanish)
    assert [row.number for row in shown.rows] == [str(number) for number in range(39, 39 - ROWS_SHOWN, -1)]
    assert shown.rows[0].seconds == "Entrenamiento local 1.50 s, Promediando 0.00 s"
    assert shown.seconds == (("Entrenamiento local", "1.50 s"), ("Promediando", "0.00 s"))
    assert shown.outcome == "outcome 39"
    assert shown.chart is not None
    assert [line.name for line in shown.chart.lines] == ["me, después", "me, antes"]
    assert shown.spark.startswith("M")


def test_a_card_tells_what_the_last_round_moved() -> None:
    assert card(record(0, bytes={"sent": 1_200_000, "received": 431_000})).moved == "1.2 MB sent, 431 kB received"
    moved = record(0, bytes={"sent": 1_200_000, "received": 431_000}, messages=27)
    assert card(moved).moved == "1.2 MB sent, 431 kB received, 27 messages"
    assert card(record(0, bytes={"sent": 0, "received": 0})).moved == ""


def test_a_card_tells_how_updates_travel_where_that_is_no_full_mesh() -> None:
    assert card().topology == ""
    assert card(topology="mesh").topology == ""
    assert card(topology="segments").topology == "in segments, each averaged by one node"
    words = "in segments, each averaged by 3 nodes, of which most must agree"
    assert card(topology="segments:3").topology == words


def test_a_card_before_the_first_round_has_no_chart() -> None:
    shown = card(current_round=-1)
    assert (shown.chart, shown.spark, shown.rows, shown.seconds, shown.outcome) == (None, "", (), (), "")


def test_the_peers_accuracies_are_drawn_beside_the_own_ones() -> None:
    other = PeerJob("b", job())
    around = {"b": ((2, 0.5), (3, 0.75)), "c": (), **{f"n{place}": ((3, 0.5),) for place in range(20)}}
    elsewhere = [other, PeerJob("b", job(trainer_id="U", trainer_label="U"))]
    shown = card_of("me", job(), elsewhere, [record(3)], around, english)
    assert shown.others == (other,)
    assert shown.chart is not None
    assert [(line.name, line.last) for line in shown.chart.lines][2] == ("b", "75.00 %")
    assert len(shown.chart.lines[2].dots) == 2
    assert len(shown.chart.lines) == MAX_LINES - 1  # c has no point


def test_what_rounds_took_and_moved_are_further_charts() -> None:
    history = [
        record(n, seconds={"train": n + 1.5, "wait": 0.25, "walk": 9}, bytes={"sent": 0, "received": 2_000})
        for n in range(3)
    ]
    (seconds, took), (bytes_, moved) = card(*history, t=spanish).further
    assert (seconds, bytes_) == ("Segundos por ronda", "Bytes por ronda")
    assert [(line.name, line.last) for line in took.lines] == [
        ("Entrenamiento local", "3.5 s"),
        ("Esperando actualizaciones", "0.25 s"),
    ]
    assert [(line.name, line.last) for line in moved.lines] == [("enviado", "0 bytes"), ("recibido", "2.0 kB")]
    assert card(record(0, seconds={})).further == ()


@pytest.mark.parametrize(
    ("mine", "others", "words"),
    [
        ({"exchanged_with": "b"}, [{}], "taken from b, whose model was better here"),
        ({}, [{}], "all nodes hold the same model"),
        ({}, [{"digest": OTHER}], "no other model was better here by the threshold"),
        ({"spread": 0.25}, [{"digest": OTHER}], "each node goes on from its own model"),
        ({}, [{"digest": OTHER, "current_round": 2}], ""),
        ({}, [{"fed_learn_done": "No"}], ""),
        ({"phase": "TRAINING"}, [{}], ""),
        ({}, [], ""),
    ],
)
def test_why_a_model_was_exchanged_or_not(mine: dict[str, Any], others: list[dict[str, Any]], words: str) -> None:
    assert exchange_words(job(**mine), [PeerJob("b", job(**other)) for other in others], english) == words


def test_jobs_are_the_same_by_id_or_where_an_old_node_tells_none_by_label() -> None:
    assert same_job(job(trainer_label="here"), job(trainer_label="there"))
    assert same_job(job(), job(trainer_id=""))
    assert not same_job(job(), job(trainer_id="U"))


async def test_figures_of_an_older_round_say_so_beside_the_number_of_a_new_one(
    client: Client, node: FakeNode
) -> None:
    first = node.jobs["MNIST"]
    first.before, first.after, first.round, first.phase = 0.25, 0.5, 4, "TRAINING"
    first.metrics = {"before": {}, "after": {"auc": 0.75}}
    first.records = [record(3)]
    first.more = {"figures_round": 3}
    page = await load(client)
    assert "25.00 % of round 3" in page.text
    assert "50.00 % +25.00, of round 3" in page.text
    assert "Further figures, after averaging (of round 3)" in page.text
    assert "Round 3: outcome 3" in page.text
    first.more, first.records = {"figures_round": 4}, [record(4)]
    page = await load(client)
    assert "of round" not in page.text and "Round 4: outcome" not in page.text
    assert "outcome 4" in page.text


async def test_while_models_are_compared_no_further_updates_are_waited_for(client: Client, node: FakeNode) -> None:
    first = node.jobs["MNIST"]
    first.phase, first.waiting_for, first.more = "EXCHANGING", ["b", "c"], {"received": ["a", "b", "c", "me"]}
    assert "4 of 4 updates, waiting for the models of b, c" in (await load(client)).text


async def test_what_peers_wait_for_and_how_far_a_training_is_stand_on_the_page(
    client: Client, node: FakeNode
) -> None:
    assert "not trained yet" in (await load(client)).text
    first = node.jobs["MNIST"]
    first.waiting_for, first.phase, first.progress = ["b", "c"], "GATHERING", {"done": 1, "total": 3}
    first.more = {"received": ["a"]}
    page = await load(client)
    for words in ("Waiting for updates", "1 of 3 updates, waiting for b, c", "33 % of the local training"):
        assert words in page.text
    first.phase, first.waiting_for = "IDLE", []
    assert "updates, waiting" not in (await load(client)).text


def test_many_names_are_cut() -> None:
    assert card(waiting_for=[f"n{n}" for n in range(25)]).waiting_for.endswith("n19 and 5 more")


def test_figures_are_those_after_averaging_or_else_before() -> None:
    before = {"f1_macro": 0.25, "accuracy": 0.5}
    shown = card(metrics={"before": before})
    assert (shown.figures, shown.figures_after) == ((("f1_macro", "0.25"),), False)
    shown = card(metrics={"before": before, "after": {"f1_macro": 0.1 + 0.2}})
    assert (shown.figures, shown.figures_after) == ((("f1_macro", "0.3"),), True)
    own = job().model_copy(update={"metrics": MetricsView(after={"a": float("nan"), "b": float("inf")})})
    assert card_of("me", own, [], [], {}, english).figures == ()
    assert len(card(metrics={"after": {f"x{i}": i for i in range(99)}}).figures) == FIGURES_SHOWN


# Data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            DataView(source="digits", rows={"train": 1259, "test": 360, "other": 1}, classes=["3", "7"]),
            "1,259 entrenamiento, 360 prueba, 1 other filas; 2 clases",
        ),
        (DataView(source="a file"), ""),
        (DataView(), ""),
    ],
)
def test_data_is_described_as_far_as_it_is_known(data: DataView, words: str) -> None:
    assert data_words(data, spanish) == words


def test_rows_of_each_class_are_listed_up_to_a_dozen() -> None:
    counts = {"train": [1200, 3], "test": [4]}
    assert classes_words(["NORMAL", "<i>ILL</i>"], counts, english) == (
        ("train", "NORMAL: 1,200, <i>ILL</i>: 3"),
        ("test", "NORMAL: 4"),
    )
    ((_, words),) = classes_words([str(n) for n in range(20)], {"train": list(range(20))}, english)
    assert words.endswith("11: 11 and 8 more classes")
    ((_, words),) = classes_words([str(n) for n in range(13)], {"train": list(range(13))}, english)
    assert words.endswith("11: 11 and 1 more class")


# Versions, where there are no common rounds


ROW = PeerVersionView(peer="b", version=7, merged=6, into=9, at=0.0, newer=True, reachable=False)


def test_a_row_says_which_version_was_merged_and_when() -> None:
    note = "still to be merged, does not answer"
    words = VersionRow("b", "v7", "v6", "in version v9, 1970-01-01 00:00:00", note)
    assert version_row(ROW, english, local=time.gmtime) == words
    assert version_row(ROW.model_copy(update={"at": None}), spanish).when == "en la versión v9"
    nothing = PeerVersionView(peer="c", version=None, merged=None, into=None, at=None, newer=False, reachable=True)
    assert version_row(nothing, english) == VersionRow("c", NONE, NONE, NONE, "")


# Goals and schedules


FIELDS = {"least": "0.95", "patience": "5", "delta": "0.001", "minutes": ""}
GOAL = GoalView.model_validate(
    {
        **{
            "until": "accuracy>=0.9, within 600.0",
            "by": "n0",
            "first_round": 0,
            "rounds": 30,
            "round": 4,
            "done": 3,
        },
        **{"state": "open", "accuracy": 0.8125, "nodes": 4, "best": 0.825, "stale": 1, "words": "x"},
    }
)
NEXT = {
    "when": "every 6h",
    "by_person": True,
    "next_seconds": 3600,
    "next_words": text("{time} after the last round", "6h"),
}


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
def test_every_choice_is_a_goal_that_is_said_in_both_languages(choice: str, minutes: str, goal: str) -> None:
    assert str(Goal.parse(until_of(FIELDS | {"goal": choice, "minutes": minutes}))) == goal
    assert until_words(goal, english) not in ("", goal, until_words(goal, spanish))


@given(st.dictionaries(st.sampled_from(["goal", *FIELDS]), st.text(max_size=60)))
def test_whatever_a_form_brings_is_left_to_the_node(fields: dict[str, str]) -> None:
    assert len(until_of(fields)) <= 200


def test_the_way_to_a_goal_in_words() -> None:
    assert goal_words(GOAL, english) == (
        "Until the mean accuracy of all nodes is 0.9 or 10 minutes are over; 3 of at most 30 rounds; "
        "mean accuracy 81.25 % of 4 nodes; the best so far 82.50 %; asked for at n0"
    )
    reached = goal_words(GOAL.model_copy(update={"state": "reached"}), spanish)
    assert reached.startswith("Objetivo alcanzado en la ronda 4; hasta que la exactitud media de todos")
    assert until_words("<b>bliss</b>", english) == "<b>bliss</b>"


async def test_the_card_asks_for_a_goal_and_shows_how_far_it_is(client: Client, node: FakeNode) -> None:
    page = await load(client)
    choices = [choice["value"] for choice in page.all("option")]
    assert choices[choices.index("mean") :][:6] == ["mean", "every", "own", "gain", "mlfedavg", "cumulative"]
    fields = {**FIELDS, "goal": "every", "rounds": "30"}
    _, location = await post(client, "/training/trigger/form", trainerId="MNIST", **fields)
    assert "Round 0 of MNIST has been started." in (await load(client, location)).text
    node.jobs["MNIST"].goal = GOAL.model_dump()
    shown = await load(client)
    assert "10 minutes are over; 3 of at most 30 rounds" in shown.text
    assert "disabled" not in next(button for button in shown.all("button") if button.get("value") == "stop")


def test_the_next_start_is_told_in_the_nodes_own_time() -> None:
    now = time.mktime((2026, 1, 2, 21, 0, 0, 0, 0, -1))
    assert next_start(3600, now) == "2026-01-02 22:00"
    assert [next_start(seconds) for seconds in (None, 0, -5)] == ["", "", ""]


async def test_the_card_tells_when_and_why_the_next_round_starts(client: Client, node: FakeNode) -> None:
    assert "Next scheduled round" not in (await load(client)).text
    declines = text("outside of the hours {hours}", "22:00-06:00")
    node.jobs["MNIST"].schedule = {**NO_SCHEDULE, **NEXT, "unwilling": declines}
    page = await load(client)
    assert "Next scheduled round at 20" in page.text and "node's time: 6h after the last round" in page.text
    assert f"Takes no part in rounds of others now: {declines}" in page.text
    assert "Schedule : every 6h" in page.text.replace("Schedule:", "Schedule :")
    assert "Given by a person" in page.text
    translated = await load(client, Accept_Language="es")
    assert "hora de este nodo: 6h después de la última ronda" in translated.text
    assert "fuera de las horas 22:00-06:00" in translated.text


async def test_the_form_gives_a_schedule_and_takes_it_back(client: Client, node: FakeNode) -> None:
    path, who = "/training/schedule/form", {"trainerId": "MNIST"}
    _, location = await post(client, path, **who, when="every 6h,new 5", do="set")
    page = await load(client, location)
    assert "Rounds start automatically: every 6h, new 5" in page.text
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


async def test_the_card_tells_what_a_node_promises_and_what_that_covers(client: Client, node: FakeNode) -> None:
    assert "epsilon" not in (await load(client)).text
    words, covers = (
        "epsilon 1.3 of 3 spent, delta 1e-05, for the whole node",
        "Hides all rows of this node together",
    )
    told = {
        "level": "node",
        "epsilon": 3.0,
        "delta": 1e-5,
        "clip": 1.0,
        "budget": "main",
        "spent": 1.3,
        "updates": 4,
    }
    left = {"noise_multiplier": 5.0, "rounds_left": 9, "words": words, "covers": covers}
    node.jobs["MNIST"].more = {"privacy": {**told, **left}}
    shown = (await load(client)).text
    assert words in shown and covers in shown


@pytest.mark.parametrize(
    ("mode", "says"), [("open", "active stranger"), ("keyed", "who knows that key"), ("pinned", None)]
)
async def test_the_card_says_what_was_opened_and_what_to_know_of_it(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch, mode: str, says: str | None
) -> None:
    node.jobs["MNIST"].more = {"merging_rule": "agg1"}
    plain = (await load(client)).text
    assert "Secure sum" not in plain and "Change the aggregation rule" in plain
    info = node.info
    monkeypatch.setattr(node, "info", lambda: {**info(), "mode": mode})
    words = "only the sum of 2 updates was opened; 2 of 2 nodes are needed to open one (round 3)"
    sums = {"part_away": 0.25, "bits": 64, "round": 3, "members": 2, "threshold": 2, "contributors": 2}
    node.jobs["MNIST"].more = {"secure": {**sums, "words": words}, "merging_rule": "secure:0.25:64,agg0"}
    shown = (await load(client)).text
    assert words in shown
    assert "secure sum (up to 25 % of the nodes may vanish, 64 bits), plain average (agg0)" in shown
    assert "the sum minus one's own update is the update of the other" in shown.replace("&#39;", "'")
    assert [caution for caution in ("active stranger", "who knows that key") if caution in shown] == (
        [says] if says else []
    )
    assert "Change the aggregation rule" not in shown  # it can only be chosen when a node starts


MESH: dict[str, Any] = {
    **{"accuracy": 0.875, "basis": "counts", "examples": 1014, "nodes": 3, "figures": {"f1_macro": 0.81}},
    **{"worst": {"node": "b", "accuracy": 0.25}, "spread": 0.125, "jain": 0.9},
    "groups": {"small": {"accuracy": 0.5, "examples": 10, "nodes": 1}},
}


async def test_the_card_shows_what_all_nodes_reached_together(client: Client, node: FakeNode) -> None:
    assert "All nodes together" not in (await load(client)).text
    node.jobs["MNIST"].more = {"mesh": MESH}
    shown = " ".join((await load(client)).text.split())
    assert (
        "All nodes together 87.50 % counted on 1,014 test rows of 3 nodes; lowest 25.00 % on b Was model" in shown
    )
    further = (
        "f1_macro 0.81 standard deviation over the nodes 12.50 % Jain's index 0.9000 group small 50.00 % (10 rows)"
    )
    assert f"All nodes together {further}" in shown.replace("&#39;", "'")
    spanish_page = " ".join((await load(client, Accept_Language="es")).text.split())
    assert "Todos los nodos juntos 87.50 % contada en 1,014 filas de prueba de 3 nodos" in spanish_page
    assert "índice de Jain 0.9000 grupo small 50.00 % (10 filas)" in spanish_page


def test_the_words_say_by_what_the_figures_count_and_which_rows_decided() -> None:
    view = MeshFiguresView.model_validate({**MESH, "basis": "examples"})
    assert mesh_words(view, english).startswith("mean of 3 nodes, weighted by 1,014 test rows")
    plain = MeshFiguresView.model_validate({"accuracy": 0.5, "basis": "nodes", "examples": None, "nodes": 2})
    assert mesh_words(plain, english) == "plain mean of 2 nodes; not all say how many test rows they have"
    counted = GOAL.model_copy(update={"basis": "counts", "rows": "validation"})
    assert "accuracy 81.25 % on all rows of 4 nodes; decided on validation rows; the best" in goal_words(
        counted, english
    )
    mixed = GOAL.model_copy(update={"basis": "examples", "rows": "mixed"})
    words = goal_words(mixed, english)
    assert (
        "mean accuracy 81.25 % of 4 nodes, weighted by rows; decided on validation rows, and on test rows where"
        in words
    )


async def test_the_page_names_peers_with_another_common_test(client: Client, node: FakeNode) -> None:
    words = "NODE_2 has another common test (<b>222222222) than this node (111111111111)"

    async def shown(here: str, there: Any, **headers: str) -> str:
        other = FakeNode("NODE_2", 4001)
        for one, mark in ((node, here), (other, there)):
            one.jobs["MNIST"].more = {"data": {"source": "rows", "common_test": mark}}
        node.around = [{"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None}]
        return (await load(client, **headers)).text

    assert words in await shown("1" * 12, "<b>222222222")
    assert "tiene otra prueba común" in await shown("1" * 12, "2" * 12, accept_language="es")
    for here, there in (("1" * 12, "1" * 12), ("", "2" * 12), ("1" * 12, "")):
        assert "another common test" not in await shown(here, there)
