"""`flnet demo`: a mesh of real nodes on this machine that trains before one's eyes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from flnet.cli.client import NodeClient, View
from flnet.cli.follow import Follower, RoundFailed
from flnet.cli.processes import Interrupted, NodeEnded, NodeProcess, free_ports, interruptible, local_nodes
from flnet.cli.progress import open_progress
from flnet.cli.results import RoundResult, failure, results_table
from flnet.cli.tables import console
from flnet.cli.text import counted, printable
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable

__all__ = ["command"]

LOOK_SECONDS = 0.1
T = TypeVar("T")
SIGNAL_EXIT = 128  # plus the signal's number, as shells count


class DemoFailed(click.ClickException):
    """The demo cannot go on; exit code 1."""


@click.command("demo")
@click.option("--nodes", "count", type=click.IntRange(1, 64), default=4, show_default=True, help="How many nodes.")
@click.option("--rounds", type=click.IntRange(0, 10_000), default=5, show_default=True, help="How many rounds.")
@click.option("--trainer", default="MNIST", show_default=True, metavar="ID", help="What is trained.")
@click.option("--exit", "leave", is_flag=True, help="End after the last round instead of staying for the browser.")
@click.option(
    "--base-port",
    type=click.IntRange(1, 65535),
    default=4000,
    show_default=True,
    help="First port to try; ports in use are passed over.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up when nothing has moved for this long.",
)
def command(*, count: int, rounds: int, trainer: str, leave: bool, base_port: int, patience: float) -> None:
    """Start several nodes on this machine and train with them.

    After the rounds the nodes stay up for the browser. Everything stays on loopback and needs no network;
    states and logs lie in a temporary folder that is removed at the end. Data sets are taken from
    $FLNET_DATASETS_PATH where they are there, otherwise the trainer's bundled sample is used.

    \b
    Exit codes: 0 all rounds finished, or ended by Ctrl-C; 1 a node, the mesh or a round failed; 2 wrong usage;
    128 + signal when --exit was given and a signal came first.
    """
    out = console()
    try:
        with interruptible(), _folder() as folder:
            ports = free_ports(count, base_port)
            with local_nodes(trainer, ports, folder) as nodes, ExitStack() as stack:
                clients = {node.id: stack.enter_context(NodeClient(node.address)) for node in nodes}
                demo = Demo(out, nodes, clients, trainer, patience)
                demo.run(rounds)
                if not leave:
                    demo.stay()
    except NodeEnded as exc:
        for line in exc.tail:
            click.echo("    " + line, err=True)
        raise
    except Interrupted as exc:
        out.print("\nended")
        # Ctrl-C is how a demo ends; only a script that waits for --exit was cut short.
        raise SystemExit(SIGNAL_EXIT + exc.number if leave else 0) from None


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="flnet-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Demo:
    """The steps of the demo, over nodes that are starting."""

    def __init__(
        self,
        out: Console,
        nodes: Sequence[NodeProcess],
        clients: Mapping[str, NodeClient],
        trainer: str,
        patience: float,
    ) -> None:
        self._out = out
        self._nodes = nodes
        self._clients = clients
        self._trainer = trainer
        self._patience = patience
        self._started = time.monotonic()  # the last node's process has just been started

    def run(self, rounds: int) -> None:
        """Wait for nodes, mesh and data, then do the rounds and print their table.

        Raises:
            DemoFailed, RoundFailed: something does not come, fails, or does not move any more.
            NodeEnded: a node died.
        """
        self._out.print(
            f"starting {counted(len(self._nodes), 'node')} on this machine, each with its share of the data"
        )
        self._wait_for_nodes()
        self._wait_for_mesh()
        self._wait_for_data()
        results = self._train(rounds) if rounds else []
        if results:
            self._out.print(results_table(results))
            self._out.print(summary(results), soft_wrap=True)
        if failed := failure(results):
            raise RoundFailed(failed)

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
                views[name] = ask(partial(client.job, self._trainer), views.get(name, {}))
                if views[name].get("phase") == "NO_DATA":
                    raise DemoFailed(f"{name} cannot train {self._trainer}: {printable(views[name].get('error'))}")
            return all(view.get("phase", "LOADING") != "LOADING" for view in views.values())

        self._until(loaded, lambda: "the data are not loaded")
        for line in data_lines(views):
            self._out.print(line, soft_wrap=True)

    def _train(self, rounds: int) -> list[RoundResult]:
        asked, results = self._nodes[0], []
        with open_progress(self._out) as progress:
            follower = Follower(
                self._clients, self._trainer, progress, patience=self._patience, check=self._check, tolerant=True
            )
            first = self._clients[asked.id].trigger(self._trainer, rounds)
            progress.say(f"{asked.id} was asked for {counted(rounds, 'round')}; any other node would do")
            for result in follower.rounds(first, rounds):
                results.append(result)
                progress.say(str(result))
        return results

    def _until(self, done: Callable[[], bool], problem: Callable[[], str]) -> None:
        deadline = time.monotonic() + self._patience
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"after {self._patience:g} s {problem()}")
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


def data_lines(views: Mapping[str, View]) -> list[str]:
    """What the nodes train on, in words; made-up or bundled stand-ins are called samples."""
    sources: dict[str, list[str]] = {}
    for name, view in views.items():
        data = view.get("data") or {}
        kind = "SAMPLE DATA, not the real data set: " if data.get("sample") else ""
        words = printable(f"{kind}{data.get('source', 'not described')}")
        rows = data.get("rows") or {}
        sources.setdefault(words, []).append(f"{name} {rows.get('train', '?')}+{rows.get('test', '?')}")
    return [f"data: {words} (training + test examples: {', '.join(rows)})" for words, rows in sources.items()]


def summary(results: Sequence[RoundResult]) -> str:
    """The result in a sentence or two."""
    first, last = results[0], results[-1]
    differing = [str(result.number) for result in results if not result.same_model]
    same = (
        "after every round all nodes held the same model, bit by bit"
        if not differing
        else f"the nodes' models differed after round {', '.join(differing)}"
    )
    seconds = sum(result.seconds for result in results)
    gain = f"{first.pre.mean:.4f} to {last.post.mean:.4f}" if first.pre and last.post else "unknown"
    return (
        f"{counted(len(results), 'round')} in {seconds:.1f} s; mean accuracy from {gain} "
        f"(before the first averaging, after the last); {same}"
    )
