"""Versions of the peers as a job's card shows them, where there are no common rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flnet.web.view import NONE, text
from flnet.web.words import Translate, english

MOST = 257  # rows
LAST = 1e11  # seconds since 1970; later times cannot be written


@dataclass(frozen=True)
class VersionRow:
    """What this node knows of one peer's versions, in words."""

    peer: str
    version: str
    merged: str
    when: str
    note: str


@dataclass(frozen=True)
class VersionTable:
    """The own version, and one row for each peer."""

    own: str
    rows: tuple[VersionRow, ...]


def version_table(
    versions: Any, t: Translate = english, local: Callable[[float], time.struct_time] = time.localtime
) -> VersionTable | None:
    """Read the versions in a job's view; None where rounds are common to all nodes.

    Args:
        local: a time by this node's clock.
    """
    if not isinstance(versions, Mapping):
        return None
    peers = versions.get("peers")
    rows = [row for row in peers[:MOST] if isinstance(row, Mapping)] if isinstance(peers, list | tuple) else []
    return VersionTable(_number(versions.get("own")), tuple(_row(row, t, local) for row in rows))


def _row(row: Mapping[str, Any], t: Translate, local: Callable[[float], time.struct_time]) -> VersionRow:
    notes = []
    if row.get("newer") is True:
        notes.append(t("still to be merged"))
    if row.get("reachable") is False:
        notes.append(t("does not answer"))
    return VersionRow(
        text(row.get("peer"), 64) or NONE,
        _number(row.get("version")),
        _number(row.get("merged")),
        _when(row, t, local),
        ", ".join(notes),
    )


def _when(row: Mapping[str, Any], t: Translate, local: Callable[[float], time.struct_time]) -> str:
    into, at = _number(row.get("into")), row.get("at")
    if into == NONE:
        return NONE
    if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < LAST:
        return t("in version {number}", number=into)
    return t("in version {number}, {time}", number=into, time=time.strftime("%Y-%m-%d %H:%M:%S", local(at)))


def _number(value: Any) -> str:
    return f"v{value}" if type(value) is int and 0 <= value < 10**15 else NONE
