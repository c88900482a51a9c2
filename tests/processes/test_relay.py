"""Real nodes train though one of them is reached through a relay only, in each kind of mesh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.mesh_name import MESH_HEADERS
from tests.ports import free_port
from tests.processes.harness import Harness, PinnedHarness, RealNode, at_rest, digests, until
from tests.processes.recording_relay import RECORDED

pytestmark = pytest.mark.slow
KEY = "correct horse battery staple"


class Relaying:
    """Harness of a relay n0, a node n1, and n2 behind the relay."""

    def module_of(self, index: int) -> str:
        return "tests.processes.hurried" if index else "tests.processes.recording_relay"

    def variables(self, index: int, values: Mapping[str, str]) -> dict[str, str]:
        made: dict[str, str] = super().variables(index, values)  # type: ignore[misc]
        return made | {RECORDED: str(self.folder / "recorded")}  # type: ignore[attr-defined]


class OpenRelaying(Relaying, Harness):
    pass


class PinnedRelaying(Relaying, PinnedHarness):
    pass


def started(mode: str, folder: Path) -> tuple[Harness, str]:
    """Three nodes of a mesh, and the address of the relay."""
    mesh = PinnedRelaying(folder) if mode == "pinned" else OpenRelaying(folder)
    settings = {"MESH_KEY": KEY} if mode == "keyed" else {}
    if isinstance(mesh, PinnedHarness):
        settings = {"TRUSTED_PEERS": ",".join(mesh.mark(index) for index in range(3))}
    first = free_port()
    mesh.start(RELAY_PORTS=f"{first}-{first + 3}", **settings)
    mesh.start(**settings)
    mesh.start(RELAY=f"127.0.0.1:{first}", **settings)
    return mesh, f"127.0.0.1:{first + 2}"


def address_at(node: RealNode, peer: str) -> str:
    return next((each["address"] for each in node.get("/peers") if each["id"] == peer), "")


def train(mesh: Harness, starter: RealNode, number: int) -> None:
    assert starter.trigger().status_code == 202
    until(lambda: at_rest(mesh.nodes, number), f"round {number}")
    assert len(digests(mesh.nodes)) == 1
    for node in mesh.nodes:
        assert node.history()[-1]["contributors"] == ["n0", "n1", "n2"]


@pytest.mark.parametrize("mode", ["open", "keyed", "pinned"])
def test_a_node_behind_a_relay_trains_and_goes_on_after_the_relay_was_killed(mode: str, tmp_path: Path) -> None:
    mesh, relayed = started(mode, tmp_path)
    relay, other, behind = mesh.nodes
    try:
        mesh.ready()
        assert address_at(relay, "n2") == address_at(other, "n2") == relayed
        assert relay.get("/info")["relayPort"] + 2 == int(relayed.rpartition(":")[2])
        assert f"n2 is reached at port {relayed.rpartition(':')[2]} of this relay" in relay.told("relay_granted")
        mesh.go()
        train(mesh, other, 0)
        train(mesh, behind, 1)
        recorded = (tmp_path / "recorded").read_bytes()

        relay.kill()
        until(lambda: "trying again" in behind.get("/info").get("unreached", ""), "words that the relay is gone")
        mesh.again(relay)
        mesh.up(relay)
        until(lambda: "unreached" not in behind.get("/info"), "a port again")
        mesh.meshed(*mesh.nodes)
        assert address_at(other, "n2") == relayed
        train(mesh, other, 2)

        url = f"{'https' if mode == 'pinned' else 'http'}://{relayed}"
        with httpx.Client(base_url=url, trust_env=False, timeout=60, verify=False) as stranger:
            answers = [
                stranger.post("/jobs/SLOW/pause", headers={"Host": host, **MESH_HEADERS})
                for host in (relayed, "localhost", "127.0.0.1")
            ]
    finally:
        mesh.stop()

    # Though all comes from loopback, nobody who comes through the relay is the operator of the node.
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert recorded, "nothing went through the relay"
    is_readable = any(word in recorded for word in (b"HTTP/1.1", b"iAm", b'"w"', b"safetensors"))
    assert is_readable == (mode != "pinned")
