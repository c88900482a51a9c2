"""A node that was killed goes on in the round, and in the part of it, that it had saved."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.effects import Average, Evaluate, Fetch, Publish, Send, SetTimer, Train
from flnet.errors import StaleRound
from flnet.events import (
    DataChanged,
    Fetched,
    Paused,
    PeerLost,
    PrepareFailed,
    Restored,
    RoundTriggered,
    TimerFired,
    TrainingFailed,
    UpdateOffered,
)
from flnet.jobs import Phase
from flnet.jobs.restoring import model_of
from flnet.messages import ModelParams, StartTraining
from flnet.params import Params, PeerId, Update
from tests.helpers import key, params
from tests.jobs.helpers import asked, came, declined, prepared, refuses
from tests.jobs.restarting import Lasting

A = PeerId("a")


def test_between_rounds_model_history_and_settings_are_there_again() -> None:
    bench = Lasting()
    bench.through_round()
    before, view = bench.saved, bench.job.view()
    bench.restart()
    assert bench.phase is Phase.IDLE
    assert bench.job.view() == {**view, "received": []}
    assert list(bench.job.history()) == list(before.records)
    assert bench.saved == before


def test_a_node_that_never_trained_begins_with_what_it_had() -> None:
    bench = Lasting()
    first = bench.w
    bench.restart()
    assert (bench.phase, bench.w, bench.state.number) == (Phase.IDLE, first, -1)


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
    assert (again.message, again.params) == (start.message, start.params)
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
    assert bench.state.holds(params(w=[3, 5]).digest) is not None


def test_updates_that_were_acknowledged_count() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(came("a", w=(1, 1), examples=3))
    bench.train((2, 2))
    bench.restart()
    assert bench.state.averaging is not None
    assert bench.state.averaging.missing == ["c"]
    bench.hear(came("c", w=(5, 5), examples=4))
    bench.average()
    assert bench.w == [pytest.approx((3 * 1 + 1 * 2 + 4 * 5) / 8)] * 2


def test_with_all_updates_there_the_average_is_made_at_once() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    for name in ("a", "c"):
        bench.hear(came(name))
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


def test_an_average_is_measured_and_not_made_again() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.average()
    average = bench.w
    bench.restart()
    assert (bench.phase, bench.w) == (Phase.MEASURING, average)
    assert bench.all(Average) == []
    assert bench.one(Evaluate).shared["w"].tolist() == average
    bench.measure()
    assert bench.job.history()[-1]["contributors"] == ["a", "b", "c"]


def test_an_update_of_a_round_that_was_averaged_before_the_restart_is_late() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    bench.hear(TimerFired(bench.one(SetTimer).name))
    bench.average()
    bench.restart()
    refuses(bench, came("c"), StaleRound)
    bench.measure()
    bench.restart()
    refuses(bench, came("c"), StaleRound)


def test_a_node_that_waited_for_the_start_says_that_it_takes_no_part() -> None:
    bench = Lasting()
    bench.hear(came("c"))  # only an update tells of the round
    bench.restart()
    assert bench.phase is Phase.GATHERING
    bench.meet("a")
    bench.meet("c")
    assert "restarted" in (bench.said(ModelParams).declined or "")


def test_a_refusal_stays_one() -> None:
    bench = Lasting()
    bench.hear(Paused())
    bench.hear(asked("a"))
    bench.restart()
    assert bench.all(Train) == []
    bench.meet("a")
    assert bench.said(ModelParams).declined == "paused by a person here"
    assert bench.job.view()["paused"]


def test_a_training_that_failed_may_be_tried_again() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(TrainingFailed(key(), "killed"))
    bench.restart()
    assert bench.phase is Phase.TRAINING


def test_an_update_of_a_newer_round_takes_the_node_there() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.hear(came("c", 1, "c"))  # remembered while the average is made, and answered 200
    bench.restart()
    bench.average()
    assert (bench.state.number, bench.state.my_id in bench.state.averaging.updates) == (1, False)  # type: ignore[union-attr]
    assert "c" in bench.state.averaging.updates  # type: ignore[union-attr]


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
    assert (bench.phase, bench.state.number) == (Phase.TRAINING, 1)


def test_a_refusal_that_comes_while_loading_counts_in_the_round_that_goes_on() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    bench.restart(prepare=False)
    bench.hear(declined("c"))
    bench.hear(prepared())
    bench.meet("c")
    assert bench.state.averaging is not None
    assert bench.state.averaging.missing == ["a"]


def test_without_data_nothing_is_forgotten_and_no_round_is_taken_up() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.train()
    bench.restart(prepare=False)
    bench.hear(PrepareFailed("no disk"))
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE
    assert bench.job.history()[-1]["outcome"] == "ended by a restart of this node"


def test_data_that_are_brought_after_the_restart_find_the_model_that_was_kept() -> None:
    bench = Lasting()
    bench.through_round()
    held = bench.w
    bench.restart(prepare=False)
    bench.hear(PrepareFailed("the data are gone"))
    again = prepared(w=(50, 50))
    bench.hear(DataChanged(again.declaration, again.params))
    assert (bench.phase, bench.w, bench.state.number) == (Phase.IDLE, held, 0)


def test_a_model_that_does_not_fit_any_more_is_named() -> None:
    bench = Lasting()
    bench.through_round()
    bench.restart(prepare=False)
    bench.hear(prepared(w=(0, 0, 0)))
    assert bench.w == [0, 0, 0]
    assert "does not fit the trainer any more" in (bench.state.error or "")


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"round": "x", "phase": "IDLE"},
        {"round": 1, "phase": "DANCING"},
        {"round": 0, "phase": "IDLE", "hyper": 3},
    ],
)
def test_figures_that_make_no_sense_are_named_and_the_job_begins_anew(snapshot: dict[str, Any]) -> None:
    bench = Lasting()
    bench.restart(prepare=False)
    bench.state.phase = Phase.LOADING
    bench.hear(Restored(snapshot))
    assert "cannot be used" in bench.one(Publish).text
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE


def test_private_arrays_that_still_fit_are_kept_and_others_begin_anew() -> None:
    state = Lasting().state
    assert state.model is not None
    shared = state.model.shared
    initial = state.model.with_private(params(head=[0.0], new=[5.0], wider=[0.0, 0.0]))
    state.restored = Restored({}, shared, params(head=[3.0], gone=[1.0], wider=[9.0]))
    assert model_of(state, initial).private == params(head=[3.0], new=[5.0], wider=[0.0, 0.0])
