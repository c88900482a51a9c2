"""Commands that start rounds and set how they run: `flnet train`, `flnet schedule` and `flnet params`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

from flnet.aggregation.naming import rule_text
from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.epochs import NEWEST, EpochResult, epochs_from, epochs_table, is_vertical, shortfall, vertical_lines
from flnet.cli.output import console, metrics_option, next_line, print_json, print_table, printable, table
from flnet.cli.progress import (
    Follower,
    RoundFailed,
    RoundResult,
    by_reason,
    failure,
    metrics_tables,
    no_average,
    open_progress,
    results_table,
)

MOST_ROUNDS = 100  # until a goal, if nobody says


class GoalGivenUp(click.ClickException):
    """The rounds ended, but not because the goal was reached."""

    exit_code = 4


class TrainedAlone(click.ClickException):
    """In a round, the average was of this node's update alone, or no other node has it."""

    exit_code = 4


@click.command("train")
@click.argument("trainer")
@click.option("--rounds", type=click.IntRange(1, 1_000_000), help="Number of rounds.  [default: 1]")
@click.option(
    "--until", metavar="GOAL", help='Stop when the goal is reached: "accuracy>=0.98", "no-gain 5 0.001", ...'
)
@click.option(
    "--max-rounds",
    type=click.IntRange(1, 1_000_000),
    help=f"Largest number of rounds with --until.  [default: {MOST_ROUNDS}]",
)
@click.option(
    "--new-numbering",
    is_flag=True,
    help="Begin a new numbering, for a mesh whose nodes are in rounds with numbers far apart.",
)
@click.option("--wait", is_flag=True, help="Show progress and wait for the results.")
@metrics_option
@node_option
def command(
    trainer: str,
    rounds: int | None,
    until: str | None,
    max_rounds: int | None,
    new_numbering: bool,
    wait: bool,
    address: str,
    as_json: bool,
    every: bool,
) -> None:
    """Start training rounds; the whole mesh takes part.

    TRAINER is an id that `flnet status` shows, such as MNIST.

    GOAL is a comma-separated list; the first condition that holds ends the rounds on all nodes:
    accuracy>=0.98 (mean of all nodes), every accuracy>=0.9 (lowest of all nodes), own accuracy>=0.9 (of this
    node), no-gain 5 0.001 (5 rounds without a gain of 0.001), mlfedavg (accuracy falls and loss rises twice in
    a row), within 600 (seconds).

    With --json the answer, or with --wait the results, go to stdout as JSON and the progress to stderr.
    Ctrl-C ends the waiting, not the rounds.

    \b
    Exit codes: 0 started, with --wait finished, with --until reached; 1 the node refused, or a round failed
    or had no average;
    2 wrong usage; 3 the node cannot be reached; 4 with --wait, the goal was given up, or the node was alone in a
    round: the average was of its update only, or no other node has it.
    """
    most = _most(rounds, until, max_rounds)
    with NodeClient(address) as node:
        first = node.trigger(trainer, most, until, new_numbering)
        begun = node.job(trainer)
        warnings = Warnings()
        warnings.of_job(begun)
        if not wait:
            _say_started(trainer, first, most, until, as_json, is_loading=begun.get("phase") == "LOADING")
            return
        if is_vertical(begun):
            _see_epochs(node, trainer, first, most, as_json)
            return
        results = _see_through(node, trainer, first, most, until is not None, as_json, warnings)
        job = node.job(trainer)
        warnings.of_job(job)
    _show(results, as_json, every)
    _judge(results, job)
    if until:
        goal = job.get("goal")
        _tell_end(goal if isinstance(goal, dict) else {}, as_json)


def _judge(results: Sequence[RoundResult], job: View) -> None:
    """Whether the rounds did what they are for.

    Raises:
        RoundFailed: one failed, or made no average.
        TrainedAlone: this node was alone in one.
    """
    if failed := failure(results) or no_average(results):
        raise RoundFailed(failed)
    if lonely := _alone_words(results, job):
        raise TrainedAlone(lonely)


def _show(results: Sequence[RoundResult], as_json: bool, every: bool) -> None:
    if as_json:
        print_json([result.fields() for result in results])
        return
    for shown in (results_table(results), *metrics_tables(results, every)):
        print_table(shown)


def _most(rounds: int | None, until: str | None, max_rounds: int | None) -> int:
    if until is None and max_rounds is not None:
        raise click.UsageError("--max-rounds goes with --until; without a goal, say --rounds")
    if until is not None and rounds is not None:
        raise click.UsageError("--rounds is a number of rounds without a goal; with --until, say --max-rounds")
    return (max_rounds or MOST_ROUNDS) if until is not None else (rounds or 1)


class Warnings:
    """Says on stderr who does not train with the node, and why: each reason once, however many rounds it holds."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def of_job(self, job: View) -> None:
        """Say with which nodes there is no training, and what nodes will not train by."""
        self.of_limits(job)
        for row in job.get("differs") or []:
            words = f"{printable(row.get('peer'))} cannot train with this node: {printable(row.get('words'))}"
            self._say(words, words)

    def of_limits(self, job: View) -> None:
        """Say what nodes will not train by in the rounds that start at the node."""
        if why := job.get("asks_too_much"):
            words = f"nodes with the limits of this node do not train in rounds that start here: {printable(why)}"
            self._say(words, words)

    def of_round(self, result: RoundResult, job: View) -> None:
        """Say whose updates are not in the average of a round."""
        left_out = result.left_out or {}
        if lonely := _alone_words([result], job):
            self._say(_reasons(next(iter(result.alone.values())), job), lonely)
        elif left_out:
            reasons = _reasons(left_out, job)
            self._say(reasons, f"round {result.number} averaged {result.update_words()} updates: {reasons}")

    def _say(self, reason: str, words: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            click.echo(f"warning: {words}", err=True)


def _alone_words(results: Iterable[RoundResult], job: View) -> str:
    """The rounds in which the node was alone, and why in the last of them."""
    alone = {result.number: peers for result in results for peers in result.alone.values()}
    if not alone:
        return ""
    *_, last = alone.values()
    rounds = "round " if len(alone) == 1 else "rounds "
    return f"in {rounds}{', '.join(map(str, alone))} this node was alone: {_reasons(last, job)}"


def _reasons(peers: Mapping[str, str], job: View) -> str:
    """Why these peers took no part, each reason once; what differs is told from the side of the node."""
    differs = {row.get("peer"): row.get("words") for row in job.get("differs") or []}
    return by_reason({peer: str(differs.get(peer) or why) for peer, why in peers.items()})


def _tell_end(goal: View, as_json: bool) -> None:
    words = f"{printable(str(goal.get('until', '')))}: {printable(str(goal.get('words', 'no longer under way')))}"
    if goal.get("state") != "reached":
        raise GoalGivenUp(f"given up: {words}")
    click.echo(f"reached: {words}", err=as_json)


def _say_started(
    trainer: str, first: int, rounds: int, until: str | None, as_json: bool, *, is_loading: bool
) -> None:
    if as_json:
        goal = {"until": until} if until else {}
        print_json({"trainerId": trainer, "round": first, "rounds": rounds, **goal})
        return
    which = f"round {first}" if rounds == 1 else f"rounds {first} to {first + rounds - 1}"
    if is_loading:
        click.echo(f"{printable(trainer)} is loading its data; the requested rounds begin when they are there")
        return
    if until:
        click.echo(f"rounds of {printable(trainer)} from {first} on, {rounds} at most, until {printable(until)}")
        return
    click.echo(f"{which} of {printable(trainer)} started")


def _see_through(
    node: NodeClient, trainer: str, first: int, rounds: int, has_goal: bool, as_json: bool, warnings: Warnings
) -> list[RoundResult]:
    name = str(node.info().get("iAm", {}).get("id", node.address))
    results = []
    with open_progress(console(stderr=as_json)) as progress:
        follower = Follower({name: node}, trainer, progress)
        for result in follower.rounds_of_goal(first) if has_goal else follower.rounds(first, rounds):
            results.append(result)
            progress.say(str(result))
            if result.left_out or result.alone:
                warnings.of_round(result, node.job(trainer))
    return results


def _see_epochs(node: NodeClient, trainer: str, first: int, count: int, as_json: bool) -> None:
    """Wait for the epochs of a vertical job, and show them.

    Raises:
        RoundFailed: fewer were trained.
    """
    name = str(node.info().get("iAm", {}).get("id", node.address))
    results: list[EpochResult] = []
    with open_progress(console(stderr=as_json)) as progress:
        for result in epochs_from(node, trainer, first, count, lambda job: progress.show({name: job})):
            results.append(result)
            progress.say(str(result))
    job = node.job(trainer)
    if as_json:
        print_json([result.fields() for result in results])
    elif results:
        print_table(
            epochs_table([record for record in node.history(trainer, last=NEWEST) if record["round"] >= first])
        )
        for line in vertical_lines([job]):
            click.echo(line)
    if missing := shortfall(results, count, job):
        raise RoundFailed(missing)


KINDS: dict[str, type[int] | type[float] | type[str]] = {"e": int, "u": float, "b": int, "aggregation": str}
MEANING = {"e": "local epochs", "u": "learning rate", "b": "batch size"}


@click.command("params")
@click.argument("trainer")
@click.argument("changes", nargs=-1, metavar="[e=N] [u=RATE] [b=N] [aggregation=RULE]")
@node_option
def params_command(trainer: str, changes: tuple[str, ...], address: str, as_json: bool) -> None:
    """Show or change hyper-parameters and the aggregation rule.

    e is the number of local epochs, u the learning rate, b the batch size. A change applies to the rounds that
    this node starts from now on; a round that another node starts has those of that node. The aggregation rule
    (such as aggregation=clip,cosine,agg1) can be changed between rounds, and must be the same on all nodes.
    A warning says if nodes with the limits of this node will not train by the hyper-parameters.

    \b
    Exit codes: 0 shown or changed; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    try:
        wanted = parse(changes)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="CHANGES") from exc
    with NodeClient(address) as node:
        job = node.edit(trainer, wanted) if wanted else node.job(trainer)
    hyper: View = job.get("hyper") or {}
    Warnings().of_limits(job)
    if as_json:
        print_json(hyper)
        return
    if not hyper:
        click.echo(f"{printable(trainer)} has none yet: {printable(job.get('error') or 'it is still loading')}")
        return
    shown = table("", "value", "meaning")
    names = [name for name in MEANING if name != "e" or not is_vertical(job)]  # there, a round is one epoch
    for name in names:
        shown.add_row(name, printable(hyper.get(name)), MEANING[name])
    if job.get("merging_rule"):
        rule = str(job["merging_rule"])
        means = rule_text(rule)
        meaning = (
            "aggregation rule" if means == rule.replace(",", ", ") else f"aggregation rule: {printable(means)}"
        )
        shown.add_row("aggregation", printable(rule), meaning)
    print_table(shown)
    if (of_round := job.get("round_hyper")) and of_round != hyper:
        values = ", ".join(f"{name}={printable(of_round.get(name))}" for name in names)
        click.echo(f"round {printable(job.get('current_round'))} has {values}")


def parse(changes: Iterable[str]) -> dict[str, int | float | str]:
    """Changes from "e=2" and the like.

    Raises:
        ValueError: another name, a value that is no number, or a name that comes twice.
    """
    wanted: dict[str, int | float | str] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in KINDS or name in wanted:
            raise ValueError(f"expected e=, u=, b= or aggregation=, each at most once, got {change!r}")
        try:
            wanted[name] = KINDS[name](value)
        except ValueError as exc:
            kind = "a whole number" if KINDS[name] is int else "a number"
            raise ValueError(f"expected {name}= with {kind}, got {change!r}") from exc
    return wanted


@click.command("schedule")
@click.argument("trainer")
@click.argument("when", required=False)
@click.option("--reset", is_flag=True, help="Return to the schedule of the node's settings (FLNET_TRAIN_WHEN).")
@node_option
def schedule_command(trainer: str, when: str | None, reset: bool, address: str, as_json: bool) -> None:
    """Show or change when this node starts rounds automatically.

    WHEN is a comma-separated list. Any of the first three conditions starts a round: every 6h (since the last
    round, whichever node started it), new 100 (new examples), drift 0.05 (accuracy on new test rows is lower than
    the last accuracy by more than that). All of the others must hold: between 22:00-06:00 (local time),
    battery>=30 (percent, while the machine runs on it), load<=0.8 (share of the processors used by other
    programs). With decline, this node also skips rounds of other nodes while they do not hold. "never" ends it.

    The schedule is kept over restarts.

    \b
    Exit codes: 0 shown or changed; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    if reset and when is not None:
        raise click.UsageError("give a schedule, or --reset")
    with NodeClient(address) as node:
        job = node.plan(trainer, when) if reset or when is not None else node.job(trainer)
    schedule: View = job.get("schedule") or {}
    if as_json:
        print_json(schedule)
        return
    whose = "given by a person" if schedule.get("by_person") else "of the node's settings"
    click.echo(f"{printable(trainer)}: {printable(schedule.get('when', 'never'))} ({whose})")
    if line := next_line(schedule):
        click.echo(line)
    if schedule.get("unwilling"):
        click.echo(f"takes no part in rounds of others now: {printable(schedule['unwilling'])}")
