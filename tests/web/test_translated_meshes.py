"""All that whole meshes tell, simulated with faults and of real processes, is shown in Spanish."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flnet.node.core import NodeCore
from flnet.protocol.effects import Publish
from flnet.web.translation import translate_sentence
from tests.processes.harness import Harness, RealNode, harness, until
from tests.simulation.helpers import STORM, any_faults, mesh, train_until

LEFT_OVER = re.compile(r"\b(the|of|not|is|was|are|were|from|at|in|with|has|have|by|and|to|it|its|here|round)\b")
OF_PEERS = re.compile(  # reasons with parameters that another node stated, and what the simulation invents
    r"its model is of round \S+ the mesh is in round \d+|the model that round \d+ starts from could not be fetched "
    r"from \w+: lost|training failed: the weather|the weather|outside of its hours|its update could not be fetched"
)


def not_spanish(sentences: Iterable[str]) -> set[str]:
    """What has no translation, or has English in it."""
    shown = {translate_sentence("es", sentence) for sentence in sentences}
    return {one.text for one in shown if one.language or LEFT_OVER.search(OF_PEERS.sub("", one.text))}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Publish]:
    """Whatever any simulated node publishes from now on."""
    heard: list[Publish] = []
    hear = NodeCore.hear

    def listen(self: NodeCore, *event: Any) -> Any:
        items = hear(self, *event)
        heard.extend(item.effect for item in items if isinstance(item.effect, Publish))
        return items

    monkeypatch.setattr(NodeCore, "hear", listen)
    return heard


@pytest.mark.parametrize("seeds", [(0, 5), pytest.param(range(12), marks=pytest.mark.long)])
def test_all_that_a_simulated_mesh_publishes_has_its_spanish(told: list[Publish], seeds: Sequence[int]) -> None:
    for seed in seeds:
        faults = any_faults(Random(seed)) if seed else STORM
        cluster = mesh(4, seed, faults)
        first, *others = cluster.nodes
        train_until(cluster, last=4, seed=seed, crowd=(1, 2), interrupt=0.3)
        cluster.cut([first], others)
        cluster.trigger(first, rounds=2)
        cluster.trigger(others[0])
        cluster.run_for(200)
        cluster.heal()
        cluster.run_for(100)
    kinds = {effect.kind for effect in told}
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
    assert not_spanish(effect.text for effect in told) == set()


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
@pytest.mark.long
def test_real_nodes_speak_spanish_on_the_page_and_english_to_scripts(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        items = train_and_lose_one(h)
        node = next(node for node in h.nodes if node.process.poll() is None)
        page = node.http.get("/", headers={"Accept-Language": "es"}).text
        english = node.http.get("/").text
    marked = Marked()
    marked.feed(page)
    assert set(marked.texts) == {"four numbers"}  # what the trainer itself says of its data
    assert "ronda 0 cerrada: promedio de 2 actualizaciones: llegaron todas las actualizaciones esperadas" in page
    closed = "round 0 closed: averaged 2 updates: all expected updates arrived"
    assert closed in english and any(item["text"].startswith(closed) for item in items)
