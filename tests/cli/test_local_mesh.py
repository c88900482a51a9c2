from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from flnet.cli import local_mesh as processes
from flnet.cli.local_mesh import (
    DemoFailed,
    DemoPlan,
    Interrupted,
    LocalRun,
    NodeEnded,
    NodeProcess,
    clean_environment,
    data_lines,
    end_all,
    free_ports,
    interruptible,
    local_nodes,
    node_command,
    node_ids,
)
from flnet.cli.options import variable_name
from flnet.errors import StartError
from flnet.settings import Settings
from tests.alive import alive
from tests.cli.fake_node import job
from tests.cli.live import until


def test_sample_data_are_called_samples() -> None:
    [line] = data_lines({"node-a": job()["data"], "node-b": job()["data"]})
    assert line.startswith("data: SAMPLE DATA, not the real data set: bundled digits")
    assert "node-a 300+100, node-b 300+100" in line


def test_the_data_of_many_nodes_fit_into_a_line() -> None:
    [line] = data_lines({f"node-{number}": job()["data"] for number in range(40)})
    assert line.endswith("node-5 300+100 and 34 more)")
    assert len(line) < 300


@pytest.mark.parametrize(
    ("server", "words"),
    [(None, "on this system, nodes cannot share"), ("nothing", "cannot share a training process: .*No such file")],
)
def test_nodes_that_cannot_share_a_training_process_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str | None, words: str
) -> None:
    path = None if server is None else tmp_path / server
    monkeypatch.setattr(processes, "running_fork_server", lambda: nullcontext(path))
    nodes = local_nodes("SMALL_DIGITS", [4000], tmp_path / "nodes", common_settings={"compute": "shared"})
    with pytest.raises(StartError, match=words), nodes:
        pass


def test_a_demo_waits_for_as_long_as_something_happens() -> None:
    run = LocalRun(Console(file=StringIO()), [], {}, DemoPlan("X", 1, 1, 4000, patience=0.4), alone=False)
    left = list(range(10))
    run._until(lambda: not left, lambda: "it waits", lambda: left and left.pop())
    with pytest.raises(DemoFailed, match=r"after 0.4 s it waits"):
        run._until(lambda: False, lambda: "it waits")


# processes


def test_ids_are_letters_then_numbers() -> None:
    ids = node_ids(28)
    assert ids[:4] == ["node-a", "node-b", "node-c", "node-d"]
    assert ids[25:] == ["node-z", "node-27", "node-28"]
    assert len(set(ids)) == 28


def test_ports_in_use_are_passed_over(taken_port: int) -> None:
    ports = free_ports(2, taken_port)
    assert len(set(ports)) == 2
    assert min(ports) > taken_port


def test_too_few_ports_are_said() -> None:
    with pytest.raises(StartError, match="3 free ports"):
        free_ports(3, 65534)


def test_only_settings_for_all_nodes_are_passed_on() -> None:
    environ = {"PATH": "/bin", "FLNET_DATASETS_PATH": "/data", "FLNET_NODE_PORT": "1", "FLNET_NODE_ID": "x"}
    environ |= {"FLNET_DATA_PARTITION": "power:1", "FLNET_DEVICE": "cpu", "FLNET_DATA_SHARD": "1/2"} | {
        "FLNET_MESH_KEY": "k" * 16
    }
    clean = clean_environment(environ)
    assert (clean["FLNET_DATA_PARTITION"], clean["FLNET_DEVICE"]) == ("power:1", "cpu")
    assert clean["FLNET_DATASETS_PATH"] == "/data"
    assert clean["PATH"] == "/bin"
    assert clean["FLNET_MESH_KEY"] == "k" * 16  # a demo that was asked to be keyed is not open
    assert not {"FLNET_NODE_PORT", "FLNET_NODE_ID", "FLNET_DATA_SHARD"} & set(clean)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name, field in Settings.model_fields.items() if "same on all nodes" in str(field.description)),
        *(
            "privacy",
            "privacy_rounds",
            "privacy_budget",
            "local_epochs",
            "local_batch_size",
            "local_learning_rate",
            "max_training_seconds",
        ),
        *("max_peer_epochs", "max_peer_batch_size", "max_peer_batches", "max_peer_learning_rate"),
    ],
)
def test_settings_that_change_training_reach_the_nodes_of_a_demo(name: str) -> None:
    environ = {variable_name(name): "1"}
    assert environ.items() <= clean_environment(environ).items()


def test_a_demo_of_a_pinned_mesh_would_have_nobody_who_accepts_keys() -> None:
    with pytest.raises(StartError, match="accepts their keys"):
        clean_environment({"FLNET_MESH_MODE": "pinned"})


def test_a_demo_without_common_rounds_is_refused() -> None:
    with pytest.raises(StartError, match="waits for rounds that all nodes do together"):
        clean_environment({"FLNET_ROUNDS": "asynchronous"})


def test_a_node_reads_no_stray_file_and_knows_its_parent() -> None:
    command = node_command({"node_port": 4001, "data_shard": "2/4"})
    assert command[-4:] == ["--node-port", "4001", "--data-shard", "2/4"]
    assert command[command.index("--config") + 1] == os.devnull
    assert command[command.index("--exit-with-parent") + 1] == str(os.getpid())


def start(tmp_path: Path, code: str) -> NodeProcess:
    log = tmp_path / "x.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return NodeProcess("node-a", 4000, log, process)


def test_a_dead_node_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    node = start(tmp_path, "print('first'); print('\\x1b[2Jport in use'); raise SystemExit(1)")
    node.process.wait()
    with pytest.raises(NodeEnded, match="node-a has ended with code 1; the end of its log") as caught:
        node.check()
    assert caught.value.tail == ["first", r"\x1b[2Jport in use"]


def test_a_running_node_is_fine_and_ends_when_asked(tmp_path: Path) -> None:
    node = start(tmp_path, "import time; time.sleep(60)")
    node.check()
    end_all([node])
    assert node.process.poll() == -signal.SIGTERM


def test_a_stubborn_node_is_killed_with_its_children(tmp_path: Path) -> None:
    node = start(
        tmp_path,
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n",
    )
    until(lambda: "\n" in node.log.read_text(), "the child")
    end_all([node], patience=0.1)
    assert node.process.poll() == -signal.SIGKILL
    child = int(node.log.read_text())
    until(lambda: not alive(child), "the end of the child")


def test_nodes_are_ended_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "node_command", lambda _: [sys.executable, "-c", "import time; time.sleep(60)"])
    seen: list[NodeProcess] = []

    def fail() -> None:
        with local_nodes("MNIST", [4000, 4001], tmp_path) as nodes:
            seen.extend(nodes)
            raise ValueError("any error")

    with pytest.raises(ValueError, match="any error"):
        fail()
    assert [node.process.poll() for node in seen] == [-signal.SIGTERM] * 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The settings that nodes are started with, in place of which processes that end at once are started."""
    asked: list[dict[str, object]] = []

    def command(settings: dict[str, object]) -> list[str]:
        asked.append(settings)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(processes, "node_command", command)
    return asked


def test_each_node_gets_its_place(tmp_path: Path, asked: list[dict[str, object]]) -> None:
    with local_nodes("MNIST", [4000, 4007], tmp_path) as nodes:
        assert [node.address for node in nodes] == ["127.0.0.1:4000", "127.0.0.1:4007"]
    assert [settings["data_shard"] for settings in asked] == ["1/2", "2/2"]
    assert "bootstrap_pairs" not in asked[0]
    assert asked[1]["bootstrap_pairs"] == "127.0.0.1:4000"
    assert asked[0]["state_path"] != asked[1]["state_path"]
    assert asked[0]["fork_server"] == asked[1]["fork_server"]
    assert "compute_threads" not in asked[0]


@pytest.mark.parametrize(("count", "threads"), [(2, 3), (3, 2), (9, 1)])
def test_nodes_divide_the_processors_where_each_would_take_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, object]], count: int, threads: int
) -> None:
    monkeypatch.setattr(processes, "processors", lambda: 7)
    monkeypatch.setenv("FLNET_COMPUTE_THREADS", "0")
    with local_nodes("MNIST", range(4000, 4000 + count), tmp_path):
        assert [settings["compute_threads"] for settings in asked] == [threads] * count


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_interrupt_and_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught, interruptible():
        os.kill(os.getpid(), number)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
