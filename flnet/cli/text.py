"""Text for terminals and logs: what others wrote is shown, never obeyed."""

from __future__ import annotations

__all__ = ["accuracy", "counted", "printable", "share", "short"]


def printable(text: object) -> str:
    r"""The text on one line, with control, bidirectional and broken characters written as \x1b, \u202e."""
    given = str(text)
    if given.isprintable():
        return given
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode("ascii")
        for char in given
    )


def short(digest: object) -> str:
    """The first characters of a digest, enough to compare by eye; "-" for none."""
    return printable(digest)[:10] if digest else "-"


def accuracy(value: object) -> str:
    """An accuracy in [0, 1] with four digits; "-" for none."""
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def share(value: object) -> str:
    """A share in [0, 1] as per cent, with the digits that count; "-" for none."""
    if not isinstance(value, int | float):
        return "-"
    return f"{100 * value:.1f} %" if value >= 0.01 or value <= 0 else f"{100 * value:.2g} %"


def counted(number: int, thing: str) -> str:
    """ "1 round", "2 rounds"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
