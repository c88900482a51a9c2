"""When a version of a peer is newer than what is known of it."""

from __future__ import annotations

import pytest

from flnet.events import Mark
from flnet.params import Digest

OLD = Mark("run 1", 7, Digest("a" * 64))
OTHER = Digest("b" * 64)


@pytest.mark.parametrize(
    ("mark", "newer"),
    [
        (Mark("run 1", 8, OTHER), True),
        (Mark("run 1", 6, OTHER), False),  # it was long on its way
        (Mark("run 1", 7, OTHER), False),
        (Mark("run 2", 7, OLD.digest), False),  # it was started again, and holds the same model
        (Mark("run 2", 8, OTHER), True),
        (Mark("run 2", 1, OTHER), True),  # it lost its disk: no old version is meant by the low number
        (Mark("run 2", 0, OTHER), False),  # and has not trained since
    ],
)
def test_a_version_is_known_by_run_number_and_digest(mark: Mark, newer: bool) -> None:
    assert mark.is_newer_than(OLD) is newer


def test_of_a_peer_of_which_nothing_is_known_every_trained_version_is_new() -> None:
    assert OLD.is_newer_than(None)
    assert not Mark("run 1", 0, OTHER).is_newer_than(None)
