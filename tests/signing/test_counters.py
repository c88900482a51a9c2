from hypothesis import given
from hypothesis import strategies as st

from flnet.signing.counters import MOST_SENDERS, WINDOW, Counters


def test_a_number_is_taken_once() -> None:
    counters = Counters()

    assert counters.take("k", "r", 5)
    assert not counters.take("k", "r", 5)


def test_requests_may_overtake_each_other_within_the_window() -> None:
    counters = Counters()

    assert counters.take("k", "r", WINDOW)
    assert counters.take("k", "r", 1)
    assert not counters.take("k", "r", 1)
    assert not counters.take("k", "r", 0)  # too far back to know
    assert counters.take("k", "r", 10 * WINDOW)
    assert not counters.take("k", "r", WINDOW)


def test_senders_and_their_runs_count_apart() -> None:
    counters = Counters()

    assert counters.take("k", "r", 1)
    assert counters.take("l", "r", 1)
    assert counters.take("k", "s", 1)


def test_many_senders_fill_it() -> None:
    counters = Counters()
    for number in range(MOST_SENDERS):
        assert not counters.full
        counters.take("k", str(number), 1)

    assert counters.full


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
def test_no_number_is_taken_twice_and_none_near_the_highest_is_lost(numbers: list[int]) -> None:
    counters, seen, highest = Counters(), set[int](), -1
    for number in numbers:
        taken = counters.take("k", "r", number)
        assert taken == (number not in seen and number > highest - WINDOW)
        seen |= {number} if taken else set()
        highest = max(highest, number)
