"""Commands that diagnose: a state folder (`flnet doctor`), label spaces (`flnet labels`), groups
(`flnet groups`), and what a model gives away of the rows (`flnet leaks`)."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.commands import EXIT_FAILED
from flnet.cli.options import folder_options
from flnet.cli.output import print_json, print_table, printable, short, table
from flnet.compute.loader import find_trainers
from flnet.datasets.dataset_import import place_of
from flnet.datasets.no_code_images import SPLIT_FILE, is_split
from flnet.datasets.split import examine_split
from flnet.errors import FlnetError, StartError
from flnet.security.keys import examine_key
from flnet.security.ownership import check_folder
from flnet.settings import Settings, load_settings
from flnet.store.base import Retention
from flnet.store.repair import Finding, examine


@click.command("doctor")
@folder_options
@click.option("--repair", is_flag=True, help="Repair what can be repaired; nothing is overwritten.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(*, state_path: Path | None, node_port: int | None, repair: bool, as_json: bool) -> None:
    """Check a node's state folder: permissions, database, model files, key, stored splits, free space.

    The folder of a running node is only read. Damaged files are renamed and never deleted.

    \b
    Exit codes: 0 no error, or all repaired; 1 something is lost or blocked; 2 wrong usage.
    """
    settings = load_settings({"state_path": state_path, "node_port": node_port}, os.environ)
    folder = settings.folder
    owner = _owner(folder)
    if owner.level == "error":  # nothing there is opened: a link could lead to a file of this user
        findings = [owner]
    else:
        findings = examine(folder, repair, Retention.of(settings))
    if owner.level == "ok" and folder.is_dir():
        findings.append(owner)
        free = repair and any(finding.what == "lock" and finding.level == "ok" for finding in findings)
        findings.append(Finding("key", *examine_key(folder, free)))
        findings += _splits(settings)
    wrong = [finding for finding in findings if finding.level == "error" and not finding.mended]
    if as_json:
        click.echo(
            json.dumps({"folder": str(folder), "well": not wrong, "findings": [asdict(f) for f in findings]})
        )
    else:
        click.echo(f"state in {printable(folder)}")
        for finding in findings:
            click.echo(_line(finding))
    if wrong:
        sys.exit(EXIT_FAILED)


def _owner(folder: Path) -> Finding:
    try:
        check_folder(folder)
    except (StartError, OSError) as exc:
        return Finding("owner", "error", str(exc))
    return Finding("owner", "ok", "only the user of this command and root can replace it")


def _splits(settings: Settings) -> list[Finding]:
    """What there is to say about the splits that trainers keep: damaged, or of folders that are laid out anew."""
    findings = []
    for path in sorted((settings.folder / "trainers").glob("*/split-*.npz")):
        trainer = path.parent.name
        is_sound, words = examine_split(path, _is_split(trainer, settings) if path.name == SPLIT_FILE else None)
        if words:
            findings.append(Finding("split", "warning" if is_sound else "error", f"{trainer}: {words}"))
    return findings or [Finding("split", "ok", "every row is on the side on which it was first")]


def _is_split(trainer: str, settings: Settings) -> bool | None:
    """Whether the folder of this trainer's images has folders of training and test images; None if it is unknown."""
    try:
        (file,) = find_trainers(settings.model_copy(update={"trainers": (trainer,)}))
        return is_split(place_of(file, settings.datasets_path).path)
    except (FlnetError, OSError, ValueError):
        return None


def _line(finding: Finding) -> str:
    level = "mended" if finding.mended else finding.level
    return f"  {level:<8}{finding.what:<13}{printable(finding.text)}"


@click.command("labels")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one in use]")
@node_option
def labels_command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show how this node's label space corresponds to the classes of the predictions (FLNET_LABELS).

    Each row is a class of this node, each column a class of the predictions: the probability that an example of
    that class has this label. An estimate is shown with its standard deviation and, in brackets, the number of
    examples with that label for which the model was confident. Nothing of it is sent to peers, except pooled counts.

    \b
    Exit codes: 0 shown; 1 there is nothing to show; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        diagnosis = node.findings(trainer, "labels", digest)
    if as_json:
        print_json(diagnosis)
        return
    space, desired = printable(diagnosis["space"]["id"]), printable(diagnosis["desired"]["id"])
    how = "estimated" if diagnosis.get("estimated") else "as the labels file says it"
    click.echo(f"{space} (rows) and {desired} (columns), {how}")
    if diagnosis.get("matrix") is None:
        click.echo("there is no estimate yet")
    else:
        print_table(matrix_table(diagnosis))
    if line := waiting_line(diagnosis.get("waiting")):
        click.echo(line)
    if diagnosis.get("pooled"):
        click.echo(
            "counts are pooled: they are the mean of the nodes that count, for as many rows as are here, and each "
            "of these nodes tells the others how often its labels occur"
        )
    click.echo(f"model {short(diagnosis['model'].get('digest'))}")


def matrix_table(diagnosis: View) -> Table:
    """The matrix as a table; an estimate also has deviations, counts, and the sum of counts per column."""
    shown = table("", *(printable(name) for name in diagnosis["desired"]["classes"]))
    deviation, counts = diagnosis.get("deviation"), diagnosis.get("counts")
    for row, name in enumerate(diagnosis["space"]["classes"]):
        cells = [f"{value:.3f}" for value in diagnosis["matrix"][row]]
        if deviation and counts:
            more = zip(cells, deviation[row], counts[row], strict=True)
            cells = [f"{cell} ±{spread:.3f} ({count})" for cell, spread, count in more]
        shown.add_row(printable(name), *cells)
    if counts:
        shown.add_row("rows behind it", *(str(sum(column)) for column in zip(*counts, strict=True)))
    return shown


def waiting_line(waiting: View | None) -> str:
    """Why the node's own labels are not used for training yet; empty if they are."""
    if not waiting:
        return ""
    return (
        f"these labels do not teach yet: they do from round {waiting['from_round']} on, once the model is sure "
        f"of {100 * waiting['needed']:.0f} % of the rows; now of {100 * waiting['share']:.0f} % of "
        f"{waiting['judged']}"
    )


@click.command("groups")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one in use]")
@node_option
def groups_command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show how many groups this node's rows form (k-means), by inertia and silhouette.

    Inertia is the mean squared distance of a row to its centroid. The silhouette, from -1 to 1, compares the
    distance of rows to their own group with that to the nearest other group. Nothing of it is sent to peers.

    \b
    Exit codes: 0 shown; 1 there is nothing to show; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        diagnosis = node.findings(trainer, "groups", digest)
    if as_json:
        print_json(diagnosis)
        return
    print_table(groups_table(diagnosis))
    click.echo(
        f"on {diagnosis['judged']} of {diagnosis['rows']} own rows; silhouettes compare {diagnosis['compared']} of them; "
        f"the inertia bends most at {diagnosis['bend']} groups"
    )
    click.echo(f"model {short(diagnosis['model'].get('digest'))}")


def groups_table(diagnosis: View) -> Table:
    """The common model's groups, and k-means on the own rows alone for each number of groups."""
    shown = table("groups", "inertia", "silhouette", "")
    shown.add_row(*_cells(diagnosis["common"]), "the common model")
    for grouping in diagnosis["tried"]:
        shown.add_row(
            *_cells(grouping), "own rows alone" + (", bend" if grouping["k"] == diagnosis["bend"] else "")
        )
    return shown


def _cells(grouping: View) -> tuple[str, str, str]:
    silhouette = grouping.get("silhouette")
    return str(grouping["k"]), f"{grouping['inertia']:.4g}", "-" if silhouette is None else f"{silhouette:.3f}"


@click.command("confusion")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one in use]")
@node_option
def confusion_command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show which classes a model mistakes for which on this node's test rows, with balanced accuracy, F1 macro and AUC.

    Each row of the table is a class, each column the class that was predicted for its rows. Nothing of it is sent to peers.

    \b
    Exit codes: 0 shown; 1 there is nothing to show; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        found = node.findings(trainer, "confusion", digest)
    if as_json:
        print_json(found)
        return
    print_table(confusion_table(found))
    figures = {name: value for name, value in found["figures"].items() if isinstance(value, int | float)}
    click.echo(", ".join(f"{printable(name)} {value:.4f}" for name, value in figures.items()))
    click.echo(f"on {found['judged']} of {found['rows']} test rows; model {short(found['model'].get('digest'))}")


def confusion_table(found: View) -> Table:
    """The matrix with the number of rows of each class, and the share of them that is told rightly."""
    names = [printable(name) for name in found["classes"]]
    shown = table("class", *names, "rows", "told rightly")
    for place, (name, row) in enumerate(zip(names, found["matrix"], strict=True)):
        total = sum(row)
        shown.add_row(name, *map(str, row), str(total), f"{row[place] / total:.4f}" if total else "-")
    return shown


@click.command("leaks")
@click.argument("trainer")
@click.option("--digest", help="Of which model, by the beginning of its digest.  [default: the one in use]")
@node_option
def leaks_command(trainer: str, digest: str | None, address: str, as_json: bool) -> None:
    """Show how much a model gives away of this node's rows, by membership inference (Yeom et al. 2018).

    The advantage is the share of training rows that are recognised by their small loss, less the share of test rows
    that are taken for training rows: 0 for a guess, 1 if every row is told rightly. A stronger attack may find more.
    Nothing of it is sent to peers.

    \b
    Exit codes: 0 shown; 1 this cannot be measured; 2 wrong usage; 3 the node cannot be reached.
    """
    with NodeClient(address, WORK_SECONDS) as node:
        found = node.findings(trainer, "leaks", digest)
    if as_json:
        print_json(found)
        return
    click.echo(
        f"advantage {found['advantage']:.3f} (95 % interval {found['low']:.3f} to {found['high']:.3f}); "
        f"{found['by_mean']:.3f} at the mean loss, AUC {found['auc']:.3f}"
    )
    click.echo(
        f"on {found['members']} of {found['rows']['train']} training rows and {found['others']} of "
        f"{found['rows']['test']} test rows; chance alone stays below {found['by_chance']:.3f} in 95 of 100 cases"
    )
    click.echo(f"model {short(found['model'].get('digest'))}")
