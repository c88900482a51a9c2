"""Masks of secure sums: they cancel, they hide, nodes may vanish at every step, and planted faults are seen."""

from __future__ import annotations

import base64
import copy
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from flnet.algorithms.secure_sum import MeanEncoder, Numbers, add_signed, pair_sign, threshold
from flnet.algorithms.shamir import SHARE_BYTES
from flnet.errors import InvalidMessage, LocalError
from flnet.security.masking import (
    GatheredShares,
    MaskingGroup,
    Public,
    Revealed,
    SumSecrets,
    bound_to,
    unmask,
    with_streams,
)
from tests.algorithms.secure_cases import case, must_equal

CONTEXT = bound_to("test", "mesh", "MNIST", 7, 0)
All = Mapping[str, Mapping[str, Revealed]]


@dataclass
class Sum:
    """Nodes that share their secrets for one sum."""

    nodes: dict[str, SumSecrets]
    group: MaskingGroup

    @property
    def names(self) -> list[str]:
        return self.group.names

    def reveal(
        self, inside: Collection[str], by: Iterable[str] | None = None
    ) -> dict[str, Mapping[str, Revealed]]:
        return {name: self.nodes[name].reveal(inside) for name in (inside if by is None else by)}

    def masked(self, vector: Numbers, inside: Iterable[str] | None = None) -> dict[str, Numbers]:
        return {name: self.nodes[name].mask(vector) for name in (self.names if inside is None else inside)}


def meet(
    count: int,
    seed: int | None = None,
    *,
    context: bytes = CONTEXT,
    needed: int | None = None,
) -> Sum:
    """So many nodes after they exchanged their shares.

    Args:
        seed: of their secrets; drawn by the system if absent.
    """
    names = [f"node-{number:02d}" for number in range(count)]
    source = {} if seed is None else {"random": Random(seed).randbytes}
    nodes = {name: SumSecrets(context, name, **source) for name in names}
    group = MaskingGroup(context, {name: one.public for name, one in nodes.items()}, needed or threshold(count))
    sent = {name: one.shares_for(group.members, group.threshold) for name, one in nodes.items()}
    for sender, receivers in sent.items():
        for receiver, ciphertext in receivers.items():
            nodes[receiver].take_shares(sender, ciphertext)
    return Sum(nodes, group)


def total_of(vectors: Mapping[str, Numbers] | Sequence[Numbers]) -> Numbers:
    rows = list(vectors.values() if isinstance(vectors, Mapping) else vectors)
    total: Numbers = np.sum(rows, axis=0, dtype=rows[0].dtype)
    return total


VECTOR = np.arange(20_000, dtype=np.uint32)


def looks_uniform(numbers: Numbers) -> bool:
    """Chi-square over the values of all bytes, and over limbs of 16 bits: both within five deviations of chance."""
    for dtype in (np.uint8, np.uint16):
        counts = np.bincount(numbers.view(dtype), minlength=np.iinfo(dtype).max + 1)
        expected = counts.sum() / len(counts)
        square = float(((counts - expected) ** 2).sum() / expected)
        free = len(counts) - 1
        if abs(square - free) > 5 * (2 * free) ** 0.5:
            return False
    return True


# Sums


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385])
def test_masks_come_off_the_sum_of_all(count: int, dtype: Any, size: int) -> None:
    nodes, vector = meet(count), np.arange(size).astype(dtype) - dtype(5)
    masked = nodes.masked(vector)
    if size > 1:
        assert not any((one == vector).all() for one in masked.values())
    opened = unmask(total_of(masked), nodes.group, nodes.names, nodes.reveal(nodes.names))
    assert (opened.numbers == vector * dtype(count)).all()
    assert opened.numbers.dtype == dtype
    assert not opened.suspects


@pytest.mark.parametrize(("count", "away"), [(3, 1), (4, 1), (10, 3), (30, 10)])
def test_nodes_may_vanish_before_they_send_their_vectors(count: int, away: int) -> None:
    nodes = meet(count)
    inside = [
        name
        for place, name in enumerate(nodes.names)
        if place % (count // away) or place // (count // away) >= away
    ]
    assert len(inside) == count - away
    opened = unmask(total_of(nodes.masked(VECTOR, inside)), nodes.group, inside, nodes.reveal(inside))
    assert (opened.numbers == VECTOR * np.uint32(len(inside))).all()


def test_nodes_may_vanish_before_and_after_they_sent() -> None:
    """One sent no vector, another one gave no shares at the end."""
    nodes = meet(10)
    inside = [name for name in nodes.names if name != "node-08"]
    total = total_of([nodes.nodes[name].mask(VECTOR) for name in inside])
    helpers = [name for name in inside if name != "node-00"]
    revealed = {name: nodes.nodes[name].reveal(inside) for name in helpers}
    opened = unmask(total, nodes.group, inside, revealed)
    assert (opened.numbers == VECTOR * np.uint32(9)).all()


def test_who_is_not_in_the_sum_may_help_and_sends_nothing_afterwards() -> None:
    nodes = meet(4)
    inside = nodes.names[:3]
    total = total_of(nodes.masked(VECTOR, inside))
    opened = unmask(total, nodes.group, inside, nodes.reveal(inside, [nodes.names[3], *inside[1:]]))
    assert (opened.numbers == VECTOR * np.uint32(3)).all()
    with pytest.raises(LocalError, match="or the sum was opened"):
        nodes.nodes[nodes.names[3]].mask(VECTOR)


@pytest.mark.parametrize("seed", range(40))
def test_the_mean_through_masks_and_shares_is_the_plain_one(seed: int) -> None:
    found = case(1000 + seed)
    nodes = meet(len(found.members))
    terms = MeanEncoder(found.schema, found.base, len(nodes.names), found.weighting, bits=found.bits)
    place = dict(zip(found.members, nodes.names, strict=True))
    inside = [place[one.peer] for one in found.updates]
    sent = [terms.encode(one.params, one.examples or 0, one.labels) for one in found.updates]
    masked = [nodes.nodes[name].mask(one.numbers) for name, one in zip(inside, sent, strict=True)]
    opened = unmask(total_of(masked), nodes.group, inside, nodes.reveal(inside))
    must_equal(found, terms.decode(opened.numbers, len(inside)))


def test_the_keys_of_two_members_agree_and_every_purpose_and_direction_has_its_own() -> None:
    """Nonces are 0, so one key for two messages would show both."""
    group = meet(3, seed=2).group
    random, private = Random(2), {}
    for name in group.names:
        _, *keys = (random.randbytes(32) for _ in range(3))
        private[name] = [X25519PrivateKey.from_private_bytes(key) for key in keys]
    one, other, third = group.names
    (share, mask), (their_share, their_mask) = private[one], private[other]
    there, back = group.share_key(share, other, one, other), group.share_key(share, other, other, one)
    assert there == group.share_key(their_share, one, one, other)
    assert back == group.share_key(their_share, one, other, one)
    assert group.pair_key(one, mask, other) == group.pair_key(other, their_mask, one)
    seed = bytes(32)
    keys = [there, back, group.pair_key(one, mask, other), group.pair_key(one, mask, third)]
    keys += [group.self_key(name, seed) for name in group.names]
    assert len({*keys}) == len(keys)


def test_each_mask_is_the_stream_of_its_key_with_the_sign_of_the_pair() -> None:
    group = meet(2, seed=1).group
    random = Random(1)
    seed, _, key = (random.randbytes(32) for _ in range(3))
    by_hand = with_streams(np.zeros(100, np.uint32), [(group.self_key("node-00", seed), 1)])
    pair = with_streams(
        np.zeros(100, np.uint32),
        [(group.pair_key("node-00", X25519PrivateKey.from_private_bytes(key), "node-01"), 1)],
    )
    add_signed(by_hand, pair, pair_sign("node-00", "node-01"))
    assert (meet(2, seed=1).nodes["node-00"].mask(np.zeros(100, np.uint32)) == by_hand).all()


# What is seen


def known_to(
    colluders: Sequence[str], nodes: Sum, private: Mapping[str, X25519PrivateKey], masked: Numbers, owner: str
) -> Numbers:
    """A masked vector after colluding nodes took off the masks that they share with its owner."""
    streams = [
        (nodes.group.pair_key(name, private[name], owner), -pair_sign(owner, name))
        for name in colluders
        if name != owner
    ]
    return with_streams(masked, streams)


def recorded(nodes: Sum, seed: int, vector: Numbers) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """What three of ten nodes that collude have of each other node's vector: before the sum is opened, and after."""
    random, private, seeds = Random(seed), {}, {}
    for name in nodes.names:  # in the order in which the nodes drew them
        seeds[name], _, key = (random.randbytes(32) for _ in range(3))
        private[name] = X25519PrivateKey.from_private_bytes(key)
    colluders, masked = nodes.names[:3], nodes.masked(vector)
    before = {name: known_to(colluders, nodes, private, masked[name], name) for name in nodes.names[3:]}
    after = {
        name: with_streams(one, [(nodes.group.self_key(name, seeds[name]), -1)]) for name, one in before.items()
    }
    return before, after


@pytest.mark.parametrize("seed", range(3))
def test_what_reaches_a_node_looks_uniform_also_to_three_that_collude(seed: int) -> None:
    zeros = np.zeros(500_000, np.uint32)
    nodes = meet(10, seed)
    before, after = recorded(nodes, seed, zeros)
    for seen in (before, after):
        assert all(looks_uniform(one) for one in seen.values())
        assert all(looks_uniform(one - other) for one, other in itertools.combinations(seen.values(), 2))
        assert looks_uniform(total_of(list(seen.values())[:-1]))
    assert looks_uniform(total_of(before))
    assert not total_of(after).any()  # the sum of the honest nodes: what a secure sum is for


def test_the_check_of_uniformity_sees_structure() -> None:
    noise = np.random.default_rng(9).integers(0, 2**32, 500_000, np.uint32)
    assert looks_uniform(noise)
    assert not looks_uniform(np.zeros(500_000, np.uint32))
    assert not looks_uniform(np.arange(500_000, dtype=np.uint32))
    assert not looks_uniform(noise & np.uint32(0x7FFFFFFF))


def test_shares_on_their_way_show_nothing_and_nothing_is_printed() -> None:
    sizes, secret = set(), Random(3).randbytes(32)
    for seed in (3, 4):
        random = Random(seed)
        nodes = {name: SumSecrets(CONTEXT, name, random.randbytes) for name in "abc"}
        members = {name: one.public for name, one in nodes.items()}
        for name, one in nodes.items():
            assert repr(one) == str(one) == f"SumSecrets({name!r})"
            sizes |= {len(sent) for sent in one.shares_for(members, 2).values()}
    assert sizes == {2 * SHARE_BYTES + 16}
    share = Revealed("self", secret + b"\0")
    assert repr(share) == "Revealed(kind='self')"


@pytest.mark.parametrize("write", [copy.copy, copy.deepcopy, lambda one: one.__reduce_ex__(5)])
def test_secrets_cannot_be_copied_nor_written(write: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="neither copied nor written"):
        write(SumSecrets(CONTEXT, "a"))


# Below the threshold nothing opens


def test_too_few_shares_open_nothing() -> None:
    nodes = meet(10)
    total = total_of(nodes.masked(VECTOR))
    six = nodes.reveal(nodes.names, nodes.names[:6])
    with pytest.raises(InvalidMessage, match="6 members gave a share of a secret of 'node-00', and 7 are needed"):
        unmask(total, nodes.group, nodes.names, six)
    inside = nodes.names[1:]
    nodes = meet(10)
    with pytest.raises(InvalidMessage, match="this sum stays closed"):
        unmask(total_of(nodes.masked(VECTOR, inside)), nodes.group, inside, nodes.reveal(inside, inside[:6]))


def test_an_honest_node_opens_one_set_of_contributors_only() -> None:
    nodes = meet(4)
    nodes.masked(VECTOR)
    one = nodes.nodes["node-00"]
    first = one.reveal(nodes.names[:3])
    assert {owner: given.kind for owner, given in first.items()} == {
        "node-00": "self",
        "node-01": "self",
        "node-02": "self",
        "node-03": "pair",
    }
    assert one.reveal(reversed(nodes.names[:3])) == first  # type: ignore[arg-type]
    for others in (nodes.names, nodes.names[1:]):
        with pytest.raises(LocalError, match="opened for other contributors"):
            one.reveal(others)


def twice(seed: int, first: Collection[str], second: Collection[str], by: Iterable[str]) -> tuple[Sum, All, All]:
    """The planted fault: these nodes reveal for two sets, which two copies of each of them can be made to do."""
    nodes, copies = meet(4, seed), meet(4, seed)
    chosen = list(by)
    return nodes, nodes.reveal(first, chosen), copies.reveal(second, chosen)


def test_both_kinds_of_shares_would_open_a_single_vector() -> None:
    """Why `reveal` refuses a second set: whoever gets both kinds has what that node sent."""
    names = meet(4, 5).names
    nodes, one, other = twice(5, names, names[1:], names)
    vector = meet(4, 5).nodes["node-00"].mask(VECTOR)
    seed = GatheredShares(nodes.group, one).secret("node-00", "self")
    key = X25519PrivateKey.from_private_bytes(GatheredShares(nodes.group, other).secret("node-00", "pair"))
    streams = [(nodes.group.self_key("node-00", seed), -1)]
    streams += [(nodes.group.pair_key("node-00", key, name), -pair_sign("node-00", name)) for name in names[1:]]
    assert (with_streams(vector, streams) == VECTOR).all()
    with pytest.raises(LocalError):
        nodes.reveal(names[1:], ["node-00"])


def test_three_of_ten_that_collude_cannot_have_both_kinds() -> None:
    """They tell some honest nodes that node-09 is in the sum, and others that it is not."""
    for believing in range(8):
        nodes, liars = meet(10, 6), meet(10, 6)
        names, inside, honest = nodes.names, nodes.names[:9], nodes.names[3:]
        with_it = {**nodes.reveal(names, names[:3]), **nodes.reveal(names, honest[:believing])}
        without = {**liars.reveal(inside, names[:3]), **nodes.reveal(inside, honest[believing:])}
        opened = 0
        for kind, held in (("self", with_it), ("pair", without)):
            try:
                GatheredShares(nodes.group, held).secret("node-09", kind)  # type: ignore[arg-type]
                opened += 1
            except InvalidMessage:
                pass
        assert opened < 2


@pytest.mark.parametrize(("count", "inside"), [(4, 2), (10, 6)])
def test_a_group_below_the_threshold_is_not_opened(count: int, inside: int) -> None:
    nodes = meet(count)
    with pytest.raises(LocalError, match="expected at least"):
        nodes.nodes["node-00"].reveal(nodes.names[:inside])


def test_who_is_no_member_cannot_be_in_a_sum() -> None:
    nodes = meet(10)
    with pytest.raises(LocalError, match="a sum over 7 of 10 members"):
        nodes.nodes["node-02"].reveal([*nodes.names[:7], "stranger"])


# Planted faults


def test_masks_are_for_one_vector() -> None:
    one = meet(2).nodes["node-00"]
    one.mask(VECTOR)
    with pytest.raises(LocalError, match="masked in this sum before"):
        one.mask(VECTOR)


@pytest.mark.parametrize(
    "wrong", [np.zeros(3), np.zeros(3, np.int32), np.zeros((3, 1), np.uint32), np.zeros(3, np.uint16)]
)
def test_only_vectors_of_whole_numbers_are_masked(wrong: Any) -> None:
    one = meet(2).nodes["node-00"]
    with pytest.raises(ValueError, match="expected a vector of uint32 or uint64"):
        one.mask(wrong)
    assert one.mask(VECTOR).shape == VECTOR.shape  # nothing was used up


def differs_as(one: Numbers, other: Numbers, inputs: Numbers) -> bool:
    """What a reused mask shows: two masked vectors differ as their inputs do."""
    return bool((one - other == inputs).all())


def test_a_reused_mask_would_show_and_the_same_context_does_not_reuse_one() -> None:
    one, other = VECTOR, np.zeros_like(VECTOR)
    planted = [meet(3, seed=7).nodes["node-01"].mask(vector) for vector in (one, other)]  # the same secrets twice
    assert differs_as(planted[0], planted[1], one)
    assert not looks_uniform(planted[0] - planted[1])
    fresh = [meet(3).nodes["node-01"].mask(vector) for vector in (one, other)]
    assert not differs_as(fresh[0], fresh[1], one)
    assert looks_uniform(fresh[0] - fresh[1])
    again = [meet(3, 7, context=bound_to("test", number)).nodes["node-01"].mask(one) for number in (0, 1)]
    assert looks_uniform(again[0] - again[1])


def test_a_wrong_round_in_the_derivation_does_not_cancel() -> None:
    """The planted fault: one node derives its masks with the context of the round before."""
    nodes = meet(3, seed=8)
    wrong = MaskingGroup(bound_to("test", "mesh", "MNIST", 6, 0), nodes.group.members, nodes.group.threshold)
    random = Random(8)
    seed, _, key = (random.randbytes(32) for _ in range(3))  # of node-00, which drew first
    private = X25519PrivateKey.from_private_bytes(key)
    others = nodes.names[1:]
    planted = with_streams(
        VECTOR,
        [
            (wrong.self_key("node-00", seed), 1),
            *((wrong.pair_key("node-00", private, name), 1) for name in others),
        ],
    )
    honest = nodes.masked(VECTOR)
    revealed, three = nodes.reveal(nodes.names), VECTOR * np.uint32(3)
    right = unmask(total_of(honest), nodes.group, nodes.names, revealed)
    assert (right.numbers == three).all()
    opened = unmask(planted + total_of(list(honest.values())[1:]), nodes.group, nodes.names, revealed)
    assert looks_uniform(opened.numbers - three)


def two(context: bytes = CONTEXT, **members: SumSecrets) -> tuple[SumSecrets, SumSecrets, Mapping[str, Public]]:
    """Two of three members that are about to share."""
    nodes = {name: members.get(name) or SumSecrets(context, name) for name in "abc"}
    public = {name: one.public for name, one in nodes.items()}
    return nodes["a"], nodes["b"], public


def test_shares_are_taken_once_from_other_members() -> None:
    a, b, members = two()
    with pytest.raises(LocalError, match="not fixed yet"):
        b.take_shares("a", b"")
    sent = a.shares_for(members, 2)
    b.shares_for(members, 2)
    b.take_shares("a", sent["b"])
    for sender, words in (("a", "'a' sent its shares of this secure sum before"), ("b", "'b' is no other member")):
        with pytest.raises(InvalidMessage, match=words):
            b.take_shares(sender, sent["b"])
    with pytest.raises(InvalidMessage, match="'stranger' is no other member"):
        b.take_shares("stranger", sent["b"])
    with pytest.raises(LocalError, match="were made before"):
        a.shares_for(members, 2)


UNREADABLE = "cannot be read: they are damaged, or not made for 'b' and this secure sum"


@pytest.mark.parametrize(
    "bad",
    [
        lambda sent: sent["c"],  # for another receiver
        lambda sent: b"",
        lambda sent: sent["b"][:-1],
        lambda sent: bytes([sent["b"][0] ^ 1]) + sent["b"][1:],
        lambda sent: bytes(len(sent["b"])),
    ],
    ids=["receiver", "empty", "short", "changed", "zeros"],
)
def test_shares_that_are_damaged_or_for_another_receiver_are_refused_and_block_nothing(
    bad: Callable[[Mapping[str, bytes]], bytes],
) -> None:
    a, b, members = two()
    sent = a.shares_for(members, 2)
    b.shares_for(members, 2)
    with pytest.raises(InvalidMessage, match=UNREADABLE):
        b.take_shares("a", bad(sent))
    b.take_shares("a", sent["b"])


def test_shares_of_another_sender_round_or_group_are_refused() -> None:
    a, b, members = two()
    b.shares_for(members, 2)
    sent = a.shares_for(members, 2)
    with pytest.raises(InvalidMessage, match="the shares of 'c' cannot be read"):
        b.take_shares("c", sent["b"])
    # the same secrets under the context of another round: the public values differ, so the group does, too
    random = Random(11)
    before = SumSecrets(bound_to("before"), "a", random.randbytes)
    now = SumSecrets(CONTEXT, "a", Random(11).randbytes)
    assert before.public != now.public
    _, b, members = two(a=now)
    b.shares_for(members, 2)
    with pytest.raises(InvalidMessage, match=UNREADABLE):
        b.take_shares("a", before.shares_for({**members, "a": before.public}, 2)["b"])
    # another view of who the members are, or of the threshold
    for seen, needed in ((lambda all_of: {name: all_of[name] for name in "ab"}, 2), (lambda all_of: all_of, 3)):
        a, b, members = two()
        b.shares_for(members, 2)
        with pytest.raises(InvalidMessage, match=UNREADABLE):
            b.take_shares("a", a.shares_for(seen(members), needed)["b"])


# Wrong shares at the end


def lied(revealed: All, holder: str, change: Callable[[Revealed], Revealed]) -> All:
    return {
        name: {owner: change(share) if name == holder else share for owner, share in given.items()}
        for name, given in revealed.items()
    }


def other_number(share: Revealed) -> Revealed:
    return replace(share, share=b"\0" + bytes(b ^ 1 for b in share.share[1:]))


@pytest.mark.parametrize(
    "change",
    [
        other_number,
        lambda share: replace(share, share=share.share[1:]),
        lambda share: replace(share, share=b"\xff" * SHARE_BYTES),
        lambda share: replace(share, kind="pair" if share.kind == "self" else "self"),
    ],
    ids=["number", "short", "large", "kind"],
)
@pytest.mark.parametrize("liar", ["node-00", "node-02"])
def test_a_wrong_share_changes_nothing_and_its_giver_is_suspected(
    change: Callable[[Revealed], Revealed], liar: str
) -> None:
    nodes = meet(4)
    total = total_of(nodes.masked(VECTOR))
    opened = unmask(total, nodes.group, nodes.names, lied(nodes.reveal(nodes.names), liar, change))
    assert opened.suspects == {liar}
    assert (opened.numbers == VECTOR * np.uint32(4)).all()


@pytest.mark.parametrize(
    "change", [other_number, lambda share: replace(share, kind="self")], ids=["number", "kind"]
)
def test_a_wrong_share_of_a_vanished_node_changes_nothing(change: Callable[[Revealed], Revealed]) -> None:
    nodes = meet(10)
    inside = nodes.names[2:]
    total = total_of(nodes.masked(VECTOR, inside))
    revealed: dict[str, Mapping[str, Revealed]] = nodes.reveal(inside)
    revealed["node-03"] = {**revealed["node-03"], "node-00": change(revealed["node-03"]["node-00"])}
    opened = unmask(total, nodes.group, inside, revealed)
    assert opened.suspects == {"node-03"}
    assert (opened.numbers == VECTOR * np.uint32(8)).all()


def test_several_liars_of_thirty_are_found_in_bounded_work() -> None:
    nodes = meet(30)
    total = total_of(nodes.masked(VECTOR[:10]))
    liars = {"node-01", "node-07", "node-19"}
    revealed: All = nodes.reveal(nodes.names)
    for name in liars:
        revealed = lied(revealed, name, other_number)
    opened = unmask(total, nodes.group, nodes.names, revealed)
    assert opened.suspects == liars
    assert (opened.numbers == VECTOR[:10] * np.uint32(30)).all()


def test_too_many_wrong_shares_leave_the_sum_closed() -> None:
    nodes = meet(4)
    total = total_of(nodes.masked(VECTOR))
    revealed: All = nodes.reveal(nodes.names)
    for name in nodes.names[:2]:
        revealed = lied(revealed, name, other_number)
    with pytest.raises(InvalidMessage, match="too many shares of a secret of 'node-00' are wrong"):
        unmask(total, nodes.group, nodes.names, revealed)


def test_strangers_give_no_shares() -> None:
    nodes = meet(3)
    total = total_of(nodes.masked(VECTOR))
    revealed = {**nodes.reveal(nodes.names), "stranger": nodes.reveal(nodes.names)["node-00"]}
    opened = unmask(total, nodes.group, nodes.names, revealed)
    assert (opened.numbers == VECTOR * np.uint32(3)).all()
    assert not opened.suspects


# Public values and groups


def test_public_values_come_back_from_their_words() -> None:
    public = SumSecrets(CONTEXT, "a").public
    assert Public.read(public.encoded) == public
    assert len(public.encoded) == 128


LOW_ORDER = (bytes(32), bytes([1, *bytes(31)]), bytes.fromhex("ec" + "ff" * 30 + "7f"))


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("", "no base64 of 96 bytes"),
        ("!" * 128, "no base64 of 96 bytes"),
        ("é" * 128, "no base64 of 96 bytes"),
        (base64.b64encode(bytes(range(95))).decode(), "no base64 of 96 bytes"),
        (base64.b64encode(bytes(range(97))).decode(), "no base64 of 96 bytes"),
        (base64.b64encode(bytes(range(96))).decode() + "\n", "no base64 of 96 bytes"),
        (base64.b64encode(bytes(range(96))).decode() + "==", "no base64 of 96 bytes"),
        *((base64.b64encode(key + b"\2" * 64).decode(), "no secret can be agreed on") for key in LOW_ORDER),
        *(
            (base64.b64encode(b"\2" * 32 + key + b"\2" * 32).decode(), "no secret can be agreed")
            for key in LOW_ORDER
        ),
    ],
)
def test_malformed_public_values_are_refused(words: str, match: str) -> None:
    with pytest.raises(InvalidMessage, match=match):
        Public.read(words)


@pytest.mark.parametrize("needed", [0, 1, 2, 5])
def test_a_threshold_up_to_half_or_above_all_is_refused(needed: int) -> None:
    a = SumSecrets(CONTEXT, "a")
    members = {name: SumSecrets(CONTEXT, name).public for name in "bcd"}
    with pytest.raises(InvalidMessage, match=re.escape(f"a threshold of {needed} for 4 members")):
        a.shares_for({**members, "a": a.public}, needed)


def test_groups_that_are_none_are_refused() -> None:
    a, b, members = two()
    with pytest.raises(InvalidMessage, match="for 0 members"):
        MaskingGroup(CONTEXT, {}, 1)
    with pytest.raises(InvalidMessage, match="published the same key"):
        a.shares_for({**members, "b": replace(b.public, mask_key=a.public.share_key)}, 2)
    for wrong in ({**members, "a": b.public}, {name: members[name] for name in "bc"}):
        with pytest.raises(LocalError, match="no member of this sum with its own public values"):
            a.shares_for(wrong, 2)
    short = {**members, "b": Public(b"1", b"2", b"3")}
    with pytest.raises(InvalidMessage, match="no secret can be agreed on"):
        a.shares_for(short, 2)


def test_fields_cannot_run_into_each_other() -> None:
    assert bound_to("a", "b", "c") != bound_to("a", "bc") != bound_to("ab", "c")
    assert bound_to("a", 12) == bound_to("a", "12") == bound_to("a", b"12")
