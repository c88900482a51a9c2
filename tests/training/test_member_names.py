from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.training.member_names import member_path

ROOT = Path("/data/here")
STEPS = st.lists(
    st.sampled_from(["..", ".", "", "a", "b.png", "C:", "~", "\\", "\0", "\u202e", "ü" * 200]), max_size=6
)


@given(st.one_of(st.text(max_size=80), STEPS.map("/".join)))
def test_whatever_the_name_a_file_stays_in_its_folder(name: str) -> None:
    try:
        inside = member_path(name)
    except ValueError:
        return
    if inside is not None:
        target = Path(os.path.normpath(ROOT.joinpath(*inside.parts)))
        assert ROOT in target.parents
        assert all(len(os.fsencode(step)) <= 255 and "\0" not in step for step in inside.parts)


@pytest.mark.parametrize("name", ["a/b.png", "./a/b.png", "a//b.png"])
def test_usual_names_are_taken(name: str) -> None:
    found = member_path(name)
    assert found is not None
    assert found.as_posix() == "a/b.png"


@pytest.mark.parametrize("name", ["", ".", "__MACOSX/a", "a/.DS_Store", "a/._b.png", "Thumbs.db"])
def test_what_systems_leave_behind_is_passed_over(name: str) -> None:
    assert member_path(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../a", "leads out"),
        ("/etc/passwd", "leads out"),
        ("a\\b", "leads out"),
        ("c:a", "leads out"),
        ("a\nb", "cannot be seen"),
        ("a/" * 41, "folders deep"),
        ("é" * 128, "255 bytes"),
        ("\ud800", "cannot be seen"),
    ],
)
def test_others_are_refused_in_words(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        member_path(name)
