"""What is kept of a series survives the way over the wire, to the last bit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage
from flnet.jobs.pursuit import Pursuit, Series, series_of
from flnet.messages import SeriesMessage
from flnet.params import Over, PeerId, Report
from flnet.policies import Decision, Goal, Progress, Score

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


@given(PROGRESS, st.booleans(), st.sampled_from([None, "stopped", "deadline"]))
def test_a_series_under_way_is_kept_as_it_was(progress: Progress, company: bool, over: Over | None) -> None:
    series = Series(PeerId("a"), 3, Goal.parse("every accuracy>=0.5, within 1e3"), 30)
    before = Pursuit(series, progress, company=company, over=over)
    assert Pursuit.read(json.loads(json.dumps(before.kept()))) == before


def test_how_a_series_ended_is_kept() -> None:
    series, progress = Series(PeerId("a"), 3, Goal.parse("accuracy>=0.5"), 30), Progress(2, 0.4, 1)
    told = Decision("given_up", "it was the last round", progress, Score(0.4, 2.0), 3)
    before = Pursuit(
        None, progress, ended=(series.name, "given_up"), decision=told, decided=(series, 5, "given_up")
    )
    after = Pursuit.read(json.loads(json.dumps(before.kept())))
    assert after == before
    assert after.view(9) == before.view(9)
    assert Pursuit().kept() is None
    assert Pursuit.read(None) == Pursuit()


@pytest.mark.parametrize("changes", [{"series": {"by": "a"}}, {"ended": [1]}, {"decision": {}}, {"decided": 5}])
def test_what_is_damaged_is_noticed(changes: dict[str, object]) -> None:
    kept = Pursuit(Series(PeerId("a"), 3, Goal.parse("accuracy>=0.5"), 30)).kept()
    assert kept is not None
    with pytest.raises((InvalidMessage, KeyError, TypeError, ValueError)):
        Pursuit.read({**kept, **changes})
