"""A job's history as CSV and SVG: all figures, in words that no program takes for code."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from flnet.web.history_files import MOST_POINTS, as_csv, as_svg, panels_of

SVG = "{http://www.w3.org/2000/svg}"


def record(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "round": number,
        "initiator": "n1",
        "why": "",
        "outcome": "averaged 2 updates, all there",
        "error": None,
        "contributors": ["n1", "n2"],
        "missing": [],
        "examples": 70,
        "pre_fedavg_accuracy": 0.5,
        "post_fedavg_accuracy": 0.75,
        "exchanged_with": None,
        "digest": "ab",
        "bytes": {"sent": 1000, "received": 2000 * (number + 1)},
        "seconds": {"train": 1.5, "average": 0.25},
        "decision": None,
        **changed,
    }


def rows(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(records).decode())))


def test_csv_has_a_line_for_each_round_with_all_figures() -> None:
    decision = {
        "over": "reached",
        "words": "mean accuracy 0.8 of 2 nodes reached 0.8",
        "accuracy": 0.8,
        "loss": 0.1,
    }
    first, second = rows([record(0, why="new data"), record(1, decision=decision, exchanged_with="n2")])
    assert (first["round"], first["why"], first["participants"], first["contributors"]) == (
        *("0", "new data", "2", "n1;n2"),
    )
    assert (first["pre_fedavg_accuracy"], first["post_fedavg_accuracy"], first["examples"]) == (
        "0.5",
        "0.75",
        "70",
    )
    assert (first["seconds"], first["seconds_train"], first["seconds_wait"]) == ("1.75", "1.5", "")
    assert (first["bytes_sent"], second["bytes_received"], first["decision"]) == ("1000", "4000", "")
    assert (second["decision"], second["decided"], second["mean_accuracy"]) == (
        *("reached", "mean accuracy 0.8 of 2 nodes reached 0.8", "0.8"),
    )
    assert rows([]) == []


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_name_is_a_formula(name: str) -> None:
    assert rows([record(0, initiator=name)])[0]["initiator"].startswith("'")


def test_what_breaks_lines_stays_in_its_cell() -> None:
    assert rows([record(0, outcome='a,"b"\nc')])[0]["outcome"] == 'a,"b"\nc'


def test_svg_shows_accuracy_participants_seconds_and_bytes() -> None:
    drawn = ET.fromstring(as_svg([record(0), record(1)], "Digits on n1"))
    words = [element.text for element in drawn.iter(f"{SVG}text")]
    assert [word for word in words if word in ("Accuracy", "Participants", "Seconds", "Bytes")] == [
        *("Accuracy", "Participants", "Seconds", "Bytes"),
    ]
    assert {"Digits on n1", "updates averaged (2)", "the whole round (1.75 s)"} <= {*words}
    assert any((word or "").startswith("received (4") for word in words)
    assert any((word or "").startswith("after averaging (") for word in words)


def test_svg_holds_no_markup_of_others() -> None:
    drawn = as_svg([record(0)], '<script>alert("1")</script>').decode()
    assert "<script" not in drawn
    assert ET.fromstring(drawn).find(f"{SVG}title") is not None


def test_a_history_without_rounds_is_a_picture_too() -> None:
    assert b"no rounds yet" in as_svg([], "Digits")


def test_what_was_not_measured_is_left_out() -> None:
    bare = {"round": 3, "contributors": []}
    assert panels_of([bare]) == []
    assert rows([bare])[0]["participants"] == "0"


def test_long_histories_are_thinned_to_the_newest() -> None:
    panels = panels_of([record(number) for number in range(2 * MOST_POINTS + 1)])
    line = panels[0].chart.lines[0]
    assert MOST_POINTS / 2 < len(line.dots) <= MOST_POINTS
    assert line.dots[-1][0] == "628"  # the right end
