"""The book of trust of a pinned mesh: which keys are accepted, by whom, which are pending, and which are rejected.

Keys are known by their fingerprints: a person may accept a key that was read out before its node ever called.
Accepted and rejected keys are saved over restarts; pending ones are not, because their nodes call again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

from flnet.errors import InvalidMessage, TrustFull, UnknownKey
from flnet.fingerprints import KEY_BYTES, check_key, fingerprint, read_fingerprint, short
from flnet.protocol.effects import Publish
from flnet.text import text

By = Literal["person", "settings", "introducer"]

print_of = lru_cache(4096)(fingerprint)  # of a key; looked up with each request
MOST_WAITING = 64  # strangers that wait at once
MOST_KEPT = 1024  # keys that are accepted, and as many that stay out
MOST_TOLD, MOST_TOLD_EACH = 256, 32  # strangers that people hear of in one run: in all, and from one place


@dataclass(frozen=True)
class TrustEntry:
    """What is known of one key.

    Attributes:
        fingerprint: whole, in its usual form.
        key: base64 of the public key; empty until its node has called.
        name, address: as its node said them last, and where that called from ("host:port"); empty until then.
        since: seconds since the epoch by this node's clock, for people only: when it came to where it is now.
        by: who accepted it; empty for one that waits.
        is_introducer: whether those whom this one vouches for are accepted.
        introduced_by: fingerprint of the introducer that vouches for it; empty if a person decided.
    """

    fingerprint: str
    key: str = ""
    name: str = ""
    address: str = ""
    since: float = 0.0
    by: By | Literal[""] = ""
    is_introducer: bool = False
    introduced_by: str = ""

    @property
    def label(self) -> str:
        """How people hear of it."""
        return f"{self.name or 'a node'} ({self.fingerprint[:11]})"


def fingerprint_of(who: str) -> tuple[str, str]:
    """The fingerprint of what a person wrote, a public key in base64 or a whole fingerprint; and the key, if so.

    Raises:
        InvalidMessage: it is neither.
    """
    value = who.strip()
    try:
        return print_of(check_key(value)), value
    except ValueError:
        pass
    try:
        return read_fingerprint(value), ""
    except ValueError as exc:
        raise InvalidMessage(
            text("expected a public key of {count} bytes in base64, or a fingerprint: {words}", KEY_BYTES, exc)
        ) from exc


def read_row(row: Mapping[str, Any]) -> tuple[TrustEntry | None, bool]:
    """An entry that was kept, None if it cannot be read, and whether it stays out."""
    known = {field.name for field in fields(TrustEntry)}
    try:
        entry = TrustEntry(**{name: value for name, value in row.items() if name in known})
        if read_fingerprint(entry.fingerprint) != entry.fingerprint or (entry.key and not check_key(entry.key)):
            return None, False
    except (TypeError, ValueError, AttributeError):
        return None, False
    return entry, bool(row.get("out"))


class TrustBook:
    """The keys that are accepted, pending and rejected. It has no clock, and changes only when it is told to."""

    def __init__(self, own: str, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """Args:
        own: public key of this node, which is never written down.
        rows: what `rows` gave once; those that cannot be read are left out.
        """
        self.own = own
        self.accepted: dict[str, TrustEntry] = {}
        self.out: dict[str, TrustEntry] = {}
        self.waiting: OrderedDict[str, TrustEntry] = OrderedDict()
        self._places: dict[str, str] = {}  # of those that wait: where they called from, which they cannot choose
        self._told: dict[str, str] = {}  # strangers that people heard of, and their places
        self._is_full = False
        for row in rows:
            entry, is_out = read_row(row)
            if entry is not None:
                (self.out if is_out else self.accepted)[entry.fingerprint] = entry

    def rows(self) -> list[dict[str, Any]]:
        """The rows to be saved."""
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
        entry = self.accepted.get(print_of(key))
        return entry is not None and entry.is_introducer

    def met(self, key: str, name: str, address: str, at: float, caller: str = "") -> list[Publish]:
        """A node showed this key, by calling or by being called; a stranger's waits from then on.

        Args:
            name: what it calls itself; empty where it has not said so.
            address: where it can be called, as it said.
            at: now, in seconds since the epoch.
            caller: what it called from, by which strangers are bounded; empty if it was called at the address.
        """
        mark = print_of(key)
        if key == self.own or mark in self.out:
            return []
        for group in (self.accepted, self.waiting):
            if (known := group.get(mark)) is not None:
                group[mark] = replace(known, key=key, name=name or known.name, address=address or known.address)
                return []
        events = self._room()
        entry = self.waiting[mark] = TrustEntry(mark, key, name, address, at)
        place = self._places[mark] = caller or address.rpartition(":")[0]
        if mark in self._told or len(self._told) >= MOST_TOLD:
            return events
        if list(self._told.values()).count(place) >= MOST_TOLD_EACH:
            return events
        self._told[mark] = place
        words = text(
            "{peer} at {address} with the fingerprint {part} waits for a person to accept it",
            name or "a node",
            address,
            short(key),
        )
        return [*events, Publish("trust_pending", words, {"fingerprint": entry.fingerprint})]

    def accept(self, who: str, at: float, *, introducer: bool = False, by: By = "person") -> list[Publish]:
        """Trust a key from now on; what is known of it stays.

        Raises:
            InvalidMessage: `who` is neither a key nor a whole fingerprint, or is this node itself.
            TrustFull: there is no room.
        """
        mark, key = self._foreign(who)
        known = self.accepted.get(mark) or self.waiting.get(mark) or self.out.get(mark) or TrustEntry(mark)
        is_new = mark not in self.accepted
        if is_new and len(self.accepted) >= MOST_KEPT:
            raise TrustFull(MOST_KEPT)
        self.waiting.pop(mark, None)
        self.out.pop(mark, None)
        since = at if is_new else known.since
        entry = replace(
            known, key=known.key or key, since=since, by=by, is_introducer=introducer, introduced_by=""
        )
        self.accepted[mark] = entry
        events = self._withdraw(mark, frozenset()) if not introducer else []
        words = text("a person accepted {peer}", entry.label)
        if by == "settings":
            words = text("the settings accept {peer}", entry.label)
        elif introducer:
            words = text("a person accepted {peer}, and those whom it introduces", entry.label)
        return [Publish("trust_accepted", words, {"fingerprint": mark}), *events]

    def configured(self, peers: Collection[str], introducers: Collection[str], at: float) -> list[Publish]:
        """The settings name keys to trust, by fingerprints; those that they name no more are trusted no more.

        What a person decided here holds: who was turned away stays out, whatever the settings say.
        """
        named = sorted({*peers, *introducers} - {print_of(self.own)})
        gone = [mark for mark, entry in self.accepted.items() if entry.by == "settings" and mark not in named]
        events = [event for mark in gone for event in self._drop(mark)]
        for mark in named:
            known = self.accepted.get(mark)
            if mark in self.out:
                words = text(
                    "the settings accept {peer}, but a person turned it away here: it stays out",
                    self.out[mark].label,
                )
                events.append(Publish("trust_rejected", words, {"fingerprint": mark}))
            elif known is None or known.by != "person":
                accepted = self.accept(mark, at, introducer=mark in introducers, by="settings")
                events += accepted if known is None else accepted[1:]
        return events

    def reject(self, who: str, at: float) -> list[Publish]:
        """Reject a pending key: its node stays out until a person accepts it.

        Raises:
            InvalidMessage: `who` is neither a key nor a whole fingerprint, or is this node itself.
        """
        mark, key = self._foreign(who)
        if mark in self.accepted:
            return self.forget(who, at)
        entry = self.waiting.pop(mark, None) or self.out.get(mark) or TrustEntry(mark, key)
        self._shut_out(replace(entry, since=at))
        return [Publish("trust_rejected", text("a person rejected {peer}", entry.label), {"fingerprint": mark})]

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
        words = text("a person forgot {peer}; it stays out until it is accepted again", entry.label)
        return [Publish("trust_forgotten", words, {"fingerprint": mark}), *self._withdraw(mark, frozenset())]

    def vouches(self) -> list[tuple[str, str]]:
        """Fingerprints and names of those whom this node vouches for: all but those that introducers brought."""
        return [(mark, entry.name) for mark, entry in self.accepted.items() if not entry.introduced_by]

    def introduced(self, introducer: str, vouched: Sequence[tuple[str, str]], at: float) -> list[Publish]:
        """Set the nodes for which an introducer vouches, by fingerprint and name; missing ones are no longer trusted.

        Decisions of a person here take precedence. A node that is not an introducer has no effect.
        """
        by = print_of(introducer)
        giver = self.accepted.get(by)
        if giver is None or not giver.is_introducer or giver.introduced_by:
            return []
        events = self._withdraw(by, frozenset(mark for mark, _ in vouched))
        for mark, name in vouched:
            if mark in self.accepted or mark in self.out or mark == print_of(self.own):
                continue
            if len(self.accepted) >= MOST_KEPT:
                break
            known = self.waiting.pop(mark, None) or TrustEntry(mark, name=name)
            entry = replace(known, since=at, by="introducer", introduced_by=by)
            self.accepted[mark] = entry
            words = text("{peer} introduced {other}, which is accepted", giver.label, entry.label)
            events.append(Publish("trust_introduced", words, {"fingerprint": mark}))
        return events

    def _foreign(self, who: str) -> tuple[str, str]:
        """The fingerprint and, if it was given, the key of another node than this one."""
        mark, key = fingerprint_of(who)
        if mark == print_of(self.own):
            raise InvalidMessage(text("this is the key of this node itself"))
        return mark, key

    def _drop(self, mark: str) -> list[Publish]:
        entry = self.accepted.pop(mark)
        words = text("{peer} is not accepted any more: the settings do not name it now", entry.label)
        return [Publish("trust_withdrawn", words, {"fingerprint": mark}), *self._withdraw(mark, frozenset())]

    def _withdraw(self, by: str, staying: frozenset[str]) -> list[Publish]:
        gone = [e for mark, e in self.accepted.items() if e.introduced_by == by and mark not in staying]
        events = []
        for entry in gone:
            del self.accepted[entry.fingerprint]
            words = text("{peer} is not accepted any more: nobody vouches for it now", entry.label)
            events.append(Publish("trust_withdrawn", words, {"fingerprint": entry.fingerprint}))
        return events

    def _shut_out(self, entry: TrustEntry) -> None:
        self.out.pop(entry.fingerprint, None)
        self.out[entry.fingerprint] = entry
        while len(self.out) > MOST_KEPT:
            del self.out[next(iter(self.out))]

    def _room(self) -> list[Publish]:
        """Make room for one stranger more; the oldest goes, of the place from which most of them called."""
        self._places = {mark: place for mark, place in self._places.items() if mark in self.waiting}
        if len(self.waiting) < MOST_WAITING:
            return []
        ((most, _),) = Counter(self._places.values()).most_common(1)
        del self.waiting[next(mark for mark in self.waiting if self._places[mark] == most)]
        if self._is_full:
            return []
        self._is_full = True
        words = text("more than {count} strangers wait to be accepted; the oldest ones are left out", MOST_WAITING)
        return [Publish("trust_full", words)]
