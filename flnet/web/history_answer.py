"""GET /jobs/{trainerId}/history.csv, .svg and .png: a job's history as a file to take away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from quart import Blueprint, Response, request

from flnet.errors import InvalidMessage
from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.postponing import postponed

with postponed("flnet.web.history_files", "flnet.web.history_png"):
    from flnet.web import history_files, history_png

Make = Callable[[Sequence[View], str], bytes]


def _csv(records: Sequence[View], _: str) -> bytes:
    return history_files.as_csv(records)


def _svg(records: Sequence[View], title: str) -> bytes:
    return history_files.as_svg(records, title)


def _png(records: Sequence[View], title: str) -> bytes:
    return history_png.as_png(records, title)


FORMS: Mapping[str, tuple[str, Make]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "svg": ("image/svg+xml", _svg),
    "png": ("image/png", _png),
}


def history_routes(node: Node) -> Blueprint:
    """The endpoints, one for each form."""
    routes = Blueprint("history", __name__)
    turn = asyncio.Lock()  # ten thousand rounds are some megabytes and half a second: one file at a time
    for form, (kind, make) in FORMS.items():
        answer = _answering(node, form, kind, make, turn)
        routes.add_url_rule(f"/jobs/<trainer>/history.{form}", endpoint=form, view_func=answer)
    return routes


def asked_rounds() -> int | None:
    """How many records the request wants at most; None for all.

    Raises:
        InvalidMessage: that is no number of rounds.
    """
    asked = request.args.get("last")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 9 and int(asked) > 0):
        raise InvalidMessage(f"last: expected a whole number from 1 to 999999999, got {asked[:60]!r}")
    return int(asked)


def _answering(
    node: Node, form: str, kind: str, make: Make, turn: asyncio.Lock
) -> Callable[[str], Awaitable[Response]]:
    async def answer(trainer: str) -> Response:
        wanted = asked_rounds()
        title = f"{node.job(TrainerId(trainer))['trainer_label']} on {node.me.id}"
        async with turn:
            records = list(await node.records(TrainerId(trainer), wanted))
            file = Response(await asyncio.to_thread(make, records, title), content_type=kind)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{trainer}-{node.me.id}")[:100]
        file.headers["Content-Disposition"] = f'attachment; filename="{name}-history.{form}"'
        return file

    return answer
