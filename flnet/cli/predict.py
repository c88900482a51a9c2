"""`flnet predict`: send inputs in a file to a node's model and show its predictions."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.output import print_json, print_table, printable, short, table

MAX_BYTES = 12 * 1024 * 1024  # a node takes no more


def question_of(path: Path) -> dict[str, Any]:
    """The body of POST /jobs/{trainer}/predict, without the digest.

    Raises:
        ValueError: the file cannot be read, or is not what its ending says.
    """
    read = SUFFIXES.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}; expected {', '.join(SUFFIXES)}")
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ValueError(f"{path} has {size} bytes; a node takes at most {MAX_BYTES}")
        question = read(path)
        json.dumps(question, allow_nan=False)
    except OSError as exc:
        raise ValueError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, EOFError, RecursionError) as exc:
        raise ValueError(f"{path} holds no usable inputs: {exc}") from exc
    return question


def _json(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {"inputs": data}


def _npy(path: Path) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415  other kinds of files need none

    return {"inputs": np.load(path, allow_pickle=False).tolist()}


def _picture(path: Path) -> dict[str, Any]:
    return {"image": base64.b64encode(path.read_bytes()).decode("ascii")}


def _csv(path: Path) -> dict[str, Any]:
    """Numbers with commas between; a first line that holds something else names the columns."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    names = None if not lines or _is_numbers(lines[0]) else [name.strip() for name in lines.pop(0)]
    rows = [_numbers(line, number) for number, line in enumerate(lines, start=1 if names is None else 2)]
    if names is None:
        return {"inputs": rows}
    return {"inputs": [_named(names, row, number) for number, row in enumerate(rows, start=2)]}


def _named(names: list[str], row: list[float], number: int) -> Mapping[str, float]:
    if len(names) != len(row):
        raise ValueError(f"line {number} has {len(row)} values for {len(names)} columns")
    return dict(zip(names, row, strict=True))


def _numbers(line: list[str], number: int) -> list[float]:
    try:
        return [float(cell) for cell in line]
    except ValueError as exc:
        raise ValueError(f"line {number}: {exc}") from exc


def _is_numbers(line: list[str]) -> bool:
    try:
        _numbers(line, 1)
    except ValueError:
        return False
    return True


SUFFIXES: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    ".json": _json,
    ".csv": _csv,
    ".npy": _npy,
    ".png": _picture,
    ".jpg": _picture,
    ".jpeg": _picture,
}


@click.command("predict")
@click.argument("trainer")
@click.option(
    "--input", "path", type=click.Path(path_type=Path), required=True, help=f"A file: {', '.join(SUFFIXES)}."
)
@click.option("--digest", help="Which model, by the beginning of its digest.  [default: the one that is held]")
@node_option
def command(trainer: str, path: Path, digest: str | None, address: str, as_json: bool) -> None:
    """Predict the classes or values of inputs with a model.

    A JSON file holds a list of inputs, a NumPy file an array (n, ...), and a CSV file one input per row, with or
    without a line of column names. An image is one input. While the node trains, the answer waits.

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
        click.echo("not available yet: there is no estimate of how the labels correspond")


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
