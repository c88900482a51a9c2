from __future__ import annotations

from typing import Any

import pytest

from flnet.web.cards import ROWS_SHOWN, SeenRounds, card_of, exchange_words
from flnet.web.charts import MAX_ROUNDS
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
    card = card_of(job(), [], [record(number) for number in range(40)], SeenRounds(), translator("es"))
    assert [row.number for row in card.rows] == [str(number) for number in range(39, 39 - ROWS_SHOWN, -1)]
    assert card.rows[0].seconds == "Entrenamiento local 1.50 s, Promediando 0.00 s"
    assert card.seconds == (("Entrenamiento local", "1.50 s"), ("Promediando", "0.00 s"))
    assert card.outcome == "outcome 39"
    assert card.chart is not None
    assert [line.name for line in card.chart.lines] == ["me, después", "me, antes"]
    assert card.spark.startswith("M")


def test_a_card_tells_what_the_last_round_moved() -> None:
    moved = record(0, bytes={"sent": 1_200_000, "received": 431_000})
    assert card_of(job(), [], [moved], SeenRounds(), english).moved == "1.2 MB sent, 431 kB received"
    assert card_of(job(), [], [record(0, bytes={"sent": 0, "received": 0})], SeenRounds(), english).moved == ""


def test_a_card_before_the_first_round_has_no_chart() -> None:
    card = card_of(job(current_round=-1), [], [], SeenRounds(), english)
    assert (card.chart, card.spark, card.rows, card.seconds, card.outcome) == (None, "", (), (), "")


def test_the_peers_accuracies_are_drawn_beside_the_own_ones() -> None:
    seen = SeenRounds()
    other, stranger = job("b", post_fedavg_accuracy=0.75), job("b", trainer_id="U", trainer_label="U")
    seen.note([other, stranger])
    card = card_of(job(), [other, stranger], [record(3)], seen, english)
    assert card.others == (other,)
    assert card.chart is not None
    assert [(line.name, line.last) for line in card.chart.lines][2] == ("b", "75.00 %")


def test_peers_are_remembered_round_by_round_once_their_round_is_over() -> None:
    seen = SeenRounds()
    seen.note([job("b", current_round=number, post_fedavg_accuracy=number / 10) for number in range(3)])
    seen.note([job("b", current_round=3, phase="TRAINING"), job("b", current_round=4, fed_learn_done="No")])
    seen.note([job("b", current_round=5, post_fedavg_accuracy="0.9"), job("b", current_round="6")])
    seen.note([job("b", current_round=9, phase="TRAINING", model_round=8, post_fedavg_accuracy=0.8)])
    seen.note([job("b", current_round=10, phase="GATHERING", model_round=9, post_fedavg_accuracy=None)])
    assert seen.points(job("b")) == ((0, 0.0), (1, 0.1), (2, 0.2), (8, 0.8))


def test_what_is_remembered_of_peers_is_bounded() -> None:
    seen = SeenRounds(most=2)
    seen.note([job("b", current_round=number) for number in range(MAX_ROUNDS + 50)])
    assert len(seen.points(job("b"))) == MAX_ROUNDS
    assert seen.points(job("b"))[0][0] == 50
    seen.note([job("c"), job("d")])
    assert seen.points(job("b")) == ()


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
