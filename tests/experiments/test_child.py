"""The lines that the engine and its processes say to each other."""

from __future__ import annotations

import io
import json
from typing import Any

from flnet.experiments.base import Outcome
from flnet.experiments.child import answer_of, order_of, serve, settings_line
from flnet.settings import Settings
from tests.experiments.cells import TOLD, TRAINERS, cell


def test_orders_are_done_one_after_the_other() -> None:
    lines = [settings_line(TOLD), order_of([cell(0), cell(1)]), order_of([cell(2, rounds=1)])]
    said: list[Any] = []
    serve(io.StringIO("".join(line + "\n" for line in lines)), said.append)
    answers = [answer_of(json.dumps(one)) for one in said]
    outcomes = [answer for answer in answers if isinstance(answer, list)]
    assert [[outcome.rounds for outcome in some] for some in outcomes] == [[3, 3], [1]]
    progress = [answer for answer in answers if isinstance(answer, float)]
    assert max(progress) == 1.0


def test_a_process_is_told_what_decides_numbers_and_computes_with_one_thread() -> None:
    told = Settings(trainers_path=TRAINERS, device="cpu", compute_threads=8, mesh_key="0123456789abcdef0123456789")
    heard = Settings.model_validate_json(settings_line(told))
    assert (heard.trainers_path, heard.device, heard.compute_threads) == (TRAINERS, "cpu", 1)
    assert "0123456789abcdef" not in settings_line(told)


def test_an_outcome_comes_back_as_it_was() -> None:
    outcome = Outcome(rounds=1, figures={"after.accuracy": (0.1 + 0.2, None)}, bytes=7, reason="")
    assert answer_of(json.dumps([outcome.model_dump(mode="json")])) == [outcome]
    assert answer_of("0.25") == 0.25
    assert answer_of("1") == 1.0
