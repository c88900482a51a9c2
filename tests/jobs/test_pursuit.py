"""What is kept of a series survives the way over the wire, to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage
from flnet.jobs.pursuit import Pursuit, Series, series_of
from flnet.messages import SeriesMessage
from flnet.params import PeerId, Report
from flnet.policies import Goal, Progress, Score

UNIT = st.floats(0, 1)
SCORE = st.builds(Score, UNIT, st.none() | st.floats(-1e6, 1e6))
PROGRESS = st.builds(
    Progress,
    st.integers(0, 1000),
    st.none() | UNIT,
    st.integers(0, 1000),
    st.lists(SCORE, max_size=3).map(tuple),
    st.builds(Score, st.floats(0, 1000), st.none() | st.floats(-1e6, 1e6)),
)


@given(PROGRESS)
def test_progress_comes_over_the_wire_as_it_was(progress: Progress) -> None:
    series = Series(PeerId("a"), 3, Goal.parse("mlfedavg 0.001 cumulative, within 1e3"), 30)
    said = Pursuit(series, progress).said()
    assert said is not None
    assert series_of(SeriesMessage.model_validate_json(said.model_dump_json(by_alias=True))) == (series, progress)


def test_without_a_series_nothing_is_said() -> None:
    pursuit = Pursuit(reports={PeerId("a"): Report(0.5)})
    assert (pursuit.said(), pursuit.report_said(PeerId("a")), pursuit.view(3)) == (None, None, None)


def test_a_goal_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        series_of(SeriesMessage(by="a", first=0, until="bliss", rounds=1))
