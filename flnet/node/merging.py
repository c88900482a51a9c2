"""The merging rule that the setting `aggregation` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from flnet.blob import Memory, fresh
from flnet.events import HyperParamsEdited
from flnet.messages import EditHyperParams
from flnet.postponing import postponed
from flnet.setting_types import check_merging_rule
from flnet.strategies import (
    DEFAULT_PART,
    MERGING,
    Filter,
    Strategy,
    adaptive,
    bulyan,
    clip,
    composed,
    cosine,
    fed_avg,
    fed_avg_m,
    geometric_median,
    k_means,
    krum,
    median,
    multi_krum,
    scaffold,
    trimmed_mean,
    winsorised_mean,
)

with postponed("flnet.strategies.consistency", "flnet.strategies.scores"):  # of all rules they need most memory
    from flnet.strategies import consistency, scores

USUAL = "agg1"


def strategy_for(rule: str, memory: Memory = fresh) -> Strategy:
    """The strategy of this name, with the numbers after it: "trimmed-mean:0.2", "clip,cosine,multi-krum:1:3".

    Args:
        rule: as in the setting.
        memory: where the memory for sums and averages comes from.

    Raises:
        ValueError: there is no such rule.
    """
    *filters, last = check_merging_rule(rule).split(",")
    return composed([_filter(one) for one in filters], _rule(last, memory))


def _filter(text: str) -> Filter:
    name, *numbers = text.split(":")
    return cosine() if name == "cosine" else clip(float(numbers[0]) if numbers else None)


def _rule(text: str, memory: Memory) -> Strategy:
    name, *numbers = text.split(":")
    hostile, *kept = [int(number) for number in numbers if number.isdigit()] or [1]
    match name:
        case "agg0" | "agg1" | "agg2":
            return fed_avg(name, memory)
        case "median":
            return median(memory)
        case "trimmed-mean":
            return trimmed_mean(float(numbers[0]) if numbers else DEFAULT_PART, memory)
        case "winsorised-mean":
            return winsorised_mean(float(numbers[0]) if numbers else DEFAULT_PART, memory)
        case "geometric-median":
            return geometric_median()
        case "k-means":
            return k_means(float(numbers[0]) if numbers else 1.0)
        case "consistency":
            return _consistency(numbers)
        case "scaffold":
            return scaffold(float(numbers[0]) if numbers else 1.0, bool(numbers[1:]))
        case "fedavgm":
            return fed_avg_m(*map(float, numbers))
        case "fedadam" | "fedyogi":
            return _adaptive(name, numbers)
        case "krum":
            return krum(hostile)
        case "multi-krum":
            return multi_krum(hostile, *kept)
        case _:
            return bulyan(hostile, memory)


def _consistency(said: Sequence[str]) -> Strategy:
    kind: scores.Kind = "mad"
    for one in scores.KINDS:
        if said[:1] == [one]:
            kind, said = one, said[1:]
    return consistency.consistency(kind, int(said[0]) if said else None, float(said[1]) if said[1:] else 0.0)


def _adaptive(name: Literal["fedadam", "fedyogi"], said: Sequence[str]) -> Strategy:
    rate, first, second, adaptivity = (*said, *("0.01", "0.9", "0.99", "0.001")[len(said) :])
    return adaptive(name, float(rate), (float(first), float(second)), float(adaptivity))


def edit_of(changes: EditHyperParams) -> HyperParamsEdited:
    """What a person's changes mean for a job: a merging rule by its whole name."""
    said = changes.model_dump(exclude_none=True)
    rule = said.pop("aggregation", None)
    if rule is None:
        return HyperParamsEdited(said)
    strategy = strategy_for(rule)
    return HyperParamsEdited(said, strategy.name, strategy.running is not None)


def stated_rule(rule: str) -> Mapping[str, str]:
    """What peers have to state as well, where it is not the usual rule."""
    return {} if rule == USUAL else {MERGING: strategy_for(rule).name}
