"""Alignment of three and more holders, in which nobody learns which ids only some of the holders share.

The obvious way, that all holders blind and shuffle all lists and one of them compares these, tells that holder how many
ids each two holders share. Here the leader computes one value for each of its own ids, which is 0 if all holders have
the id, and noise otherwise (Kolesnikov, Matania, Pinkas, Rosulek, Trieu: "Practical multi-party private set
intersection from symmetric-key techniques", CCS 2017, in its variant with shares that need no messages).

1. Each two followers j and l agree on a key K_jl (Diffie-Hellman in the same group), which the leader does not know.
   The share of j for an id is the exclusive or of PRF(K_jl, id) over all l. The shares of all followers cancel out.
2. The leader sends H(id)^a for each of its ids, shuffled. Follower j answers (H(id)^a)^b_j, and the leader takes the
   inverse of a off again: it has H(id)^b_j for its own ids and for no others, and j does not know which ids these are
   (an oblivious pseudorandom function: Jarecki, Liu 2010).
3. Follower j sends a key-value store with its share for each of its ids, under keys and masks that are hashes of
   H(id)^b_j. So the leader can look up only its own ids, and cannot tell the share of an id that j has from the noise
   of one that it has not.
4. The leader adds up what it finds. Where all followers have the id, the sum is 0. If any of them has not, the shares of
   the others do not cancel out.
5. The leader sends to j, in the agreed order, a tag of each common id, another hash of H(id)^b_j, by which j finds its
   row, and a token, the hash of H(id)^b_j of all j. The order is that of the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.algorithms.vertical.groups import ELEMENT_BYTES, Group, Items, Positions, as_items, blind_chunk
from flnet.algorithms.vertical.holder import (
    Acceptance,
    AlignmentFollower,
    Chunk,
    Effect,
    Holder,
    Incoming,
    Kind,
    Message,
    PairKey,
    Randomness,
    SendToHolder,
    Terms,
    check_count,
    common,
    in_order,
    sorted_places,
)
from flnet.algorithms.vertical.key_value_store import (
    COLUMNS,
    ROW_BYTES,
    VALUE_BYTES,
    bin_numbers,
    bins_of,
    decode,
    encode,
    slots_of,
)
from flnet.errors import AlignmentRefused
from flnet.text import text

TAG_BYTES = 16
TOKEN_BYTES = 32
MATCH_BYTES = TAG_BYTES + TOKEN_BYTES
STORE_BINS = 32  # of one unit of work: about 2,000 ids

# What a blinded id is hashed to, by its parts
_BIN = slice(0, 8)
_ROW = slice(8, 8 + ROW_BYTES)
_MASK = slice(_ROW.stop, _ROW.stop + VALUE_BYTES)
_TAG = slice(_MASK.stop, _MASK.stop + TAG_BYTES)


@dataclass(frozen=True)
class CommonIds:
    """The common ids, in the order of their tokens.

    Attributes:
        places: (k,) in the leader's list.
        tokens: (k, 32).
        tags: (k, 16) for each follower.
    """

    places: Positions
    tokens: Items
    tags: tuple[Items, ...]


class ManyLeader(Holder):
    """The side that finds the ids that all of three or more holders have."""

    def __init__(self, terms: Terms, ids: Sequence[str], group: Group, randomness: Randomness) -> None:
        super().__init__(terms, terms.leader, ids, group, randomness)
        self._inverse = group.inverse(randomness.secret)
        self._answers = {
            name: Incoming(terms, Kind.RAISED, name, len(ids), ELEMENT_BYTES) for name in terms.followers
        }
        self._counts: dict[str, int] = {}
        self._tables: dict[str, Incoming] = {}
        self._sums: Items = np.zeros((len(ids), VALUE_BYTES), np.uint8)
        self._sent = 0  # chunks
        self._looked_up = False
        self._matching = False

    def start(self) -> list[Effect]:
        """Begin; called once, before anything else."""
        self._queue_own(self._randomness.shuffle, self._send_blinded)
        return [*(SendToHolder(name, self._opening()) for name in self.terms.followers), *self._advance()]

    def _handle(self, message: Message) -> list[Effect]:
        sender = message.sender
        match message:
            case Acceptance(count=count) if sender not in self._counts:
                check_count(count, self.terms, sender)
                self._counts[sender] = count
                self._tables[sender] = Incoming(self.terms, Kind.TABLE, sender, slots_of(count), VALUE_BYTES)
                return []
            case Chunk(kind=Kind.RAISED) if message.number < self._sent:
                items = self._answers[sender].add(message)
                run = partial(blind_chunk, self._group, self._inverse, items)
                place = self.terms.part(message.number, ELEMENT_BYTES)
                self._queue("blind", run, partial(self._keep, self._answers[sender].items, place))
                return []
            case Chunk(kind=Kind.TABLE) if sender in self._tables:
                self._tables[sender].add(message)
                return []
        raise self._unexpected(message)

    def _send_blinded(self, number: int, items: Items) -> list[Effect]:
        self._sent += 1
        chunk = self._chunk(Kind.BLINDED, number, len(self.ids), items)
        return [SendToHolder(name, chunk) for name in self.terms.followers]

    def _keep(self, into: Items, place: slice, items: Items) -> list[Effect]:
        into[place] = items
        return []

    def _add(self, place: slice, values: Items) -> list[Effect]:
        self._sums[place] ^= values
        return []

    def _when_idle(self) -> None:
        complete = [*self._answers.values(), *self._tables.values()]
        if len(complete) < 2 * len(self.terms.followers) or not all(incoming.complete for incoming in complete):
            return
        if not self._looked_up:
            self._looked_up = True
            self._queue_look_ups()
        elif not self._matching:
            self._matching = True
            elements = [self._answers[name].items for name in self.terms.followers]
            run = partial(matched, self._binding, self.terms.followers, elements, self._sums)
            self._queue("match", run, self._matched)

    def _queue_look_ups(self) -> None:
        for name in self.terms.followers:
            table, elements = self._tables[name].items, self._answers[name].items
            for number in range(self.terms.chunks(len(self.ids), ELEMENT_BYTES)):
                place = self.terms.part(number, ELEMENT_BYTES)
                run = partial(look_up, self._binding, name, elements[place], table, self._counts[name])
                self._queue("look-up", run, partial(self._add, place))

    def _matched(self, common_ids: CommonIds) -> list[Effect]:
        effects: list[Effect] = []
        for name, tags in zip(self.terms.followers, common_ids.tags, strict=True):
            effects += self._whole(name, Kind.MATCHES, np.concatenate([tags, common_ids.tokens], axis=1))
        return [*effects, *self._end(self._randomness.shuffle[common_ids.places], common_ids.tokens)]


class ManyFollower(AlignmentFollower):
    """A side that is told which of its ids all of three or more holders have."""

    match_bytes = MATCH_BYTES

    def __init__(self, terms: Terms, me: str, ids: Sequence[str], group: Group, randomness: Randomness) -> None:
        super().__init__(terms, me, ids, group, randomness)
        self._others = [name for name in terms.followers if name != me]
        self._base = group.hash_to_element(self._binding + b"pairs")
        self._keys: dict[str, bytes] = {}
        self._own: Items = np.empty((len(ids), ELEMENT_BYTES), np.uint8)
        self._tags: Items = np.empty((len(ids), TAG_BYTES), np.uint8)
        self._outputs: list[Items] = []  # of each chunk of ids, masked shares in place of the masks
        self._parts: list[Items] = []  # of the table
        self._storing = False

    def _handle(self, message: Message) -> list[Effect]:
        if isinstance(message, PairKey) and message.sender in self._others and message.sender not in self._keys:
            self._keys[message.sender] = self._pair_key(message)
            return []
        return super()._handle(message)

    def _accepted(self) -> list[Effect]:
        self._queue_own(np.arange(len(self.ids)), self._keep_own)
        half = PairKey(self.terms.session, self.me, self._group.blind(self._randomness.pair_secret, self._base))
        return [SendToHolder(name, half) for name in self._others]

    def _pair_key(self, message: PairKey) -> bytes:
        """The key with another follower: both names, in one order, and what only these two can compute."""
        shared = self._group.blind(self._randomness.pair_secret, message.element)
        names = b"".join(len(n.encode()).to_bytes(4) + n.encode() for n in sorted([self.me, message.sender]))
        return blake3(self._binding + names + shared, derive_key_context="flnet-psi-1.pair").digest()

    def _keep_own(self, number: int, items: Items) -> list[Effect]:
        self._own[self.terms.part(number, ELEMENT_BYTES)] = items
        return []

    def _when_idle(self) -> None:
        if self._storing or self._blinded is None or len(self._keys) < len(self._others):
            return
        self._storing = True
        keys = [self._keys[name] for name in self._others]
        for number in range(self.terms.chunks(len(self.ids), ELEMENT_BYTES)):
            place = self.terms.part(number, ELEMENT_BYTES)
            run = partial(masked_shares, self._binding, self.me, self._own[place], self.ids[place], keys)
            self._queue("store", run, partial(self._keep_outputs, place))

    def _keep_outputs(self, place: slice, items: Items) -> list[Effect]:
        self._tags[place] = items[:, _TAG]
        self._outputs.append(items)
        if place.stop >= len(self.ids):
            self._queue_store()
        return []

    def _queue_store(self) -> None:
        """Queue the table, some bins at a time."""
        items = np.concatenate(self._outputs)
        self._outputs.clear()
        numbers = bin_numbers(items[:, _BIN], len(self.ids))
        order = np.argsort(numbers, kind="stable")
        items, numbers = items[order], numbers[order]
        bins = bins_of(len(self.ids))
        for first in range(0, bins, STORE_BINS):
            last = min(first + STORE_BINS, bins)
            start, end = np.searchsorted(numbers, [first, last])
            run = partial(stored, numbers[start:end] - first, items[start:end], self._randomness.fill, first, last)
            self._queue("store", run, partial(self._send_table, last == bins))

    def _send_table(self, is_last: bool, part: Items) -> list[Effect]:
        self._parts.append(part)
        if not is_last:
            return []
        table = np.concatenate(self._parts)
        self._parts.clear()
        return self._whole(self.terms.leader, Kind.TABLE, table)

    @property
    def _is_ready(self) -> bool:
        return self._idle and self._storing

    def _locating(self, matches: Items, raised: Items) -> Callable[[], Positions]:
        return partial(located, matches, self._tags)

    def _located(self, positions: Positions) -> list[Effect]:
        assert self._matches is not None
        return self._end(positions, self._matches.items[:, TAG_BYTES:])


def outputs(binding: bytes, follower: str, elements: Items) -> Items:
    """(n, 68) what the blinded ids of a follower are hashed to: bin, row, mask and tag."""
    head = binding + follower.encode() + b"\0"
    return as_items([blake3(head + element.tobytes()).digest(_TAG.stop) for element in elements], _TAG.stop)


def masked_shares(binding: bytes, me: str, elements: Items, ids: Sequence[str], keys: Sequence[bytes]) -> Items:
    """(n, 68) the same for the own ids, with masked shares in place of the masks. One unit of work.

    Args:
        elements: (n, 32) the own ids, blinded by this follower alone.
        ids: the same ids.
        keys: with each other follower.
    """
    items = outputs(binding, me, elements).copy()
    for key in keys:
        items[:, _MASK] ^= as_items([blake3(i.encode(), key=key).digest(VALUE_BYTES) for i in ids], VALUE_BYTES)
    return items


def stored(numbers: Positions, items: Items, fill: bytes, first: int, last: int) -> Items:
    """(slots, 16) the bins from `first` to before `last` of a follower's table. One unit of work."""
    start, end = (edge * COLUMNS * VALUE_BYTES for edge in (first, last))
    random = np.frombuffer(blake3(key=fill).digest(end - start, seek=start), np.uint8).reshape(-1, VALUE_BYTES)
    return encode(numbers, items[:, _ROW], items[:, _MASK], random)


def look_up(binding: bytes, follower: str, elements: Items, table: Items, count: int) -> Items:
    """(n, 16) the shares of a follower for the leader's ids, or noise. One unit of work.

    Args:
        elements: (n, 32) the leader's ids, blinded by this follower alone.
        table: (slots, 16) the follower's.
        count: of the follower's ids.
    """
    items = outputs(binding, follower, elements)
    return decode(table, bin_numbers(items[:, _BIN], count), items[:, _ROW]) ^ items[:, _MASK]


def matched(binding: bytes, followers: Sequence[str], elements: Sequence[Items], sums: Items) -> CommonIds:
    """The common ids, by the sums of their shares. One unit of work.

    Args:
        elements: (n, 32) of each follower, the leader's ids as this follower alone blinds them.
        sums: (n, 16) of the shares.
    """
    places = np.flatnonzero(~sums.any(axis=1))
    joint = np.concatenate([items[places] for items in elements], axis=1)
    head = binding + b"token"
    tokens = as_items([blake3(head + row.tobytes()).digest() for row in joint], TOKEN_BYTES)
    order = sorted_places(tokens)
    places, tokens = places[order], tokens[order]
    pairs = zip(followers, elements, strict=True)
    return CommonIds(
        places, tokens, tuple(outputs(binding, name, items[places])[:, _TAG] for name, items in pairs)
    )


def located(matches: Items, tags: Items) -> Positions:
    """(k,) the own rows that are common. One unit of work.

    Args:
        matches: (k, MATCH_BYTES) a tag and a token each.
        tags: (n, TAG_BYTES) of the own rows.

    Raises:
        AlignmentRefused: a tag is none of them, or the tokens are not in order.
    """
    if not in_order(matches[:, TAG_BYTES:]):
        raise AlignmentRefused(text("the common rows are not in the order of their elements"))
    places, rows = common(matches[:, :TAG_BYTES], tags)
    if len(places) != len(matches):
        raise AlignmentRefused(text("a common row is named that is not in the list"))
    result: NDArray[np.int64] = np.empty(len(matches), np.int64)
    result[places] = rows
    return result
