"""Random rounds whose plain mean is known, for tests of secure sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import Weighting, fed_avg
from flnet.algorithms.secure_sum import Bits, Mean
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.protocol.updates import Update
from tests.helpers import key

_FLOATS = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Case:
    """One round.

    Attributes:
        members: all nodes, sorted.
        updates: of those whose vectors arrived.
    """

    schema: Schema
    base: Params
    weighting: Weighting
    bits: Bits
    members: Sequence[str]
    updates: Sequence[Update]

    @property
    def plain(self) -> Params:
        """What the aggregation rule makes of the same updates."""
        rule = fed_avg(self.weighting)
        return rule.merge(None, RoundStart(self.schema, self.base), self.updates).params

    @property
    def mean_of_whole(self) -> Mapping[str, Array]:
        """The rounded weighted mean of arrays of whole numbers, by numpy."""
        weights = [
            (update.examples or 0) * (update.labels if self.weighting == "agg2" else 1) for update in self.updates
        ]
        used = [float(weight > 0) for weight in weights] if self.weighting == "agg0" else weights
        return {
            name: np.rint(
                np.average([update.params[name].astype(float) for update in self.updates], axis=0, weights=used)
            )
            for name, spec in self.schema.specs.items()
            if np.dtype(spec.dtype).kind != "f"
        }


def case(seed: int, most: int = 12) -> Case:
    """A round of 2 to `most` nodes, of which up to a third are missing; at least one node has examples."""
    chance = np.random.default_rng([seed, *b"secure"])
    members = [f"node-{number:02d}" for number in range(int(chance.integers(2, most + 1)))]
    arrived = sorted(chance.permutation(members)[: len(members) - int(chance.integers(0, len(members) // 3 + 1))])
    scale = float(chance.choice([1e-3, 1.0, 30.0]))
    base = Params({f"layer-{number}": _array(chance, scale) for number in range(int(chance.integers(1, 4)))})
    if chance.random() < 0.5:
        base = base.merged_with({"batches": chance.integers(0, 1000, 3)})
    updates = [
        Update(
            PeerId(str(peer)), key(), _moved(base, chance, scale), _examples(chance), int(chance.integers(1, 11))
        )
        for peer in arrived
    ]
    if not any(update.examples for update in updates):
        updates[0] = Update(updates[0].peer, key(), updates[0].params, 7, 2)
    weighting: Weighting = ("agg0", "agg1", "agg2")[seed % 3]
    return Case(Schema.of(base), base, weighting, 64 if chance.random() < 0.3 else 32, members, updates)


def must_equal(case: Case, mean: Mean) -> None:
    """The mean is the plain one to the bound that it states, and to the rounding of each dtype."""
    plain = case.plain
    assert mean.params.keys() == plain.keys()
    assert Schema.of(mean.params) == case.schema
    for name, numbers in mean.params.items():
        if name == "batches":
            assert np.abs(numbers - case.mean_of_whole[name]).max() <= 1 + mean.error
            continue
        right = plain[name]
        spacing = np.spacing(np.maximum(np.abs(right), np.abs(numbers))).astype(np.float64)
        away = np.abs(numbers.astype(np.float64) - right.astype(np.float64))
        assert (away <= mean.error + spacing).all(), (name, float(away.max()), mean.error)


def _array(chance: np.random.Generator, scale: float) -> Array:
    shape = tuple(int(side) for side in chance.integers(0, 6, int(chance.integers(0, 4))))
    return np.asarray(chance.normal(0, scale, shape)).astype(str(chance.choice(_FLOATS)))


def _moved(base: Params, chance: np.random.Generator, scale: float) -> Params:
    """Parameters that moved by less than the bound of a secure sum."""
    moved = {}
    for name, array in base.items():
        if array.dtype.kind == "i":
            moved[name] = array + chance.integers(0, 90, array.shape)
            continue
        wide = array.astype(np.float64)
        most = 7.9 * np.abs(wide).max(initial=1.0)
        moved[name] = (wide + np.clip(chance.normal(0, scale, array.shape), -most, most)).astype(array.dtype)
    return Params(moved)


def _examples(chance: np.random.Generator) -> int:
    return 0 if chance.random() < 0.1 else int(chance.integers(1, 60_000))
