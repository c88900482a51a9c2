"""The book of trust: which keys are accepted, by whom, which wait for a person, and which stay out.

Keys are known by their fingerprints here: a person may accept one that was read out before its node ever called.
What is accepted and what stays out is kept over restarts; what waits is not, because it calls again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from flnet.effects import Publish
from flnet.errors import InvalidMessage, PeerError
from flnet.fingerprints import short
from flnet.trust.entry import By, Entry, fingerprint_of, print_of, read_row

MOST_WAITING = 64  # strangers that wait at once
MOST_KEPT = 1024  # keys that are accepted, and as many that stay out
MOST_TOLD = 256  # strangers that people hear of in one run


class UnknownKey(PeerError):
    """No key is known here by what was said."""

    status = 404
    code = "unknown_key"

    def __init__(self, who: str) -> None:
        super().__init__(f"no accepted key is known here by {who[:80]!r}")


class TrustFull(PeerError):
    """So many keys are kept that there is no room for one more."""

    status = 409
    code = "trust_full"

    def __init__(self) -> None:
        super().__init__(f"{MOST_KEPT} keys are kept already; forget one first")


class Book:
    """Who is trusted. Nothing in it changes by itself, and it looks at no clock."""

    def __init__(self, own: str, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """Args:
        own: public key of this node, which is never written down.
        rows: what `rows` gave once; those that cannot be read are left out.
        """
        self.own = own
        self.accepted: dict[str, Entry] = {}
        self.out: dict[str, Entry] = {}
        self.waiting: OrderedDict[str, Entry] = OrderedDict()
        self._told: set[str] = set()
        self._is_full = False
        for row in rows:
            entry, is_out = read_row(row)
            if entry is not None:
                (self.out if is_out else self.accepted)[entry.fingerprint] = entry

    def rows(self) -> list[dict[str, Any]]:
        """What has to be kept."""
        groups = ((self.accepted, False), (self.out, True))
        return [asdict(entry) | {"out": out} for group, out in groups for entry in group.values()]

    def trusts(self, key: str) -> bool:
        """Whether the node with this public key may take part."""
        return print_of(key) in self.accepted

    def is_out(self, key: str) -> bool:
        """Whether a person rejected or forgot this key, and it has to stay out."""
        return print_of(key) in self.out

    def is_introducer(self, key: str) -> bool:
        """Whether those whom the node with this key vouches for are accepted."""
        found = self.accepted.get(print_of(key))
        return found is not None and found.is_introducer

    def met(self, key: str, name: str, address: str, at: float) -> list[Publish]:
        """A node showed this key, by calling or by being called; a stranger's waits from then on.

        Args:
            name: what it calls itself; empty where it has not said so.
            address: where it can be called.
            at: now, in seconds since the epoch.
        """
        mark = print_of(key)
        if key == self.own or mark in self.out:
            return []
        for group in (self.accepted, self.waiting):
            if (known := group.get(mark)) is not None:
                group[mark] = replace(known, key=key, name=name or known.name, address=address or known.address)
                return []
        told = self._room()
        entry = self.waiting[mark] = Entry(mark, key, name, address, at)
        if mark in self._told or len(self._told) >= MOST_TOLD:
            return told
        self._told.add(mark)
        words = (
            f"{name or 'a node'} at {address} with the fingerprint {short(key)} waits for a person to accept it"
        )
        return [*told, Publish("trust_pending", words, {"fingerprint": entry.fingerprint})]

    def accept(self, who: str, at: float, *, introducer: bool = False, by: By = "person") -> list[Publish]:
        """Trust a key from now on; what is known of it stays.

        Raises:
            InvalidMessage: `who` is neither a key nor a whole fingerprint, or is this node itself.
            TrustFull: there is no room.
        """
        mark, key = self._foreign(who)
        known = self.accepted.get(mark) or self.waiting.get(mark) or self.out.get(mark) or Entry(mark)
        is_new = mark not in self.accepted
        if is_new and len(self.accepted) >= MOST_KEPT:
            raise TrustFull
        self.waiting.pop(mark, None)
        self.out.pop(mark, None)
        since = at if is_new else known.since
        entry = replace(
            known, key=known.key or key, since=since, by=by, is_introducer=introducer, introduced_by=""
        )
        self.accepted[mark] = entry
        told = self._withdraw(mark, frozenset()) if not introducer else []
        words = f"a person accepted {entry.label}"
        if by == "settings":
            words = f"the settings accept {entry.label}"
        elif introducer:
            words = f"a person accepted {entry.label}, and those whom it introduces"
        return [Publish("trust_accepted", words, {"fingerprint": mark}), *told]

    def configured(self, peers: Collection[str], introducers: Collection[str], at: float) -> list[Publish]:
        """The settings name keys to trust, by fingerprints; those that they name no more are trusted no more.

        What a person decided here holds: who was turned away stays out, whatever the settings say.
        """
        named = sorted({*peers, *introducers} - {print_of(self.own)})
        gone = [mark for mark, entry in self.accepted.items() if entry.by == "settings" and mark not in named]
        told = [one for mark in gone for one in self._drop(mark)]
        for mark in named:
            known = self.accepted.get(mark)
            if mark in self.out:
                words = (
                    f"the settings accept {self.out[mark].label}, but a person turned it away here: it stays out"
                )
                told.append(Publish("trust_rejected", words, {"fingerprint": mark}))
            elif known is None or known.by != "person":
                said = self.accept(mark, at, introducer=mark in introducers, by="settings")
                told += said if known is None else said[1:]
        return told

    def reject(self, who: str, at: float) -> list[Publish]:
        """Let a key wait no longer: it stays out until a person accepts it.

        Raises:
            InvalidMessage: `who` is neither a key nor a whole fingerprint, or is this node itself.
        """
        mark, key = self._foreign(who)
        if mark in self.accepted:
            return self.forget(who, at)
        entry = self.waiting.pop(mark, None) or self.out.get(mark) or Entry(mark, key)
        self._shut_out(replace(entry, since=at))
        return [Publish("trust_rejected", f"a person rejected {entry.label}", {"fingerprint": mark})]

    def forget(self, who: str, at: float) -> list[Publish]:
        """Trust a key no longer, nor those whom only it vouches for; it stays out until a person accepts it again.

        Raises:
            InvalidMessage: `who` is neither a key nor a whole fingerprint.
            UnknownKey: it is not accepted here.
        """
        mark, _ = fingerprint_of(who)
        entry = self.accepted.pop(mark, None)
        if entry is None:
            raise UnknownKey(who)
        self._shut_out(replace(entry, since=at, by="", is_introducer=False, introduced_by=""))
        words = f"a person forgot {entry.label}; it stays out until it is accepted again"
        return [Publish("trust_forgotten", words, {"fingerprint": mark}), *self._withdraw(mark, frozenset())]

    def vouches(self) -> list[tuple[str, str]]:
        """Fingerprints and names of those whom this node vouches for: all but those that introducers brought."""
        return [(mark, entry.name) for mark, entry in self.accepted.items() if not entry.introduced_by]

    def introduced(self, introducer: str, vouched: Sequence[tuple[str, str]], at: float) -> list[Publish]:
        """An introducer says for whom it vouches, fingerprints and names; whoever is missing is trusted no more.

        What a person here decided holds, whatever introducers say. Who is no introducer says nothing.
        """
        by = print_of(introducer)
        giver = self.accepted.get(by)
        if giver is None or not giver.is_introducer or giver.introduced_by:
            return []
        told = self._withdraw(by, frozenset(mark for mark, _ in vouched))
        for mark, name in vouched:
            if mark in self.accepted or mark in self.out or mark == print_of(self.own):
                continue
            if len(self.accepted) >= MOST_KEPT:
                break
            known = self.waiting.pop(mark, None) or Entry(mark, name=name)
            entry = replace(known, since=at, by="introducer", introduced_by=by)
            self.accepted[mark] = entry
            words = f"{giver.label} introduced {entry.label}, which is accepted"
            told.append(Publish("trust_introduced", words, {"fingerprint": mark}))
        return told

    def _foreign(self, who: str) -> tuple[str, str]:
        """The fingerprint and, if it was given, the key of another node than this one."""
        mark, key = fingerprint_of(who)
        if mark == print_of(self.own):
            raise InvalidMessage("this is the key of this node itself")
        return mark, key

    def _drop(self, mark: str) -> list[Publish]:
        entry = self.accepted.pop(mark)
        words = f"{entry.label} is not accepted any more: the settings do not name it now"
        return [Publish("trust_withdrawn", words, {"fingerprint": mark}), *self._withdraw(mark, frozenset())]

    def _withdraw(self, by: str, staying: frozenset[str]) -> list[Publish]:
        gone = [e for mark, e in self.accepted.items() if e.introduced_by == by and mark not in staying]
        told = []
        for entry in gone:
            del self.accepted[entry.fingerprint]
            words = f"{entry.label} is not accepted any more: nobody vouches for it now"
            told.append(Publish("trust_withdrawn", words, {"fingerprint": entry.fingerprint}))
        return told

    def _shut_out(self, entry: Entry) -> None:
        self.out.pop(entry.fingerprint, None)
        self.out[entry.fingerprint] = entry
        while len(self.out) > MOST_KEPT:
            del self.out[next(iter(self.out))]

    def _room(self) -> list[Publish]:
        """Make room for one stranger more; the oldest goes, of the host from which most of them called."""
        if len(self.waiting) < MOST_WAITING:
            return []
        hosts = Counter(entry.address.rpartition(":")[0] for entry in self.waiting.values())
        most = hosts.most_common(1)[0][0]
        del self.waiting[next(m for m, e in self.waiting.items() if e.address.rpartition(":")[0] == most)]
        if self._is_full:
            return []
        self._is_full = True
        words = f"more than {MOST_WAITING} strangers wait to be accepted; the oldest ones are left out"
        return [Publish("trust_full", words)]
