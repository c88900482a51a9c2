"""What a person says about rounds to come: end the series that was asked for, stay out of rounds, take part again.

None of it touches the round that is open: what peers wait for, they get.
"""

from __future__ import annotations

from flnet.effects import Effect
from flnet.jobs.state import JobState


def series_stopped(s: JobState) -> list[Effect]:
    """The round that is open is the last one that this node was asked for."""
    left = s.rounds_left + _withdraw(s)
    s.rounds_left = 0
    if not left:
        return []
    words = f"no further round is started here: {left} of those asked for {'is' if left == 1 else 'are'} left out"
    return [s.tell("series_stopped", words, left_out=left)]


def paused(s: JobState) -> list[Effect]:
    """Sit out the rounds of peers and start none; those that were asked for here stay until this node goes on."""
    if s.paused:
        return []
    s.paused = True
    s.rounds_left += _withdraw(s)
    return [s.save(), s.tell("paused", f"{s.trainer} takes no part in rounds here until a person resumes it")]


def resumed(s: JobState) -> list[Effect]:
    """Take part again; a series that a pause held up goes on."""
    if not s.paused:
        return []
    s.paused = False
    return [s.save(), s.tell("resumed", f"{s.trainer} takes part in rounds again")]


def _withdraw(s: JobState) -> int:
    """Take back a round of our own that only waits for the average in progress; how many that were."""
    if s.pending is None or not s.pending.started_by(s.my_id):
        return 0
    s.pending = None
    return 1
