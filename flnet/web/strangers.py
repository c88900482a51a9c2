"""The keys of a pinned mesh in words: who waits to be accepted, who is accepted, and who stays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flnet.node.trust import Trust
from flnet.web.identities import Identity, accept_url, distrust_url, identity_in
from flnet.web.mesh import Mesh, MeshNode
from flnet.web.view import text

OUT_SHOWN = 10  # in the picture of the mesh; the view of keys has all


@dataclass(frozen=True)
class KeyCard:
    """One key, and what its node said of itself.

    Attributes:
        name: what its node calls itself, or the beginning of the fingerprint while it has not said so.
        since: when it came to where it is now, by this node's clock; `iso` is the same for programs.
        by: "person", "settings" or "introducer"; empty for one that is not accepted.
        introducer: name of the introducer that vouches for it; empty if a person decided.
        state: of the peer with this key as the membership names it; empty while it is none.
        accept, distrust: addresses of the forms that accept it or trust it no longer.
    """

    name: str
    address: str
    since: str
    iso: str
    identity: Identity
    by: str = ""
    is_introducer: bool = False
    introducer: str = ""
    state: str = ""

    @property
    def accept(self) -> str:
        """Where it can be accepted."""
        return accept_url(self.identity.fingerprint)

    @property
    def distrust(self) -> str:
        """Where trust in it can be taken back."""
        return distrust_url(self.identity.fingerprint)


@dataclass(frozen=True)
class Strangers:
    """All keys that a node of a pinned mesh knows besides its own."""

    waiting: tuple[KeyCard, ...]
    accepted: tuple[KeyCard, ...]
    out: tuple[KeyCard, ...]

    def find(self, mark: str) -> KeyCard | None:
        """The key of this fingerprint."""
        return next(
            (c for c in (*self.waiting, *self.accepted, *self.out) if c.identity.fingerprint == mark), None
        )


def strangers(trust: Trust, peers: Sequence[Mapping[str, Any]] = ()) -> Strangers:
    """Everybody whom `Trust` knows; the newest of those that stay out come first.

    Args:
        peers: views of the members, for their states.
    """
    accepted = trust.accepted()
    names = {one["fingerprint"]: _name(one) for one in accepted}
    states = {str(peer.get("key")): text(peer.get("state"), 20) for peer in peers if peer.get("key")}
    return Strangers(
        tuple(_card(one, names, states) for one in trust.pending()),
        tuple(_card(one, names, states) for one in accepted),
        tuple(_card(one, names, {}) for one in reversed(trust.refused())),
    )


def with_strangers(mesh: Mesh, found: Strangers) -> Mesh:
    """The mesh with those who wait as "pending" and those who stay out as "forgotten", after the members."""
    ids = {node.id for node in mesh.nodes}
    added: list[MeshNode] = []
    shown = (
        (card, state)
        for cards, state in ((found.waiting, "pending"), (found.out[:OUT_SHOWN], "forgotten"))
        for card in cards
    )
    for card, state in shown:
        mark = card.identity.short
        name = f"{card.name} {mark}" if card.name in ids else card.name
        if name in ids:
            continue
        ids.add(name)
        added.append(
            MeshNode.model_construct(
                id=name, address=card.address, state=state, fingerprint=mark, key=card.identity.key, jobs=[]
            )
        )
    return mesh.model_copy(update={"nodes": [*mesh.nodes, *added]})


def _card(one: Mapping[str, Any], names: Mapping[str, str], states: Mapping[str, str]) -> KeyCard:
    moment = datetime.fromtimestamp(one["since"]).astimezone()
    return KeyCard(
        name=_name(one),
        address=text(one["address"]),
        since=moment.strftime("%Y-%m-%d %H:%M"),
        iso=moment.isoformat(timespec="seconds"),
        identity=identity_in(one),
        by=one.get("accepted_by", ""),
        is_introducer=one.get("is_introducer", False),
        introducer=_introducer(one["introduced_by"], names),
        state=states.get(one["key"], ""),
    )


def _name(one: Mapping[str, Any]) -> str:
    return text(one["name"]) or str(one["fingerprint"])[:11]


def _introducer(mark: str | None, names: Mapping[str, str]) -> str:
    return names.get(mark, mark[:11]) if mark else ""
