"""The page: what this node and its peers are doing, and the button that starts a round. Works without script."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import orjson
from quart import Blueprint, Response, redirect, request

from flnet.errors import FlnetError
from flnet.messages import Trigger
from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.transport.base import Reply
from flnet.web.answers import JSON
from flnet.web.body import read_body
from flnet.web.frame import render_page
from flnet.web.training import caller_ip
from flnet.web.view import event_views, jobs_of, peer_views, same_job, text

REFRESH_SECONDS = 5  # while something is going on
EVENTS_SHOWN = 12
PEER_INFOS_KEPT_SECONDS = 1.0  # many open pages ask the peers no more often than one


@dataclass(frozen=True)
class Notice:
    """One sentence for the person who pressed a button."""

    text: str
    is_error: bool


class Notices:
    """The last notices by a key that nobody can guess, so that no link can put words on this page."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: OrderedDict[str, Notice] = OrderedDict()

    def put(self, notice: Notice) -> str:
        """Keep a notice; the key to find it by."""
        key = secrets.token_urlsafe(9)
        self._kept[key] = notice
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return key

    def get(self, key: str | None) -> Notice | None:
        """The notice of this key, if it is still kept."""
        return self._kept.get(key or "")


class PeerInfos:
    """What the peers say of themselves; asked once for all pages that are requested within a moment."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._asking = asyncio.Lock()
        self._until = float("-inf")
        self._kept: Sequence[View] = ()

    async def get(self) -> Sequence[View]:
        """One view per peer, at most PEER_INFOS_KEPT_SECONDS old."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                self._kept = await self._node.peer_infos()
                self._until = asyncio.get_running_loop().time() + PEER_INFOS_KEPT_SECONDS
            return self._kept


def page_routes(node: Node) -> Blueprint:
    """The page and its form."""
    routes = Blueprint("page", __name__)
    notices, peer_infos = Notices(), PeerInfos(node)

    @routes.get("/")
    async def page() -> Response:
        shown = page_data(node, await peer_infos.get())
        return await render_page("index.html", **shown, notice=notices.get(request.args.get("notice")))

    @routes.post("/training/trigger/form")
    async def trigger() -> Any:
        key = notices.put(await _trigger(node, await read_body()))
        return redirect(f"/?notice={key}", 303)

    return routes


def page_data(node: Node, peer_infos: Sequence[View]) -> dict[str, Any]:
    """All that the template shows, but for the notice."""
    info = node.info()
    own = [node.job(TrainerId(job["trainer_id"])) for job in info["jobsInfo"]]  # more than peers are told
    jobs = jobs_of(node.me.id, {**info, "jobsInfo": own})
    asked = {str(one.get("id")): one for one in peer_infos}
    elsewhere = [job for one in peer_infos for job in jobs_of(text(one.get("id")), one.get("info"))]
    others = [job for job in elsewhere if not any(same_job(job, mine) for mine in jobs)]
    busy = any(job.busy for job in [*jobs, *elsewhere])
    return {
        "status": text(info.get("lastNodeStatus")),
        "ready": node.ready(),
        "jobs": [(job, [other for other in elsewhere if same_job(job, other)]) for job in jobs],
        "other_jobs": others,
        "peers": peer_views(node.peers(), asked),
        "events": event_views(node.feed.recent(), EVENTS_SHOWN),
        "refresh": REFRESH_SECONDS if busy else None,
    }


async def _trigger(node: Node, body: bytes) -> Notice:
    """Ask for a round on behalf of the form; every outcome is a sentence."""
    fields = parse_qs(body.decode(errors="replace"))
    trainer = fields.get("trainerId", [""])[0]
    message = orjson.dumps({"trainerId": trainer})
    try:
        reply = await node.receive(Trigger.path, message, JSON, caller_ip())
    except FlnetError as error:
        return Notice(error.message, is_error=True)
    return _outcome(reply, trainer)


def _outcome(reply: Reply, trainer: str) -> Notice:
    answer: Mapping[str, Any] = orjson.loads(reply.body)
    if reply.status >= 400:
        return Notice(text(answer.get("message"), 500), is_error=True)
    return Notice(f"Round {answer.get('round')} of {trainer} has been started.", is_error=False)
