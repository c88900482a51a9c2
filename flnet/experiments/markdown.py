"""Lines of Markdown tables, whatever words come into them."""

from __future__ import annotations

from collections.abc import Iterable


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(words: str) -> str:
    """Words that end neither a cell nor a line."""
    return " ".join(words.replace("|", "\\|").split())
