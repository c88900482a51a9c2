"""The state of a running node: its jobs (`flnet status`), peers (`flnet peers`) and events (`flnet watch`)."""

from __future__ import annotations

import json
import time

import click
from rich.table import Table

from flnet.aggregation.naming import rule_text, sum_cautions
from flnet.cli.client import NodeClient, View, node_option
from flnet.cli.epochs import is_vertical, vertical_lines
from flnet.cli.output import (
    accuracy,
    counted,
    fairness_words,
    mesh_words,
    metric_words,
    metrics_of,
    metrics_option,
    next_line,
    numbers,
    older_round,
    print_json,
    print_table,
    printable,
    share,
    short,
    table,
)
from flnet.errors import PeerUnreachable
from flnet.names import DEFAULT_MESH

USUAL = "agg1"  # the default aggregation rule, which is not shown


@click.command("status")
@metrics_option
@node_option
def command(address: str, as_json: bool, every: bool) -> None:
    """Show a node's jobs: phase, round, accuracy, further metrics, and what each job waits for.

    \b
    Exit codes: 0 shown; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address) as node:
        info = _with_own(node.info(), node.jobs())
    if as_json:
        print_json(info)
        return
    me, states = info.get("iAm", {}), [peer.get("state") for peer in info.get("peers", [])]
    here = [state for state in states if state != "left"]
    click.echo(
        f"{printable(me.get('id'))} at {address} is {printable(info.get('lastNodeStatus'))}; "
        f"{here.count('alive')} of {len(here)} peers alive; mesh {printable(info.get('mesh', DEFAULT_MESH))}"
    )
    if unreached := info.get("unreached"):
        click.echo(printable(unreached))
    if (users := info.get("signWithOtherKey")) is not None:
        names = ", ".join(map(printable, users)) or "no peer"
        click.echo(f"two mesh keys are accepted; the second one was last used by {names}")
    jobs = info.get("jobsInfo", [])
    print_table(jobs_table(jobs))
    for line in (
        *vertical_lines(jobs),
        *version_lines(jobs),
        *spread_lines(jobs),
        *mesh_lines(jobs),
        *plan_lines(jobs),
        *privacy_lines(jobs),
        *sum_lines(jobs, str(info.get("mode"))),
        *merging_lines(jobs, 1 + here.count("alive")),
        *differing_lines(jobs),
        *figure_lines([job for job in jobs if not is_vertical(job)], every),
    ):
        click.echo(line)


def _with_own(info: View, jobs: list[View]) -> View:
    """The node's GET /info, with what peers do not see: whose updates have a low weight, who cannot train with it, and
    all figures of vertical jobs.
    """
    own = {
        job.get("trainer_id"): {
            **{name: job.get(name, []) for name in ("counts_little", "differs")},
            **({"vertical": job["vertical"]} if is_vertical(job) else {}),
        }
        for job in jobs
    }
    views = [{**job, **own.get(job.get("trainer_id"), {})} for job in info.get("jobsInfo", [])]
    return {**info, "jobsInfo": views}


def jobs_table(jobs: list[View]) -> Table:
    """One row per job."""
    shown = table("trainer", "phase", "round", "pre", "post", "digest", "note")
    for job in jobs:
        shown.add_row(
            printable(job.get("trainer_id")),
            printable(job.get("phase")),
            printable(job.get("current_round")),
            _of_round(job, "pre_fedavg_accuracy"),
            _of_round(job, "post_fedavg_accuracy"),
            short(job.get("digest")),
            printable(_note(job)),
        )
    return shown


def _of_round(job: View, name: str) -> str:
    """An accuracy; with the number of its round where that is not the newest one."""
    figure, of = job.get(name), older_round(job)
    return accuracy(figure) if figure is None or of is None else f"{accuracy(figure)} (round {of})"


def plan_lines(jobs: list[View]) -> list[str]:
    """A line per job that follows a goal, and one per job that starts rounds automatically or stays out of others'."""
    lines = []
    for job in jobs:
        name, goal, schedule = printable(job.get("trainer_id")), job.get("goal"), job.get("schedule")
        if isinstance(goal, dict) and goal.get("state") == "open":
            done = f"{printable(goal.get('done'))} of at most {printable(goal.get('rounds'))} rounds"
            best = f", best mean accuracy {accuracy(goal['best'])}" if goal.get("best") is not None else ""
            words = printable(goal.get("until"))
            lines.append(f"{name} until {words}: {done}{best}; asked for at {printable(goal.get('by'))}")
        if isinstance(schedule, dict) and (line := next_line(schedule)):
            lines.append(f"{name} {line} ({printable(schedule.get('when'))})")
        if isinstance(schedule, dict) and schedule.get("unwilling"):
            lines.append(f"{name} takes no part in rounds of others now: {printable(schedule['unwilling'])}")
    return lines


def privacy_lines(jobs: list[View]) -> list[str]:
    """A line per job that promises privacy, with what was spent; then what the promise covers, once."""
    named = [
        (printable(job.get("trainer_id")), job["privacy"]) for job in jobs if isinstance(job.get("privacy"), dict)
    ]
    lines = [f"{name} privacy: {printable(privacy.get('words'))}" for name, privacy in named]
    return [*lines, *dict.fromkeys(printable(privacy.get("covers")) for _, privacy in named)]


def sum_lines(jobs: list[View], mode: str) -> list[str]:
    """A line per job whose updates are masked, with its newest sum; then what to know of them, once.

    Args:
        mode: of the mesh.
    """
    sums = [
        (printable(job.get("trainer_id")), job["secure"]) for job in jobs if isinstance(job.get("secure"), dict)
    ]
    lines = [f"{name} secure sum: {printable(secure.get('words'))}" for name, secure in sums]
    known = [sum_cautions(mode, secure.get("members", 0), secure.get("threshold", 0)) for _, secure in sums]
    return [*lines, *dict.fromkeys(caution for cautions in known for caution in cautions)]


def merging_lines(jobs: list[View], nodes: int) -> list[str]:
    """A line per job with another rule than the usual one, and one per node whose updates count little.

    Args:
        nodes: of the mesh that are here, this one among them.
    """
    lines = []
    for job in jobs:
        name, rule = printable(job.get("trainer_id")), job.get("merging_rule")
        if rule and rule != USUAL:
            lines.append(f"{name} aggregates by {printable(rule_text(str(rule)))}{_too_few(job, nodes)}")
        if (topology := job.get("topology")) not in (None, "", "mesh"):
            lines.append(f"{name} has the topology {printable(topology)}")
        for row in job.get("counts_little") or []:
            why = f"left out: {row['reason']}" if row.get("reason") else f"weight {share(row.get('weight'))}"
            fair = (
                f", {share(row['fair'])} was fair" if row.get("fair") is not None and not row.get("reason") else ""
            )
            words = f"{name}: updates of {printable(row.get('peer'))} count little"
            lines.append(f"{words} since round {printable(row.get('since'))} ({printable(why)}{fair})")
    return lines


def _too_few(job: View, nodes: int) -> str:
    """What a rule does that needs more updates than there are nodes; empty if it needs no more."""
    least = job.get("rule_needs")
    if not isinstance(least, int) or nodes >= least:
        return ""
    return f", which needs {least} updates; nodes in the mesh: {nodes}; the coordinate-wise median is taken"


def differing_lines(jobs: list[View]) -> list[str]:
    """A line per node with which this one cannot train a job, and what differs."""
    return [
        f"{printable(job.get('trainer_id'))} cannot be trained with {printable(row.get('peer'))}: "
        f"{printable(row.get('words'))}"
        for job in jobs
        for row in job.get("differs") or []
    ]


def version_lines(jobs: list[View]) -> list[str]:
    """A line per job without common rounds, and one per peer: its version, and which one was merged here."""
    lines = []
    for job in jobs:
        versions = job.get("versions")
        if not isinstance(versions, dict):
            continue
        name = printable(job.get("trainer_id"))
        lines.append(f"{name} has version {printable(versions.get('own'))} here; there are no common rounds")
        for row in versions.get("peers") or []:
            lines.append(f"{name} {_version_words(row)}")
    return lines


def mesh_lines(jobs: list[View]) -> list[str]:
    """A line per job that other nodes told their figures of: what all reached together."""
    meshes = [(printable(job.get("trainer_id")), job["mesh"]) for job in jobs if isinstance(job.get("mesh"), dict)]
    lines = []
    for name, mesh in meshes:
        further = metric_words(numbers(mesh.get("figures")), every=True)
        words = [mesh_words(mesh), further, fairness_words(mesh)]
        lines.append(f"{name} on all nodes: {'; '.join(filter(None, words))}")
    return lines


def spread_lines(jobs: list[View]) -> list[str]:
    """A line per job whose nodes average with neighbours alone, and so hold different models."""
    return [
        f"{printable(job.get('trainer_id'))}: each node holds a model of its own; in round "
        f"{printable(job.get('figures_round'))} the distance of neighbours was {job['spread']:.2%}, before averaging"
        for job in jobs
        if isinstance(job.get("spread"), float)
    ]


def _version_words(row: View) -> str:
    words = f"{printable(row.get('peer'))}: version {printable(row.get('version'))}"
    if row.get("merged") is None:
        words += ", none merged"
    else:
        at = row.get("at")
        when = (
            f" at {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}" if isinstance(at, int | float) else ""
        )
        words += f", {printable(row['merged'])} merged into {printable(row.get('into'))}{when}"
    return words + ("" if row.get("reachable") else " (does not answer)")


def figure_lines(jobs: list[View], every: bool) -> list[str]:
    """A line per job whose trainer reports further metrics: after averaging, or before it while that is all."""
    lines = []
    for job in jobs:
        metrics, when = job.get("metrics"), "after averaging"
        words = metric_words(metrics_of(job), every)
        if not words and isinstance(metrics, dict):
            words, when = metric_words(numbers(metrics.get("before")), every), "before averaging"
        if words:
            of = older_round(job)
            when += "" if of is None else f" in round {of}"
            lines.append(f"{printable(job.get('trainer_id'))} {when}: {words}")
    return lines


def _note(job: View) -> str:
    """The most pressing thing to say of a job."""
    if job.get("error"):
        return str(job["error"])
    if job.get("phase") == "LOADING" and job.get("rounds_left"):
        return f"loading its data; {counted(job['rounds_left'], 'requested round')} will begin when they are there"
    if job.get("waiting_for"):
        sits_out = f"sits out this round ({job['sits_out']}), " if job.get("sits_out") else ""
        return f"{sits_out}waiting for " + ", ".join(map(str, job["waiting_for"]))
    if job.get("late"):
        return f"still training, counts in a later round: {', '.join(map(str, job['late']))}"
    data = job.get("data") or {}
    return str(job.get("outcome") or ("sample data: " + str(data.get("source")) if data.get("sample") else ""))


@click.command("peers")
@node_option
def peers_command(address: str, as_json: bool) -> None:
    """List the peers that a node knows.

    \b
    Exit codes: 0 shown; 1 the node refused; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address) as node:
        peers = node.peers()
    if as_json:
        print_json(peers)
    elif not peers:
        click.echo(f"the node at {address} knows no peers yet")
    else:
        columns = {"id": "peer", "address": "address", "state": "state", "fingerprint": "key", "reason": "reason"}
        accepts_two = any(isinstance(peer.get("signs_with_other_key"), bool) for peer in peers)
        shown = table(*columns.values(), *(["mesh key"] if accepts_two else []))
        for peer in peers:
            is_heard = peer.get("state") == "alive"
            mesh_key = "second" if peer.get("signs_with_other_key") else "first" if is_heard else ""
            cells = [printable(peer.get(name) or "") for name in columns]
            shown.add_row(*cells, *([mesh_key] if accepts_two else []))
        print_table(shown)


@click.command("watch")
@node_option
@click.option(
    "--after", type=click.IntRange(min=0), help="Start after the event of this number.  [default: the newest]"
)
def watch_command(address: str, as_json: bool, after: int | None) -> None:
    """Print a node's events as they happen, until Ctrl-C.

    With --json, each line is one JSON object.

    \b
    Exit codes: 0 ended by Ctrl-C; 1 the node refused; 2 wrong usage; 3 the node cannot be reached, or ended.
    """
    try:
        with NodeClient(address) as node:
            for event in node.events(after):
                click.echo(json.dumps(event) if as_json else line(event))
    except KeyboardInterrupt:
        return
    raise PeerUnreachable(f"the node at {address} has ended the feed")


def line(event: View) -> str:
    """One event as a line: time, trainer where there is one, the sentence."""
    at = event.get("at")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else "--:--:--"
    trainer = f"{event['trainer']}: " if event.get("trainer") else ""
    return printable(f"{clock} {trainer}{event.get('text') or event.get('kind')}")
