"""What a round brought, put together from the histories of several nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from rich.table import Table

from flnet.cli.client import View
from flnet.cli.figures import Figures, chosen, figure_words, figures_of, means, parts
from flnet.cli.tables import table
from flnet.cli.text import accuracy, counted, printable, short

__all__ = ["RoundResult", "Spread", "failure", "figures_tables", "results_table", "round_result", "summary"]


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest of some accuracies, each in [0, 1]."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """The spread of the values that are there; None when none is."""
        known = [value for value in values if value is not None]
        return cls(fmean(known), min(known), max(known)) if known else None

    def __str__(self) -> str:
        if self.low == self.high:
            return accuracy(self.mean)
        return f"{accuracy(self.mean)} ({accuracy(self.low)} - {accuracy(self.high)})"


@dataclass(frozen=True)
class RoundResult:
    """One round over all nodes.

    Attributes:
        pre: accuracies before averaging; post: after it, and after the exchange.
        digests: of the model that each node holds after the round.
        missing: nodes without a result for this round.
        errors: by node, what failed there in this round.
        seconds: from the start of the round, or the end of the one before, to the last node's result.
        figures: by node, what it measured after averaging: the accuracy and the trainer's further figures.
    """

    number: int
    pre: Spread | None
    post: Spread | None
    digests: Mapping[str, str | None]
    missing: tuple[str, ...]
    errors: Mapping[str, str]
    seconds: float
    figures: Mapping[str, Figures]

    @property
    def same_model(self) -> bool:
        """Whether all nodes hold the same model, bit by bit."""
        return not self.missing and None not in self.digests.values() and len(set(self.digests.values())) == 1

    def models(self) -> str:
        """Which models are held: "1f2e3d4c5b on all 4 nodes", or what is wrong."""
        if self.errors:
            return "FAILED: " + _by_node(self.errors)
        if self.missing:
            return "no result: " + ", ".join(map(printable, self.missing))
        if self.same_model:
            digest = short(next(iter(self.digests.values())))
            return digest if len(self.digests) == 1 else f"{digest} on all {len(self.digests)} nodes"
        return "DIFFERENT: " + _by_node({node: short(digest) for node, digest in self.digests.items()})

    def fields(self) -> dict[str, object]:
        """As JSON-ready data, for scripts."""
        return {**asdict(self), "missing": list(self.missing), "same_model": self.same_model}

    def lone_words(self) -> str:
        """The round where every node trained by itself: models differ, and averaging changes nothing."""
        trouble = f", {self.models()}" if self.errors or self.missing else ""
        return f"round {self.number} alone: accuracy {self.post}, {self.seconds:.1f} s{trouble}"

    def __str__(self) -> str:
        return (
            f"round {self.number}: before {self.pre}, after {self.post}, "
            f"model {self.models()}, {self.seconds:.1f} s"
        )


def failure(results: Iterable[RoundResult]) -> str | None:
    """What failed, in words; None if nothing did."""
    failed = [f"round {result.number} failed: {_by_node(result.errors)}" for result in results if result.errors]
    return "; ".join(failed) or None


def round_result(number: int, records: Mapping[str, View | None], seconds: float) -> RoundResult:
    """Put one round together.

    Args:
        records: by node, its history record of this round; None where there is none.
    """
    held = {node: record for node, record in records.items() if record is not None}
    return RoundResult(
        number,
        Spread.of(record.get("pre_fedavg_accuracy") for record in held.values()),
        Spread.of(record.get("post_fedavg_accuracy") for record in held.values()),
        {node: record.get("digest") for node, record in held.items()},
        tuple(node for node, record in records.items() if record is None),
        {node: str(record["error"]) for node, record in held.items() if record.get("error")},
        seconds,
        {node: figures_of(record) for node, record in held.items()},
    )


def _by_node(words: Mapping[str, str]) -> str:
    return ", ".join(f"{printable(node)} {printable(text)}" for node, text in words.items())


def results_table(results: Sequence[RoundResult]) -> Table:
    """One row per round."""
    shown = table("round", "before averaging: mean (low - high)", "after", "model", "seconds", title="Results")
    for result in results:
        shown.add_row(
            str(result.number), str(result.pre), str(result.post), result.models(), f"{result.seconds:.1f}"
        )
    return shown


def figures_tables(results: Sequence[RoundResult], every: bool) -> list[Table]:
    """The means of the trainer's further figures, one row per round; several tables when there are many."""
    rows = [(str(result.number), means(result.figures.values())) for result in results]
    names = chosen((name for _, row in rows for name in row), every)
    tables: list[Table] = []
    for group in parts(names):
        title = "Further figures after averaging, means over the nodes"
        shown = table("round", *map(printable, group), title=title if not tables else None)
        for number, row in rows:
            shown.add_row(number, *(accuracy(row.get(name)) for name in group))
        tables.append(shown)
    return tables


def summary(results: Sequence[RoundResult], every: bool = False) -> str:
    """The result in a sentence or two."""
    first, last = results[0], results[-1]
    differing = [str(result.number) for result in results if not result.same_model]
    same = (
        "after every round all nodes held the same model, bit by bit"
        if not differing
        else f"the nodes' models differed after round {', '.join(differing)}"
    )
    seconds = sum(result.seconds for result in results)
    gain = f"{first.pre.mean:.4f} to {last.post.mean:.4f}" if first.pre and last.post else "unknown"
    further = figure_words(means(last.figures.values()), every)
    return (
        f"{counted(len(results), 'round')} in {seconds:.1f} s; mean accuracy from {gain} "
        f"(before the first averaging, after the last); {same}"
        + (f"; further means after the last averaging: {further}" if further else "")
    )
