"""The words of a topology: those that people read and set, and those that nodes compare."""

from __future__ import annotations

import pytest

from flnet.algorithms.topology import Topology


@pytest.mark.parametrize(
    ("setting", "stated"),
    [
        ("mesh", ""),
        ("segments", "segments:1"),  # nodes of earlier versions compare it so
        ("segments:3", "segments:3"),
        ("random:2", "random:2"),
        ("ring", "ring"),
    ],
)
def test_people_read_the_setting_and_nodes_compare_what_they_always_did(setting: str, stated: str) -> None:
    topology = Topology.read(setting)
    assert (topology.setting, topology.words) == (setting, stated)
    assert Topology.read(topology.setting) == topology


def test_one_owner_for_each_segment_is_the_setting_without_a_number() -> None:
    assert Topology.read("segments:1").setting == "segments"
