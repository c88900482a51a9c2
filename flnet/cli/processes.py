"""Starts nodes as processes of this machine, watches them, and ends them whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from flnet.cli.options import option_name, variable_name
from flnet.cli.text import printable
from flnet.errors import StartError
from flnet.training.forking import running
from flnet.training.processors import processors

__all__ = [
    "Interrupted",
    "NodeEnded",
    "NodeProcess",
    "clean_environment",
    "free_ports",
    "interruptible",
    "local_nodes",
]

HOST = "127.0.0.1"
END_SECONDS = 10.0  # that nodes have to end by themselves
LOG_LINES = 15  # of a dead node's log that are shown
# What a person may want to set for all nodes; every other variable is left over from something else.
KEPT_SETTINGS = (
    "datasets_path", "data_partition", "trainers_path", "logging_level", "compute", "compute_threads", "device",
    "aggregation", "local_training", "personal_model", "model_choice", "leave_one_out", "seed", "wire",
    "wait_time_in_seconds_to_force_fedavg", "wait_time_in_seconds_to_force_fedavg_margin",
    "request_timeout_in_seconds", "worker_idle_seconds", "tmp_path", "mesh_key", "mesh_key_file", "mesh_mode",
)  # fmt: skip


class Interrupted(BaseException):
    """A signal asks this process to end; no Exception, so that no handler swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class NodeEnded(click.ClickException):
    """A node's process ended though nobody asked it to; exit code 1.

    Attributes:
        tail: the last lines of its log, printable.
    """

    def __init__(self, node: str, code: int, tail: Sequence[str]) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"has ended with code {code}"
        super().__init__(f"{node} {how}; " + ("the end of its log stands above" if tail else "its log is empty"))
        self.tail = tail


@dataclass(frozen=True)
class NodeProcess:
    """One started node."""

    id: str
    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """Where its REST API is, "host:port"."""
        return f"{HOST}:{self.port}"

    def check(self) -> None:
        """Do nothing while the node runs.

        Raises:
            NodeEnded: it ended; with the last lines of its log.
        """
        code = self.process.poll()
        if code is not None:
            log = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise NodeEnded(self.id, code, [printable(line) for line in log[-LOG_LINES:]])


def node_ids(count: int) -> list[str]:
    """Node-a to node-z, then numbers."""
    return [f"node-{chr(ord('a') + i) if i < 26 else i + 1}" for i in range(count)]


def free_ports(count: int, base: int) -> list[int]:
    """The first free TCP ports of this machine from `base` on.

    Raises:
        StartError: there are not that many.
    """
    ports = []
    for port in range(base, 65536):
        if _is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StartError(f"{count} free ports are needed from {base} on, but there are {len(ports)}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a server does: a port whose last connections are still being forgotten counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a node of the demo: no setting but those that may hold for all nodes.

    Raises:
        StartError: they would have to be of a pinned mesh.
    """
    if environ.get(variable_name("mesh_mode")) == "pinned":
        raise StartError("nodes of a demo have nobody who accepts their keys: leave FLNET_MESH_MODE=pinned away")
    kept = {variable_name(name) for name in KEPT_SETTINGS}
    prefix = variable_name("")
    clean = {name: value for name, value in environ.items() if not name.startswith(prefix) or name in kept}
    # Run from a source folder without being installed: a child must find flnet there too.
    source = Path(__file__).parents[2]
    if (source / "pyproject.toml").is_file():
        clean["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), environ.get("PYTHONPATH")]))
    return clean


def node_command(settings: Mapping[str, object]) -> list[str]:
    """The command line of one node; it reads no flnet.toml and ends when this process is gone."""
    command = [
        sys.executable,
        "-m",
        "flnet",
        "run",
        "--config",
        os.devnull,
        "--exit-with-parent",
        str(os.getpid()),
    ]
    for name, value in settings.items():
        command += [option_name(name), str(value)]
    return command


@contextmanager
def local_nodes(
    trainer: str, ports: Sequence[int], folder: Path, alone: bool = False
) -> Iterator[list[NodeProcess]]:
    """Start one node per port, each with its shard of the data; all are ended at the end.

    Their training children come from one fork server, so that the framework is imported once.

    Args:
        folder: for states and logs; made if it is not there.
        alone: no node is told of another one.
    """
    folder.mkdir(exist_ok=True)
    nodes: list[NodeProcess] = []
    with running() as fork_server:
        try:
            for index, (name, port) in enumerate(zip(node_ids(len(ports)), ports, strict=True)):
                settings = {
                    "node_id": name,
                    "node_port": port,
                    "listen_address": HOST,
                    "trainers": trainer,
                    "data_shard": f"{index + 1}/{len(ports)}",
                    "state_path": folder / name,
                }
                if os.environ.get(variable_name("compute_threads")) == "0":
                    settings["compute_threads"] = max(1, processors() // len(ports))
                if fork_server is not None:
                    settings["fork_server"] = fork_server
                if index > 0 and not alone:
                    settings["bootstrap_pairs"] = f"{HOST}:{ports[0]}"
                nodes.append(_start(name, port, folder / f"{name}.log", node_command(settings)))
            yield nodes
        finally:
            end_all(nodes)


def _start(name: str, port: int, log: Path, command: Sequence[str]) -> NodeProcess:
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(os.environ),
            # A group of its own: Ctrl-C reaches us only, and a stuck node is killed with its children.
            start_new_session=True,
        )
    return NodeProcess(name, port, log, process)


def end_all(nodes: Sequence[NodeProcess], patience: float = END_SECONDS) -> None:
    """Ask all nodes to end, kill those that do not; a further Ctrl-C does not stop this."""
    with _signals(signal.SIG_IGN):
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                node.process.terminate()
        deadline = time.monotonic() + patience
        for node in nodes:
            try:
                node.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(node.process.pid, signal.SIGKILL)
                node.process.wait()


@contextmanager
def interruptible() -> Iterator[None]:
    """While this is open, SIGINT, SIGTERM and SIGHUP raise Interrupted."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _signals(interrupt):
        yield


@contextmanager
def _signals(handler: object) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
