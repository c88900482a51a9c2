"""Every method by its name: aggregation rules, filters, and the methods of local training.

A rule is written "name" or "name:argument:argument", after filters with commas between:
"trimmed-mean:0.2", "clip,cosine,multi-krum:1:3". `parse_rule` reads the text once and gives a value that knows the
rest: its full name, how to merge, whether it can add updates as they come, whether it changes local training.
`with_method` wraps a trainer in what the settings ask of local training.

To add a rule, write its module and add one `RuleEntry` here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, get_args

from flnet.aggregation.base import MERGING, AggregationRule, Filter, Secure
from flnet.aggregation.centered_clipping import STEPS, centered_clipping
from flnet.aggregation.consistency import KINDS, consistency
from flnet.aggregation.fed_avg import Weighting, fed_avg
from flnet.aggregation.fed_opt import adaptive, fed_avg_m
from flnet.aggregation.krum import bulyan, krum, multi_krum
from flnet.aggregation.median import geometric_median, median
from flnet.aggregation.screening import clip, composed, cosine
from flnet.aggregation.trimmed_mean import DEFAULT_PART, trimmed_mean, winsorised_mean
from flnet.algorithms.apfl import Adaptive
from flnet.algorithms.differential_privacy import RandomWords
from flnet.algorithms.fed_prox import Proximal
from flnet.algorithms.fl_protector import Increment
from flnet.algorithms.k_means import ClusterEncoder, k_means
from flnet.algorithms.noised_sum import NoisedMeanEncoder, SumNoise
from flnet.algorithms.row_privacy import must_hide_rows
from flnet.algorithms.scaffold import Controlled, scaffold
from flnet.algorithms.secure_sum import MeanEncoder
from flnet.algorithms.wrapper import overrides
from flnet.params.blob import Memory, fresh
from flnet.params.params import Params, Schema
from flnet.text import text
from flnet.trainer import Method, Trainer, TrainerError

USUAL = "agg1"
MOST_FILTERS = 8
Made = TypeVar("Made", AggregationRule, Filter)

# Bounds of arguments: a number has at most nine digits before and after its point, so that names stay short.
_DECIMAL = "[0-9]{1,9}([.][0-9]{1,9})?"
_ABOVE_0 = f"(?=[0-9.]*[1-9]){_DECIMAL}"
_BELOW_1 = "0([.][0-9]{1,9})?"
_UP_TO_1 = "(0([.][0-9]{1,9})?|1)"
_ABOVE_0_UP_TO_1 = "(1|(?=[0-9.]*[1-9])0[.][0-9]{1,9})"
_BELOW_HALF = "0[.][0-4][0-9]{0,8}"
_HOSTILE = "[0-9]{1,3}"
_COUNT = "[1-9][0-9]{0,2}"
SECURE, MEANS = "secure", ("agg0", "agg1", "agg2")
SUMS = (*MEANS, "k-means")  # by which masked updates can be merged
_SECURE_EXPECTED = "expected secure, secure,agg0, secure,agg1 or secure,agg2"
_SECURE = f"{SECURE}(:(?P<part>0([.][0-4][0-9]{{0,3}})?)(:(?P<bits>32|64))?)?"


@dataclass(frozen=True)
class Argument:
    """An argument of a rule or filter.

    Attributes:
        form: regular expression of the whole argument, bounds included.
        read: text -> value.
        default: the value where the argument is absent.
        is_optional: whether a text that is not of this form is the next argument.
    """

    form: str
    read: Callable[[str], Any]
    default: Any
    is_optional: bool = False


@dataclass(frozen=True)
class RuleEntry(Generic[Made]):
    """One rule or filter.

    Attributes:
        name: as it is written.
        make: takes the values of all arguments, in their order.
        arguments: what may stand after the name.
        examples: how it may be written, for the message to who wrote something else; the name if empty.
        uses_memory: whether `make` also takes where the memory for results comes from.
    """

    name: str
    make: Callable[..., Made]
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    uses_memory: bool = False

    def made(self, texts: list[str], memory: Memory) -> Made:
        """Build the rule with these arguments.

        Raises:
            ValueError: there are too many, or one is not of its form.
        """
        left, values = list(texts), []
        for argument in self.arguments:
            if left and re.fullmatch(argument.form, left[0]):
                values.append(argument.read(left.pop(0)))
            elif left and not argument.is_optional:
                raise ValueError(f"{left[0]!r} is no argument of {self.name}")
            else:
                values.append(argument.default)
        if left:
            raise ValueError(f"{self.name} takes no further argument {left[0]!r}")
        return self.make(*values, **({"memory": memory} if self.uses_memory else {}))


def _adaptive(kind: str) -> RuleEntry[AggregationRule]:
    def make(rate: float, first: float, second: float, adaptivity: float) -> AggregationRule:
        return adaptive("fedadam" if kind == "fedadam" else "fedyogi", rate, (first, second), adaptivity)

    arguments = (
        Argument(_ABOVE_0, float, 0.01),
        Argument(_BELOW_1, float, 0.9),
        Argument(_BELOW_1, float, 0.99),
        Argument(_ABOVE_0, float, 0.001),
    )
    return RuleEntry(kind, make, arguments, (f"{kind}:0.01",))


_RULES = (
    RuleEntry("agg0", partial(fed_avg, "agg0"), uses_memory=True),
    RuleEntry("agg1", partial(fed_avg, "agg1"), uses_memory=True),
    RuleEntry("agg2", partial(fed_avg, "agg2"), uses_memory=True),
    RuleEntry("median", median, uses_memory=True),
    RuleEntry(
        "trimmed-mean", trimmed_mean, (Argument(_BELOW_HALF, float, DEFAULT_PART),), ("trimmed-mean:0.2",), True
    ),
    RuleEntry(
        "winsorised-mean",
        winsorised_mean,
        (Argument(_BELOW_HALF, float, DEFAULT_PART),),
        ("winsorised-mean:0.2",),
        True,
    ),
    RuleEntry("geometric-median", geometric_median),
    RuleEntry(
        "centered-clipping", centered_clipping, (Argument(_COUNT, int, STEPS), Argument(_ABOVE_0, float, None))
    ),
    RuleEntry("krum", krum, (Argument(_HOSTILE, int, 1),), ("krum:1",)),
    RuleEntry(
        "multi-krum",
        multi_krum,
        (Argument(_HOSTILE, int, 1), Argument(_COUNT, int, None)),
        ("multi-krum:1", "multi-krum:1:3"),
    ),
    RuleEntry("bulyan", bulyan, (Argument(_HOSTILE, int, 1),), ("bulyan:1",), True),
    RuleEntry("k-means", k_means, (Argument(_ABOVE_0_UP_TO_1, float, 1.0),), ("k-means:1",)),
    RuleEntry(
        "consistency",
        consistency,
        (
            Argument("|".join(KINDS), str, "mad", is_optional=True),
            Argument(_COUNT, int, None),
            Argument(_UP_TO_1, float, 0.0),
        ),
        ("consistency", "consistency:bounded"),
    ),
    RuleEntry("scaffold", scaffold, (Argument(_ABOVE_0, float, 1.0), Argument("examples", bool, False))),
    RuleEntry(
        "fedavgm",
        fed_avg_m,
        (Argument(_ABOVE_0, float, 1.0), Argument(_BELOW_1, float, 0.9)),
        ("fedavgm:1:0.9",),
    ),
    _adaptive("fedadam"),
    _adaptive("fedyogi"),
)
RULES: Mapping[str, RuleEntry[AggregationRule]] = {entry.name: entry for entry in _RULES}
FILTERS: Mapping[str, RuleEntry[Filter]] = {
    "clip": RuleEntry("clip", clip, (Argument(_ABOVE_0, float, None),)),
    "cosine": RuleEntry("cosine", cosine),
}


def parse_rule(text: str, memory: Memory = fresh) -> AggregationRule:
    """The aggregation rule that this text names, over its filters.

    Args:
        text: as in the setting; spaces around commas do not matter.
        memory: where the memory for sums and averages comes from.

    Raises:
        ValueError: there is no such rule or filter; says what there is.
    """
    *filters, rule = parts = [part.strip() for part in text.split(",")]
    if any(_is_secure(part) for part in parts):
        return _secure(parts, memory)
    try:
        if len(filters) > MOST_FILTERS:
            raise ValueError("too many filters")
        made = [_made(FILTERS, part, memory) for part in filters]
        return composed(made, _made(RULES, rule, memory))
    except ValueError as exc:
        raise ValueError(f"expected {_offered()}") from exc


def _is_secure(part: str) -> bool:
    return part.partition(":")[0] == SECURE


def _secure(parts: Sequence[str], memory: Memory) -> AggregationRule:
    """A rule whose updates are masked: "secure", "secure,agg0", "secure:0.25:64,agg2".

    Raises:
        ValueError: the rule needs single updates or is none, or the numbers after "secure" are none.
    """
    masked = [part for part in parts if _is_secure(part)]
    others = [part for part in parts if not _is_secure(part)] or [USUAL]
    for part in others:
        name = part.partition(":")[0]
        if name not in RULES and name not in FILTERS:
            raise ValueError(f"{part[:60]!r} is no rule: {_SECURE_EXPECTED}")
        if name not in SUMS:
            raise ValueError(
                f"{part[:60]} looks at single updates, and secure sums show none of them, only their sum: "
                f"{_SECURE_EXPECTED}"
            )
    if len(others) > 1 or len(masked) > 1:
        raise ValueError(f"expected secure once, with one rule, got {', '.join(parts)[:60]}")
    rule, found = others[0], re.fullmatch(_SECURE, masked[0])
    if not found:
        raise ValueError(
            "expected secure, or secure:0.25:64 with the part of the nodes that may vanish, below 0.5, and the bits of "
            f"a number, 32 or 64; got {masked[0][:60]!r}"
        )
    away = float(found["part"]) if found["part"] else Secure().part_away
    # Counts of clusters are small beside the largest that a sum takes, so k-means needs all 64 bits.
    secure = Secure(away, 64 if found["bits"] == "64" or rule.split(":")[0] == "k-means" else 32)
    name = f"{SECURE}:{away:.4g}:{secure.bits},{rule}"
    return _made(RULES, rule, memory)._replace(name=name, running=None, secure=secure)


def _made(entries: Mapping[str, RuleEntry[Made]], text: str, memory: Memory) -> Made:
    name, *arguments = text.split(":")
    if name not in entries:
        raise ValueError(f"no rule or filter is named {name!r}")
    return entries[name].made(arguments, memory)


def _offered() -> str:
    """All rules with examples of their arguments, and the filters."""
    *most, last = [example for entry in RULES.values() for example in entry.examples or (entry.name,)]
    return f"{', '.join(most)} or {last}, after clip, clip:2.5 or cosine, with commas between"


SumEncoder = MeanEncoder | ClusterEncoder | NoisedMeanEncoder


def sum_encoder(rule: AggregationRule, schema: Schema, base: Params, nodes: int) -> SumEncoder:
    """How updates become vectors of a secure sum, and their sum a model again.

    Args:
        rule: whose updates are masked.
        base: from which changes are counted.
        nodes: how many nodes the sum may have at most.

    Raises:
        ValueError: the arrays are not those of the rule.
    """
    assert rule.secure is not None
    name, *arguments = rule.name.rpartition(",")[2].split(":")
    if name == "k-means":
        return ClusterEncoder(
            schema, base, nodes, float(arguments[0]) if arguments else 1.0, bits=rule.secure.bits
        )
    weighting = next(mean for mean in get_args(Weighting) if mean == name)
    return MeanEncoder(schema, base, nodes, weighting, bits=rule.secure.bits)


def noised_encoder(
    rule: AggregationRule,
    schema: Schema,
    base: Params,
    members: int,
    threshold: int,
    noise: SumNoise,
    words: RandomWords,
) -> NoisedMeanEncoder:
    """The same, where all members add noise that hides each of them.

    Args:
        members: of the group.
        threshold: how few of them the sum may have.
        words: of which the own noise is made.

    Raises:
        ValueError: the rule weighs nodes by what the noise is to hide, or the noise does not fit.
    """
    assert rule.secure is not None
    if rule.name.rpartition(",")[2] != "agg0":
        raise ValueError(text("noise hides a node in sums by secure,agg0 only; the rule is {rule}", rule.name))
    return NoisedMeanEncoder(schema, base, members, threshold, noise, words, bits=rule.secure.bits)


def check_rule(text: str) -> str:
    """The text of an aggregation rule, without spaces around commas.

    Raises:
        ValueError: there is no such rule or filter.
    """
    parse_rule(text)
    return ",".join(part.strip() for part in text.split(","))


def stated_rule(text: str) -> Mapping[str, str]:
    """The statement of the rule that peers must agree with; empty for the default rule."""
    return {} if text == USUAL else {MERGING: parse_rule(text).name}


def with_method(trainer: Trainer, method: Method, seed: int, name: str) -> Trainer:
    """Wrap the trainer in the given method; return it unchanged if the method adds nothing.

    Args:
        seed: of its initial parameters.
        name: its id, for people.

    Raises:
        TrainerError: it lacks what the method needs; says which setting to change.
    """
    if method.row_privacy:
        must_hide_rows(trainer, method, seed, name)
    _refuse(trainer, method, name)
    if method.controls:
        wrapped: Trainer = Controlled(trainer, seed, method.mu)
    elif method.kind == "apfl":
        return Adaptive(trainer, seed, method)
    else:
        wrapped = Proximal(trainer, seed, method.mu) if method.mu else trainer
    return Increment(wrapped, trainer, seed, method) if method.kind == "increment" else wrapped


def _refuse(trainer: Trainer, method: Method, name: str) -> None:
    takes_apart = overrides(trainer, "gradients")
    if method.controls and method.kind == "apfl":
        raise TrainerError(
            text(
                "FLNET_AGGREGATION=scaffold and FLNET_PERSONAL_MODEL=apfl change the same steps of "
                "training; leave one of them away, or take the personal model increment"
            )
        )
    if method.controls and not takes_apart:
        raise TrainerError(
            text("FLNET_AGGREGATION=scaffold needs a trainer with a method gradients, which {name} lacks", name)
        )
    if method.kind == "apfl" and not takes_apart:
        raise TrainerError(
            text("FLNET_PERSONAL_MODEL=apfl needs a trainer with a method gradients, which {name} lacks", name)
        )
    steps_itself = not method.controls and method.kind != "apfl"
    if method.mu and steps_itself and "proximal" not in trainer.honours:
        raise TrainerError(
            text(
                "FLNET_LOCAL_TRAINING={value} needs a trainer that honours the proximal term, which "
                "{name} does not; set FLNET_LOCAL_TRAINING to plain on all nodes",
                method.local,
                name,
            )
        )
