"""What people read of how an update counted."""

from __future__ import annotations

import pytest

from flnet.params import PeerId
from flnet.weighing import Weighed, shares


def test_only_what_is_known_is_shown() -> None:
    assert Weighed().view() == {}
    assert Weighed(0.0, norm=250.0, reason="it moved too far").view() == {
        "weight": 0.0,
        "norm": 250.0,
        "reason": "it moved too far",
    }


def test_shares_sum_to_one_and_are_alike_if_all_weigh_nothing() -> None:
    a, b = PeerId("a"), PeerId("b")
    assert shares({a: 1.0, b: 3.0}) == {a: 0.25, b: 0.75}
    assert shares({a: 0.0, b: 0.0}) == {a: 0.5, b: 0.5}
    assert shares({}) == pytest.approx({})
