"""The view of keys: this node's fingerprint, those of its peers, and who is trusted and waits in a pinned mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response, redirect, request

from flnet.errors import FlnetError, InvalidMessage
from flnet.membership.naming import UnknownPeer
from flnet.node.base import Node, View
from flnet.postponing import postponed
from flnet.web.frame import language_of_request, local_path
from flnet.web.identities import KEYS, Identity, forget_url, identity_of
from flnet.web.keys_form import done
from flnet.web.notices import Notice, notices
from flnet.web.page import read_form
from flnet.web.standing import may_act
from flnet.web.strangers import KeyCard, Strangers, strangers
from flnet.web.view import text
from flnet.web.views.frame import show

with postponed("flnet.web.qr_picture"):
    from flnet.web import qr_picture


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


def keys_view(routes: Blueprint, node: Node) -> None:
    """GET /view/keys, which asks before somebody is forgotten; POST does what its buttons and those of "/" say."""

    @routes.get(KEYS)
    async def keys() -> Response:
        own = identity_of(node.info().get("key", ""))
        peers = node.peers()
        rows = [key_row(peer) for peer in peers]
        found = strangers(node.trust, peers) if node.trust is not None and may_act() else None
        return await show(
            "keys.html",
            own=own,
            qr=qr_picture.qr_picture(own.fingerprint) if own else None,
            rows=rows,
            found=found,
            waiting=found.waiting if found else (),
            asked=_row_of(rows, request.args.get("forget")),
            doubted=_card_of(found, request.args.get("distrust")),
            wanted=_card_of(found, request.args.get("accept")),
            notice=notices().get(request.args.get("notice")),
        )

    @routes.post(KEYS)
    async def act() -> Any:
        fields = await read_form()
        try:
            notice = Notice(await done(node, fields, language_of_request()), is_error=False)
        except FlnetError as error:
            notice = Notice(error.message, is_error=True)
        back = "/" if local_path(fields.get("back", KEYS)) == "/" else KEYS
        return redirect(f"{back}?notice={notices().put(notice)}", 303)


def key_row(peer: View) -> KeyRow:
    """One peer of `Node.peers`."""
    raw, state = str(peer["id"]), text(peer.get("state"), 20)
    return KeyRow(
        raw=raw,
        name=text(raw),
        address=text(peer.get("address")),
        state=state,
        identity=identity_of(peer.get("key") or ""),
        forget=forget_url(raw, state, peer.get("disputed") is True),
    )


def _row_of(rows: Sequence[KeyRow], peer: str | None) -> KeyRow | None:
    if not peer:
        return None
    found = next((row for row in rows if row.raw == peer), None)
    if found is None:
        raise UnknownPeer(peer)
    return found


def _card_of(found: Strangers | None, mark: str | None) -> KeyCard | None:
    if not mark or found is None:
        return None
    card = found.find(mark)
    if card is None:
        raise InvalidMessage(f"no key with the fingerprint {mark[:80]!r} is known here any more")
    return card
