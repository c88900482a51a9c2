"""The child that nodes share: what is one node's is not another's, and no node is held up or ended by another for long."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flnet.compute.assignment import assignment
from flnet.compute.channel import ChildChannel, WorkOrder, WorkReply, receive_message, send_message
from flnet.compute.in_process import InProcessBackend
from flnet.compute.training_child import NotForked, forked, running_fork_server
from flnet.compute.verbs import EvaluateRequest, PrepareRequest
from flnet.compute.worker import _answer, _Place
from flnet.errors import TrainerError, WorkerDied
from flnet.settings import Settings
from flnet.trainer import TrainerFile
from tests.alive import alive
from tests.compute.bench import ENDLESS, PATIENCE_S, START, TINY, Bench, eventually, plugin
from tests.compute.conftest import MakeBench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux has them")
LEAVE_S = 0.5  # of the server here, in place of some seconds
_IMPATIENT = f"""
import sys
from flnet.compute import fork_server
fork_server.LEAVE_S = {LEAVE_S}
fork_server.main(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    """A fork server whose shared children part from a node within half a second."""
    popen = subprocess.Popen

    def impatient(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", _IMPATIENT, command[-1]], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", impatient)
        started = running_fork_server()
        path = started.__enter__()
    assert path is not None
    yield path
    started.__exit__(None, None, None)


@pytest.fixture
def nodes(bench: MakeBench, server: Path) -> MakeBench:
    """Makes queues of nodes that share a child."""
    return lambda **settings: bench("shared", **{"fork_server": server, **settings})


async def loaded(node: Bench) -> int:
    """Load a trainer; the child's process id."""
    await node.queue.call(TINY, PrepareRequest())
    child = node.child()
    assert child is not None
    return child


async def test_nodes_share_a_process_and_neither_trainers_nor_what_these_remember(
    nodes: MakeBench, folder: Path
) -> None:
    count = """
        self.calls = getattr(self, "calls", 0) + 1
        return Fit({**task.params, "steps": np.full(1, self.calls, "float32")}, examples=3)
"""
    name, ones = plugin(folder, "COUNTS", fit=count), [nodes() for _ in range(3)]
    for turn in (1, 2):
        fits = await asyncio.gather(*(one.fitting(name) for one in ones))
        assert [fit.params["steps"][0] for fit, _ in fits] == [turn] * 3
    assert len({one.child() for one in ones}) == 1
    assert psutil.Process(ones[0].child()).ppid() != os.getpid()


async def test_a_node_that_ends_leaves_the_child_to_the_others_and_the_last_one_ends_it(nodes: MakeBench) -> None:
    ones = [nodes() for _ in range(3)]
    (child,) = {await loaded(one) for one in ones}
    files = psutil.Process(child).num_fds()
    await ones[0].close()
    await eventually(lambda: psutil.Process(child).num_fds() == files - 2)  # its socket and its log
    assert await loaded(ones[1]) == child
    ones[1].queue.backend.rest()  # after some time without work it gives its place up, too
    assert await loaded(ones[2]) == child
    assert await loaded(ones[1]) == child  # and has another one when there is work
    await ones[1].close()
    await ones[2].close()
    await eventually(lambda: not alive(child))
    assert await loaded(nodes()) != child


async def test_one_training_is_done_after_the_other_and_each_can_be_cancelled(
    nodes: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    first, second, third = nodes(), nodes(), nodes()
    running = first.fitting(name)
    await first.until_it_trains()
    child, waits, last = first.child(), second.fitting(name), third.fitting(name)
    await eventually(lambda: second.child() and third.child())
    await asyncio.sleep(0.2)
    assert not second.progress
    second.queue.cancel(name)  # while it waits: it is answered before its turn
    with pytest.raises(TrainerError, match="cancelled"):
        await waits
    assert not running.done()
    first.queue.cancel(name)
    with pytest.raises(TrainerError, match="cancelled"):
        await running
    await third.until_it_trains()
    third.queue.cancel(name)
    with pytest.raises(TrainerError, match="cancelled"):
        await last
    assert first.child() == second.child() == third.child() == child


async def test_what_a_node_that_ended_was_training_is_given_up(nodes: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one, other = nodes(), nodes()
    child = await loaded(other)
    one.fitting(name)
    await one.until_it_trains()
    await one.close()
    assert await loaded(other) == child
    assert one.child() is None


async def test_a_crash_is_that_of_one_node_and_the_orders_of_others_go_to_the_next_child(
    nodes: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "CRASHES", fit="import ctypes; time.sleep(0.5); ctypes.string_at(0)")
    quiet = plugin(folder, "QUIET")
    one, other, idle = nodes(), nodes(), nodes()
    (child,) = {await loaded(node) for node in (one, other, idle)}
    crash = one.fitting(name)
    await asyncio.sleep(0.2)
    waiting = asyncio.create_task(other.queue.call(quiet, EvaluateRequest(START)))
    with pytest.raises(WorkerDied, match=r"killed by signal 11 \(SIGSEGV\)"):
        await crash
    assert (await waiting).examples == 4
    assert {await loaded(node) for node in (one, idle)} == {other.child()} != {child}


async def test_a_trainer_that_hangs_ends_with_the_child_and_the_others_go_on(
    nodes: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "HANGS", fit="task.progress(1, 2); time.sleep(600)")
    one, other = nodes(), nodes()
    child = await loaded(other)
    hangs = one.fitting(name)
    await one.until_it_trains()
    waiting = asyncio.create_task(loaded(other))
    one.queue.cancel(name, at_once=True)
    with pytest.raises(TrainerError, match="cancelled"):
        await hangs
    assert await waiting != child
    assert await loaded(one) == other.child()


async def test_a_node_that_is_killed_while_its_trainer_hangs_is_no_burden(
    nodes: MakeBench, folder: Path, server: Path
) -> None:
    plugin(folder, "HANGS", fit="task.progress(1, 2); time.sleep(600)")
    code = _NODE.replace("ENDLESS", "HANGS")
    with subprocess.Popen([sys.executable, "-c", code, str(folder), str(server)], stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        child = int(node.stdout.readline())
        other = nodes()
        waiting = asyncio.create_task(loaded(other))
        await eventually(lambda: other.child() == child)
        node.kill()
    assert await waiting != child
    await eventually(lambda: not alive(child))


_NODE = """
import asyncio, sys
from flnet.settings import Settings
from flnet.compute.queue import make_queue
from flnet.compute.verbs import FitRequest
from tests.helpers import HYPER
from tests.compute.bench import START

async def main(folder, server):
    told = lambda *progress: print(queue.backend.pid, flush=True)
    settings = dict(trainers_path=folder, state_path=folder + "/state", fork_server=server, compute="shared")
    queue = make_queue(Settings(**settings), told)
    await queue.call("ENDLESS", FitRequest(START, HYPER, seed=1))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_the_time_to_load_data_is_counted_from_its_turn(nodes: MakeBench, folder: Path) -> None:
    slow = plugin(folder, "SLOW", fit="task.progress(1, 2); time.sleep(1.5)")
    stuck = plugin(folder, "STUCK", make="time.sleep(600)")
    one, other = nodes(), nodes()
    child = await loaded(one)
    training = one.fitting(slow)
    await one.until_it_trains()
    started = time.monotonic()
    await other.queue.call(TINY, PrepareRequest(seconds=0.8))
    assert time.monotonic() - started > 0.8
    assert other.child() == child
    await training
    with pytest.raises(TrainerError, match=r"STUCK did not load its data within 0.3 s"):
        await other.queue.call(stuck, PrepareRequest(seconds=0.3))


async def test_without_a_place_no_child_of_its_own_is_started(bench: MakeBench, tmp_path: Path) -> None:
    one = bench("shared", fork_server=tmp_path / "nothing")
    with pytest.raises(WorkerDied, match=r"no place in the training process that nodes share: .*No such file"):
        await one.queue.call(TINY, PrepareRequest())
    assert one.child() is None


async def test_an_order_whose_children_all_die_before_its_turn_is_given_up(
    nodes: MakeBench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flnet.compute.training_child._TRIES", 1)
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one, other = nodes(), nodes()
    child = await loaded(other)
    running = one.fitting(name)
    await one.until_it_trains()
    waiting = other.fitting(name)
    await eventually(lambda: other.queue.backend._running)  # type: ignore[attr-defined]
    await asyncio.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    for order in (running, waiting):
        with pytest.raises(WorkerDied, match="SIGKILL"):
            await asyncio.wait_for(order, PATIENCE_S)


async def test_frameworks_have_children_of_their_own(nodes: MakeBench, folder: Path) -> None:
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text("")
    here = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    name = plugin(folder, "OURS", head=here + "import jax\n")
    os.environ["PYTHONPATH"] = str(folder)
    with running_fork_server() as path:
        one, other = nodes(fork_server=path), nodes(fork_server=path)
        child = await loaded(one)
        assert await loaded(other) == child
        await other.queue.call(name, EvaluateRequest(START))
        assert other.child() != child == one.child()
        both = other.child()
        assert await loaded(other) == both  # where a framework is, a trainer without one can work, too


async def test_what_a_trainer_forks_keeps_no_socket_of_any_node(nodes: MakeBench, folder: Path) -> None:
    name = plugin(folder, "FORKS", fit="os.fork() == 0 and (time.sleep(600), os._exit(0))")
    one, other = nodes(), nodes()
    child = await loaded(other)
    await one.fitting(name)
    os.kill(child, signal.SIGKILL)
    await eventually(lambda: one.child() is None and other.child() is None)
    assert await loaded(one) == await loaded(other)


def test_what_a_trainer_prints_is_in_the_log_of_its_node(server: Path, folder: Path, tmp_path: Path) -> None:
    name = plugin(folder, "PRINTS", evaluate="print('from', self.settings.seed)")
    file = TrainerFile(name, str(folder / f"{name}.py"))
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    places = [_place(server, log) for log in logs]
    settings = Settings(trainers_path=folder, state_path=folder / "state")
    for number, (_, channel) in enumerate(places):
        given = assignment(settings.model_copy(update={"seed": number}), file)
        channel.send(WorkOrder(1, given, EvaluateRequest(START)))
        while not isinstance(reply := channel.receive(), WorkReply):
            pass
        assert reply.error is None
    for connection, channel in places:
        connection.close()
        assert channel.receive() is None
        channel.close()
    assert [re.findall("from .", log.read_text()) for log in logs] == [["from 0"], ["from 1"]]


def _place(server: Path, log: Path) -> tuple[socket.socket, ChildChannel]:
    """A place in the shared child for a node with this log."""
    ours, theirs = socket.socketpair()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(server))
    order = {"frameworks": [], "module": "", "threads": 1, "environment": dict(os.environ), "folder": "/"}
    with theirs, log.open("wb") as output:
        send_message(connection, {**order, "shared": True}, (theirs.fileno(), output.fileno()))
    answer = receive_message(connection, 0)
    assert answer is not None and isinstance(answer[0]["pid"], int)
    return connection, ChildChannel(ours)


def test_a_node_does_not_wait_for_a_reply_that_cannot_be_sent() -> None:
    ours, theirs = (ChildChannel(end) for end in socket.socketpair())
    with pytest.raises(TypeError, match="cannot be sent"):
        _answer(_Place(ours, InProcessBackend()), WorkReply(object(), None))
    assert theirs.receive() is None
    ours.close()
    theirs.close()


def test_a_place_whose_socket_is_closed_is_told_to_be_over(server: Path) -> None:
    one, other = (forked(server, TrainerFile("TINY", "somewhere"), 1, shares=True) for _ in range(2))
    assert one.pid == other.pid
    one.channel.close()
    assert one.wait(30.0) == 0
    assert not other.has_ended()
    one.close()
    other.kill()
    assert other.wait(30.0) == -signal.SIGKILL
    other.close()


def test_a_framework_that_cannot_be_imported_leaves_no_place(server: Path) -> None:
    with pytest.raises(NotForked, match="ModuleNotFoundError"):
        forked(server, TrainerFile("X", "x", frameworks=frozenset({"no_such_framework"})), 1, shares=True)
