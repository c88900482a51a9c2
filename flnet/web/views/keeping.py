"""The forms of the view of models: pin and unpin a model, and go back to one."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, redirect

from flnet.errors import FlnetError, InvalidMessage
from flnet.node.base import Node
from flnet.params import TrainerId
from flnet.web.frame import language_of_request
from flnet.web.notices import Notice, Notices
from flnet.web.page import read_form
from flnet.web.views.frame import view_url
from flnet.web.words import Translate


def keeping_form(routes: Blueprint, node: Node, notices: Notices) -> None:
    """POST /view/models/<trainer>; it leads back to the view, where the outcome is told."""

    @routes.post("/view/models/<trainer>")
    async def keep(trainer: str) -> Any:
        node.job(TrainerId(trainer))  # an unknown one has no view to lead back to
        fields = await read_form()
        try:
            words = await done(
                node, trainer, fields.get("do", ""), fields.get("digest", ""), language_of_request()
            )
            notice = Notice(words, is_error=False)
        except FlnetError as error:
            notice = Notice(error.message, is_error=True)
        return redirect(f"{view_url('models', trainer)}?notice={notices.put(notice)}", 303)


async def done(node: Node, trainer: str, order: str, digest: str, t: Translate) -> str:
    """Do what the form asks for; what came of it in a sentence.

    Raises:
        FlnetError: it was refused.
    """
    name = digest[:12]
    match order:
        case "pin":
            await node.pin(TrainerId(trainer), digest, True)
            return t("The model {digest} is kept until it is unpinned.", digest=name)
        case "unpin":
            await node.pin(TrainerId(trainer), digest, False)
            return t("The model {digest} goes when its turn comes.", digest=name)
        case "restore":
            await node.restore(TrainerId(trainer), digest)
            return t("The model {digest} is in use again.", digest=name)
    raise InvalidMessage("do: expected pin, unpin or restore")
