"""Sums with shared noise: the grid, what fits, what a node adds, and which sums are refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.aggregation.base import AggregationRule
from flnet.algorithms.differential_privacy import MOST_SIGMA, RandomWords
from flnet.algorithms.noised_sum import NoisedMeanEncoder, SumGrid, SumNoise, honest_of
from flnet.algorithms.registry import noised_encoder, parse_rule
from flnet.algorithms.secure_sum import Bits, ImpossibleSumError, Numbers, threshold
from flnet.params.params import Array, Params, Schema
from tests.algorithms.test_differential_privacy import seeded

NOISE = SumNoise(0.5, 2.0)
BASE = Params({"b": np.ones(7, np.float32), "n": np.array([3, 4]), "w": np.full((50, 40), -2.0, np.float32)})
SCHEMA = Schema.of(BASE)


def terms(
    members: int = 5,
    bits: Bits = 32,
    words: RandomWords | None = None,
    noise: SumNoise = NOISE,
    least: int | None = None,
) -> NoisedMeanEncoder:
    least = threshold(members) if least is None else least
    return NoisedMeanEncoder(SCHEMA, BASE, members, least, noise, words or seeded(), bits=bits)


def moved(by: float) -> dict[str, Array]:
    return {name: array + array.dtype.type(by) for name, array in BASE.items()}


def total(made: NoisedMeanEncoder, vectors: list[Numbers]) -> Numbers:
    summed = np.zeros(made.size, made.fixed.dtype)
    for vector in vectors:
        summed += vector
    return summed


# Who is honest, and what fits.


@pytest.mark.parametrize(
    ("members", "least", "honest"),
    [(2, 2, 1), (3, 2, 1), (3, 3, 2), (4, 3, 2), (5, 4, 3), (6, 4, 2), (10, 7, 4), (30, 20, 10), (5, 5, 4)],
)
def test_who_reads_the_sum_and_as_many_as_may_vanish_add_no_noise(members: int, least: int, honest: int) -> None:
    assert honest_of(members, least) == honest


@example(20.0, (65_336, 43_558))  # almost all of the room is for the changes
@given(
    st.floats(0.1, 1e4),
    st.integers(2, 2**16).flatmap(lambda n: st.tuples(st.just(n), st.integers(n // 2 + 1, n))),
)
def test_the_noise_of_the_honest_suffices_and_the_sum_of_all_fits(z: float, group: tuple[int, int]) -> None:
    members, least = group
    grid = SumGrid.of(z, members, least)
    assert grid.honest * grid.share**2 >= (Fraction(z) * grid.longest) ** 2
    assert grid.farthest(members) < 2**31
    assert grid.share <= MOST_SIGMA
    assert grid.longest & (grid.longest - 1) == 0
    finer = 4 * grid.longest  # a grid of a quarter of the width does not fit, or its noise cannot be drawn
    finer_share = math.ceil(math.ceil(Fraction(z) * finer) / math.sqrt(grid.honest))
    reach = members * finer + 12 * math.sqrt(members) * finer_share
    assert reach > 2**31 - 2**16 or finer_share > 2**22


def test_noise_that_fits_into_no_sum_is_refused_in_words() -> None:
    for z, members in ((1e9, 5), (1e-6, 60_000)):
        with pytest.raises(
            ValueError, match=r"noise of 1e.+ times the clip and the updates of \d+ nodes do not fit"
        ):
            SumGrid.of(z, members, threshold(members))


# What a node adds, and what the sum is.


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("inside", [4, 5])
def test_the_mean_is_that_of_the_shortened_changes_with_the_noise_of_all(bits: Bits, inside: int) -> None:
    vectors = [terms(bits=bits, words=seeded(node)).encode(moved(node)).numbers for node in range(inside)]
    made = terms(bits=bits)
    mean = made.decode(total(made, vectors), inside)
    assert mean.weight == inside
    assert (mean.params["n"] == BASE["n"]).all()
    changes = np.concatenate([(mean.params[name] - BASE[name]).ravel() for name in ("b", "w")])
    shortened = (inside - 1) * 0.5 / math.sqrt(2007) / inside  # node 0 stayed where it was
    deviation = made.grid.share * made.width / math.sqrt(inside)
    assert changes.mean() == pytest.approx(shortened, abs=4 * deviation / math.sqrt(2007))
    square = float(((changes - shortened) ** 2).sum()) / deviation**2
    assert abs(square - 2007) < 4 * math.sqrt(2 * 2007)  # chi-square of 2007 degrees: 4 standard deviations


def test_a_change_within_the_clip_is_added_as_it_is() -> None:
    made = terms()
    update = moved(0.0) | {"w": BASE["w"] + np.float32(0.005)}  # a norm of 0.22
    with_change, without = (
        terms(words=seeded(1)).encode(arrays).numbers.view(np.int32) for arrays in (update, moved(0.0))
    )
    added = (with_change - without) * made.width
    assert added[10:] == pytest.approx(np.ravel(update["w"] - BASE["w"]), abs=made.width)
    assert not added[1:10].any()


def test_noise_of_two_encodings_differs_also_with_the_same_update() -> None:
    made = terms()
    first, second = (made.encode(moved(1.0)).numbers for _ in range(2))
    assert (first[1:8] != second[1:8]).any()
    assert first[0] == second[0] == 1
    assert not first[8:10].any()  # whole numbers


def test_every_node_weighs_the_same_whatever_it_has() -> None:
    assert terms().encode(moved(0.0), examples=0).weight == terms().encode(moved(0.0), 999, 9).weight == 1


def test_a_change_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        terms().encode(moved(0.0) | {"b": np.full(7, np.nan, np.float32)})


def test_noise_beyond_the_range_wraps_and_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise holds for the sum modulo 2^32. A number that was cut would say that it was."""
    monkeypatch.setattr(
        "flnet.algorithms.noised_sum.noised_share", lambda units, *rest: units + 5 * 2**32 + np.arange(units.size)
    )
    assert terms().encode(moved(0.0)).numbers[[1, 7, 10]].tolist() == [0, 6, 7]


# Which sums are refused.


def noisy_sum(made: NoisedMeanEncoder, inside: int = 5) -> Numbers:
    return total(made, [terms(words=seeded(node)).encode(moved(1.0)).numbers for node in range(inside)])


@pytest.mark.parametrize("z", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("members", [2, 5, 40])
def test_honest_sums_are_never_refused_and_masks_that_stay_always(z: float, members: int) -> None:
    noise = SumNoise(3.0, z)
    made = terms(members, noise=noise)
    for seed in range(3):
        vectors = [
            terms(members, noise=noise, words=seeded(seed * 100 + node)).encode(moved(5.0)).numbers
            for node in range(members)
        ]
        summed = total(made, vectors)
        made.decode(summed, members)
        masked = summed + np.random.default_rng(seed).integers(0, 2**32, made.size, np.uint32)
        masked[0], masked[8:10] = members, 0  # the weights and the whole numbers would show it at once
        with pytest.raises(ImpossibleSumError, match="beyond what its nodes may send"):
            made.decode(masked, members)


@pytest.mark.parametrize(("at", "by", "name"), [(0, 1, "'weights'"), (9, 1, "'n'"), (3, 2**31 - 1, "'b'")])
def test_a_sum_that_honest_nodes_cannot_make_is_refused(at: int, by: int, name: str) -> None:
    made = terms()
    summed = noisy_sum(made)
    summed[at] += np.uint32(by)
    with pytest.raises(ImpossibleSumError, match=f"the sum of {name}.* is beyond what its nodes may send"):
        made.decode(summed, 5)


def test_many_numbers_that_are_each_too_far_by_little_are_refused() -> None:
    made = terms()
    summed = noisy_sum(made)
    summed[10:] += np.uint32(8 * made.grid.share)
    with pytest.raises(ImpossibleSumError, match="the sum of 'b, w' is beyond"):
        made.decode(summed, 5)


def test_a_mean_change_that_is_too_long_is_refused() -> None:
    made = terms()
    with pytest.raises(ImpossibleSumError, match=r"at most 0\.001 is accepted"):
        made.decode(noisy_sum(made), 5, 0.001)


@pytest.mark.parametrize("name", ["secure", "secure,agg2", "secure,k-means"])
def test_noise_is_for_sums_in_which_all_weigh_the_same(name: str) -> None:
    def made(rule: AggregationRule) -> NoisedMeanEncoder:
        return noised_encoder(rule, SCHEMA, BASE, 5, 4, NOISE, seeded())

    assert made(parse_rule("secure:0.2:64,agg0")).fixed.bits == 64
    with pytest.raises(ValueError, match="secure,agg0 only"):
        made(parse_rule(name))
