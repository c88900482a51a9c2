"""Real nodes of this machine: started as flnet's own command line starts several, asked over their REST API."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import cpu_seconds, descendants, proportional_mb
from flnet.cli import local_mesh as processes
from flnet.cli.client import NodeClient
from flnet.cli.local_mesh import NodeProcess
from flnet.cli.node_forks import ForkedNode
from flnet.errors import PeerTimeout, PeerUnreachable
from flnet.settings import PREFIX, Settings

TRAINERS = Path(__file__).parent / "trainers"
ROOT = Path(__file__).parent.parent
ANSWER_S = 20.0  # a busy node may take its time to answer
LOOK_S = 0.4  # between two looks at nodes that work: rarely, so that looking costs nothing
JSON = dict[str, Any]


class NotDone(Exception):
    """The nodes did not get where they should in the time given; the text says how far they are."""


@dataclass(frozen=True)
class Ask:
    """What a mesh is made of.

    Attributes:
        count: nodes.
        settings: of all nodes, in addition to those that `flnet demo` gives; by field name.
        environ: more variables, for the trainers.
    """

    trainer: str
    count: int
    settings: Mapping[str, object]
    environ: Mapping[str, str]


class Mesh:
    """Nodes that run."""

    def __init__(
        self,
        nodes: Sequence[NodeProcess],
        clients: Sequence[NodeClient],
        ask: Ask,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes, self.clients, self.ask, self.headers = nodes, clients, ask, headers
        self.trainer = ask.trainer

    def wait_until_ready(self, patience: float = 120.0) -> None:
        """Until every node knows all others and has its data.

        Raises:
            NotDone: they do not get there.
        """
        self.until(self._is_ready, patience, "ready")

    def _is_ready(self, client: NodeClient) -> bool:
        peers = sum(peer.get("state") == "alive" for peer in client.peers())
        return peers == len(self.nodes) - 1 and client.job(self.trainer).get("phase") == "IDLE"

    def until(self, done: Callable[[NodeClient], bool], patience: float, what: str) -> None:
        """Ask the nodes one after another until each has said yes once."""
        deadline = time.monotonic() + patience
        waiting = list(self.clients)
        while waiting:
            try:
                while waiting and done(waiting[0]):
                    del waiting[0]
            except (PeerUnreachable, PeerTimeout):
                pass
            for node in self.nodes:
                node.check()
            if waiting and time.monotonic() > deadline:
                raise NotDone(f"after {patience:g} s {len(waiting)} of {len(self.nodes)} nodes are not {what}")
            if waiting:
                time.sleep(LOOK_S)

    def series(self, rounds: int, patience: float) -> Series:
        """Ask the first node for rounds, wait until all nodes have closed the last, and read what they noted.

        Raises:
            NotDone: it takes longer than `patience` seconds.
        """
        asked, before = time.time(), self.cpu_s()
        first, last = self.train(rounds, patience)
        cpu_s = self.cpu_s() - before
        feeds = [read_feed(node.address, self.trainer, last, self.headers) for node in self.nodes]
        return Series(asked, range(first, last + 1), [only(feed, self.trainer) for feed in feeds], cpu_s)

    def train(self, rounds: int, patience: float) -> tuple[int, int]:
        """Ask the first node for rounds and wait until all nodes have closed the last; the first and last number.

        Raises:
            NotDone: it takes longer than `patience` seconds.
        """
        first = self.clients[0].trigger(self.trainer, rounds)
        last = first + rounds - 1

        def closed(client: NodeClient) -> bool:
            job = client.job(self.trainer)
            return int(job.get("current_round") or 0) >= last and job.get("phase") == "IDLE"

        self.until(closed, patience, f"done with round {last}")
        return first, last

    def history(self) -> list[list[Mapping[str, Any]]]:
        """The records of all rounds, by node."""
        return [client.history(self.trainer) for client in self.clients]

    def pids(self) -> list[int]:
        """Of all nodes, their children, and what forks children for them: all that this process has started."""
        return descendants(os.getpid())

    def children(self) -> list[int]:
        """Of what is not a node itself."""
        return sorted(set(self.pids()) - {node.process.pid for node in self.nodes})

    def cpu_s(self) -> float:
        """Processor time of all nodes and their children so far; a child that has ended counts no more."""
        return sum(map(cpu_seconds, self.pids()))

    def mb(self) -> float:
        """Memory of all processes, shared pages counted once."""
        return sum(proportional_mb(pid) for pid in self.pids())


@dataclass(frozen=True)
class Series:
    """What the nodes noted of some rounds.

    Attributes:
        asked: when the rounds were asked for, seconds since the epoch.
        numbers: of the rounds.
        feeds: by node, the events of its feed, oldest first.
        cpu_s: processor time of all nodes and their children, without what telling their feeds took.
    """

    asked: float
    numbers: range
    feeds: Sequence[Sequence[JSON]]
    cpu_s: float = 0.0

    def times(self, kind: str, number: int) -> list[float]:
        """When each node noted such an event of this round; nodes that did not are left out."""
        values = [
            [e["at"] for e in feed if e["kind"] == kind and e["data"].get("round") == number]
            for feed in self.feeds
        ]
        return [times[-1] for times in values if times]

    def closed(self, number: int) -> float:
        """When the last node closed a round."""
        return max(self.times("round_closed", number))

    def first_s(self) -> float:
        """From the asking until all nodes have closed the first round."""
        return self.closed(self.numbers[0]) - self.asked

    def rounds_s(self) -> list[float]:
        """Of every further round, from one closing everywhere to the next."""
        ends = [self.closed(number) for number in self.numbers]
        return [after - before for before, after in pairwise(ends)]

    def spans_s(self, begin: str, end: str) -> list[float]:
        """Per round, from when the last node noted `begin` until the last one noted `end`."""
        spans = []
        for number in self.numbers:
            begun, ended = self.times(begin, number), self.times(end, number)
            if begun and ended:
                spans.append(max(ended) - max(begun))
        return spans

    def lost(self) -> int:
        """Rounds of nodes that were averaged without someone, or not at all."""
        whole = 0
        for feed in self.feeds:
            for event in feed:
                data = event["data"]
                if event["kind"] == "averaged" and data["round"] in self.numbers:
                    whole += len(data["contributors"]) == len(self.feeds)
        return len(self.feeds) * len(self.numbers) - whole


def only(feed: Sequence[JSON], trainer: str) -> list[JSON]:
    """The events of one trainer."""
    return [event for event in feed if event.get("trainer") == trainer]


def read_feed(address: str, trainer: str, last: int, headers: Mapping[str, str] | None = None) -> list[JSON]:
    """What a node's feed still keeps, up to the end of a round.

    It is asked for once, after the work, so that it costs nothing before.
    """
    events: list[JSON] = []
    with (
        httpx.Client(trust_env=False, timeout=ANSWER_S) as http,
        http.stream("GET", f"http://{address}/events", headers={"Last-Event-ID": "0", **(headers or {})}) as reply,
    ):
        for event in parse_events(reply.iter_lines()):
            events.append(event)
            if is_end(event, trainer, last):
                break
    return events


def is_end(event: JSON, trainer: str, number: int) -> bool:
    """Whether this event says that a round of this trainer is over."""
    closed = event["kind"] == "round_closed" and event["trainer"] == trainer
    return closed and bool(event["data"]["round"] == number)


def parse_events(lines: Iterator[str]) -> Iterator[JSON]:
    """The events in a text/event-stream of flnet."""
    for line in lines:
        if line.startswith("data:"):
            yield json.loads(line[5:])


def known(settings: Mapping[str, object]) -> bool:
    """Whether this version of flnet has all these settings, and takes these values."""
    try:
        Settings.model_validate(dict(settings))
    except ValueError:
        return False
    return True


@contextmanager
def mesh(ask: Ask, folder: Path, base_port: int) -> Iterator[Mesh]:
    """Start nodes with a share of the data each; they are ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with environment(ask), ExitStack() as stack:
        ports = processes.free_ports(ask.count, base_port)
        nodes = stack.enter_context(processes.local_nodes(ask.trainer, ports, folder))
        clients = [stack.enter_context(NodeClient(node.address, ANSWER_S)) for node in nodes]
        yield Mesh(nodes, clients, ask)


@contextmanager
def single(
    ask: Ask, folder: Path, base_port: int, *, own: Mapping[str, object], wrap: Sequence[str] = ()
) -> Iterator[Mesh]:
    """One node started as a person starts it, with `flnet run`: its training child is forked by nobody else.

    Args:
        own: settings of this node, in addition to those of `ask`; by field name.
        wrap: a module of Python, with its options, that runs it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with environment(ask), ExitStack() as stack:
        port = processes.free_ports(1, base_port)[0]
        settings = {"node_id": "single", "node_port": port, "state_path": folder / "single", **own}
        python, *rest = processes.node_command(settings | {"trainers": ask.trainer})
        log = folder / "single.log"
        with log.open("wb") as output:
            command = [python, *wrap, *rest]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        node = NodeProcess("single", port, log, process)
        stack.callback(end, process)
        yield Mesh([node], [stack.enter_context(NodeClient(node.address, ANSWER_S))], ask)


def end(process: subprocess.Popen[bytes] | ForkedNode, patience: float = 15.0) -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def environment(ask: Ask) -> Iterator[None]:
    """What the nodes inherit: the settings asked for and no others, and where the trainers' code lies."""
    settings = {"trainers_path": TRAINERS, "max_body_megabytes": 4096, **ask.settings}
    before, kept = dict(os.environ), processes.KEPT_SETTINGS
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ.update({PREFIX + name.upper(): str(value) for name, value in settings.items()} | dict(ask.environ))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before.get("PYTHONPATH")]))
    # The nodes of `flnet demo` keep few variables; here all that is asked for is meant.
    setattr(processes, "KEPT_SETTINGS", (*kept, *settings))  # noqa: B010
    try:
        yield
    finally:
        setattr(processes, "KEPT_SETTINGS", kept)  # noqa: B010
        os.environ.clear()
        os.environ.update(before)
