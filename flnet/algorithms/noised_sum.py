"""A secure sum that hides each of its nodes: every node adds a share of the noise, and only the sum is opened.

P. Kairouz, Z. Liu, T. Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
Aggregation", ICML 2021. Each node shortens its change to the norm C, on a grid of whole units, and adds discrete
Gaussian noise in the same units before its numbers are masked (`flnet.security.masking`). The noise of the honest nodes
adds up to at least that of the Gaussian mechanism, with the standard deviation z C. So each node adds only a part of the
noise that its update would need alone.

What is opened is the sum modulo 2^bits. It follows from the exact sum, so the promise holds for every noise; that the sum
fits, with 12 standard deviations to spare, is only needed for the mean to be right. Noise is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.differential_privacy import GRID, RandomWords, noised_share, on_grid, share_of_noise
from flnet.algorithms.secure_sum import (
    Bits,
    EncodedUpdate,
    FixedPoint,
    ImpossibleSumError,
    Mean,
    Numbers,
    beyond,
    blocks_of,
    check_bound,
    check_norm,
    check_sum,
    impossible,
)
from flnet.params.arithmetic import Total, longest, weight_names
from flnet.params.params import Array, Schema
from flnet.text import Text, text

# Standard deviations of the noise that fit beside the changes: one is beyond with a chance below 2^-100.
SPARE = 12
# Units; a sum of such shares is as good as one discrete Gaussian (theorem 1: the difference is below 1e-60).
LEAST_SHARE = 4
_ROOM = 2**31 - 2**16  # for numbers of 64 bits, too; the rest is for what is rounded up


def honest_of(members: int, threshold: int) -> int:
    """How many contributors add noise that whoever reads the sum does not know.

    At least `threshold` members contribute. As many as may vanish, members - threshold, may work together: they add no
    noise, or subtract their own. Whoever reads the sum is a member and knows its own noise, so one is left out in any
    case. The node that is to be hidden is one of those that are left.
    """
    return max(1, threshold - max(1, members - threshold))


@dataclass(frozen=True)
class SumNoise:
    """What all nodes of a sum do alike to hide each of them.

    Attributes:
        clip: L2 norm to which the change of each node is shortened.
        multiplier: standard deviation of the noise of the whole sum, as a multiple of the clip.
    """

    clip: float
    multiplier: float


@dataclass(frozen=True)
class SumGrid:
    """The grid of a sum, and its noise in units of the grid. All is a function of what the members know alike.

    Attributes:
        longest: whole units in the clip, a power of 2; so the width of the grid, clip / longest, is exact.
        sigma: standard deviation of the noise of the sum, in units.
        share: that of the noise of each node, in units.
        honest: how many shares give at least the noise of the sum.
    """

    longest: int
    sigma: int
    share: int
    honest: int

    @classmethod
    def of(cls, multiplier: float, members: int, threshold: int) -> SumGrid:
        """The finest grid on which the sum fits, and not finer than the noise can be drawn.

        The sum of the members is at most members * longest + 12 sqrt(members) * share in absolute value, except with the
        chance that noise is beyond 12 standard deviations. This is below 2^31: longest is at most `_ROOM` over members +
        12 z sqrt(members / honest), sigma is less than 1 above z * longest, share is less than 1 above
        sigma / sqrt(honest), and 12 sqrt(members) * 2 is below 2^16 for 2^16 members.

        Args:
            multiplier: of the noise, z.

        Raises:
            ValueError: noise of this size does not fit beside the changes of so many nodes.
        """
        honest = honest_of(members, threshold)
        beside = members + SPARE * multiplier * math.sqrt(members / honest)
        fits = min(_ROOM / beside, GRID * math.sqrt(honest) / multiplier)
        units = 1 << int(fits).bit_length() - 1 if fits >= 1 else 0
        sigma = math.ceil(Fraction(multiplier) * units)
        share = share_of_noise(sigma, honest) if units else 0
        if share < LEAST_SHARE:
            raise ValueError(
                text(
                    "noise of {multiplier} times the clip and the updates of {count} nodes do not fit into one sum",
                    f"{multiplier:.4g}",
                    members,
                )
            )
        return cls(units, sigma, share, honest)

    def farthest(self, contributors: int) -> int:
        """The largest absolute value, in units, that a number of a sum has."""
        return contributors * self.longest + math.ceil(SPARE * math.sqrt(contributors) * self.share)

    def farthest_norm(self, contributors: int, numbers: int) -> float:
        """The largest L2 norm, in units, that a sum of vectors of so many numbers has.

        Gaussian noise of n numbers is longer than its standard deviation times sqrt(n) + t with a chance below
        exp(-t^2 / 2).
        """
        return contributors * self.longest + math.sqrt(contributors) * self.share * (math.sqrt(numbers) + SPARE)


class NoisedMeanEncoder:
    """The mean of models by agg0 as a sum with noise.

    The first number of the vector is 1, the weight of each node. Then come all arrays in sorted order of their names: of
    floats, the change in units of the grid, with the node's share of the noise; of whole numbers and booleans, zeros. The
    mean is base + clip / longest / (count of nodes) * (sum of the arrays).
    """

    def __init__(
        self,
        schema: Schema,
        base: Mapping[str, Array],
        members: int,
        threshold: int,
        noise: SumNoise,
        words: RandomWords,
        *,
        bits: Bits = 32,
    ) -> None:
        """Lay out the vector.

        Args:
            schema: of the model.
            base: from which changes are counted; finite, equal on all nodes.
            members: of the group.
            threshold: how few of them a sum may have.
            words: of which the own noise is made.
            bits: of each number.

        Raises:
            ValueError: an argument is out of range, or the noise does not fit (`SumGrid.of`).
        """
        check_bound(noise.clip)
        self.fixed, self.noise = FixedPoint(bits, members), noise
        self.grid = SumGrid.of(noise.multiplier, members, threshold)
        self.width = noise.clip / self.grid.longest
        self.size = 1 + schema.numbers
        self._schema, self._base, self._words = schema, base, words
        self._names = sorted(schema.specs)

    def encode(self, update: Mapping[str, Array], examples: int = 0, labels: int = 1) -> EncodedUpdate:
        """What a node adds, with new noise each time: it must be masked once only.

        Args:
            update: its arrays after training, in the schema's form.
            examples, labels: not looked at: all nodes weigh the same.

        Raises:
            ValueError: the change is not finite.
        """
        floats = [(name, place) for name, place in self._places() if self._is_noised(name)]
        moves = [np.ravel(np.subtract(update[name], self._base[name], dtype=np.float64)) for name, _ in floats]
        units = on_grid(np.concatenate([np.empty(0), *moves]), self.noise.clip, self.width)
        noised = noised_share(units, self.grid.sigma, self.grid.honest, self._words)
        numbers, start = np.zeros(self.size, self.fixed.dtype), 0
        numbers[0] = 1
        for _, place in floats:
            end = start + place.stop - place.start
            numbers[place], start = noised[start:end].astype(self.fixed.signed).view(self.fixed.dtype), end
        return EncodedUpdate(numbers, 0, 1, weight_cut=False)

    def decode(self, total: Numbers, contributors: int, most_norm: float = math.inf) -> Mean:
        """The mean, from the sum of the vectors without masks.

        Args:
            contributors: how many nodes are in the sum.
            most_norm: of the mean change.

        Raises:
            ImpossibleSumError: the weights are not one for each node, whole numbers changed, the changes are beyond what
                so many nodes and their noise make, or the mean change is longer than `most_norm`.
            ValueError: it is no sum of such vectors.
        """
        check_sum(total, self.size, self.fixed, contributors)
        sums = total.view(self.fixed.signed)
        if int(sums[0]) != contributors:
            raise ImpossibleSumError(impossible("weights"))
        noised = [name for name in self._names if self._is_noised(name)]
        moved, all_moved = Total(longest(self._schema)), Total(longest(self._schema, noised))
        arrays = {}
        for name, place in self._places():
            most = self.grid.farthest(contributors) if self._is_noised(name) else 0
            if beyond(sums[place], most):
                raise ImpossibleSumError(impossible(name))
            arrays[name] = self._mean(name, sums[place], contributors, moved, all_moved)
        count = sum(place.stop - place.start for name, place in self._places() if self._is_noised(name))
        farthest = self.grid.farthest_norm(contributors, count) * self.width / contributors
        if not math.sqrt(all_moved.value) <= farthest * (1 + 1e-9):
            raise ImpossibleSumError(impossible(", ".join(noised)))
        norm = check_norm(moved, most_norm, self.width * math.sqrt(self.size))
        params = self._schema.conform({name: arrays[name] for name in self._schema.specs})
        return Mean(params, contributors, norm, self.width)

    @property
    def words(self) -> Text:
        """The noise of the sum, for people."""
        return text(
            "noise of the sum: {multiplier} times the clip of {clip}, if at least {honest} of {count} nodes are honest",
            f"{self.noise.multiplier:.4g}",
            f"{self.noise.clip:g}",
            self.grid.honest,
            self.fixed.nodes,
        )

    def _mean(
        self, name: str, sums: NDArray[np.signedinteger], contributors: int, moved: Total, all_moved: Total
    ) -> Array:
        spec, base = self._schema.specs[name], self._base[name]
        if not self._is_noised(name):
            return base
        mean, flat = np.empty(sums.size, spec.dtype), np.ravel(base)
        most = float(np.finfo(mean.dtype).max)
        is_weight = name in weight_names(self._schema)
        for block in blocks_of(sums.size):
            change = np.multiply(sums[block], self.width / contributors, dtype=np.float64)
            squares = np.multiply(change, change)
            all_moved.add(squares)
            if is_weight:
                moved.add(squares)
            np.add(change, flat[block], out=change)
            mean[block] = np.clip(change, -most, most, out=change)
        return mean.reshape(spec.shape)

    def _is_noised(self, name: str) -> bool:
        return np.dtype(self._schema.specs[name].dtype).kind == "f"

    def _places(self) -> Iterator[tuple[str, slice]]:
        """The arrays in order, and where in the vector each is."""
        start = 1
        for name in self._names:
            yield name, slice(start, start := start + math.prod(self._schema.specs[name].shape))
