"""How long a suspect has to show that it is there, and how often news is passed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.pace import MAX_DOUBT, Doubt, Pauses, repeats, suspicion_ticks


# ceil(3 max(1, log10 size)) is the shortest, six times that the longest; between them by log accusers / log 3.
@pytest.mark.parametrize(
    ("size", "ticks"),
    [
        (2, [3, 3, 3, 3]),  # nobody else could accuse
        (3, [18, 3, 3, 3]),  # one other could
        (5, [18, 8, 3, 3]),  # 18 - 15 log 2 / log 3 = 8.54
        (10, [18, 8, 3, 3]),
        (20, [24, 11, 4, 4]),  # 3 log10 20 = 3.90; 24 - 20 log 2 / log 3 = 11.38
        (50, [36, 17, 6, 6]),  # 3 log10 50 = 5.10; 36 - 30 log 2 / log 3 = 17.07
    ],
)
def test_how_long_a_suspect_has(size: int, ticks: list[int]) -> None:
    assert [suspicion_ticks(Pauses(), size, accusers) for accusers in (1, 2, 3, 4)] == ticks


@given(st.integers(1, 257), st.integers(1, 10), st.integers(1, 9), st.integers(1, 9))
def test_more_accusers_never_lengthen_it(size: int, accusers: int, suspicion: int, patience: int) -> None:
    pauses = Pauses(suspicion=suspicion, patience=patience)
    ticks = suspicion_ticks(pauses, size, accusers)
    assert suspicion_ticks(pauses, size, accusers + 1) <= ticks
    assert suspicion <= suspicion_ticks(pauses, size, 10) <= ticks <= patience * suspicion_ticks(pauses, size, 10)


@given(st.integers(4, 256), st.integers(1, 5))
def test_a_larger_mesh_never_shortens_it(size: int, accusers: int) -> None:
    assert suspicion_ticks(Pauses(), size, accusers) <= suspicion_ticks(Pauses(), size + 1, accusers)


@pytest.mark.parametrize(("size", "times"), [(1, 4), (2, 4), (9, 4), (10, 8), (99, 8), (100, 12), (257, 12)])
def test_how_often_news_is_passed_on(size: int, times: int) -> None:
    assert repeats(size) == times


@given(st.lists(st.booleans(), max_size=40))
def test_doubt_has_bounds(signs: list[bool]) -> None:
    doubt = Doubt()
    for worse in signs:
        before = doubt.level
        doubt.more() if worse else doubt.less()
        assert doubt.level == (min(before + 1, MAX_DOUBT - 1) if worse else max(before - 1, 0))
        assert 1 <= doubt.factor <= MAX_DOUBT
