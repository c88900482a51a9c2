"""`flnet new-trainer`: write the file of a no-code trainer for a table or a folder of pictures; no node has to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import click

from flnet.cli.options import json_option, read_config, variable_name
from flnet.cli.output import counted, listed, print_json, print_table, printable, table
from flnet.compute.assignment import assignment
from flnet.compute.loader import find_trainers, own_trainer, read_data
from flnet.datasets.guess import Choices, Column, Guess, ImagesGuess, TableGuess, Use, described, guess, words_in
from flnet.datasets.no_code import OwnImages, OwnTable, toml_of, write_own
from flnet.errors import ImportRefused
from flnet.settings import Settings, load_settings
from flnet.temporary import temporary_folder

_USES = tuple(use for use in get_args(Use) if use != "target")


@click.command("new-trainer")
@click.argument("name", metavar="NAME")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--target", default="", metavar="COLUMN", help="Column to be predicted: its name, or 0, 1, ..., -1.")
@click.option("--use", "uses", multiple=True, metavar="COLUMN=USE", help=f"What a column is: {', '.join(_USES)}.")
@click.option(
    "--missing", type=click.Choice(["stop", "skip", "mean"]), default=None, help="Rows with a missing value."
)
@click.option(
    "--words", "lists", multiple=True, metavar="COLUMN=A,B,...", help="All words of a column that any node has."
)
@click.option("--scaling", type=click.Choice(["own", "common"]), default="own", help="Numbers by whose mean.")
@click.option("--model", default="", help="linear or mlp for a table, small-cnn or linear for pictures.")
@click.option("--label", default="", help="The name as people read it.")
@click.option("--offer", is_flag=True, help="Show the description, without data, to the other nodes.")
@click.option("--show", "only_show", is_flag=True, help="Show the guess, and write nothing.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help=f"Where to write.  [{variable_name('trainers_path')}]"
)
@json_option
def command(
    name: str,
    source: Path,
    uses: tuple[str, ...],
    lists: tuple[str, ...],
    only_show: bool,
    offer: bool,
    folder: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Guess at the columns of a table, or the classes of a folder of pictures, and write the trainer NAME for it.

    SOURCE is a .csv, .parquet or .arff file, or a folder with a folder of pictures for each class. It stays where it
    is. The file NAME.toml is the same that the page writes, and may be edited.

    \b
    Exit codes: 0 written or shown; 1 the data cannot be used; 2 wrong usage or settings.
    """
    settings = load_settings({"trainers_path": folder}, os.environ, read_config(None))
    guessed = guess(source)
    given: dict[str, Any] = {key: value or "" for key, value in chosen.items()}
    choices = Choices(uses=_uses_of(uses), words=_words_of(lists), **given)
    own = described(guessed, choices, _data_of(source, settings))
    own = own.model_copy(update={"offered": True}) if offer else own
    path = None if only_show else _write(name, own, settings)
    if as_json:
        where = {} if path is None else {"file": str(path)}
        return print_json({**where, **own.model_dump(mode="json", exclude_unset=True)})
    _show(guessed, own)
    if path is not None:
        click.echo(f"{printable(path)}: written. Every node needs such a file of the same name.")
        click.echo(f"try it:  {variable_name('trainers_path')}={printable(path.parent)} flnet run")
    return None


def _uses_of(words: tuple[str, ...]) -> Mapping[str, Use]:
    uses: dict[str, Use] = {}
    for word in words:
        column, _, use = word.rpartition("=")
        if not column or use not in _USES:
            raise click.UsageError(f"--use {word}: expected COLUMN=USE, with USE one of {', '.join(_USES)}")
        uses[column] = cast(Use, use)
    return uses


def _words_of(lists: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    words: dict[str, tuple[str, ...]] = {}
    for given in lists:
        column, _, listing = given.partition("=")
        if not column or not listing:
            raise click.UsageError(f"--words {given}: expected COLUMN=A,B,...")
        words[column] = words_in(listing)
    return words


def _data_of(source: Path, settings: Settings) -> str:
    """Where the data are, as the file says it: below the folder of data sets if they are there."""
    whole, folder = source.resolve(), settings.datasets_path
    if folder is not None and folder.resolve() in whole.parents:
        return whole.relative_to(folder.resolve()).as_posix()
    return str(whole)


def _write(name: str, own: OwnImages | OwnTable, settings: Settings) -> Path:
    folder = settings.trainers_path
    if folder is None:
        raise click.UsageError(f"no folder of trainers: give --folder, or set {variable_name('trainers_path')}")
    folder.mkdir(parents=True, exist_ok=True)
    if name in {file.id for file in find_trainers(settings.model_copy(update={"trainers": ()}), every=True)}:
        raise ImportRefused(f"there is a trainer {name} already; choose another name, or remove it")
    path = write_own(folder, name, own)
    try:
        _check(path, settings)
    except BaseException:
        path.unlink()
        raise
    return path


def _check(path: Path, settings: Settings) -> None:
    """Read the data once as the trainer will.

    Raises:
        TrainerError, DataMissing: it cannot.
    """
    with temporary_folder("trainer") as state:
        file = own_trainer(path)
        read_data(file, assignment(settings.model_copy(update={"state_path": state}), file).settings)


def _show(guessed: Guess, own: OwnImages | OwnTable) -> None:
    """The guess as a table, and the lines of the file."""
    if isinstance(guessed, TableGuess) and isinstance(own, OwnTable):
        shown = table("column", "is", "values", "missing", title=counted(guessed.rows, "row"))
        for column in guessed.columns:
            shown.add_row(
                printable(column.name), _use_of(column, own), _values(column), str(column.missing or "-")
            )
    elif isinstance(guessed, ImagesGuess):
        shown = table("class", "pictures")
        for name, count in guessed.classes.items():
            shown.add_row(printable(name), str(count))
    print_table(shown)
    click.echo(toml_of(own))


def _use_of(column: Column, own: OwnTable) -> str:
    if column.name in (own.target, own.id):
        return "target" if column.name == own.target else "id"
    if column.name in (own.ignore or ()):
        return "ignore"
    return "words" if column.name in own.categories else "number"


def _values(column: Column) -> str:
    if column.scale and column.kind == "number":
        odd = f"; words for no value: {listed(map(printable, column.odd))}" if column.odd else ""
        return f"about {column.scale[0]:g} +- {column.scale[1]:g}{odd}"
    return listed(map(printable, column.words), 5)
