"""A person goes back to an older model: what the job holds then, and what the next round starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.errors import JobBusy, ParamsRefused
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Evaluate, Publish, Save, Send, Train
from flnet.protocol.events import (
    ClaimReceived,
    DataChanged,
    Evaluated,
    EvaluationFailed,
    Fetched,
    Paused,
    Prepared,
    PrepareFailed,
    RolledBack,
    RoundTriggered,
    TimerFired,
)
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, declaration, prepared, refuses
from tests.rounds.scenarios import Lasting
from tests.rounds.stage import Stage

OLD = params(w=[8, 8])
BACK = RolledBack(OLD, Params(), round=0, contributors=2, accuracy=0.6)


def rested() -> Bench:
    """Two rounds are over, and the model of the second one is held."""
    return Bench().through_round(0).through_round(1)


def gone_back() -> Bench:
    bench = rested()
    bench.hear(BACK)
    return bench


# --- the step itself


def test_it_is_saved_first_measured_again_and_told() -> None:
    bench = rested()
    effects = bench.hear(BACK)
    assert [type(effect) for effect in effects] == [Save, Evaluate, Publish]
    saved = bench.one(Save)
    assert (saved.params, saved.private) == (OLD, Params())
    assert saved.snapshot["model_round"] == 0
    assert (saved.snapshot["restored_at"], saved.snapshot["rolled_back"]) == (1, True)
    assert (bench.w, bench.job.held.accuracy, list(bench.published)) == ([8, 8], 0.6, ["rolled_back"])
    assert "everywhere if it is started here" in bench.one(Publish).text
    bench.measure(0.7)
    assert (bench.phase, bench.job.held.accuracy, list(bench.published)) == (Phase.IDLE, 0.7, ["measured"])
    assert bench.one(Save).snapshot["accuracy"] == 0.7


def test_the_private_part_comes_back_with_it() -> None:
    with_head = Bench(prepare=False)
    with_head.hear(Prepared(declaration(), params(w=[0, 0], head=[1])))
    refuses(with_head, BACK, ParamsRefused)
    with_head.hear(replace(BACK, private=params(head=[5])))
    assert with_head.job.held.current.full == params(w=[8, 8], head=[5])
    with_head.hear(RoundTriggered())
    assert with_head.one(Train).params == params(w=[8, 8], head=[5])


def test_a_measurement_that_fails_or_is_of_another_model_leaves_the_accuracy_that_is_known() -> None:
    bench = gone_back()
    bench.hear(Evaluated(key(1, "b"), params(w=[3, 3]).digest, 0.9))
    assert (bench.effects, bench.job.held.accuracy) == ([], 0.6)
    bench.hear(EvaluationFailed(key(1, "b"), OLD.digest, "killed"))
    assert (list(bench.published), bench.job.held.accuracy) == (["measuring_failed"], 0.6)


def test_it_is_refused_in_words_while_a_round_is_open_and_changes_nothing() -> None:
    bench = Bench().through_round()
    bench.hear(RoundTriggered())
    assert "round 1 is still training here" in str(refuses(bench, BACK, JobBusy))
    bench.train()
    assert "gathering" in str(refuses(bench, BACK, JobBusy))
    loading = Bench(prepare=False)
    assert "still loading" in str(refuses(loading, BACK, JobBusy))
    loading.hear(PrepareFailed("no rows"))
    assert "no model to go on from: no rows" in str(refuses(loading, BACK, JobBusy))


def test_what_is_held_already_or_does_not_fit_is_refused() -> None:
    assert "already" in str(refuses(gone_back(), BACK, JobBusy))
    refuses(rested(), replace(BACK, shared=params(w=[1])), ParamsRefused)
    refuses(rested(), replace(BACK, shared=params(v=[1, 2])), ParamsRefused)


# --- the next round


def test_the_round_that_is_started_here_says_that_a_person_went_back() -> None:
    bench = gone_back()
    bench.hear(RoundTriggered())
    start = bench.said(StartTraining)
    assert (start.base_round, start.contributors, start.restored_at) == (0, 2, 1)
    assert (start.digest, bench.one(Train).params) == (OLD.digest, OLD)


def having_held(bench: Bench, *models: Params) -> Bench:
    """The node has made these averages in its rounds."""
    for record, model in zip(bench.job.history.records, models, strict=False):
        record.digest = model.digest
    return bench


def test_a_peer_takes_the_model_gone_back_to_in_place_of_its_newer_one_if_it_has_held_it() -> None:
    bench = having_held(rested(), OLD)
    bench.hear(asked("a", 2, w=[8, 8], base_round=0, contributors=9, restored_at=99))
    held = bench.job.held
    assert (bench.phase, bench.w, held.rolled_back) == (Phase.TRAINING, [8, 8], False)
    assert (held.current.round, held.current.restored_at) == (0, 1)  # none counts as of a round to come


def test_one_that_it_has_not_held_is_compared_with_its_own() -> None:
    bench = rested()
    newer = bench.w
    bench.hear(asked("a", 2, w=[8, 8], base_round=0, contributors=9, restored_at=1))
    assert (bench.phase, bench.w) == (Phase.TRAINING, newer)
    assert "start_refused" in bench.published


def test_it_is_fetched_where_only_its_digest_came() -> None:
    bench = having_held(rested(), OLD)
    start = asked("a", 2, w=[8, 8], base_round=0, contributors=1, restored_at=1)
    bench.hear(replace(start, params=None, digest=OLD.digest))
    assert bench.phase is Phase.FETCHING
    bench.hear(Fetched(key(2, "a"), PeerId("a"), OLD.digest, OLD))
    assert (bench.phase, bench.w) == (Phase.TRAINING, [8, 8])
    assert bench.job.held.current.restored_at == 1


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("more", [{"base_round": 1, "contributors": 1}, {"base_round": 0, "restored_at": 1}])
def test_where_a_peer_starts_the_round_its_model_counts_and_people_are_told(
    more: dict[str, int], is_held: bool
) -> None:
    """Also where a person went back there, too; one that was not held here has to measure no worse."""
    bench = gone_back()
    if is_held:
        having_held(bench, params(w=[3, 3]))
    else:
        bench.start_accuracy = 0.4
    bench.hear(asked("a", 2, w=[3, 3], **more))
    assert (bench.phase, bench.w, bench.job.held.rolled_back) == (Phase.TRAINING, [3, 3], False)
    assert "roll_back_ended" in bench.published


def test_a_peer_that_starts_from_the_same_model_ends_nothing() -> None:
    bench = gone_back()
    bench.hear(asked("a", 2, w=[8, 8], base_round=0, contributors=2, restored_at=1))
    assert (bench.w, list(bench.published)) == ([8, 8], ["round_opened"])
    bench.train()
    bench.hear(came("a", 2, "a"))
    bench.hear(came("c", 2, "a"))
    bench.average()
    assert not bench.job.held.rolled_back
    assert list(bench.published) == ["averaged"]


def test_a_round_that_starts_from_a_model_that_is_worse_is_sat_out() -> None:
    bench = gone_back()
    bench.hear(asked("a", 2, w=[3, 3], base_round=0))
    assert (bench.phase, bench.w) == (Phase.GATHERING, [8, 8])
    assert "went back" in str(bench.said(ModelParams).declined)
    bench.hear(came("a", 2, "a"))
    bench.hear(came("c", 2, "a"))
    bench.average()
    assert (bench.job.held.rolled_back, list(bench.published)) == (False, ["averaged", "roll_back_ended"])


def test_a_paused_node_keeps_it_until_the_average_of_the_others() -> None:
    bench = gone_back()
    bench.hear(Paused())
    start = asked("a", 2, w=[3, 3], base_round=1)
    bench.hear(replace(start, params=None, digest=params(w=[3, 3]).digest))
    assert (bench.w, list(bench.published), bench.all(Train)) == ([8, 8], ["round_opened"], [])
    bench.hear(came("a", 2, "a"))
    bench.hear(came("c", 2, "a"))
    bench.average()
    assert list(bench.published) == ["averaged", "roll_back_ended"]


def test_a_round_that_brings_nothing_leaves_it_for_the_next_one() -> None:
    bench = Bench(peers=[]).through_average(by=[])
    bench.hear(BACK)
    bench.hear(RoundTriggered())
    bench.train(w=[float("nan"), 1])
    assert (bench.phase, bench.w, bench.job.held.rolled_back) == (Phase.IDLE, [8, 8], True)
    bench.hear(RoundTriggered())
    assert bench.one(Train).params == OLD


def test_nothing_is_compared_with_it_between_rounds() -> None:
    bench = rested()
    late = ClaimReceived(claim("a", 1, accuracy=0.1, w=[4, 4], contributors=9))
    bench.hear(late)
    bench.hear(BACK)
    assert "nothing to compare" in str(refuses(bench, late, JobBusy))
    bench.hear(RoundTriggered())
    assert bench.one(Train).params == OLD


# --- what lies between


def test_a_restart_does_not_end_it() -> None:
    bench = Lasting()
    bench.through_round()
    bench.hear(BACK)
    bench.restart()
    assert (bench.phase, bench.w, bench.job.held.rolled_back, bench.job.held.accuracy) == (
        Phase.IDLE,
        [8, 8],
        True,
        0.6,
    )
    bench.hear(RoundTriggered())
    assert (bench.said(StartTraining).restored_at, bench.one(Train).params) == (0, OLD)


@pytest.mark.parametrize("again", ["data", "start"])
def test_it_is_over_where_the_model_does_not_fit_the_trainer_any_more(again: str) -> None:
    bench = Lasting()
    bench.through_round()
    bench.hear(BACK)
    if again == "data":
        bench.hear(DataChanged(declaration(), params(w=[1, 2, 3])))
    else:
        bench.restart(prepare=False)
        bench.hear(prepared(w=(1, 2, 3)))
    assert (bench.phase, bench.w, bench.job.held.rolled_back) == (Phase.IDLE, [1, 2, 3], False)


def test_other_data_that_fit_leave_it() -> None:
    bench = gone_back()
    bench.hear(DataChanged(declaration(), params(w=[9, 9])))
    assert (bench.w, bench.job.held.rolled_back) == ([8, 8], True)


# --- a mesh


@pytest.mark.parametrize("order", [[], [1, 0, 2, 1], [2, 2, 0, 1, 3]])
def test_a_mesh_goes_on_from_the_model_that_one_person_went_back_to(order: list[int]) -> None:
    stage = Stage()
    stage.trigger("a", rounds=2)
    stage.run()
    stage.tell("c", BACK)
    stage.trigger("c")
    started = {}
    train = stage.train

    def watched(name: str, effect: Train) -> None:
        started[name] = effect.params
        train(name, effect)

    stage.train = watched  # type: ignore[method-assign]
    started["c"] = OLD  # its own training was asked for before we looked
    stage.run(order)
    assert started == {"a": OLD, "b": OLD, "c": OLD}
    assert len({job.view().digest for job in stage.jobs.values()}) == 1
    assert not any(job.view().rolled_back for job in stage.jobs.values())


def test_two_starts_at_once_begin_from_the_model_of_the_one_that_counts() -> None:
    stage = Stage()
    stage.trigger("a", rounds=2)
    stage.run()
    newer = stage.jobs["a"].held.model
    assert newer is not None
    stage.tell("c", BACK)
    stage.trigger("c")
    stage.trigger("a")
    stage.run()
    assert len({job.view().digest for job in stage.jobs.values()}) == 1
    assert [job.records()[-1]["initiator"] for job in stage.jobs.values()] == ["a"] * 3
    assert stage.jobs["c"].records()[-1]["contributors"] == ["a", "b", "c"]
    assert stage.jobs["c"].held.rolled_back is False


def test_the_timer_of_an_exchange_is_no_matter_of_a_model_gone_back_to() -> None:
    bench = gone_back()
    assert bench.hear(TimerFired("exchange:1:b")) == []
    assert bench.all(Send) == []
