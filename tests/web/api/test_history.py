"""The history as files, over REST and on the page."""

from __future__ import annotations

import asyncio
import builtins
import csv
import io
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from PIL import Image

from flnet.errors import NotOffered
from flnet.web.api.history import MOST_POINTS, SCALE, as_csv, as_png, as_svg, height_of, panels_of
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [("csv", "text/csv", b"round,"), ("svg", "image/svg+xml", b"<svg "), ("png", "image/png", b"\x89PNG")],
)
async def test_each_form_is_a_file_to_take_away(
    client: Client, node: FakeNode, form: str, kind: str, begins: bytes
) -> None:
    for number in range(3):
        await client.post("/training/trigger", json={"trainerId": "MNIST"})
        await node.finish_round("MNIST", 0.5, 0.6 + number / 10)
    answer = await client.get(f"/jobs/MNIST/history.{form}?last=2")
    body = await answer.get_data(as_text=False)
    assert (answer.status_code, answer.mimetype, body.startswith(begins)) == (200, kind, True)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="MNIST-NODE_1-history.{form}"'
    if form == "csv":
        assert [line.split(b",")[0] for line in body.splitlines()] == [b"round", b"1", b"2"]


async def test_other_forms_trainers_and_numbers_are_refused(client: Client) -> None:
    for path, status in (("MNIST/history.pdf", 404), ("NONE/history.csv", 404), ("MNIST/history.csv?last=0", 422)):
        assert (await client.get(f"/jobs/{path}")).status_code == status


async def test_the_page_links_to_the_files(client: Client, node: FakeNode) -> None:
    await client.post("/training/trigger", json={"trainerId": "MNIST"})
    await node.finish_round("MNIST", 0.5, 0.6)
    links = [link["href"] for link in (await load(client)).all("a") if "history." in (link.get("href") or "")]
    assert links == [f"/jobs/MNIST/history.{form}" for form in ("csv", "svg", "png")]


async def test_all_forms_of_a_history_in_pages_are_whole(client: Client, node: FakeNode) -> None:
    assert await (await client.get("/jobs/MNIST/history")).get_json() == []
    for _ in range(3):  # the pages of this node hold one record each
        await client.post("/training/trigger", json={"trainerId": "MNIST"})
        await node.finish_round("MNIST", 0.5, 0.6)
    shown = await (await client.get("/jobs/MNIST/history")).get_json()
    table = (await (await client.get("/jobs/MNIST/history.csv")).get_data(as_text=True)).splitlines()
    assert [record["round"] for record in shown] == [0, 1, 2]
    assert [line.partition(",")[0] for line in table] == ["round", "0", "1", "2"]


async def test_pictures_are_made_one_at_a_time(
    client: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most, thinned = 0, 0, node.thinned_records

    async def reading(*asked: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        under_way -= 1
        return await thinned(*asked)

    monkeypatch.setattr(node, "thinned_records", reading)
    answers = await asyncio.gather(*(client.get("/jobs/MNIST/history.svg") for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert (most, under_way) == (1, 0)


# A job's history as CSV and SVG: all figures, in words that no program takes for code.


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


def vertical(number: int) -> dict[str, Any]:
    after = {"loss": 0.5, "auc": 0.8125}
    return record(number, metrics={"after": after}, seconds={"align": 0.5, "train": 1.5})


def test_figures_of_vertical_jobs_are_in_both_files() -> None:
    (row,) = rows([vertical(0)])
    assert (row["seconds"], row["seconds_align"], row["loss"], row["auc"]) == ("2.0", "0.5", "0.5", "0.8125")
    drawn = ET.fromstring(as_svg([vertical(0), vertical(1)], "Claims on n1"))
    words = [element.text or "" for element in drawn.iter(f"{SVG}text")]
    assert {"Accuracy and AUC", "Loss", "nodes that took part (2)", "AUC (81.25 %)"} <= {*words}
    assert not any("averag" in word for word in words)


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


# A job's history as PNG, where Pillow is installed.


def test_it_is_the_picture_of_the_svg_in_pixels() -> None:
    records = [record(number, post_fedavg_accuracy=0.5 + number / 10) for number in range(4)]
    with Image.open(io.BytesIO(as_png(records, "Digits on n1"))) as image:
        assert image.size == (SCALE * 640, SCALE * height_of(panels_of(records)))
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 24) or []}
    assert {(255, 255, 255), (0x1C, 0x7A, 0x4B), (0x6F, 0x85, 0x78)} <= colours


def test_without_rounds_and_with_one_it_is_a_picture_too() -> None:
    for records in ([], [record(0)]):
        assert as_png(records, "Digits \u2603 \N{GREEK SMALL LETTER ALPHA}").startswith(b"\x89PNG")


def test_without_pillow_people_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuses(name: str, *rest: Any, **more: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuses)
    with pytest.raises(NotOffered, match=r"needs Pillow, .* or take the SVG"):
        as_png([], "Digits")


def test_csv_has_the_figures_of_all_nodes() -> None:
    mesh = {
        **{"accuracy": 0.75, "basis": "counts", "examples": 12, "nodes": 3, "figures": {"f1_macro": 0.5}},
        **{"worst": {"node": "=b", "accuracy": 0.25}, "spread": 0.125, "jain": 0.9, "by_node": {}, "labels": {}},
        "groups": {"small": {"accuracy": 0.5, "examples": 10, "nodes": 1}},
    }
    with_mesh, without = rows([{"round": 0, "mesh": mesh}, {"round": 1}])
    assert with_mesh["mesh_accuracy"] == "0.75" and with_mesh["mesh_f1_macro"] == "0.5"
    assert (with_mesh["mesh_worst"], with_mesh["mesh_worst_node"]) == ("0.25", "'=b")
    assert with_mesh["mesh_groups"] == "small: 0.5000 of 10" and with_mesh["mesh_basis"] == "counts"
    assert without["mesh_accuracy"] == without["mesh_groups"] == ""


def test_csv_has_the_accuracy_on_a_common_test() -> None:
    metrics = {"before": {"common_test_accuracy": 0.25}, "after": {"common_test_accuracy": 0.5}}
    first, second = rows([{"round": 0, "metrics": metrics}, {"round": 1}])
    assert (first["common_test_accuracy"], second["common_test_accuracy"]) == ("0.5", "")
