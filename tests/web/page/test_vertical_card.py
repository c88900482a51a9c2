"""The card of a job whose nodes hold different columns: who holds what, the stage, the figures, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.rounds.view import NAMES_FOR_PEERS, HolderView, JobView, VerticalView
from flnet.text import text
from flnet.web.page.vertical_card import HOLDERS_SHOWN, NAMES_SHOWN, VerticalCard, vertical_card
from flnet.web.translation import Translate, translator
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load

english, spanish = translator("en"), translator("es")
BANK = {"peer": "bank", "columns": 3, "names": ["age", "income", "debt"], "has_label": False, "rows": 800}
INSURER = {"peer": "insurer", "columns": 2, "names": [], "has_label": True, "rows": 8500}
# What only jobs have whose nodes hold the same columns.
ELSEWHERE = (
    "Aggregation rule",
    "Change the aggregation rule",
    "Keep training until ...",
    "Epochs (e)",
    "Was model exchanged?",
    "Fed. Avg. done?",
    "Pre FedAvg. Accuracy",
    "drift 0.05",
    "Do a training round",
)


def view(**fields: Any) -> dict[str, Any]:
    told = {
        "holders": [BANK, INSURER],
        "common": 683,
        "epochs": 4,
        "stage": "",
        "step": 0,
        "steps": 0,
        "loss": 0.5,
    }
    return {**told, "accuracy": 0.75, "auc": 0.8125, "sent": 217_000, "received": 255_000, **fields}


def job(vertical: dict[str, Any] | None, **fields: Any) -> JobView:
    return JobView.claimed({"trainer_id": "T", "phase": "IDLE", "vertical": vertical, **fields})


def card(t: Translate = english, peers: dict[str, JobView] | None = None, **fields: Any) -> VerticalCard:
    made = vertical_card("insurer", job(view(**fields)), peers or {}, [], t)
    assert made is not None
    return made


@pytest.fixture
def claims(node: FakeNode) -> Any:
    """The job of a label holder, the only one of its node."""
    shown = node.jobs["MNIST"]
    node.jobs = {"MNIST": shown}
    node.me = node.me.model_copy(update={"id": "insurer"})
    shown.round, shown.more = 3, {"vertical": VerticalView.model_validate(view())}
    return shown


def test_other_jobs_have_no_such_part() -> None:
    assert vertical_card("insurer", job(None), {}, [], english) is None


def test_who_holds_what_is_told_with_the_label_holder_first() -> None:
    rows = card(peers={"bank": job(view(), phase="TRAINING")}).holders
    assert [(row.peer, row.is_me, row.role, row.columns, row.names, row.rows, row.phase) for row in rows] == [
        ("insurer", True, "label and features", "2", "not shared", "8,500", "IDLE"),
        ("bank", False, "features", "3", "age, income, debt", "800", "TRAINING"),
    ]
    assert card().holders[1].phase == ""  # it does not answer
    assert [row.role for row in card(spanish).holders] == ["etiqueta y características", "características"]


def test_a_holder_of_the_label_alone_has_no_columns() -> None:
    label = {**INSURER, "columns": 0}
    row = card(holders=[BANK, label]).holders[0]
    assert (row.role, row.columns, row.names) == ("label", "0", "—")


def test_the_method_is_told_where_it_is_known() -> None:
    assert (card(method="encrypted-regression").method, card().method) == ("encrypted regression", "")


def test_how_holders_protect_what_they_send_is_told_in_the_words_of_the_reader() -> None:
    words = text("gradients have isotropic noise of scale {scale}", "10")
    told = job(view())
    told = told.model_copy(
        update={"vertical": VerticalView.model_validate(view(holders=[{**BANK, "defences": [words]}]))}
    )
    made = vertical_card("insurer", told, {}, [], spanish)
    assert made is not None
    assert made.holders[0].defences == (words,)


def test_a_peer_that_says_that_it_holds_columns_is_shown_before_and_beside_the_first_epoch() -> None:
    clinic = {"peer": "clinic", "columns": 7, "names": [], "has_label": False, "rows": 10}
    told = {"clinic": job(view(holders=[clinic, {**BANK, "rows": 1}], epochs=0))}
    before = card(peers=told, holders=[INSURER], epochs=0, common=None).holders
    assert [(row.peer, row.is_part) for row in before] == [("insurer", True), ("clinic", True)]
    later = card(peers=told).holders  # what the clinic says of the bank is not the bank's word
    assert [(row.peer, row.rows, row.is_part) for row in later] == [
        ("insurer", "8,500", True),
        ("bank", "800", True),
        ("clinic", "10", False),
    ]


def test_names_and_holders_beyond_what_fits_are_counted() -> None:
    many = [f"c{number}" for number in range(NAMES_SHOWN + 5)]
    row = card(holders=[{**BANK, "names": many, "columns": len(many)}]).holders[0]
    assert row.names.endswith(f"c{NAMES_SHOWN - 1} and 5 more")
    made = card(holders=[{**BANK, "peer": f"n{number}"} for number in range(HOLDERS_SHOWN + 2)])
    assert (len(made.holders), made.hidden) == (HOLDERS_SHOWN, 2)


def test_the_stage_is_marked_and_counted() -> None:
    made = card(stage="training", step=5, steps=9)
    assert [is_current for _, is_current in made.stages] == [False, False, True, False]
    assert made.progress == "5 of 9 batches"
    assert card(stage="aligning", step=12).progress == "lists of ids received: 12 parts"
    assert card(stage="asking").progress == card().progress == ""
    assert card().stages == ()


def test_the_gain_is_told_where_it_is_known() -> None:
    made = card(own={"accuracy": 0.7, "auc": 0.79}, gain={"accuracy": 0.05, "auc": 0.0225})
    assert made.own == "accuracy 70.00 %, AUC 0.7900"
    assert made.gain == "accuracy +5.00 percentage points, AUC +0.0225"
    assert card(gain={"auc": -0.01}).gain == "AUC -0.0100"
    assert (card().own, card().gain) == ("", "")


def test_the_charts_show_accuracy_auc_and_loss_beside_those_of_the_own_columns() -> None:
    after = {"loss": 0.5, "auc": 0.8125, "own_auc": 0.7, "own_loss": 0.6}
    history = [{"round": at, "post_fedavg_accuracy": 0.75, "metrics": {"after": after}} for at in range(2)]
    made = vertical_card("insurer", job(view()), {}, history, english)
    assert made is not None
    assert made.chart is not None
    assert made.loss_chart is not None
    assert [(line.name, line.last) for line in made.chart.lines] == [
        ("Accuracy", "75.00 %"),
        ("AUC", "81.25 %"),
        ("AUC of the own columns alone", "70.00 %"),
    ]
    assert [(line.name, line.last) for line in made.loss_chart.lines] == [
        ("Loss", "0.5"),
        ("Loss of the own columns alone", "0.6"),
    ]
    encrypted = vertical_card(
        "insurer", job(view()), {}, [{"round": 0, "metrics": {"after": {"loss": 1}}}], english
    )
    assert encrypted is not None
    assert (encrypted.chart, encrypted.loss_chart is None) == (None, False)


async def test_the_card_shows_what_a_vertical_job_has_and_nothing_of_other_jobs(
    client: Client, node: FakeNode, claims: Any
) -> None:
    usual = (await load(client)).text
    claims.more = {}
    other = (await load(client)).text
    assert [words for words in ELSEWHERE if words in usual] == []
    assert [words for words in ELSEWHERE if words in other] == [w for w in ELSEWHERE if "ggregation" not in w]
    for words in (
        "Train an epoch",
        "Who holds which columns of MNIST Dataset",
        "Epochs trained 4",
        "Common rows 683",
        "75.00 %",
        "0.8125",
        "217 kB sent, 255 kB received",
        "age, income, debt",
        "Train these epochs",
    ):
        assert words in usual, words


async def test_stage_warnings_and_abandoned_rounds_are_seen_in_both_languages(
    client: Client, node: FakeNode, claims: Any
) -> None:
    words = text("{names} and {count} more", "age<b>", 3)
    claims.phase, claims.rounds_left, claims.waiting_for = "TRAINING", 2, ["bank"]
    claims.metrics = {"after": {"loss": 0.25, "auc": 0.625, "own_auc": 0.5, "f1": 0.875}}
    claims.records = [
        {"round": 0, "initiator": "bank", "outcome": text("abandoned: {reason}", "x"), "contributors": []},
        {
            "round": 1,
            "initiator": "bank",
            "outcome": text("epoch {epoch} of the models has ended", 0),
            "post_fedavg_accuracy": 0.5,
            "metrics": {"after": {"loss": 0.25, "auc": 0.625}},
            "contributors": ["bank", "insurer"],
            "bytes": {"sent": 1000, "received": 2000},
            "seconds": {"align": 1.5, "train": 0.5},
        },
    ]
    told = view(stage="training", step=5, steps=9, warnings=[words])
    claims.more = {"vertical": VerticalView.model_validate(told)}
    page = await load(client)
    (bar,) = page.all("progress")
    assert (bar["value"], bar["max"]) == ("5", "9")
    assert [li for li in page.all("li") if li.get("aria-current") == "step"] != []
    for said in (
        "age<b> and 3 more",
        "waiting for bank",
        "2 more epochs to come",
        "abandoned: x",
        "2.00 s",
        "0.6250",
    ):
        assert said in page.text, said
    assert "updates" not in page.text
    assert "own_auc" not in page.text
    assert "Further figures on hold-out rows f1 0.875" in page.text
    in_spanish = (await load(client, accept_language="es")).text
    for said in ("faltan 2 épocas", "abandonada: x", "Quién tiene qué columnas", "5 de 9 lotes", "Filas comunes"):
        assert said in in_spanish, said


async def test_a_node_without_the_job_shows_nothing_of_averages_in_it(client: Client, node: FakeNode) -> None:
    told = {"trainer_id": "CLAIMS", "trainer_label": "Claims", "phase": "IDLE", "vertical": view()}
    told |= {"hyper": {"e": 1, "u": 0.005, "b": 64}, "fed_learn_done": "No", "model_was_exchanged": "No"}
    node.around = [{"id": "bank", "info": {"jobsInfo": [told]}, "error": None}]
    text = (await load(client)).text
    words = text[text.index("Jobs that only other nodes have") :]
    assert "Claims not trained yet Learning Rate: 0.005, Batch size: 64 — — — —" in words


async def test_the_view_of_data_says_that_more_is_sent(client: Client, node: FakeNode, claims: Any) -> None:
    assert "It sends more than model parameters" in (await load(client, "/view/data")).text
    claims.more = {}
    assert "It sends more than model parameters" not in (await load(client, "/view/data")).text


async def test_the_view_of_models_offers_no_download(client: Client, node: FakeNode, claims: Any) -> None:
    claims.digest = "a" * 64
    page = await load(client, "/view/models/MNIST")
    assert "Each keeps its own part of the model" in page.text
    assert [link for link in page.all("a") if "download" in link] == []
    claims.more = {}
    assert [link for link in (await load(client, "/view/models/MNIST")).all("a") if "download" in link] != []


def test_what_a_peer_claims_of_its_columns_survives_the_bounds() -> None:
    claimed = JobView.claimed({"vertical": view()}).vertical
    assert claimed is not None
    assert claimed.holders[0] == HolderView.model_validate(BANK)


def test_peers_are_told_some_names_of_columns_but_the_number_of_all() -> None:
    many = [f"c{number}" for number in range(NAMES_FOR_PEERS + 1)]
    told = JobView.claimed({"vertical": view(holders=[{**BANK, "names": many, "columns": len(many)}])})
    (holder,) = told.for_peers()["vertical"]["holders"]
    assert (holder["names"], holder["columns"]) == (many[:-1], len(many))


def test_peers_are_not_told_the_gain_and_the_warnings() -> None:
    told = JobView.claimed({"vertical": view(own={"auc": 0.5}, gain={"auc": 0.1}, warnings=["w"])}).for_peers()
    assert told["vertical"].keys() == view().keys() - {"sent", "received"}


def test_a_node_that_holds_the_key_of_an_encrypted_regression_has_no_columns_and_no_rows() -> None:
    notary = {"peer": "notary", "columns": 0, "names": [], "has_label": False, "holds_key": True, "rows": 0}
    made = card(holders=[BANK, INSURER, notary])
    assert [(row.peer, row.role) for row in made.holders] == [
        ("insurer", "label and features"),
        ("bank", "features"),
        ("notary", "key"),
    ]
    assert card(spanish, holders=[notary]).holders[0].role == "clave"
    row = made.holders[2]
    assert (row.columns, row.names, row.rows) == ("—", "—", "—")


@pytest.mark.parametrize(
    ("hides", "name", "other"), [(0, "Common rows", "Positions"), (1, "Positions of rows", "Common")]
)
async def test_rows_are_called_common_only_where_their_nodes_know_it(
    client: Client, claims: Any, hides: bool, name: str, other: str
) -> None:
    claims.more = {"vertical": VerticalView.model_validate(view(hides_matches=bool(hides)))}
    text = (await load(client)).text
    assert name in text
    assert other not in text
