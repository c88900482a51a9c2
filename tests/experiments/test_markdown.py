"""Tables stay tables with any words in them."""

from __future__ import annotations

from flnet.experiments.markdown import line, plain


def test_a_cell_ends_where_it_should() -> None:
    assert line(["a|b", "two\nlines", ""]) == "| a\\|b | two lines |  |"
    assert plain(" spaces \t within ") == "spaces within"
