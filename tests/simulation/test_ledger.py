"""The ledger finds each thing that must never happen; a checker that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from flnet.effects import Average
from flnet.events import RoundTriggered
from flnet.jobs import Job
from flnet.params import PeerId, TrainerId, Update
from flnet.simulation import InvariantBroken, Ledger
from tests.helpers import key, params, peer, update
from tests.jobs.helpers import asked, prepared

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")
RESULT = params(w=[2.0])


def ledger(*sent: Update) -> Ledger:
    made = Ledger()
    for one in sent:
        made.sends(one.peer, one.key, one.params)
    return made


def average(*updates: Update, number: int = 0) -> Average:
    return Average(key(number), updates)


def test_a_round_by_the_rules_is_noted() -> None:
    b = update("b", w=[3.0])
    book = ledger(b)
    book.averages_now(A, average(update("a", w=[1.0]), b), RESULT)
    assert book.averages == {(A, 0): RESULT.digest}


def test_two_averages_of_one_node_in_one_round_are_found() -> None:
    own = update("a", w=[1.0])
    book = ledger()
    book.averages_now(A, average(own), RESULT)
    with pytest.raises(InvariantBroken, match="a averaged twice in round 0"):
        book.averages_now(A, average(own), RESULT)


def test_another_initiator_does_not_make_it_another_round() -> None:
    book = ledger()
    book.averages_now(A, average(update("a", w=[1.0])), RESULT)
    with pytest.raises(InvariantBroken, match="twice"):
        book.averages_now(A, Average(key(0, "z"), (update("a", initiator="z", w=[1.0]),)), RESULT)


def test_an_update_that_counts_twice_is_found() -> None:
    b = update("b", w=[3.0])
    with pytest.raises(InvariantBroken, match="twice, or out of order"):
        ledger(b).averages_now(A, average(b, b), RESULT)


def test_updates_out_of_order_are_found() -> None:
    b, c = update("b", w=[3.0]), update("c", w=[4.0])
    with pytest.raises(InvariantBroken, match="out of order"):
        ledger(b, c).averages_now(A, average(c, b), RESULT)


def test_an_update_that_nobody_sent_is_found() -> None:
    with pytest.raises(InvariantBroken, match="a averages b"):
        ledger().averages_now(A, average(update("b", w=[3.0])), RESULT)


def test_an_update_that_was_changed_on_the_way_is_found() -> None:
    with pytest.raises(InvariantBroken, match="a averages b"):
        ledger(update("b", w=[3.0])).averages_now(A, average(update("b", w=[3.5])), RESULT)


def test_an_update_of_another_round_is_found() -> None:
    old = update("b", w=[3.0])
    with pytest.raises(InvariantBroken, match="a averages b"):
        ledger(old).averages_now(A, average(old, number=1), RESULT)


def test_equal_sets_with_unequal_digests_are_found() -> None:
    b = update("b", w=[3.0])
    book = ledger(b, update("a", w=[1.0]))
    both = average(update("a", w=[1.0]), b)
    book.averages_now(A, both, RESULT)
    with pytest.raises(InvariantBroken, match="c averaged an equal set to another digest"):
        book.averages_now(C, both, params(w=[2.5]))


def test_other_examples_make_another_set() -> None:
    book = ledger(update("a", w=[1.0]))
    book.averages_now(A, average(update("a", examples=1, w=[1.0])), RESULT)
    book.averages_now(B, average(update("a", examples=2, w=[1.0])), params(w=[2.5]))


def test_a_round_that_goes_back_is_found() -> None:
    book = ledger()
    job = Job(peer("b"), TrainerId("T"))
    job.receive(prepared())
    job.receive(asked("a", 4))
    book.look(B, [job])
    younger = Job(peer("b"), TrainerId("T"))
    younger.receive(prepared())
    younger.receive(RoundTriggered())
    with pytest.raises(InvariantBroken, match="b went back to round 0"):
        book.look(B, [younger])
