"""Part of the mesh: how many train, and that all nodes choose the same ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.messages import ChoiceMessage
from flnet.params import PeerId
from flnet.policies import Participation, chosen

EIGHT = tuple(PeerId(f"n{i}") for i in range(8))
NAMES = st.lists(st.text("abcdefgh-_.", min_size=1, max_size=8), min_size=1, max_size=20, unique=True)


@pytest.mark.parametrize(
    ("fraction", "least", "members", "take"),
    [
        (0.5, 2, 8, 4),
        (0.5, 2, 5, 3),  # a fraction that is not whole is rounded up
        (0.7, 1, 10, 7),  # 0.7 x 10 is a little above 7 in floating point
        (0.1, 2, 8, 2),  # the minimum
        (0.1, 1, 8, 1),
        (0.01, 1, 3, 1),
    ],
)
def test_the_fraction_says_how_many_train(fraction: float, least: int, members: int, take: int) -> None:
    named = tuple(PeerId(f"n{i}") for i in range(members))
    assert Participation(fraction, least).choice_of(named) == ChoiceMessage(members=named, take=take)


@pytest.mark.parametrize(("fraction", "least", "members"), [(1.0, 2, 8), (0.5, 2, 2), (0.1, 9, 8), (0.9, 1, 3)])
def test_there_is_no_choice_where_all_train(fraction: float, least: int, members: int) -> None:
    assert Participation(fraction, least).choice_of(EIGHT[:members]) is None


def test_nodes_compare_what_they_were_told_unless_all_train() -> None:
    assert Participation().words == ""
    assert Participation(0.5, 3).words == "0.5 of the nodes, at least 3"


def test_the_choice_is_by_hash() -> None:
    def place(name: str) -> str:
        return hashlib.sha256(f"5:MNIST:7:{name}".encode()).hexdigest()

    assert chosen(ChoiceMessage(members=EIGHT, take=3), "MNIST", 7) == frozenset(sorted(EIGHT, key=place)[:3])


@given(NAMES, st.integers(1, 20), st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_the_order_of_members_changes_nothing(names: list[str], take: int, round: int, rng: Random) -> None:
    members = [PeerId(name) for name in names]
    found = chosen(ChoiceMessage(members=tuple(members), take=take), "MNIST", round)
    rng.shuffle(members)
    assert chosen(ChoiceMessage(members=tuple(members), take=take), "MNIST", round) == found
    assert len(found) == min(take, len(members)) and found <= set(members)


def test_all_nodes_have_their_turns() -> None:
    choice = ChoiceMessage(members=EIGHT, take=4)
    turns = Counter(peer for round in range(400) for peer in chosen(choice, "MNIST", round))
    assert sum(turns.values()) == 1600 and min(turns.values()) > 160
