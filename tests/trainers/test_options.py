"""Files of options beside a data set, read in one way for all trainers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.trainer import TrainerError
from trainers._options import Fits, is_whole, read_lines

RULES: dict[str, tuple[str, Fits]] = {
    "rows": ("a whole number above 0", is_whole),
    "kind": ("a or b", lambda v: v in ("a", "b")),
}


def test_without_a_file_there_are_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "x.toml", RULES) == {}


def test_what_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('rows = 3\nkind = "b"\n', "utf-8")
    assert read_lines(path, RULES) == {"rows": 3, "kind": "b"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row = 3", "row is no option; expected rows, kind"),
        ("rows = 0", "rows = 0; expected a whole number above 0"),
        ("rows = true", "rows = True; expected a whole number above 0"),
        ("kind = 1", "kind = 1; expected a or b"),
        ("rows =", "cannot be read"),
    ],
)
def test_what_does_not_fit_is_told_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(TrainerError, match=f"x.toml.*{words}"):
        read_lines(path, RULES)


def test_bytes_that_are_no_text_are_told_too(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(TrainerError, match="cannot be read"):
        read_lines(path, RULES)
