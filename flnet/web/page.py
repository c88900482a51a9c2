"""The page: what this node and its peers are doing, and its buttons and forms. Works without script."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, get_args
from urllib.parse import parse_qs

import orjson
from pydantic import ValidationError
from quart import Blueprint, Response, redirect, request

from flnet.errors import FlnetError, InvalidMessage
from flnet.explaining import explain
from flnet.messages import EditHyperParams, Trigger
from flnet.node.base import FeedItem, Node, Order
from flnet.params import TrainerId
from flnet.postponing import postponed
from flnet.settings import Settings
from flnet.transport.base import Reply
from flnet.web.answers import JSON
from flnet.web.body import read_body
from flnet.web.caller import caller_ip
from flnet.web.frame import language_of_request, render_page
from flnet.web.gains import GainsView, gains_view
from flnet.web.goals import until_of
from flnet.web.identities import identity_of
from flnet.web.job_view import job_view, jobs_of, same_job
from flnet.web.mesh import mesh_of
from flnet.web.mesh_view import mesh_rows
from flnet.web.notices import Notice, notices
from flnet.web.standing import may_act
from flnet.web.strangers import strangers, with_strangers
from flnet.web.view import event_views, text
from flnet.web.words import Translate

with postponed("flnet.web.cards", "flnet.web.mesh_picture"):  # until somebody looks
    from flnet.web import cards, mesh_picture

REFRESH_SECONDS = 5  # while something is going on, for browsers without script
EVENTS_SHOWN = 50


def page_routes(node: Node, settings: Settings) -> Blueprint:
    """The page, its forms, and the feed as a file."""
    routes = Blueprint("page", __name__)

    @routes.get("/")
    async def page() -> Response:
        shown = await page_data(node, settings.listen_address, language_of_request(), acts=may_act())
        return await render_page("index.html", **shown, notice=notices().get(request.args.get("notice")))

    @routes.post("/training/trigger/form")
    async def trigger() -> Any:
        return tell(await _trigger(node, await read_form(), language_of_request()))

    @routes.post("/training/params/form")
    async def edit() -> Any:
        return tell(await _edit(node, await read_form(), language_of_request()))

    @routes.post("/training/steer/form")
    async def steer() -> Any:
        return tell(await _steer(node, await read_form(), language_of_request()))

    @routes.post("/training/schedule/form")
    async def plan() -> Any:
        return tell(await _plan(node, await read_form(), language_of_request()))

    @routes.get("/events.jsonl")
    async def events() -> Response:
        answer = Response(as_lines(await node.events()), content_type="application/x-ndjson")
        answer.headers["Content-Disposition"] = 'attachment; filename="events.jsonl"'
        return answer

    def tell(notice: Notice) -> Any:
        return redirect(f"/?notice={notices().put(notice)}", 303)

    return routes


async def read_form() -> Mapping[str, str]:
    """The fields of the form that was sent, the first value of each."""
    fields = parse_qs((await read_body()).decode(errors="replace"))
    return {name: values[0] for name, values in fields.items()}


def as_lines(items: Sequence[FeedItem]) -> bytes:
    """What happened, one JSON object per line."""
    names = ("id", "at", "kind", "text", "trainer", "data")
    lines = [orjson.dumps({name: getattr(item, name) for name in names}, default=str) for item in items]
    return b"".join(line + b"\n" for line in lines)


async def page_data(node: Node, host: str, t: Translate, *, acts: bool = True) -> dict[str, Any]:
    """All that the template shows, but for the notice; the peers are asked, if that has not just been done.

    Args:
        host: where this node listens, if it was not told at which address its peers reach it.
        acts: whether the reader may act on this node, and is shown who waits to be accepted.
    """
    peer_infos = await node.peer_infos()
    info = node.info()
    own = [TrainerId(job["trainer_id"]) for job in info["jobsInfo"]]
    around = await asyncio.gather(*(node.peer_rounds(trainer) for trainer in own))
    jobs = [job_view(node.me.id, node.job(trainer), t) for trainer in own]  # more than peers are told
    elsewhere = [job for one in peer_infos for job in jobs_of(text(one.get("id")), one.get("info"), t)]
    mesh = mesh_of(node, peer_infos, host)
    found = strangers(node.trust) if node.trust is not None and acts else None
    if found is not None:
        mesh = with_strangers(mesh, found)
    rows = mesh_rows(mesh, {job.trainer_id: job.label for job in jobs}, pinned=node.trust is not None)
    busy = any(job.busy for job in [*jobs, *elsewhere])
    return {
        "status": text(info.get("lastNodeStatus")),
        "ready": node.ready(),
        "cards": [
            cards.card_of(job, elsewhere, node.history(trainer), rounds, t, _gains(node, trainer, acts))
            for trainer, job, rounds in zip(own, jobs, around, strict=True)
        ],
        "other_jobs": [job for job in elsewhere if not any(same_job(job, mine) for mine in jobs)],
        "rows": rows,
        "waiting": found.waiting if found is not None else (),
        "pinned": node.trust is not None,
        "own": identity_of(info.get("key", "")),
        "picture": mesh_picture.mesh_picture(rows),
        "events": event_views(node.feed.recent(), EVENTS_SHOWN),
        "refresh": REFRESH_SECONDS if busy else None,
    }


def _gains(node: Node, trainer: TrainerId, acts: bool) -> GainsView | None:
    """What each peer brings, for persons of this node alone."""
    return gains_view(node.gains.view(trainer)) if acts else None


async def _trigger(node: Node, fields: Mapping[str, str], t: Translate) -> Notice:
    """Ask for rounds on behalf of the form; every outcome is a sentence."""
    trainer = fields.get("trainerId", "")
    asked: dict[str, object] = {"trainerId": trainer}
    if "rounds" in fields:
        asked["rounds"] = number_of(fields["rounds"])
    if "goal" in fields:
        asked["until"] = until_of(fields)
    try:
        reply = await node.receive(Trigger.path, orjson.dumps(asked), JSON, caller_ip())
    except FlnetError as error:
        return Notice(error.message, is_error=True)
    return _outcome(reply, trainer, t)


def _outcome(reply: Reply, trainer: str, t: Translate) -> Notice:
    answer: Mapping[str, Any] = orjson.loads(reply.body)
    if reply.status >= 400:
        return Notice(text(answer.get("message"), 500), is_error=True)
    started = t("Round {round} of {trainer} has been started.", round=answer.get("round"), trainer=trainer)
    return Notice(started, is_error=False)


async def _edit(node: Node, fields: Mapping[str, str], t: Translate) -> Notice:
    """Change hyper-parameters on behalf of the form."""
    stated: dict[str, object] = {name: number_of(fields[name]) for name in ("e", "u", "b") if name in fields}
    stated |= {"aggregation": fields["aggregation"]} if "aggregation" in fields else {}
    try:
        changes = _changes(stated)
        job = await node.edit_hyper_params(TrainerId(fields.get("trainerId", "")), changes)
    except FlnetError as error:
        return Notice(error.message, is_error=True)
    label, rule = text(job.get("trainer_label")), text(job.get("merging_rule"))
    if changes.aggregation is not None:
        said = t("{label} is merged by {rule} here. Choose the same on all other nodes.", label=label, rule=rule)
        return Notice(said, is_error=False)
    return Notice(t("The hyper-parameters of {label} are saved.", label=label), is_error=False)


async def _steer(node: Node, fields: Mapping[str, str], t: Translate) -> Notice:
    """End a series, pause a job or resume it on behalf of the form."""
    done = {
        "stop": t("No further round is started here."),
        "pause": t("This node sits rounds out until it is resumed."),
        "resume": t("This node takes part in rounds again."),
    }
    order = next((order for order in get_args(Order) if order == fields.get("do")), None)
    if order not in done:
        return Notice("do: expected stop, pause or resume", is_error=True)
    try:
        await node.steer(TrainerId(fields.get("trainerId", "")), order)
    except FlnetError as error:
        return Notice(error.message, is_error=True)
    return Notice(done[order], is_error=False)


async def _plan(node: Node, fields: Mapping[str, str], t: Translate) -> Notice:
    """Give a job a schedule on behalf of the form, or take it back."""
    when = None if fields.get("do") == "reset" else fields.get("when", "")
    try:
        job = await node.plan(TrainerId(fields.get("trainerId", "")), when)
    except FlnetError as error:
        return Notice(error.message, is_error=True)
    schedule = text((job.get("schedule") or {}).get("when"), 200)
    return Notice(t("Rounds start by themselves: {schedule}", schedule=schedule), is_error=False)


def _changes(stated: Mapping[str, object]) -> EditHyperParams:
    """What the form changes.

    Raises:
        InvalidMessage: a value is none, or outside its range.
    """
    try:
        return EditHyperParams.model_validate(dict(stated), strict=True)
    except ValidationError as exc:
        raise InvalidMessage(explain(exc)) from exc


def number_of(written: str) -> int | float | str:
    """The number that a person wrote; what is none stays text, for the model to refuse in words."""
    for kind in (int, float):
        try:
            value = kind(written)
        except ValueError:
            continue
        return value if abs(value) < 2**53 else written  # beyond that JSON has no room; infinity and NaN too
    return written
