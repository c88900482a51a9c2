"""Values that the sources of the tables print, all of them from one file, `resources/experiments/published.csv`.

A table names the work whose values it shows, and a document marks each value that it quotes
(`docs/results.py`, `tests/test_published.py`); so none of them can quote another value than the file has.

A line of the file has the work (`WORKS`), the table or figure, the page where it is known, the row, column and measure as
our tables name them, the value, and the standard deviation and number of seeds if the source has them. A value
may be a bound ("> 0.96") or a range ("0.98 to 0.99") where the source prints no more than that.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field

from flnet.errors import SettingsError
from flnet.experiments.cells import Record

WORKS = {
    "garcia2021": "García Pérez (2021): a mesh of equals",
    "delgado2024": "Delgado Bejarano (2024): MLFedAvg",
    "zhang2024": "Zhang et al. (2024): FedMT",
    "martinez": "Martínez Enríquez et al.: FLProtector",
    "tornaria2024": "Tornaría (2024): sensitive data",
}
RANK_TEST = "Friedman's test"  # the row of values that are of a rank test, and not of a cell
_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_FORMS = re.compile(
    rf"(?P<at>{_NUMBER})|> (?P<above>{_NUMBER})|< (?P<below>{_NUMBER})|(?P<low>{_NUMBER}) to (?P<high>{_NUMBER})"
)


@dataclass(frozen=True)
class Value:
    """What a source says of a number: the number, a bound of it, or a range.

    Attributes:
        low, high: equal for a number; infinite where there is no bound on that side.
        printed: as the source has it, such as "0.7520", "> 0.96" or "0.98 to 0.99".
    """

    low: float
    high: float
    printed: str

    @classmethod
    def of(cls, given: Any) -> Self:
        """Read a number, or one of the forms of `printed`.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(given, cls):
            return given
        printed = repr(given) if isinstance(given, int | float) else str(given)
        form = _FORMS.fullmatch(printed)
        if form is None or isinstance(given, bool):
            raise ValueError(f"expected a number, '> NUMBER', '< NUMBER' or 'NUMBER to NUMBER', not {given!r}")
        ends = {name: float(number) for name, number in form.groupdict().items() if number is not None}
        low = ends.get("at", ends.get("above", ends.get("low", -inf)))
        high = ends.get("at", ends.get("below", ends.get("high", inf)))
        if low > high:
            raise ValueError(f"expected the smaller number first, not {printed!r}")
        return cls(low, high, printed)

    @property
    def is_number(self) -> bool:
        """Whether it is a single number, and neither a bound nor a range."""
        return self.low == self.high

    @property
    def is_bound(self) -> bool:
        """Whether it has one end only."""
        return len(self.ends) == 1 and not self.is_number

    def difference(self, number: float) -> float:
        """How far a number is above (positive) or below what the source says; 0 within a bound or range."""
        return number - min(max(number, self.low), self.high)

    @property
    def ends(self) -> tuple[float, ...]:
        """The finite ones of `low` and `high`, each once."""
        return tuple(dict.fromkeys(end for end in (self.low, self.high) if abs(end) < inf))


AnyValue = Annotated[Value, BeforeValidator(Value.of)]


class Published(Record):
    """The published value of a cell.

    Attributes:
        value: in a table: a number, or a text in one of the forms of `Value`.
        spread: standard deviation over the seeds of the source.
        seeds: their number.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    row: str
    column: str
    measure: str
    value: AnyValue
    spread: float | None = None
    seeds: int | None = Field(default=None, ge=1)


class PublishedTest(Record):
    """Friedman's test as a source has it.

    Attributes:
        ranks: mean ranks of the columns; empty if it has none.
        p: that of the statistic.
        printed_p: what the source prints, if it is another number.
        words: where the numbers are from.
    """

    measure: str
    columns: tuple[str, ...]
    ranks: tuple[float, ...]
    statistic: float
    p: float
    printed_p: float | None = None
    words: str = ""


class Quotation(Record):
    """Values of a work that a table shows: those whose row, column and measure it has.

    Attributes:
        of_row, of_column, of_measure: only values of this row, column or measure of the source.
        row, column, measure: where the table has them, if its names are others; several if more than one of its
            rows or columns stands for that of the source.
    """

    work: str
    of_row: str | None = None
    of_column: str | None = None
    of_measure: str | None = None
    row: str | tuple[str, ...] = ()
    column: str | tuple[str, ...] = ()
    measure: str | tuple[str, ...] = ()

    def cells(self, rows: Sequence[str], columns: Sequence[str], measures: Sequence[str]) -> list[Published]:
        """The values, by the names of the table.

        Raises:
            SettingsError: there is no such work, or it has no value for the table.
        """
        wanted = {"row": self.of_row, "column": self.of_column, "measure": self.of_measure}
        places = {"row": self.row, "column": self.column, "measure": self.measure}
        known = {"row": rows, "column": columns, "measure": measures}
        found = []
        for line in lines_of(self.work):
            own = {name: getattr(line, name) for name in wanted}
            if any(name not in {None, own[of]} for of, name in wanted.items()):
                continue
            names = [[n for n in _names(places[of]) or (own[of],) if n in known[of]] for of in wanted]
            for place in itertools.product(*names):
                found.append(line.model_copy(update=dict(zip(wanted, place, strict=True))))
        if not found:
            raise SettingsError(f"{self.work} has no published value for a row, column and measure of this table")
        return [Published(**{name: getattr(line, name) for name in Published.model_fields}) for line in found]


def _names(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


class PublishedLine(Published):
    """A line of the file.

    Attributes:
        place: table, figure or section.
        page: empty if it is not known.
        words: what to know of it.
    """

    work: str
    place: str
    page: str = ""
    words: str = ""


@cache
def published_lines() -> tuple[PublishedLine, ...]:
    """All lines of the file.

    Raises:
        SettingsError: a line is wrong.
    """
    text = (files("flnet_resources") / "experiments" / "published.csv").read_text("utf-8")
    lines = []
    for number, fields in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            lines.append(PublishedLine.model_validate({name: text for name, text in fields.items() if text}))
        except ValueError as exc:
            raise SettingsError(f"published.csv, line {number}: {exc}") from exc
    return tuple(lines)


def lines_of(work: str) -> list[PublishedLine]:
    """The lines of a work.

    Raises:
        SettingsError: there is no such work.
    """
    if work not in WORKS:
        raise SettingsError(f"no published values of {work!r}; expected one of {', '.join(WORKS)}")
    return [line for line in published_lines() if line.work == work]


def published_tests(works: Iterable[str]) -> Iterator[PublishedTest]:
    """Friedman's tests in these works.

    Raises:
        SettingsError: there is no such work.
    """
    numbers: dict[tuple[str, str], dict[str, PublishedLine]] = {}
    for line in (line for work in works for line in lines_of(work) if line.row == RANK_TEST):
        measure, _, name = line.measure.partition(": ")
        numbers.setdefault((measure, line.column), {})[name] = line
    for (measure, columns), lines in numbers.items():
        given = {name: line.value.low for name, line in lines.items()}
        names = tuple(columns.split(", "))
        yield PublishedTest(
            measure=measure,
            columns=names,
            ranks=_ranks(names, given),
            statistic=given["Q"],
            p=given["p"],
            printed_p=given.get("printed p"),
            words=lines["Q"].words,
        )


def _ranks(columns: Sequence[str], given: Mapping[str, float]) -> tuple[float, ...]:
    ranks = [given.get(f"mean rank of {column}") for column in columns]
    return tuple(rank for rank in ranks if rank is not None)
