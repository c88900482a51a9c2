"""The view of keys: this node's fingerprint, those of its peers, and the form that forgets one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response, redirect, request

from flnet.errors import FlnetError, InvalidMessage
from flnet.membership.naming import UnknownPeer
from flnet.node.base import Node, View
from flnet.web.frame import language_of_request
from flnet.web.identities import KEYS, Identity, forget_url, identity_of
from flnet.web.page import Notice, Notices, read_form
from flnet.web.qr_picture import qr_picture
from flnet.web.view import text
from flnet.web.views_frame import show
from flnet.web.words import Translate


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
    """GET /view/keys, which asks whether to forget the peer in ?forget=; POST does what its buttons say."""
    notices = Notices()

    @routes.get(KEYS)
    async def keys() -> Response:
        info = node.info()
        own = identity_of(info.get("key", ""))
        rows = [key_row(peer) for peer in node.peers()]
        return await show(
            "keys.html",
            own=own,
            qr=qr_picture(own.fingerprint) if own else None,
            rows=rows,
            asked=_asked_for(rows, request.args.get("forget")),
            notice=notices.get(request.args.get("notice")),
        )

    @routes.post(KEYS)
    async def act() -> Any:
        try:
            notice = Notice(await done(node, await read_form(), language_of_request()), is_error=False)
        except FlnetError as error:
            notice = Notice(error.message, is_error=True)
        return redirect(f"{KEYS}?notice={notices.put(notice)}", 303)


async def done(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    """Do what the form asks for; what came of it in a sentence.

    Raises:
        FlnetError: it was refused.
    """
    match fields.get("do"):
        case "forget":
            peer = fields.get("peer", "")
            await node.forget(peer)
            return t("{peer} is forgotten here. Its name is free.", peer=text(peer))
    raise InvalidMessage("do: expected forget")


def key_row(peer: View) -> KeyRow:
    """One peer of `Node.peers`."""
    raw, state = str(peer["id"]), text(peer.get("state"), 20)
    return KeyRow(
        raw=raw,
        name=text(raw),
        address=text(peer.get("address")),
        state=state,
        identity=identity_of(peer.get("key") or ""),
        forget=forget_url(raw, state),
    )


def _asked_for(rows: Sequence[KeyRow], peer: str | None) -> KeyRow | None:
    if not peer:
        return None
    found = next((row for row in rows if row.raw == peer), None)
    if found is None:
        raise UnknownPeer(peer)
    return found
