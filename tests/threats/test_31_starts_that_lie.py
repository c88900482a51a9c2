"""A member starts round 2^53, or a round from a model that is worth nothing; nobody follows, in any kind of mesh."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes.harness import Harness, PinnedHarness, RealNode, answers, until

pytestmark = pytest.mark.slow
NAME, KEY = "SMALL_DIGITS", "correct horse battery staple"


class WithLiar(Harness):
    """Its third node lies; the file `lie` says how."""

    def module_of(self, index: int) -> str:
        return "tests.threats.liar" if index == 2 else self.module

    def tell(self, lie: str) -> None:
        (self.folder / "lie").write_text(lie)


class PinnedWithLiar(WithLiar, PinnedHarness):
    """The same over TLS, among nodes that accepted each other."""


@pytest.fixture(params=["open", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("keyed", "pinned"))])
def mesh(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WithLiar]:
    made = (PinnedWithLiar if request.param == "pinned" else WithLiar)(tmp_path)
    monkeypatch.setenv("LIE_FILE", str(tmp_path / "lie"))
    made.tell("")
    settings = {"TRAINERS": NAME, "TRAINERS_PATH": "", "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "10"}
    settings |= {"MESH_KEY": KEY} if request.param == "keyed" else {}
    try:
        for part in (1, 2, 3):
            made.start(**settings, DATA_SHARD=f"{part}/3")
        if isinstance(made, PinnedWithLiar):
            accept_all(made)
        made.ready()
        yield made
    finally:
        made.stop()


def accept_all(made: PinnedWithLiar) -> None:
    for node in made.nodes:
        until(partial(answers, node, "/health"), f"answers of {node.name}")
    for index, node in enumerate(made.nodes):
        for other in {0, 1, 2} - {index}:
            accepted = {"fingerprint": made.mark(other)}
            node.http.post("/trust/accept", json=accepted).raise_for_status()


def rounds(node: RealNode) -> list[int]:
    return [record["round"] for record in node.history(NAME)]


def is_idle_after(node: RealNode, number: int) -> bool:
    return number in rounds(node) and node.job(NAME)["phase"] == "IDLE"


def play(mesh: WithLiar, by: RealNode, number: int) -> None:
    """One round, started by this node, that the two honest ones complete."""
    assert by.trigger(NAME).status_code == 202
    for node in mesh.nodes[:2]:
        until(partial(is_idle_after, node, number), f"round {number} of {node.name}")


def accuracy(node: RealNode) -> float:
    return float(node.history(NAME)[-1]["post_fedavg_accuracy"])


def test_nobody_follows_what_a_member_lies(mesh: WithLiar) -> None:
    first, second, liar = mesh.nodes
    for number in range(3):
        play(mesh, first, number)
    before = accuracy(first)
    assert before > 0.7

    mesh.tell("claim")
    play(mesh, liar, 3)
    mesh.tell("base")
    play(mesh, liar, 4)
    for node in (first, second):
        assert any(
            "accuracy" in words and f"{liar.name} starts the round" in words
            for words in node.told("start_refused")
        )
        assert node.history(NAME)[-1]["pre_fedavg_accuracy"] > before - 0.1
    mesh.tell("")
    play(mesh, second, 5)
    assert min(accuracy(first), accuracy(second)) > before - 0.05

    mesh.tell("number")
    assert liar.trigger(NAME).status_code == 202
    for node in (first, second):
        until(lambda node=node: bool(node.told("refused")), f"the refusal of {node.name}")  # type: ignore[misc]
        assert node.job(NAME)["current_round"] == 5
    play(mesh, first, 6)
    assert first.history(NAME)[-1]["contributors"][:2] == ["n0", "n1"]
    first.kill()
    mesh.again(first)
    mesh.up(first)
    mesh.meshed(first, second)
    play(mesh, first, 7)
