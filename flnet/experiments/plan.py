"""Plans of experiments: TOML files that describe a table, its cells, and the values that were published.

    title = "..."                        # of the report
    source = "..."                       # whose table it is
    words = "..."                        # how this table differs from it, and why; Markdown
    seeds = 3                            # of each cell, from first_seed on; a row or column may list them

    [base]                               # the setup of all cells; `Setup` has all fields
    trainer = "MNIST"
    rounds = 20

    [[rows]]                             # each may override fields of the base
    name = "10 nodes, alpha {alpha}"
    each = { alpha = [0.1, 1.0] }        # one row for each combination of values
    partition = "dirichlet:{alpha}"

    [[columns]]
    name = "central"
    kind = "central"

    [[measures]]                         # the numbers of a cell that the report shows
    name = "accuracy"
    figure = "after.accuracy"

    [[published]]
    row = "..."
    column = "..."
    measure = "accuracy"
    value = 0.98                         # or "> 0.96", or "0.98 to 0.99"

    [[means]]                            # a row that is the mean of others
    name = "mean of both"
    of = ["...", "..."]

    [[published]]                        # or all that a work has for this table (`flnet.experiments.published`)
    work = "delgado2024"

A column overrides a row, and a row the base. A name in braces is replaced by its value; if the text is nothing
else, the value keeps its type, so that `epochs = "{E}"` is a number.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from flnet.errors import SettingsError
from flnet.experiments.cells import ALL_ROWS, Cell, NodeGroup, Over, Record, Setup
from flnet.experiments.published import Published, PublishedTest, Quotation, published_tests
from flnet.protocol.messages import explain

QUICK_ROUNDS, QUICK_SEEDS = 2, 1  # of `--quick`
Seed = Annotated[int, Field(ge=0, le=2**31)]
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JOINED = ("options", "labels")  # tables that are merged entry by entry, and not replaced as a whole
_OF_LINE = frozenset({"name", "each", "seeds"})  # fields of a row or column that are not of the setup


class Measure(Record):
    """A number of a cell that the report shows.

    Attributes:
        figure, over, nodes: arguments of `Outcome.value`.
        reaches: name of a column. The number is then that of the rounds after which the mean of the figure (or with
            "rows", the figure over all rows) is as high as in this column after its last round, for the same row and
            seed; there is none if it never is.
        unit: "rounds", or "processor_seconds": the same part of the training's seconds, as if rounds took alike.
        lower_is_better: for ranks.
    """

    name: str
    figure: str = "after.accuracy"
    over: Over = "mean"
    nodes: tuple[NodeGroup, ...] = ()
    reaches: str = ""
    unit: Literal["rounds", "processor_seconds"] = "rounds"
    lower_is_better: bool = False

    @model_validator(mode="after")
    def _is_counted(self) -> Self:
        """Refuse a figure over all rows that counts do not give, such as a loss: there is only a mean of nodes.

        Raises:
            ValueError: it is such a figure.
        """
        when, _, name = self.figure.partition(".")
        if self.over == "rows" and (when not in {"before", "after"} or name not in ALL_ROWS):
            known = ", ".join(sorted(ALL_ROWS))
            raise ValueError(
                f"over all rows there are before. and after. {known}, which counts give; not {self.figure}"
            )
        return self


class Note(Record):
    """A note about some cells, for the report; an empty row, column or measure stands for all of them."""

    words: str
    row: str = ""
    column: str = ""
    measure: str = ""


class MeanRow(Record):
    """A row without trainings of its own: the means of others, for a value that the source has of all of them.

    Attributes:
        of: the rows; a seed counts that all of them have.
    """

    name: str
    of: tuple[str, ...] = Field(min_length=2)


class PlanLine(Record):
    """A row or a column.

    Attributes:
        seeds: how many seeds its cells have, or which ones, if they differ from those of the table.
        says: fields of the setup that it overrides.
    """

    name: str
    seeds: Annotated[int, Field(ge=1, le=10_000)] | Annotated[tuple[Seed, ...], Field(min_length=1)] | None = None
    says: Mapping[str, Any] = Field(default_factory=dict)


class Plan(Record):
    """One table.

    Attributes:
        id: its name on the command line.
        statistics: names of the measures whose columns are compared by ranks.
        compared: the sets of columns that are compared; all columns as one set if empty.
        pairs: pairs of columns that are compared node by node: who gains by the second one.
        published_tests: rank tests of the works from which published values are taken.
        by_node: figures of single nodes that are reported and kept, by round where they are among a cell's curves.
        means: rows that are the means of others.
        tolerance: larger differences from published values are listed, with the notes about them; below 0.1 in
            proportion to the published value.
    """

    id: str
    title: str
    source: str = ""
    words: str = ""
    seeds: int = Field(default=1, ge=1, le=10_000)
    first_seed: int = Field(default=0, ge=0, le=2**30)
    base: Mapping[str, Any] = Field(default_factory=dict)
    rows: tuple[PlanLine, ...] = Field(min_length=1)
    columns: tuple[PlanLine, ...] = Field(min_length=1)
    measures: tuple[Measure, ...] = (Measure(name="accuracy"),)
    published: tuple[Published, ...] = ()
    published_tests: tuple[PublishedTest, ...] = ()
    statistics: tuple[str, ...] = ()
    compared: tuple[tuple[str, ...], ...] = ()
    by_node: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    means: tuple[MeanRow, ...] = ()
    tolerance: float = Field(default=0.03, ge=0)
    notes: tuple[Note, ...] = ()

    @property
    def row_names(self) -> list[str]:
        """All rows of the report: those that are trained, and those that are the means of others."""
        return [*(row.name for row in self.rows), *(row.name for row in self.means)]

    def cells(self, seeds: int | None = None, *, quick: bool = False) -> list[Cell]:
        """All trainings of the table, row by row.

        Args:
            seeds: how many of each cell, in place of the number in the table; the first ones of a list.
            quick: two rounds of one seed, to see it work.

        Raises:
            SettingsError: a cell's setup is wrong.
        """
        cells = []
        for row, column in itertools.product(self.rows, self.columns):
            setup = self.setup(row, column)
            if quick:
                setup = setup.model_copy(update={"rounds": min(setup.rounds, QUICK_ROUNDS)})
            numbers = self._seeds(column.seeds or row.seeds or self.seeds, QUICK_SEEDS if quick else seeds)
            cells += [Cell(row=row.name, column=column.name, seed=seed, setup=setup) for seed in numbers]
        return cells

    def _seeds(self, given: int | Sequence[int], count: int | None) -> Sequence[int]:
        """The seeds of a cell, or the first `count` of them."""
        if isinstance(given, int):
            return range(self.first_seed, self.first_seed + (count or given))
        return given[:count]

    def setup(self, row: PlanLine, column: PlanLine) -> Setup:
        """The setup of the cells at this place.

        Raises:
            SettingsError: it is wrong.
        """
        parts = (self.base, row.says, column.says)
        joined = {name: {k: v for part in parts for k, v in _table(part, name).items()} for name in _JOINED}
        fields = {**self.base, **row.says, **column.says}
        try:
            return Setup.model_validate({**fields, **{name: table for name, table in joined.items() if table}})
        except ValidationError as exc:
            raise SettingsError(f"{self.id}, row {row.name!r}, column {column.name!r}: {explain(exc)}") from exc


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file.

    Raises:
        SettingsError: the file cannot be read, or a line of it is wrong.
    """
    try:
        lines = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise SettingsError(f"{path} cannot be read: {exc}") from exc
    for kind in ("rows", "columns"):
        given = lines.get(kind)
        if not isinstance(given, list) or not all(isinstance(line, dict) and "name" in line for line in given):
            raise SettingsError(f"{path}: expected [[{kind}]] with a name each")
        lines[kind] = [expanded for line in given for expanded in _expanded(line, path)]
    try:
        quotations = _quotations(lines)
        plan = Plan.model_validate({"id": path.stem, **lines})
        plan = _quoting(plan, quotations)
    except ValidationError as exc:
        raise SettingsError(f"{path}: {explain(exc)}") from exc
    _check(plan, path)
    return plan


def _quotations(lines: dict[str, Any]) -> list[Quotation]:
    """Take those lines of `published` that name a work out of them."""
    given = lines.get("published", [])
    if not isinstance(given, list):
        return []
    lines["published"] = [line for line in given if not (isinstance(line, dict) and "work" in line)]
    return [Quotation.model_validate(line) for line in given if isinstance(line, dict) and "work" in line]


def _quoting(plan: Plan, quotations: Sequence[Quotation]) -> Plan:
    """The plan with the published values and tests of works.

    Raises:
        SettingsError: a work has none for this plan.
    """
    columns, measures = ([line.name for line in lines] for lines in (plan.columns, plan.measures))
    values = [value for quotation in quotations for value in quotation.cells(plan.row_names, columns, measures)]
    tests = published_tests(dict.fromkeys(quotation.work for quotation in quotations))
    return plan.model_copy(update={"published": (*plan.published, *values), "published_tests": tuple(tests)})


def shipped() -> dict[str, Path]:
    """The files of the plans that flnet ships, by name."""
    folder = Path(str(files("flnet_resources") / "experiments"))
    return {path.stem: path for path in sorted(folder.glob("*/*.toml"))}


def find_plan(name: str) -> Plan:
    """The plan of this name, or in this file.

    Raises:
        SettingsError: there is none, or it is wrong.
    """
    plans = shipped()
    if name in plans:
        return read_plan(plans[name])
    if name.endswith(".toml"):
        return read_plan(Path(name))
    raise SettingsError(f"no experiment {name!r}; expected {', '.join(plans)}, or the path of a TOML file")


def _expanded(line: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """One row or column for each combination of the values in `each`."""
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
        return [_filled(item, known) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, known) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    if (whole := _PLACE.fullmatch(value)) and whole[1] in known:
        return known[whole[1]]
    return _PLACE.sub(lambda match: f"{known[match[1]]}" if match[1] in known else match[0], value)


def _table(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = fields.get(name, {})
    return table if isinstance(table, dict) else {}


def _check(plan: Plan, path: Path) -> None:
    """Check that names are unique, that every name exists that is referred to, and that all setups are valid.

    Raises:
        SettingsError: something is wrong.
    """
    names = {
        "row": plan.row_names,
        "column": [column.name for column in plan.columns],
        "measure": [measure.name for measure in plan.measures],
    }
    for what, existing in names.items():
        if twice := sorted({name for name in existing if existing.count(name) > 1}):
            raise SettingsError(f"{path}: two {what}s are named {twice[0]!r}")
        for reference in (*plan.published, *plan.notes):
            if isinstance(reference, Published) or getattr(reference, what):
                _known(getattr(reference, what), what, existing, path)
    for name in itertools.chain(*plan.compared, *plan.pairs):
        _known(name, "column", names["column"], path)
    for name in itertools.chain(*(line.of for line in plan.means)):
        _known(name, "row", [row.name for row in plan.rows], path)
    for name in plan.statistics:
        _known(name, "measure", names["measure"], path)
    for name in (measure.reaches for measure in plan.measures if measure.reaches):
        _known(name, "column", names["column"], path)
    for row, column in itertools.product(plan.rows, plan.columns):
        plan.setup(row, column)


def _known(name: str, what: str, existing: Sequence[str], path: Path) -> None:
    if name not in existing:
        raise SettingsError(f"{path}: no {what} {name!r}; there are {', '.join(existing)}")
