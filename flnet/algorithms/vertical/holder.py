"""What all machines of the alignment share: the terms, the messages, lists in chunks, and work one unit at a time.

A machine is pure. It takes messages and results of work, and returns effects: messages to send, the next unit of
work, and the end. It never computes with the group itself, but for one element of a key exchange. A machine has at
most one unit of work outstanding, so a compute queue can run other tasks in between, and answers stay in order.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

import numpy as np
from blake3 import blake3

from flnet.algorithms.vertical.batches import permutation
from flnet.algorithms.vertical.groups import (
    ELEMENT_BYTES,
    RANDOM_BYTES,
    Group,
    Items,
    Positions,
    blind_chunk,
    hash_chunk,
)
from flnet.algorithms.vertical.identifiers import RULE
from flnet.errors import AlignmentRefused, IllegalStep
from flnet.text import text

PROTOCOL = "flnet-psi-1"  # what travels and how; holders compare it
CHUNK_ELEMENTS = 1024  # 32 KiB, and about a tenth of a second of work
MOST_IDS = 1_000_000
SEED_BYTES = 32
_SESSION = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True)
class Terms:
    """What the holders agreed on before; the same at all of them.

    Attributes:
        session: the name of this alignment, never used before.
        holders: the ids of the nodes, at least two; the leader comes first.
        chunk: the elements of a chunk. A chunk of other items has as many bytes.
        most: the ids that one holder may have.

    Raises:
        AlignmentRefused: they break a rule.
    """

    session: str
    holders: tuple[str, ...]
    chunk: int = CHUNK_ELEMENTS
    most: int = MOST_IDS

    def __post_init__(self) -> None:
        if not _SESSION.fullmatch(self.session):
            raise AlignmentRefused(
                text(
                    "the name of an alignment has 1 to 64 letters, digits, dots, hyphens and underscores, not {got}",
                    ascii(self.session)[:80],
                )
            )
        if len(self.holders) < 2 or len(set(self.holders)) < len(self.holders):
            raise AlignmentRefused(
                text(
                    "an alignment needs two or more different holders, but it has {holders}",
                    ", ".join(self.holders),
                )
            )
        if self.chunk < 1 or self.most < 1:
            raise ValueError(f"chunk={self.chunk}, most={self.most}")

    @property
    def leader(self) -> str:
        """The holder that finds the common ids."""
        return self.holders[0]

    @property
    def followers(self) -> tuple[str, ...]:
        """All others."""
        return self.holders[1:]

    def items(self, width: int) -> int:
        """How many items of so many bytes a chunk has."""
        return max(1, self.chunk * ELEMENT_BYTES // width)

    def chunks(self, total: int, width: int) -> int:
        """The chunks of a list; an empty list has one, too."""
        return max(1, -(-total // self.items(width)))

    def part(self, number: int, width: int) -> slice:
        """The items of a list that are in a chunk."""
        return slice(number * self.items(width), (number + 1) * self.items(width))

    def binding(self, group: Group) -> bytes:
        """32 bytes that stand for this alignment in everything that is hashed: nothing of it fits another one."""
        parts = (PROTOCOL, RULE, group.name, self.session, *self.holders)
        return blake3(b"".join(len(part.encode()).to_bytes(4) + part.encode() for part in parts)).digest()


@dataclass(frozen=True, repr=False)
class Randomness:
    """The secrets of one holder in one alignment. They are used once, and never leave the node.

    Attributes:
        secret: the exponent that blinds.
        shuffle: (n,) the own row at each place of the list that the holder sends.
        pair_secret: the exponent of the key exchange between followers.
        fill: 32 bytes, the seed of random slots.
    """

    secret: bytes
    shuffle: Positions
    pair_secret: bytes
    fill: bytes

    @classmethod
    def draw(cls, group: Group, count: int, seed: bytes) -> Randomness:
        """All of them from one seed.

        Args:
            count: of the holder's ids.
            seed: `SEED_BYTES` from a source for secrets, new for each alignment.
        """
        if len(seed) != SEED_BYTES:
            raise ValueError(f"seed={len(seed)} bytes")

        def part(name: bytes, length: int = 32) -> bytes:
            return blake3(name, key=seed).digest(length)

        return cls(
            group.secret(part(b"blinding", RANDOM_BYTES)),
            permutation(count, part(b"shuffle")),
            group.secret(part(b"pairs", RANDOM_BYTES)),
            part(b"fill"),
        )


@dataclass(frozen=True)
class Agreement:
    """The end of an alignment, at each holder.

    Attributes:
        session: the name of the alignment.
        holders: as in the terms.
        rows: (k,) the own row of each common id. At place i, all holders have rows with one id.
        digest: equal at two holders only if they agreed on the same ids in the same order.
    """

    session: str
    holders: tuple[str, ...]
    rows: Positions
    digest: str


# What travels


@dataclass(frozen=True)
class AlignmentOpening:
    """The leader to each follower: begins an alignment, and says by which rules.

    Attributes:
        count: the ids that the leader has.
    """

    session: str
    sender: str
    holders: tuple[str, ...]
    protocol: str
    rule: str
    group: str
    count: int
    chunk: int


@dataclass(frozen=True)
class Acceptance:
    """A follower to the leader: takes part, with so many ids."""

    session: str
    sender: str
    count: int


@dataclass(frozen=True)
class PairKey:
    """A follower to each other follower, directly and not by way of the leader: its half of their common key.

    Attributes:
        element: 32 bytes.
    """

    session: str
    sender: str
    element: bytes


class Kind(StrEnum):
    """Which list a chunk is of.

    BLINDED: the leader's ids, blinded by it, to each follower.
    RAISED: the same, blinded by the follower as well, in the same order, back to the leader.
    OWN: the ids of the only follower, blinded by it and shuffled, to the leader.
    TABLE: the key-value store of one of several followers, to the leader.
    MATCHES: which rows of the follower are common, in the agreed order, to the follower.
    """

    BLINDED = "blinded"
    RAISED = "raised"
    OWN = "own"
    TABLE = "table"
    MATCHES = "matches"


@dataclass(frozen=True)
class Chunk:
    """A part of a list.

    Attributes:
        number: from 0; chunks come in order.
        total: the items of the whole list.
        items: the bytes of this part; every chunk but the last has the same length.
    """

    session: str
    sender: str
    kind: Kind
    number: int
    total: int
    items: bytes = field(repr=False)


Message = AlignmentOpening | Acceptance | PairKey | Chunk


# What a machine asks for


@dataclass(frozen=True)
class SendToHolder:
    """Send a message to another holder. Messages to one holder have to arrive in the order they were asked for."""

    to: str
    message: Message


@dataclass(frozen=True, eq=False)
class AlignmentWork:
    """Run a unit of work anywhere, and give its result to `finished`.

    Attributes:
        name: what it does, for logs: hash, check, blind, match, store, look-up, locate.
        run: a pure function. An AlignmentRefused that it raises ends the alignment.
    """

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class Aligned:
    """The end: the rows are agreed on."""

    agreement: Agreement


@dataclass(frozen=True)
class Failed:
    """The end: the holders have no id in common."""

    error: AlignmentRefused


Effect = SendToHolder | AlignmentWork | Aligned | Failed


class Incoming:
    """A list that arrives in chunks, each once and in order.

    Attributes:
        items: (total, width) what has arrived; the rest is undefined.
    """

    def __init__(self, terms: Terms, kind: Kind, sender: str, total: int, width: int) -> None:
        self._terms, self._kind, self._sender = terms, kind, sender
        self._arrived = 0
        self.items: Items = np.empty((total, width), np.uint8)

    @property
    def arrived(self) -> int:
        """The chunks that have arrived."""
        return self._arrived

    @property
    def complete(self) -> bool:
        """Whether all have."""
        return self._arrived == self._terms.chunks(*self.items.shape)

    def add(self, chunk: Chunk) -> Items:
        """(n, width) the items of the next chunk.

        Raises:
            AlignmentRefused: it is not the next one, or has the wrong length; nothing has changed.
        """
        total, width = self.items.shape
        if chunk.total != total:
            raise self._refused(
                text("the list has {expected} items, but the chunk says {got}", total, chunk.total)
            )
        if self.complete:
            raise self._refused(text("the list is complete, but chunk {number} came, too", chunk.number))
        if chunk.number != self._arrived:
            again = chunk.number < self._arrived
            reason = text("it came before") if again else text("chunks are missing before it")
            raise self._refused(
                text("expected chunk {expected}, got {number}: {reason}", self._arrived, chunk.number, reason)
            )
        place = self._terms.part(chunk.number, width)
        expected = len(self.items[place]) * width
        if len(chunk.items) != expected:
            raise self._refused(
                text(
                    "chunk {number} has to have {expected} bytes, but it has {got}",
                    chunk.number,
                    expected,
                    len(chunk.items),
                )
            )
        self.items[place] = np.frombuffer(chunk.items, np.uint8).reshape(-1, width)
        self._arrived += 1
        return self.items[place]

    def check_complete(self) -> None:
        """Raise AlignmentRefused where chunks are missing although something came that only follows the whole list."""
        if not self.complete:
            count = self._terms.chunks(*self.items.shape)
            raise self._refused(text("the list ended after {got} of {count} chunks", self._arrived, count))

    def _refused(self, reason: str) -> AlignmentRefused:
        return AlignmentRefused(
            text("list {name} of {peer}: {reason}", self._kind.value, repr(self._sender), reason)
        )


class Holder(ABC):
    """One holder's side of an alignment: takes messages and results of work, returns effects.

    Args:
        terms: the same at all holders.
        me: the id of this node, one of the holders.
        ids: as `normalised_column` gave them, in the order of the rows.
        group: the same at all holders.
        randomness: drawn for this alignment.
    """

    def __init__(self, terms: Terms, me: str, ids: Sequence[str], group: Group, randomness: Randomness) -> None:
        if me not in terms.holders or not 1 <= len(ids) <= terms.most or len(set(ids)) != len(ids):
            raise ValueError(f"me={me!r}, ids={len(ids)}, different={len(set(ids))}, most={terms.most}")
        if not np.array_equal(np.sort(randomness.shuffle), np.arange(len(ids))):
            raise ValueError(f"ids={len(ids)}, shuffle={len(randomness.shuffle)}")
        self.terms, self.me, self.ids = terms, me, ids
        self._group, self._randomness = group, randomness
        self._binding = terms.binding(group)
        self._todo: deque[tuple[AlignmentWork, Callable[[Any], list[Effect]]]] = deque()
        self._current: tuple[AlignmentWork, Callable[[Any], list[Effect]]] | None = None
        self._ended = False

    def receive(self, message: Message) -> list[Effect]:
        """Take one message.

        The caller has verified that the message is from its sender.

        Raises:
            AlignmentRefused: the message is wrong; nothing has changed. What to do with the alignment is up to the
                caller: nothing that a correct holder sends is refused.
        """
        if message.session != self.terms.session:
            raise AlignmentRefused(
                text(
                    "this is alignment {expected}, but the message belongs to {got}",
                    repr(self.terms.session),
                    ascii(message.session)[:80],
                )
            )
        if self._ended:
            raise AlignmentRefused(text("alignment {name} has ended", repr(self.terms.session)))
        if message.sender not in self.terms.holders or message.sender == self.me:
            raise AlignmentRefused(text("{peer} is not another holder", ascii(message.sender)[:80]))
        return [*self._handle(message), *self._advance()]

    def finished(self, work: AlignmentWork, result: Any) -> list[Effect]:
        """Take the result of the work that was asked for last.

        Raises:
            IllegalStep: other work was.
        """
        if self._current is None or self._current[0] is not work:
            raise IllegalStep(f"{work.name} was not asked for last")
        follow, self._current = self._current[1], None
        return [*follow(result), *self._advance()]

    @abstractmethod
    def _handle(self, message: Message) -> list[Effect]: ...

    @abstractmethod
    def _when_idle(self) -> None:
        """Queue what is next, when no work is left; called after each message and each result."""

    def _queue(self, name: str, run: Callable[[], Any], follow: Callable[[Any], list[Effect]]) -> None:
        self._todo.append((AlignmentWork(name, run), follow))

    def _queue_own(self, order: Positions, follow: Callable[[int, Items], list[Effect]]) -> None:
        """Queue the blinding of the own ids, in this order of the rows, a chunk at a time."""
        for number in range(self.terms.chunks(len(self.ids), ELEMENT_BYTES)):
            rows = order[self.terms.part(number, ELEMENT_BYTES)]
            run = partial(hash_ids, self._group, self._randomness.secret, self._binding, self.ids, rows)
            self._queue("hash", run, partial(follow, number))

    def _advance(self) -> list[Effect]:
        if self._current is not None or self._ended:
            return []
        if not self._todo:
            self._when_idle()
        if not self._todo:
            return []
        self._current = self._todo.popleft()
        return [self._current[0]]

    def _opening(self) -> AlignmentOpening:
        terms = self.terms
        rules = (PROTOCOL, RULE, self._group.name)
        return AlignmentOpening(terms.session, self.me, terms.holders, *rules, len(self.ids), terms.chunk)

    @property
    def _idle(self) -> bool:
        return self._current is None and not self._todo

    def _chunk(self, kind: Kind, number: int, total: int, items: Items) -> Chunk:
        return Chunk(self.terms.session, self.me, kind, number, total, items.tobytes())

    def _whole(self, to: str, kind: Kind, items: Items) -> list[Effect]:
        """All chunks of a list that is there as a whole."""
        total, width = items.shape
        numbers = range(self.terms.chunks(total, width))
        return [SendToHolder(to, self._chunk(kind, n, total, items[self.terms.part(n, width)])) for n in numbers]

    def _end(self, rows: Positions, tokens: Items) -> list[Effect]:
        """The end, with or without common rows."""
        self._ended = True
        self._todo.clear()
        if not len(rows):
            names = ", ".join(self.terms.holders)
            words = text(
                "{holders} have no id in common; they have to write ids alike (prefixes, hyphens and leading zeros count)",
                names,
            )
            return [Failed(AlignmentRefused(words))]
        digest = blake3(self._binding + len(rows).to_bytes(8) + tokens.tobytes()).hexdigest()
        return [Aligned(Agreement(self.terms.session, self.terms.holders, rows, digest))]

    def _unexpected(self, message: Message) -> AlignmentRefused:
        what = message.kind.value if isinstance(message, Chunk) else type(message).__name__.lower()
        return AlignmentRefused(text("{what} of {peer} is not expected now", what, repr(message.sender)))


class AlignmentFollower(Holder):
    """A side that is told which of its ids are common.

    Attributes:
        match_bytes: of one entry of the list of common rows.
    """

    match_bytes: ClassVar[int]

    def __init__(self, terms: Terms, me: str, ids: Sequence[str], group: Group, randomness: Randomness) -> None:
        super().__init__(terms, me, ids, group, randomness)
        self._blinded: Incoming | None = None  # the leader's ids, once it said how many there are
        self._matches: Incoming | None = None

    def _handle(self, message: Message) -> list[Effect]:
        if message.sender != self.terms.leader:
            raise self._unexpected(message)
        match message:
            case AlignmentOpening() if self._blinded is None:
                checked_opening(message, self.terms, self._group)
                self._blinded = Incoming(self.terms, Kind.BLINDED, message.sender, message.count, ELEMENT_BYTES)
                accepted = Acceptance(self.terms.session, self.me, len(self.ids))
                return [SendToHolder(message.sender, accepted), *self._accepted()]
            case Chunk(kind=Kind.BLINDED) if self._blinded is not None:
                items = self._blinded.add(message)
                run = partial(blind_chunk, self._group, self._randomness.secret, items)
                self._queue("blind", run, partial(self._send_raised, self._blinded, message.number))
                return []
            case Chunk(kind=Kind.MATCHES) if self._blinded is not None:
                return self._take_matches(message, self._blinded)
        raise self._unexpected(message)

    def _send_raised(self, blinded: Incoming, number: int, items: Items) -> list[Effect]:
        """Send the leader's ids back, blinded here too; they take the place of what arrived."""
        blinded.items[self.terms.part(number, ELEMENT_BYTES)] = items
        return [SendToHolder(self.terms.leader, self._chunk(Kind.RAISED, number, len(blinded.items), items))]

    def _take_matches(self, message: Chunk, blinded: Incoming) -> list[Effect]:
        blinded.check_complete()
        if not self._is_ready:
            raise self._unexpected(message)
        matches = self._matches
        if matches is None:
            most = min(len(self.ids), len(blinded.items))
            matches = incoming_matches(message, self.terms, most, self.match_bytes)
        matches.add(message)
        self._matches = matches
        if matches.complete:
            self._queue("locate", self._locating(matches.items, blinded.items), self._located)
        return []

    @property
    def _is_ready(self) -> bool:
        """Whether all was sent that the leader needs to find common rows."""
        return self._idle

    @abstractmethod
    def _accepted(self) -> list[Effect]:
        """The leader has opened the alignment: queue the own ids."""

    @abstractmethod
    def _locating(self, matches: Items, raised: Items) -> Callable[[], Positions]:
        """The unit of work that finds the places of the common rows.

        Args:
            matches: (k, match_bytes) the leader's list of common rows.
            raised: (n, 32) the leader's ids, as this follower blinded them.
        """

    @abstractmethod
    def _located(self, positions: Positions) -> list[Effect]:
        """The places are found: the end."""


def incoming_matches(message: Chunk, terms: Terms, most: int, width: int) -> Incoming:
    """The list of common rows that begins with this chunk.

    Raises:
        AlignmentRefused: there cannot be so many.
    """
    if not 0 <= message.total <= most:
        raise AlignmentRefused(
            text(
                "{peer} says that {count} ids are common; there can be at most {most}",
                repr(message.sender),
                message.total,
                most,
            )
        )
    return Incoming(terms, Kind.MATCHES, message.sender, message.total, width)


def checked_opening(message: AlignmentOpening, terms: Terms, group: Group) -> None:
    """Check that the leader aligns by the rules of this node.

    Raises:
        AlignmentRefused: it does not; says what is here and there.
    """
    expected_rules = {
        text("protocol of the alignment"): PROTOCOL,
        text("rule of ids"): RULE,
        text("group of the elements"): group.name,
        text("list of holders"): ", ".join(terms.holders),
        text("number of elements of a chunk"): terms.chunk,
    }
    received_rules = (message.protocol, message.rule, message.group, ", ".join(message.holders), message.chunk)
    for (name, expected), got in zip(expected_rules.items(), received_rules, strict=True):
        if expected != got:
            raise AlignmentRefused(
                text("{name} differs: {expected} here, {got} at {peer}", name, expected, got, repr(message.sender))
            )
    check_count(message.count, terms, message.sender)


def check_count(count: int, terms: Terms, sender: str) -> None:
    """Check how many ids another holder says that it has.

    Raises:
        AlignmentRefused: none, or too many.
    """
    if not 1 <= count <= terms.most:
        raise AlignmentRefused(
            text("{peer} has {count} ids; from 1 to {most} can be aligned", repr(sender), count, terms.most)
        )


def hash_ids(group: Group, secret: bytes, binding: bytes, ids: Sequence[str], rows: Positions) -> Items:
    """(n, 32) the ids of these rows as blinded elements. One unit of work."""
    return hash_chunk(group, secret, [binding + ids[row].encode() for row in rows])


def common(left: Items, right: Items) -> tuple[Positions, Positions]:
    """Where the common items stand in each list, ordered by their bytes. One unit of work.

    Raises:
        AlignmentRefused: an item is in one list twice.
    """
    both = np.concatenate([left, right])
    order = sorted_places(both)
    ordered = both[order]
    equal = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    first, second = order[equal], order[equal + 1]  # equal items stay in the order of the lists
    if bool(((first >= len(left)) | (second < len(left))).any()):
        raise AlignmentRefused(text("a list has the same item twice"))
    return first, second - len(left)


def in_order(items: Items) -> bool:
    """Whether each item is greater than the one before, by their bytes."""
    ordered = items[sorted_places(items)]
    return bool((ordered == items).all()) and not bool((items[1:] == items[:-1]).all(axis=1).any())


def sorted_places(items: Items) -> Positions:
    """(n,) a stable order of the items by their bytes."""
    padded = np.zeros((len(items), -(-items.shape[1] // 8) * 8), np.uint8)
    padded[:, : items.shape[1]] = items
    words = padded.view(">u8")
    return np.lexsort(words.T[::-1]).astype(np.int64)
