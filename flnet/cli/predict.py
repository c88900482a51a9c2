"""`flnet predict`: ask a model what it makes of inputs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.inputs import SUFFIXES, question_of
from flnet.cli.tables import print_json, print_table, table
from flnet.cli.text import printable, short

__all__ = ["command"]


@click.command("predict")
@click.argument("trainer")
@click.option(
    "--input", "path", type=click.Path(path_type=Path), required=True, help=f"A file: {', '.join(SUFFIXES)}."
)
@click.option("--digest", help="Which model, by the beginning of its digest.  [default: the one that is held]")
@node_option
def command(trainer: str, path: Path, digest: str | None, address: str, as_json: bool) -> None:
    """Ask a model what it makes of inputs.

    A JSON file holds a list of inputs, a NumPy file an array (n, ...), a CSV file a row each, with the names of
    the columns in the first line or without. A picture is one input. While the node trains, the answer waits.

    \b
    Exit codes: 0 answered; 1 the node refused; 2 wrong usage, or a file that cannot be used;
    3 the node cannot be reached.
    """
    try:
        question = question_of(path)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="--input") from exc
    if digest is not None:
        question["digest"] = digest
    with NodeClient(address, WORK_SECONDS) as node:
        answer = node.predict(trainer, question)
    if as_json:
        print_json(answer)
        return
    print_table(answers_table(answer))
    if answer.get("coarse"):
        _tell_coarse(answer["coarse"])
    if (limit := (answer.get("choice") or {}).get("limit")) is not None:
        click.echo(f"the local model answers where the error of rebuilding the input is at most {limit:.6g}")
    model = answer.get("model", {})
    round = model.get("round", -1)
    click.echo(f"model {short(model.get('digest'))} of {f'round {round}' if round >= 0 else 'no round'}")
    if answer.get("note"):
        click.echo(f"note: {printable(answer['note'])}")


def _tell_coarse(coarse: View) -> None:
    """The same in the label space of the node's own rows."""
    how = "an estimated" if coarse.get("estimated") else "the known"
    click.echo(f"in the labels of {printable(coarse['space'])}, by {how} correspondence:")
    if coarse.get("probabilities"):
        print_table(answers_table(coarse))
    else:
        click.echo("nothing can be said yet: there is no estimate of how the labels correspond")


def answers_table(answer: View) -> Table:
    """One row per input: what it is held for, the numbers of the best classes, and which model answered."""
    numbers = "probabilities" if "probabilities" in answer else "scores"
    choice = answer.get("choice") or {}
    answered, errors = choice.get("answered", []), choice.get("errors", [])
    shown = table("input", "predicted", numbers, *["answered by"] * bool(answered), *["error"] * bool(errors))
    rows = zip(answer.get("predicted", []), answer.get(numbers, []), strict=False)
    for place, (name, values) in enumerate(rows):
        words = ", ".join(map(str, name)) or "none" if isinstance(name, list) else name
        best = sorted(zip(values, answer.get("classes", []), strict=False), reverse=True)[:3]
        told = ", ".join(f"{printable(label)} {value:.4f}" for value, label in best)
        why = [f"{error:.6g}" for error in errors[place : place + 1]]
        shown.add_row(str(place), printable(words), told, *map(printable, answered[place : place + 1]), *why)
    return shown
