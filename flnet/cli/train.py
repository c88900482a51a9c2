"""`flnet train`: ask a running node for rounds, and see them through with --wait."""

from __future__ import annotations

import click

from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.figures import metrics_option
from flnet.cli.follow import Follower, RoundFailed
from flnet.cli.progress import open_progress
from flnet.cli.results import RoundResult, failure, figures_tables, results_table
from flnet.cli.tables import console, print_json, print_table
from flnet.cli.text import printable

__all__ = ["GoalGivenUp", "command"]

MOST_ROUNDS = 100  # until a goal, if nobody says


class GoalGivenUp(click.ClickException):
    """The rounds ended, but not because the goal was reached."""

    exit_code = 4


@click.command("train")
@click.argument("trainer")
@click.option("--rounds", type=click.IntRange(1, 1_000_000), help="How many rounds; 1 if nothing is said.")
@click.option("--until", metavar="GOAL", help='Go on until then: "accuracy>=0.98", "no-gain 5 0.001", ...')
@click.option(
    "--max-rounds",
    type=click.IntRange(1, 1_000_000),
    help=f"How many rounds --until may take; {MOST_ROUNDS} if nothing is said.",
)
@click.option("--wait", is_flag=True, help="Wait for the results, showing how far the node is.")
@metrics_option
@node_option
def command(
    trainer: str,
    rounds: int | None,
    until: str | None,
    max_rounds: int | None,
    wait: bool,
    address: str,
    as_json: bool,
    every: bool,
) -> None:
    """Start training rounds; the whole mesh takes part.

    TRAINER is an id that `flnet status` shows, such as MNIST.

    GOAL is one or more of these, apart by commas; whichever comes first ends the rounds on all nodes:
    accuracy>=0.98 (mean of all nodes), every accuracy>=0.9 (the lowest), own accuracy>=0.9 (of the node asked),
    no-gain 5 0.001 (5 rounds without 0.001 more), mlfedavg (accuracy falls and loss rises, twice running),
    within 600 (seconds).

    With --json the answer, or with --wait the results, go to stdout as JSON and the progress to stderr.
    Ctrl-C ends the waiting, not the rounds.

    \b
    Exit codes: 0 started, with --wait finished, with --until reached; 1 the node refused, or a round failed;
    2 wrong usage; 3 the node cannot be reached; 4 with --wait, the goal was given up.
    """
    most = _most(rounds, until, max_rounds)
    with NodeClient(address) as node:
        first = node.trigger(trainer, most, until)
        if not wait:
            _say_started(trainer, first, most, until, as_json)
            return
        results = _see_through(node, trainer, first, most, until is not None, as_json)
        goal = node.job(trainer).get("goal") if until else None
    if as_json:
        print_json([result.fields() for result in results])
    else:
        for shown in (results_table(results), *figures_tables(results, every)):
            print_table(shown)
    if failed := failure(results):
        raise RoundFailed(failed)
    if until:
        _tell_end(goal if isinstance(goal, dict) else {}, as_json)


def _most(rounds: int | None, until: str | None, max_rounds: int | None) -> int:
    if until is None and max_rounds is not None:
        raise click.UsageError("--max-rounds goes with --until; without a goal, say --rounds")
    if until is not None and rounds is not None:
        raise click.UsageError("--rounds is a number of rounds without a goal; with --until, say --max-rounds")
    return (max_rounds or MOST_ROUNDS) if until is not None else (rounds or 1)


def _tell_end(goal: View, as_json: bool) -> None:
    words = f"{printable(str(goal.get('until', '')))}: {printable(str(goal.get('words', 'no longer under way')))}"
    if goal.get("state") != "reached":
        raise GoalGivenUp(f"given up: {words}")
    click.echo(f"reached: {words}", err=as_json)


def _say_started(trainer: str, first: int, rounds: int, until: str | None, as_json: bool) -> None:
    if as_json:
        goal = {"until": until} if until else {}
        print_json({"trainerId": trainer, "round": first, "rounds": rounds, **goal})
        return
    which = f"round {first}" if rounds == 1 else f"rounds {first} to {first + rounds - 1}"
    if until:
        click.echo(f"rounds of {printable(trainer)} from {first} on, {rounds} at most, until {printable(until)}")
        return
    click.echo(f"{which} of {printable(trainer)} started")


def _see_through(
    node: NodeClient, trainer: str, first: int, rounds: int, has_goal: bool, as_json: bool
) -> list[RoundResult]:
    name = str(node.info().get("iAm", {}).get("id", node.address))
    results = []
    with open_progress(console(stderr=as_json)) as progress:
        follower = Follower({name: node}, trainer, progress)
        for result in follower.rounds_of_goal(first) if has_goal else follower.rounds(first, rounds):
            results.append(result)
            progress.say(str(result))
    return results
