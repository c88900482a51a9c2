"""One sentence for the person who pressed a button, kept until the page after it is asked for."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

from quart import current_app

_NAME = "flnet.notices"


@dataclass(frozen=True)
class Notice:
    """What came of it."""

    text: str
    is_error: bool


class Notices:
    """The last notices by a key that nobody can guess, so that no link can put words on this page."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: OrderedDict[str, Notice] = OrderedDict()

    def put(self, notice: Notice) -> str:
        """Keep a notice; the key to find it by."""
        key = secrets.token_urlsafe(9)
        self._kept[key] = notice
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return key

    def get(self, key: str | None) -> Notice | None:
        """The notice of this key, if it is still kept."""
        return self._kept.get(key or "")


def notices() -> Notices:
    """Those of the app that answers the current request; a form may lead to another page than its own."""
    return cast(Notices, current_app.extensions.setdefault(_NAME, Notices()))
