"""The ledger finds each thing that must never happen; a checker that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from flnet.effects import Average, KeptUpdate
from flnet.params import PeerId, Update
from flnet.simulation import InvariantBroken, Ledger
from flnet.simulation.ledger import Taken
from flnet.store import SavedJob
from tests.helpers import key, params, update

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
    book.look(B, 4)
    book.look(A, 0)
    with pytest.raises(InvariantBroken, match="b went back to round 0"):
        book.look(B, 0)


def test_an_update_that_is_acknowledged_and_not_on_the_disk_is_found() -> None:
    book, b = ledger(), update("b", w=[3.0])
    disk = SavedJob({"updates_from": 0}, updates=(KeptUpdate(b),))
    book.acknowledges(A, Taken(B, b.key, counts=True), disk)
    book.acknowledges(A, Taken(C, key(0), counts=True), SavedJob({"updates_from": 1}))  # its round is over
    with pytest.raises(InvariantBroken, match=r"a acknowledged c's .*, which is not on its disk"):
        book.acknowledges(A, Taken(C, key(0), counts=False), disk)


@pytest.mark.parametrize("is_late", [True, False])
def test_an_average_without_what_was_acknowledged_is_found_whichever_came_first(is_late: bool) -> None:
    book, b = ledger(), update("b", w=[3.0])
    disk, own = SavedJob({"updates_from": 0}, updates=(KeptUpdate(b),)), average(update("a", w=[1.0]))
    if is_late:
        book.averages_now(A, own, RESULT)
        with pytest.raises(InvariantBroken, match=r"averaged .* without b, which it acknowledges now"):
            book.acknowledges(A, Taken(B, b.key, counts=True), disk)
    else:
        book.acknowledges(A, Taken(B, b.key, counts=True), disk)
        with pytest.raises(InvariantBroken, match=r"without \['b'\], which it acknowledged"):
            book.averages_now(A, own, RESULT)


def test_only_what_was_averaged_apart_is_left_for_a_worse_model() -> None:
    book = ledger()
    book.averages_now(A, average(update("a", w=[1.0])), RESULT, apart=params(w=[0.0]).digest)
    book.adopts(A, RESULT.digest, 0.9, 0.2, 0.02)
    with pytest.raises(InvariantBroken, match=r"b adopted a model of accuracy 0\.200, its own had 0\.900"):
        book.adopts(B, RESULT.digest, 0.9, 0.2, 0.02)
