"""How a node gets a child from a fork server, and what it does when there is none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flnet.training.api import TrainerFile
from flnet.training.channel import send_message
from flnet.training.forking import Forked, NotForked, forked, running
from flnet.training.frames import Frame
from tests.training.bench import TINY
from tests.training.conftest import MakeBench

FILE = TrainerFile("TINY", "somewhere")


@pytest.fixture
def server() -> Iterator[Path]:
    with running() as path:
        assert path is not None
        yield path


def test_only_this_person_can_reach_the_server(server: Path) -> None:
    assert server.parent.stat().st_mode & 0o777 == 0o700
    assert server.parent.stat().st_uid == os.getuid()


def test_a_child_of_the_server_is_known_by_its_end(server: Path) -> None:
    first, second = forked(server, FILE, 1), forked(server, FILE, 1)
    assert first.pid != second.pid
    assert not first.has_ended()
    assert first.wait(0.0) is None
    first.channel.send(Frame({"do": "cancel", "number": 7}))
    first.kill()
    assert first.wait(30.0) == -signal.SIGKILL
    assert first.has_ended()
    assert first.channel.receive() is None
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait(30.0) == -signal.SIGTERM
    first.close()
    second.close()
    assert second.wait(0.0) == -signal.SIGTERM


def test_a_child_whose_node_closes_the_channel_ends_by_itself(server: Path) -> None:
    child = forked(server, FILE, 1)
    child.channel.close()
    assert child.wait(30.0) == 0
    child.close()


async def test_a_node_without_its_server_starts_its_own_child_and_says_so(
    bench: MakeBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = bench(fork_server=tmp_path / "nothing")
    await one.pool.prepare(TINY)
    assert one.child() is not None
    assert "no training child from the fork server ([Errno 2] No such file or directory)" in caplog.text


async def test_a_framework_that_cannot_be_imported_is_left_to_the_child(
    server: Path,
) -> None:
    with pytest.raises(NotForked, match="ModuleNotFoundError: No module named 'no_such_framework'"):
        forked(server, TrainerFile("X", "x", frameworks=frozenset({"no_such_framework"})), 1)


def test_what_is_no_fork_server_is_not_taken_for_one() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        for answer in (None, {"pid": "x"}, {"refused": "no"}):
            caller = _answering(listener, answer)
            with pytest.raises(NotForked):
                forked(Path(folder, "s"), FILE, 1)
            caller.join()


def _answering(listener: socket.socket, answer: dict[str, str] | None) -> threading.Thread:
    def work() -> None:
        with listener.accept()[0] as caller:
            if answer is not None:
                send_message(caller, answer)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_path_that_is_too_long_for_a_socket_means_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with running() as path:
        assert path is None


def test_an_unresponsive_server_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.training.forking._END_S", 0.01)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*args: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    with running():
        started[0].send_signal(signal.SIGSTOP)
    assert started[0].poll() == -signal.SIGKILL


def test_a_server_that_says_odd_things_is_taken_for_gone() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        child = Forked(ours, 1, None)  # type: ignore[arg-type]
        theirs.sendall(b"what is this? no frame, that is sure")
        assert child.has_ended()
        assert child.wait(0.0) is None
        ours.close()
