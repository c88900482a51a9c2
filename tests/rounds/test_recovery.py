"""A node that was killed goes on in the round, and in the part of it, that it had saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from flnet.errors import StaleRound
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import Average, CancelTimer, Evaluate, Fetch, Publish, Save, Send, SetTimer, Train
from flnet.protocol.events import (
    ClaimReceived,
    DataChanged,
    Fetched,
    HyperParamsEdited,
    Paused,
    PeerLost,
    PrepareFailed,
    Restored,
    Resumed,
    RoundTriggered,
    SeriesStopped,
    TimerFired,
    TrainingFailed,
    UpdateOffered,
)
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.protocol.updates import Update
from flnet.rounds.history import RoundRecord
from flnet.rounds.model import HeldModel
from flnet.rounds.series import REGROUP
from flnet.rounds.steps import Phase
from flnet.rounds.stopping import DEADLINE
from tests.helpers import key, params
from tests.rounds.helpers import WAITS, Bench, asked, came, claim, declaration, declined, prepared, refuses
from tests.rounds.scenarios import Lasting, peers_series

A = PeerId("a")


def after_training(*others: str) -> Lasting:
    """In a round of a: the own training is done, and the updates of these peers have come."""
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    for name in others:
        bench.hear(came(name))
    return bench


def test_between_rounds_model_history_and_settings_are_there_again() -> None:
    bench = Lasting()
    bench.through_round()
    before, view = bench.saved, bench.job.view().as_json()
    bench.restart()
    assert bench.phase is Phase.IDLE
    assert bench.job.view().as_json() == {**view, "received": []}
    assert list(bench.job.records()) == list(before.records)
    assert bench.saved == before


def test_a_node_that_never_trained_begins_with_what_it_had() -> None:
    bench = Lasting()
    first = bench.w
    bench.restart()
    assert (bench.phase, bench.w, bench.job.number) == (Phase.IDLE, first, -1)


def test_a_training_that_was_cut_short_is_done_again_from_the_same_start() -> None:
    bench = Lasting()
    bench.hear(asked("a", w=(7, 8)))
    before = bench.one(Train)
    bench.restart()
    assert bench.one(Train) == before
    bench.train()
    bench.hear(came("a"))
    assert bench.phase is Phase.GATHERING
    bench.hear(came("c"))
    assert [update.peer for update in bench.one(Average).updates] == ["a", "b", "c"]


def test_the_initiator_says_its_start_again_to_whom_it_may_not_have_reached() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    start = bench.one(Send)
    bench.restart()
    bench.meet("c")
    again = bench.one(Send)
    assert isinstance(again.message, StartTraining)
    assert (again.message, again.params) == (start.message.model_copy(update={"again": True}), start.params)
    assert again.to == ("c",)
    bench.hear(PeerLost(PeerId("z"), "never known"))
    bench.meet("z")
    assert bench.effects == []  # it was not expected in this round


def test_an_update_that_was_sent_is_offered_again_and_no_other() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train((3, 5), examples=7, accuracy=0.25)
    sent = bench.one(Send)
    bench.restart()
    assert bench.phase is Phase.GATHERING
    assert bench.all(Train) == []
    assert bench.one(SetTimer).seconds == 30
    bench.meet("c")
    again = bench.one(Send)
    assert (again.message, again.params, again.to) == (sent.message, sent.params, ("c",))
    assert bench.job.held.find(params(w=[3, 5]).digest) is not None


def test_updates_that_were_acknowledged_count() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(came("a", w=(1, 1), examples=3))
    bench.train((2, 2))
    bench.restart()
    assert bench.round.gathering.missing == ["c"]
    bench.hear(came("c", w=(5, 5), examples=4))
    bench.average()
    assert bench.w == [pytest.approx((3 * 1 + 1 * 2 + 4 * 5) / 8)] * 2


def test_with_all_updates_there_the_average_is_made_at_once() -> None:
    bench = after_training("a", "c")
    assert bench.phase is Phase.AVERAGING
    wanted = bench.one(Average)
    bench.restart()
    assert bench.phase is Phase.AVERAGING
    assert bench.one(Average) == wanted


def test_what_was_only_offered_is_fetched_again_when_its_sender_is_there() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    model = params(w=[6, 6])
    bench.hear(UpdateOffered(Update(PeerId("c"), key(), Params(), 2), model.digest))
    bench.hear(Fetched(key(), PeerId("c"), model.digest, model))
    bench.train()
    bench.restart()
    assert bench.all(Fetch) == []  # nobody is known yet
    bench.meet("c")
    fetch = bench.one(Fetch)
    assert (fetch.peer, fetch.digest) == ("c", model.digest)
    bench.hear(Fetched(key(), PeerId("c"), model.digest, model))
    bench.hear(came("a"))
    assert [update.params for update in bench.one(Average).updates][2] == model


def test_what_was_only_offered_by_a_peer_that_stays_away_opens_no_round_after_the_average() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(UpdateOffered(Update(PeerId("c"), key(), Params(), 2), params(w=[6, 6]).digest))
    bench.train()
    bench.restart()
    bench.hear(TimerFired(bench.one(SetTimer).name))
    bench.average()
    assert (bench.phase, bench.job.key) == (Phase.MEASURING, key())


def test_an_average_is_measured_and_not_made_again() -> None:
    bench = after_training("a", "c")
    bench.average()
    average = bench.w
    bench.restart()
    assert (bench.phase, bench.w) == (Phase.MEASURING, average)
    assert bench.all(Average) == []
    assert bench.one(Evaluate).shared["w"].tolist() == average
    bench.measure()
    assert bench.job.records()[-1]["contributors"] == ["a", "b", "c"]


def test_an_update_of_a_round_that_was_averaged_before_the_restart_is_late() -> None:
    bench = after_training()
    bench.hear(TimerFired(bench.one(SetTimer).name))
    bench.average()
    bench.restart()
    refuses(bench, came("c"), StaleRound)
    bench.measure()
    bench.restart()
    refuses(bench, came("c"), StaleRound)


def test_a_node_that_waited_for_the_start_says_that_it_takes_no_part() -> None:
    bench = Lasting(peers=["a", "c", "d"])
    bench.hear(came("c"))
    bench.hear(came("d"))  # only updates tell of the round
    bench.restart()
    assert bench.phase is Phase.GATHERING
    bench.meet("a")
    assert "restarted" in (bench.said(ModelParams).declined or "")


def test_an_average_of_others_that_was_being_downloaded_is_taken_when_one_of_them_is_back_or_may_be() -> None:
    bench = Lasting(peers=["a", "c"])
    for name in "ac":
        bench.hear(ClaimReceived(replace(claim(name, w=(5, 5), contributors=2), params=None, initiator="a")))
    wanted = bench.one(Fetch)
    assert bench.phase is Phase.FETCHING
    bench.restart()
    assert (bench.phase, bench.all(Send), bench.one(SetTimer).name) == (Phase.GATHERING, [], "start:0:a")
    bench.meet("d")
    assert (bench.phase, bench.all(Send)) == (Phase.GATHERING, [])  # it does not say that it takes no part
    bench.meet("a")
    assert (bench.phase, bench.one(Fetch)) == (Phase.FETCHING, wanted)
    bench.restart()
    bench.hear(TimerFired("start:0:a"))
    assert (bench.phase, bench.one(Fetch)) == (Phase.FETCHING, wanted)
    bench.hear(Fetched(key(), PeerId("c"), wanted.digest, params(w=[5, 5])))
    assert (bench.phase, bench.w) == (Phase.MEASURING, [5, 5])
    bench.restart()
    assert (bench.phase, bench.w) == (Phase.MEASURING, [5, 5])


def test_a_refusal_stays_one() -> None:
    bench = Lasting()
    bench.hear(Paused())
    bench.hear(asked("a"))
    bench.restart()
    assert bench.all(Train) == []
    bench.meet("a")
    assert bench.said(ModelParams).declined == "paused by a person here"
    assert bench.job.view().paused


def test_a_training_that_failed_may_be_tried_again() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(TrainingFailed(key(), "killed"))
    bench.restart()
    assert bench.phase is Phase.TRAINING


def test_an_update_of_a_newer_round_takes_the_node_there() -> None:
    bench = after_training("a", "c")
    bench.hear(came("c", 1, "c"))  # remembered while the average is made, and answered 200
    bench.restart()
    bench.average()
    assert (bench.job.number, bench.job.settings.my_id in bench.round.gathering.updates) == (1, False)
    assert "c" in bench.round.gathering.updates


def test_a_peer_that_was_away_in_this_round_hears_our_word_again() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train((3, 5))
    bench.hear(PeerLost(A, "killed"))
    bench.meet("a")
    assert bench.said(ModelParams).digest == params(w=[3, 5]).digest
    bench.meet("a")
    assert bench.all(Send) == []


def test_a_start_that_came_while_loading_is_the_round_that_goes_on() -> None:
    bench = Lasting()
    bench.through_round()
    bench.restart(prepare=False)
    bench.hear(declined("c", 1, "a"))
    bench.hear(asked("a", 1, base_round=0))
    bench.hear(prepared(w=(50, 50)))
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 1)


def test_a_refusal_that_comes_while_loading_counts_in_the_round_that_goes_on() -> None:
    bench = after_training()
    bench.restart(prepare=False)
    bench.hear(declined("c"))
    bench.hear(prepared())
    bench.meet("c")
    assert bench.round.gathering.missing == ["a"]


def test_without_data_nothing_is_forgotten_and_no_round_is_taken_up() -> None:
    bench = after_training()
    bench.restart(prepare=False)
    bench.hear(PrepareFailed("no disk"))
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE
    assert bench.job.records()[-1]["outcome"] == "ended by a restart of this node"


def test_data_that_are_brought_after_the_restart_find_the_model_that_was_kept() -> None:
    bench = Lasting()
    bench.through_round()
    held = bench.w
    bench.restart(prepare=False)
    bench.hear(PrepareFailed("the data are gone"))
    again = prepared(w=(50, 50))
    bench.hear(DataChanged(again.declaration, again.params))
    assert (bench.phase, bench.w, bench.job.number) == (Phase.IDLE, held, 0)


def test_a_model_that_does_not_fit_any_more_is_named() -> None:
    bench = Lasting()
    bench.through_round()
    bench.restart(prepare=False)
    bench.hear(prepared(w=(0, 0, 0)))
    assert bench.w == [0, 0, 0]
    assert "does not fit the trainer any more" in (bench.job.error or "")


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"round": "x", "phase": "IDLE"},
        {"round": 1, "phase": "DANCING"},
        {"round": 0, "phase": "IDLE", "hyper": 3},
    ],
)
def test_figures_that_make_no_sense_are_named_and_the_job_starts_again(snapshot: dict[str, Any]) -> None:
    bench = Bench(prepare=False)
    bench.hear(Restored(snapshot))
    assert "cannot be used" in bench.one(Publish).text
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE


def test_private_arrays_that_still_fit_are_kept_and_others_start_again() -> None:
    model = Bench().job.held.current
    initial = model.with_private(params(head=[0.0], new=[5.0], wider=[0.0, 0.0]))
    held = HeldModel()
    held.begin(initial, Restored({}, model.shared, params(head=[3.0], gone=[1.0], wider=[9.0])))
    assert held.current.private == params(head=[3.0], new=[5.0], wider=[0.0, 0.0])


# A series of rounds outlives a restart: it goes on when the peers that were there are back.


def round_over(bench: Lasting, number: int, accuracy: float = 0.5) -> None:
    """The open round of b ends, with a and c."""
    bench.train()
    for name in "ac":
        bench.hear(came(name, number, "b"))
    bench.average()
    bench.measure(accuracy)
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, number, accuracy=accuracy)))


def left(bench: Lasting) -> int:
    left = bench.job.view().rounds_left
    assert isinstance(left, int)
    return left


def killed_in_training() -> Lasting:
    """Round 0 of three; the node is started again, and trains once more."""
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.restart()
    assert (bench.phase, left(bench)) == (Phase.TRAINING, 2)
    assert SetTimer(REGROUP, 12 * WAITS.start) in bench.effects
    return bench


def test_the_rounds_that_a_person_asked_for_go_on_when_all_peers_are_back() -> None:
    bench = killed_in_training()
    round_over(bench, 0)
    assert (bench.phase, left(bench)) == (Phase.IDLE, 2)  # alone it would outrun the mesh
    bench.meet("a")
    assert bench.phase is Phase.IDLE
    bench.meet("c")
    assert (bench.phase, bench.job.number, left(bench)) == (Phase.TRAINING, 1, 1)
    assert CancelTimer(REGROUP) in bench.effects
    round_over(bench, 1)
    round_over(bench, 2)
    assert (bench.phase, bench.job.number, left(bench)) == (Phase.IDLE, 2, 0)


def test_who_does_not_come_back_is_waited_for_only_so_long() -> None:
    bench = killed_in_training()
    bench.meet("a")
    round_over(bench, 0)
    assert bench.phase is Phase.IDLE
    bench.hear(TimerFired(REGROUP))
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 1)
    assert bench.hear(TimerFired(REGROUP)) == []


def test_a_second_restart_before_they_are_back_waits_for_the_same_peers() -> None:
    bench = killed_in_training()
    round_over(bench, 0)
    bench.meet("a")
    bench.restart()
    assert (bench.phase, bench.job.series.waits_for) == (Phase.IDLE, {"a", "c"})


def test_a_node_without_peers_goes_on_at_once() -> None:
    bench = Lasting(peers=[])
    bench.hear(RoundTriggered(3))
    bench.restart()
    bench.train()
    bench.average()
    bench.measure()
    assert (bench.phase, bench.job.number, left(bench)) == (Phase.TRAINING, 1, 1)


def test_what_a_person_stopped_does_not_come_back() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.hear(SeriesStopped())
    assert bench.one(Save).snapshot["rounds_left"] == 0
    bench.restart()
    assert left(bench) == 0
    assert bench.hear(SeriesStopped()) == []  # nothing to stop, and nothing to save


def test_a_pause_holds_the_rounds_back_over_a_restart() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(3))
    bench.hear(Paused())
    bench.restart()
    for name in "ac":
        bench.meet(name)
        bench.hear(came(name, 0, "b"))
    bench.average()
    bench.measure()
    for name in "ac":
        bench.hear(ClaimReceived(claim(name)))
    assert (bench.phase, left(bench)) == (Phase.IDLE, 2)
    bench.hear(Resumed())
    assert (bench.phase, left(bench)) == (Phase.TRAINING, 1)


def test_rounds_that_were_asked_for_while_others_were_awaited_are_kept_before_the_answer() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(RoundTriggered(2))
    assert bench.phase is Phase.AVERAGING
    assert bench.saved.snapshot["rounds_left"] == 2  # the one that waits for the average, and the next one
    bench.restart()
    assert left(bench) == 2


GOAL = "accuracy>=0.9, within 600"


def killed_in_a_series(rounds: int = 5) -> tuple[Lasting, object]:
    """Between round 0 and what follows of it."""
    bench = Lasting()
    bench.hear(RoundTriggered(rounds, until=GOAL))
    round_over(bench, 0)
    goal = bench.job.view().as_json()["goal"]
    bench.restart()
    return bench, goal


def test_a_series_with_a_goal_goes_on_with_its_progress() -> None:
    bench, goal = killed_in_a_series()
    assert bench.phase is Phase.TRAINING  # of round 1, which had begun
    assert bench.job.view().as_json()["goal"] == goal
    assert SetTimer(DEADLINE, 600) in bench.effects
    round_over(bench, 1, 0.6)
    assert bench.job.view().phase == "IDLE"
    for name in "ac":
        bench.meet(name)
    start = next(send.message for send in bench.all(Send) if isinstance(send.message, StartTraining))
    assert start.series is not None
    assert (start.round, start.series.counted, start.series.best, start.series.first) == (2, 2, 0.6, 0)


def test_where_it_is_anothers_turn_a_restarted_node_waits_for_it() -> None:
    bench = Lasting(peers=["a"])
    peers_series(bench)
    bench.restart()
    assert bench.all(Train) == []
    bench.meet("a")
    assert bench.phase is Phase.IDLE
    assert [timer.name for timer in bench.all(SetTimer)] == ["goal:next"]


@pytest.mark.parametrize("accuracy", [0.95, 0.5])
def test_how_a_series_ended_is_known_after_a_restart(accuracy: float) -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(1, until=GOAL))
    round_over(bench, 0, accuracy)
    goal = bench.job.view().as_json()["goal"]
    assert goal is not None
    assert goal["state"] == ("reached" if accuracy > 0.9 else "given_up")
    bench.restart()
    assert bench.job.view().as_json()["goal"] == goal
    assert bench.all(SetTimer) == []
    for name in "ac":
        bench.meet(name)
    assert bench.all(Train) == []
    assert bench.phase is Phase.IDLE


def test_a_series_that_a_person_stopped_in_an_open_round_still_ends_with_it() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered(5, until=GOAL))
    bench.hear(SeriesStopped())
    bench.restart()
    assert bench.job.series.stopping.over == "stopped"
    round_over(bench, 0)
    goal = bench.job.view().as_json()["goal"]
    assert goal is not None
    assert (goal["state"], goal["words"]) == ("given_up", "a person stopped the series at b")


# Other data come between two rounds, never into one; a model that fits them stays.


def changed(w: Sequence[float] = (9, 9), source: str = "other rows", **declared: Any) -> DataChanged:
    return DataChanged(declaration(data={"source": source}, **declared), params(w=w))


def source_of(bench: Bench) -> object:
    return bench.job.view().as_json()["data"].get("source")


def test_a_job_without_data_is_ready_when_they_have_come() -> None:
    bench = Bench(prepare=False)
    bench.hear(PrepareFailed("no files"))
    bench.hear(changed())
    assert (bench.phase, bench.w, source_of(bench), bench.job.view().error) == (
        Phase.IDLE,
        [9, 9],
        "other rows",
        None,
    )
    bench.hear(RoundTriggered())
    assert bench.one(Train).params["w"].tolist() == [9, 9]


def test_a_model_that_fits_stays_and_with_it_its_round() -> None:
    bench = Bench().through_round()
    held = bench.job.held.model
    bench.hear(changed())
    assert (bench.phase, bench.job.held.model, source_of(bench)) == (Phase.IDLE, held, "other rows")


def test_in_a_round_the_old_data_count_until_it_is_over() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(changed())
    assert (bench.phase, source_of(bench), bench.effects) == (Phase.TRAINING, None, [])
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    held = bench.w
    assert source_of(bench) is None
    bench.hear(ClaimReceived(claim("a", 0, accuracy=0.1)))  # the next round of the series opens at once
    assert (bench.job.number, bench.phase, source_of(bench), bench.w) == (1, Phase.TRAINING, "other rows", held)


def test_data_that_came_while_loading_count_after_it() -> None:
    bench = Bench(prepare=False)
    bench.hear(changed())
    assert bench.phase is Phase.LOADING
    bench.hear(prepared())
    assert (bench.phase, source_of(bench)) == (Phase.IDLE, "other rows")


def test_a_model_that_does_not_fit_starts_again() -> None:
    bench = Bench()
    bench.hear(changed(w=(1, 2, 3)))
    assert bench.w == [1, 2, 3]
    assert bench.one(Save).params is not None
    bench.hear(changed(agreement={"classes": "cat, dog"}, w=(4, 5, 6)))
    assert bench.w == [4, 5, 6]
    bench.hear(asked("a", 0, w=(0, 0, 0), agreement={"classes": "cat, dog"}))
    assert bench.phase is Phase.TRAINING


def test_private_parameters_that_do_not_fit_are_initialised_again_and_the_shared_ones_stay() -> None:
    bench = Bench()
    old = bench.job.held.current.shared
    event = DataChanged(declaration(shared=("w",)), params(w=[7, 7], head=[1.0]))
    bench.hear(event)
    assert bench.job.held.current.shared == old
    assert bench.job.held.current.private["head"].tolist() == [1.0]


# --- A Save holds what is new, and all figures.


def test_parameters_are_saved_once_and_the_own_update_before_it_is_sent() -> None:
    bench = Lasting()
    assert bench.saved.params == params(w=[0, 0])
    bench.hear(HyperParamsEdited({"e": 3}))
    edited = bench.one(Save)
    assert (edited.params, edited.private, edited.sent) == (None, None, None)
    bench.hear(asked("a", w=(9, 9)))
    assert bench.one(Save).params == params(w=[9, 9])  # what training starts from
    bench.train((1, 2))
    trained = bench.one(Save)
    assert (trained.params, trained.sent) == (None, params(w=[1, 2]))
    assert bench.effects[0] is trained
    assert trained.snapshot["own"]["round"] == 0


def test_every_update_is_saved_with_its_answer_and_goes_with_the_average() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(came("a", w=(1, 1)))
    assert [kept.update.peer for kept in bench.one(Save).updates] == ["a"]
    bench.hear(came("a", w=(1, 1)))
    assert bench.all(Save) == []  # the first one counts, and is saved already
    bench.train()
    bench.hear(came("c", w=(1, 1)))
    assert len(bench.saved.updates) == 2
    bench.average()
    assert not bench.saved.updates


def test_what_the_merging_rule_remembers_is_saved_with_its_average_and_there_again_after_a_restart() -> None:
    bench = Lasting(peers=[])
    bench.hear(RoundTriggered())
    bench.train()
    bench.average(remembered=params(scores=[1]))
    save = bench.all(Save)[0]
    assert (save.remembered, save.params) == (
        params(scores=[1]),
        bench.job.held.current.shared,
    )
    bench.measure()
    assert all(one.remembered is None for one in bench.all(Save))
    bench.restart()
    assert bench.job.held.remembered == params(scores=[1])
    assert all(one.remembered is None for one in bench.all(Save))


def test_records_are_saved_once_and_read_as_they_were() -> None:
    bench = Lasting()
    bench.through_round(0)
    bench.through_round(1)
    assert bench.saved.records == tuple(bench.job.records())
    bench.hear(Paused())
    assert bench.one(Save).records == ()
    for record in bench.saved.records:
        assert RoundRecord.read(json.loads(json.dumps(record))).view() == record
