"""What a node answers when it is asked how much a model gives away of its rows."""

from __future__ import annotations

from typing import Any

LEAKS: dict[str, Any] = {
    "kind": "leaks",
    "advantage": 0.3125,
    "low": 0.25,
    "high": 0.375,
    "by_chance": 0.043,
    "by_mean": 0.3,
    "auc": 0.7,
    "members": 2000,
    "others": 2000,
    "seen": True,
    "rows": {"train": 9000, "test": 2400},
    "model": {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9},
}
