"""Lists that are cut off, repeated, out of order, too long, or false: each is refused in words, and changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.holder import (
    Acceptance,
    AlignmentOpening,
    Chunk,
    Incoming,
    Kind,
    Message,
    PairKey,
    Terms,
)
from flnet.errors import AlignmentRefused
from tests.algorithms.vertical.playing import Play

SETS = {name: [f"id-{n}" for n in range(start, start + 10)] for name, start in (("a", 0), ("b", 4), ("c", 2))}
PAIR = {name: SETS[name] for name in "ab"}
EXPECTED = {f"id-{n}" for n in range(4, 10)}
Change = Callable[[Any], Message]

LISTS = [
    (PAIR, "b", Kind.BLINDED, "a"),
    (PAIR, "a", Kind.RAISED, "b"),
    (PAIR, "a", Kind.OWN, "b"),
    (PAIR, "b", Kind.MATCHES, "a"),
    (SETS, "b", Kind.BLINDED, "a"),
    (SETS, "a", Kind.RAISED, "b"),
    (SETS, "a", Kind.TABLE, "b"),
    (SETS, "c", Kind.MATCHES, "a"),
]
FAULTS: dict[str, tuple[Change, str]] = {
    "a chunk is missing": (lambda m: changed(m, number=m.number + 1), "chunks are missing before it|not expected"),
    "before the first one": (lambda m: changed(m, number=-1), "it came before"),
    "bytes are missing": (lambda m: changed(m, items=m.items[:-1]), "has to have [0-9]+ bytes"),
    "an item is missing": (lambda m: changed(m, items=m.items[:-48]), "has to have [0-9]+ bytes"),
    "it is empty": (lambda m: changed(m, items=b""), "has to have [0-9]+ bytes, but it has 0"),
    "bytes too many": (lambda m: changed(m, items=m.items + b"x"), "has to have [0-9]+ bytes"),
    "another total": (lambda m: changed(m, total=m.total + 100), "items, but the chunk says|at most"),
    "of another alignment": (lambda m: changed(m, session="s-2"), "the message belongs to 's-2'"),
    "of a stranger": (lambda m: changed(m, sender="z"), "'z' is not another holder"),
    "another list": (
        lambda m: changed(m, kind=Kind.OWN if m.kind != Kind.OWN else Kind.TABLE),
        "not expected now|complete",
    ),
}


def changed(message: Any, **fields: object) -> Message:
    result: Message = dataclasses.replace(message, **fields)
    return result


def in_the_end_all_is_well(plays: Play) -> None:
    plays.run()
    expected = set.intersection(*map(set, plays.sets.values()))
    assert [set(plays.common(name)) for name in plays.sets] == [expected] * len(plays.sets)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("sets", "to", "kind", "sender"), LISTS)
def test_a_wrong_chunk_is_refused_and_the_right_one_still_taken(
    sets: dict[str, list[str]], to: str, kind: Kind, sender: str, fault: str
) -> None:
    change, words = FAULTS[fault]
    plays = Play(sets)
    message = plays.run_until(to, kind)
    assert isinstance(message, Chunk)
    while message.sender != sender:
        plays.deliver(to, message)
        message = plays.run_until(to, kind)
        assert isinstance(message, Chunk)
    with pytest.raises(AlignmentRefused, match=words):
        plays.deliver(to, change(message))
    assert not plays.work
    plays.deliver(to, message)
    in_the_end_all_is_well(plays)


@pytest.mark.parametrize("sets", [PAIR, SETS])
def test_no_message_comes_from_the_holder_itself(sets: dict[str, list[str]]) -> None:
    plays = Play(sets)
    while (following := plays.step()) is not None:
        to, message = following
        with pytest.raises(AlignmentRefused, match=f"'{to}' is not another holder|has ended"):
            plays.machines[to].receive(changed(message, sender=to))
        plays.deliver(to, message)
    in_the_end_all_is_well(plays)


@pytest.mark.parametrize("sets", [PAIR, SETS])
def test_every_message_is_taken_once(sets: dict[str, list[str]]) -> None:
    plays, repeated = Play(sets), 0
    while (following := plays.step()) is not None:
        to, message = following
        plays.deliver(to, message)
        with pytest.raises(AlignmentRefused, match=r"not expected now|it came before|is complete|has ended"):
            plays.machines[to].receive(message)
        repeated += 1
    assert repeated > 10
    in_the_end_all_is_well(plays)


def is_for_all(message: Message) -> bool:
    """What the leader sends to every follower; whose matches they are is seen when work is done on them."""
    return message.sender == "a"


@pytest.mark.parametrize("sets", [PAIR, SETS])
def test_a_message_to_the_wrong_holder_is_refused(sets: dict[str, list[str]]) -> None:
    plays = Play(sets)
    while (following := plays.step()) is not None:
        to, message = following
        for name, machine in plays.machines.items():
            if name != to and not is_for_all(message):
                with pytest.raises(AlignmentRefused):
                    machine.receive(message)
        plays.deliver(to, message)
    in_the_end_all_is_well(plays)


def test_a_list_is_cut_off_where_what_follows_it_comes() -> None:
    for sets, to in ((PAIR, "b"), (SETS, "c")):
        plays = Play(sets)
        first = plays.run_until(to, Kind.BLINDED)
        plays.deliver(to, first)
        while plays.work:
            plays.do(next(iter(plays.work)))
        matches = Chunk("s-1", "a", Kind.MATCHES, 0, 0, b"")
        with pytest.raises(AlignmentRefused, match="list blinded of 'a': the list ended after 1 of 3 chunks"):
            plays.deliver(to, matches)


def test_matches_before_all_is_answered_are_refused() -> None:
    for sets, to in ((PAIR, "b"), (SETS, "c")):
        plays = Play(sets)
        while (following := plays.step()) is not None:  # all messages of the leader, but no work of this follower
            name, message = following
            if name == to and isinstance(message, Chunk) and message.number == 2:
                break
            plays.deliver(name, message)
        plays.deliver(name, message)
        assert to in plays.work
        with pytest.raises(AlignmentRefused, match="matches of 'a' is not expected now"):
            plays.machines[to].receive(Chunk("s-1", "a", Kind.MATCHES, 0, 0, b""))
        in_the_end_all_is_well(plays)


def test_an_answer_to_what_was_not_asked_is_refused() -> None:
    for sets in (PAIR, SETS):
        plays = Play(sets)
        for name in plays.terms.followers:
            with pytest.raises(AlignmentRefused, match=r"raised of '[bc]' is not expected now"):
                plays.machines["a"].receive(Chunk("s-1", name, Kind.RAISED, 0, 10, bytes(128)))
        in_the_end_all_is_well(plays)


def test_lists_before_the_opening_and_the_acceptance_are_refused() -> None:
    plays = Play(SETS)
    for to, sender, kind in (("b", "a", Kind.BLINDED), ("b", "a", Kind.MATCHES), ("a", "b", Kind.TABLE)):
        with pytest.raises(AlignmentRefused, match="not expected now"):
            plays.machines[to].receive(Chunk("s-1", sender, kind, 0, 10, bytes(128)))
    with pytest.raises(AlignmentRefused, match="opening of 'c' is not expected now"):
        plays.machines["b"].receive(AlignmentOpening("s-1", "c", ("a", "b", "c"), "", "", "", 1, 4))
    with pytest.raises(AlignmentRefused, match="acceptance of 'c' is not expected now"):
        plays.machines["b"].receive(Acceptance("s-1", "c", 1))
    in_the_end_all_is_well(plays)


@pytest.mark.parametrize("count", [-1, 0, 1_000_001])
def test_a_follower_with_no_ids_or_too_many_is_refused(count: int) -> None:
    for sets in (PAIR, SETS):
        plays = Play(sets)
        accepted = plays.run_until("a", Acceptance)
        with pytest.raises(AlignmentRefused, match=rf"'b' has {count} ids"):
            plays.deliver("a", changed(accepted, count=count))
        plays.deliver("a", accepted)
        in_the_end_all_is_well(plays)


# Elements that are none, and results that cannot be


BAD = {
    "zero": (bytes(32), "not in the group"),
    "neutral": ((1).to_bytes(32), "neutral"),
    "low order": ((SafePrimeGroup.PRIME - 1).to_bytes(32), "not in the group"),
    "not canonical": ((SafePrimeGroup.PRIME + 4).to_bytes(32), "not canonical"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize(
    ("sets", "to", "kind", "sender"), [case for case in LISTS if case[2] in "blinded raised own"]
)
def test_an_element_that_is_none_ends_the_work(
    sets: dict[str, list[str]], to: str, kind: Kind, sender: str, name: str
) -> None:
    element, words = BAD[name]
    plays = Play(sets)
    message = plays.run_until(to, kind)
    assert isinstance(message, Chunk)
    items = message.items[:64] + element + message.items[96:]
    plays.perform(to, plays.machines[to].receive(changed(message, items=items)))
    with pytest.raises(AlignmentRefused, match=f"element 2 of a chunk: .*{words}"):
        plays.do(to)


@pytest.mark.parametrize("name", BAD)
def test_a_half_of_a_key_that_is_no_element_is_refused_at_once(name: str) -> None:
    plays = Play(SETS)
    half = plays.run_until("c", PairKey)
    with pytest.raises(AlignmentRefused, match=BAD[name][1]):
        plays.deliver("c", changed(half, element=BAD[name][0]))
    plays.deliver("c", half)
    in_the_end_all_is_well(plays)


@pytest.mark.parametrize(
    ("sets", "fault", "words"),
    [
        (PAIR, "twice", "named twice"),
        (PAIR, "outside", "not in the list"),
        (PAIR, "order", "not in the order"),
        (PAIR, "element", "never blinded here"),
        (SETS, "twice", "same item twice"),
        (SETS, "outside", "not in the list"),
        (SETS, "order", "not in the order"),
    ],
)
def test_matches_that_cannot_be_are_refused(sets: dict[str, list[str]], fault: str, words: str) -> None:
    to, head = ("b", 4) if sets is PAIR else ("c", 16)
    plays = Play(sets, chunk=16)
    message = plays.run_until(to, Kind.MATCHES)
    assert isinstance(message, Chunk) and message.total == 6
    items = np.frombuffer(message.items, np.uint8).reshape(6, head + 32).copy()
    match fault:
        case "twice":
            items[1, :head] = items[0, :head]
        case "outside":
            items[1, :head] = 200
        case "order":
            items[[0, 1]] = items[[1, 0]]
        case "element":
            items[-1, head:] = 255
    changed_matches = changed(message, items=items.tobytes(), total=len(items))
    plays.perform(to, plays.machines[to].receive(changed_matches))
    with pytest.raises(AlignmentRefused, match=words):
        plays.do(to)


def test_more_matches_than_there_can_be_are_refused() -> None:
    for sets, to in ((PAIR, "b"), (SETS, "c")):
        plays = Play(sets)
        message = plays.run_until(to, Kind.MATCHES)
        for total in (11, -1, 2**40):
            with pytest.raises(AlignmentRefused, match="there can be at most 10"):
                plays.deliver(to, changed(message, total=total))
        plays.deliver(to, message)
        in_the_end_all_is_well(plays)


def test_a_leader_that_lists_an_id_twice_is_refused_in_the_end() -> None:
    sets = {name: list(ids) for name, ids in PAIR.items()}
    plays = Play(sets)
    sets["a"][9] = sets["a"][8]  # after its own check
    with pytest.raises(AlignmentRefused, match="same item twice"):
        plays.run()


# Any change at all


@given(st.data())
def test_a_changed_message_is_refused_or_changes_nothing_but_the_result(data: st.DataObject) -> None:
    """Whatever is changed: the refusal is an AlignmentRefused, at once or of the work, and nothing else is raised."""
    plays = Play(data.draw(st.sampled_from([PAIR, SETS])))
    at, seen = data.draw(st.integers(0, 40)), 0
    try:
        while (following := plays.step()) is not None:
            to, message = following
            plays.deliver(to, scrambled(data, message) if seen == at else message)
            seen += 1
    except AlignmentRefused:
        return
    for name in plays.ends:
        assert set(plays.common(name)) <= set(plays.sets[name])


def scrambled(data: st.DataObject, message: Message) -> Message:
    name = data.draw(st.sampled_from(sorted(vars(message))))
    value = vars(message)[name]
    if isinstance(value, bytes):
        place = data.draw(st.integers(0, max(0, len(value) - 1)))
        return changed(message, **{name: value[:place] + data.draw(st.binary(max_size=3)) + value[place + 1 :]})
    if isinstance(value, int):
        return changed(message, **{name: data.draw(st.integers(-5, 2**33))})
    if isinstance(value, Kind):
        return changed(message, **{name: data.draw(st.sampled_from(Kind))})
    if isinstance(value, str):
        return changed(message, **{name: data.draw(st.sampled_from(["a", "b", "c", "", "\ud800"]))})
    return changed(message, **{name: data.draw(st.sampled_from([(), ("a",), ("a", "b", "c", "d")]))})


@given(st.integers(0, 40), st.integers(1, 7))
def test_a_list_is_what_was_cut_into_chunks(total: int, size: int) -> None:
    terms = Terms("s", ("a", "b"), size)
    items = np.arange(total * 32, dtype=np.uint32).astype(np.uint8).reshape(total, 32)
    incoming = Incoming(terms, Kind.OWN, "b", total, 32)
    for number in range(terms.chunks(total, 32)):
        assert not incoming.complete
        part = items[terms.part(number, 32)]
        incoming.add(Chunk("s", "b", Kind.OWN, number, total, part.tobytes()))
    assert incoming.complete
    assert incoming.arrived == max(1, -(-total // size))
    assert np.array_equal(incoming.items, items)
    with pytest.raises(AlignmentRefused, match=r"list own of 'b': the list is complete, but chunk"):
        incoming.add(Chunk("s", "b", Kind.OWN, incoming.arrived, total, b""))
