"""Rounding an update, and giving back next time what it took away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.codec import lowered
from flnet.packing import MIN_NUMBERS, Encoding, packed
from flnet.params import Array, Params

N = MIN_NUMBERS
NARROW: list[Encoding] = ["float16", "int8"]
NONE = Params()


def w(*values: float, dtype: Any = np.float32) -> Params:
    """One array that is large enough: these numbers, then zeros."""
    return Params({"w": np.concatenate([np.asarray(values, dtype), np.zeros(N - len(values), dtype)])})


def first(params: Params, count: int = 2) -> list[float]:
    found: list[float] = params["w"][:count].tolist()
    return found


# --- by hand: max|x| = 63.5 makes the step of int8 63.5 / 127 = 0.5


def test_what_was_lost_is_sent_next_time() -> None:
    # 1.25 is 2.5 steps, rounded to 2 (even): 0.25 is lost. 1.25 + 0.25 is 3 steps, and nothing is lost.
    sent, lost = lowered(w(63.5, 1.25), None, "int8")
    assert first(sent) == [63.5, 1.0]
    assert first(lost) == [0.0, 0.25]
    sent, lost = lowered(w(63.5, 1.25), lost, "int8")
    assert first(sent) == [63.5, 1.5]
    assert first(lost) == [0.0, 0.0]


def test_float16_by_hand() -> None:
    # Between 2048 and 4096 float16 goes in steps of 2: of 2049.5 the nearest is 2050, and -0.5 is owed.
    sent, lost = lowered(w(2049.5, 0.5), None, "float16")
    assert first(sent) == [2050.0, 0.5]
    assert first(lost) == [-0.5, 0.0]
    sent, lost = lowered(w(2049.5, 0.5), lost, "float16")
    assert first(sent) == [2048.0, 0.5]
    assert first(lost) == [1.0, 0.0]


def test_a_small_constant_gain_arrives_only_with_what_was_lost() -> None:
    gain = w(63.5, 0.0625)  # an eighth of a step
    with_feedback = without = 0.0
    residual: Params | None = None
    for _ in range(48):
        sent, residual = lowered(gain, residual, "int8")
        with_feedback += first(sent)[1]
        without += first(lowered(gain, None, "int8")[0])[1]
    assert without == 0.0
    assert with_feedback == 48 * 0.0625


# --- over many rounds


@pytest.mark.parametrize("encoding", NARROW)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1e-6, 1e-2, 1.0, 1e3]), drift=st.floats(-1, 1))
@settings(max_examples=20, deadline=None)
def test_the_mean_of_what_was_sent_is_the_mean_of_the_truth(
    encoding: Encoding, seed: int, size: float, drift: float
) -> None:
    rng = np.random.default_rng(seed)
    rounds, residual = 50, None
    sent_sum, true_sum, step = np.zeros(N), np.zeros(N), 0.0
    for _ in range(rounds):
        truth = (size * (drift + 0.1 * rng.standard_normal(N))).astype(np.float32)
        sent, residual = lowered(Params({"w": truth}), residual, encoding)
        sent_sum += sent["w"]
        true_sum += truth
        largest = float(np.abs(sent["w"]).max())
        step = max(step, largest / 127 if encoding == "int8" else max(largest * 2.0**-10, 2.0**-24))
    # Telescoping: the sums differ by what is owed at the end, at most half a step, and float32's own rounding.
    assert np.abs(sent_sum - true_sum).max() <= 0.55 * step
    assert np.abs(sent_sum / rounds - true_sum / rounds).max() <= step / rounds
    assert residual is not None
    assert np.abs(true_sum - sent_sum - residual["w"]).max() <= 0.02 * step


@pytest.mark.parametrize("encoding", NARROW)
@given(
    seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from([np.float32, np.float64]), exponent=st.integers(-30, 30)
)
@settings(max_examples=40, deadline=None)
def test_rounding_again_changes_nothing(encoding: Encoding, seed: int, dtype: Any, exponent: int) -> None:
    array = (np.random.default_rng(seed).standard_normal((3, N)) * 2.0**exponent).astype(dtype)
    once, _ = lowered(Params({"w": array}), None, encoding)
    twice, lost = lowered(once, None, encoding)
    assert twice == once
    assert once["w"].dtype == dtype
    assert not any(array.any() for array in lost.values())


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sent_and_lost_are_the_whole(encoding: Encoding, dtype: Any) -> None:
    array = np.random.default_rng(0).standard_normal((N, 70)).astype(dtype)
    sent, lost = lowered(Params({"w": array}), None, encoding)
    assert (lost["w"].dtype, lost["w"].shape) == (array.dtype, array.shape)
    assert np.array_equal(sent["w"] + lost["w"], array)
    assert lost["w"].any()
    assert packed(sent["w"], encoding) is not None


# --- what is not rounded


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize(
    "array",
    [
        np.full(N - 1, 0.1, np.float32),
        np.full(N, 0.1, np.float16),
        np.full(N, 7, np.int64),
        np.full(N, True),
        np.array(0.1, np.float32),
        np.zeros((0, 5), np.float32),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_small_arrays_and_all_but_wide_floats_are_not_touched(encoding: Encoding, array: Array) -> None:
    owed = Params({"w": np.ones_like(array)})
    for residual in (None, owed):
        assert lowered(Params({"w": array}), residual, encoding) == (Params({"w": array}), NONE)


@pytest.mark.parametrize("encoding", NARROW)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_for_others_to_refuse(encoding: Encoding, wrong: float) -> None:
    for residual in (None, w(0.25)):
        assert lowered(w(1.3, wrong), residual, encoding) == (w(1.3, wrong), NONE)


@pytest.mark.parametrize("encoding", NARROW)
def test_zeros_stay_zeros(encoding: Encoding) -> None:
    assert lowered(w(), None, encoding) == (w(), w())


def test_what_is_beyond_float16_is_sent_whole_with_what_was_owed() -> None:
    assert lowered(w(70_000.0, 0.1), w(0.0, 0.25), "float16") == (
        w(70_000.0, 0.1 + 0.25),
        NONE,
    )


def test_a_debt_that_would_leave_the_range_of_floats_is_dropped() -> None:
    huge = w(3.4e38)
    assert lowered(huge, w(3.4e38), "int8") == (huge, NONE)


def test_denormals_stay_in_int8_and_are_owed_in_float16() -> None:
    tiny = w(1e-40, -1e-42)
    assert lowered(tiny, None, "int8") == (tiny, NONE)
    sent, lost = lowered(tiny, None, "float16")
    assert not sent["w"].any()
    assert lost == tiny


def test_float32_rounds_nothing_and_pays_what_is_owed() -> None:
    assert lowered(w(1.3, 0.5), None, "float32") == (w(1.3, 0.5), NONE)
    assert lowered(w(1.25, 0.5), w(0.25), "float32") == (w(1.5, 0.5), NONE)
    same = w(1.3)
    assert np.shares_memory(lowered(same, None, "float32")[0]["w"], same["w"])


# --- the debt of another model


@pytest.mark.parametrize(
    "residual",
    [
        Params({"v": np.ones(N, np.float32)}),
        Params({"w": np.ones(N + 1, np.float32)}),
        Params({"w": np.ones((1, N), np.float32)}),
        Params({"w": np.ones(1, np.float32)}),
        Params({"w": np.ones(N, np.float64)}),
        NONE,
    ],
    ids=repr,
)
def test_what_is_owed_to_another_model_is_forgotten(residual: Params) -> None:
    assert lowered(w(63.5, 1.3), residual, "int8") == lowered(w(63.5, 1.3), None, "int8")


@pytest.mark.parametrize("encoding", NARROW)
def test_neither_the_update_nor_the_debt_is_changed(encoding: Encoding) -> None:
    update, owed = w(63.5, 1.3), w(0.1, 0.2)
    before = update.digest, owed.digest
    lowered(update, owed, encoding)
    assert (Params(dict(update)).digest, Params(dict(owed)).digest) == before


def test_arrays_keep_their_order_and_each_has_its_own_step() -> None:
    update = Params({"z": w(63.5, 1.25)["w"], "a": w(127.0, 1.25)["w"], "b": np.ones(3, np.float32)})
    sent, lost = lowered(update, None, "int8")
    assert list(sent) == ["z", "a", "b"]
    assert (sent["z"][1], sent["a"][1]) == (1.0, 1.0)
    assert (lost["z"][1], lost["a"][1]) == (0.25, 0.25)
    assert lowered(update, Params({"a": lost["a"]}), "int8")[0]["a"][1] == 2.0
    assert list(lost) == ["z", "a"]
