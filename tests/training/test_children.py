"""A child that the node starts by itself: known by its end, and told nothing that it should not know."""

from __future__ import annotations

import signal
import socket
import sys

import pytest

from flnet.errors import WorkerDied
from flnet.training.children import environment, spawned
from flnet.training.frames import Frame


def test_a_child_answers_and_its_end_is_known() -> None:
    child = spawned(threads=1)
    try:
        assert not child.has_ended()
        assert child.wait(0.0) is None
        child.channel.send(Frame({"do": "cancel", "number": 7}))
    finally:
        child.kill()
    assert child.wait(30.0) == -signal.SIGKILL
    assert child.has_ended()
    assert child.channel.receive() is None
    child.close()


def test_a_child_that_loses_its_node_ends_by_itself() -> None:
    child = spawned(threads=1)
    child.channel.close()
    assert child.wait(30.0) == 0


def test_a_child_gets_the_environment_without_the_settings() -> None:
    assert environment({"FLNET_SEED": "1", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_a_system_that_starts_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerDied, match=r"cannot be started: .*nowhere"):
        spawned(threads=1)
    monkeypatch.delattr(socket, "send_fds")
    with pytest.raises(WorkerDied, match="set FLNET_COMPUTE to thread"):
        spawned(threads=1)
