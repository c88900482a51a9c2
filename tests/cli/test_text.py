from __future__ import annotations

import pytest

from flnet.cli.text import accuracy, counted, printable, share, short


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ümläuts", "plain, with ümläuts"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("\u202eevil", r"\u202eevil"),
        ("broken \ud800", r"broken \ud800"),
        (None, "None"),
    ],
)
def test_printable_disarms_what_a_terminal_would_obey(text: object, shown: str) -> None:
    assert printable(text) == shown


def test_short_forms() -> None:
    assert short("0123456789abcdef") == "0123456789"
    assert short(None) == "-"
    assert accuracy(0.51234) == "0.5123"
    assert accuracy(None) == "-"
    assert [share(one) for one in (0.625, 0.0002, 0, None, "x")] == ["62.5 %", "0.02 %", "0.0 %", "-", "-"]
    assert (counted(1, "node"), counted(0, "node")) == ("1 node", "0 nodes")
