from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.cli.run import loop_factory
from tests.cli.live import answers, environment, flnet, start, until
from tests.ports import free_port

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("args", "variables", "toml", "words"),
    [
        (("--node-port", "99999"), {}, "", "--node-port=99999"),
        ((), {"FLNET_NODE_PROT": "1"}, "", "did you mean FLNET_NODE_PORT"),
        ((), {"FLNET_DATA_SHARD": "3/2"}, "", "FLNET_DATA_SHARD=3/2"),
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
    result = CliRunner().invoke(cli, ["run", *args], env=variables)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_wrong_setting_shows_no_traceback(tmp_path: Path) -> None:
    with flnet(tmp_path, "run", FLNET_NODE_PROT="1") as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert err == "flnet: FLNET_NODE_PROT is no setting; did you mean FLNET_NODE_PORT?\n"


def test_a_port_in_use_stops_the_start_with_words(tmp_path: Path, taken_port: int) -> None:
    with flnet(tmp_path, "run", "--node-port", str(taken_port)) as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert f"port {taken_port}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("setting", ["FLNET_STATE_PATH", "FLNET_TMP_PATH"])
def test_a_folder_that_cannot_be_written_stops_the_start_with_words(tmp_path: Path, setting: str) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    variables = {"FLNET_STATE_PATH": str(tmp_path / "state"), setting: str(tmp_path / "taken/folder")}
    with flnet(tmp_path, "run", FLNET_NODE_PORT=str(free_port()), **variables) as node:
        _, errors = node.communicate(timeout=60)
    assert node.returncode == 1
    assert "cannot be written" in errors
    assert setting in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_node_greets_serves_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    (tmp_path / "flnet.toml").write_text('node_id = "from the file"\nnode_port = 1')
    with flnet(tmp_path, "run", "--trainers", "TINY", FLNET_NODE_PORT=str(port)) as process:
        until(lambda: answers(port), "the node")
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.splitlines() == [
        "node     from the file",
        f"page     http://127.0.0.1:{port}/",
        "mesh     open: whoever asks takes part",
        f"state    {tmp_path}/.flnet/node-{port}",
        "trainers TINY",
    ]
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_runs_without_uvloop_where_there_is_none(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    (tmp_path / "uvloop.py").write_text("raise ImportError('not for this system')")  # found before the real one
    with flnet(tmp_path, "run", "--trainers", "TINY", FLNET_NODE_PORT=str(port)) as process:
        until(lambda: answers(port), "the node")
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert "uvloop" not in err


def test_the_event_loop_is_uvloops_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert isinstance(runner.get_loop(), uvloop.Loop)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is None


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


def test_the_commands_work_against_a_real_node(tmp_path: Path) -> None:
    port = free_port()
    node = ("--node", f"127.0.0.1:{port}")
    with flnet(tmp_path, "run", "--node-port", str(port), "--node-id", "solo", "--trainers", "TINY") as process:
        until(lambda: answers(port), "the node")
        status = start(tmp_path, "status", "--json", *node)
        out, _ = status.communicate()
        assert json.loads(out)["iAm"]["id"] == "solo"
        train = start(tmp_path, "train", "TINY", "--rounds", "2", "--wait", "--json", *node)
        out, err = train.communicate()
        assert train.returncode == 0, err
        assert [result["number"] for result in json.loads(out)] == [0, 1]
        watch = start(tmp_path, "watch", "--after", "0", *node)
        assert watch.stdout is not None
        assert "TINY" in watch.stdout.readline() + watch.stdout.readline() + watch.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = watch.communicate()
        assert watch.returncode == 3, err
        process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"FLNET_MESH_KEY": "swordfish"}, 2, "the key of the mesh has 9 characters"),
        ({"FLNET_MESH_KEY_FILE": "absent.key"}, 1, "absent.key cannot be read"),
        ({"FLNET_MESH_MODE": "keyed"}, 2, "needs a FLNET_MESH_KEY"),
    ],
)
def test_a_mesh_is_never_open_by_mistake(tmp_path: Path, variables: dict[str, str], code: int, words: str) -> None:
    with flnet(tmp_path, "run", FLNET_NODE_PORT=str(free_port()), **variables) as process:
        _, err = process.communicate()
    assert process.returncode == code
    assert words in err
    assert "swordfish" not in err and "Traceback" not in err
