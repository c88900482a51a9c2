"""What a job's view keeps from peers."""

from __future__ import annotations

from flnet.node.base import OWN_PEOPLE_ONLY, View


def for_peers(view: View) -> View:
    """A job as peers may see it: without what is long, and without what tells of single classes of our data."""
    return {key: value for key, value in view.items() if key not in OWN_PEOPLE_ONLY}
