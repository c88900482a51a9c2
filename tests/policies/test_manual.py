"""The manual policy never starts a round."""

from __future__ import annotations

import random

from flnet.policies.manual import manual


def test_it_never_starts_a_round() -> None:
    for snapshot in ({}, {"current_round": 3, "phase": "IDLE"}, {"rounds_left": 5}):
        assert manual(snapshot, random.Random(0)) is False
