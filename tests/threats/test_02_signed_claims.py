"""Threat 2 in meshes with keys: a member says that another one is gone, with its own signature or a borrowed one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flnet.membership.state import KEPT_AHEAD
from flnet.protocol.messages import StateWord
from flnet.security.keys import load_signer
from tests.processes.harness import Harness, RealNode, until
from tests.threats.insider import OWN, Insider, Mode, claim, mesh_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HIGHEST = 2**53
LOST = ("peer_left", "peer_lost", "peer_replaced", "peer_moved")
MODES = ["keyed", "pinned"]
LONG = ["keyed", pytest.param("pinned", marks=pytest.mark.long)]


@pytest.fixture
def mesh(mode: Mode, tmp_path: Path) -> Iterator[Harness]:
    with mesh_of(mode, tmp_path, 3, OWN) as made:
        yield made


@pytest.fixture
def insider(mode: Mode, mesh: Harness) -> Insider:
    """A member that the first node knows."""
    made = Insider(mode)
    assert made.post(mesh.nodes[0], "/announce", {"iAm": me(mesh), "incarnation": 0}) == (201, "")
    return made


def me(mesh: Harness) -> dict[str, Any]:
    return {"id": "x", "ip": "127.0.0.1", "port": mesh.nodes[0].port - 1}


def tell(mesh: Harness, insider: Insider, *news: dict[str, Any]) -> None:
    """Tell the first node."""
    assert insider.post(mesh.nodes[0], "/probe", {"iAm": me(mesh), "news": news}) == (200, "")


def dropped(node: RealNode) -> list[str]:
    return [words for kind in LOST for words in node.told(kind) if "n1" in words]


def incarnation_of(node: RealNode, name: str) -> int:
    return next(int(peer["incarnation"]) for peer in node.get("/peers") if peer["id"] == name)


@pytest.mark.parametrize("mode", MODES)
def test_no_member_says_that_another_one_is_gone(mesh: Harness, insider: Insider) -> None:
    first, victim, other = mesh.nodes
    states: tuple[StateWord, ...] = ("left", "dead", "suspect")
    for state in states:
        for incarnation in (0, 1, 900, HIGHEST):
            tell(mesh, insider, claim(victim, state, incarnation))
            tell(mesh, insider, claim(victim, state, incarnation, by=other.name))
            tell(mesh, insider, claim(victim, state, incarnation, key=OWN))  # the wrong key
            tell(mesh, insider, claim(victim, state, incarnation, by=other.name, key=OWN))
        announced = {"iAm": me(mesh), "incarnation": 0, "members": [claim(victim, state, 5, key=OWN)]}
        assert insider.post(first, "/announce", announced)[0] == 201
    before = incarnation_of(first, victim.name)
    assert first.told("peer_suspected") == []
    tell(mesh, insider, claim(victim, "dead", before, by="x", key=OWN))  # its own accusation is heard, and refuted
    until(lambda: incarnation_of(first, victim.name) > before, "the member's own word")
    mesh.meshed(first, victim, other)
    borrowed = {
        "iAm": {"id": victim.name, "ip": "127.0.0.1", "port": victim.port},
        "news": [claim(victim, "left", 99)],
    }
    assert insider.post(first, "/probe", borrowed)[0] == 409
    assert dropped(first) == []
    mesh.go()
    assert victim.trigger().status_code == 202
    until(lambda: bool(victim.history()), "a round")
    assert {"n0", "n1", "n2"} <= set(victim.history()[-1]["contributors"])


@pytest.mark.parametrize("mode", LONG)
def test_a_member_that_is_silent_for_a_moment_is_not_held_for_left(mesh: Harness, insider: Insider) -> None:
    first, victim, other = mesh.nodes
    os.kill(victim.process.pid, signal.SIGSTOP)
    try:
        tell(mesh, insider, *(claim(victim, "left", incarnation) for incarnation in (0, 1, 40)))
        until(lambda: first.states()[victim.name] != "alive", "the silence to be noticed")
    finally:
        os.kill(victim.process.pid, signal.SIGCONT)
    mesh.meshed(first, victim, other)
    assert first.told("peer_left") == []


@pytest.mark.parametrize("mode", LONG)
def test_what_a_member_signed_before_it_was_started_again_is_outdated(mesh: Harness, insider: Insider) -> None:
    first, victim, _ = mesh.nodes
    key = load_signer(mesh.state(victim))
    old = [claim(victim, state, number, key=key) for number in range(9) for state in ("left", "alive")]
    for node in (victim, first):  # nobody remembers who was alive
        node.kill()
        mesh.again(node)
        mesh.up(node)
    mesh.meshed(*mesh.nodes)
    assert insider.post(first, "/announce", {"iAm": me(mesh), "incarnation": 0})[0] == 201
    assert incarnation_of(first, victim.name) >= KEPT_AHEAD
    tell(mesh, insider, *old)
    assert first.states()[victim.name] == "alive"
    assert first.told("peer_left") == []
    # What counts, to compare.
    tell(mesh, insider, claim(victim, "left", incarnation_of(first, victim.name), key=key))
    assert len(first.told("peer_left")) == 1


@pytest.mark.parametrize("mode", LONG)
def test_a_member_that_goes_is_gone_at_once(mesh: Harness) -> None:
    first, victim, other = mesh.nodes
    victim.process.terminate()
    victim.process.wait()
    for node in (first, other):
        until(lambda n=node: n.states()["n1"] == "left", f"{node.name} hearing of it")  # type: ignore[misc]
