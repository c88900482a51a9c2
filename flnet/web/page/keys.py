"""The page of keys: fingerprints of this node and its peers, and in a pinned mesh whom it trusts.

Also how other pages show a key (`Identity`), and the QR code of a fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any
from urllib.parse import quote

from quart import Response, request

from flnet.errors import InvalidMessage, UnknownPeer
from flnet.fingerprints import SHORT_GROUPS, check_key, fingerprint, words
from flnet.node.interface import Node, View
from flnet.node.trust import Trust
from flnet.text import text
from flnet.web.api.mesh import Mesh, MeshNode
from flnet.web.api.trust import trust_of
from flnet.web.auth.permissions import may_act
from flnet.web.formatting import one_line
from flnet.web.page.frame import local_path, notices, redirect_with_notice, show
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_translator

KEYS = "/view/keys"
GONE = ("dead", "left")  # states of peers that can be forgotten
GROUPS_PER_LINE = 5  # of a fingerprint; thirteen groups are three lines
OUT_SHOWN = 10  # in the picture of the mesh; the view of keys has all
QUIET = 4  # modules of free space around a QR code (ISO/IEC 18004)
pages = Pages()
YES = "yes"  # what a ticked box sends


@dataclass(frozen=True)
class Identity:
    """A key as people compare it.

    Attributes:
        key: the base64 of the public key; empty where only the fingerprint is known.
        fingerprint: all of it, thirteen groups.
        short: its first two groups.
        words: its first 60 bits as six words.
        lines: the groups of the fingerprint, as they stand under each other.
    """

    key: str
    fingerprint: str
    short: str
    words: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def spoken(self) -> str:
        """The words as the command line shows them."""
        return "-".join(self.words)


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
        """The address of the form that accepts the key."""
        return accept_url(self.identity.fingerprint)

    @property
    def distrust(self) -> str:
        """The address of the form that forgets or rejects the key."""
        return distrust_url(self.identity.fingerprint)


@dataclass(frozen=True)
class KnownKeys:
    """All keys that a node of a pinned mesh knows besides its own."""

    waiting: tuple[KeyCard, ...]
    accepted: tuple[KeyCard, ...]
    out: tuple[KeyCard, ...]

    def find(self, mark: str) -> KeyCard | None:
        """The key of this fingerprint."""
        return next(
            (c for c in (*self.waiting, *self.accepted, *self.out) if c.identity.fingerprint == mark), None
        )


@dataclass(frozen=True)
class KeyRow:
    """One peer by its key.

    Attributes:
        name: as it is shown; `raw` is the same as the node knows it.
        forget: the address that asks whether to forget it; empty while it takes part.
    """

    raw: str
    name: str
    address: str
    state: str
    identity: Identity | None
    forget: str


@dataclass(frozen=True)
class QrPicture:
    """The dark modules as what the attribute d of an SVG path takes, in a square of `size` modules."""

    size: int
    path: str


@pages.get(KEYS)
async def keys(node: Node) -> Response:
    """The keys of the mesh; asks before somebody is forgotten."""
    own = identity_of(node.info().get("key", ""))
    peers = node.peers()
    rows = [key_row(peer) for peer in peers]
    known = known_keys(node.trust, peers) if node.trust is not None and may_act() else None
    return await show(
        "keys.html",
        own=own,
        qr=qr_picture(own.fingerprint) if own else None,
        rows=rows,
        found=known,
        waiting=known.waiting if known else (),
        asked=_row_of(rows, request.args.get("forget")),
        doubted=_card_of(known, request.args.get("distrust")),
        wanted=_card_of(known, request.args.get("accept")),
        notice=notices().get(request.args.get("notice")),
    )


@pages.post(KEYS)
async def act(node: Node, form: Mapping[str, str]) -> Any:
    """Do what the buttons say, here and on the first page."""
    back = "/" if local_path(form.get("back", KEYS)) == "/" else KEYS
    return await redirect_with_notice(done(node, form, request_translator()), back)


async def done(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    """Do what the form asks for; what came of it in a sentence.

    Raises:
        FlnetError: it was refused.
    """
    key, name = fields.get("key", ""), one_line(fields.get("name", "")) or one_line(fields.get("key", ""), 12)
    match fields.get("do"):
        case "forget":
            peer = fields.get("peer", "")
            await node.forget(peer)
            return t("{peer} is forgotten here. Its name is free.", peer=one_line(peer))
        case "accept":
            return await _accept(node, fields, t)
        case "reject":
            await trust_of(node).reject(key)
            return t("{name} is rejected. It stays out until it is accepted.", name=name)
        case "distrust":
            await trust_of(node).forget(key)
            return t("{name} is forgotten here. It stays out until it is accepted again.", name=name)
    raise InvalidMessage(text("do: expected accept, reject, forget or distrust"))


async def _accept(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    if fields.get("compared") != YES:
        raise InvalidMessage(text("compare the fingerprints first, and say that you did"))
    view = await trust_of(node).accept(fields.get("key", ""), fields.get("introducer") == YES)
    if view["is_introducer"]:
        return t("{name} is accepted, and so are those whom it introduces.", name=_named(view))
    return t("{name} is accepted.", name=_named(view))


def _named(view: View) -> str:
    return one_line(view["name"]) or one_line(view["fingerprint"], 12)


@lru_cache(1024)  # the same few keys stand in every view
def identity_of(key: str) -> Identity | None:
    """The identity of a public key; None if it is not a key, as for a node without one."""
    try:
        check_key(key)
    except ValueError:
        return None
    return _identity(key, fingerprint(key), words(key))


def identity_in(view: Mapping[str, Any]) -> Identity:
    """The identity in a view of `flnet.node.trust.Trust`, also of a key that was only read out so far."""
    return _identity(view["key"], view["fingerprint"], view["words"])


def _identity(key: str, whole: str, spoken: str) -> Identity:
    groups = whole.split("-")
    lines = ("-".join(groups[at : at + GROUPS_PER_LINE]) for at in range(0, len(groups), GROUPS_PER_LINE))
    spoken_words = tuple(spoken.split("-")) if spoken else ()
    return Identity(key, whole, "-".join(groups[:SHORT_GROUPS]), spoken_words, tuple(lines))


def forget_url(peer: str, state: str, disputed: bool = False) -> str:
    """The address that asks whether to forget a peer; empty while it takes part and nobody claims its name."""
    return f"{KEYS}?forget={quote(peer, safe='')}#forget" if state in GONE or disputed else ""


def distrust_url(mark: str) -> str:
    """The address that asks whether to trust the key of this fingerprint no longer."""
    return f"{KEYS}?distrust={mark}#distrust"


def accept_url(mark: str) -> str:
    """The address of the form that accepts the key of this fingerprint."""
    return f"{KEYS}?accept={mark}#accept"


def known_keys(trust: Trust, peers: Sequence[Mapping[str, Any]] = ()) -> KnownKeys:
    """Everybody whom `Trust` knows; the newest of those that stay out come first.

    Args:
        peers: views of the members, for their states.
    """
    accepted = trust.accepted()
    names = {key["fingerprint"]: _name(key) for key in accepted}
    states = {str(peer.get("key")): one_line(peer.get("state"), 20) for peer in peers if peer.get("key")}
    return KnownKeys(
        tuple(_card(key, names, states) for key in trust.pending()),
        tuple(_card(key, names, states) for key in accepted),
        tuple(_card(key, names, {}) for key in reversed(trust.refused())),
    )


def with_known_keys(mesh: Mesh, known: KnownKeys) -> Mesh:
    """The mesh with those who wait as "pending" and those who stay out as "forgotten", after the members."""
    ids = {node.id for node in mesh.nodes}
    added: list[MeshNode] = []
    shown = (
        (card, state)
        for cards, state in ((known.waiting, "pending"), (known.out[:OUT_SHOWN], "forgotten"))
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


def _card(key: Mapping[str, Any], names: Mapping[str, str], states: Mapping[str, str]) -> KeyCard:
    moment = datetime.fromtimestamp(key["since"]).astimezone()
    return KeyCard(
        name=_name(key),
        address=one_line(key["address"]),
        since=moment.strftime("%Y-%m-%d %H:%M"),
        iso=moment.isoformat(timespec="seconds"),
        identity=identity_in(key),
        by=key.get("accepted_by", ""),
        is_introducer=key.get("is_introducer", False),
        introducer=_introducer(key["introduced_by"], names),
        state=states.get(key["key"], ""),
    )


def _name(key: Mapping[str, Any]) -> str:
    return one_line(key["name"]) or str(key["fingerprint"])[:11]


def _introducer(mark: str | None, names: Mapping[str, str]) -> str:
    return names.get(mark, mark[:11]) if mark else ""


@lru_cache(8)  # a node shows its own fingerprint only
def qr_picture(text: str) -> QrPicture:
    """The smallest QR code that holds a text and survives 15 % of damage (level M).

    Args:
        text: capital letters, digits and hyphens take the least room.

    Raises:
        ValueError: there is no code for so long a text.
    """
    import segno  # noqa: PLC0415 - half a megabyte, for a view that few look at

    rows = segno.make(text, error="m", micro=False, boost_error=False).matrix
    parts = []
    for y, row in enumerate(rows, QUIET):
        x = QUIET
        for is_dark, run in groupby(row):
            width = len(list(run))
            if is_dark:
                parts.append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    return QrPicture(len(rows) + 2 * QUIET, "".join(parts))


def key_row(peer: View) -> KeyRow:
    """One peer of `Node.peers`."""
    raw, state = str(peer["id"]), one_line(peer.get("state"), 20)
    return KeyRow(
        raw=raw,
        name=one_line(raw),
        address=one_line(peer.get("address")),
        state=state,
        identity=identity_of(peer.get("key") or ""),
        forget=forget_url(raw, state, peer.get("disputed") is True),
    )


def _row_of(rows: Sequence[KeyRow], peer: str | None) -> KeyRow | None:
    if not peer:
        return None
    row = next((row for row in rows if row.raw == peer), None)
    if row is None:
        raise UnknownPeer(peer)
    return row


def _card_of(known: KnownKeys | None, mark: str | None) -> KeyCard | None:
    if not mark or known is None:
        return None
    card = known.find(mark)
    if card is None:
        raise InvalidMessage(text("no key with the fingerprint {digest} is known here any more", repr(mark[:80])))
    return card
