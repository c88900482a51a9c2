"""A table as a TOML file: its rows and columns, what decides each cell, and what was published.

    title = "..."                        # of the report
    source = "..."                       # whose table it is
    words = "..."                        # what differs from it, and why; Markdown
    seeds = 3                            # of each cell, counted from first_seed; in a row or column also a list

    [base]                               # of all cells; see Setup for every line that may stand here
    trainer = "MNIST"
    rounds = 20

    [[rows]]                             # each may say otherwise
    name = "10 nodes, alpha {alpha}"
    each = { alpha = [0.1, 1.0] }        # stands for as many rows as there are combinations
    partition = "dirichlet:{alpha}"

    [[columns]]
    name = "central"
    kind = "central"

    [[measures]]                         # the numbers that the report shows of a cell
    name = "accuracy"
    figure = "after.accuracy"

    [[published]]
    row = "..."
    column = "..."
    measure = "accuracy"
    value = 0.98

A column's line beats a row's, and a row's beats the base's. A name in braces is replaced by its value; alone in
its text it keeps its type, so that `epochs = "{E}"` is a number.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from flnet.errors import SettingsError
from flnet.experiments.base import Cell, Over, Record, Setup
from flnet.explaining import explain

QUICK_ROUNDS, QUICK_SEEDS = 2, 1  # of a table that is only to be seen working
Seed = Annotated[int, Field(ge=0, le=2**31)]
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JOINED = ("options", "labels")  # tables that are joined line by line, and not replaced as one
_OF_LINE = frozenset({"name", "each", "seeds"})  # what a row or column says beside the setup


class Measure(Record):
    """A number that the report shows of a cell.

    Attributes:
        figure: as `Outcome.value` takes it.
        over: what is made of the nodes' figures.
        lower_is_better: for ranks and for what is printed bold.
    """

    name: str
    figure: str = "after.accuracy"
    over: Over = "mean"
    lower_is_better: bool = False


class Published(Record):
    """What the source has in a cell.

    Attributes:
        spread: standard deviation over its seeds.
        seeds: how many they were.
    """

    row: str
    column: str
    measure: str
    value: float
    spread: float | None = None
    seeds: int | None = Field(default=None, ge=1)


class Note(Record):
    """Words on some cells, for the report: of all rows, columns or measures where none is named."""

    words: str
    row: str = ""
    column: str = ""
    measure: str = ""


class Line(Record):
    """A row or a column: its name, and what its cells say otherwise.

    Attributes:
        seeds: how many its cells have, if not as many as the table says; or which ones.
    """

    name: str
    seeds: Annotated[int, Field(ge=1, le=10_000)] | Annotated[tuple[Seed, ...], Field(min_length=1)] | None = None
    says: Mapping[str, Any] = Field(default_factory=dict)


class Plan(Record):
    """One table.

    Attributes:
        id: its name in the command.
        statistics: names of the measures whose columns are compared by ranks.
        compared: the sets of columns that are compared; all columns as one set if there is none.
        tolerance: a larger distance from what was published is told, with the notes on it.
    """

    id: str
    title: str
    source: str = ""
    words: str = ""
    seeds: int = Field(default=1, ge=1, le=10_000)
    first_seed: int = Field(default=0, ge=0, le=2**30)
    base: Mapping[str, Any] = Field(default_factory=dict)
    rows: tuple[Line, ...] = Field(min_length=1)
    columns: tuple[Line, ...] = Field(min_length=1)
    measures: tuple[Measure, ...] = (Measure(name="accuracy"),)
    published: tuple[Published, ...] = ()
    statistics: tuple[str, ...] = ()
    compared: tuple[tuple[str, ...], ...] = ()
    tolerance: float = Field(default=0.03, ge=0)
    notes: tuple[Note, ...] = ()

    def cells(self, seeds: int | None = None, *, quick: bool = False) -> list[Cell]:
        """All trainings of the table, row by row.

        Args:
            seeds: how many of each cell, in place of what the table says; of a list the first ones.
            quick: few rounds of one seed, to see it work.

        Raises:
            SettingsError: a cell's setup is wrong.
        """
        found = []
        for row, column in itertools.product(self.rows, self.columns):
            setup = self.setup(row, column)
            if quick:
                setup = setup.model_copy(update={"rounds": min(setup.rounds, QUICK_ROUNDS)})
            numbers = self._seeds(column.seeds or row.seeds or self.seeds, QUICK_SEEDS if quick else seeds)
            found += [Cell(row=row.name, column=column.name, seed=seed, setup=setup) for seed in numbers]
        return found

    def _seeds(self, said: int | Sequence[int], count: int | None) -> Sequence[int]:
        """The seeds of a cell; the first `count` of them if that is a number."""
        if isinstance(said, int):
            return range(self.first_seed, self.first_seed + (count or said))
        return said[:count]

    def setup(self, row: Line, column: Line) -> Setup:
        """What decides the cells at this place.

        Raises:
            SettingsError: it is wrong.
        """
        lines = (self.base, row.says, column.says)
        joined = {name: {k: v for said in lines for k, v in _table(said, name).items()} for name in _JOINED}
        said = {**self.base, **row.says, **column.says}
        try:
            return Setup.model_validate({**said, **{name: table for name, table in joined.items() if table}})
        except ValidationError as exc:
            raise SettingsError(f"{self.id}, row {row.name!r}, column {column.name!r}: {explain(exc)}") from exc


def read_plan(path: Path) -> Plan:
    """The table that a file describes.

    Raises:
        SettingsError: it cannot be read, or a line of it is wrong.
    """
    try:
        lines = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise SettingsError(f"{path} cannot be read: {exc}") from exc
    for kind in ("rows", "columns"):
        there = lines.get(kind)
        if not isinstance(there, list) or not all(isinstance(line, dict) and "name" in line for line in there):
            raise SettingsError(f"{path}: expected [[{kind}]] with a name each")
        lines[kind] = [made for line in there for made in _written_out(line, path)]
    try:
        plan = Plan.model_validate({"id": path.stem, **lines})
    except ValidationError as exc:
        raise SettingsError(f"{path}: {explain(exc)}") from exc
    _check(plan, path)
    return plan


def shipped() -> dict[str, Path]:
    """The files of the tables that flnet ships, by name."""
    folder = Path(str(files("flnet_resources") / "experiments"))
    return {path.stem: path for path in sorted(folder.glob("*/*.toml"))}


def find_plan(name: str) -> Plan:
    """The table of this name, or of this file.

    Raises:
        SettingsError: there is none, or it is wrong.
    """
    there = shipped()
    if name in there:
        return read_plan(there[name])
    if name.endswith(".toml"):
        return read_plan(Path(name))
    raise SettingsError(f"no experiment {name!r}; expected {', '.join(there)}, or the path of a TOML file")


def _written_out(line: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """A line for each combination of what it names in `each`."""
    each = line.get("each", {})
    if not isinstance(each, dict) or not all(isinstance(values, list) and values for values in each.values()):
        raise SettingsError(f"{path}: each of {line['name']!r} gives no list of values for every name")
    for values in itertools.product(*each.values()):
        known = dict(zip(each, values, strict=True))
        filled = {name: _filled(value, known) for name, value in line.items() if name != "each"}
        says = {name: value for name, value in filled.items() if name not in _OF_LINE}
        of_line = {name: value for name, value in filled.items() if name in _OF_LINE}
        yield {**of_line, "name": str(filled["name"]), "says": says}


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, known) for name, one in value.items()}
    if not isinstance(value, str):
        return value
    if (whole := _PLACE.fullmatch(value)) and whole[1] in known:
        return known[whole[1]]
    return _PLACE.sub(lambda found: f"{known[found[1]]}" if found[1] in known else found[0], value)


def _table(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = said.get(name, {})
    return table if isinstance(table, dict) else {}


def _check(plan: Plan, path: Path) -> None:
    """Names are one each, what was published has its place, and every setup is one.

    Raises:
        SettingsError: they are not.
    """
    names = {
        "row": [row.name for row in plan.rows],
        "column": [column.name for column in plan.columns],
        "measure": [measure.name for measure in plan.measures],
    }
    for what, there in names.items():
        if twice := sorted({name for name in there if there.count(name) > 1}):
            raise SettingsError(f"{path}: two {what}s are named {twice[0]!r}")
    for one in plan.published:
        for what, there in names.items():
            _known(getattr(one, what), what, there, path)
    for note in plan.notes:
        for what, there in names.items():
            if getattr(note, what):
                _known(getattr(note, what), what, there, path)
    for name in itertools.chain(*plan.compared):
        _known(name, "column", names["column"], path)
    for name in plan.statistics:
        _known(name, "measure", names["measure"], path)
    for row, column in itertools.product(plan.rows, plan.columns):
        plan.setup(row, column)


def _known(name: str, what: str, there: Sequence[str], path: Path) -> None:
    if name not in there:
        raise SettingsError(f"{path}: no {what} {name!r}; there are {', '.join(there)}")
