"""A node that missed something: a start, a round, or many; and words that came before their time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from flnet.errors import JobBusy, NotComparable, StaleRound
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    Effect,
    Fetch,
    FetchAlso,
    Refuse,
    Save,
    Send,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    ClaimReceived,
    Fetched,
    FetchFailed,
    PeerLost,
    PeerSeen,
    Restored,
    RolledBack,
    RoundTriggered,
    SendRefused,
    TimerFired,
    TrainingFailed,
)
from flnet.protocol.messages import Accuracy, HyperParams, ModelParams, StartTraining, Triggered
from flnet.rounds.download import TURNS
from flnet.rounds.history import RoundRecord
from flnet.rounds.job import PUT_OFF, Job
from flnet.rounds.numbering import BEHIND_SECONDS
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import WAITS, Bench, asked, came, claim, declined, prepared, refuses, settings
from tests.rounds.scenarios import OTHERS, Lasting

START_TIMER = "start:0:a"
BEHIND_TIMER = "behind:0:b"

# --- only an update told of the round


def test_a_round_known_from_an_update_is_entered_and_its_start_awaited() -> None:
    bench = Bench(peers=["a"])  # no update of a peer closes it
    bench.hear(came("a", 0, "a"))
    assert (bench.phase, bench.job.key, bench.one(SetTimer)) == (
        Phase.GATHERING,
        key(0),
        SetTimer(START_TIMER, 3),
    )
    assert bench.job.view().received == ["a"]


def test_the_start_that_still_comes_is_joined_and_what_was_gathered_counts() -> None:
    bench = Bench()
    bench.hear(came("a"))
    bench.hear(came("c"))
    bench.hear(asked("a", w=[7, 8], hyper=HyperParams(e=3, u=0.5, b=2)))
    assert (bench.one(Train).params, bench.one(Train).hyper.e) == (params(w=[7, 8]), 3)
    assert CancelTimer(START_TIMER) in bench.effects
    assert bench.hear(TimerFired(START_TIMER)) == []
    bench.train()
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b", "c"]


def test_without_its_start_the_node_declines_and_averages_what_came() -> None:
    bench = Bench(peers=["a", "c", "d"])
    assert (bench.hear(came("a")) != [], bench.phase) == (True, Phase.IDLE)  # one peer leads nobody into a round
    bench.hear(came("d"))
    bench.hear(TimerFired(START_TIMER))
    message = bench.said(ModelParams)
    assert (message.declined, message.initiator, bench.one(Send).params) == (
        "the start of this round did not reach it",
        "a",
        None,
    )
    assert bench.hear(asked("a")) == []  # too late
    bench.hear(came("c"))
    assert [u.peer for u in bench.one(Average).updates] == ["a", "c", "d"]
    bench.average()
    assert bench.w == [1, 1]


def test_a_trigger_while_listening_averages_what_came() -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(came("a"))
    bench.hear(came("d"))
    bench.hear(RoundTriggered())
    assert [u.peer for u in bench.one(Average).updates] == ["a", "d"]


# --- the mesh is ahead of the one who starts


def behind(
    current: int | None = 7, path: str = StartTraining.path, error: str = "stale_round", peer: str = "a"
) -> SendRefused:
    return SendRefused(PeerId(peer), path, key(0, "b"), 409, error, "words", current)


@pytest.mark.parametrize("current", [0, 7])  # 0: a peer averaged this very round already
def test_an_initiator_that_is_behind_starts_the_next_round_and_sits_it_out(current: int) -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(behind(current))
    assert bench.job.key == key(0, "b")  # one of two is not most of them
    bench.hear(behind(current, peer="c"))
    assert (bench.phase, bench.job.key) == (Phase.GATHERING, key(current + 1, "b"))
    start, word = bench.said(StartTraining), bench.said(ModelParams)
    assert (start.round, start.base_round) == (current + 1, -1)
    assert word.declined == f"its model is of round -1, the mesh is in round {current}"
    assert bench.all(Train) == []
    bench.hear(came("a", current + 1, "b", w=[4, 4]))
    bench.hear(came("c", current + 1, "b", w=[6, 6]))
    bench.average()
    assert bench.w == [5, 5]


@pytest.mark.parametrize("is_trained", [True, False])
def test_an_initiator_that_only_one_of_the_others_is_ahead_of_goes_there_and_trains(is_trained: bool) -> None:
    """That one may have been led there alone, so that this node misses nothing."""
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(behind(7))
    assert bench.one(SetTimer) == SetTimer(BEHIND_TIMER, BEHIND_SECONDS)
    if is_trained:
        bench.train()
    bench.hear(TimerFired(BEHIND_TIMER))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(8, "b"))
    assert bench.said(StartTraining).round == 8


def test_an_initiator_that_has_averaged_without_who_is_ahead_goes_there_at_once() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(behind(7))
    bench.train()
    for peer in "ac":
        bench.hear(came(peer, 0, "b"))
    assert CancelTimer(BEHIND_TIMER) in bench.effects
    average = bench.effects
    bench.hear(TimerFired(BEHIND_TIMER))  # it crossed its end
    bench.effects = average
    bench.average()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(8, "b"))


def test_an_initiator_whose_round_ended_without_an_update_goes_on_once() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(behind(7))
    bench.hear(TrainingFailed(key(0, "b"), "no memory"))
    for peer in "ac":
        bench.hear(declined(peer, 0, "b"))
    assert (bench.phase, bench.job.key) == (Phase.IDLE, key(0, "b"))
    assert CancelTimer(BEHIND_TIMER) in bench.effects
    bench.hear(TimerFired(BEHIND_TIMER))  # it crossed its end
    bench.hear(TimerFired(PUT_OFF))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(8, "b"))


@pytest.mark.parametrize(("current", "is_trained"), [(0, False), (0, True), (7, False)])
def test_an_initiator_that_takes_the_average_of_those_who_are_ahead_starts_the_round_it_was_asked_for(
    current: int, is_trained: bool
) -> None:
    """They may tell a node that has just joined of their average before they refuse its start."""
    bench = Bench(peers=["a", "c"])
    bench.hear(RoundTriggered())
    if is_trained:
        bench.train()
        for peer in "ac":
            bench.hear(behind(current, path=ModelParams.path, peer=peer))
    for peer in "ac":
        bench.hear(stated(peer, current))
    assert bench.phase is Phase.FETCHING
    bench.hear(fetched(number=current))
    bench.measure()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(current + 1, "b"))
    start = bench.said(StartTraining)
    assert (start.round, start.base_round, start.digest) == (current + 1, current, AVERAGE.digest)


@pytest.mark.parametrize("is_told_first", [True, False])
def test_rounds_until_a_goal_begin_with_the_first_one_that_the_others_are_not_past(is_told_first: bool) -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(RoundTriggered(rounds=5, until="accuracy>=0.95"))
    for peer in "ac":
        bench.hear(stated(peer, 7) if is_told_first else behind(7, peer=peer))
    if is_told_first:
        bench.hear(fetched(number=7))
        bench.measure()
    assert bench.job.key == key(8, "b")
    series = bench.said(StartTraining).series
    assert series is not None
    assert (series.first, series.rounds, series.counted) == (8, 5, 0)


def test_an_initiator_whose_round_others_averaged_without_it_starts_no_other_one() -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(RoundTriggered())
    for peer in "ac":
        event = stated(peer)
        bench.hear(ClaimReceived(replace(event.claim, initiator="b")))
    assert bench.phase is Phase.FETCHING
    bench.hear(fetched())
    bench.measure()
    assert (bench.phase, bench.job.key) == (Phase.IDLE, key(0, "b"))


@pytest.mark.parametrize(
    "refusal",
    [
        behind(None),
        behind(7, path=ModelParams.path),
        behind(7, error="round_lost"),
        behind(2**53),
        SendRefused(PeerId("a"), StartTraining.path, key(3, "b"), 409, "stale_round", "", 7),  # an older start
    ],
)
def test_other_refusals_move_no_round(refusal: SendRefused) -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(refusal)
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(0, "b"))


def test_an_initiator_that_left_its_start_for_a_round_that_is_over_starts_the_next_one() -> None:
    """A node without its memory hears again what was said in the round that it has just started again."""
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "a"))
    assert bench.job.key == key(0, "a")
    bench.hear(behind(0))
    bench.hear(behind(0, peer="c"))
    assert (bench.phase, bench.job.key) == (Phase.GATHERING, key(1, "b"))
    assert bench.said(StartTraining).round == 1
    assert bench.said(ModelParams).declined == "its model is of round -1, the mesh is in round 0"


def test_a_refusal_of_anothers_round_moves_no_round() -> None:
    bench = Bench()
    bench.hear(asked("a"))
    bench.train()
    bench.hear(SendRefused(PeerId("c"), ModelParams.path, key(0, "a"), 409, "stale_round", "", 7))
    assert bench.job.key == key(0)


def refused(peer: str, current: int) -> SendRefused:
    """This node's update of round 0 came too late for a peer, which is in this round."""
    return SendRefused(PeerId(peer), ModelParams.path, key(0, "b"), 409, StaleRound.code, "over", current)


def test_who_is_more_than_a_round_ahead_is_not_waited_for() -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("c", 0, "b"))
    for peer in ("a", "d"):
        bench.hear(refused(peer, 1))  # what it sent before it went there may be on its way
    assert bench.job.view().waiting_for == ["a", "d"]
    bench.hear(refused("a", 2))
    assert bench.job.view().waiting_for == ["d"]
    bench.hear(refused("d", 1000))
    assert [u.peer for u in bench.one(Average).updates] == ["b", "c"]


def test_the_update_of_who_is_ahead_counts_if_it_comes_while_the_round_is_open() -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(refused("a", 2))
    bench.hear(came("a", 0, "b"))
    bench.hear(came("c", 0, "b"))
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b", "c"]


# --- the others have averaged without this node, which takes their average


def stated(peer: str, number: int = 0, w: Sequence[float] = (5, 5), contributors: int = 2) -> ClaimReceived:
    """A peer states the average of a round, without its parameters."""
    return ClaimReceived(replace(claim(peer, number, w=w, contributors=contributors), params=None, initiator="a"))


AVERAGE = params(w=[5, 5])


def fetched(peer: str = "c", number: int = 0, w: Sequence[float] = (5, 5)) -> Fetched:
    return Fetched(key(number), PeerId(peer), AVERAGE.digest, params(w=w))


def test_a_returning_node_ends_its_training_takes_the_average_and_says_so() -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    bench.hear(came("a"))
    bench.hear(stated("a"))
    assert isinstance(bench.one(Refuse).error, NotComparable)
    assert bench.phase is Phase.TRAINING  # the word of one
    bench.hear(stated("c"))
    assert (bench.phase, bench.one(CancelWork)) == (Phase.FETCHING, CancelWork(key()))
    assert bench.one(Fetch) == Fetch(key(), PeerId("c"), AVERAGE.digest)
    # It may wait for this node.
    assert (bench.one(Send).to, bool(bench.said(ModelParams).declined)) == (("d",), True)
    assert bench.hear(came("d")) == []
    bench.hear(fetched())
    assert (bench.phase, bench.w) == (Phase.MEASURING, [5, 5])
    assert bench.published["average_taken"] == (
        "took the average of 2 updates from c: most other nodes made it without this one"
    )
    bench.measure(0.7)
    assert bench.said(Accuracy).digest == AVERAGE.digest
    record = bench.job.history.last
    assert record is not None
    assert (bench.phase, record.digest, record.taken_from) == (Phase.IDLE, AVERAGE.digest, "c")
    assert (record.contributors, record.post_accuracy, record.alone) == ((), 0.7, {})
    assert bench.job.view().as_json()["fed_learn_done"] == "Yes"
    bench.hear(asked("a", 1, w=[5, 5]))
    assert bench.phase is Phase.TRAINING  # it is ready for the next round


def test_a_node_that_missed_whole_rounds_takes_the_newest_average_and_enters_its_round() -> None:
    bench = Bench(peers=["a", "c", "d"]).through_round(by=["a", "c", "d"])
    bench.hear(stated("a", 7))
    bench.hear(stated("c", 7))
    assert bench.job.key == key(7)
    bench.hear(fetched(number=7))
    bench.measure()
    assert (bench.phase, bench.job.number, bench.job.next_key) == (Phase.IDLE, 7, key(8, "b"))
    assert RoundRecord.read(bench.job.records()[-1]).taken_from == "c"


def test_an_update_that_most_others_refused_is_given_up() -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    bench.train()
    for peer in "acd":
        bench.hear(came(peer) if peer == "a" else stated(peer))
    late = SendRefused(PeerId("c"), ModelParams.path, key(), 409, StaleRound.code, "over", 0)
    bench.hear(late)
    assert bench.phase is Phase.GATHERING
    bench.hear(replace(late, peer=PeerId("d")))
    assert (bench.phase, bench.all(CancelWork), bench.all(Send)) == (Phase.FETCHING, [], [])


@pytest.mark.parametrize(
    "statements",
    [
        [stated("a")],  # one of three
        [stated("a"), stated("c", w=(6, 6))],  # two averages
        [stated("a"), stated("x")],  # no member
        [stated("a", contributors=1), stated("c", contributors=1)],  # of one who was alone
        [stated("a", contributors=0), stated("c", contributors=0)],  # that counts for none
        [stated("a", 5000), stated("c", 5000)],  # of a round that nobody can be in
        [stated("a"), stated("a")],
    ],
)
def test_few_or_other_statements_end_no_training(statements: list[ClaimReceived]) -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    for statement in statements:
        with suppress(NotComparable):
            bench.hear(statement)
    assert bench.phase is Phase.TRAINING


def test_who_has_sent_its_update_in_time_takes_no_average_during_or_after_the_round() -> None:
    """Its update may be in theirs; and of one round there is one average."""
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    bench.train()
    bench.hear(came("a"))
    for peer in "ac":
        bench.hear(stated(peer))
    assert bench.phase is Phase.GATHERING
    for peer in "cd":
        bench.hear(declined(peer))
    bench.average()
    bench.measure()
    for peer in "acd":
        bench.hear(stated(peer))
    assert (bench.phase, bench.w) == (Phase.IDLE, [1.5, 2.5])


def test_an_average_that_was_asked_for_by_the_same_event_is_made_and_none_taken() -> None:
    """The loss of a peer is the end of gathering, and makes most of the others of those who stated an average."""
    bench = Bench(peers=["a", "c", "d", "e"])
    for peer in ("a", "c", "d"):
        bench.hear(came(peer, 0, "a"))
    bench.hear(TimerFired(START_TIMER))
    for peer in ("a", "c"):  # two of four
        bench.hear(stated(peer))
    assert bench.phase is Phase.GATHERING
    bench.hear(PeerLost(PeerId("e"), "gone"))
    assert ([u.peer for u in bench.one(Average).updates], bench.phase) == (["a", "c", "d"], Phase.AVERAGING)
    assert not [effect for effect in bench.effects if isinstance(effect, Fetch)]
    bench.average()
    assert bench.w == [1, 1]


def test_a_node_whose_round_ended_without_any_update_takes_the_average_that_is_made_later() -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(asked("a", w=[0, 0]))
    bench.hear(TrainingFailed(key(), "no memory"))
    for peer in "ac":
        bench.hear(declined(peer))
    assert (bench.phase, bench.job.records()[-1]["digest"]) == (Phase.IDLE, None)
    for peer in "ac":
        bench.hear(stated(peer))
    bench.hear(fetched())
    bench.measure()
    assert (bench.phase, bench.w) == (Phase.IDLE, [5, 5])
    (record,) = bench.job.records()  # of one round there is one
    assert (record["taken_from"], record["error"]) == ("c", "training failed in round 0: no memory")
    (save,) = [save for save in bench.all(Save) if save.records]
    assert [kept["taken_from"] for kept in save.records] == ["c"]
    for peer in "ac":
        with suppress(NotComparable):
            bench.hear(stated(peer, w=(6, 6)))
    assert (bench.phase, bench.w) == (Phase.IDLE, [5, 5])


def test_a_person_who_went_back_to_a_model_keeps_it() -> None:
    bench = Bench(peers=["a", "c"]).through_round()
    bench.hear(RolledBack(params(w=[8, 8]), Params(), 0, 1))
    for peer in "ac":
        refuses(bench, stated(peer, 4), JobBusy)
    assert (bench.phase, bench.w) == (Phase.IDLE, [8, 8])


def test_a_start_of_a_later_round_comes_first() -> None:
    bench = Bench(peers=["a", "c", "d"]).through_round(by=["a", "c", "d"])
    bench.hear(asked("a", 3, w=bench.w))
    for peer in "ac":
        bench.hear(stated(peer, 3))
    assert bench.phase is Phase.FETCHING
    bench.hear(asked("a", 4, w=bench.w))
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 4)
    assert any(e.name.startswith("average:3") for e in bench.all(CancelTimer))
    assert bench.hear(fetched(number=3)) == []


def test_if_nobody_has_the_average_any_more_the_model_stays_and_the_round_is_over() -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(asked("a", w=[0, 0]))
    for peer in "ac":
        bench.hear(stated(peer))
    bench.hear(FetchFailed(key(), PeerId("c"), AVERAGE.digest, "gone"))
    assert bench.one(Fetch).peer == "a"
    bench.hear(fetched("a", w=[1, 2, 3]))
    assert (bench.phase, bench.w) == (Phase.IDLE, [0, 0])
    record = bench.job.history.last
    assert record is not None
    assert "the average that others have made could not be fetched" in (record.error or "")
    assert (record.digest, record.taken_from) == (None, None)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model counts as a large one."""
    monkeypatch.setattr("flnet.rounds.download.LARGE_BYTES", 1)
    monkeypatch.setattr("flnet.rounds.starting_model.LARGE_BYTES", 1)


@pytest.mark.usefixtures("large")
def test_a_large_average_is_asked_of_all_at_once_in_front_those_who_state_it() -> None:
    bench = Bench(peers=["a", "c", "d"])
    for peer in "ac":
        bench.hear(stated(peer))
    assert bench.one(Fetch) == Fetch(key(), PeerId("c"), AVERAGE.digest, others=(PeerId("a"), PeerId("d")))
    bench.hear(TimerFired("average:0:a"))
    assert bench.all(Fetch) == []  # nobody is left
    bench.hear(fetched())
    assert (bench.phase, bench.w) == (Phase.MEASURING, [5, 5])


@pytest.mark.usefixtures("large")
def test_a_peer_that_comes_while_a_large_average_is_downloaded_serves_parts_of_it_too() -> None:
    bench = Bench(peers=["a", "c"])
    for peer in "ac":
        bench.hear(stated(peer))
    bench.hear(PeerSeen(PeerId("d")))
    assert bench.one(FetchAlso) == FetchAlso(PeerId("d"), AVERAGE.digest)
    bench.hear(fetched())
    bench.hear(PeerSeen(PeerId("e")))
    assert bench.all(FetchAlso) == []


@pytest.mark.usefixtures("large")
def test_a_large_start_is_asked_of_its_initiator_and_in_parts_of_all_that_are_here() -> None:
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(replace(asked("c"), params=None, digest=AVERAGE.digest))
    assert bench.one(Fetch) == Fetch(key(0, "c"), PeerId("c"), AVERAGE.digest, others=(PeerId("d"), PeerId("a")))


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("comes", [True, False])
def test_people_read_who_served_wrong_parts(comes: bool) -> None:
    bench = Bench(peers=["a", "c", "d"])
    for peer in "ac":
        bench.hear(stated(peer))
    wrong = (PeerId("a"), PeerId("d"))
    ends = fetched() if comes else FetchFailed(key(), PeerId("c"), AVERAGE.digest, "gone")
    bench.hear(replace(ends, wrong=wrong))
    told = f"a, d served other bytes than those of {AVERAGE.digest[:10]}; they were not used"
    assert bench.published["parts_wrong"] == told


def test_rounds_that_a_person_requests_meanwhile_begin_when_the_average_is_here() -> None:
    bench = Bench(peers=["a", "c"])
    for peer in "ac":
        bench.hear(stated(peer, 3))
    bench.hear(RoundTriggered())
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=4)
    assert (
        bench.published["put_off"]
        == "the requested rounds of T begin when this node has the average of the others"
    )
    bench.hear(fetched(number=3))
    bench.measure()
    assert (bench.phase, bench.job.key, bench.one(Train).params) == (Phase.TRAINING, key(4, "b"), AVERAGE)


def test_requested_rounds_begin_as_well_if_the_average_cannot_be_fetched() -> None:
    bench = Bench(peers=["a", "c"])
    for peer in "ac":
        bench.hear(stated(peer, 3))
    bench.hear(RoundTriggered())
    for peer in "ca":
        bench.hear(FetchFailed(key(3, "a"), PeerId(peer), AVERAGE.digest, "gone"))
    assert bench.phase is Phase.TRAINING
    assert bench.job.key is not None and bench.job.key.initiator == "b"


def test_a_slow_source_holds_up_nobody_for_long() -> None:
    bench = Bench(peers=["a", "c"])
    bench.hear(asked("a"))
    for peer in "ac":
        bench.hear(stated(peer))
    (timer,) = [e for e in bench.all(SetTimer) if e.name.startswith("average")]
    assert timer.seconds == WAITS.average / TURNS
    bench.hear(TimerFired(timer.name))
    assert bench.one(Fetch).peer == "a"
    bench.hear(TimerFired(timer.name))
    bench.hear(TimerFired(timer.name))
    assert bench.phase is Phase.IDLE


def test_what_is_stated_while_the_trainer_is_loaded_counts_when_it_is_there() -> None:
    bench = Bench(prepare=False)
    for peer in "ac":
        bench.hear(stated(peer, 3))
    bench.hear(prepared())
    assert (bench.phase, bench.job.key) == (Phase.FETCHING, key(3))


def test_a_node_states_its_average_to_whom_it_meets_and_who_has_no_part_in_it() -> None:
    bench = Bench(peers=["a", "c"]).through_round()
    bench.hear(PeerSeen(PeerId("d")))
    assert (bench.one(Send).to, bench.said(Accuracy).digest) == (("d",), bench.job.held.digest)
    assert bench.hear(PeerSeen(PeerId("a"))) == []
    refusal = SendRefused(PeerId("d"), Accuracy.path, key(0, "b"), 400, NotComparable.code, "not here", None)
    assert bench.hear(refusal) == []  # d takes it, or not
    alone = Bench(peers=[]).through_average(by=[])
    assert (alone.phase, alone.hear(PeerSeen(PeerId("d")))) == (Phase.IDLE, [])


def test_strangers_cannot_fill_the_memory_with_statements() -> None:
    bench = Bench(peers=["a", "c"])
    for number in range(300):
        bench.hear(stated(f"stranger-{number}", 3))
    for peer in "ac":
        bench.hear(stated(peer, 3))
    assert bench.phase is Phase.FETCHING


# --- words that came early


def test_early_words_wait_for_the_average_and_count_in_their_round() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(came("c", 0, "b"))
    average = bench.one(Average)
    bench.hear(came("a", 1, "a", w=[8, 8]))
    bench.hear(declined("c", 1, "a"))
    assert bench.phase is Phase.AVERAGING
    bench.effects = [average]
    bench.average()
    assert (bench.phase, bench.job.key, bench.job.view().received) == (
        Phase.GATHERING,
        key(1),
        ["a"],
    )
    bench.hear(asked("a", 1))
    bench.train()
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b"]


def test_early_words_of_a_round_that_was_overtaken_are_dropped() -> None:
    bench = Bench()
    bench.hear(declined("c", 3, "a"))
    bench.hear(declined("a", 9, "a"))
    bench.hear(asked("a", 5))
    assert list(bench.job.inbox.early) == ["a"]


def test_of_a_peers_early_words_that_on_the_newest_round_is_kept_and_rather_an_update() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))  # averaging now: everything newer is early
    kept = []
    for word in (
        *(declined("a", 1), came("a", 1), declined("a", 1), declined("a", 3)),
        *(came("a", 2), came("a", 3, "z"), came("a", 3)),
    ):
        bench.hear(word)
        kept.append(bench.job.inbox.early[PeerId("a")])
    assert [type(word).__name__[0] for word in kept] == ["D", "U", "U", "D", "D", "D", "U"]


def test_strangers_cannot_fill_the_memory_with_early_words() -> None:
    bench = Bench()
    for i in range(300):
        bench.hear(declined(f"stranger-{i}", 3))
    assert len(bench.job.inbox.early) == 256


@pytest.mark.parametrize("speakers", ["ac", "ca"])
def test_a_node_goes_as_far_ahead_as_two_peers_are(speakers: str) -> None:
    """One that names a large round leads nobody there by words of others that are a round ahead."""
    numbers = {"a": 1, "c": 900}
    idle, averaging = Bench(peers=["a", "c", "d"]).through_round(by=["a", "c", "d"]), Bench()
    for peer in speakers:
        idle.hear(came(peer, numbers[peer], "a"))
    assert (idle.job.number, idle.job.series.pending) == (1, None)
    averaging.hear(RoundTriggered())
    averaging.train()
    for peer in "ac":
        averaging.hear(came(peer, 0, "b"))
    average = averaging.effects
    for peer in speakers:
        averaging.hear(came(peer, numbers[peer], "a"))
    averaging.effects = average
    averaging.average()
    assert (averaging.job.number, averaging.job.series.pending) == (1, None)


# --- After a restart the own word is said again to everyone who may not have heard it.


def updates(effects: list[Effect]) -> list[tuple[str, ...]]:
    """To whom updates go."""
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, ModelParams)]


def test_who_may_not_have_got_the_own_update_before_the_average_was_made_gets_it_again() -> None:
    bench = Lasting()
    bench.through_average()
    sent = bench.saved.sent
    bench.restart()
    assert bench.phase is Phase.MEASURING
    assert updates(bench.meet("a")) == [("a",)]
    assert bench.one(Send).params == sent
    assert bench.meet("a") == []


@pytest.mark.parametrize("averaged", [False, True])
def test_who_came_while_the_trainer_was_being_loaded_is_told_then(averaged: bool) -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    bench.train()
    if averaged:
        for name in "ac":
            bench.hear(came(name, 0, "b"))
        bench.average()
    bench.restart(prepare=False)
    assert updates(bench.hear(PeerSeen(PeerId("c")))) == []
    assert updates(bench.hear(prepared(w=(50, 50)))) == [("c",)]
    assert updates(bench.meet("a")) == [("a",)]
    assert updates(bench.meet("c")) == []


def starts(effects: list[Effect]) -> list[tuple[str, ...]]:
    """To whom starts go."""
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, StartTraining)]


def test_after_a_restart_peers_hear_the_start_although_the_training_ends_before_they_are_met() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "b"))
    bench.restart()
    bench.train()
    said = bench.meet("a")
    assert (starts(said), updates(said)) == ([("a",)], [("a",)])
    said = bench.meet("c")  # it has trained, so it has heard of the round
    assert (starts(said), updates(said)) == ([], [("c",)])
    assert starts(bench.meet("a")) == []


def chosen() -> Lasting:
    """Of a, b and c, a and b train in round 0, and b has."""
    bench = Lasting(rules=Rules(Participation(0.5, 2)))
    bench.hear(RoundTriggered())
    bench.train()
    return bench


@pytest.mark.parametrize("averaged", [False, True])
def test_after_a_restart_those_who_are_not_chosen_hear_it_too(averaged: bool) -> None:
    bench = chosen()
    if averaged:
        bench.hear(came("a", 0, "b"))
        bench.average()
    bench.restart()
    assert updates(bench.meet("c")) == [("c",)]
    assert updates(bench.meet("a")) == [("a",)]


def test_who_is_not_chosen_and_was_away_for_a_while_hears_it_again() -> None:
    bench = chosen()
    bench.hear(PeerLost(PeerId("c"), "silent"))
    assert updates(bench.meet("c")) == [("c",)]
    assert updates(bench.meet("c")) == []


# --- A node that lost its memory starts a round again that it had started before: others tell it to go on.


def test_a_start_that_was_forgotten_is_refused_with_the_round_that_it_repeats() -> None:
    bench = Bench()
    bench.hear(asked("a", run="first"))
    assert bench.hear(asked("a", run="first")) == []
    refusal = refuses(bench, asked("a", run="second"), StaleRound)
    assert dict(refusal.details()) == {"round": 0}
    bench.train()
    assert bench.said(ModelParams).run == "first"
    bench.hear(came("a"))
    bench.hear(came("c"))
    assert bench.hear(asked("a", run="first")) == []
    refuses(bench, asked("a", run="second"), StaleRound)


@pytest.mark.parametrize(("first", "second"), [(None, "second"), ("first", None), (None, None)])
def test_where_a_run_is_not_known_a_second_start_is_a_duplicate(first: str | None, second: str | None) -> None:
    bench = Bench()
    bench.hear(asked("a", run=first))
    assert bench.hear(asked("a", run=second)) == []


def test_who_hears_words_of_its_own_next_round_starts_the_one_after_it() -> None:
    bench = Bench()
    bench.hear(declined("a", 0, "b"))
    bench.hear(declined("c", 1, "b"))
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).round == 2
    other = Bench()
    other.hear(declined("a", 0, "c"))
    other.hear(declined("c", 1, "b"))  # nothing says that round 0 was begun here
    other.hear(RoundTriggered())
    assert other.said(StartTraining).round == 0


def test_a_round_that_what_was_said_before_ended_empty_is_followed_by_the_next_one() -> None:
    bench = Bench(rules=OTHERS)
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    assert bench.phase is Phase.IDLE
    stale = SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0)
    bench.hear(stale)
    bench.hear(replace(stale, peer=PeerId("c")))
    assert (bench.job.number, bench.phase) == (1, Phase.GATHERING)
    assert bench.said(StartTraining).round == 1


def test_a_round_that_was_averaged_is_not_begun_again_for_a_late_refusal() -> None:
    bench = Bench().through_round()
    bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0))
    assert (bench.job.number, bench.phase) == (0, Phase.IDLE)


def test_an_update_in_a_round_that_this_node_forgot_is_no_reason_to_start_it_again() -> None:
    bench = Bench(peers=["a"])
    bench.hear(came("a", 0, "b"))
    assert (bench.job.key, bench.all(Send)) == (key(0, "b"), [])


def test_a_run_is_kept_with_the_round_and_said_again_after_a_restart() -> None:
    def job(run: str) -> Job:
        made = Job(settings(run=run))
        made.receive(prepared())
        return made

    first = job("first")
    opened = first.receive(RoundTriggered())
    (save,) = [effect for effect in opened if isinstance(effect, Save)]
    second = Job(settings(run="second"))
    second.receive(Restored(save.snapshot, save.params))
    second.receive(prepared())
    assert second.round is not None and second.round.started_in == "first"


def test_who_missed_the_start_and_hears_it_after_all_knows_its_run() -> None:
    bench = Bench()
    bench.hear(came("c"))
    bench.hear(asked("a", run="first"))
    refuses(bench, asked("a", run="second"), StaleRound)


def test_who_missed_the_start_knows_its_run_from_an_update() -> None:
    bench = Bench(peers=["c"])
    bench.hear(replace(came("c"), run="first"))
    bench.hear(TimerFired(bench.round.start_timer))  # the start did not come in time
    assert bench.hear(asked("a", run="first")) == []
    refuses(bench, asked("a", run="second"), StaleRound)
