"""Krum and Multi-Krum on updates on a line."""

from __future__ import annotations

from flnet.strategies import krum, multi_krum
from tests.strategies.robust import w

LINE = [[0.0], [1.0], [3.0], [4.0], [50.0]]


def test_krum_takes_the_update_nearest_to_the_others() -> None:
    assert w(krum(1), LINE) == [1]


def test_multi_krum_takes_the_mean_of_those_nearest() -> None:
    assert w(multi_krum(1), LINE) == [2]  # all but one
    assert w(multi_krum(1, kept=3), LINE) == [4 / 3]  # 1, 3 and 0
    assert w(multi_krum(1, kept=1), LINE) == w(krum(1), LINE)


def test_of_two_updates_none_is_nearer() -> None:
    assert w(krum(1), LINE[:2]) == w(multi_krum(1), LINE[:2]) == [0.5]


def test_more_liars_than_updates_leave_one() -> None:
    assert w(multi_krum(9), LINE) == w(krum(9), LINE) == [0]  # nearest to one other: 0, before 1, 3 and 4


def test_names_say_what_nodes_have_to_agree_on() -> None:
    assert [krum(2).name, multi_krum(2).name, multi_krum(2, 3).name] == [
        "krum:2",
        "multi-krum:2",
        "multi-krum:2:3",
    ]
