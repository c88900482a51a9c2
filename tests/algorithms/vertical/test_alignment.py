"""Alignment of two, three and four holders: all agree on the common ids and their order, and on nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.groups import Group
from flnet.algorithms.vertical.holder import (
    PROTOCOL,
    Aligned,
    AlignmentOpening,
    Chunk,
    Failed,
    Kind,
    Randomness,
    Terms,
    common,
    in_order,
)
from flnet.algorithms.vertical.many_holders import ManyFollower
from flnet.errors import AlignmentRefused, IllegalStep
from tests.algorithms.vertical.playing import TWIN, Play, Sets, play, seed

NAMES = "abcd"


@pytest.fixture
def real_group() -> Group:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    from flnet.security.prime_group import ed25519_group

    return ed25519_group()


@st.composite
def holders(draw: st.DrawFn) -> Sets:
    """Two to four holders, each with some of thirty ids in any order."""
    ids = st.lists(st.integers(0, 29).map(lambda n: f"id-{n}"), min_size=1, unique=True)
    return {name: draw(ids) for name in NAMES[: draw(st.integers(2, 4))]}


@given(holders(), st.integers(1, 9), st.randoms(use_true_random=False))
def test_all_holders_agree_on_the_ids_that_all_of_them_have(sets: Sets, chunk: int, order: random.Random) -> None:
    done = Play(sets, chunk=chunk, order=order).run()
    expected = set.intersection(*map(set, sets.values()))
    assert done.ends.keys() == sets.keys()
    assert [set(done.common(name)) for name in sets] == [expected] * len(sets)
    assert len({tuple(done.common(name)) for name in sets}) == 1
    if expected:
        assert len({done.digest(name) for name in sets}) == 1
    else:
        assert all(isinstance(end, Failed) for end in done.ends.values())


@given(holders(), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_rows(sets: Sets, order: random.Random) -> None:
    shuffled = {name: order.sample(ids, len(ids)) for name, ids in sets.items()}
    assert play(sets).common("a") == play(shuffled).common("a")


def test_the_order_is_that_of_no_holder_and_another_one_each_time() -> None:
    sets = {name: [f"id-{n:02}" for n in range(40)] for name in "abc"}
    for names in ("ab", "abc"):
        mine = {name: sets[name] for name in names}
        first, other = play(mine), play(mine, seeds={"b": seed("another")})
        assert first.common("a") != sorted(first.common("a"))
        assert first.common("a") != other.common("a")
        assert sorted(first.common("a")) == sorted(other.common("a"))


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "dcab"])
def test_ids_of_some_holders_only_are_common_nowhere(names: str, real_group: Group) -> None:
    shared = {"a": "xy", "b": "xy", "c": "xz", "d": "xyz"}
    sets = {name: [*shared[name], f"only-{name}", "maría", "7"] for name in names}
    expected = {"x", "maría", "7"} | ({"y"} if "c" not in names else set())
    done = play(sets, real_group)
    assert [set(done.common(name)) for name in names] == [expected] * len(names)
    assert len({tuple(done.common(name)) for name in names}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_thousands_of_ids_in_many_chunks(names: str) -> None:
    starts = {"a": 0, "b": 700, "c": 300}
    sets = {name: [f"id-{n}" for n in range(starts[name], starts[name] + 2000)] for name in names}
    done = Play(sets, chunk=256).run()
    expected = {f"id-{n}" for n in range(700, 2000)}
    assert [set(done.common(name)) for name in names] == [expected] * len(names)
    assert done.common("a") == done.common("b")
    assert done.units.count("hash") == 8 * len(names)


def test_no_unit_of_work_is_larger_than_a_chunk() -> None:
    done = Play({name: [f"id-{n}" for n in range(70)] for name in "ab"}, chunk=8).run()
    sizes = [
        len(message.items)
        for messages in done.received.values()
        for message in messages
        if isinstance(message, Chunk)
    ]
    assert max(sizes) == 8 * 32
    assert done.units.count("blind") == 2 * 9  # both lists of 70, in chunks of 8


def test_a_holder_sends_its_rows_in_an_order_of_its_own() -> None:
    """Where all ids are common, the elements of the end show which of them stood where in the leader's list."""
    ids = [f"id-{n:03}" for n in range(200)]

    def correlation(plays: Play) -> float:
        """Between the places in the leader's list and its rows, as far as the follower can see."""
        end = plays.ends["b"]
        assert isinstance(end, Aligned)
        matches = plays.received_list("b", Kind.MATCHES, width=36)
        places = common(matches[:, 4:], plays.received_list("a", Kind.RAISED))[1]
        rows_of_a = [ids.index(plays.sets["b"][row]) for row in end.agreement.rows]
        return abs(float(np.corrcoef(places, rows_of_a)[0, 1]))

    plays = Play({"a": ids, "b": ids[::-1]})
    unshuffled = Play({"a": ids, "b": ids[::-1]})
    machine = unshuffled.machines["a"]
    machine._randomness.shuffle[:] = np.arange(200)  # a leader that sends its rows as they are: it would be told
    assert correlation(unshuffled.run()) > 0.999
    assert correlation(plays.run()) < 0.3  # of independent orders: four standard deviations


# Terms


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"session": ""}, "1 to 64 letters"),
        ({"session": "a b"}, "1 to 64 letters"),
        ({"session": "x" * 65}, "1 to 64 letters"),
        ({"holders": ("a",)}, "two or more different holders"),
        ({"holders": ("a", "b", "a")}, "two or more different holders"),
    ],
)
def test_terms_that_break_a_rule_are_refused(changes: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(AlignmentRefused, match=words):
        Terms(**{"session": "s-1", "holders": ("a", "b"), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": "flnet-psi-2"}, f"protocol of the alignment differs: {PROTOCOL} here, flnet-psi-2 at 'a'"),
        ({"rule": "flnet-ids-0"}, "rule of ids differs: flnet-ids-1 here, flnet-ids-0 at 'a'"),
        ({"group": "edwards25519"}, "group of the elements differs: safe-prime-64-for-tests here"),
        ({"holders": ("a", "c")}, "list of holders differs: a, b here, a, c at 'a'"),
        ({"chunk": 5}, "number of elements of a chunk differs: 4 here, 5 at 'a'"),
        ({"count": 0}, "'a' has 0 ids"),
        ({"count": 1_000_001}, "'a' has 1000001 ids; from 1 to 1000000"),
    ],
)
def test_holders_with_different_rules_do_not_begin(changes: dict[str, object], words: str) -> None:
    plays = Play({"a": ["1"], "b": ["1"]})
    opening = plays.run_until("b", AlignmentOpening)
    assert isinstance(opening, AlignmentOpening)
    with pytest.raises(AlignmentRefused, match=words):
        plays.deliver("b", AlignmentOpening(**{**vars(opening), **changes}))
    plays.deliver("b", opening)
    assert plays.run().common("b") == ["1"]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_an_agreement_on_other_ids_or_in_another_order_has_another_digest(names: str) -> None:
    digests = set()
    for last in "xyz":
        sets = {name: ["1", "2", last] for name in names}
        digests |= {play(sets).digest("a"), play(sets, seeds={"b": seed("another")}).digest("a")}
    assert len(digests) == 6


def test_each_two_followers_have_a_key_of_their_own_that_needs_their_secrets() -> None:
    sets = {name: ["1", "2"] for name in "abcd"}

    def keys(**seeds: bytes) -> dict[str, bytes]:
        machines = play(sets, seeds=seeds).machines
        of_pairs: dict[str, bytes] = {}
        for name in "bcd":
            machine = machines[name]
            assert isinstance(machine, ManyFollower)
            for other, key in machine._keys.items():
                pair = "".join(sorted((name, other)))
                assert of_pairs.setdefault(pair, key) == key
        return of_pairs

    first, second = keys(), keys(b=seed("another"))
    assert len(set(first.values())) == 3
    assert first["cd"] == second["cd"]
    assert first["bc"] != second["bc"] and first["bd"] != second["bd"]


@pytest.mark.parametrize(("names", "kind"), [("ab", Kind.BLINDED), ("ab", Kind.OWN), ("abc", Kind.BLINDED)])
def test_even_equal_secrets_show_no_equal_ids_in_two_alignments(names: str, kind: Kind) -> None:
    sets = {name: [f"id-{n}" for n in range(20)] for name in names}
    to = "a" if kind == Kind.OWN else "b"
    first, second = (Play(sets, session=name).run().received_list(to, kind) for name in ("s-1", "s-2"))
    assert len(first) == len(second) == 20
    assert {row.tobytes() for row in first}.isdisjoint(row.tobytes() for row in second)


def test_nothing_of_one_alignment_fits_another() -> None:
    bindings = {
        Terms(session, names).binding(TWIN)
        for session in ("s", "t")
        for names in (("a", "b"), ("b", "a"), ("a", "b", "c"), ("ab", "c"), ("a", "bc"))
    }
    assert len(bindings) == 10


@pytest.mark.parametrize(
    ("me", "ids", "rows"), [("c", ["1"], 1), ("b", [], 0), ("b", ["1", "1"], 2), ("b", ["1", "2"], 1)]
)
def test_misuse_is_no_fault_of_a_peer(me: str, ids: list[str], rows: int) -> None:
    from flnet.algorithms.vertical.alignment import follower

    with pytest.raises(ValueError, match="ids="):
        follower(Terms("s", ("a", "b")), me, ids, TWIN, Randomness.draw(TWIN, rows, seed("x")))


def test_results_of_other_work_are_a_bug() -> None:
    plays = Play({"a": ["1"], "b": ["1"]})
    work = plays.work["a"]
    plays.do("a")
    with pytest.raises(IllegalStep, match="was not asked for last"):
        plays.machines["a"].finished(work, work.run())


def test_secrets_come_from_the_seed_and_are_not_shown() -> None:
    drawn = [Randomness.draw(TWIN, 50, seed(name)) for name in "aab"]
    assert drawn[0].secret == drawn[1].secret != drawn[2].secret
    assert len({drawn[0].secret, drawn[0].pair_secret, drawn[0].fill}) == 3
    assert sorted(drawn[0].shuffle) == list(range(50)) != list(drawn[0].shuffle)
    assert drawn[0].secret.hex() not in repr(drawn[0]) and repr(drawn[0].secret) not in repr(drawn[0])
    with pytest.raises(ValueError, match="seed=31"):
        Randomness.draw(TWIN, 50, bytes(31))


# Lists of items


@given(st.sets(st.binary(min_size=5, max_size=5)), st.sets(st.binary(min_size=5, max_size=5)), st.randoms())
def test_common_items_are_found_in_the_order_of_their_bytes(
    left: set[bytes], right: set[bytes], order: random.Random
) -> None:
    lists = [order.sample(sorted(items), len(items)) for items in (left, right | set(sorted(left)[:3]))]
    first, second = (np.frombuffer(b"".join(items), np.uint8).reshape(-1, 5) for items in lists)
    places, others = common(first, second)
    expected = sorted(set(lists[0]) & set(lists[1]))
    assert [lists[0][at] for at in places] == [lists[1][at] for at in others] == expected
    assert in_order(first[places])
    assert in_order(first) == (lists[0] == sorted(lists[0]))


def test_an_item_that_is_there_twice_is_refused() -> None:
    one, two = np.zeros((1, 3), np.uint8), np.ones((2, 3), np.uint8)
    for left, right in ((two, one), (one, two), (two, two), (two, np.ones((1, 3), np.uint8))):
        with pytest.raises(AlignmentRefused, match="twice"):
            common(left, right)
    assert not in_order(two)
