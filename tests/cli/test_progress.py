from __future__ import annotations

from io import StringIO

from rich.console import Console

from flnet.cli.progress import (
    LiveProgress,
    PlainProgress,
    fingerprint,
    open_progress,
    progress_line,
    progress_table,
)
from tests.cli.fake_node import job

TRAINING = job(phase="TRAINING", current_round=1, progress={"done": 30, "total": 120})
GATHERING = job(phase="GATHERING", current_round=1, received=["a", "b"], waiting_for=["c"])


def plain(views: dict[str, dict[str, object]]) -> str:
    out = StringIO()
    Console(file=out, width=160).print(progress_table(views))
    return out.getvalue()


def test_the_table_shows_batches_and_updates_received() -> None:
    shown = plain({"node-a": TRAINING, "node-b": GATHERING})
    assert "####............ 30/120" in shown
    assert "2 of 3" in shown


def test_more_batches_than_announced_do_not_break_the_bar() -> None:
    assert "#" * 16 + " 9/8" in plain({"a": job(progress={"done": 9, "total": 8})})
    assert "#" not in plain({"a": job(progress={"done": 0, "total": 0})})


def test_the_line_says_the_same_in_words() -> None:
    line = progress_line({"node-a": TRAINING, "node-b": GATHERING, "node-c": job()})
    assert line == "node-a training 30/120 | node-b gathering, 2 of 3 received | node-c idle"


def test_plain_lines_are_rare_and_bring_news() -> None:
    out, now = StringIO(), [0.0]
    progress = PlainProgress(Console(file=out, width=40), clock=lambda: now[0])
    progress.show({"a": job()})  # too early
    now[0] = 6
    progress.show({"a": job()})
    now[0] = 12
    progress.show({"a": job()})  # nothing new
    progress.show({"a": TRAINING})
    now[0] = 13
    progress.show({"a": GATHERING})  # too soon after the last one
    progress.say("a line that is much longer than forty columns stays in one piece")
    assert out.getvalue().splitlines() == [
        "  a idle",
        "  a training 30/120",
        "a line that is much longer than forty columns stays in one piece",
    ]


def test_the_display_follows_the_kind_of_output() -> None:
    with open_progress(Console(file=StringIO())) as progress:
        assert isinstance(progress, PlainProgress)
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, highlight=False, _environ={"TERM": "xterm"})
    with open_progress(console) as progress:
        assert isinstance(progress, LiveProgress)
        progress.show({"node-a": TRAINING})
        progress.say("round 0 is over")
    assert "round 0 is over" in screen.getvalue()


def test_the_fingerprint_changes_with_what_moves() -> None:
    assert fingerprint({"a": job()}) == fingerprint({"a": job()})
    assert fingerprint({"a": job()}) != fingerprint({"a": TRAINING})
    further = TRAINING | {"progress": {"done": 31, "total": 120}}
    assert fingerprint({"a": TRAINING}) != fingerprint({"a": further})
