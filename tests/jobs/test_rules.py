"""What nodes say of the rules of their rounds."""

from __future__ import annotations

from flnet.jobs import Rules
from flnet.policies import Participation


def test_nothing_is_said_where_all_is_as_usual() -> None:
    assert Rules().said() == {}


def test_rules_of_common_rounds() -> None:
    rules = Rules(Participation(0.5, 2), 3, {"largest update": "any"})
    words = {"participation": "0.5 of the nodes, at least 2", "late updates": "up to 3 rounds"}
    assert rules.said() == {**words, "largest update": "any"}


def test_without_common_rounds_only_what_concerns_merging_has_to_be_alike() -> None:
    rules = Rules(Participation(0.5, 2), 3, {"largest update": "any"}, asynchronous=True)
    assert rules.said() == {"rounds": "of each node by itself (asynchronous)", "largest update": "any"}
