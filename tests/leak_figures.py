"""What a node answers when it is asked how much a model gives away of its rows, and which classes it mistakes."""

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
CONFUSION: dict[str, Any] = {
    "kind": "confusion",
    "rows": 2400,
    "judged": 50,
    "classes": ["<cat>", "dog"],
    "matrix": [[30, 10], [0, 10]],
    "figures": {"accuracy": 0.8, "balanced_accuracy": 0.875, "f1_macro": 0.762, "auc": 0.91, "f1_micro": 0.8},
    "each": {"precision": [1.0, 0.5], "recall": [0.75, 1.0], "f1": [0.857, 0.667], "auc": [0.91, None]},
    "model": {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9},
}
