"""Takes nodes of this machine from their start through some rounds: together as a mesh, or each by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from flnet.cli.client import NodeClient, View
from flnet.cli.follow import Follower
from flnet.cli.processes import NodeProcess, free_ports, local_nodes
from flnet.cli.progress import open_progress
from flnet.cli.results import RoundResult
from flnet.cli.text import counted, printable
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable

__all__ = ["DemoFailed", "LocalRun", "Plan", "data_lines", "opened"]

LOOK_SECONDS = 0.1
T = TypeVar("T")


class DemoFailed(click.ClickException):
    """The demo cannot go on; exit code 1."""


@dataclass(frozen=True)
class Plan:
    """What the nodes of a demo do.

    Attributes:
        base_port: the first port to try.
        patience: seconds without any progress after which it is given up.
    """

    trainer: str
    count: int
    rounds: int
    base_port: int
    patience: float


@contextmanager
def opened(plan: Plan, folder: Path, out: Console, alone: bool = False) -> Iterator[LocalRun]:
    """Start the nodes of a plan; they are ended at the end."""
    ports = free_ports(plan.count, plan.base_port)
    with local_nodes(plan.trainer, ports, folder, alone) as nodes, ExitStack() as stack:
        clients = {node.id: stack.enter_context(NodeClient(node.address)) for node in nodes}
        yield LocalRun(out, nodes, clients, plan, alone)


class LocalRun:
    """The steps of one run, over nodes that are starting.

    Attributes:
        data: by node, what it trains on, as its job describes it; there after `train`.
    """

    def __init__(
        self,
        out: Console,
        nodes: Sequence[NodeProcess],
        clients: Mapping[str, NodeClient],
        plan: Plan,
        alone: bool,
    ) -> None:
        self._out = out
        self._nodes = nodes
        self._clients = clients
        self._plan = plan
        self._alone = alone
        self.data: Mapping[str, View] = {}
        self._started = time.monotonic()  # the last node's process has just been started

    def train(self) -> list[RoundResult]:
        """Wait for nodes, mesh and data, then do the rounds.

        Raises:
            DemoFailed, RoundFailed: something does not come, fails, or does not move any more.
            NodeEnded: a node died.
        """
        how = "again, each without the others and with the same share" if self._alone else "each with its share"
        self._out.print(
            f"starting {counted(len(self._nodes), 'node')} on this machine, {how} of the data", soft_wrap=True
        )
        self._wait_for_nodes()
        if not self._alone:
            self._wait_for_mesh()
        self._wait_for_data()
        return self._rounds() if self._plan.rounds else []

    def stay(self) -> None:
        """Keep the nodes up until a signal comes.

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

        self._until(all_up, lambda: "these nodes do not answer: " + ", ".join(node.id for node in waiting))

    def _is_up(self, node: NodeProcess) -> bool:
        try:
            found = self._clients[node.id].info().get("iAm", {}).get("id")
        except (PeerUnreachable, PeerTimeout):
            return False
        except PeerRefused as exc:
            raise DemoFailed(f"something else answers on the port of {node.id}: {printable(exc.message)}") from exc
        if found != node.id:
            raise DemoFailed(f"at {node.address} is {printable(found)}, where {node.id} was expected")
        return True

    def _wait_for_mesh(self) -> None:
        expected = len(self._nodes) - 1
        known = dict.fromkeys(self._clients, 0)

        def full() -> bool:
            for name, client in self._clients.items():
                known[name] = ask(partial(alive_peers, client), known[name])
            return all(count >= expected for count in known.values())

        self._until(full, lambda: f"the mesh is not complete, of {expected} peers are known: {known}")
        self._out.print(
            f"full mesh after {time.monotonic() - self._started:.1f} s (from the start of the last node)"
        )

    def _wait_for_data(self) -> None:
        views: dict[str, View] = {}
        self._out.print("every node loads its framework and its data ...")

        def loaded() -> bool:
            for name, client in self._clients.items():
                views[name] = ask(partial(client.job, self._plan.trainer), views.get(name, {}))
                if views[name].get("phase") == "NO_DATA":
                    raise DemoFailed(
                        f"{name} cannot train {self._plan.trainer}: {printable(views[name].get('error'))}"
                    )
            return all(view.get("phase", "LOADING") != "LOADING" for view in views.values())

        self._until(loaded, lambda: "the data are not loaded")
        self.data = {name: view.get("data") or {} for name, view in views.items()}
        if not self._alone:  # the lone nodes have what has been said of the others
            for line in data_lines(self.data):
                self._out.print(line, soft_wrap=True)

    def _rounds(self) -> list[RoundResult]:
        results = []
        with open_progress(self._out) as progress:
            follower = Follower(
                self._clients,
                self._plan.trainer,
                progress,
                patience=self._plan.patience,
                check=self._check,
                tolerant=True,
            )
            first = self._trigger()
            progress.say(self._asked_words())
            for result in follower.rounds(first, self._plan.rounds):
                results.append(result)
                progress.say(result.lone_words() if self._alone else str(result))
        return results

    def _trigger(self) -> int:
        """Ask one node of the mesh, or every lone one; the number of the first round."""
        asked = self._nodes if self._alone else self._nodes[:1]
        firsts = [self._clients[node.id].trigger(self._plan.trainer, self._plan.rounds) for node in asked]
        return firsts[0]

    def _asked_words(self) -> str:
        rounds = counted(self._plan.rounds, "round")
        if self._alone:
            return f"every node was asked for {rounds} by itself"
        return f"{self._nodes[0].id} was asked for {rounds}; any other node would do"

    def _until(self, done: Callable[[], bool], problem: Callable[[], str]) -> None:
        deadline = time.monotonic() + self._plan.patience
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"after {self._plan.patience:g} s {problem()}")
            time.sleep(LOOK_SECONDS)


def ask(question: Callable[[], T], otherwise: T) -> T:
    """Ask a node; one that is too busy to answer just now is asked again later."""
    try:
        return question()
    except (PeerUnreachable, PeerTimeout):
        return otherwise


def alive_peers(client: NodeClient) -> int:
    """How many peers a node reaches."""
    return sum(peer.get("state") == "alive" for peer in client.peers())


def data_lines(described: Mapping[str, View]) -> list[str]:
    """What the nodes train on, in words; made-up or bundled stand-ins are called samples."""
    sources: dict[str, list[str]] = {}
    for name, data in described.items():
        kind = "SAMPLE DATA, not the real data set: " if data.get("sample") else ""
        words = printable(f"{kind}{data.get('source', 'not described')}")
        rows = data.get("rows") or {}
        sources.setdefault(words, []).append(f"{name} {rows.get('train', '?')}+{rows.get('test', '?')}")
    return [f"data: {words} (training + test examples: {', '.join(rows)})" for words, rows in sources.items()]
