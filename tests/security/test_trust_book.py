"""Tests of the book of trust: who is in, who waits, who stays out, and whom introducers bring."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flnet.errors import InvalidMessage, TrustFull, UnknownKey
from flnet.fingerprints import fingerprint
from flnet.protocol.effects import Publish
from flnet.security import trust_book as book
from flnet.security.trust_book import TrustBook, TrustEntry, fingerprint_of, read_row
from tests.security.keypairs import TestKey

OWN, A, B, C = (TestKey(seed).text for seed in (1, 2, 3, 4))
MANY = [TestKey(seed).text for seed in range(10, 20)]


def kinds(told: list[Publish]) -> list[str]:
    return [one.kind for one in told]


def test_a_stranger_waits_until_a_person_accepts_it() -> None:
    kept = TrustBook(OWN)
    told = kept.met(A, "n1", "10.0.0.1:4000", 5.0)
    assert kinds(told) == ["trust_pending"]
    assert "n1 at 10.0.0.1:4000" in told[0].text and fingerprint(A)[:11] in told[0].text
    assert kept.met(A, "n1", "10.0.0.1:4000", 6.0) == []  # it calls again: nobody hears of it
    assert not kept.trusts(A)
    assert [(e.name, e.since) for e in kept.waiting.values()] == [("n1", 5.0)]

    assert kinds(kept.accept(A, 7.0)) == ["trust_accepted"]
    assert kept.trusts(A) and not kept.waiting
    entry = kept.accepted[fingerprint(A)]
    assert (entry.key, entry.name, entry.address, entry.since, entry.by) == (
        A,
        "n1",
        "10.0.0.1:4000",
        7.0,
        "person",
    )


def test_a_fingerprint_is_accepted_before_its_node_ever_called() -> None:
    kept = TrustBook(OWN)
    kept.accept(fingerprint(A).lower(), 1.0)
    assert kept.trusts(A) and kept.accepted[fingerprint(A)].key == ""
    assert kept.met(A, "n1", "10.0.0.1:4000", 2.0) == []
    assert kept.accepted[fingerprint(A)].key == A


def test_who_was_rejected_or_forgotten_stays_out_until_it_is_accepted_again() -> None:
    kept = TrustBook(OWN)
    kept.met(A, "n1", "10.0.0.1:4000", 1.0)
    assert kinds(kept.reject(A, 2.0)) == ["trust_rejected"]
    kept.accept(B, 2.0)
    assert kinds(kept.forget(B, 3.0)) == ["trust_forgotten"]
    for key in (A, B):
        assert kept.met(key, "n", "10.0.0.1:4000", 4.0) == []
        assert kept.is_out(key) and not kept.trusts(key) and not kept.waiting
    again = TrustBook(OWN, kept.rows())  # after a restart, too
    assert again.is_out(A) and again.is_out(B)
    again.accept(A, 5.0)
    assert again.trusts(A) and not again.is_out(A)


def test_a_key_that_is_rejected_after_all_is_forgotten() -> None:
    kept = TrustBook(OWN)
    kept.accept(A, 1.0)
    assert kinds(kept.reject(A, 2.0)) == ["trust_forgotten"]


def test_what_makes_no_sense_is_refused() -> None:
    kept = TrustBook(OWN)
    with pytest.raises(UnknownKey):
        kept.forget(A, 1.0)
    for wrong in (OWN, "n1", ""):
        with pytest.raises(InvalidMessage):
            kept.accept(wrong, 1.0)
        with pytest.raises(InvalidMessage):
            kept.reject(wrong, 1.0)
    assert kept.met(OWN, "me", "here:1", 1.0) == [] and not kept.waiting


def test_an_introducer_brings_others_but_those_bring_nobody() -> None:
    kept = TrustBook(OWN)
    kept.accept(A, 1.0, introducer=True)
    told = kept.introduced(A, [(fingerprint(B), "n2"), (fingerprint(OWN), "me")], 2.0)
    assert kinds(told) == ["trust_introduced"] and kept.trusts(B)
    assert kept.accepted[fingerprint(B)].introduced_by == fingerprint(A)
    assert kept.introduced(B, [(fingerprint(C), "n3")], 3.0) == [] and not kept.trusts(C)
    assert [mark for mark, _ in kept.vouches()] == [fingerprint(A)]  # not those that A brought


def test_who_is_no_introducer_brings_nobody() -> None:
    kept = TrustBook(OWN)
    kept.accept(A, 1.0)
    assert kept.introduced(A, [(fingerprint(B), "n2")], 2.0) == []
    assert kept.introduced(C, [(fingerprint(B), "n2")], 2.0) == []
    assert not kept.trusts(B)


def test_whom_nobody_vouches_for_any_more_is_trusted_no_more() -> None:
    kept = TrustBook(OWN)
    kept.accept(A, 1.0, introducer=True)
    kept.introduced(A, [(fingerprint(B), "n2"), (fingerprint(C), "n3")], 2.0)
    assert kinds(kept.introduced(A, [(fingerprint(C), "n3")], 3.0)) == ["trust_withdrawn"]
    assert not kept.trusts(B) and not kept.is_out(B)  # it may wait again
    kept.accept(A, 4.0)  # a peer, and no introducer any more
    assert not kept.trusts(C)
    kept.accept(A, 5.0, introducer=True)
    kept.introduced(A, [(fingerprint(B), "n2")], 6.0)
    kept.accept(B, 7.0)  # by a person: it stays, whatever becomes of A
    kept.forget(A, 8.0)
    assert kept.trusts(B) and not kept.trusts(A)


def test_an_introducer_does_not_bring_back_whom_a_person_turned_away() -> None:
    kept = TrustBook(OWN)
    kept.accept(A, 1.0, introducer=True)
    kept.reject(B, 2.0)
    assert kept.introduced(A, [(fingerprint(B), "n2")], 3.0) == []
    assert not kept.trusts(B)


def test_the_settings_accept_and_what_they_name_no_more_goes() -> None:
    kept = TrustBook(OWN)
    marks = {key: fingerprint(key) for key in (OWN, A, B, C)}
    kept.reject(C, 0.0)
    told = kept.configured({marks[A], marks[C], marks[OWN]}, {marks[B]}, 1.0)
    assert sorted(kinds(told)) == ["trust_accepted", "trust_accepted", "trust_rejected"]
    assert kept.trusts(A) and kept.is_introducer(B) and not kept.is_introducer(A) and not kept.trusts(C)
    kept.introduced(B, [(fingerprint(MANY[0]), "n9")], 2.0)
    assert kept.configured({marks[A]}, {marks[B]}, 3.0)[1:] == []  # C's word again, and nothing else
    assert kinds(kept.configured({marks[A]}, set(), 4.0))[:2] == ["trust_withdrawn", "trust_withdrawn"]
    assert kept.trusts(A) and not kept.trusts(B) and not kept.trusts(MANY[0])
    kept.accept(A, 5.0)
    kept.configured(set(), set(), 6.0)
    assert kept.trusts(A)  # a person's word does not hang on the settings


def test_strangers_are_bounded_and_those_of_the_loudest_host_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_WAITING", 3)
    kept = TrustBook(OWN)
    kept.met(A, "quiet", "10.0.0.1:4000", 0.0)
    told = [kind for key in MANY for kind in kinds(kept.met(key, "loud", "10.0.0.2:4000", 1.0))]
    assert len(kept.waiting) == 3 and fingerprint(A) in kept.waiting
    assert list(kept.waiting)[1:] == [fingerprint(key) for key in MANY[-2:]]
    assert told.count("trust_full") == 1


def test_a_stranger_that_states_many_addresses_pushes_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_WAITING", 3)
    kept = TrustBook(OWN)
    kept.met(A, "quiet", "10.0.0.1:4000", 0.0, "10.0.0.1")
    for number, key in enumerate(MANY):
        kept.met(key, "loud", f"10.0.1.{number}:4000", 1.0, "10.0.0.2")
    assert len(kept.waiting) == 3 and fingerprint(A) in kept.waiting


def test_strangers_of_one_place_do_not_silence_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_TOLD_EACH", 2)
    kept = TrustBook(OWN)
    assert sum(len(kept.met(key, "loud", "h:1", 0.0, "10.0.0.2")) for key in MANY) == 2
    assert kinds(kept.met(A, "quiet", "h:1", 0.0, "10.0.0.1")) == ["trust_pending"]


def test_people_hear_of_so_many_strangers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_TOLD", 2)
    kept = TrustBook(OWN)
    assert sum(len(kept.met(key, "n", "h:1", 0.0)) for key in MANY) == 2


def test_there_is_room_for_so_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_KEPT", 2)
    kept = TrustBook(OWN)
    kept.accept(A, 1.0, introducer=True)
    kept.introduced(A, [(fingerprint(key), "n") for key in MANY], 2.0)
    assert len(kept.accepted) == 2
    with pytest.raises(TrustFull):
        kept.accept(B, 3.0)
    for key in MANY:
        kept.reject(key, 4.0)
    assert len(kept.out) == 2


KEYS = st.sampled_from([OWN, A, B, C, *MANY[:2]])


class Decisions(RuleBasedStateMachine):
    """Whatever people, introducers and strangers do."""

    def __init__(self) -> None:
        super().__init__()
        self.book = TrustBook(OWN)
        self.turned_away: set[str] = set()
        self.by_people: set[str] = set()

    @rule(key=KEYS)
    def met(self, key: str) -> None:
        before = self.book.trusts(key)
        self.book.met(key, "n", "10.0.0.1:1", 0.0)
        assert self.book.trusts(key) == before

    @rule(key=KEYS, introducer=st.booleans())
    def accept(self, key: str, introducer: bool) -> None:
        if key != OWN:
            self.book.accept(key, 0.0, introducer=introducer)
            self.turned_away.discard(key)
            self.by_people.add(key)

    @rule(key=KEYS)
    def reject(self, key: str) -> None:
        if key != OWN:
            self.book.reject(key, 0.0)
            self.turned_away.add(key)
            self.by_people.discard(key)

    @rule(giver=KEYS, keys=st.sets(KEYS))
    def introduce(self, giver: str, keys: set[str]) -> None:
        self.book.introduced(giver, [(fingerprint(key), "n") for key in sorted(keys)], 0.0)

    @rule()
    def restart(self) -> None:
        rows = self.book.rows()
        self.book = TrustBook(OWN, rows)
        assert self.book.rows() == rows

    @invariant()
    def people_decide(self) -> None:
        assert all(self.book.trusts(key) for key in self.by_people)
        assert not any(self.book.trusts(key) for key in self.turned_away)
        assert not self.book.trusts(OWN)

    @invariant()
    def introduced_by_whom_people_trust(self) -> None:
        for entry in self.book.accepted.values():
            if entry.introduced_by:
                giver = self.book.accepted[entry.introduced_by]
                assert giver.is_introducer and giver.by == "person" and not entry.is_introducer

    @invariant()
    def each_key_is_in_one_place(self) -> None:
        groups = [set(self.book.accepted), set(self.book.out), set(self.book.waiting)]
        assert sum(map(len, groups)) == len(set().union(*groups))


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


# Tests of how keys are named, and of what is read back of them.


KEY = TestKey(7).text


def test_a_key_and_its_fingerprint_however_typed_name_the_same() -> None:
    mark = fingerprint(KEY)
    assert fingerprint_of(KEY) == (mark, KEY)
    assert fingerprint_of(f"  {mark.lower().replace('-', ' ')}\n") == (mark, "")


@pytest.mark.parametrize("text", ["", "n0", KEY[:-2], fingerprint(KEY)[:11], fingerprint(KEY)[:-1] + "?"])
def test_anything_else_names_nobody(text: str) -> None:
    with pytest.raises(InvalidMessage, match="expected a public key"):
        fingerprint_of(text)


def test_what_was_kept_is_read_back() -> None:
    entry = TrustEntry(fingerprint(KEY), KEY, "n1", "10.0.0.1:4000", 5.0, "person", True)
    assert read_row(asdict(entry) | {"out": False, "newer": 1}) == (entry, False)
    assert read_row({"fingerprint": fingerprint(KEY), "out": True}) == (TrustEntry(fingerprint(KEY)), True)


@pytest.mark.parametrize(
    "row", [{}, {"fingerprint": 3}, {"fingerprint": "x"}, {"fingerprint": fingerprint(KEY), "key": "x"}]
)
def test_a_damaged_row_is_nobody(row: dict[str, object]) -> None:
    assert read_row(row)[0] is None


def test_people_tell_entries_apart_by_name_and_fingerprint() -> None:
    mark = fingerprint(KEY)
    assert TrustEntry(mark, name="n1").label == f"n1 ({mark[:11]})"
    assert TrustEntry(mark).label == f"a node ({mark[:11]})"
