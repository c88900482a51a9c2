"""Which of two claims counts: a total order, so nodes that heard the same hold the same."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.membership.roster import Roster
from flnet.membership.standing import Standing, State
from flnet.messages import MAX_INCARNATION
from flnet.params import PeerId
from tests.membership.meshes import at, at_news

A = PeerId("a")
ALIVE, SUSPECT, DEAD, LEFT = State
claims = st.builds(Standing, st.sampled_from(State), st.integers(0, 4))


def heard(said: list[Standing]) -> Standing:
    """What a node holds that heard these claims in this order."""
    roster = Roster(PeerId("m"))
    roster.greet(at("a"), frozenset(), 0)
    for claim in said:
        roster.hear(at_news("a", claim.state.value, claim.incarnation))
    return roster.known[A].standing


@given(claims, claims, claims)
def test_claims_form_a_total_order(one: Standing, other: Standing, third: Standing) -> None:
    assert one.beats(other) + other.beats(one) + (one == other) == 1
    assert not (one.beats(other) and other.beats(third)) or one.beats(third)


@given(st.lists(claims, max_size=8), st.randoms(use_true_random=False))
def test_the_order_and_the_number_of_tellings_do_not_matter(said: list[Standing], chance: Random) -> None:
    again = said + [chance.choice(said) for _ in said]
    chance.shuffle(again)
    assert heard(again) == heard(said)


@given(st.lists(claims, max_size=5), st.lists(claims, max_size=5))
def test_two_nodes_that_tell_each_other_hold_the_same(here: list[Standing], there: list[Standing]) -> None:
    one, other = heard(here), heard(there)
    assert heard([*here, other]) == heard([*there, one])


@given(claims)
def test_a_refutation_beats_what_it_refutes(claim: Standing) -> None:
    assert claim.refuted().beats(claim)
    assert claim.refuted().state is ALIVE
    assert heard([claim, claim.refuted(), claim]) == claim.refuted()


def test_no_incarnation_is_beyond_what_messages_carry() -> None:
    assert Standing(DEAD, MAX_INCARNATION).refuted() == Standing(ALIVE, MAX_INCARNATION)


# "about" a member that is held for the column's state at incarnation 1, somebody says the row's: does it count?
@pytest.mark.parametrize(
    ("claim", "counts_against"),
    [
        (Standing(ALIVE, 1), []),
        (Standing(SUSPECT, 1), [ALIVE]),
        (Standing(DEAD, 1), [ALIVE, SUSPECT]),
        (Standing(LEFT, 1), [ALIVE, SUSPECT, DEAD]),
        (Standing(ALIVE, 2), [ALIVE, SUSPECT, DEAD, LEFT]),
        (Standing(LEFT, 0), []),
    ],
)
def test_the_table(claim: Standing, counts_against: list[State]) -> None:
    assert [state for state in State if claim.beats(Standing(state, 1))] == counts_against


def test_rounds_count_on_suspects_too() -> None:
    assert [state for state in State if state.takes_part] == [ALIVE, SUSPECT]
