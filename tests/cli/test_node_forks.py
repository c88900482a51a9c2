"""Nodes that are forked from one process are nodes like any others, and none of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flnet.cli import local_mesh
from flnet.cli.client import NodeClient
from flnet.cli.local_mesh import alive_peers, local_nodes, node_arguments
from flnet.cli.node_forks import ForkedNode, NodeForks, node_forks
from flnet.errors import PeerTimeout, PeerUnreachable, StartError
from flnet.security.keys import PRIVATE, make_keys, noted
from tests.alive import alive
from tests.cli.live import until
from tests.ports import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux has them")
END_SECONDS = 20.0


@pytest.fixture(scope="module")
def forks() -> Iterator[NodeForks]:
    """One process that forks, for all tests that leave it running."""
    with node_forks(os.environ) as running:
        yield running


def start(forks: NodeForks, log: Path, *arguments: str, **environment: str) -> ForkedNode:
    with log.open("wb") as output:
        return forks.start(arguments, {**os.environ, **environment}, output.fileno())


def node(forks: NodeForks, folder: Path, name: str = "a") -> tuple[ForkedNode, int]:
    port = free_port()
    settings = {"node_id": name, "node_port": port, "listen_address": "127.0.0.1", "state_path": folder / name}
    arguments = node_arguments({**settings, "trainers": "SMALL_DIGITS", "compute": "thread"}, forks.pid)
    return start(forks, folder / f"{name}.log", *arguments), port


def answers(port: int, name: str) -> bool:
    try:
        with NodeClient(f"127.0.0.1:{port}") as client:
            return bool(client.info()["iAm"]["id"] == name)
    except (PeerUnreachable, PeerTimeout):
        return False


def test_what_a_forked_command_prints_and_how_it_ends_is_told(forks: NodeForks, tmp_path: Path) -> None:
    fine, wrong = (
        start(forks, tmp_path / "a", "--version"),
        start(forks, tmp_path / "b", "run", "--node-port", "x"),
    )
    assert (fine.wait(END_SECONDS), wrong.wait(END_SECONDS)) == (0, 2)
    assert (fine.poll(), wrong.poll()) == (0, 2)
    assert "flnet" in (tmp_path / "a").read_text()
    assert "node-port" in (tmp_path / "b").read_text()


def test_each_has_the_environment_that_it_was_given(forks: NodeForks, tmp_path: Path) -> None:
    one = start(forks, tmp_path / "a", "run", FLNET_NODE_PORT="no port")
    assert one.wait(END_SECONDS) == 2
    assert "FLNET_NODE_PORT" in (tmp_path / "a").read_text()


def test_two_nodes_run_beside_each_other_and_end_when_asked(forks: NodeForks, tmp_path: Path) -> None:
    (one, port), (other, other_port) = node(forks, tmp_path, "a"), node(forks, tmp_path, "b")
    until(lambda: answers(port, "a") and answers(other_port, "b"), "two nodes")
    assert one.pid != other.pid
    assert {psutil.Process(process.pid).ppid() for process in (one, other)} == {forks.pid}
    assert {os.getsid(process.pid) for process in (one, other)} == {one.pid, other.pid}
    one.terminate()
    assert one.wait(END_SECONDS) == 0
    assert other.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.1)
    other.kill()
    assert other.wait(END_SECONDS) == -signal.SIGKILL
    other.terminate()  # of a process that has ended: nothing


@pytest.mark.slow
def test_nodes_end_when_their_starter_does(tmp_path: Path) -> None:
    with node_forks(os.environ) as forks:
        one, port = node(forks, tmp_path)
        until(lambda: answers(port, "a"), "the node")
    until(lambda: not alive(one.pid), "its end")
    with node_forks(os.environ) as forks:
        one, port = node(forks, tmp_path)
        until(lambda: answers(port, "a"), "the node")
        os.kill(forks.pid, signal.SIGKILL)
        until(lambda: not alive(one.pid), "its end")
        assert one.poll() == -signal.SIGKILL  # nobody knows how it ended
        with pytest.raises(StartError, match="fork"):
            start(forks, tmp_path / "x", "--version")


@pytest.mark.slow
def test_many_nodes_are_forked_with_keys_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_mesh, "FORKED_FROM", 3)
    ports = [free_port() for _ in range(3)]
    with local_nodes("SMALL_DIGITS", ports, tmp_path / "nodes") as nodes:
        assert all(isinstance(one.process, ForkedNode) for one in nodes)
        for one in nodes:
            with NodeClient(one.address) as client:
                until(lambda client=client: _knows(client, 2), "the mesh")  # type: ignore[misc]
        pids = [one.process.pid for one in nodes]
    assert not any(map(alive, pids))
    assert len({noted(tmp_path / "nodes" / one.id) for one in nodes}) == 3


def _knows(client: NodeClient, count: int) -> bool:
    try:
        return alive_peers(client) == count
    except (PeerUnreachable, PeerTimeout):
        return False


def test_a_folder_whose_key_is_damaged_is_told_before_nodes_start(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / PRIVATE).write_bytes(b"no key")
    with pytest.raises(StartError, match="is damaged"):
        make_keys([tmp_path / "a", tmp_path / "b"])
    make_keys([])
