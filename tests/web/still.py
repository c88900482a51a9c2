"""A node's app for whose gate no time passes, so that no test depends on how fast it runs."""

from __future__ import annotations

from typing import cast

from quart import Quart

from flnet.node.buckets import Buckets
from flnet.web.standing import Gate


def still(app: Quart) -> Quart:
    """The app, with buckets that do not fill up again."""
    gate = cast(Gate, app.extensions["flnet.gate"])
    for value in vars(gate).values():
        if isinstance(value, Buckets):
            value._clock = lambda: 0.0
    return app
