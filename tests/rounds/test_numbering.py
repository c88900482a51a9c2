"""Round numbers: how far the words of peers move a node, and eras."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import JobBusy, PeerError, RoundAhead
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Average, Send, SetTimer, Train
from flnet.protocol.events import (
    PeerLost,
    RoundAnswered,
    RoundAsked,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    TimerFired,
    TrainingAsked,
    TrainingFailed,
)
from flnet.protocol.messages import (
    LAST_ROUND,
    AskRound,
    ChoiceMessage,
    ModelParams,
    RoundReply,
    SeriesMessage,
    StartTraining,
)
from flnet.rounds.job import PUT_OFF
from flnet.rounds.numbering import ASKED, ERA, LEAP, REST, RESTED, Question
from flnet.rounds.participation import Participation
from flnet.rounds.preemption import FORGIVEN_ROUNDS
from flnet.rounds.preemption import RESTED as PREEMPTED
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key
from tests.rounds.helpers import WAITS, Bench, asked, came, declined, refuses
from tests.rounds.scenarios import Lasting

A, C, D = PeerId("a"), PeerId("c"), PeerId("d")
END = 2**53 - 1


def led_through(bench: Bench, number: int) -> None:
    """The node is led through a round in which nobody else says anything."""
    bench.hear(asked("a", number))
    bench.train()
    bench.hear(TimerFired(f"forced-averaging:{number}:a"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired(f"exchange:{number}:a"))


def at(number: int, peers: Sequence[str] = ("a", "c", "d")) -> Bench:
    """A node that is between rounds, after this one; -1: after none."""
    bench = Bench(peers=peers)
    if number >= 0:
        bench.job.numbering.confirmed = number - 1
        led_through(bench, number)
        bench.job.numbering.confirmed = -1
        bench.job.series.preemption.rest()
    assert (bench.phase, bench.job.number, bench.job.numbering.left) == (Phase.IDLE, number, LEAP)
    return bench


# --- what is plausible without asking


def test_the_next_round_is_always_plausible_and_costs_nothing() -> None:
    bench = at(-1)
    for number in range(3):
        bench.hear(asked("adc"[number], number))
    assert (bench.job.number, bench.job.numbering.left) == (2, LEAP)


def test_some_numbers_may_be_skipped_and_more_of_them_only_after_a_while() -> None:
    bench = at(10)
    bench.hear(asked("a", 911))
    assert (bench.job.number, bench.job.numbering.left) == (911, LEAP - 900)
    assert SetTimer(RESTED, REST) in bench.effects
    refuses(bench, asked("a", 1100), RoundAhead)
    bench.hear(asked("c", 1012))
    assert (bench.job.number, bench.job.numbering.left) == (1012, 0)
    assert SetTimer(RESTED, REST) not in bench.effects  # the one that is set already counts
    refuses(bench, asked("a", 1014), RoundAhead)
    bench.hear(TimerFired(RESTED))
    bench.hear(asked("d", 1500))
    assert bench.job.number == 1500


@pytest.mark.parametrize("number", [LEAP + 12, ERA - 1, 2 * ERA, END])
def test_an_update_of_a_round_too_far_ahead_is_refused_and_a_refusal_of_it_changes_nothing(number: int) -> None:
    bench = at(10)
    error = refuses(bench, came("a", number), RoundAhead)
    assert (error.status, error.code, error.details()) == (409, "round_ahead", {"round": 10})
    assert "new numbering" in str(error)
    assert bench.hear(declined("a", number)) == []
    assert not bench.job.inbox.early


def test_a_start_that_comes_while_loading_does_not_take_the_place_of_a_plausible_one() -> None:
    bench = Lasting()
    bench.through_round()
    bench.restart(prepare=False)
    bench.hear(asked("a", 1))
    refuses(bench, asked("c", END), RoundAhead)
    assert bench.job.inbox.asked_while_loading is not None
    assert bench.job.inbox.asked_while_loading.key == key(1)


def test_while_a_round_is_open_nobody_is_asked() -> None:
    bench = at(10)
    bench.hear(RoundTriggered())
    refuses(bench, asked("a", END), RoundAhead)
    assert bench.phase is Phase.TRAINING


# --- the other members are asked


def doubting(number: int = 5000, current: int = 10) -> tuple[Bench, TrainingAsked]:
    bench, start = at(current), asked("a", number)
    bench.hear(start)
    return bench, start


def answers(bench: Bench, **rounds: int) -> None:
    """The members answer; the last one makes the node decide."""
    for peer, number in rounds.items():
        bench.hear(RoundAnswered(PeerId(peer), number))
    bench.hear(TimerFired(ASKED))


def test_the_others_but_not_the_speaker_are_asked() -> None:
    bench, _ = doubting()
    assert [(effect.to, type(effect.message)) for effect in bench.all(Send)] == [((C, D), AskRound)]
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 10)
    refuses(bench, asked("c", 6000), RoundAhead)  # a question at a time


def test_a_round_that_most_others_confirm_is_followed() -> None:
    bench, start = doubting()
    answers(bench, c=5000, d=4999)
    assert (bench.job.key, bench.one(Train).key) == (start.key, start.key)
    assert bench.job.numbering.left == LEAP  # nothing was skipped on a single word


@pytest.mark.parametrize(
    "rounds", [{"c": 5000, "d": 11}, {"c": 11, "d": 11}, {"c": 5000}, {}, {"a": 5000, "c": 5000}]
)
def test_a_round_that_they_do_not_confirm_is_declined_and_people_see_why(rounds: dict[str, int]) -> None:
    """Who does not answer confirms nothing, nor does the speaker."""
    bench, start = doubting()
    answers(bench, **rounds)
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 10)
    message = bench.said(ModelParams)
    assert (message.round, message.initiator) == (start.key.number, "a")
    assert "round 5000" in str(message.declined)
    assert "a started round 5000" in bench.published["refused"]


def test_what_they_answered_holds_for_the_starts_that_follow_whoever_led_to_the_question() -> None:
    bench, _ = doubting(END)
    answers(bench, c=7000, d=7001)
    assert bench.job.number == 10
    bench.hear(asked("c", 7001))
    assert (bench.job.number, bench.phase) == (7001, Phase.TRAINING)


def test_the_last_answer_is_enough_and_who_cannot_tell_is_left_out() -> None:
    bench, start = doubting()
    bench.hear(SendRefused(D, AskRound.path, start.key, 404, "not_found", ""))
    assert bench.all(SetTimer) == []
    bench.hear(RoundAnswered(C, 5000))
    assert bench.one(SetTimer) == SetTimer(ASKED, 0.0)
    bench.hear(TimerFired(ASKED))
    assert bench.job.key == start.key


def test_lost_questions_and_answers_without_one_change_nothing() -> None:
    bench, start = doubting()
    for event in (SendFailed(C, AskRound.path, start.key, "lost"), PeerLost(D, "gone")):
        assert not [effect for effect in bench.hear(event) if isinstance(effect, SetTimer)]
    bench.hear(TimerFired(ASKED))
    assert bench.job.number == 10
    assert bench.hear(RoundAnswered(C, 5000)) == []
    assert bench.hear(TimerFired(ASKED)) == []


def test_a_start_that_was_confirmed_too_late_is_declined() -> None:
    bench, _ = doubting()
    bench.hear(RoundTriggered())
    answers(bench, c=5000, d=5000)
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 11)
    assert bench.said(ModelParams).declined


def test_a_node_of_two_follows_no_leap() -> None:
    bench = at(10, ["a"])
    bench.hear(asked("a", 5000))
    assert (bench.all(Send), bench.one(SetTimer)) == ([], SetTimer(ASKED, 0.0))
    bench.hear(TimerFired(ASKED))
    assert bench.job.number == 10


@pytest.mark.parametrize(
    ("told", "follows"), [({"c": -1, "d": -1}, True), ({"c": 3, "d": -1}, False), ({}, False)]
)
def test_a_node_that_was_in_no_round_believes_the_speaker_where_no_other_can_tell(
    told: dict[str, int], follows: bool
) -> None:
    bench, start = doubting(5000, -1)
    answers(bench, **told)
    assert (bench.job.key == start.key) is follows


@pytest.mark.parametrize(
    ("number", "follows"), [(5000, True), (2 * ERA - 1, True), (2 * ERA, False), (END, False)]
)
def test_the_second_node_of_a_mesh_joins_it_but_not_at_the_end_of_all_numbers(number: int, follows: bool) -> None:
    bench = at(-1, ["a"])
    bench.hear(asked("a", number))
    bench.hear(TimerFired(ASKED))
    assert (bench.job.number == number) is follows


def test_a_node_says_in_which_round_it_is() -> None:
    for number in (-1, 10):
        bench = at(number)
        bench.hear(RoundAsked(A))
        message = bench.one(Answer).message
        assert isinstance(message, RoundReply)
        assert message.round == number


@given(st.lists(st.integers(0, 20), max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_more_than_half_of_those_that_were_in_a_round_have_reached_it(
    rounds: list[int], never: int, silent: int
) -> None:
    numbers = [*rounds, *[-1] * never]
    names = [PeerId(f"n{index}") for index in range(len(numbers) + silent)]
    question = Question(asked("a"), names, dict(zip(names, numbers, strict=False)))
    reached, voters = question.reached, len(rounds) + silent
    confirmed = [n for n in range(21) if 2 * sum(number >= n for number in rounds) > voters]
    assert reached == (max(confirmed) if confirmed else None)


# --- refusals of peers that claim to be ahead


def stale(peer: PeerId, current: int, number: int = 11) -> SendRefused:
    return SendRefused(peer, StartTraining.path, key(number, "b"), 409, "stale_round", "over", current)


def test_a_peer_that_claims_to_be_far_ahead_leads_nobody_there() -> None:
    bench = at(10)
    bench.hear(RoundTriggered())
    bench.hear(stale(A, END - 1))
    assert (bench.job.number, bench.phase) == (11, Phase.TRAINING)
    assert [effect.to for effect in bench.all(Send)] == [(C, D)]
    assert bench.hear(stale(C, END - 1)) != []  # told, but nobody is asked again
    assert not [effect for effect in bench.all(Send) if isinstance(effect.message, AskRound)]
    answers(bench, c=11, d=11)
    assert bench.job.number == 11


def test_a_node_that_was_away_for_long_catches_up_when_the_others_confirm_it() -> None:
    bench = at(10)
    bench.hear(RoundTriggered())
    bench.hear(stale(A, 7000))
    answers(bench, c=7000, d=7000)
    assert (bench.job.key, bench.phase) == (key(7001, "b"), Phase.GATHERING)
    assert bench.job.round is not None
    assert "the mesh is in round 7000" in bench.job.round.sits_out


# --- starts one after the other


def storm(bench: Bench, first: int, count: int) -> None:
    for number in range(first, first + count):
        bench.hear(asked("a", number))


@pytest.mark.parametrize("is_trained", [True, False])
def test_peers_that_start_round_after_round_keep_nobody_from_completing_one(is_trained: bool) -> None:
    """Two starts of each of two peers are followed."""
    bench = at(0)
    for number, peer in ((1, "a"), (2, "a"), (3, "c"), (4, "c")):
        if is_trained and number > 1:
            bench.train()
        bench.hear(asked(peer, number))
        if is_trained and number > 1:
            bench.average()
        assert (bench.phase, bench.job.number) == (Phase.TRAINING, number)
    storm(bench, 5, 50)
    bench.hear(asked("d", 55))
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 4)
    bench.train()
    for peer in "acd":
        bench.hear(came(peer, 4, "c"))
    assert len(bench.one(Average).updates) == 4
    bench.average()
    assert bench.job.number == 55  # of those that waited, the newest one


def test_a_round_that_was_put_off_opens_when_the_open_one_ends_without_an_average() -> None:
    bench = at(0)
    storm(bench, 1, 5)
    bench.hear(TrainingFailed(key(2), "no memory"))
    for peer in "acd":
        bench.hear(declined(peer, 2))
    assert (bench.phase, bench.one(SetTimer)) == (Phase.IDLE, SetTimer(PUT_OFF, 0.0))
    bench.hear(TimerFired(PUT_OFF))
    assert bench.job.number == 3


def test_of_two_starts_of_one_round_the_first_in_order_counts() -> None:
    bench = at(0)
    for peer in "dca":
        bench.hear(asked(peer, 1))
        assert bench.job.key == key(1, peer)


def test_an_open_round_is_left_for_the_updates_of_two_peers_and_not_of_one() -> None:
    bench = at(0)
    bench.hear(RoundTriggered())
    bench.hear(came("a", 2))
    assert bench.job.key == key(1, "b")
    bench.hear(came("c", 2))
    assert bench.job.key == key(2)
    assert set(bench.job.view().received) == {"a", "c"}


def test_a_choice_that_this_nodes_rule_does_not_lead_to_is_not_believed() -> None:
    some = Participation(0.5, 1)
    four, one = ("a", "b", "c", "d"), ("a",)
    assert some.believed(some.choice_of(tuple(map(PeerId, four))), list(map(PeerId, four))) is not None
    for choice in (None, ChoiceMessage(members=four, take=1), ChoiceMessage(members=one, take=1)):
        assert some.believed(choice, list(map(PeerId, four))) is None
    most = some.choice_of([PeerId("x"), PeerId("y"), A])
    assert some.believed(most, list(map(PeerId, four))) is None  # it leaves out most of those that are here
    bench = at(0)
    bench.hear(asked("a", 1, choice=ChoiceMessage(members=("a",), take=1)))
    assert bench.phase is Phase.TRAINING


def test_who_has_left_the_round_that_is_completed_is_not_waited_for() -> None:
    bench = at(0)
    storm(bench, 1, 20)
    last = bench.job.number
    bench.train()
    for peer in (C, D):
        bench.hear(came(peer, last))
    assert bench.phase is Phase.GATHERING
    bench.hear(SendRefused(A, ModelParams.path, key(last), 409, "stale_round", "over", last + 9))
    assert [update.peer for update in bench.one(Average).updates] == ["b", "c", "d"]


def test_a_round_that_most_peers_have_left_is_not_completed() -> None:
    bench = at(0)
    storm(bench, 1, 20)
    last = bench.job.number
    bench.hear(came("c", 20))
    assert (last, bench.job.number) == (2, 2)
    bench.hear(came("d", 20))
    assert bench.job.number == 20


def led_alone() -> Bench:
    """A node that a peer has led through two rounds, in which nobody else was."""
    bench = at(0)
    for number in (1, 2):
        led_through(bench, number)
    bench.hear(asked("a", 3))
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 2)
    # Who is in round 3 waits for its update: after half of the time it still comes in time.
    assert bench.one(SetTimer) == SetTimer(PREEMPTED, WAITS.average / 2)
    return bench


def test_who_starts_round_after_round_is_followed_no_further_for_a_while() -> None:
    bench = led_alone()
    bench.hear(asked("a", 4))
    assert (bench.phase, bench.all(SetTimer)) == (Phase.IDLE, [])
    bench.hear(TimerFired(PREEMPTED))
    assert bench.job.number == 4


def test_a_start_that_waits_goes_with_its_initiator() -> None:
    bench = led_alone()
    bench.hear(asked("a", 4))
    bench.hear(PeerLost(A, "gone"))
    bench.hear(TimerFired(PREEMPTED))
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 2)


def test_a_person_who_stops_a_series_ends_that_of_a_start_that_waits() -> None:
    bench = led_alone()
    series = SeriesMessage(by="a", first=4, until="accuracy>=1", rounds=1_000_000)
    bench.hear(replace(asked("a", 4), series=series))
    bench.hear(SeriesStopped())
    bench.hear(TimerFired(PREEMPTED))
    assert (bench.job.number, bench.job.series.is_under_way) == (4, False)


def test_another_peer_and_a_person_start_rounds_meanwhile() -> None:
    bench = led_alone()
    bench.hear(asked("c", 5))
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 5)
    bench = led_alone()
    bench.hear(RoundTriggered())
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(3, "b"))


@pytest.mark.parametrize("is_averaged", [True, False])
def test_a_person_starts_a_round_while_an_open_one_is_completed(is_averaged: bool) -> None:
    bench = at(0)
    storm(bench, 1, 3)
    bench.train()
    if is_averaged:
        bench.hear(TimerFired("forced-averaging:2:a"))
        bench.average()
        bench.measure()
    bench.hear(RoundTriggered())
    if not is_averaged:
        bench.average()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(3, "b"))


def test_rounds_of_a_series_go_on_meanwhile() -> None:
    bench = led_alone()
    bench.hear(RoundTriggered(2))
    bench.hear(asked("a", 4))
    bench.train()
    bench.hear(TimerFired("forced-averaging:3:b"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired("exchange:3:b"))
    assert (bench.job.key, bench.job.series.left) == (key(4, "b"), 0)


def test_a_person_here_may_always_force_the_average() -> None:
    bench = at(0)
    bench.hear(asked("a", 1))
    storm(bench, 2, 20)
    bench.train()
    bench.hear(RoundTriggered())
    assert (bench.phase, bench.one(Average).key) == (Phase.AVERAGING, bench.job.key)


# --- a peer that leads away from rounds, and never sends an update


def completed(bench: Bench, number: int, initiator: str) -> None:
    """A round with updates of c and d."""
    bench.train()
    for peer in "cd":
        bench.hear(came(peer, number, initiator))
    if bench.phase is Phase.GATHERING:
        bench.hear(TimerFired(f"forced-averaging:{number}:{initiator}"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired(f"exchange:{number}:{initiator}"))


def led_astray(peers: Sequence[str] = ("a", "c", "d")) -> Bench:
    """A node that a led away from two rounds, before it completed one with c and d."""
    bench = at(0, peers)
    storm(bench, 1, 2)
    bench.hear(asked("c", 3))
    completed(bench, 3, "c")
    assert (bench.phase, bench.job.key) == (Phase.IDLE, key(3, "c"))
    return bench


def test_it_is_not_followed_again_when_a_round_has_been_completed_and_no_start_of_others_waits_behind_its_own() -> (
    None
):
    bench = led_astray()
    bench.hear(asked("a", 4))
    assert bench.phase is Phase.IDLE
    bench.hear(asked("c", 4))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(4, "c"))
    storm(bench, 5, 20)
    completed(bench, 4, "c")
    assert bench.job.key == key(4, "c")
    bench.hear(TimerFired(PREEMPTED))
    assert bench.job.number == 24  # nothing else opened here for a while


def test_its_start_of_a_round_does_not_replace_that_of_another_but_the_update_of_a_peer_that_follows_it_does() -> (
    None
):
    bench = led_astray()
    bench.hear(asked("c", 4))
    bench.hear(asked("a", 4))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(4, "c"))
    bench.hear(came("d", 4, "a"))
    assert bench.job.key == key(4, "a")


def test_the_start_that_waited_is_used_once_peers_tell_that_they_are_in_its_round() -> None:
    """Else a node would take part in it without knowing from which model, and who is chosen to train."""
    bench = led_astray()
    bench.hear(asked("a", 4))
    bench.hear(came("c", 4, "a"))
    assert bench.phase is Phase.IDLE
    bench.hear(came("d", 4, "a"))
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(4, "a"))


def test_it_is_followed_again_once_an_update_of_its_own_was_averaged() -> None:
    bench = led_astray()
    bench.hear(asked("c", 4))
    bench.hear(came("a", 4, "c"))
    completed(bench, 4, "c")
    bench.hear(asked("a", 5))
    assert bench.job.key == key(5, "a")


def test_it_is_followed_again_after_some_completed_rounds() -> None:
    bench = led_astray()
    for number in range(4, 3 + FORGIVEN_ROUNDS):
        bench.hear(asked("a", number))
        bench.hear(asked("c", number))
        assert bench.job.key == key(number, "c")
        completed(bench, number, "c")
    bench.hear(asked("a", 3 + FORGIVEN_ROUNDS))
    assert bench.job.key == key(3 + FORGIVEN_ROUNDS, "a")


def test_who_starts_rounds_that_all_complete_need_not_send_updates() -> None:
    """For example a node that is not chosen to train, or has no data for it now."""
    bench = at(0)
    for number in range(1, 10):
        bench.hear(asked("a", number))
        assert (bench.phase, bench.job.number) == (Phase.TRAINING, number)
        bench.hear(declined("a", number))
        completed(bench, number, "a")
        assert (bench.phase, bench.job.number) == (Phase.IDLE, number)


def test_names_that_never_sent_an_update_are_no_measure_of_how_far_the_others_are() -> None:
    bench = led_astray(["a", "c", "d", *(f"s{number}" for number in range(9))])
    for peer, number in (("c", 4), ("c", 5), ("d", 6), ("d", 7), ("d", 8)):
        bench.hear(asked(peer, number))
    assert bench.job.number == 7
    bench.hear(came("c", 8, "d"))
    bench.hear(came("d", 8, "d"))
    assert bench.job.number == 8


# --- eras


def test_a_person_begins_an_era_with_the_next_round() -> None:
    for number, first in ((-1, ERA), (10, ERA), (ERA + 3, 2 * ERA)):
        bench = at(number)
        bench.hear(RoundTriggered(new_numbering=True))
        assert (bench.job.key, bench.said(StartTraining).round) == (key(first, "b"), first)
        assert f"count from {first} on" in bench.published["numbering_begun"]
        assert bench.job.numbering.left == LEAP


def test_the_others_follow_into_the_next_era_and_show_who_began_it() -> None:
    bench = at(10)
    bench.hear(asked("a", ERA))
    assert bench.job.number == ERA
    assert "a began a new numbering" in bench.published["numbering_begun"]
    assert SetTimer(RESTED, REST) in bench.effects
    bench.hear(asked("a", ERA + 1))
    assert bench.job.number == ERA + 1


@pytest.mark.parametrize("number", [2 * ERA, 3 * ERA, ERA + 1, LAST_ROUND])
def test_no_further_era_is_followed_nor_the_middle_of_one(number: int) -> None:
    refuses(at(10), came("a", number), RoundAhead)


def test_eras_are_followed_once_in_a_while() -> None:
    bench = at(10)
    bench.hear(asked("a", ERA))
    refuses(bench, came("a", 2 * ERA), RoundAhead)
    bench.hear(TimerFired(RESTED))
    bench.hear(asked("c", 2 * ERA))
    assert bench.job.number == 2 * ERA


def test_a_node_that_missed_the_begin_of_an_era_follows_some_rounds_later() -> None:
    alone = at(10, ["a"])
    alone.hear(came("a", ERA + 7))
    assert alone.job.number == ERA + 7
    bench = at(10)
    refuses(bench, came("a", ERA + 7), RoundAhead)
    bench.hear(asked("a", ERA + 7))
    answers(bench, c=ERA + 7, d=ERA + 7)
    assert bench.job.number == ERA + 7


def test_a_paused_or_busy_node_begins_none() -> None:
    bench = at(10)
    bench.hear(RoundTriggered())
    with pytest.raises(JobBusy):
        bench.hear(RoundTriggered(new_numbering=True))


@given(st.lists(st.tuples(st.sampled_from("acd"), st.integers(0, END)), min_size=1, max_size=30))
def test_whatever_single_peers_say_a_node_stays_near_its_own_rounds(starts: list[tuple[str, int]]) -> None:
    bench = at(10)
    for peer, number in starts:
        with suppress(PeerError):
            bench.hear(asked(peer, number))
    era, within = divmod(bench.job.number, ERA)
    assert era <= 1
    assert within <= 11 + LEAP + len(starts)


def test_the_others_confirm_no_more_than_the_speaker_said() -> None:
    bench, _ = doubting(5000)
    answers(bench, c=END, d=END)
    assert bench.job.number == 5000
    assert bench.job.numbering.confirmed <= 5000


class OfTwo(Participation):
    """Nodes c and d always train, whichever node starts a round."""

    def choice_of(self, members: Collection[PeerId], *more: object) -> ChoiceMessage:
        return ChoiceMessage(members=("c", "d"), take=2)


@pytest.mark.parametrize("is_chosen", [False, True])
def test_who_is_not_chosen_for_a_round_leads_nobody_astray(is_chosen: bool) -> None:
    bench = led_alone()
    bench.job.settings.rules = Rules() if is_chosen else Rules(OfTwo())
    bench.hear(asked("c", 5, choice=None if is_chosen else OfTwo().choice_of(())))
    if is_chosen:
        bench.train()
    for peer in "cd":
        bench.hear(came(peer, 5, "c"))
    if is_chosen:
        bench.hear(TimerFired("forced-averaging:5:c"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired("exchange:5:c"))
    bench.hear(asked("a", 6))
    assert bench.job.number == (5 if is_chosen else 6)
