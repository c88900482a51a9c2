"""A trainer's further figures for people: which of many are shown, their means, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

import click

from flnet.cli.text import accuracy, printable

__all__ = [
    "ACCURACY",
    "Figures",
    "chosen",
    "figure_words",
    "figures_of",
    "means",
    "metrics_option",
    "numbers",
    "parts",
]

ACCURACY = "accuracy"  # shown in a column of its own; a further figure of this name is the same one
FEW = 6
# Of many figures those come first that hide least: a guess of the commonest class does not shine in them.
TELLING = ("f1_macro", "balanced_accuracy", "auc", "argmax_accuracy", "r2")
Figures = Mapping[str, float]
F = TypeVar("F", bound=Callable[..., Any])


def metrics_option(command: F) -> F:
    """The option --metrics; the command gets `every`, whether all figures are asked for."""
    return click.option(
        "--metrics",
        "every",
        type=click.Choice(["few", "all"]),
        default="few",
        show_default=True,
        callback=lambda ctx, param, value: value == "all",
        help=f"How many of the trainer's further figures are shown; few are {FEW} at most.",
    )(command)


def numbers(values: Any) -> dict[str, float]:
    """The numbers among what a node gives as figures; a foreign node may give anything."""
    if not isinstance(values, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def figures_of(view: Mapping[str, Any]) -> dict[str, float]:
    """The figures after averaging of a job or a record, with its accuracy as the first one."""
    metrics = view.get("metrics")
    after = numbers(metrics.get("after")) if isinstance(metrics, Mapping) else {}
    own = numbers({ACCURACY: view.get("post_fedavg_accuracy")})
    return own | {name: value for name, value in after.items() if name != ACCURACY}


def means(nodes: Iterable[Figures]) -> dict[str, float]:
    """The mean of each figure over the nodes that have it, in the order in which they come."""
    found: dict[str, list[float]] = {}
    for figures in nodes:
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def chosen(names: Iterable[str], every: bool) -> list[str]:
    """The further figures to show, the most telling first; the accuracy itself is none of them."""
    given = [name for name in dict.fromkeys(names) if name != ACCURACY]
    ranked = sorted(given, key=_rank)
    return ranked if every else ranked[:FEW]


def _rank(name: str) -> int:
    """Where the figure stands in TELLING, also as global_f1_macro or official_auc."""
    ends = (place for place, end in enumerate(TELLING) if name == end or name.endswith("_" + end))
    return next(ends, len(TELLING))


def figure_words(figures: Figures, every: bool) -> str:
    """ "f1_macro 0.5103, auc 0.8012, and 3 more (--metrics all)"; empty when there is none."""
    names = chosen(figures, every)
    words = [f"{printable(name)} {accuracy(figures[name])}" for name in names]
    hidden = len(chosen(figures, True)) - len(names)
    return ", ".join([*words, f"and {hidden} more (--metrics all)"] if hidden else words)


def parts(names: Sequence[str], most: int = FEW) -> list[Sequence[str]]:
    """The names in groups that fit side by side."""
    return [names[start : start + most] for start in range(0, len(names), most)]
