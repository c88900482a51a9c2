"""`flnet predict`: send inputs in a file, or the images in a folder, to a node's model and show its predictions."""

from __future__ import annotations

import base64
import csv
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from flnet.cli.client import WORK_SECONDS, NodeClient, View, node_option
from flnet.cli.output import listed, print_json, print_table, printable, short, table
from flnet.errors import FlnetError, InputRefused, PeerRefused, TooManyRequests

MAX_BYTES = 12 * 1024 * 1024  # a node takes no more
MOST_ROW_BYTES = 256 * 1024 * 1024  # of a file of rows, which is sent in parts
MOST_CELLS = 5_000_000  # of a file of rows: sparse ones have more than they name
BUSY_SECONDS = 1.0  # until a node is asked again that has had too many questions
MOST_AT_ONCE, PART_BYTES = 1000, 4 * 1024 * 1024  # rows of a part, and bytes after which it ends


def question_of(path: Path) -> dict[str, Any]:
    """The body of POST /jobs/{trainer}/predict, without the digest.

    Raises:
        ValueError: the file cannot be read, or is not what its ending says.
    """
    read = SUFFIXES.get(path.suffix.lower())
    if read is None and not path.exists():
        raise ValueError(f"{path} is not there")
    if read is None:
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}; expected {', '.join(SUFFIXES)}")
    try:
        size = path.stat().st_size
        most = MOST_ROW_BYTES if path.suffix.lower() in _IN_PARTS else MAX_BYTES
        if size > most:
            raise ValueError(f"{path} has {size} bytes; a node takes at most {most}")
        question = read(path)
        json.dumps(question, allow_nan=False)
    except OSError as exc:
        raise ValueError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise ValueError(f"{path} is not text in UTF-8; save it as UTF-8 ({exc})") from exc
    except (ValueError, EOFError, RecursionError, csv.Error, FlnetError) as exc:
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
    """Numbers with commas, semicolons or tabs between; a first line that holds something else names the columns.

    With names, a row may be one of the training file: with words, and with columns that the node leaves out.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
        lines = [(reader.line_num, line) for line in reader if line]
    if not lines or _is_numbers(lines[0][1]):
        return {"inputs": [_numbers(line, number) for number, line in lines]}
    names = [name.strip() for name in lines.pop(0)[1]]
    return {"inputs": [_named(names, line, number) for number, line in lines]}


def _arff(path: Path) -> dict[str, Any]:
    from flnet.datasets.arff import arff_cells  # noqa: PLC0415  it needs NumPy, other kinds of files none

    rows: list[Mapping[str, float | str]] = []
    with path.open(encoding="utf-8-sig") as file:
        for _, cells in arff_cells(path, file):
            rows.append({name: _number_or_words(cell) for name, cell in cells.items()})
            if len(rows) * len(cells) > MOST_CELLS:
                raise ValueError(f"it has more than {MOST_CELLS:,} cells; predict fewer rows at once")
    return {"inputs": rows}


def _named(names: list[str], row: list[str], number: int) -> Mapping[str, float | str]:
    if len(names) != len(row):
        raise ValueError(f"line {number} has {len(row)} values for {len(names)} columns")
    return {name: _number_or_words(cell) for name, cell in zip(names, row, strict=True)}


def _number_or_words(cell: str) -> float | str:
    """A cell as it is sent; the node says what is wrong with words where it expects a number."""
    try:
        number = float(cell)
    except ValueError:
        return cell.strip()
    return number if math.isfinite(number) and "_" not in cell else cell.strip()


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
    ".tsv": _csv,
    ".arff": _arff,
    ".npy": _npy,
    ".png": _picture,
    ".jpg": _picture,
    ".jpeg": _picture,
}
_IN_PARTS = (".csv", ".tsv", ".arff")
_PICTURES = tuple(suffix for suffix, read in SUFFIXES.items() if read is _picture)
_OTHER_PICTURES = (".avif", ".bmp", ".dcm", ".gif", ".heic", ".heif", ".jp2", ".tif", ".tiff", ".webp")


def pictures_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The images in a folder and in the folders in it, and those of kinds that no node reads, both sorted.

    Hidden ones are left out.

    Raises:
        ValueError: there are none that a node reads.
    """
    found = [path for path in folder.rglob("*") if path.suffix.lower() in (*_PICTURES, *_OTHER_PICTURES)]
    shown = sorted(
        path
        for path in found
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    others = [path for path in shown if path.suffix.lower() in _OTHER_PICTURES]
    usable = [path for path in shown if path not in set(others)]
    if not usable:
        names = f"; found {listed(printable(path.name) for path in others)}" if others else ""
        raise ValueError(f"{folder} holds no images; expected {', '.join(_PICTURES)}{names}")
    return usable, others


@click.command("predict")
@click.argument("trainer")
@click.option(
    "--input",
    "path",
    type=click.Path(path_type=Path),
    help=f"A file: {', '.join(SUFFIXES)}; or a folder of images.",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    help="An id of a job whose nodes hold different columns; may be repeated.",
)
@click.option(
    "--ids-from",
    "ids_from",
    type=click.Path(path_type=Path),
    help="A CSV file with such ids.",
)
@click.option("--id-column", default="id", show_default=True, help="Its column with the ids.")
@click.option("--digest", help="Which model, by the beginning of its digest.  [default: the one in use]")
@node_option
def command(
    trainer: str,
    path: Path | None,
    ids: tuple[str, ...],
    ids_from: Path | None,
    id_column: str,
    digest: str | None,
    address: str,
    as_json: bool,
) -> None:
    """Predict the classes or values of inputs with a model, or those of people by id.

    A JSON file holds a list of inputs, a NumPy file an array (n, ...), and a CSV or ARFF file one input per row. CSV
    needs no line of column names; with one, the file may be like that of the training: columns in any order, and
    target and id are ignored. An image is one input, and a folder has one for each image in it and in its folders.
    While the node trains, the answer waits.

    Where nodes hold different columns of the same people, --id and --ids-from take the place of --input. All nodes
    with columns have to be there, and their owners have to allow predictions.

    \b
    Exit codes: 0 answered; 1 the node refused, or an image of a folder cannot be used; 2 wrong usage, or a file that
    cannot be used; 3 the node cannot be reached.
    """
    if (path is not None) == bool(ids or ids_from is not None):
        raise click.UsageError("expected either --input, or --id and --ids-from")
    if path is None:
        listed_ids = [] if ids_from is None else ids_in(ids_from, id_column)
        _by_id(trainer, [*ids, *listed_ids], digest, address, as_json)
        return
    model = {} if digest is None else {"digest": digest}
    try:
        pictures, others = pictures_in(path) if path.is_dir() else ([], [])
        question = {} if pictures else question_of(path)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="--input") from exc
    with NodeClient(address, WORK_SECONDS) as node:
        if pictures:
            unread = {str(other.relative_to(path)): _other_kind(other) for other in others}
            answer = _of_pictures(node, trainer, path, pictures, model, unread)
        else:
            answer = _joined([node.predict(trainer, part) for part in parts_of({**question, **model})])
    if "image" in question:
        answer = {**answer, "files": [path.name]}
    if as_json:
        print_json(answer)
    else:
        _show(answer)
    if refused := answer.get("refused"):
        raise click.ClickException(_without(refused, len(pictures) + len(others)))


def _other_kind(picture: Path) -> str:
    return f"it ends in {picture.suffix!r}; expected {', '.join(_PICTURES)}"


def ids_in(path: Path, column: str) -> list[str]:
    """The ids in a column of a CSV file, with commas, semicolons or tabs between its cells.

    Raises:
        click.BadParameter: it cannot be read, or has no such column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            rows = csv.DictReader(file, delimiter=max(",;\t", key=first.count))
            names = [name.strip() for name in rows.fieldnames or ()]
            if column not in names:
                raise ValueError(f"it has no column {column!r}, but {', '.join(names) or 'no columns'}")
            rows.fieldnames = names
            found = [row[column] for row in rows]
    except (OSError, ValueError, csv.Error) as exc:
        raise click.BadParameter(f"{path} cannot be used: {exc}", param_hint="--ids-from") from exc
    if not found:
        raise click.BadParameter(f"{path} has no rows", param_hint="--ids-from")
    if empty := sum(not value for value in found):
        raise click.BadParameter(f"{path} has no id in {empty} of {len(found)} rows", param_hint="--ids-from")
    return found


def _by_id(trainer: str, ids: list[str], digest: str | None, address: str, as_json: bool) -> None:
    """Ask for predictions by id, in parts that a node takes, and show them."""
    if digest is not None:
        raise click.UsageError("--digest goes with --input; predictions by id are those of the newest epoch")
    with NodeClient(address, WORK_SECONDS) as node:
        parts = [ids[start : start + MOST_AT_ONCE] for start in range(0, len(ids), MOST_AT_ONCE)]
        answers = [_for_part(node, trainer, part) for part in parts]
    made = [answer for answer in answers if answer["predictions"]]
    if not made:
        raise click.ClickException("none of these ids is among the rows that all holders have")
    answer = {**_joined_ids(made), "unknown": [name for answer in answers for name in answer["unknown"]]}
    if as_json:
        print_json(answer)
        return
    for made in answer["predictions"]:
        click.echo(f"label of {printable(made['holder'])}, epoch {answer['epoch']}")
        print_table(answers_table({**made, "files": answer["ids"]}, "id"))
    if answer["unknown"]:
        click.echo(f"not among the rows that all holders have: {listed(map(printable, answer['unknown']))}")


def _for_part(node: NodeClient, trainer: str, ids: list[str]) -> View:
    """The answer for some ids; without predictions where none of them is common."""
    while True:
        try:
            return node.predict_ids(trainer, ids)
        except PeerRefused as exc:
            if exc.error == InputRefused.code:
                return {"ids": [], "unknown": ids, "predictions": []}
            if exc.error != TooManyRequests.code:
                raise
            time.sleep(BUSY_SECONDS)


def _joined_ids(answers: list[View]) -> View:
    """The answers for the parts of a list of ids as one."""
    whole = dict(answers[0])
    for answer in answers[1:]:
        if answer["epoch"] != whole["epoch"]:
            raise click.ClickException("an epoch ended between two parts of the list; ask again")
        whole["ids"] = [*whole["ids"], *answer["ids"]]
        pairs = zip(whole["predictions"], answer["predictions"], strict=True)
        whole["predictions"] = [
            {**made, **{key: [*made[key], *more[key]] for key in ("probabilities", "predicted")}}
            for made, more in pairs
        ]
    return whole


def _of_pictures(
    node: NodeClient,
    trainer: str,
    folder: Path,
    pictures: Iterable[Path],
    model: Mapping[str, str],
    refused: dict[str, str],
) -> View:
    """The answers for images, one after the other; one that cannot be used is named, and keeps no other from its answer.

    Args:
        refused: by name why an image cannot be used, of those that are known before; more are added.
    """
    answers, files = list[View](), list[str]()
    for picture in pictures:
        name = str(picture.relative_to(folder))
        try:
            answers.append(_patiently(node, trainer, {**question_of(picture), **model}))
            files.append(name)
        except ValueError as exc:
            refused[name] = str(exc)
        except PeerRefused as exc:
            if exc.error != InputRefused.code:
                raise
            refused[name] = exc.answer
    if not answers:
        raise click.ClickException(_without(refused, len(refused)))
    return {**_joined(answers), "files": files, "refused": refused}


def _without(refused: Mapping[str, str], number: int) -> str:
    """Which of so many images cannot be used, and why."""
    words = listed(f"{printable(name)} ({printable(why)})" for name, why in refused.items())
    return f"{len(refused)} of {number} images cannot be used: {words}"


def _patiently(node: NodeClient, trainer: str, question: View) -> View:
    """The answer to one of many questions, also where the node has had too many of them for a moment."""
    while True:
        try:
            return node.predict(trainer, question)
        except PeerRefused as exc:
            if exc.error != TooManyRequests.code:
                raise
            time.sleep(BUSY_SECONDS)


def _show(answer: View) -> None:
    """The answers for people, and which model they are of."""
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


def parts_of(question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same question in parts that a node takes."""
    inputs = question.get("inputs")
    if not isinstance(inputs, list) or len(inputs) <= 1:
        yield dict(question)
        return
    part: list[Any] = []
    size = 0
    for row in inputs:
        part.append(row)
        size += len(json.dumps(row))
        if len(part) == MOST_AT_ONCE or size > PART_BYTES:
            yield {**question, "inputs": part}
            part, size = [], 0
    if part:
        yield {**question, "inputs": part}


def _joined(answers: list[View]) -> View:
    """The answers to the parts of a question as one."""
    whole = dict(answers[0])
    if len(answers) == 1:
        return whole
    for key in ("predicted", "probabilities", "scores"):
        if key in whole:
            whole[key] = [row for answer in answers for row in answer.get(key, [])]
    for key in ("choice", "coarse"):
        if whole.get(key):
            lists = {name for name, value in whole[key].items() if isinstance(value, list)} - {"classes"}
            more = {name: [row for answer in answers for row in answer[key][name]] for name in lists}
            whole[key] = {**whole[key], **more}
    return whole


def _tell_coarse(coarse: View) -> None:
    """The same in the label space of the node's own rows."""
    how = "an estimated" if coarse.get("estimated") else "the known"
    click.echo(f"in the labels of {printable(coarse['space'])}, by {how} correspondence:")
    if coarse.get("probabilities"):
        print_table(answers_table(coarse))
    else:
        click.echo("not available yet: there is no estimate of how the labels correspond")


def answers_table(answer: View, head: str = "input") -> Table:
    """One row per input: what it is held for, the numbers of the best classes, and which model answered."""
    numbers = "probabilities" if "probabilities" in answer else "scores"
    choice = answer.get("choice") or {}
    answered, errors = choice.get("answered", []), choice.get("errors", [])
    shown = table(head, "predicted", numbers, *["answered by"] * bool(answered), *["error"] * bool(errors))
    files = answer.get("files", [])
    rows = zip(answer.get("predicted", []), answer.get(numbers, []), strict=False)
    for place, (name, values) in enumerate(rows):
        words = ", ".join(map(str, name)) or "none" if isinstance(name, list) else name
        best = sorted(zip(values, answer.get("classes", []), strict=False), reverse=True)[:3]
        told = ", ".join(f"{printable(label)} {value:.4f}" for value, label in best)
        why = [f"{error:.6g}" for error in errors[place : place + 1]]
        what = files[place] if files else place
        shown.add_row(printable(what), printable(words), told, *map(printable, answered[place : place + 1]), *why)
    return shown
