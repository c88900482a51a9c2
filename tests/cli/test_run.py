from __future__ import annotations

import asyncio
import ctypes
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.cli.run import ARENAS, loop_factory
from tests.cli.live import answers, environment, flnet, start, until
from tests.ports import free_port


@pytest.mark.parametrize(
    ("args", "variables", "toml", "words"),
    [
        (("--node-port", "99999"), {}, "", "--node-port=99999"),
        ((), {"FLNET_NODE_PROT": "1"}, "", "did you mean FLNET_NODE_PORT"),
        ((), {"FLNET_DATA_SHARD": "3/2"}, "", "FLNET_DATA_SHARD=3/2"),
        ((), {"FLNET_MESH_KEY": "swordfish"}, "", "the key of the mesh has 9 characters"),
        ((), {"FLNET_MESH_MODE": "keyed"}, "", "needs a FLNET_MESH_KEY"),
        ((), {}, "node_pot = 1", "node_pot in flnet.toml is no setting"),
        (("--config", "absent.toml"), {}, "", "absent.toml cannot be read"),
        (("--no-such-option",), {}, "", "No such option"),
    ],
)
def test_wrong_settings_stop_the_start_with_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    variables: dict[str, str],
    toml: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flnet.toml").write_text(toml)
    # Port 4000 may be another mesh's, which is another reason to stop.
    result = CliRunner().invoke(cli, ["run", *args], env={"FLNET_NODE_PORT": str(free_port()), **variables})
    assert result.exit_code == 2
    assert words in result.stderr
    assert "swordfish" not in result.output
    assert result.stdout == ""


@pytest.mark.slow
def test_a_wrong_setting_shows_no_traceback(tmp_path: Path) -> None:
    with flnet(tmp_path, "run", FLNET_NODE_PROT="1") as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert err == "flnet: FLNET_NODE_PROT is no setting; did you mean FLNET_NODE_PORT?\n"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FLNET_NODE_PORT": "{taken}"}, "port {taken}"),
        ({"FLNET_STATE_PATH": "file/folder"}, "cannot be written (Not a directory); set FLNET_STATE_PATH"),
        ({"FLNET_TMP_PATH": "file/folder"}, "cannot be written (Not a directory); set FLNET_TMP_PATH"),
        ({"FLNET_MESH_KEY_FILE": "absent.key"}, "absent.key cannot be read"),
    ],
)
def test_a_node_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_port: int, variables: dict[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flnet.cli.run.set_up_logging", lambda level: None)
    Path("file").write_text("no folder")
    settings = {name: value.format(taken=taken_port) for name, value in variables.items()}
    result = CliRunner().invoke(cli, ["run"], env={"FLNET_NODE_PORT": str(free_port()), **settings})
    assert result.exit_code == 1
    assert words.format(taken=taken_port) in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("mesh", "shown"), [("flnet", ""), ("lab", "lab; ")])
def test_a_node_greets_serves_and_ends_cleanly(tmp_path: Path, mesh: str, shown: str) -> None:
    port = free_port()
    (tmp_path / "flnet.toml").write_text('node_id = "from the file"\nnode_port = 1')
    with flnet(tmp_path, "run", "--trainers", "TINY", FLNET_NODE_PORT=str(port), FLNET_MESH_NAME=mesh) as process:
        until(lambda: answers(port), "the node")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.splitlines() == [
        "node     from the file",
        f"page     http://127.0.0.1:{port}/",
        f"mesh     {shown}open: every node that reaches this one may take part",
        f"state    {tmp_path}/.flnet/node-{port}",
        "trainers TINY",
    ]
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_node_runs_without_uvloop_where_there_is_none(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "uvloop.py").write_text("raise ImportError('not for this system')")  # found before the real one
    with flnet(tmp_path, "run", "--trainers", "TINY", FLNET_NODE_PORT=str(port)) as process:
        until(lambda: answers(port), "the node")
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert "uvloop" not in err


def test_the_event_loop_is_uvloops_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert isinstance(runner.get_loop(), uvloop.Loop)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is None


@pytest.mark.slow
def test_a_node_ends_with_its_parent(tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable, "-m", "flnet", "run", "--node-port", str(port), "--trainers", "TINY", "--exit-with-parent",
    ]  # fmt: skip
    script = (
        "import os, subprocess, sys, time; "
        f"subprocess.Popen({command!r} + [str(os.getpid())], stdout=-3, stderr=-3); "  # -3: nowhere
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=environment(tmp_path))
    try:
        until(lambda: answers(port), "the node")
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not answers(port), "the end of the node")


@pytest.mark.slow
def test_the_commands_work_against_a_real_node(tmp_path: Path) -> None:
    port = free_port()
    node = ("--node", f"127.0.0.1:{port}")
    with flnet(tmp_path, "run", "--node-port", str(port), "--node-id", "solo", "--trainers", "TINY") as process:
        until(lambda: answers(port, "/ready"), "a node that is ready")
        status = CliRunner().invoke(cli, ["status", "--json", *node])
        assert json.loads(status.stdout)["iAm"]["id"] == "solo"
        train = CliRunner().invoke(cli, ["train", "TINY", "--rounds", "2", "--wait", "--json", *node])
        assert train.exit_code == 0, train.stderr
        assert [result["number"] for result in json.loads(train.stdout)] == [0, 1]
        watch = start(tmp_path, "watch", "--after", "0", *node)
        assert watch.stdout is not None
        assert "TINY" in watch.stdout.readline() + watch.stdout.readline() + watch.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = watch.communicate()
        assert watch.returncode == 3, err
        process.communicate()
    assert process.returncode == 0


HEAPS = """
import ctypes, threading
from flnet.cli.run import share_arenas

share_arenas()
libc, all_began = ctypes.CDLL(None), threading.Barrier(8)
libc.malloc.restype = ctypes.c_void_p

def take():
    all_began.wait()
    assert libc.malloc(ctypes.c_size_t(100_000))
    all_began.wait()

threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library has no such heaps")
def test_all_threads_of_a_node_take_memory_from_few_heaps() -> None:
    told = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True).stdout
    assert 1 <= told.count("<heap nr=") <= ARENAS
