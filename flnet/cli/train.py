"""`flnet train`: ask a running node for rounds, and see them through with --wait."""

from __future__ import annotations

import click

from flnet.cli.client import NodeClient, node_option
from flnet.cli.figures import metrics_option
from flnet.cli.follow import Follower, RoundFailed
from flnet.cli.progress import open_progress
from flnet.cli.results import RoundResult, failure, figures_tables, results_table
from flnet.cli.tables import console, print_json, print_table
from flnet.cli.text import printable

__all__ = ["command"]


@click.command("train")
@click.argument("trainer")
@click.option("--rounds", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="How many rounds.")
@click.option("--wait", is_flag=True, help="Wait for the results, showing how far the node is.")
@metrics_option
@node_option
def command(trainer: str, rounds: int, wait: bool, address: str, as_json: bool, every: bool) -> None:
    """Start training rounds; the whole mesh takes part.

    TRAINER is an id that `flnet status` shows, such as MNIST.

    With --json the answer, or with --wait the results, go to stdout as JSON and the progress to stderr.
    Ctrl-C ends the waiting, not the rounds.

    \b
    Exit codes: 0 started, with --wait finished; 1 the node refused, or a round failed; 2 wrong usage;
    3 the node cannot be reached.
    """
    with NodeClient(address) as node:
        first = node.trigger(trainer, rounds)
        if not wait:
            _say_started(trainer, first, rounds, as_json)
            return
        results = _see_through(node, trainer, first, rounds, as_json)
    if as_json:
        print_json([result.fields() for result in results])
    else:
        for shown in (results_table(results), *figures_tables(results, every)):
            print_table(shown)
    if failed := failure(results):
        raise RoundFailed(failed)


def _say_started(trainer: str, first: int, rounds: int, as_json: bool) -> None:
    if as_json:
        print_json({"trainerId": trainer, "round": first, "rounds": rounds})
        return
    which = f"round {first}" if rounds == 1 else f"rounds {first} to {first + rounds - 1}"
    click.echo(f"{which} of {printable(trainer)} started")


def _see_through(node: NodeClient, trainer: str, first: int, rounds: int, as_json: bool) -> list[RoundResult]:
    name = str(node.info().get("iAm", {}).get("id", node.address))
    results = []
    with open_progress(console(stderr=as_json)) as progress:
        for result in Follower({name: node}, trainer, progress).rounds(first, rounds):
            results.append(result)
            progress.say(str(result))
    return results
