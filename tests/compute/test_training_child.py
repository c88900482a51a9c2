"""The child process: it comes when needed, goes when idle, and whatever kills it, the node lives on."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flnet.compute.channel import CancelOrder, send_message
from flnet.compute.training_child import (
    Forked,
    NotForked,
    _describe_end,
    _frameworks_clash,
    environment,
    forked,
    running_fork_server,
    spawned,
)
from flnet.compute.verbs import EvaluateRequest, FitRequest, PrepareRequest
from flnet.errors import WorkerDied
from flnet.params.params import Params
from flnet.trainer import TrainerFile
from tests.compute.bench import ENDLESS, START, TINY, eventually, plugin
from tests.compute.conftest import MakeBench
from tests.helpers import HYPER, params


@pytest.fixture(params=["spawned", "forked"])
def any_bench(bench: MakeBench, request: pytest.FixtureRequest) -> MakeBench:
    """Queues whose children are new interpreters, and queues whose children a fork server makes."""
    return bench if request.param == "forked" else lambda **settings: bench(fork_server=None, **settings)


async def test_what_a_child_leaves_among_the_temporary_files_goes_with_it(
    any_bench: MakeBench, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    name = plugin(folder, "LEAVES", evaluate="import tempfile; tempfile.mkstemp()")
    one = any_bench()
    await one.queue.call(name, EvaluateRequest(START))
    (own,) = tmp_path.glob("flnet.child-*")
    assert len(list(own.iterdir())) == 1
    child = one.child()
    assert child is not None
    os.kill(child, signal.SIGKILL)
    await eventually(lambda: one.child() is None)
    await one.queue.call(TINY, PrepareRequest())
    assert not own.exists()
    await one.queue.close()
    assert not list(tmp_path.glob("flnet.child-*"))


async def test_a_child_works_without_a_temporary_folder_of_its_own(
    any_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    one = any_bench()
    await one.queue.call(TINY, PrepareRequest())
    assert one.child() is not None


async def test_a_killed_child_ends_its_task_in_words_and_the_next_one_gets_a_new_child(
    any_bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = any_bench()
    running = one.fitting(name)
    await one.until_it_trains()
    first = one.child()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"the training process was killed by signal 9 \(SIGKILL\); often"):
        await running
    await one.queue.call(TINY, PrepareRequest())
    assert one.child() not in (None, first)


async def test_a_child_that_ends_in_a_task_is_reported(any_bench: MakeBench, folder: Path) -> None:
    fatal = {
        "os._exit(7)": "ended by itself with exit code 7",
        "import ctypes; ctypes.string_at(0)": r"killed by signal 11 \(SIGSEGV\)",
        "os.closerange(3, 64); os._exit(0)": "ended by itself with exit code 0",
    }
    names = [plugin(folder, f"FATAL{number}", fit=fit) for number, fit in enumerate(fatal)]
    one = any_bench()
    for name, words in zip(names, fatal.values(), strict=True):
        with pytest.raises(WorkerDied, match=words):
            await one.queue.call(name, FitRequest(START, HYPER, seed=1))
    assert (await one.queue.call(names[-1], EvaluateRequest(START))).examples == 4


async def test_a_child_that_answers_nonsense_is_ended(bench: MakeBench, folder: Path) -> None:
    answers = (
        "os.write(end, b'no message at all, but quite some bytes')",
        "channel.send(WorkReply(None, None))",
        "channel.send(WorkReply(Score(0.5, 4), None))",
        "channel.send({'what': 1})",
        "channel.send(ProgressReport('x', None)) or os.write(end, b'xxxxxxx')",
    )
    fit = """
        import socket
        from flnet.compute.channel import ChildChannel, ProgressReport, WorkReply
        (end,) = [f for f in range(3, 64) if is_socket(f)]
        channel = ChildChannel(socket.socket(fileno=end))
        {answer}
        time.sleep(600)
"""
    head = """
def is_socket(f):
    import stat
    try:
        return stat.S_ISSOCK(os.fstat(f).st_mode)
    except OSError:
        return False
"""
    names = [plugin(folder, f"RAVES{n}", fit=fit.format(answer=a), head=head) for n, a in enumerate(answers)]
    one = bench()
    for name in names:
        with pytest.raises(WorkerDied, match="answered nonsense"):
            await one.queue.call(name, FitRequest(START, HYPER, seed=1))
        assert one.child() is None
    assert (await one.queue.call(names[-1], EvaluateRequest(START))).examples == 4


async def test_large_arrays_go_both_ways_and_leave_nothing_open(bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ECHO", fit="return Fit({'w': task.params['w'] + 1}, examples=3)")
    one, model = bench(), params(w=np.zeros((1000, 100), "float32"))
    opened = 0
    for turn in range(12):
        fit, _ = await one.queue.call(name, FitRequest(model, HYPER, seed=1))
        model = Params(fit.params)
        assert np.all(model["w"] == turn + 1)
        await one.queue.call(name, EvaluateRequest(model))
        opened = opened or len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(Path("/proc/self/fd").iterdir())) <= opened + 1


async def test_a_child_killed_while_idle_is_not_missed(bench: MakeBench) -> None:
    one = bench()
    _, start = await one.queue.call(TINY, PrepareRequest())
    child = one.child()
    assert child is not None
    os.kill(child, signal.SIGKILL)
    await eventually(lambda: one.child() is None)
    assert (await one.queue.call(TINY, EvaluateRequest(start))).examples == 100


async def test_a_fork_of_the_trainer_does_not_hide_the_death_of_the_child(bench: MakeBench, folder: Path) -> None:
    fit = """
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        os.kill(os.getpid(), 9)
"""
    name = plugin(folder, "FORKS", fit=fit)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        await bench().queue.call(name, FitRequest(START, HYPER, seed=1))


async def test_the_idle_child_is_ended_and_comes_back_unnoticed(any_bench: MakeBench) -> None:
    one = any_bench(worker_idle_seconds=0.05)
    assert one.child() is None  # nothing is started before there is work
    declaration, start = await one.queue.call(TINY, PrepareRequest())
    await eventually(lambda: one.child() is None)
    fit, score = await one.queue.call(TINY, FitRequest(start, declaration.defaults, seed=1))
    assert (fit.examples, score.accuracy > 0.9) == (100, True)


async def test_one_child_serves_several_trainers_and_trains_at_low_priority(
    bench: MakeBench, folder: Path
) -> None:
    other = plugin(folder, "OTHER")
    one = bench()
    await one.queue.call(TINY, PrepareRequest())
    child = one.child()
    await one.queue.call(other, PrepareRequest())
    # Loading is not to take forever.
    assert os.getpriority(os.PRIO_PROCESS, child or 0) == os.getpriority(os.PRIO_PROCESS, 0)
    for _ in range(2):
        await one.fitting(other)
    assert one.child() == child
    assert os.getpriority(os.PRIO_PROCESS, child or 0) == max(10, os.getpriority(os.PRIO_PROCESS, 0))


async def test_two_frameworks_never_meet_in_one_child(bench: MakeBench, folder: Path) -> None:
    for framework in ("torch", "tensorflow"):  # stand-ins, found before anything installed
        (folder / framework).mkdir()
        (folder / framework / "__init__.py").write_text("")
    here = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    check = "assert not {'torch', 'tensorflow'} <= set(sys.modules)"
    ours = plugin(folder, "OURS", head=here + "import torch\n", evaluate=check)
    theirs = plugin(folder, "THEIRS", head=here + "import tensorflow\n", evaluate=check)
    one = bench(fork_server=None)  # the server would import the real ones
    children = []
    for name in (ours, TINY, ours, theirs, TINY, ours):
        await one.queue.call(name, PrepareRequest())
        if name != TINY:
            await one.queue.call(name, EvaluateRequest(START))
        children.append(one.child())
    assert children[0] == children[1] == children[2] != children[3] == children[4] != children[5]
    mine = [getattr(sys.modules.get(framework), "__file__", None) or "" for framework in ("torch", "tensorflow")]
    assert not any(file.startswith(str(folder)) for file in mine)  # the node itself has imported neither


def test_a_trainer_with_the_same_or_no_framework_shares_the_child() -> None:
    torch, tensorflow, none = frozenset({"torch"}), frozenset({"tensorflow"}), frozenset[str]()
    assert _frameworks_clash(torch, tensorflow)
    assert not _frameworks_clash(torch, torch)
    assert not _frameworks_clash(torch, none)
    assert not _frameworks_clash(none, torch)
    assert not _frameworks_clash(torch, torch | tensorflow)  # its own choice


async def test_the_child_does_not_see_the_settings_of_the_node(
    bench: MakeBench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_SEED", "5")
    check = (
        "assert not [v for v in os.environ if v.startswith('FLNET_')]; assert os.environ['OMP_NUM_THREADS'] == '2'"
    )
    name = plugin(folder, "NOSY", evaluate=check)
    assert (await bench(compute_threads=2).queue.call(name, EvaluateRequest(START))).accuracy == 0.5


def _gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody collects the ended ones."""
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


_NODE = """
import asyncio, sys
from flnet.settings import Settings
from flnet.compute.queue import make_queue
from flnet.compute.verbs import FitRequest
from tests.compute.bench import START
from tests.helpers import HYPER, params

async def main(folder):
    told = lambda *progress: print(queue.backend.pid, flush=True)
    queue = make_queue(Settings(trainers_path=folder, state_path=folder + "/state"), told)
    await queue.call("ENDLESS", FitRequest(START, HYPER, seed=1))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_no_child_outlives_a_node_that_is_killed(folder: Path) -> None:
    plugin(folder, "ENDLESS", fit="while True: task.progress(1, 2)")
    node = subprocess.Popen([sys.executable, "-c", _NODE, str(folder)], stdout=subprocess.PIPE)
    with node:
        assert node.stdout is not None
        child = int(node.stdout.readline())
        assert not _gone(child)
        node.kill()
    await eventually(lambda: _gone(child))


async def test_the_end_of_its_input_ends_the_child_whatever_it_does(bench: MakeBench, folder: Path) -> None:
    """Where no signal tells of the parent's death, this does."""
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench()
    one.fitting(name)
    await one.until_it_trains()
    child = one.child()
    assert child is not None
    one.queue.backend._child.channel._end.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
    await eventually(lambda: one.child() is None)


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "exit code 1"), (-15, r"signal 15 (SIGTERM)"), (-9, "memory runs out"), (-250, "signal 250")],
)
def test_the_cause_of_death_is_named(code: int, words: str) -> None:
    assert words in _describe_end(code)


FILE = TrainerFile("TINY", "somewhere")


@pytest.fixture
def own_server() -> Iterator[Path]:
    with running_fork_server() as path:
        assert path is not None
        yield path


def test_only_this_person_can_reach_the_server(own_server: Path) -> None:
    assert own_server.parent.stat().st_mode & 0o777 == 0o700
    assert own_server.parent.stat().st_uid == os.getuid()


def test_a_child_of_the_server_is_known_by_its_end(own_server: Path) -> None:
    first, second = forked(own_server, FILE, 1), forked(own_server, FILE, 1)
    assert first.pid != second.pid
    assert not first.has_ended()
    assert first.wait(0.0) is None
    first.channel.send(CancelOrder(7))
    first.kill()
    assert first.wait(30.0) == -signal.SIGKILL
    assert first.has_ended()
    assert first.channel.receive() is None
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait(30.0) == -signal.SIGTERM
    first.close()
    second.close()
    assert second.wait(0.0) == -signal.SIGTERM


def test_a_child_whose_node_closes_the_channel_ends_by_itself(own_server: Path) -> None:
    child = forked(own_server, FILE, 1)
    child.channel.close()
    assert child.wait(30.0) == 0
    child.close()


async def test_a_node_without_its_server_starts_its_own_child_and_says_so(
    bench: MakeBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = bench(fork_server=tmp_path / "nothing")
    await one.queue.call(TINY, PrepareRequest())
    assert one.child() is not None
    assert "no training child from the fork server ([Errno 2] No such file or directory)" in caplog.text


async def test_a_framework_that_cannot_be_imported_is_left_to_the_child(
    own_server: Path,
) -> None:
    with pytest.raises(NotForked, match="ModuleNotFoundError: No module named 'no_such_framework'"):
        forked(own_server, TrainerFile("X", "x", frameworks=frozenset({"no_such_framework"})), 1)


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
    with running_fork_server() as path:
        assert path is None


def test_an_unresponsive_server_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.compute.training_child._END_S", 0.01)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*args: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    with running_fork_server():
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


def test_a_child_answers_and_its_end_is_known() -> None:
    child = spawned(threads=1)
    try:
        assert not child.has_ended()
        assert child.wait(0.0) is None
        child.channel.send(CancelOrder(7))
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


STEPS = """
import resource, sys
from flnet.compute import worker

def step():
    return [bytearray(8_000_000) for _ in range(5)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    worker._keep_memory()
step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


def new_pages(how: str) -> int:
    """Pages that ten steps of 40 MB each touch for the first time, after one such step, in a fresh process."""
    done = subprocess.run([sys.executable, "-c", STEPS, how], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library is told")
def test_the_memory_of_one_step_is_that_of_the_next() -> None:
    """A step of 40 MB has 9766 pages of 4 KiB."""
    assert new_pages("keep") < 5_000
    assert new_pages("as it is") > new_pages("keep")
