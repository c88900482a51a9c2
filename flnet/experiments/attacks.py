"""Attacks of hostile nodes in a simulated mesh, which only experiments and tests can use.

An attack changes the rows that a hostile node trains with, the update that it sends, or both:

    label-flip        every training row gets a random class
    backdoor          every training row is repeated with a bright pattern and class 0
    replacement[:F]   backdoor rows, and the update scaled by F; by the number of nodes if F is absent
    sign-flip[:F]     w - F (w_i - w) in place of w_i; F = 5
    weight-flip[:F]   the same of weights, with the buffers of the honest update, such as running means; F = 1
    noise[:F]         normal noise in place of the update, F times its root mean square; F = 5
    free-rider        the parameters that the round began with, without a training
    two-faced[:F]     the honest update to one half of the peers, the flipped one to the other; F = 5
    colluders[:Z]     all hostile nodes send the mean minus Z standard deviations of all updates; Z = 1.5

w are the parameters that the round began with, and w_i those that node i trained. Model replacement is that of
Bagdasaryan et al., "How to backdoor federated learning" (2020). Colluders are those of Baruch et al., "A little is
enough" (2019), but know the updates of all nodes and not only of the hostile ones. Flips, backdoor and scaling are
the attacks of Martínez Enríquez et al. (FLProtector), who do not say by which factor they scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from flnet.datasets.labelled import Labelled
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.trainer import Rows

TARGET = 0  # class that the backdoor leads to
CORNER = 2  # side of the bright pattern, in pixels
DEFAULTS: Mapping[str, float | None] = {
    "label-flip": None,
    "backdoor": None,
    "replacement": None,
    "sign-flip": 5.0,
    "weight-flip": 1.0,
    "noise": 5.0,
    "free-rider": None,
    "two-faced": 5.0,
    "colluders": 1.5,
}
NUMBERED = frozenset({"replacement", "sign-flip", "weight-flip", "noise", "two-faced", "colluders"})
_FORM = re.compile(r"([a-z-]+)(?::([0-9]{1,6}(?:\.[0-9]{1,6})?))?")


class Attack(NamedTuple):
    """One attack.

    Attributes:
        number: its factor; None if it has none, or it follows from the number of nodes.
    """

    name: str
    number: float | None = None

    @classmethod
    def parse(cls, text: str) -> Attack:
        """Parse a name with an optional number: "sign-flip:5".

        Raises:
            ValueError: there is none.
        """
        match = _FORM.fullmatch(text)
        name = match[1] if match else ""
        if match is None or name not in DEFAULTS:
            raise ValueError(f"no attack {text!r}; there are {', '.join(DEFAULTS)}")
        if match[2] is not None and name not in NUMBERED:
            raise ValueError(f"the attack {name} takes no number")
        return cls(name, DEFAULTS[name] if match[2] is None else float(match[2]))

    @property
    def has_backdoor(self) -> bool:
        """Whether it trains models to react to a pattern."""
        return self.name in {"backdoor", "replacement"}


def check_attack(text: str) -> str:
    """Check the text of an attack, which is empty for none.

    Raises:
        ValueError: there is no such attack.
    """
    if text:
        Attack.parse(text)
    return text


Side = Literal["train", "test"]


@runtime_checkable
class Changeable(Protocol):
    """A trainer whose rows can be changed."""

    def change_rows(self, change: Callable[[Labelled], Labelled], side: Side = "train") -> None:
        """Replace the own training or test rows by what `change` returns for them."""
        ...


def poisoned(attack: Attack, rows: Labelled, classes: int, chance: np.random.Generator) -> Labelled:
    """Poison the training rows of a hostile node; unchanged if the attack is not on data.

    Args:
        rows: images (n, height, width[, channels]), or other rows (n, columns).
    """
    if attack.name == "label-flip":
        return Labelled(rows.x, chance.integers(0, classes, len(rows)).astype(rows.y.dtype))
    if attack.has_backdoor:
        target = np.full_like(rows.y, TARGET)
        return Labelled(np.concatenate([rows.x, stamped(rows.x)]), np.concatenate([rows.y, target]))
    return rows


def stamped(x: Array) -> Array:
    """Put the bright pattern on rows: in the first corner of images, or in the first columns of other rows."""
    result = x.copy()
    if result.ndim > 2:
        result[:, :CORNER, :CORNER] = x.max()
    else:
        result[:, : CORNER**2] = x.max()
    return result


def backdoor_success(predict: Callable[[Array], Array], rows: Rows) -> float | None:
    """The share of rows of other classes that a model takes for the target if they have the pattern.

    Args:
        predict: inputs (n, ...) -> scores (n, classes).

    Returns:
        None if there are no rows of other classes.
    """
    others = rows.inputs[rows.labels != TARGET]
    return float((predict(stamped(others)).argmax(1) == TARGET).mean()) if len(others) else None


def crafted(
    attack: Attack,
    base: Params,
    mine: PeerId,
    learnt: Mapping[PeerId, Params],
    schema: Schema,
    chance: np.random.Generator,
) -> Params:
    """The parameters that a hostile node sends in place of its update; those that are not averaged stay.

    Args:
        base: what its round began with.
        learnt: the updates of all nodes of the round, its own among them.
    """
    changed = {}
    for name, spec in schema.specs.items():
        stays = spec.is_buffer and attack.name == "weight-flip"
        if spec.merge == "mean" and np.dtype(spec.dtype).kind == "f" and not stays:
            own = learnt[mine][name]
            arrays = [params[name] for params in learnt.values()]
            array = _crafted_array(attack, base[name].astype(np.float64), own.astype(np.float64), arrays, chance)
            changed[name] = array.astype(own.dtype)
    return learnt[mine].merged_with(changed)


def _crafted_array(
    attack: Attack, base: Array, own: Array, learnt: Sequence[Array], chance: np.random.Generator
) -> Array:
    factor = attack.number or 0.0
    moved: Array = own - base
    match attack.name:
        case "sign-flip" | "weight-flip" | "two-faced":
            return base - factor * moved
        case "replacement":
            return base + (attack.number or len(learnt)) * moved
        case "noise":
            rms = np.sqrt(np.mean(moved**2))
            return np.asarray(base + factor * rms * chance.standard_normal(moved.shape))
        case "free-rider":
            return base
        case "colluders":
            spread = np.std(learnt, axis=0, dtype=np.float64)
            return np.asarray(np.mean(learnt, axis=0, dtype=np.float64) - factor * spread)
    return own
