"""Compares what the code does with a recording, or makes the recording (`FROZEN_RECORD=1`)."""

from __future__ import annotations

import difflib
import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MOST_LINES = 400  # of a difference that is shown


def is_recording() -> bool:
    """Whether recordings are made now, instead of compared with."""
    return bool(os.environ.get("FROZEN_RECORD"))


def load(name: str) -> Any:
    """A recording: NAME.json, or NAME.json.gz."""
    path = HERE / name
    return json.loads(gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes())


def save(name: str, value: Any) -> None:
    """Record a value; equal values give equal files."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    is_small = name.endswith(".gz")
    (HERE / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0) if is_small else text.encode())


def check(name: str, value: Any) -> None:
    """Fail where a value differs from its recording, and show where; or record it."""
    if is_recording():
        save(name, value)
        return
    must_equal(load(name), json.loads(json.dumps(value)), name)


def must_equal(recorded: Any, now: Any, name: str) -> None:
    """Fail where two JSON values differ, and show the lines that do."""
    if recorded == now:
        return
    pytest.fail(f"{name} is not as recorded:\n{difference(recorded, now)}", pytrace=False)


def difference(recorded: Any, now: Any) -> str:
    """The lines in which two values differ; of two mappings, entry by entry."""
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        names = [name for name in sorted({*recorded, *now}) if recorded.get(name) != now.get(name)]
        parts = [f"--- {name}\n{difference(recorded.get(name), now.get(name))}" for name in names]
        return "\n".join("\n".join(parts).splitlines()[:MOST_LINES])
    old, new = (
        (value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))
        for value in (recorded, now)
    )
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "recorded", "now", lineterm="", n=1)
    return "\n".join(list(lines)[:MOST_LINES])
