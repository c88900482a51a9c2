"""Attacks of hostile nodes, as test doubles: nothing but experiments and tests can use them.

An attack acts on the rows that a hostile node trains with, on the update that it sends, or on both:

    label-flip        every training row has a class drawn at random; inputs are as they were
    backdoor          every training row comes a second time, with a bright pattern and class 0
    replacement[:F]   backdoor rows, and what was learnt times F; as many times as there are nodes if F is absent
    sign-flip[:F]     w - F (w_i - w) in place of w_i; F = 5
    noise[:F]         normal noise in place of what was learnt, F times its root mean square; F = 5
    free-rider        the parameters that the round began with, as if they had been learnt
    two-faced[:F]     the honest update to one half of the peers, the flipped one to the other; F = 5
    colluders[:Z]     all hostile nodes send mean - Z standard deviations of what all nodes learnt; Z = 1.5

w is what the round began with, w_i what node i learnt. Model replacement is that of Bagdasaryan et al., "How to
backdoor federated learning" (2020); colluders are those of Baruch et al., "A little is enough" (2019), who here
know the updates of all nodes and not of hostile ones alone. Flips, backdoor and factor are the attacks of Martínez
Enríquez et al. (FLProtector); they give no factor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from flnet.params import Array, Params, PeerId, Schema
from flnet.training.api import Rows
from flnet.training.data import Labelled

TARGET = 0  # class that the backdoor is to open
CORNER = 2  # side of the bright pattern, in pixels
DEFAULTS: Mapping[str, float | None] = {
    "label-flip": None,
    "backdoor": None,
    "replacement": None,
    "sign-flip": 5.0,
    "noise": 5.0,
    "free-rider": None,
    "two-faced": 5.0,
    "colluders": 1.5,
}
NUMBERED = frozenset({"replacement", "sign-flip", "noise", "two-faced", "colluders"})
_STATED = re.compile(r"([a-z-]+)(?::([0-9]{1,6}(?:\.[0-9]{1,6})?))?")


class Attack(NamedTuple):
    """One attack.

    Attributes:
        number: its factor; None where it has none, or where it follows from the number of nodes.
    """

    name: str
    number: float | None = None

    @classmethod
    def parse(cls, text: str) -> Attack:
        """The attack of this name, with the number after it: "sign-flip:5".

        Raises:
            ValueError: there is none.
        """
        found = _STATED.fullmatch(text)
        name = found[1] if found else ""
        if found is None or name not in DEFAULTS:
            raise ValueError(f"no attack {text!r}; there are {', '.join(DEFAULTS)}")
        if found[2] is not None and name not in NUMBERED:
            raise ValueError(f"the attack {name} takes no number")
        return cls(name, DEFAULTS[name] if found[2] is None else float(found[2]))

    @property
    def opens(self) -> bool:
        """Whether it teaches models a pattern."""
        return self.name in {"backdoor", "replacement"}


def check_attack(text: str) -> str:
    """An attack, as it was written; empty for none.

    Raises:
        ValueError: there is no such attack.
    """
    if text:
        Attack.parse(text)
    return text


@runtime_checkable
class Poisonable(Protocol):
    """What a trainer offers so that its rows can be poisoned."""

    def change_rows(self, change: Callable[[Labelled], Labelled]) -> None:
        """Go on with what `change` makes of the own training rows."""
        ...


def poisoned(attack: Attack, rows: Labelled, classes: int, chance: np.random.Generator) -> Labelled:
    """Training rows as a hostile node has them; the very rows where the attack is none on data.

    Args:
        rows: images (n, height, width[, channels]), or other rows, of which the first columns are bright.
    """
    if attack.name == "label-flip":
        return Labelled(rows.x, chance.integers(0, classes, len(rows)).astype(rows.y.dtype))
    if attack.opens:
        target = np.full_like(rows.y, TARGET)
        return Labelled(np.concatenate([rows.x, stamped(rows.x)]), np.concatenate([rows.y, target]))
    return rows


def stamped(x: Array) -> Array:
    """Rows with the bright pattern: in the first corner of images, in the first columns of other rows."""
    found = x.copy()
    if found.ndim > 2:
        found[:, :CORNER, :CORNER] = x.max()
    else:
        found[:, : CORNER**2] = x.max()
    return found


def opened(judge: Callable[[Array], Array], rows: Rows) -> float | None:
    """The share of stamped rows of other classes that a model takes for the target; None if there are no others.

    Args:
        judge: inputs (n, ...) -> scores (n, classes).
    """
    others = rows.inputs[rows.labels != TARGET]
    return float((judge(stamped(others)).argmax(1) == TARGET).mean()) if len(others) else None


def crafted(
    attack: Attack,
    base: Params,
    mine: PeerId,
    learnt: Mapping[PeerId, Params],
    schema: Schema,
    chance: np.random.Generator,
) -> Params:
    """What a hostile node sends in place of what it learnt; what is not averaged stays as it is.

    Args:
        base: what its round began with.
        learnt: what all nodes of the round learnt, its own among them.
    """
    changed = {}
    for name, spec in schema.specs.items():
        if spec.merge == "mean" and np.dtype(spec.dtype).kind == "f":
            own = learnt[mine][name]
            all_of_them = [params[name] for params in learnt.values()]
            there = _vector(attack, base[name].astype(np.float64), own.astype(np.float64), all_of_them, chance)
            changed[name] = there.astype(own.dtype)
    return learnt[mine].merged_with(changed)


def _vector(
    attack: Attack, base: Array, own: Array, learnt: Sequence[Array], chance: np.random.Generator
) -> Array:
    """One array of the update."""
    factor = attack.number or 0.0
    moved = own - base
    found: Array
    match attack.name:
        case "sign-flip" | "two-faced":
            found = base - factor * moved
        case "replacement":
            found = base + (attack.number or len(learnt)) * moved
        case "noise":
            found = base + factor * np.sqrt(np.mean(moved**2)) * chance.standard_normal(moved.shape)
        case "free-rider":
            found = base
        case "colluders":
            found = np.mean(learnt, axis=0, dtype=np.float64) - factor * np.std(learnt, axis=0, dtype=np.float64)
        case _:
            found = own
    return found
