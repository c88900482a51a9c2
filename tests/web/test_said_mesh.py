"""What whole meshes say, simulated with faults and of real processes, is all said in Spanish."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flnet.effects import Publish
from flnet.node.core import NodeCore
from flnet.web.said import catalogue_of
from tests.processes.harness import Harness, RealNode, harness, until
from tests.simulation.helpers import STORM, any_weather, mesh, train_until

LEFT_OVER = re.compile(r"\b(the|of|not|is|was|are|were|from|at|in|with|has|have|by|and|to|it|its|here|round)\b")


def not_said(told: set[tuple[str, str]]) -> set[tuple[str, str, str | None]]:
    """What has no translation, or has English in it."""
    catalogue = catalogue_of("es")
    assert catalogue is not None
    said = {(kind, text, catalogue.say(text, kind)) for kind, text in told}
    return {(kind, text, found) for kind, text, found in said if found is None or LEFT_OVER.search(found)}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Kind and text of whatever any simulated node publishes from now on."""
    heard: set[tuple[str, str]] = set()
    hear = NodeCore.hear

    def listen(self: NodeCore, *event: Any) -> Any:
        items = hear(self, *event)
        effects = [item.effect for item in items]
        heard.update((one.kind, one.text) for one in effects if isinstance(one, Publish))
        return items

    monkeypatch.setattr(NodeCore, "hear", listen)
    return heard


def test_a_mesh_in_all_weathers_says_nothing_that_is_not_said_in_spanish(told: set[tuple[str, str]]) -> None:
    for seed in range(12):
        weather = any_weather(Random(seed)) if seed else STORM
        cluster = mesh(4, seed, weather)
        first, *others = cluster.nodes
        train_until(cluster, last=4, seed=seed, crowd=(1, 2), interrupt=0.3)
        cluster.cut([first], others)
        cluster.trigger(first, rounds=2)
        cluster.trigger(others[0])
        cluster.run_for(200)
        cluster.heal()
        cluster.run_for(100)
    kinds = {kind for kind, _ in told}
    assert kinds >= {"peer_joined", "peer_lost", "peer_back", "announce_failed", "round_opened", "round_closed"}
    assert kinds >= {
        "trained",
        "training_failed",
        "averaged",
        "measured",
        "peer_declined",
        "fetch_failed",
        "ready",
    }
    meant = {(kind, text.replace("the weather", "x")) for kind, text in told}
    assert not_said(meant) == set()


class Marked(HTMLParser):
    """Collects the texts that a page marks as English, but for codes."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[bool] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open += [tag == "span" and dict(attrs).get("lang") == "en"] if tag == "span" else []

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if any(self._open):
            self.texts.append(data)


def feed(node: RealNode) -> list[dict[str, Any]]:
    return [json.loads(line) for line in node.http.get("/events.jsonl").text.splitlines()]


def train_and_lose_one(h: Harness) -> list[dict[str, Any]]:
    """Two real nodes train, one is killed, and the other trains alone; what it tells."""
    one, other = h.start(), h.start()
    h.go()
    h.ready()
    h.meshed(one, other)
    assert one.trigger(rounds=2).status_code == 202
    until(lambda: sum(item["kind"] == "round_closed" for item in feed(one)) >= 2, "two rounds")
    assert one.http.post("/training/trigger", json={"trainerId": "nobody"}).status_code == 404
    other.kill()
    one.trigger()
    until(lambda: any(item["kind"] in ("peer_lost", "peer_suspected") for item in feed(one)), "the loss")
    until(lambda: sum(item["kind"] == "round_closed" for item in feed(one)) >= 3, "a round alone")
    return feed(one)


@pytest.mark.slow
def test_real_nodes_say_in_spanish_on_the_page_and_in_english_to_scripts(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        items = train_and_lose_one(h)
        node = next(node for node in h.nodes if node.process.poll() is None)
        assert not_said({(item["kind"], item["text"]) for item in items}) == set()
        page = node.http.get("/", headers={"Accept-Language": "es"}).text
        english = node.http.get("/").text
    marked = Marked()
    marked.feed(page)
    assert marked.texts == []
    assert "ronda 0 cerrada: promedio de 2 actualizaciones: han respondido todos los esperados" in page
    assert "round 0 closed: averaged 2 updates: everyone expected has spoken" in english
