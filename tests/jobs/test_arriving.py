"""Examples that arrive between rounds: they are counted once, and the model is measured on them."""

from __future__ import annotations

import json

import pytest

from flnet.effects import Evaluate, Publish, Save, Send, Train
from flnet.errors import JobBusy
from flnet.events import (
    DataChanged,
    Evaluated,
    EvaluationFailed,
    Planned,
    RoundTriggered,
    WillingnessChanged,
)
from flnet.jobs import Phase
from flnet.jobs.arriving import Arrived, Measured, Plan
from flnet.messages import ModelParams
from flnet.node.keeper import restored_of
from flnet.store import SavedJob
from tests.helpers import params
from tests.jobs.helpers import Bench, asked, declaration


def rows(test: int, added: int) -> DataChanged:
    return DataChanged(
        declaration(data={"source": "rows", "rows": {"train": 70, "test": test}}), params(w=[9, 9]), added
    )


def trained_once(test: int = 40, accuracy: float = 0.75) -> Bench:
    """A job whose model has this accuracy on so many test rows; its round is over."""
    bench = Bench(peers=[], data={"source": "rows", "rows": {"train": 70, "test": test}})
    bench.hear(RoundTriggered())
    bench.train()
    bench.average()
    bench.measure(accuracy)
    assert bench.phase is Phase.IDLE
    return bench


def told(bench: Bench, kind: str) -> list[str]:
    return [effect.text for effect in bench.all(Publish) if effect.kind == kind]


def test_arrivals_add_up_until_the_next_training_and_not_beyond() -> None:
    bench = trained_once()
    bench.hear(rows(42, added=10))
    bench.hear(rows(45, added=15))
    assert bench.state.arrived.rows == 25
    bench.hear(RoundTriggered())
    bench.one(Train)
    assert bench.state.arrived == Arrived()


def test_the_accuracy_on_new_test_rows_is_what_is_left_of_that_on_all() -> None:
    bench = trained_once(test=40, accuracy=0.75)  # 30 of 40 are right
    bench.hear(rows(50, added=30))
    measure = bench.one(Evaluate)
    bench.hear(Evaluated(measure.key, measure.shared.digest, 34 / 50))  # so 4 of the 10 new ones are
    assert bench.state.arrived.base == Measured(0.75, 40)
    assert bench.state.arrived.fresh is not None
    assert bench.state.arrived.fresh.rows == 10
    assert bench.state.arrived.fresh.accuracy == pytest.approx(0.4)
    assert told(bench, "fresh_measured") == ["accuracy on 10 new test rows 0.4000; the last one was 0.7500"]
    assert bench.state.accuracy == 0.75  # what peers are told stays that of the round
    bench.hear(rows(60, added=30))
    again = bench.one(Evaluate)
    bench.hear(Evaluated(again.key, again.shared.digest, 45 / 60))  # 15 of the 20 that came in all
    assert bench.state.arrived.fresh == Measured(0.75, 20)


def test_what_cannot_be_measured_is_counted_all_the_same() -> None:
    bench = trained_once()
    bench.hear(rows(50, added=30))
    measure = bench.one(Evaluate)
    bench.hear(EvaluationFailed(measure.key, measure.shared.digest, "gone"))
    assert (bench.state.arrived.rows, bench.state.arrived.fresh) == (30, None)


def test_nothing_is_measured_without_a_last_accuracy_or_without_new_test_rows() -> None:
    fresh = Bench(peers=[])
    fresh.hear(rows(50, added=30))
    assert (fresh.all(Evaluate), fresh.state.arrived.rows) == ([], 30)
    bench = trained_once(test=40)
    bench.hear(rows(40, added=3))
    assert (bench.all(Evaluate), bench.state.arrived.rows) == ([], 3)


def test_data_in_place_of_the_old_ones_are_no_arrivals() -> None:
    bench = trained_once()
    bench.hear(rows(50, added=30))
    bench.hear(rows(80, added=0))
    assert (bench.state.arrived, bench.all(Evaluate)) == (Arrived(), [])


def test_what_arrives_twice_in_a_round_is_counted_when_it_is_over() -> None:
    bench = trained_once()
    bench.hear(RoundTriggered())
    bench.hear(rows(42, added=10))
    bench.hear(rows(44, added=5))
    assert bench.state.arrived.rows == 0
    bench.train()
    bench.average()
    bench.measure(0.8)
    assert (bench.phase, bench.state.arrived.rows) == (Phase.IDLE, 15)


def test_schedule_and_arrivals_outlive_a_restart() -> None:
    bench = trained_once()
    bench.hear(Planned("every 6h", 12.5))
    bench.hear(rows(50, added=30))
    saved = bench.all(Save)[-1]
    json.dumps(dict(saved.snapshot))
    again = Bench(peers=[], prepare=False)
    again.hear(restored_of(SavedJob(saved.snapshot, params(w=[1, 1]))))
    assert again.state.plan == Plan("every 6h", 12.5)
    assert again.state.arrived == bench.state.arrived


def test_a_state_of_before_there_were_schedules_is_read() -> None:
    saved = trained_once().state.save()
    old = {name: value for name, value in saved.snapshot.items() if name not in ("plan", "arrived")}
    again = Bench(peers=[], prepare=False)
    again.hear(restored_of(SavedJob(old, params(w=[1, 1]))))
    assert (again.state.plan, again.state.arrived) == (Plan(), Arrived())


def test_a_person_is_told_once_of_a_schedule() -> None:
    bench = Bench()
    bench.hear(Planned("new 5", 1.0))
    assert told(bench, "scheduled") == ["the schedule is new 5"]
    bench.hear(Planned("new 5", 9.0))
    assert (told(bench, "scheduled"), len(bench.all(Save))) == ([], 1)
    bench.hear(Planned(None, 9.0))
    assert told(bench, "scheduled") == ["the schedule of this node counts again"]


def test_a_schedule_says_why_it_starts_a_round_and_the_record_keeps_it() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered(why="5 new examples have come"))
    assert told(bench, "round_scheduled") == ["the schedule starts round 0: 5 new examples have come"]
    bench.train()
    bench.average()
    bench.measure()
    assert bench.job.history()[0]["why"] == "5 new examples have come"


def test_a_schedule_never_forces_an_average() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    with pytest.raises(JobBusy, match="a schedule forces no average"):
        bench.hear(RoundTriggered(why="6h have passed"))


def test_an_unwilling_node_declines_rounds_of_others_at_once_and_trains_in_its_own() -> None:
    bench = Bench()
    bench.hear(WillingnessChanged("outside of the hours 22:00-06:00"))
    assert bench.hear(WillingnessChanged("outside of the hours 22:00-06:00")) == []
    bench.hear(asked("a"))
    assert (bench.phase, bench.said(ModelParams).declined) == (Phase.GATHERING, "outside of the hours 22:00-06:00")
    other = Bench()
    other.hear(WillingnessChanged("the battery is below 30 %"))
    other.hear(RoundTriggered(rounds=2))  # a person's word counts
    assert other.phase is Phase.TRAINING
    other.hear(WillingnessChanged())
    assert told(other, "willing") == ["takes part in rounds of others again"]
    assert other.all(Send) == []
