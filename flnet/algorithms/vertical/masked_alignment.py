"""The alignment of an encrypted regression in which only the key holder learns which rows match (`masked_rows`).

A and B agree on a key that C does not have: each raises a common element to a secret, sends it to the other one, and
raises what comes to its secret. With this key they hash their ids, and send the hashes to C in an order that only the
sender knows. C matches them, and tells each of the two at which position each of its rows stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from blake3 import blake3

from flnet.algorithms.vertical.aligning import Sent
from flnet.algorithms.vertical.groups import Group, Positions, as_items
from flnet.algorithms.vertical.holder import PairKey, Randomness
from flnet.algorithms.vertical.masked_rows import EMPTY, SecretShuffles, arranged, match_blinded
from flnet.algorithms.vertical.wire_form import bytes_in, written
from flnet.errors import BatchRefused, CutLayerRefused
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.vertical import HashedIdsPart, OrderPart, PairKeyPart
from flnet.text import text

MOST_IDS = 2**22  # of one node
CHUNK = 2**14  # hashes in one message
HASH_BYTES = 32
_BASE = b"flnet-masked-1.base"
_CONTEXT = "flnet-masked-1.ids"

MaskedPart = PairKeyPart | HashedIdsPart | OrderPart


@dataclass(frozen=True)
class MaskedAgreement:
    """What a node has at the end.

    Attributes:
        rows: (n,) at a data holder, the own row at each position, -1 for none; at the key holder, 1 where rows match.
        digest: what this alignment is known by.
    """

    rows: Positions
    digest: str


class _Masked:
    """What all three have in common.

    Attributes:
        agreement: None before the end.
        arrived: messages that came.
    """

    has_work = False

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.agreement: MaskedAgreement | None = None
        self.arrived = 0

    def work(self) -> list[Sent]:
        """All is done when a message comes."""
        return []


class MaskedHolder(_Masked):
    """A or B."""

    def __init__(
        self,
        session: str,
        epoch: int,
        peers: tuple[PeerId, PeerId],
        ids: Sequence[str],
        group: Group,
        secret: bytes,
        most_rows: int,
    ) -> None:
        """Args:
        session: of the epoch.
        epoch: its number.
        peers: the other data holder, and the key holder.
        ids: normalised.
        group: of the key exchange.
        secret: 32 bytes that are used for nothing else.
        most_rows: of the node that has more.
        """
        super().__init__(epoch)
        self._session, (self._other, self._key_holder) = session, peers
        self._ids, self._group, self._most = ids, group, most_rows
        self._randomness = Randomness.draw(group, len(ids), secret)
        self._has_key = False

    def start(self) -> list[Sent]:
        """Half of the key, to the other data holder."""
        _check_count(len(self._ids))
        half = self._group.blind(self._randomness.pair_secret, self._group.hash_to_element(_BASE))
        return [Sent(self._other, *written(PairKey(self._session, "", half)))]

    def receive(self, sender: PeerId, part: MaskedPart, arrays: Params) -> list[Sent]:
        """Take a message.

        Raises:
            PeerError: it is not the next one, or wrong.
        """
        self.arrived += 1
        if isinstance(part, PairKeyPart) and sender == self._other and not self._has_key:
            self._has_key = True
            return self._hashes(bytes_in(arrays["items"]))
        if isinstance(part, OrderPart) and sender == self._key_holder and self._has_key and not self.agreement:
            self.agreement = MaskedAgreement(self._rows(arrays["order"]), part.alignment)
            return []
        raise unexpected(part)

    def _hashes(self, half: bytes) -> list[Sent]:
        self._group.check(half)
        common = self._group.blind(self._randomness.pair_secret, half)
        key = blake3(common + self._session.encode(), derive_key_context=_CONTEXT).digest()
        hashes = [blake3(self._ids[row].encode(), key=key).digest() for row in self._randomness.shuffle]
        starts = range(0, len(hashes), CHUNK)
        return [
            Sent(
                self._key_holder,
                HashedIdsPart(epoch=self._epoch, number=number, total=len(hashes)),
                Params({"items": as_items(hashes[start : start + CHUNK]).ravel()}),
            )
            for number, start in enumerate(starts)
        ]

    def _rows(self, order: Array) -> Positions:
        if order.ndim != 1 or order.dtype.kind not in "iu" or len(order) != self._most:
            raise CutLayerRefused(
                text(
                    "expected the order of {count} positions, got {dtype} {shape}",
                    self._most,
                    order.dtype.name,
                    list(order.shape),
                )
            )
        places = order.astype(np.int64)
        arranged(np.zeros(len(self._ids)), places)  # names each row once
        return np.where(places == EMPTY, EMPTY, self._randomness.shuffle[places])


class MaskedMatcher(_Masked):
    """C."""

    def __init__(self, epoch: int, rows: Mapping[PeerId, int], secret: bytes) -> None:
        """Args:
        epoch: its number.
        rows: of A, and then of B, as they state it.
        secret: 32 bytes that are used for nothing else.
        """
        super().__init__(epoch)
        self._rows, self._secret = rows, secret
        self._lists: dict[PeerId, list[bytes]] = {peer: [] for peer in rows}

    def start(self) -> list[Sent]:
        """It waits for the hashes."""
        for count in self._rows.values():
            _check_count(count)
        return []

    def receive(self, sender: PeerId, part: MaskedPart, arrays: Params) -> list[Sent]:
        """Take a message.

        Raises:
            PeerError: it is not the next one, or wrong.
        """
        self.arrived += 1
        if not isinstance(part, HashedIdsPart) or sender not in self._lists or self.agreement:
            raise unexpected(part)
        items, known, total = bytes_in(arrays["items"]), self._lists[sender], self._rows[sender]
        expected = min(CHUNK, total - len(known))
        if (part.number, part.total, len(items)) != (len(known) // CHUNK, total, HASH_BYTES * expected):
            raise BatchRefused(text("expected the next {count} of {total} hashed ids", expected, total))
        known += [items[at : at + HASH_BYTES] for at in range(0, len(items), HASH_BYTES)]
        is_complete = all(len(known) == self._rows[peer] for peer, known in self._lists.items())
        return self._match() if is_complete else []

    def _match(self) -> list[Sent]:
        a, b = self._lists.values()
        made = match_blinded(a, b, SecretShuffles(blake3(b"order", key=self._secret).digest()))
        digest = blake3(b"alignment", key=self._secret).hexdigest()
        self.agreement = MaskedAgreement(made.mask.astype(np.int64), digest)
        orders = zip(self._lists, (made.order_a, made.order_b), strict=True)
        part = OrderPart(epoch=self._epoch, alignment=digest)
        return [Sent(peer, part, Params({"order": order})) for peer, order in orders]


def unexpected(part: object) -> BatchRefused:
    """The error for a part that has no place in this stage."""
    kind = type(part).__name__.removesuffix("Part").lower()
    return BatchRefused(text("{kind} is not what this node waits for in the alignment", kind))


def _check_count(count: int) -> None:
    if count > MOST_IDS:
        raise BatchRefused(
            text("{count} rows are too many to be matched by the key holder; at most {most}", count, MOST_IDS)
        )


def filled(rows: Positions, values: Callable[[Positions], Array]) -> Array:
    """Values of own rows at their positions, with zeros where there is none.

    Args:
        rows: (n,) own rows; -1 for none.
        values: gives (k, ...) of k own rows.
    """
    there = rows != EMPTY
    known = np.asarray(values(rows[there]), np.float64)
    made = np.zeros((len(rows), *known.shape[1:]))
    made[there] = known
    return made
