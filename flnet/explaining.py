"""A validation error in words, whatever a stranger sent: short, printable, field by field."""

from __future__ import annotations

import reprlib

from pydantic import ValidationError


def explain(exc: ValidationError) -> str:
    """A validation error in words: each field, what was expected, what came (shortened)."""
    parts = []
    for error in exc.errors(include_url=False)[:5]:
        place = ".".join(_shortened(ascii(str(step)[:60])[1:-1]) for step in error["loc"]) or "the message"
        suffix = "" if error["type"] == "missing" else f" (got {_SHORT.repr(error.get('input'))})"
        parts.append(f"{place}: {error['msg']}{suffix}")
    hidden = exc.error_count() - len(parts)
    return "; ".join(parts) + (f"; and {hidden} more" if hidden > 0 else "")


class _Short(reprlib.Repr):
    """Shows a stranger's value in few characters, however large it is or deep it is nested."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxstring, self.maxother = 2, 3, 4, 40, 40

    def repr(self, x: object) -> str:
        """Like repr, at most 60 characters, all of them ASCII."""
        return _shortened(super().repr(x).encode("ascii", "backslashreplace").decode())

    def repr_int(self, x: int, level: int) -> str:
        """Only as many digits as Python is willing to write."""
        return str(x) if x.bit_length() < 200 else f"a whole number of {x.bit_length()} bits"


_SHORT = _Short()


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
