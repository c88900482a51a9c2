"""Where log records go: stderr, one line each, nothing in them that a terminal would obey."""

from __future__ import annotations

import logging
import sys

from flnet.cli.text import printable

__all__ = ["OneLine", "set_up_logging"]

CHATTY = ("asyncio", "httpcore", "httpx", "hypercorn.access", "hypercorn.error", "quart.app")


class OneLine(logging.Formatter):
    """Time, level, logger, text; tracebacks stay in the same line, with line ends written out."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as one printable line."""
        return printable(super().format(record))


def set_up_logging(level: str) -> None:
    """Send all records of this level and above to stderr.

    The libraries say each request at INFO; they are heard from WARNING on, or all of it at DEBUG.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(level if level == "DEBUG" else max(logging.WARNING, root.level))
