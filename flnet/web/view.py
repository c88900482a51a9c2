"""What the page shows of events, and how it shows any value: as plain text, as a peer may claim anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flnet.node.base import FeedItem

MAX_TEXT = 200  # characters of one value
NONE = "—"
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class EventView:
    """One thing that happened."""

    time: str
    iso: str
    text: str
    kind: str
    trainer: str
    id: int


def page_url(address: str, scheme: str = "http") -> str:
    """The page of the node at this address; empty for what is no address."""
    return f"{scheme}://{address}/" if _ADDRESS.fullmatch(address) else ""


def event_views(items: Sequence[FeedItem], most: int) -> list[EventView]:
    """The newest things that happened, newest first; times are this machine's."""
    return [_event_view(item) for item in reversed(items[-most:])]


def _event_view(item: FeedItem) -> EventView:
    moment = datetime.fromtimestamp(item.at).astimezone()
    return EventView(
        moment.strftime("%H:%M:%S"),
        moment.isoformat(timespec="seconds"),
        text(item.text, 500),
        text(item.kind, 40),
        text(item.trainer, 64),
        item.id,
    )


def text(value: Any, most: int = MAX_TEXT) -> str:
    """A string or number as one line of at most `most` characters; nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        line = " ".join(str(value).split())
    except ValueError:  # Python refuses to print integers of thousands of digits
        return ""
    cut = len(line) > most
    line = line[:most]
    if not line.isprintable():
        # Lone surrogates could not be sent at all, and marks that turn the direction of text could disguise it.
        line = "".join(sign if sign.isprintable() else "\ufffd" for sign in line)
    return line if not cut else line[: most - 1] + "…"


def accuracy(value: Any) -> str:
    """An accuracy in [0, 1] as per cent; a dash for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return NONE
    return f"{100 * value:.2f} %"


def count(value: Any) -> str:
    """A whole number with its thousands apart; nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        return ""
    return f"{value:,}"
