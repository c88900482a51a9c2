"""Differential privacy of what leaves a node: the setting, the clipping, and noise without the faults of floats.

An update is moved from the base to at most the norm `clip`, and every number of it gets noise of `noise multiplier x
clip` (McMahan et al., "Learning Differentially Private Recurrent Language Models", 2018, with the noise at the
sender). Noise that is drawn and added in floating point can be told apart by its low bits (Mironov, "On Significance
of the Least Significant Bits for Differential Privacy", 2012). So the clipped change is a vector of whole numbers on
a grid, and the noise is the discrete Gaussian (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
Privacy", 2020, algorithms 1 to 3), which satisfies the bounds of the continuous one in Rényi divergence. What is
done in floating point afterwards processes a result that is private already.

All functions are pure: they take the source of random words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flnet.params.params import Array, Params
from flnet.text import text

RandomWords = Callable[[int], NDArray[np.uint64]]  # so many independent, uniform words of 64 bits
Whole = NDArray[np.int64]
Level = Literal["node", "rows"]

GRID = 1 << 22  # units of the grid in one standard deviation of a node's noise
MOST_SIGMA = 1 << 24  # units; beyond it the products of the sampler do not fit 64 bits
MOST_EPSILON = 1000.0  # above it nothing is protected, and the noise is below the grid
_CHUNK = 1 << 18  # numbers drawn at once, so that all steps stay in a processor's cache
_NUMBER = r"[-+]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][-+]?[0-9]+)?"
_FORM = re.compile(rf"(node|rows):({_NUMBER}):({_NUMBER})(?::({_NUMBER}))?")
_EXPECTED = (
    "expected none, node:epsilon:delta or rows:epsilon:delta, with :clip at the end or not, as in node:3:1e-5:1"
)


@dataclass(frozen=True)
class Privacy:
    """What a node promises of all that it sends of its training.

    Attributes:
        level: whose part in the data is hidden: all rows of the node together, or each row.
        epsilon, delta: of the promise; epsilon in (0, 1000], delta in (0, 1).
        clip: L2 norm to which the change of an update, or the gradient of a row, is shortened.
    """

    level: Level
    epsilon: float
    delta: float
    clip: float = 1.0


def parse_privacy(notation: str) -> Privacy | None:
    """Parse the notation of FLNET_PRIVACY; None for "none".

    Raises:
        ValueError: says what was expected and what came.
    """
    notation = notation.strip()
    if notation == "none":
        return None
    found = _FORM.fullmatch(notation)
    if found is None:
        raise ValueError(f"{_EXPECTED}; got {notation!r}")
    level, *numbers = found.groups()
    epsilon, delta, clip = (float(number or 1) for number in numbers)
    if not 0 < epsilon <= MOST_EPSILON:
        raise ValueError(f"expected an epsilon above 0 and at most {MOST_EPSILON:g}, got {numbers[0]}")
    if not 0 < delta < 1:
        raise ValueError(f"expected a delta above 0 and below 1, got {numbers[1]}")
    if not (clip > 0 and math.isfinite(clip)):
        raise ValueError(f"expected a clip above 0, got {numbers[2]}")
    return Privacy("node" if level == "node" else "rows", epsilon, delta, clip)


def check_privacy(notation: str) -> str:
    """Check the notation of FLNET_PRIVACY, and strip it.

    Raises:
        ValueError: it is none.
    """
    parse_privacy(notation)
    return notation.strip()


def words_of(generator: np.random.Generator) -> RandomWords:
    """Words that can be drawn again with the same seed; for experiments, as whoever knows the seed can take noise off."""
    return lambda count: generator.integers(0, 1 << 64, count, np.uint64)


def row_schedule(rows: int, batch: int, epochs: int) -> tuple[float, int]:
    """The part of the rows that is drawn in a step of DP-SGD, and the number of steps of a training.

    Raises:
        ValueError: one of them is below 1.
    """
    if min(rows, batch, epochs) < 1:
        raise ValueError(
            text(
                "expected at least one row, a batch of one and one epoch, got {rows}, {batch}, {epochs}",
                rows,
                batch,
                epochs,
            )
        )
    return min(1.0, batch / rows), epochs * math.ceil(rows / batch)


def released(
    base: Mapping[str, Array], trained: Params, clip: float, multiplier: float, words: RandomWords
) -> Params:
    """What may leave a node of a training: the base, plus the clipped change with noise.

    All float arrays are one vector, those that training sets without gradients included. Whole numbers and
    booleans are those of the base.

    Args:
        base: what training began with, which all nodes know; the names, shapes and dtypes of `trained`.
        clip: greatest L2 norm of the change.
        multiplier: standard deviation of the noise, as a multiple of the clip.

    Raises:
        ValueError: clip or multiplier is not above 0, or the change is not finite.
    """
    if not (clip > 0 and multiplier > 0 and math.isfinite(clip * multiplier)):
        raise ValueError(f"expected a clip and a noise multiplier above 0, got {clip} and {multiplier}")
    names = [name for name in sorted(trained) if trained[name].dtype.kind == "f"]
    unit = clip * multiplier / GRID
    moves = [np.ravel(np.subtract(trained[name], base[name], dtype=np.float64)) for name in names]
    change = np.concatenate([np.empty(0), *moves])
    noised = on_grid(change, clip, unit) + discrete_gaussian(change.size, GRID, words)
    arrays, start = {name: base[name] for name in trained}, 0
    for name in names:
        array = trained[name]
        moved = noised[start : start + array.size].reshape(array.shape) * unit
        arrays[name], start = (base[name] + moved).astype(array.dtype), start + array.size
    return Params(arrays)


def on_grid(change: NDArray[np.float64], clip: float, unit: float) -> Whole:
    """A change in whole units of a grid, shortened to the clip; its exact L2 norm is at most clip / unit.

    Numbers are rounded towards zero, because rounding to the nearest can lengthen a vector.

    Args:
        change: (n,)
        unit: width of the grid, in the unit of the change.

    Raises:
        ValueError: the change is not finite.
    """
    norm = float(np.linalg.norm(change))
    if not math.isfinite(norm):
        raise ValueError(text("expected a finite change of the parameters, got one that is not"))
    factor, most = min(1.0, clip / norm if norm else 1.0) / unit, int((clip / unit) ** 2)
    while True:
        units = np.trunc(change * factor).astype(np.int64)
        if int(np.dot(units, units)) <= most:  # exact: the factor is rounded, this is not
            return units
        factor *= 1 - 1e-9


def share_of_noise(sigma: int, honest: int) -> int:
    """The noise of one node of a sum, in units, so that this many nodes add at least the variance sigma^2.

    It is the smallest whole number whose square is at least sigma^2 / honest. Nodes that add none, or tell others
    what they added, do not count. A sum of discrete Gaussians is not one itself, but for shares of 2 and more the
    difference is below what a float can show (Kairouz, Liu and Steinke, "The Distributed Discrete Gaussian
    Mechanism", 2021, theorem 1).

    Raises:
        ValueError: a number is below 1.
    """
    if sigma < 1 or honest < 1:
        raise ValueError(f"expected noise of one unit or more and one honest node or more, got {sigma}, {honest}")
    return math.isqrt((sigma * sigma - 1) // honest) + 1


def noised_share(units: Whole, sigma: int, honest: int, words: RandomWords) -> Whole:
    """One node's term of a secure sum, with its share of noise of the whole sum.

    Args:
        units: (n,), in whole units of the grid of the sum.
        sigma: of the noise of the sum, in units.
        honest: nodes of the sum that are trusted to add their noise.

    Raises:
        ValueError: see `share_of_noise` and `discrete_gaussian`.
    """
    return units + discrete_gaussian(units.size, share_of_noise(sigma, honest), words)


def discrete_gaussian(count: int, sigma: int, words: RandomWords) -> Whole:
    """Exact samples (count,) of the discrete Gaussian: P(x) is proportional to exp(-x^2 / (2 sigma^2)).

    Only whole numbers are computed with. A discrete Laplace variable y of scale sigma is kept with probability
    exp(-(|y| - sigma)^2 / (2 sigma^2)).

    Raises:
        ValueError: sigma is no whole number from 1 to 2^24.
    """
    if not 1 <= sigma <= MOST_SIGMA:
        raise ValueError(f"expected a standard deviation from 1 to {MOST_SIGMA} units, got {sigma}")
    parts, missing = [np.empty(0, np.int64)], count
    while missing > 0:
        drawn = _discrete_laplace(min(2 * missing + 16, _CHUNK), sigma, words)
        away = np.abs(drawn) - sigma
        kept = drawn[_decays_far(away * away, 2 * sigma * sigma, words)][:missing]
        parts.append(kept)
        missing -= kept.size
    return np.concatenate(parts)


def _discrete_laplace(count: int, scale: int, words: RandomWords) -> Whole:
    """At most `count` samples; P(x) is proportional to exp(-|x| / scale)."""
    low = _uniform(count, scale, words)
    low = low[_decays(low, scale, words)]
    high, going = np.zeros(low.size, np.int64), np.arange(low.size)
    while going.size:
        going = going[_decays(np.ones(going.size, np.int64), 1, words)]
        high[going] += 1
    size, is_negative = low + scale * high, _uniform(low.size, 2, words) == 1
    kept = ~is_negative | (size > 0)  # without -0, or 0 would come twice as often
    signed: Whole = np.where(is_negative, -size, size)[kept]
    return signed


def _decays_far(numerators: Whole, denominator: int, words: RandomWords) -> NDArray[np.bool_]:
    """Like `_decays`, also for fractions above 1."""
    whole, rest = np.divmod(numerators, denominator)
    result = _decays(rest, denominator, words)
    going = np.flatnonzero(result & (whole > 0))
    while going.size:
        is_true = _decays(np.ones(going.size, np.int64), 1, words)
        result[going[~is_true]] = False
        going = going[is_true]
        whole[going] -= 1
        going = going[whole[going] > 0]
    return result


def _decays(numerators: Whole, denominator: int, words: RandomWords) -> NDArray[np.bool_]:
    """True with probability exp(-numerator / denominator) each, for fractions in [0, 1]; exact (von Neumann)."""
    result, going, k = np.empty(numerators.size, np.bool_), np.arange(numerators.size), 1
    while going.size:
        goes_on = _uniform(going.size, denominator * k, words) < numerators[going]
        result[going[~goes_on]] = k % 2 == 1
        going, k = going[goes_on], k + 1
    return result


def _uniform(count: int, bound: int, words: RandomWords) -> Whole:
    """Whole numbers (count,) from 0 to bound - 1, each equally likely; bound is at most 2^63."""
    drawn, beyond = words(count), (1 << 64) - (1 << 64) % bound
    if beyond < 1 << 64:  # what lies beyond the last multiple would make small numbers likelier
        while (again := np.flatnonzero(drawn >= np.uint64(beyond))).size:
            drawn[again] = words(again.size)
    return (drawn % np.uint64(bound)).astype(np.int64)
