"""Starts nodes as processes of this machine, takes them through some rounds, and ends them in any case."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TypeVar

import click
from rich.console import Console

from flnet.cli.client import NodeClient, View
from flnet.cli.node_forks import ForkedNode, NodeForks, node_forks
from flnet.cli.options import option_name, variable_name
from flnet.cli.output import counted, listed, printable
from flnet.cli.progress import Follower, RoundResult, open_progress
from flnet.compute.assignment import processors, threads_of
from flnet.compute.loader import find_trainers
from flnet.compute.training_child import NotForked, forked, running_fork_server
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable, StartError
from flnet.security.keys import make_keys
from flnet.settings import load_settings

HOST = "127.0.0.1"
FORKED_FROM = 10  # nodes: fewer are programs of their own, each of which imports flnet itself
END_SECONDS = 10.0  # that nodes have to end by themselves
LOG_LINES = 15  # of a dead node's log that are shown
# What a person may want to set for all nodes; every other variable is left over from something else.
KEPT_SETTINGS = (
    "datasets_path", "data_partition", "trainers_path", "logging_level", "compute", "compute_threads", "device",
    "aggregation", "clip_norm", "max_update_norm", "max_staleness", "rounds", "participation", "min_participants",
    "topology", "local_training", "local_epochs", "local_batch_size", "local_learning_rate", "max_training_seconds",
    "max_peer_epochs",
    "max_peer_batch_size", "max_peer_batches", "max_peer_learning_rate", "personal_model", "model_choice",
    "leave_one_out", "seed", "share_counts", "wire", "privacy", "privacy_rounds", "privacy_budget",
    "wait_time_in_seconds_to_force_fedavg", "wait_time_in_seconds_to_force_fedavg_margin",
    "request_timeout_in_seconds", "worker_idle_seconds", "tmp_path", "mesh_key", "mesh_key_file",
    "other_mesh_key", "other_mesh_key_file", "mesh_mode", "mesh_name",
)  # fmt: skip


class Interrupted(BaseException):
    """Raised when a signal asks this process to end; not an Exception, so that no handler swallows it.

    Attributes:
        exit_code: 128 plus the signal's number, as shells count.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class NodeEnded(click.ClickException):
    """A node's process ended unexpectedly; exit code 1.

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
    process: subprocess.Popen[bytes] | ForkedNode

    @property
    def address(self) -> str:
        """The address of its REST API, "host:port"."""
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
    """The environment of a node of the demo, with only those settings that may apply to all nodes.

    Raises:
        StartError: they would have to be of a pinned mesh, or have no common rounds.
    """
    if environ.get(variable_name("mesh_mode")) == "pinned":
        raise StartError("nodes of a demo have nobody who accepts their keys: leave FLNET_MESH_MODE=pinned away")
    if environ.get(variable_name("rounds")) == "asynchronous":
        raise StartError(
            "a demo waits for rounds that all nodes do together: leave FLNET_ROUNDS=asynchronous away"
        )
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
    return [sys.executable, "-m", "flnet", *node_arguments(settings, os.getpid())]


def node_arguments(settings: Mapping[str, object], parent: int) -> list[str]:
    """The arguments of `flnet` for one node, which ends when its parent process is gone."""
    arguments = ["run", "--config", os.devnull, "--exit-with-parent", str(parent)]
    for name, value in settings.items():
        arguments += [option_name(name), str(value)]
    return arguments


@contextmanager
def local_nodes(
    trainer: str,
    ports: Sequence[int],
    folder: Path,
    alone: bool = False,
    own_settings: Sequence[Mapping[str, object]] | None = None,
    common_settings: Mapping[str, object] | None = None,
) -> Iterator[list[NodeProcess]]:
    """Start one node per port, each with its shard of the data; all are ended at the end.

    Their training children come from one fork server, so that the framework is imported once; with FLNET_COMPUTE=shared
    they have one child together. Of many nodes, the nodes themselves are forked, too (`node_forks`).

    Args:
        folder: for states and logs; made if it is not there.
        alone: no node is told of another one.
        own_settings: of each node, by which it finds data of its own; None if they share a data set.
        common_settings: further ones of all nodes.
    """
    folder.mkdir(exist_ok=True)
    nodes: list[NodeProcess] = []
    names = node_ids(len(ports))
    common = common_settings or {}
    shares = common.get("compute", os.environ.get(variable_name("compute"))) == "shared"
    with running_fork_server() as fork_server, ExitStack() as stack:
        if shares:
            stack.enter_context(_held_place(fork_server, trainer))
        forks = None
        if len(ports) >= FORKED_FROM and hasattr(os, "fork"):
            make_keys([folder / name for name in names])
            forks = stack.enter_context(node_forks(clean_environment(os.environ)))
        try:
            for index, (name, port) in enumerate(zip(names, ports, strict=True)):
                settings: dict[str, object] = {"node_id": name, "node_port": port, "listen_address": HOST}
                settings |= {"trainers": trainer, "state_path": folder / name, **common}
                settings |= own_settings[index] if own_settings else {"data_shard": f"{index + 1}/{len(ports)}"}
                if os.environ.get(variable_name("compute_threads")) == "0" and not shares:
                    settings["compute_threads"] = max(1, processors() // len(ports))
                if fork_server is not None:
                    settings["fork_server"] = fork_server
                if index > 0 and not alone:
                    settings["bootstrap_pairs"] = f"{HOST}:{ports[0]}"
                nodes.append(_start(name, port, folder / f"{name}.log", settings, forks))
            yield nodes
        finally:
            end_all(nodes)


@contextmanager
def _held_place(fork_server: Path | None, trainer: str) -> Iterator[None]:
    """Have the training child that nodes share, with its framework imported, before many nodes keep this machine busy.

    Raises:
        StartError: there is none.
    """
    if fork_server is None:
        raise StartError("on this system, nodes cannot share a training process: leave FLNET_COMPUTE=shared away")
    settings = load_settings({"trainers": trainer, "compute": "process"}, clean_environment(os.environ), {})
    (file,) = find_trainers(settings)
    try:
        place = forked(fork_server, file, threads_of(settings), shares=True)
    except NotForked as exc:
        raise StartError(f"nodes cannot share a training process: {exc}") from exc
    try:
        yield
    finally:
        place.close()


def _start(
    name: str, port: int, log: Path, settings: Mapping[str, object], forks: NodeForks | None
) -> NodeProcess:
    environment = clean_environment(os.environ)
    with log.open("wb") as output:
        if forks is not None:
            arguments = node_arguments(settings, forks.pid)
            return NodeProcess(name, port, log, forks.start(arguments, environment, output.fileno()))
        process = subprocess.Popen(  # noqa: S603 - our own command line
            node_command(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            # A group of its own: Ctrl-C reaches us only, and a stuck node is killed with its children.
            start_new_session=True,
        )
    return NodeProcess(name, port, log, process)


def end_all(nodes: Sequence[NodeProcess], patience: float = END_SECONDS) -> None:
    """Terminate all nodes, and kill those that do not end in time; a further Ctrl-C does not interrupt this."""
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


LOOK_SECONDS = 0.1
T = TypeVar("T")
Run = TypeVar("Run", bound="LocalRun")


class DemoFailed(click.ClickException):
    """The demo cannot go on; exit code 1."""


@dataclass(frozen=True)
class DemoPlan:
    """Parameters of a demo.

    Attributes:
        base_port: the first port to try.
        patience: seconds without any progress after which it is given up.
        own_settings: of each node, where each has data of its own.
        common_settings: of all nodes, beyond those of the environment.
    """

    trainer: str
    count: int
    rounds: int
    base_port: int
    patience: float
    own_settings: Sequence[Mapping[str, object]] | None = None
    common_settings: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def opened(kind: type[Run], plan: DemoPlan, folder: Path, out: Console, alone: bool = False) -> Iterator[Run]:
    """Start the nodes of a plan; they are ended at the end."""
    ports = free_ports(plan.count, plan.base_port)
    settings = (plan.own_settings, plan.common_settings)
    with local_nodes(plan.trainer, ports, folder, alone, *settings) as nodes, ExitStack() as stack:
        clients = {node.id: stack.enter_context(NodeClient(node.address)) for node in nodes}
        yield kind(out, nodes, clients, plan, alone)


class LocalRun:
    """One run of a demo, with nodes that are starting.

    Attributes:
        plan: of the demo.
        clients: by node.
        data: by node, what it trains on, as its job describes it; there after `train`.
    """

    def __init__(
        self,
        out: Console,
        nodes: Sequence[NodeProcess],
        clients: Mapping[str, NodeClient],
        plan: DemoPlan,
        alone: bool,
    ) -> None:
        self._out = out
        self._nodes = nodes
        self.clients = clients
        self.plan = plan
        self._alone = alone
        self.data: Mapping[str, View] = {}
        self._started = time.monotonic()  # the last node's process has just been started

    def train(self) -> list[RoundResult]:
        """Wait for nodes, mesh and data, then do the rounds.

        Raises:
            DemoFailed, RoundFailed: something does not come, fails, or does not move any more.
            NodeEnded: a node died.
        """
        self._out.print(
            f"starting {counted(len(self._nodes), 'node')} on this machine, {self.how()}", soft_wrap=True
        )
        self._wait_for_nodes()
        if not self._alone:
            self._wait_for_mesh()
        self._wait_for_data()
        return self._rounds() if self.plan.rounds else []

    def stay(self) -> None:
        """Keep the nodes running until a signal arrives.

        Raises:
            NodeEnded: a node died.
        """
        self._out.print("\nThe nodes stay up for the browser:")
        for node in self._nodes:
            self._out.print(f"  {node.id}  http://{node.address}/")
        self._out.print("press Ctrl-C to end")
        while True:
            self._check()
            time.sleep(5 * LOOK_SECONDS)

    def _check(self) -> None:
        for node in self._nodes:
            node.check()

    def _wait_for_nodes(self) -> None:
        waiting = list(self._nodes)

        def all_up() -> bool:
            for node in list(waiting):
                if self._is_up(node):
                    waiting.remove(node)
                    seconds = time.monotonic() - self._started
                    self._out.print(f"  {node.id}  http://{node.address}/  up after {seconds:.1f} s")
            return not waiting

        self._until(all_up, lambda: "these nodes do not answer: " + listed(node.id for node in waiting))

    def _is_up(self, node: NodeProcess) -> bool:
        try:
            node_id = self.clients[node.id].info().get("iAm", {}).get("id")
        except (PeerUnreachable, PeerTimeout):
            return False
        except PeerRefused as exc:
            raise DemoFailed(f"something else answers on the port of {node.id}: {printable(exc.message)}") from exc
        if node_id != node.id:
            raise DemoFailed(f"at {node.address} is {printable(node_id)}, where {node.id} was expected")
        return True

    def _wait_for_mesh(self) -> None:
        expected = len(self._nodes) - 1
        known = dict.fromkeys(self.clients, 0)

        def full() -> bool:
            for name, client in self.clients.items():
                known[name] = ask(partial(alive_peers, client), known[name])
            return all(count >= expected for count in known.values())

        self._until(full, lambda: f"the mesh is not complete, of {expected} peers are known: {_counts(known)}")
        self._out.print(
            f"full mesh after {time.monotonic() - self._started:.1f} s (from the start of the last node)"
        )

    def _wait_for_data(self) -> None:
        views: dict[str, View] = {}
        self._out.print("every node loads its framework and its data ...")

        def loaded() -> bool:
            for name, client in self.clients.items():
                views[name] = ask(partial(client.job, self.plan.trainer), views.get(name, {}))
                if views[name].get("phase") == "NO_DATA":
                    raise DemoFailed(
                        f"{name} cannot train {self.plan.trainer}: {printable(views[name].get('error'))}"
                    )
            return not waiting()

        def waiting() -> list[str]:
            return [name for name, view in views.items() if view.get("phase", "LOADING") == "LOADING"]

        self._until(loaded, lambda: "these nodes have not loaded their data: " + listed(waiting()), waiting)
        self.data = {name: view.get("data") or {} for name, view in views.items()}
        if not self._alone:  # the lone nodes have what has been said of the others
            for line in self.data_lines():
                self._out.print(line, soft_wrap=True)

    def _rounds(self) -> list[RoundResult]:
        results = []
        with open_progress(self._out) as progress:
            follower = Follower(
                self.clients,
                self.plan.trainer,
                progress,
                patience=self.plan.patience,
                check=self._check,
                tolerant=True,
            )
            first = self._trigger()
            progress.say(self.asked_words())
            for result in follower.rounds(first, self.plan.rounds):
                results.append(result)
                progress.say(self.result_words(result))
        return results

    def _trigger(self) -> int:
        """Start the rounds at one node of the mesh, or at every lone node; returns the number of the first round."""
        asked = self._nodes if self._alone else self._nodes[:1]
        firsts = [self.clients[node.id].trigger(self.plan.trainer, self.plan.rounds) for node in asked]
        return firsts[0]

    def how(self) -> str:
        """In which way the nodes are started."""
        way = "again, each without the others and with the same" if self._alone else "each with its"
        return f"{way} share of the data"

    def data_lines(self) -> list[str]:
        """What the nodes train on."""
        return data_lines(self.data)

    def result_words(self, result: RoundResult) -> str:
        """A round that is over."""
        return result.lone_words() if self._alone else str(result)

    def asked_words(self) -> str:
        """Which nodes were asked for the rounds."""
        rounds = counted(self.plan.rounds, "round")
        if self._alone:
            return f"every node was asked for {rounds} by itself"
        return f"{self._nodes[0].id} was asked for {rounds}; any other node would do"

    def _until(
        self, done: Callable[[], bool], problem: Callable[[], str], remaining: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until something is done, for as long as what remains changes now and then."""
        deadline, last = time.monotonic() + self.plan.patience, remaining()
        while not done():
            self._check()
            if (now := remaining()) != last:
                deadline, last = time.monotonic() + self.plan.patience, now
            if time.monotonic() > deadline:
                raise DemoFailed(f"after {self.plan.patience:g} s {problem()}")
            time.sleep(LOOK_SECONDS)


def ask(question: Callable[[], T], otherwise: T) -> T:
    """Ask a node; return `otherwise` if it is too busy to answer."""
    try:
        return question()
    except (PeerUnreachable, PeerTimeout):
        return otherwise


def alive_peers(client: NodeClient) -> int:
    """The number of alive peers of a node."""
    return sum(peer.get("state") == "alive" for peer in client.peers())


def _counts(known: Mapping[str, int]) -> str:
    """The nodes with their numbers of known peers; first those that know fewest."""
    return listed(f"{node} {count}" for node, count in sorted(known.items(), key=lambda pair: pair[1]))


def data_lines(described: Mapping[str, View]) -> list[str]:
    """Describe the data of the nodes; generated or bundled data are called samples."""
    sources: dict[str, list[str]] = {}
    for name, data in described.items():
        kind = "SAMPLE DATA, not the real data set: " if data.get("sample") else ""
        words = printable(f"{kind}{data.get('source', 'not described')}")
        rows = data.get("rows") or {}
        sources.setdefault(words, []).append(f"{name} {rows.get('train', '?')}+{rows.get('test', '?')}")
    return [f"data: {words} (training + test examples: {listed(rows)})" for words, rows in sources.items()]
