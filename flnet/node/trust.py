"""Whom this node of a pinned mesh trusts, while it runs: what people decide is on the disk before it holds.

`node.trust` is one of these in a pinned mesh, and None in an open or keyed one. In a test, `Trust(key)` is whole
without a node: it keeps its book in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flnet.effects import Publish
from flnet.fingerprints import fingerprint, words_of
from flnet.store import MemoryStore, Store
from flnet.trust import Book, Entry
from flnet.trust.entry import fingerprint_of

View = Mapping[str, Any]


class Trust:
    """Keys that are accepted, that wait, and that stay out.

    Views are plain JSON-ready data, of one key each:

    name, address ("host:port"; both as its node said, for people, "" until it called), key (base64, "" until it
    called), fingerprint (whole), words (six, that stand for its beginning), since (seconds since
    the epoch by this node's clock), introduced_by (fingerprint of the introducer that vouches for it, or None).
    Those of `accepted` in addition: is_introducer, accepted_by ("person", "settings", "introducer").

    Attributes:
        mode: "pinned".
        changed: called after each change, with the fingerprints that are not trusted any more, and the
            addresses of those that are from now on; the node lets the former go and calls the latter.
    """

    mode = "pinned"

    def __init__(
        self,
        own: str,
        store: Store | None = None,
        publish: Callable[..., object] = lambda *_: None,
        now: Callable[[], float] = time.time,
        peers: Iterable[str] = (),
        introducers: Iterable[str] = (),
    ) -> None:
        """Args:
        own: public key of this node, base64.
        store: where decisions are kept; None: in memory only.
        publish: tells people: kind, sentence, trainer (empty), data.
        now: seconds since the epoch.
        peers, introducers: fingerprints of the settings; they hold from `begin` on.
        """
        self._configured = frozenset(peers), frozenset(introducers)
        self._store, self._publish, self._now = store or MemoryStore(), publish, now
        self._book = Book(own)
        self._lock = asyncio.Lock()  # one decision after the other
        self.changed: Callable[[Sequence[str], Sequence[str]], object] = lambda gone, come: None

    async def begin(self) -> None:
        """Take up what earlier runs kept, and what the settings say; before anybody is let in.

        Raises:
            LocalError: the store cannot be read, or written.
        """
        self._book = Book(self._book.own, await self._store.load_trust())
        told = self._book.configured(*self._configured, self._now())
        await self._store.save_trust(self._book.rows())
        self._tell(told)

    def own(self) -> View:
        """This node's own key, as people at other nodes have to see it: key, fingerprint, words."""
        key = self._book.own
        return {"key": key, "fingerprint": fingerprint(key), "words": words_of(fingerprint(key))}

    def pending(self) -> Sequence[View]:
        """Who waits for a person, oldest first."""
        return [_view(entry) for entry in self._book.waiting.values()]

    def accepted(self) -> Sequence[View]:
        """Who is trusted, by name."""
        found = sorted(self._book.accepted.values(), key=lambda one: (one.name, one.fingerprint))
        return [_view(one) | {"is_introducer": one.is_introducer, "accepted_by": one.by} for one in found]

    def refused(self) -> Sequence[View]:
        """Who was rejected or forgotten and stays out, oldest decision first."""
        return [_view(entry) for entry in self._book.out.values()]

    async def accept(self, who: str, introducer: bool = False) -> View:
        """Trust a key from now on; its view.

        Args:
            who: the public key in base64, or the whole fingerprint however typed; also of one that never called.
            introducer: accept those whom it vouches for, too. False takes that away again.

        Raises:
            InvalidMessage: neither of them, or this node's own.
            TrustFull: too many are kept.
            LocalError: it could not be kept on the disk; nothing has changed.
        """
        await self._decide(lambda book: book.accept(who, self._now(), introducer=introducer))
        return next(one for one in self.accepted() if one["fingerprint"] == fingerprint_of(who)[0])

    async def reject(self, who: str) -> None:
        """Let a key wait no longer; it stays out until a person accepts it. Forgets one that was accepted.

        Raises:
            InvalidMessage, LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.reject(who, self._now()))

    async def forget(self, who: str) -> None:
        """Trust a key no longer, nor those whom only it introduced; it stays out until a person accepts it again.

        Raises:
            UnknownKey: it is not accepted.
            InvalidMessage, LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.forget(who, self._now()))

    def trusts(self, key: str) -> bool:
        """Whether the node with this public key may take part."""
        return self._book.trusts(key)

    def is_out(self, key: str) -> bool:
        """Whether a person turned this key away."""
        return self._book.is_out(key)

    def is_introducer(self, key: str) -> bool:
        """Whether the node with this key introduces others here."""
        return self._book.is_introducer(key)

    def met(self, key: str, name: str, address: str) -> None:
        """A node showed this key, by calling or by being called; a stranger's waits from then on."""
        self._tell(self._book.met(key, name, address, self._now()))

    def vouches(self) -> Sequence[tuple[str, str]]:
        """Fingerprints and names of those whom this node vouches for."""
        return self._book.vouches()

    async def introduced(self, introducer: str, vouched: Sequence[tuple[str, str]]) -> None:
        """An introducer said for whom it vouches, as fingerprints and names.

        Raises:
            LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.introduced(introducer, vouched, self._now()))

    async def _decide(self, change: Callable[[Book], list[Publish]]) -> None:
        """Make a change, kept before it holds."""
        async with self._lock:
            tried = Book(self._book.own, self._book.rows())
            tried.waiting = self._book.waiting.copy()
            change(tried)
            if tried.rows() != self._book.rows():
                await self._store.save_trust(tried.rows())
            before = dict(self._book.accepted)
            told = change(self._book)
            after = self._book.accepted
        self._tell(told)
        gone = [mark for mark in before if mark not in after]
        come = [entry.address for mark, entry in after.items() if mark not in before and entry.address]
        if gone or come:
            self.changed(gone, come)

    def _tell(self, told: Sequence[Publish]) -> None:
        for one in told:
            self._publish(one.kind, one.text, "", one.data)


def _view(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "address": entry.address,
        "key": entry.key,
        "fingerprint": entry.fingerprint,
        "words": words_of(entry.fingerprint),
        "since": entry.since,
        "introduced_by": entry.introduced_by or None,
    }
