"""Every scenario plays as recorded; RERECORD=1 writes what is played now, and the diff is what to review."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.transcripts.script import RULE, record

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_plays_as_recorded(path: Path) -> None:
    now = record(path)
    if os.environ.get("RERECORD"):
        path.write_text(now, "utf-8")
    assert now == path.read_text("utf-8")


def test_there_are_scenarios_and_each_says_what_it_shows() -> None:
    assert len(FILES) >= 8
    assert all(path.read_text("utf-8").startswith("# ") for path in FILES)


def test_a_changed_reaction_is_found(tmp_path: Path) -> None:
    path = tmp_path / "changed.txt"
    path.write_text(f"# changed\n\nnodes a b\ntrigger a\n{RULE}\na  RoundTriggered: train 7/a\n", "utf-8")
    assert record(path) != path.read_text("utf-8")


def test_words_for_people_are_not_recorded() -> None:
    assert not any("Publish" in path.read_text("utf-8") for path in FILES)
