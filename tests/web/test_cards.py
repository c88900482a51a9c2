from __future__ import annotations

from typing import Any

import pytest

from flnet.web.cards import ROWS_SHOWN, card_of, exchange_words
from flnet.web.charts import MAX_LINES
from flnet.web.job_view import JobView, job_view
from flnet.web.words import english, translator

DIGEST, OTHER = "a" * 64, "b" * 64


def job(node: str = "me", **fields: Any) -> JobView:
    base = {"trainer_id": "T", "trainer_label": "T", "phase": "IDLE", "current_round": 3, "fed_learn_done": "Yes"}
    return job_view(node, {**base, "digest": DIGEST, "post_fedavg_accuracy": 0.5, **fields})


def record(number: int, **fields: Any) -> dict[str, Any]:
    base = {
        "round": number,
        "pre_fedavg_accuracy": 0.25,
        "post_fedavg_accuracy": 0.5,
        "outcome": f"outcome {number}",
    }
    return {**base, "contributors": ["me", "b"], "seconds": {"train": 1.5, "average": 0.004}, **fields}


def test_a_card_shows_the_rounds_newest_first_and_what_the_last_one_took() -> None:
    card = card_of(job(), [], [record(number) for number in range(40)], {}, translator("es"))
    assert [row.number for row in card.rows] == [str(number) for number in range(39, 39 - ROWS_SHOWN, -1)]
    assert card.rows[0].seconds == "Entrenamiento local 1.50 s, Promediando 0.00 s"
    assert card.seconds == (("Entrenamiento local", "1.50 s"), ("Promediando", "0.00 s"))
    assert card.outcome == "outcome 39"
    assert card.chart is not None
    assert [line.name for line in card.chart.lines] == ["me, después", "me, antes"]
    assert card.spark.startswith("M")


def test_a_card_tells_what_the_last_round_moved() -> None:
    moved = record(0, bytes={"sent": 1_200_000, "received": 431_000})
    assert card_of(job(), [], [moved], {}, english).moved == "1.2 MB sent, 431 kB received"
    assert card_of(job(), [], [record(0, bytes={"sent": 0, "received": 0})], {}, english).moved == ""


def test_a_card_before_the_first_round_has_no_chart() -> None:
    card = card_of(job(current_round=-1), [], [], {}, english)
    assert (card.chart, card.spark, card.rows, card.seconds, card.outcome) == (None, "", (), (), "")


def test_the_peers_accuracies_are_drawn_beside_the_own_ones() -> None:
    other, stranger = job("b"), job("b", trainer_id="U", trainer_label="U")
    around = {"b": ((2, 0.5), (3, 0.75)), "c": (), **{f"n{place}": ((3, 0.5),) for place in range(20)}}
    card = card_of(job(), [other, stranger], [record(3)], around, english)
    assert card.others == (other,)
    assert card.chart is not None
    assert [(line.name, line.last) for line in card.chart.lines][2] == ("b", "75.00 %")
    assert len(card.chart.lines[2].dots) == 2
    assert len(card.chart.lines) == MAX_LINES - 1  # c has no point


def test_what_rounds_took_and_moved_are_further_charts() -> None:
    history = [
        record(
            number, seconds={"train": number + 1.5, "wait": 0.25, "walk": 9}, bytes={"sent": 0, "received": 2_000}
        )
        for number in range(3)
    ]
    (seconds, took), (bytes_, moved) = card_of(job(), [], history, {}, translator("es")).further
    assert (seconds, bytes_) == ("Segundos por ronda", "Bytes por ronda")
    assert [(line.name, line.last) for line in took.lines] == [
        ("Entrenamiento local", "3.5 s"),
        ("Esperando actualizaciones", "0.25 s"),
    ]
    assert [(line.name, line.last) for line in moved.lines] == [("enviado", "0 bytes"), ("recibido", "2.0 kB")]
    assert card_of(job(), [], [record(0, seconds={})], {}, english).further == ()


@pytest.mark.parametrize(
    ("mine", "others", "words"),
    [
        ({"exchanged_with": "b"}, [{}], "taken from b, whose model was better here"),
        ({}, [{}], "all nodes hold the same model"),
        ({}, [{"digest": OTHER}], "no other model was better here by the threshold"),
        ({}, [{"digest": OTHER, "current_round": 2}], ""),
        ({}, [{"fed_learn_done": "No"}], ""),
        ({"phase": "TRAINING"}, [{}], ""),
        ({}, [], ""),
    ],
)
def test_why_a_model_was_exchanged_or_not(mine: dict[str, Any], others: list[dict[str, Any]], words: str) -> None:
    assert exchange_words(job(**mine), [job("b", **other) for other in others], english) == words
