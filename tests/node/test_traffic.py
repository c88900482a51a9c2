"""Bytes that rounds moved."""

from __future__ import annotations

from flnet.node.traffic import Traffic
from flnet.params import TrainerId
from tests.helpers import key

T, U = TrainerId("T"), TrainerId("U")


def test_what_goes_out_and_comes_in_is_added_up_by_job_and_round() -> None:
    traffic = Traffic()
    for nbytes in (10, 20):
        traffic.sent(T, key(0), nbytes)
        traffic.received(T, key(1), nbytes + 1)
    traffic.received(U, key(0), 5)
    assert traffic.view(T, key(0)) == {"sent": 30, "received": 0}
    assert traffic.view(T, key(1)) == {"sent": 0, "received": 32}
    assert traffic.view(U, key(0)) == {"sent": 0, "received": 5}
    assert traffic.view(U, key(9)) == {"sent": 0, "received": 0}


def test_rounds_that_strangers_name_fill_no_memory() -> None:
    traffic = Traffic(most=3)
    for number in range(10):
        traffic.received(T, key(number), 1)
    assert [traffic.view(T, key(number))["received"] for number in range(10)] == [0] * 7 + [1] * 3
