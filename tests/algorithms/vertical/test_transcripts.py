"""What a holder receives tells it the sizes and the common ids, and looks the same whatever the others' other ids are.

Two alignments with the same secrets differ only in the ids of one holder that are not common. What the others receive
must have the same structure, and the same bits as far as it stands for common ids. The rest must be distributed alike:
the largest difference of any bit between two samples stays below a bound, and does not where a bit leaks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

from flnet.algorithms.vertical.groups import Group, Items
from flnet.algorithms.vertical.holder import Aligned, Chunk, Kind
from flnet.algorithms.vertical.key_value_store import VALUE_BYTES, bin_numbers, decode
from flnet.algorithms.vertical.many_holders import ManyFollower, ManyLeader, look_up, outputs
from tests.algorithms.vertical.playing import Play, play

pytestmark = pytest.mark.slow
BOUND = 5.0  # standard deviations; of 256 bits, any has a larger difference with a probability below 2e-4
COMMON = [f"common-{n}" for n in range(100)]


@pytest.fixture
def group() -> Group:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    from flnet.security.prime_group import ed25519_group

    return ed25519_group()


def fresh(name: str, count: int = 700) -> list[str]:
    return [f"{name}-{n}" for n in range(count)]


def structure(plays: Play, name: str) -> list[tuple[Any, ...]]:
    """All that a holder receives but the contents of lists and of keys."""
    return [
        (type(m), m.sender, *((m.kind, m.number, m.total, len(m.items)) if isinstance(m, Chunk) else ()))
        for m in plays.received[name]
    ]


def difference(left: Items, right: Items) -> float:
    """How much more often any bit is 1 in one sample than in the other, in standard deviations."""
    ones = [np.unpackbits(items, axis=1).mean(axis=0) for items in (left, right)]
    spread = math.sqrt(0.25 / len(left) + 0.25 / len(right))
    return float(np.abs(ones[0] - ones[1]).max() / spread)


def leaking(items: Items) -> Items:
    """The same elements with one bit that is 1 in 80 % of them: a control that the bound can be broken."""
    changed = items.copy()
    changed[np.arange(len(items)) % 10 < 6, 11] |= 1
    return changed


def split(elements: Items, places: Sequence[int]) -> tuple[Items, Items]:
    """The elements of the common ids, and all others."""
    is_common = np.zeros(len(elements), np.bool_)
    is_common[list(places)] = True
    return elements[is_common], elements[~is_common]


def places_of(plays: Play, name: str, ids: Sequence[str]) -> list[int]:
    """Where ids stand in the list that a holder sends."""
    shuffle = plays.machines[name]._randomness.shuffle
    return [place for place, row in enumerate(shuffle) if plays.sets[name][row] in set(ids)]


def pair(other_a: str, other_b: str, group: Group) -> Play:
    return play({"a": COMMON + fresh(other_a), "b": COMMON + fresh(other_b)}, group, chunk=128)


def test_the_leader_learns_nothing_of_a_followers_other_ids(group: Group) -> None:
    first, second = pair("x", "y", group), pair("x", "z", group)
    assert structure(first, "a") == structure(second, "a")
    assert first.common("a") == second.common("a")
    raised = [plays.received_list("a", Kind.RAISED) for plays in (first, second)]
    assert np.array_equal(raised[0], raised[1]), "what it raised does not depend on its own ids"
    own = [plays.received_list("a", Kind.OWN) for plays in (first, second)]
    places = places_of(first, "b", COMMON)
    (common, others), (again, fresh_others) = (split(elements, places) for elements in own)
    assert np.array_equal(common, again)
    assert not {row.tobytes() for row in others} & {row.tobytes() for row in fresh_others}
    assert difference(others, fresh_others) < BOUND
    assert difference(others, common) < BOUND
    assert difference(others, leaking(fresh_others)) > BOUND


def test_a_follower_learns_nothing_of_the_leaders_other_ids(group: Group) -> None:
    first, second = pair("x", "y", group), pair("z", "y", group)
    assert structure(first, "b") == structure(second, "b")
    assert first.common("b") == second.common("b")
    matches = [plays.received_list("b", Kind.MATCHES, width=36) for plays in (first, second)]
    assert np.array_equal(matches[0], matches[1])
    blinded = [plays.received_list("b", Kind.BLINDED) for plays in (first, second)]
    places = places_of(first, "a", COMMON)
    (common, others), (again, fresh_others) = (split(elements, places) for elements in blinded)
    assert np.array_equal(common, again)
    assert difference(others, fresh_others) < BOUND
    assert difference(others, common) < BOUND
    assert difference(others, leaking(fresh_others)) > BOUND


def test_common_ids_stand_anywhere_in_a_list(group: Group) -> None:
    """They are the first rows of each holder; in what is sent, they are as often in one half as in the other."""
    done = pair("x", "y", group)
    for name in "ab":
        places = places_of(done, name, COMMON)
        in_first_half = sum(place < 400 for place in places)
        assert abs(in_first_half - 50) < 4 * math.sqrt(100 / 4)


# Three holders


def own(plays: Play, name: str, ids: Sequence[str]) -> Items:
    """(n, 32) ids of a follower, as it alone blinds them."""
    machine = plays.machines[name]
    assert isinstance(machine, ManyFollower)
    return machine._own[[plays.sets[name].index(i) for i in ids]]


def in_table(plays: Play, name: str, ids: Sequence[str]) -> Items:
    """(n, 16) what the table of a follower has for its own ids, masks included."""
    keys = outputs(plays.machines[name]._binding, name, own(plays, name, ids))
    table = plays.received_list("a", Kind.TABLE, name, VALUE_BYTES)
    return decode(table, bin_numbers(keys[:, :8], len(plays.sets[name])), keys[:, 8:36])


def many(ids_of_b: list[str], ids_of_c: list[str], group: Group, ids_of_a: list[str] | None = None) -> Play:
    ids = COMMON + (fresh("x") if ids_of_a is None else ids_of_a)
    return play({"a": ids, "b": COMMON + ids_of_b, "c": COMMON + ids_of_c}, group, chunk=128)


def shares(plays: Play, name: str, ids: Sequence[str]) -> Items:
    """(n, 16) what the leader looks up for some of its ids in the table of a follower."""
    machine = plays.machines["a"]
    assert isinstance(machine, ManyLeader)
    places = places_of(plays, "a", ids)
    elements = machine._answers[name].items[places]
    table = plays.received_list("a", Kind.TABLE, name, VALUE_BYTES)
    return look_up(machine._binding, name, elements, table, len(plays.sets[name]))


def test_the_leader_does_not_learn_which_ids_only_one_follower_shares(group: Group) -> None:
    """b has all ids of the leader in one alignment, and only those that c has, too, in the other."""
    shared, alone = many(fresh("x"), fresh("y"), group), many(fresh("z"), fresh("y"), group)
    assert structure(shared, "a") == structure(alone, "a")
    assert shared.common("a") == alone.common("a")
    assert set(shared.common("a")) == set(COMMON)
    for name in "bc":
        raised = [plays.received_list("a", Kind.RAISED, name) for plays in (shared, alone)]
        assert np.array_equal(raised[0], raised[1])
        tables = [plays.received_list("a", Kind.TABLE, name, VALUE_BYTES) for plays in (shared, alone)]
        assert difference(*tables) < BOUND
        assert difference(tables[0], leaking(tables[1])) > BOUND
        looked_up = [shares(plays, name, fresh("x")) for plays in (shared, alone)]
        assert difference(*looked_up) < BOUND
        assert len({row.tobytes() for row in looked_up[0]}) == len(looked_up[0])
    for plays in (shared, alone):
        sums = shares(plays, "b", plays.sets["a"]) ^ shares(plays, "c", plays.sets["a"])
        assert int((~sums.any(axis=1)).sum()) == len(COMMON)


def test_the_leader_does_not_learn_which_ids_only_followers_share(group: Group) -> None:
    shared, apart = many(fresh("y"), fresh("y"), group), many(fresh("y"), fresh("z"), group)
    assert structure(shared, "a") == structure(apart, "a")
    assert shared.common("a") == apart.common("a")
    tables = [plays.received_list("a", Kind.TABLE, "c", VALUE_BYTES) for plays in (shared, apart)]
    assert difference(*tables) < BOUND
    stored = [in_table(shared, name, fresh("y")) for name in "bc"]
    binding = shared.machines["a"]._binding
    masks = [outputs(binding, name, own(shared, name, fresh("y")))[:, 36:52] for name in "bc"]
    assert not (stored[0] == stored[1]).all(axis=1).any(), "a leader could find equal sums of slots in both tables"
    assert np.array_equal(stored[0] ^ masks[0], stored[1] ^ masks[1]), "the shares of two followers are equal"


def test_a_follower_learns_nothing_but_its_common_rows_and_the_size_of_the_leader(group: Group) -> None:
    first = many(fresh("y"), fresh("x", 300), group)
    second = many(fresh("y"), fresh("z", 20), group, fresh("w"))
    assert structure(first, "b") == structure(second, "b")
    matches = [plays.received_list("b", Kind.MATCHES, width=48) for plays in (first, second)]
    tags = [{row.tobytes() for row in items[:, :16]} for items in matches]
    assert tags[0] == tags[1], "tags of its own rows: they are its own hashes"
    blinded = [plays.received_list("b", Kind.BLINDED) for plays in (first, second)]
    assert difference(*blinded) < BOUND
    assert {row.tobytes() for row in blinded[0]}.isdisjoint(row.tobytes() for row in matches[0][:, 16:])


def test_what_a_leader_and_a_follower_learn_who_put_their_knowledge_together(group: Group) -> None:
    """It is not promised that they learn no more: with the key of b and c, c's share of each id is known."""
    done = many(fresh("y"), fresh("x", 300), group)
    b = done.machines["b"]
    assert isinstance(b, ManyFollower)
    key, ids = b._keys["c"], done.sets["a"]
    expected = {blake3(name.encode(), key=key).digest(VALUE_BYTES): name for name in ids}
    seen = {expected[row.tobytes()] for row in shares(done, "c", ids) if row.tobytes() in expected}
    assert seen == set(ids) & set(done.sets["c"])


def test_followers_that_pool_what_they_received_have_no_element_of_the_leader_in_common(group: Group) -> None:
    done = many(fresh("y"), fresh("y"), group)
    raised = [done.received_list("a", Kind.RAISED, name) for name in "bc"]
    assert {row.tobytes() for row in raised[0]}.isdisjoint(row.tobytes() for row in raised[1])
    end = done.ends["a"]
    assert isinstance(end, Aligned) and len(end.agreement.rows) == len(COMMON)
