"""What a job's view keeps from peers."""

from __future__ import annotations

from flnet.node.base import OWN_PEOPLE_ONLY
from flnet.node.discretion import for_peers


def test_what_is_for_the_people_of_this_node_is_left_out() -> None:
    view = {"trainer_id": "T", "digest": None, **dict.fromkeys(OWN_PEOPLE_ONLY, 1)}
    assert for_peers(view) == {"trainer_id": "T", "digest": None}
    assert "counts_little" in OWN_PEOPLE_ONLY
