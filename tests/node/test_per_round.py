"""Counters of rounds: made when they are needed, and bounded for each job."""

from __future__ import annotations

from flnet.node.per_round import PerRound
from flnet.params import TrainerId
from tests.helpers import key

T, U = TrainerId("T"), TrainerId("U")


def test_a_round_has_one_counter_and_jobs_are_kept_apart() -> None:
    counters = PerRound[list[int]](list)
    counters.of(T, key(0)).append(1)
    counters.of(T, key(0)).append(2)
    assert counters.of(T, key(0)) == [1, 2]
    assert counters.find(U, key(0)) is None
    assert counters.find(T, key(1)) is None  # asking makes none
    assert counters.of(U, key(0)) == []


def test_a_job_with_many_rounds_takes_nothing_from_another() -> None:
    counters = PerRound[list[int]](list, most=3)
    counters.of(U, key(0)).append(7)
    for number in range(10):
        counters.of(T, key(number)).append(number)
    assert [counters.find(T, key(number)) for number in range(5, 10)] == [None, None, [7], [8], [9]]
    assert counters.find(U, key(0)) == [7]
