"""The demo as a person runs it: real processes, real sockets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from copy import deepcopy
from io import StringIO
from pathlib import Path

import psutil
import pytest
from click.testing import Result
from rich.console import Console

from flnet.cli import demo
from flnet.cli.demo import DemoComparison, common_settings, comparison_table, different_data
from flnet.cli.room import Machine
from tests.cli.live import answers, flnet, until, until_ended
from tests.ports import free_port


def test_nothing_can_be_compared_without_rounds(flnet: Callable[..., Result]) -> None:
    refused = flnet("demo", "--alone", "--rounds", "0")
    assert refused.exit_code == 2
    assert "--rounds must be 1 or more" in refused.output


# alone


TOGETHER = {"a": {"accuracy": 0.75, "auc": 0.5, "loss": 1.0}, "b": {"accuracy": 1.0, "auc": 0.75}}
ALONE = {"a": {"accuracy": 0.5, "auc": 0.25}, "b": {"accuracy": 0.75}}


def rows(comparison: DemoComparison) -> list[list[str]]:
    out = StringIO()
    Console(file=out, width=160).print(comparison_table(comparison, every=False))
    return [line.split() for line in out.getvalue().splitlines() if line.split()[2:]][2:]


def test_each_node_and_the_mean_stand_side_by_side() -> None:
    assert rows(DemoComparison(TOGETHER, ALONE)) == [
        ["accuracy", "a", "0.7500", "0.5000", "+0.2500"],
        ["accuracy", "b", "1.0000", "0.7500", "+0.2500"],
        ["accuracy", "mean", "0.8750", "0.6250", "+0.2500"],
        ["auc", "a", "0.5000", "0.2500", "+0.2500"],
        ["auc", "b", "-", "-", "-"],
        ["auc", "mean", "0.5000", "0.2500", "+0.2500"],
    ]


@pytest.mark.parametrize(
    ("together", "alone", "verdict"),
    [
        (0.75, 0.5, "together it is higher by 0.2500"),
        (0.5, 0.75, "alone it is higher by 0.2500"),
        (0.5, 0.50001, "they are equal in four digits"),
    ],
)
def test_one_sentence_says_which_mean_is_higher(together: float, alone: float, verdict: str) -> None:
    message = DemoComparison({"a": {"accuracy": together}}, {"a": {"accuracy": alone}}).words()
    assert message == f"mean accuracy {together:.4f} together and {alone:.4f} alone: {verdict}"


def test_the_accuracy_of_all_is_that_on_all_test_rows_where_they_are_known() -> None:
    comparison = DemoComparison(TOGETHER, ALONE, {"a": 30, "b": 10})
    assert ["accuracy", "all", "rows", "0.8125", "0.5625", "+0.2500"] in rows(comparison)
    assert comparison.words().startswith("accuracy on all 40 test rows 0.8125 together and 0.5625 alone")
    assert DemoComparison(TOGETHER, ALONE, {"a": 30}).words().startswith("mean accuracy 0.8750 together")


def test_without_a_common_node_nothing_is_compared() -> None:
    comparison = DemoComparison(TOGETHER, {})
    assert "nothing to compare" in comparison.words()
    assert rows(comparison)[-1] == ["accuracy", "mean", "-", "-", "-"]


def test_other_data_the_second_time_are_told() -> None:
    data: dict[str, dict[str, object]] = {"a": {"source": "x", "rows": {"train": 1}}, "b": {"source": "x"}}
    assert different_data(data, deepcopy(data)) is None
    assert different_data(data, data | {"b": {"source": "y"}}) == "beware: the data changed meanwhile on b"


def test_many_nodes_have_the_time_that_their_messages_take(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Console(file=StringIO())
    assert common_settings("SMALL_DIGITS", 4, out) == {}
    assert common_settings("SMALL_DIGITS", 12, out) == {}
    assert common_settings("SMALL_DIGITS", 40, out) == {"wait_time_in_seconds_to_force_fedavg": 120}
    monkeypatch.setenv("FLNET_WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG", "30")
    assert common_settings("SMALL_DIGITS", 40, out) == {}


@pytest.mark.parametrize(
    ("trainer", "count", "free_mb", "words"),
    [
        ("SMALL_DIGITS", 12, 600, "each node trains in its own process, and answers late meanwhile"),
        ("MNIST", 20, 2000, "all nodes share one training process, which trains them one after the other"),
    ],
)
def test_what_nodes_do_where_memory_is_short_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, trainer: str, count: int, free_mb: float, words: str
) -> None:
    out = StringIO()
    monkeypatch.setattr(demo, "this_machine", lambda: Machine(free_mb))
    settings = common_settings(trainer, count, Console(file=out, width=60))
    assert settings["compute"] in ("thread", "shared")
    waits = {"shared": 200}.get(str(settings["compute"]))
    assert settings.get("wait_time_in_seconds_to_force_fedavg") == waits
    assert ("worker_idle_seconds" in settings) == (settings["compute"] == "shared")
    assert out.getvalue() == f"memory is short: {words}\n"


def test_nodes_that_are_to_share_a_training_process_have_the_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_COMPUTE", "shared")
    out = StringIO()
    settings = common_settings("SMALL_DIGITS", 12, Console(file=out))
    assert settings == {"wait_time_in_seconds_to_force_fedavg": 120, "worker_idle_seconds": 3600}
    assert not out.getvalue()


pytestmark = pytest.mark.slow
TINY = ("--trainer", "TINY", "--nodes", "2")


def until_it_stays(process: subprocess.Popen[str]) -> str:
    """What the demo has printed once its nodes stay up for the browser."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "press Ctrl-C to end" in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def test_the_demo_trains_compares_with_nodes_that_are_alone_and_stays_until_a_node_dies(tmp_path: Path) -> None:
    with flnet(tmp_path, "demo", *TINY, "--rounds", "2", "--alone", "--base-port", str(free_port())) as process:
        out = until_it_stays(process)
        ports = {
            int(port)
            for port in re.findall(r"http://127\.0\.0\.1:(\d+)/", out.partition("stay up for the browser")[2])
        }
        assert len(ports) == 2
        until(lambda: all(map(answers, ports)), "both nodes")
        os.kill(psutil.Process(process.pid).children()[1].pid, signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == 1
    assert re.search(r"node-[ab] was killed by signal 9", err)
    assert not any(map(answers, ports))
    assert "full mesh after" in out
    assert "SAMPLE DATA" in out
    assert len(re.findall(r"^round [01]: before .* on all 2 nodes", out, re.MULTILINE)) == 2
    assert "all nodes held the same model, bit by bit" in out
    assert re.search(r"^ round +auc +distance", out, re.MULTILINE)
    assert re.search(r"further means after the last averaging: auc 0\.\d{4}, distance \d", out)
    assert "\x1b" not in out, "no terminal, no control sequences"
    rows = re.findall(r"^ (\w+) +(node-[ab]|mean|all rows) +([\d.]+) +([\d.]+) +[+-][\d.]+ *$", out, re.MULTILINE)
    assert len(rows) == 3 * 3, out  # accuracy, auc and distance; two nodes and both together
    # Alone, two rounds from 0 leave 1/4 of the way to the shard's number; the common model is at 3/4 of their mean.
    distances = [(float(together), float(alone)) for name, _, together, alone in rows if name == "distance"]
    assert distances == [(0.125, 0.25), (0.875, 0.5), (0.5, 0.375)]
    assert re.search(
        r"^accuracy on all 20 test rows 0\.\d{4} together and 0\.\d{4} alone: alone it is higher by", out, re.M
    )
    assert "changed meanwhile" not in out


def test_the_demo_trains_mnist_on_the_bundled_digits_and_ends(tmp_path: Path) -> None:
    args = ("--nodes", "2", "--rounds", "1", "--exit", "--base-port", str(free_port()))
    with flnet(tmp_path, "demo", *args, FLNET_COMPUTE="process") as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert "digits bundled with scikit-learn" in out
    after = re.search(
        r"^round 0: [\d.]+ on all rows; mean of nodes before .*, after ([\d.]+) .* on all 2 nodes",
        out,
        re.MULTILINE,
    )
    assert after is not None and float(after[1]) > 0.8
    assert not list(tmp_path.glob("flnet*")), "the folder of states and logs is left behind"


def test_many_nodes_are_forked_know_each_other_and_all_contribute(tmp_path: Path) -> None:
    args = (
        "--nodes",
        "24",
        "--trainer",
        "SMALL_DIGITS",
        "--rounds",
        "2",
        "--exit",
        "--base-port",
        str(free_port()),
    )
    with flnet(tmp_path, "demo", *args) as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert len(re.findall(r"24 of 24 updates, model \w+ on all 24 nodes", out)) == 2
    assert "full mesh after" in out
    assert not list(tmp_path.glob("flnet*")), "the folder of states and logs is left behind"


def test_nodes_that_share_one_training_process_all_contribute(tmp_path: Path) -> None:
    args = ("--nodes", "4", "--rounds", "2", "--exit", "--base-port", str(free_port()))
    with flnet(tmp_path, "demo", *args, FLNET_COMPUTE="shared") as process:
        until(lambda: _training_children(process) == 1, "the training process")
        assert process.stdout is not None
        out = ""
        for line in process.stdout:
            assert _training_children(process) <= 1
            out += line
        _, err = process.communicate()
    assert process.returncode == 0, out + err
    assert len(re.findall(r"4 of 4 updates, model \w+ on all 4 nodes", out)) == 2
    assert not list(tmp_path.glob("flnet*")), "the folder of states and logs is left behind"


def _training_children(process: subprocess.Popen[str]) -> int:
    """Processes below the template of a framework, which is below the fork server."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
        servers = [
            one for one in below if "flnet.compute.fork_server" in one.cmdline() and one.ppid() == process.pid
        ]
        return sum(len(template.children()) for server in servers for template in server.children())
    except psutil.NoSuchProcess:
        return 0


@pytest.mark.parametrize("children", [4, 6])
def test_ctrl_c_ends_the_nodes_and_those_that_are_alone(tmp_path: Path, children: int) -> None:
    """With four, the second fork server has just begun; with six, there are two meshes of two nodes and a fork server.

    What is interrupted while it starts ends by itself, a little later than the demo.
    """
    with flnet(tmp_path, "demo", *TINY, "--rounds", "1", "--alone", "--base-port", str(free_port())) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "each without the others" in line:
                break
        until(lambda: len(psutil.Process(process.pid).children()) >= children, "the lone nodes")
        nodes = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert "Traceback" not in err
    until_ended(nodes)


def test_a_killed_demo_leaves_no_nodes(tmp_path: Path) -> None:
    args = ("--trainer", "TINY", "--nodes", "1", "--rounds", "0", "--base-port", str(free_port()))
    with flnet(tmp_path, "demo", *args) as process:
        until_it_stays(process)
        nodes = psutil.Process(process.pid).children(recursive=True)
        assert nodes
        process.kill()
        process.communicate()
        until_ended(nodes)


def test_an_unknown_trainer_ends_the_demo_with_words(tmp_path: Path) -> None:
    args = ("--nodes", "1", "--trainer", "NOPE", "--exit", "--base-port", str(free_port()))
    with flnet(tmp_path, "demo", *args) as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert "NOPE" in err
