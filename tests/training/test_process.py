"""The child process: it comes when needed, goes when idle, and whatever kills it, the node lives on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import WorkerDied
from flnet.params import Params
from flnet.training.forking import running
from flnet.training.process import _cause_of_death, _clash
from tests.helpers import HYPER, params
from tests.training.bench import ENDLESS, START, TINY, eventually, plugin
from tests.training.conftest import MakeBench


@pytest.fixture(scope="module")
def server() -> Iterator[Path | None]:
    with running() as path:
        yield path


@pytest.fixture(params=["spawned", "forked"])
def bench(bench: MakeBench, request: pytest.FixtureRequest) -> MakeBench:
    """Lanes whose children are started by themselves, and by a fork server."""
    if request.param == "spawned":
        return bench
    path = request.getfixturevalue("server")
    return lambda **settings: bench(fork_server=path, **settings)


async def test_a_killed_child_ends_its_task_in_words_and_the_next_one_gets_a_new_child(
    bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench()
    running = one.fitting(name)
    await one.until_it_trains()
    first = one.child()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"the training process was killed by signal 9 \(SIGKILL\); often"):
        await running
    await one.pool.prepare(TINY)
    assert one.child() not in (None, first)


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        ("os._exit(7)", "ended by itself with exit code 7"),
        ("import ctypes; ctypes.string_at(0)", r"killed by signal 11 \(SIGSEGV\)"),
        ("os.closerange(3, 64); os._exit(0)", "ended by itself with exit code 0"),
    ],
)
async def test_a_child_that_ends_in_a_task_is_reported(
    bench: MakeBench, folder: Path, fit: str, words: str
) -> None:
    name = plugin(folder, "FATAL", fit=fit)
    one = bench()
    with pytest.raises(WorkerDied, match=words):
        await one.pool.fit(name, START, HYPER, seed=1)
    assert (await one.pool.evaluate(name, START)).examples == 4


@pytest.mark.parametrize(
    "answer",
    [
        "os.write(end, b'no frame at all, but quite some bytes')",
        "channel.send(Frame({'answer': 'fitted', 'loaded': []}))",
        "channel.send(Frame({'answer': 'evaluated', 'loaded': []}))",
        "channel.send(Frame({'what': 1}))",
        "channel.send(Frame({'answer': 'progress', 'done': 1}))",
    ],
)
async def test_a_child_that_answers_nonsense_is_ended(bench: MakeBench, folder: Path, answer: str) -> None:
    fit = f"""
        import socket
        from flnet.training.channel import Channel
        from flnet.training.frames import Frame
        (end,) = [f for f in range(3, 64) if is_socket(f)]
        channel = Channel(socket.socket(fileno=end))
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
    name = plugin(folder, "RAVES", fit=fit, head=head)
    one = bench()
    with pytest.raises(WorkerDied, match="answered nonsense"):
        await one.pool.fit(name, START, HYPER, seed=1)
    assert one.child() is None
    assert (await one.pool.evaluate(name, START)).examples == 4


async def test_large_arrays_go_both_ways_and_leave_nothing_open(bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ECHO", fit="return Fit({'w': task.params['w'] + 1}, examples=3)")
    one, model = bench(), params(w=np.zeros((1000, 100), "float32"))
    opened = 0
    for turn in range(12):
        fit, _ = await one.pool.fit(name, model, HYPER, seed=1)
        model = Params(fit.params)
        assert np.all(model["w"] == turn + 1)
        await one.pool.evaluate(name, model)
        opened = opened or len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(Path("/proc/self/fd").iterdir())) <= opened + 1


async def test_a_child_killed_while_idle_is_not_missed(bench: MakeBench) -> None:
    one = bench()
    _, start = await one.pool.prepare(TINY)
    child = one.child()
    assert child is not None
    os.kill(child, signal.SIGKILL)
    await eventually(lambda: one.child() is None)
    assert (await one.pool.evaluate(TINY, start)).examples == 100


async def test_a_fork_of_the_trainer_does_not_hide_the_death_of_the_child(bench: MakeBench, folder: Path) -> None:
    fit = """
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        os.kill(os.getpid(), 9)
"""
    name = plugin(folder, "FORKS", fit=fit)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        await bench().pool.fit(name, START, HYPER, seed=1)


async def test_the_idle_child_is_ended_and_comes_back_unnoticed(bench: MakeBench) -> None:
    one = bench(worker_idle_seconds=0.05)
    assert one.child() is None  # nothing is started before there is work
    declaration, start = await one.pool.prepare(TINY)
    await eventually(lambda: one.child() is None)
    fit, score = await one.pool.fit(TINY, start, declaration.defaults, seed=1)
    assert (fit.examples, score.accuracy > 0.9) == (100, True)


async def test_one_child_serves_several_trainers_and_trains_at_low_priority(
    bench: MakeBench, folder: Path
) -> None:
    other = plugin(folder, "OTHER")
    one = bench()
    await one.pool.prepare(TINY)
    child = one.child()
    await one.pool.prepare(other)
    assert os.getpriority(os.PRIO_PROCESS, child or 0) == os.getpriority(
        os.PRIO_PROCESS, 0
    )  # loading is not to take forever
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
    one = bench()
    children = []
    for name in (ours, TINY, ours, theirs, TINY, ours):
        await one.pool.evaluate(name, START) if name != TINY else await one.pool.prepare(TINY)
        children.append(one.child())
    assert children[0] == children[1] == children[2] != children[3] == children[4] != children[5]


def test_a_trainer_with_the_same_or_no_framework_shares_the_child() -> None:
    torch, tensorflow, none = frozenset({"torch"}), frozenset({"tensorflow"}), frozenset[str]()
    assert _clash(torch, tensorflow)
    assert not _clash(torch, torch)
    assert not _clash(torch, none)
    assert not _clash(none, torch)
    assert not _clash(torch, torch | tensorflow)  # its own choice


async def test_the_child_does_not_see_the_settings_of_the_node(
    bench: MakeBench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_SEED", "5")
    check = (
        "assert not [v for v in os.environ if v.startswith('FLNET_')]; assert os.environ['OMP_NUM_THREADS'] == '2'"
    )
    name = plugin(folder, "NOSY", evaluate=check)
    assert (await bench(compute_threads=2).pool.evaluate(name, START)).accuracy == 0.5


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
from flnet.training.pool import make_pool
from tests.training.bench import START
from tests.helpers import HYPER, params

async def main(folder):
    told = lambda *progress: print(pool.backend.pid, flush=True)
    pool = make_pool(Settings(trainers_path=folder, state_path=folder + "/state"), told)
    await pool.fit("ENDLESS", START, HYPER, seed=1)

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


_LEAN = """
import asyncio, sys
from flnet.settings import Settings
from flnet.training.pool import make_pool

async def main(state):
    pool = make_pool(Settings(state_path=state))
    declaration, params = await pool.prepare("MNIST")
    score = await pool.evaluate("MNIST", params)
    await pool.close()
    print(len(params), score.examples > 0, {"torch", "sklearn"} & set(sys.modules))

asyncio.run(main(sys.argv[1]))
"""


def test_the_node_never_imports_a_framework(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LEAN, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    node = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert node.stdout.split("\n")[0] == "8 True set()", node.stderr


async def test_the_end_of_its_input_ends_the_child_whatever_it_does(bench: MakeBench, folder: Path) -> None:
    """Where no signal tells of the parent's death, this does."""
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench()
    one.fitting(name)
    await one.until_it_trains()
    child = one.child()
    assert child is not None
    one.pool.backend._child.channel._end.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
    await eventually(lambda: one.child() is None)


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "exit code 1"), (-15, r"signal 15 (SIGTERM)"), (-9, "memory runs out"), (-250, "signal 250")],
)
def test_the_cause_of_death_is_named(code: int, words: str) -> None:
    assert words in _cause_of_death(code)
