"""The server that forks training children: its children are like any others, and none of them is left behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from flnet.compute.channel import receive_message, send_message
from flnet.compute.training_child import running_fork_server
from flnet.compute.verbs import EvaluateRequest, FitRequest, PrepareRequest
from flnet.params.params import Params, TrainerId
from flnet.protocol.messages import HyperParams
from tests.alive import alive
from tests.compute.bench import ENDLESS, START, TINY, Bench, eventually, plugin
from tests.compute.conftest import MakeBench
from tests.trainers.cifar_forms import unpacked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux has them")


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    """A fork server for all tests of this module that leave it running."""
    with running_fork_server() as path:
        assert path is not None
        yield path


@pytest.fixture
def ends_after_the_test() -> Iterator[ExitStack]:
    """What is entered here is left again, also after a failure."""
    with ExitStack() as stack:
        yield stack


def served() -> list[psutil.Process]:
    """The fork server that was started last, and all below it."""
    for process in sorted(psutil.Process().children(), key=psutil.Process.create_time, reverse=True):
        with suppress(psutil.NoSuchProcess):  # another one that ends just now
            if "flnet.compute.fork_server" in process.cmdline():
                return [process, *process.children(recursive=True)]
    return []


async def forked(one: Bench) -> int:
    """Its child, which the server has forked."""
    await one.queue.call(TINY, PrepareRequest())
    child = one.child()
    assert child is not None
    assert child in [process.pid for process in served()]
    return child


async def test_nodes_share_one_process_that_has_imported_the_framework(bench: MakeBench, folder: Path) -> None:
    (folder / "jax").mkdir()  # a stand-in that counts how often it is imported
    (folder / "jax" / "__init__.py").write_text(f"open({str(folder / 'log')!r}, 'a').write('x')")
    check = "assert 'jax' in sys.modules"
    name = plugin(folder, "OURS", head=f"sys.path.insert(0, {str(folder)!r})\nimport jax\n", evaluate=check)
    text = (folder / "OURS.py").read_text()
    (folder / "OURS.py").write_text("import sys\n" + text)
    os.environ["PYTHONPATH"] = str(folder)
    with running_fork_server() as path:
        nodes = [bench(fork_server=path) for _ in range(3)]
        for node in nodes:
            assert (await node.queue.call(name, EvaluateRequest(START))).accuracy == 0.5
        assert len({node.child() for node in nodes}) == 3
        assert (folder / "log").read_text() == "x"
        template = {psutil.Process(node.child()).ppid() for node in nodes}
        await nodes[0].queue.call(TINY, PrepareRequest())  # without a framework, it goes to the same child
        other = bench(fork_server=path)
        await other.queue.call(TINY, PrepareRequest())
        assert len(template) == 1
        assert psutil.Process(other.child()).ppid() not in template


async def test_a_child_has_temporary_files_of_its_own_though_the_framework_has_made_some(
    bench: MakeBench, folder: Path
) -> None:
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text("import tempfile; tempfile.gettempdir()")
    log = f"open({str(folder / 'log')!r}, 'a').write(tempfile.gettempdir() + ' ' + os.environ['TMPDIR'] + chr(10))"
    head = f"import os, sys, tempfile\nsys.path.insert(0, {str(folder)!r})\nimport jax\n"
    name = plugin(folder, "OURS", head=head, evaluate=log)
    os.environ["PYTHONPATH"] = str(folder)
    with running_fork_server() as path:
        for node in (bench(fork_server=path), bench(fork_server=path)):
            await node.queue.call(name, EvaluateRequest(START))
            assert psutil.Process(node.child()).ppid() != os.getpid()
    places = [line.split() for line in (folder / "log").read_text().splitlines()]
    assert all(used == given for used, given in places), places
    assert len({used for used, _ in places}) == 2


async def test_a_framework_that_starts_threads_is_not_forked(
    bench: MakeBench, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "jax").mkdir()
    thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (folder / "jax" / "__init__.py").write_text(thread)
    name = plugin(folder, "OURS", head="import jax\n")
    os.environ["PYTHONPATH"] = str(folder)
    with running_fork_server() as path:
        one = bench(fork_server=path)
        assert (await one.queue.call(name, EvaluateRequest(START))).accuracy == 0.5
        assert "jax started 1 threads when imported" in caplog.text
        assert psutil.Process(one.child()).ppid() == os.getpid()


async def test_a_child_ends_when_its_node_lets_go_of_it(bench: MakeBench, server: Path) -> None:
    one, other = bench(fork_server=server), bench(fork_server=server)
    child, neighbour = await forked(one), await forked(other)
    await one.close()
    await eventually(lambda: not alive(child))
    assert alive(neighbour)
    assert other.child() == neighbour


_NODE = """
import asyncio, sys
from pathlib import Path
from flnet.settings import Settings
from flnet.compute.queue import make_queue
from flnet.compute.verbs import FitRequest
from tests.helpers import HYPER
from tests.compute.bench import START

async def main(folder, server):
    told = lambda *progress: print(queue.backend.pid, flush=True)
    queue = make_queue(Settings(trainers_path=folder, state_path=folder + "/state", fork_server=server), told)
    await queue.call("ENDLESS", FitRequest(START, HYPER, seed=1))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_child_ends_with_a_node_that_is_killed(folder: Path, server: Path) -> None:
    plugin(folder, "ENDLESS", fit="while True: task.progress(1, 2)")
    node = subprocess.Popen([sys.executable, "-c", _NODE, str(folder), str(server)], stdout=subprocess.PIPE)
    with node:
        assert node.stdout is not None
        child = int(node.stdout.readline())
        assert psutil.Process(child).ppid() != node.pid
        node.kill()
    await eventually(lambda: not alive(child))


@pytest.mark.parametrize("which", [0, 1], ids=["the server", "what it keeps for the framework"])
async def test_when_the_server_is_killed_its_children_end_and_nodes_go_on(
    bench: MakeBench, folder: Path, which: int, ends_after_the_test: ExitStack
) -> None:
    server = ends_after_the_test.enter_context(running_fork_server())
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(fork_server=server)
    running_fit = one.fitting(name)
    await one.until_it_trains()
    child = one.child()
    served()[which].send_signal(signal.SIGKILL)
    with pytest.raises(Exception, match=r"nothing tells why|killed by signal 9"):
        await running_fit
    await eventually(lambda: not alive(child))
    assert (await one.queue.call(name, EvaluateRequest(START))).examples == 4
    assert (psutil.Process(one.child()).ppid() == os.getpid()) == (which == 0)


async def test_all_end_with_the_one_who_started_the_server(bench: MakeBench) -> None:
    with running_fork_server() as path:
        child = await forked(bench(fork_server=path))
        processes = served()
        assert len(processes) == 3
    await eventually(lambda: not any(alive(process.pid) for process in processes))
    assert not alive(child)
    assert path is not None and not path.exists()


async def test_a_child_is_told_its_nodes_environment_log_and_folder(
    bench: MakeBench,
    folder: Path,
    server: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NODES_OWN", str(folder))
    monkeypatch.chdir(folder)
    tell = "print(os.environ['NODES_OWN'], os.getcwd(), np.random.random(), flush=True)"
    name = plugin(folder, "TELLS", evaluate=tell)
    for _ in range(2):
        await bench(fork_server=server).queue.call(name, EvaluateRequest(START))
    first, second = (line.split() for line in capfd.readouterr().err.splitlines() if line.startswith(str(folder)))
    assert first[:2] == [str(folder), str(folder)]
    assert first[2] != second[2]


async def test_each_child_has_its_own_share_of_the_processors(bench: MakeBench, server: Path) -> None:
    children = [await forked(bench(fork_server=server)) for _ in range(2)]
    assert len({os.getsid(pid) for pid in (*children, served()[0].pid, os.getpid())}) == 4


async def test_a_child_holds_nothing_of_its_siblings(bench: MakeBench, folder: Path, server: Path) -> None:
    count = """
        links = [os.readlink(f'/proc/self/fd/{f}')[:7] for f in range(64) if os.path.exists(f'/proc/self/fd/{f}')]
        raise TrainerError(str(sorted(links)))
"""
    name = plugin(folder, "COUNTS", evaluate=count)
    said = []
    for _ in range(3):
        one = bench(fork_server=server)
        await one.queue.call(name, PrepareRequest())
        with pytest.raises(Exception, match="socket") as raised:
            await one.queue.call(name, EvaluateRequest(START))
        said.append(str(raised.value))
    assert said[0].count("socket:") == 1
    assert said[0] == said[1] == said[2]


_IMPATIENT = """
import sys
from flnet.compute import fork_server
fork_server.IDLE_S = 0.05
fork_server.main(int(sys.argv[1]))
"""


async def test_what_was_imported_is_given_up_when_nobody_has_a_child_any_more(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, ends_after_the_test: ExitStack
) -> None:
    popen = subprocess.Popen

    def impatient(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", _IMPATIENT, command[-1]], **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", impatient)
        path = ends_after_the_test.enter_context(running_fork_server())
    one = bench(fork_server=path)
    await one.queue.call(TINY, PrepareRequest())
    child = one.child()
    template = psutil.Process(child).ppid()
    assert template != os.getpid()
    one.queue.backend.rest()
    await eventually(lambda: not alive(template))
    await one.queue.call(TINY, PrepareRequest())  # another one comes when it is needed
    assert psutil.Process(one.child()).ppid() not in (template, os.getpid())
    await one.close()


async def test_a_wrong_order_harms_nobody(bench: MakeBench, server: Path) -> None:
    orders: list[Any] = [b"nonsense", {}, {"frameworks": 1, "threads": 1}]
    for order in (*orders, {"frameworks": [], "threads": "x", "module": ""}):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(server))
            caller.sendall(order + bytes(100)) if isinstance(order, bytes) else send_message(caller, order)
            assert receive_message(caller, 0) is None
    await forked(bench(fork_server=server))


@pytest.mark.long
@pytest.mark.parametrize(("trainer", "framework"), [("MNIST", "torch"), ("CIFAR10", "tensorflow")])
async def test_a_forked_child_learns_the_same_as_one_of_the_nodes_own(
    bench: MakeBench, tmp_path: Path, server: Path, trainer: str, framework: str
) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    unpacked(tmp_path)
    digests, hyper = set(), HyperParams(e=1, u=0.02, b=32)
    for path in (None, server):
        one = bench(datasets_path=tmp_path, fork_server=path)
        _, start = await one.queue.call(TrainerId(trainer), PrepareRequest())
        fit, score = await one.queue.call(TrainerId(trainer), FitRequest(start, hyper, seed=3))
        digests.add((Params(fit.params).digest, score.accuracy))
        assert (psutil.Process(one.child()).ppid() != os.getpid()) == (path is not None)
    assert len(digests) == 1
