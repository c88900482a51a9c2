from __future__ import annotations

import asyncio
import json
import re

import pytest

from flnet.fingerprints import key_text
from flnet.joining import JoinLink
from flnet.node.trust import Trust
from flnet.protocol.messages import Peer
from flnet.settings import Settings, load_settings
from flnet.text import text
from flnet.web.page.index import invitation_of
from tests.web.conftest import Client
from tests.web.fake_job import FakeJob
from tests.web.fake_node import FakeNode
from tests.web.page_reading import FORM, Page, load, post, press

EVIL = "<img src=x onerror=alert(1)>"

NAMES = (
    "Trainer",
    "Current Round",
    "Fed. Learning Params",
    "Fed. Avg. done?",
    "Pre FedAvg. Accuracy",
    "Post FedAvg Accuracy",
    "Was model exchanged?",
)


def cards(page: Page) -> list[str | None]:
    """The jobs that have a card, in their order."""
    return [card["data-key"] for card in page.all("article")]


async def test_the_page_shows_each_job_in_the_words_of_the_thesis(client: Client, node: FakeNode) -> None:
    await press(client, trainerId="MNIST")
    await node.finish_round("MNIST", before=0.9001, after=0.9321)
    page = await load(client)
    assert all(page.text.count(name) == 2 for name in NAMES)  # two jobs
    for shown in ("MNIST Dataset", "90.01 %", "93.21 %", "Learning Rate: 1e-05, Epochs: 2, Batch size: 64"):
        assert shown in page.text
    assert "Round 0 was averaged from 1 update." in page.text
    assert "sample data" in page.text
    assert "000000000000" in page.text
    assert "flnet node at 127.0.0.1:4000" in page.text


async def test_the_page_shows_the_same_job_on_the_peers_and_what_only_they_have(
    client: Client, node: FakeNode
) -> None:
    other = FakeNode("NODE_2", 4001)
    other.jobs["MNIST"].after = 0.7777
    other.jobs["CIFAR10"] = other.jobs.pop("MNIST_3_7")
    other.jobs["CIFAR10"].trainer_id, other.jobs["CIFAR10"].label = "CIFAR10", "CIFAR-10 Dataset"
    node.add_peer("NODE_2", "127.0.0.1:4001")
    node.add_peer("NODE_3", "127.0.0.1:4002", "dead", "did not answer in 2 s")
    node.around = [
        {"id": "NODE_2", "address": "127.0.0.1:4001", "info": other.info(), "error": None},
        {"id": "NODE_3", "address": "127.0.0.1:4002", "info": None, "error": "no answer"},
    ]
    page = await load(client)
    for shown in ("MNIST Dataset on the other nodes", "77.77 %", "only other nodes have", "CIFAR-10 Dataset"):
        assert shown in page.text
    assert "did not answer in 2 s" in page.text
    assert {"href": "http://127.0.0.1:4001/"} in page.all("a")
    assert all(table.get("role") == "table" for table in page.all("table"))
    assert len(page.all("caption")) == len(page.all("table")) == 3


async def test_pressing_the_button_starts_a_round_and_the_page_reports_it(client: Client, node: FakeNode) -> None:
    status, location = await press(client, trainerId="MNIST")
    assert (status, node.jobs["MNIST"].phase) == (303, "TRAINING")
    page = await load(client, location)
    assert "Round 0 of MNIST has been started." in page.text
    assert "25 % of the local training" in page.text
    assert "Round 0 of MNIST Dataset began" in page.text


@pytest.mark.parametrize(
    ("form", "fields", "words"),
    [
        ("trigger", {"trainerId": "NONE"}, "this node has no trainer 'NONE'"),
        ("trigger", {"trainerId": "<script>alert(1)</script>"}, "has no trainer '<script>alert(1)</script>'"),
        ("trigger", {"trainerId": ""}, "trainer"),
        ("trigger", {"trainerId": "x" * 500}, "trainerId: "),
        ("trigger", {"trainerId": "BUSY"}, "in round 3 already"),
        *(("trigger", {"rounds": rounds}, "rounds: ") for rounds in ("0", "many", "9" * 40)),
        ("params", {"e": "0"}, "e: "),
        ("params", {"e": "two"}, "e: "),
        ("params", {"u": "nan"}, "u: "),
        ("params", {"u": "1e999"}, "u: "),
        ("params", {"b": "9" * 6000}, "b: "),
        ("params", {"b": "1.5"}, "b: "),
        ("params", {"trainerId": "NONE", "e": "1"}, "this node has no trainer 'NONE'"),
        ("steer", {"do": "burn"}, "do: expected stop, pause or resume"),
        ("steer", {}, "do: expected stop, pause or resume"),
        ("steer", {"do": "stop", "trainerId": "NONE"}, "this node has no trainer 'NONE'"),
    ],
)
async def test_what_goes_wrong_is_told_on_the_page_in_words(
    client: Client, node: FakeNode, form: str, fields: dict[str, str], words: str
) -> None:
    node.jobs["BUSY"] = FakeJob("BUSY", "Busy", node.jobs["MNIST"].hyper, phase="TRAINING", round=3)
    before = node.jobs["MNIST"].hyper
    status, location = await post(client, f"/training/{form}/form", **{"trainerId": "MNIST", **fields})
    assert (status, node.jobs["MNIST"].hyper) == (303, before)
    page = await load(client, location)
    assert words in page.text
    assert page.alerts()
    assert len(page.all("script")) == 1
    assert page.inline == ""


@pytest.mark.parametrize("body", [b"\xff\xfe", b"&" * 500, b"a=1&" * 100, b"trainerId=%00", b""])
async def test_a_broken_form_is_told_in_words_too(client: Client, body: bytes) -> None:
    answer = await client.post("/training/trigger/form", data=body, headers=FORM)
    assert answer.status_code == 303
    assert (await load(client, answer.headers["Location"])).alerts()


async def test_the_page_shows_the_further_figures_of_a_trainer(client: Client, node: FakeNode) -> None:
    assert "Further figures" not in (await load(client)).text
    node.jobs["MNIST"].metrics = {"before": {"f1_macro": 0.25}, "after": {"<b>auc</b>": 0.71234, "rmse": 12.5}}
    page = await load(client)
    assert "Further figures, after averaging <b>auc</b> 0.7123 rmse 12.5" in page.text
    assert page.all("b") == []  # what the trainer calls its figures is text
    named = [shown["aria-labelledby"] for shown in page.all("dl") if "aria-labelledby" in shown]
    assert [p.get("id") for p in page.all("p") if p.get("class") == "figures-name"] == named


async def test_the_form_changes_hyper_parameters(client: Client, node: FakeNode) -> None:
    for fields in ({"e": "3", "u": "0.5", "b": "16"}, {"e": "4"}):
        _, location = await post(client, "/training/params/form", **{"trainerId": "MNIST", **fields})
        page = await load(client, location)
        assert "The hyper-parameters of MNIST Dataset are saved." in page.text
        assert not page.alerts()
    assert (node.jobs["MNIST"].hyper.e, node.jobs["MNIST"].hyper.u, node.jobs["MNIST"].hyper.b) == (4, 0.5, 16)


async def test_the_form_says_that_other_nodes_will_not_train_by_what_it_saved(
    client: Client, node: FakeNode
) -> None:
    node.jobs["MNIST"].more = {"asks_too_much": "expected at most 4 epochs, got 5"}
    _, location = await post(client, "/training/params/form", trainerId="MNIST", e="5")
    words = "are saved, but nodes with the limits of this node do not train by them."
    assert words in (await load(client, location)).text
    assert node.jobs["MNIST"].hyper.e == 5


async def test_the_form_holds_the_values_that_are_in_force(client: Client, node: FakeNode) -> None:
    fields = [(field["name"], field.get("value")) for field in (await load(client)).all("input")]
    first = dict(reversed(fields))  # that of the first job
    assert (first["e"], first["u"], first["b"]) == ("2", "1e-05", "64")


async def test_the_hyper_parameters_of_a_peers_round_and_those_of_this_node_are_told_apart(
    client: Client, node: FakeNode
) -> None:
    words = "Learning Rate: 0.25, Epochs: 5, Batch size: 16"
    assert "In rounds that start here" not in (await load(client)).text
    node.jobs["MNIST"].more = {"round_hyper": {"e": 5, "u": 0.25, "b": 16}}
    shown = await (await client.get("/")).get_data(as_text=True)
    assert f"<dt>Fed. Learning Params</dt><dd>{words}</dd>" in shown
    mine = "Learning Rate: 1e-05, Epochs: 2, Batch size: 64"
    assert f"<dt>In rounds that start here</dt><dd>{mine}</dd>" in shown
    assert 'name="e" value="2"' in shown  # the form changes those of this node


async def test_several_rounds_can_be_asked_for(client: Client) -> None:
    _, location = await press(client, trainerId="MNIST", rounds="3")
    assert "Round 0 of MNIST has been started." in (await load(client, location)).text


async def test_a_series_is_ended_and_a_job_paused_and_resumed(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].rounds_left = 4
    assert "4 more rounds to come" in (await load(client)).text
    for order, words, paused in (
        ("stop", "The series stops after this round.", False),
        ("pause", "This node has stopped training, and sits rounds out until it is resumed.", True),
        ("resume", "This node takes part in rounds again.", False),
    ):
        _, location = await post(client, "/training/steer/form", trainerId="MNIST", do=order)
        page = await load(client, location)
        assert words in page.text
        assert (node.jobs["MNIST"].rounds_left, node.jobs["MNIST"].paused) == (0, paused)
        offered = [button.get("value") for button in page.all("button") if button.get("name") == "do"]
        assert offered[:2] == ["stop", "resume" if paused else "pause"]


async def test_the_feed_can_be_had_as_lines_of_json(client: Client, node: FakeNode) -> None:
    for number in range(3):
        node.feed.publish("measured", f"line\n{number}", "MNIST", accuracy=float("nan"))
    answer = await client.get("/events.jsonl")
    assert answer.mimetype == "application/x-ndjson"
    assert "attachment" in answer.headers["Content-Disposition"]
    lines = [json.loads(line) for line in (await answer.get_data(as_text=True)).splitlines()]
    assert [(line["id"], line["text"], line["trainer"]) for line in lines] == [
        (number, f"line\n{number - 1}", "MNIST") for number in (1, 2, 3)
    ]
    assert lines[0]["data"] == {"accuracy": None}


async def test_the_rounds_are_drawn_and_listed_in_numbers(client: Client, node: FakeNode) -> None:
    assert (await load(client)).all("figure") == []
    for before, after in ((0.25, 0.5), (0.75, 1.0)):
        await press(client, trainerId="MNIST")
        await node.finish_round("MNIST", before, after)
    other = FakeNode("NODE_2", 4001)
    other.jobs["MNIST"].round, other.jobs["MNIST"].after, other.jobs["MNIST"].records = 1, 0.8, [{"round": 1}]
    node.around = [{"id": "NODE_2", "address": "", "info": other.info(), "error": None}]
    await asyncio.sleep(0)
    page = await load(client)
    assert "d" in page.all("path")[0]
    assert "NODE_1, after 100.00 %" in page.text
    assert "The last rounds of MNIST Dataset, the newest first" in page.text
    spanish = await load(client, Accept_Language="es")
    assert "Las últimas rondas de MNIST Dataset, la más reciente primero" in spanish.text


async def test_the_source_of_the_data_is_in_the_language_of_the_page(client: Client, node: FakeNode) -> None:
    job = node.jobs["MNIST"]
    job.source, job.sample = text("the digits bundled with scikit-learn ({count} of them for testing)", 360), True
    spanish = "los dígitos incluidos en scikit-learn (360 de ellos para evaluar); 1,259 entrenamiento"
    assert (await load(client, Accept_Language="es")).text.count(
        spanish
    ) == 2  # among the figures, and as sample data
    job.source = "a stranger's words"
    assert '<span lang="en">a stranger&#39;s words</span>;' in await served(client)


async def served(client: Client) -> str:
    """The page in Spanish, as HTML."""
    return str(await (await client.get("/", headers={"Accept-Language": "es"})).get_data(as_text=True))


async def test_progress_and_updates_are_told_while_a_round_is_open(client: Client, node: FakeNode) -> None:
    job = node.jobs["MNIST"]
    job.phase, job.waiting_for = "GATHERING", ["node-c"]
    page = await load(client)
    assert "0 of 1 updates, waiting for node-c" in page.text
    assert "data-busy" in page.all("main")[0]
    assert "0 de 1 actualizaciones, esperando a node-c" in (await load(client, Accept_Language="es")).text


async def test_a_link_cannot_put_words_on_the_page(client: Client) -> None:
    page = await load(client, "/?notice=Your+node+is+broken,+call+me&error=call+me")
    assert "call me" not in page.text


async def test_names_from_peers_are_text_and_never_markup(client: Client, node: FakeNode) -> None:
    evil = "<img src=x onerror=alert(1)>"
    other = FakeNode("x")
    job = other.jobs["MNIST"]
    job.label = job.trainer_id = job.source = job.outcome = evil
    node.add_peer(evil, f'"><script>alert(2)</script>{evil}', "alive", evil)
    node.around = [{"id": evil, "address": evil, "info": other.info(), "error": evil}]
    node.jobs["MNIST"].waiting_for = [evil]
    node.jobs["MNIST"].error = evil
    node.feed.publish("peer_seen", evil)
    page = await load(client)
    assert page.text.count(evil) >= 6
    assert [image["src"] for image in page.all("img")] == [page.all("img")[0]["src"]]
    assert len(page.all("script")) == 1
    assert page.inline == ""
    assert not any(name.startswith("on") or name == "style" for _, attrs in page.tags for name in attrs)


async def test_the_page_needs_nothing_from_elsewhere_and_holds_no_script_or_style(client: Client) -> None:
    page = await load(client)
    for tag, attrs in page.tags:
        assert tag not in ("style", "iframe")
        for name in ("src", "href", "action"):
            assert re.match(r"/|#", attrs.get(name) or "/")
    assert page.inline == ""
    css = await (await client.get("/web/style.css")).get_data(as_text=True)
    assert "url(" not in css
    assert "@import" not in css


async def test_the_page_refreshes_itself_only_while_something_is_going_on(client: Client, node: FakeNode) -> None:
    assert not any("http-equiv" in meta for meta in (await load(client)).all("meta"))
    await press(client, trainerId="MNIST")
    assert any(meta.get("content") == "5; url=/" for meta in (await load(client)).all("meta"))
    await node.finish_round("MNIST", 0.5, 0.5)
    assert not any("http-equiv" in meta for meta in (await load(client)).all("meta"))


async def test_jobs_without_data_are_one_line_that_says_what_is_missing(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].phase = "NO_DATA"
    node.jobs["MNIST"].error = "MNIST has no data; put it into the datasets folder"
    page = await load(client)
    assert cards(page) == ["MNIST_3_7"]
    assert "1 trainer has no data: MNIST Dataset" in page.text
    assert "put it into the datasets folder Add data" in page.text
    assert "1 entrenador no tiene datos: MNIST Dataset" in (await load(client, accept_language="es")).text


async def test_a_job_that_was_trained_keeps_its_card_when_its_data_are_gone(
    client: Client, node: FakeNode
) -> None:
    await press(client, trainerId="MNIST")
    await node.finish_round("MNIST", 0.5, 0.5)
    node.jobs["MNIST"].phase = "NO_DATA"
    node.jobs["MNIST"].error = "MNIST has no data; put it into the datasets folder"
    page = await load(client)
    assert cards(page) == ["MNIST_3_7", "MNIST"]
    assert "put it into the datasets folder" in page.text


async def test_jobs_that_can_train_come_first(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].phase = "LOADING"
    assert cards(await load(client)) == ["MNIST_3_7", "MNIST"]


async def test_a_new_node_shows_three_ways_to_go_on_until_it_has_trained_or_met_another(
    client: Client, node: FakeNode
) -> None:
    greeting = "This node is new."
    page = await load(client)
    assert greeting in page.text and "Train MNIST Dataset" in page.text and "--join LINK" in page.text
    node.add_peer("b", "127.0.0.1:4001")
    assert greeting not in (await load(client)).text
    node.known.clear()
    await press(client, trainerId="MNIST")
    await node.finish_round("MNIST", 0.5, 0.5)
    assert greeting not in (await load(client)).text


async def test_a_new_node_without_any_data_says_how_to_get_some(client: Client, node: FakeNode) -> None:
    for job in node.jobs.values():
        job.phase = "NO_DATA"
    page = await load(client)
    assert "A node that offers the trainer MNIST has digits to try it with." in page.text
    assert page.buttons() == []


async def test_a_node_that_is_not_ready_says_why(client: Client, node: FakeNode) -> None:
    node.reasons = ["no bootstrap peer has answered yet: a:1", "MNIST is still loading", "MNIST_3_7: no data"]
    page = await load(client)
    assert "Not ready yet: no bootstrap peer has answered yet: a:1" in page.text
    assert "still loading" not in page.text  # its card says so


async def test_a_node_without_a_name_is_shown_by_its_machine(client: Client, node: FakeNode) -> None:
    node.machine = "ward-7"
    node.add_peer("b" * 36, "127.0.0.1:4001")
    node.around = [{"id": "b" * 36, "address": "127.0.0.1:4001", "info": {"machine": "ward-8"}, "error": None}]
    page = await load(client)
    assert "ward-7 · flnet" in page.text and "ward-7 flnet node at" in page.text
    assert f"ward-8 {'b' * 36} 127.0.0.1:4001" in page.text


async def test_a_node_without_jobs_and_peers_has_a_page_too(client: Client, node: FakeNode) -> None:
    node.jobs.clear()
    page = await load(client)
    assert "This node has no trainer." in page.text
    assert "No other node is known yet." in page.text


async def test_the_chart_has_the_peers_lines_and_each_line_a_box_that_hides_it(
    client: Client, node: FakeNode
) -> None:
    await press(client, trainerId="MNIST")
    await node.finish_round("MNIST", before=0.5, after=0.75)
    node.rounds_around[EVIL, "MNIST"] = ((0, 0.25), (1, 0.625))
    page = await load(client)
    assert f"{EVIL} 62.50 %" in page.text
    boxes = [one for one in page.all("input") if one.get("type") == "checkbox"]
    assert [(one["value"], "checked" in one) for one in boxes] == [(str(number), True) for number in range(3)]


@pytest.mark.parametrize("path", ["/web/index.html", "/web/..%2f__init__.py", "/web/", "/static/style.css"])
async def test_only_the_pages_own_files_are_served(client: Client, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_the_files_have_their_types(client: Client) -> None:
    css, icon = await client.get("/web/style.css"), await client.get("/web/icon.svg")
    assert (css.mimetype, icon.mimetype) == ("text/css", "image/svg+xml")


@pytest.mark.parametrize(
    "mode",
    [
        {},
        {"mesh_key": "k" * 20},
        {"mesh_mode": "pinned"},
    ],
)
def test_a_node_that_others_reach_shows_how_they_join(node: FakeNode, mode: dict[str, str]) -> None:
    settings = Settings.model_validate({"listen_address": "0.0.0.0", "mesh_name": "ward", **mode})
    if settings.mode == "pinned":
        node.trust = Trust(key_text(bytes(32)))
    shown = invitation_of(node, settings, "192.168.1.11:4000")
    assert shown is not None and shown.mode == settings.mode
    link = JoinLink.read(shown.link)
    assert (link.address, link.mesh, link.mode) == ("192.168.1.11:4000", "ward", settings.mode)
    assert bool(link.fingerprint) == (settings.mode == "pinned")
    assert "k" * 20 not in shown.link
    assert load_settings({"join": shown.link, "listen_address": "0.0.0.0", **mode}, {}).mesh_name == "ward"


def test_a_node_that_nobody_else_reaches_shows_no_link(node: FakeNode) -> None:
    assert invitation_of(node, Settings(), "127.0.0.1:4000") is None


def test_a_node_behind_a_relay_shows_a_link_to_its_address_there_as_soon_as_it_has_one(node: FakeNode) -> None:
    settings = Settings(relay="10.0.0.1:9200")
    assert invitation_of(node, settings, "127.0.0.1:4000") is None
    node.me = Peer(id="b", ip="10.0.0.1", port=9202)
    shown = invitation_of(node, settings, "127.0.0.1:4000")
    assert shown is not None and JoinLink.read(shown.link).address == "10.0.0.1:9202"


async def test_the_page_says_how_a_node_becomes_reachable(client: Client, node: FakeNode) -> None:
    assert "Let another machine join This node listens on its own machine only." in (await load(client)).text
