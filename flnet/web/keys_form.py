"""What the buttons of the view of keys and of the card "waiting" do."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.errors import InvalidMessage
from flnet.node.base import Node, View
from flnet.web.trust import trust_of
from flnet.web.view import text
from flnet.web.words import Translate

YES = "yes"  # what a ticked box sends


async def done(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    """Do what the form asks for; what came of it in a sentence.

    Raises:
        FlnetError: it was refused.
    """
    key, name = fields.get("key", ""), text(fields.get("name", "")) or text(fields.get("key", ""), 12)
    match fields.get("do"):
        case "forget":
            peer = fields.get("peer", "")
            await node.forget(peer)
            return t("{peer} is forgotten here. Its name is free.", peer=text(peer))
        case "accept":
            return await _accept(node, fields, t)
        case "reject":
            await trust_of(node).reject(key)
            return t("{name} is rejected. It stays out until it is accepted.", name=name)
        case "distrust":
            await trust_of(node).forget(key)
            return t("{name} is forgotten here. It stays out until it is accepted again.", name=name)
    raise InvalidMessage("do: expected accept, reject, forget or distrust")


async def _accept(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    if fields.get("compared") != YES:
        raise InvalidMessage("compare the fingerprints first, and say that you did")
    view = await trust_of(node).accept(fields.get("key", ""), fields.get("introducer") == YES)
    if view["is_introducer"]:
        return t("{name} is accepted, and so are those whom it introduces.", name=_named(view))
    return t("{name} is accepted.", name=_named(view))


def _named(view: View) -> str:
    return text(view["name"]) or text(view["fingerprint"], 12)
