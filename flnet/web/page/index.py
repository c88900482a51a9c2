"""The page: what this node and its peers are doing, and its buttons and forms. Works without script."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

import orjson
from quart import Response, request

from flnet.aggregation.naming import rule_words
from flnet.errors import InvalidMessage
from flnet.joining import JoinLink
from flnet.names import DEFAULT_MESH, MAX_NAME, hostport
from flnet.node.event_log import FeedItem
from flnet.node.interface import EditHyperParams, Node, Order, Points
from flnet.node.lan_discovery import own_addresses
from flnet.params.params import TrainerId
from flnet.protocol.messages import Trigger
from flnet.rounds.steps import Phase
from flnet.rounds.view import JobView
from flnet.settings import LOOPBACK, Settings
from flnet.text import text
from flnet.web.api.mesh import mesh_of
from flnet.web.auth.permissions import caller_ip, may_act
from flnet.web.formatting import one_line
from flnet.web.page import mesh as mesh_picture
from flnet.web.page.frame import notices, redirect_with_notice, render_page
from flnet.web.page.job_card import PHASES, Card, PeerJob, card_of, jobs_of_peers, same_job
from flnet.web.page.keys import QrPicture, identity_of, known_keys, qr_picture, with_known_keys
from flnet.web.page.mesh import mesh_rows
from flnet.web.page.weights import leave_one_out_table
from flnet.web.routes import JSON, Pages, read_message
from flnet.web.translation import Translate, request_translator

pages = Pages()
REFRESH_SECONDS = 5  # while something is going on, for browsers without script
EVENTS_SHOWN = 50
# The choices of the form for a goal: its words, and the fields whose numbers follow them.
_GOALS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mean": (("accuracy", ">="), ("least",)),
    "every": (("every", "accuracy", ">="), ("least",)),
    "own": (("own", "accuracy", ">="), ("least",)),
    "gain": (("no-gain",), ("patience", "delta")),
    "mlfedavg": (("mlfedavg",), ()),
    "cumulative": (("mlfedavg", "cumulative"), ()),
}


@dataclass(frozen=True)
class Invitation:
    """What a new node needs to join this mesh.

    Attributes:
        link: see `flnet.joining`.
        qr: the same as a picture.
    """

    link: str
    mode: str
    qr: QrPicture


@dataclass(frozen=True)
class EventView:
    """One thing that happened."""

    time: str
    iso: str
    text: str
    kind: str
    trainer: str
    id: int


@pages.get("/")
async def page(node: Node, settings: Settings) -> Response:
    """The first page."""
    shown = await page_data(node, settings.listen_address, request_translator(), acts=may_act())
    shown["invitation"] = invitation_of(node, settings, request.host)
    return await render_page("index.html", **shown, notice=notices().get(request.args.get("notice")))


@pages.post("/training/trigger/form")
async def trigger(node: Node, form: Mapping[str, str]) -> Any:
    """Start rounds."""
    return await redirect_with_notice(_trigger(node, form, request_translator()), "/")


@pages.post("/training/params/form")
async def edit(node: Node, form: Mapping[str, str]) -> Any:
    """Change hyper-parameters, or the aggregation rule."""
    return await redirect_with_notice(_edit(node, form, request_translator()), "/")


@pages.post("/training/proposals/form")
async def answer_proposal(node: Node, form: Mapping[str, str]) -> Any:
    """Take, decline or withdraw an aggregation rule that is proposed to the mesh."""
    return await redirect_with_notice(_answer(node, form, request_translator()), "/")


@pages.post("/training/steer/form")
async def steer(node: Node, form: Mapping[str, str]) -> Any:
    """End a series, pause a job or resume it."""
    return await redirect_with_notice(_steer(node, form, request_translator()), "/")


@pages.post("/training/schedule/form")
async def plan(node: Node, form: Mapping[str, str]) -> Any:
    """Give a job a schedule, or take it back."""
    return await redirect_with_notice(_plan(node, form, request_translator()), "/")


async def page_data(node: Node, host: str, t: Translate, *, acts: bool = True) -> dict[str, Any]:
    """All that the template shows, but for the notice; the peers are asked, if that has not just been done.

    Args:
        host: where this node listens, if it was not told at which address its peers reach it.
        acts: whether the reader may act on this node, and is shown who waits to be accepted.
    """
    peer_infos = await node.peer_infos()
    info = node.info()
    jobs = node.all_jobs()
    around = await asyncio.gather(*(node.peer_rounds(TrainerId(job.trainer_id)) for job in jobs))
    elsewhere = jobs_of_peers(peer_infos)
    mesh = mesh_of(node, peer_infos, host)
    keys = known_keys(node.trust) if node.trust is not None and acts else None
    if keys is not None:
        mesh = with_known_keys(mesh, keys)
    rows = mesh_rows(mesh, {job.trainer_id: job.label for job in jobs}, pinned=node.trust is not None)
    busy = any(job.is_busy for job in (*jobs, *(other.job for other in elsewhere)))
    cards = [
        _card(node, job, elsewhere, rounds, t, acts=acts, mode=info.get("mode", "open"))
        for job, rounds in zip(jobs, around, strict=True)
    ]
    without_data = [card for card in cards if card.job.phase is Phase.NO_DATA and not card.rows]
    return {
        "status": one_line(info.get("lastNodeStatus")),
        "ready": node.ready(),
        "reasons": reasons_apart(node.ready(), jobs),
        "is_new": len(rows) == 1 and not any(card.rows for card in cards),
        # Those that can train come first.
        "cards": sorted(
            (card for card in cards if card not in without_data), key=lambda card: not card.job.has_data
        ),
        "without_data": without_data,
        "other_jobs": [other for other in elsewhere if not any(same_job(other.job, job) for job in jobs)],
        "phases": PHASES,
        "rows": rows,
        "mesh_name": one_line(info.get("mesh", DEFAULT_MESH), MAX_NAME),
        "waiting": keys.waiting if keys is not None else (),
        "pinned": node.trust is not None,
        "own": identity_of(info.get("key", "")),
        "picture": mesh_picture.mesh_picture(rows),
        "events": event_views(node.feed.recent(), EVENTS_SHOWN),
        "refresh": REFRESH_SECONDS if busy else None,
    }


def invitation_of(node: Node, settings: Settings, asked_at: str) -> Invitation | None:
    """How another machine joins this mesh; None if no other machine reaches this node.

    Args:
        asked_at: "host:port" at which the reader reached this node.
    """
    if settings.listen_address in LOOPBACK and (settings.relay is None or node.me.ip is None):
        return None
    host = asked_at.rpartition(":")[0].strip("[]") if ":" in asked_at else asked_at
    is_here = host in LOOPBACK or host.startswith("127.")
    reached = node.me.ip or (next(iter(own_addresses()), settings.listen_address) if is_here else host)
    mark = node.trust.own()["fingerprint"] if node.trust is not None else ""
    link = str(JoinLink(hostport(reached, node.me.port), settings.mesh_name, settings.mode, mark))
    return Invitation(link, settings.mode, qr_picture(link))


def reasons_apart(ready: Mapping[str, Any], jobs: Sequence[JobView]) -> list[str]:
    """Why this node is not ready, but for what the cards of its jobs say, too."""
    said = tuple(f"{job.trainer_id}{sign}" for job in jobs for sign in (" ", ":"))
    return [reason for reason in ready["reasons"] if not reason.startswith(said)]


def _card(
    node: Node,
    job: JobView,
    elsewhere: Sequence[PeerJob],
    rounds: Mapping[str, Points],
    t: Translate,
    *,
    acts: bool,
    mode: str,
) -> Card:
    trainer = TrainerId(job.trainer_id)
    leave_one_out = leave_one_out_table(node.leave_one_out.view(trainer)) if acts else None
    return card_of(node.me.id, job, elsewhere, node.history(trainer), rounds, t, leave_one_out, mode)


def event_views(items: Sequence[FeedItem], most: int) -> list[EventView]:
    """The newest things that happened, newest first; times are this machine's."""
    return [_event_view(item) for item in reversed(items[-most:])]


def _event_view(item: FeedItem) -> EventView:
    moment = datetime.fromtimestamp(item.at).astimezone()
    return EventView(
        moment.strftime("%H:%M:%S"),
        moment.isoformat(timespec="seconds"),
        one_line(item.text, 500),
        one_line(item.kind, 40),
        one_line(item.trainer, 64),
        item.id,
    )


async def _trigger(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    trainer = fields.get("trainerId", "")
    asked: dict[str, object] = {"trainerId": trainer}
    if "rounds" in fields:
        asked["rounds"] = number_of(fields["rounds"])
    if "goal" in fields:
        asked["until"] = until_of(fields)
    if fields.get("numbering") == "new":
        asked["newNumbering"] = True
    reply = await node.receive(Trigger.path, orjson.dumps(asked), JSON, caller_ip())
    answer: Mapping[str, Any] = orjson.loads(reply.body)
    if node.job(TrainerId(trainer)).phase is Phase.LOADING:
        return t(
            "The data of {trainer} are being loaded. The requested rounds begin when they are there.",
            trainer=trainer,
        )
    return t("Round {round} of {trainer} has been started.", round=answer.get("round"), trainer=trainer)


async def _edit(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    if fields.get("do") == "propose":
        return await _propose(node, TrainerId(fields.get("trainerId", "")), fields.get("aggregation", ""), t)
    stated: dict[str, object] = {name: number_of(fields[name]) for name in ("e", "u", "b") if name in fields}
    stated |= {"aggregation": fields["aggregation"]} if "aggregation" in fields else {}
    changes = read_message(EditHyperParams, stated)
    job = await node.edit_hyper_params(TrainerId(fields.get("trainerId", "")), changes)
    if changes.aggregation is not None:
        return t(
            "{label} uses the aggregation rule {rule} here. Choose the same on all other nodes.",
            label=job.label,
            rule=rule_words(job.merging_rule, t),
        )
    if job.asks_too_much:
        return t(
            "The hyper-parameters of {label} are saved, but nodes with the limits of this node do not train by them.",
            label=job.label,
        )
    return t("The hyper-parameters of {label} are saved.", label=job.label)


async def _propose(node: Node, trainer: TrainerId, rule: str, t: Translate) -> str:
    await node.rule_changes.propose(trainer, rule)
    job = node.job(trainer)
    return t(
        "{rule} is proposed to all nodes of {label}. Their people see it on the page and can take it.",
        rule=rule_words(rule, t),
        label=job.label,
    )


async def _answer(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    trainer, mark = TrainerId(fields.get("trainerId", "")), fields.get("mark", "")
    match fields.get("do"):
        case "take":
            await node.rule_changes.answer(trainer, mark, takes=True)
            return t("The rule was taken. It is in force from the next round on when all nodes have taken it.")
        case "decline":
            await node.rule_changes.answer(trainer, mark, takes=False)
            return t("The rule was declined. You can still take it later.")
        case "withdraw":
            await node.rule_changes.withdraw(trainer)
            return t("The proposal was withdrawn.")
    raise InvalidMessage(text("do: expected take, decline or withdraw"))


async def _steer(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    done = {
        "stop": t("The series stops after this round."),
        "pause": t("This node has stopped training, and sits rounds out until it is resumed."),
        "resume": t("This node takes part in rounds again."),
    }
    order = next((order for order in get_args(Order) if order == fields.get("do")), None)
    if order not in done:
        raise InvalidMessage(text("do: expected stop, pause or resume"))
    await node.steer(TrainerId(fields.get("trainerId", "")), order)
    return done[order]


async def _plan(node: Node, fields: Mapping[str, str], t: Translate) -> str:
    when = None if fields.get("do") == "reset" else fields.get("when", "")
    job = await node.plan(TrainerId(fields.get("trainerId", "")), when)
    return t("Rounds start automatically: {schedule}", schedule=job.schedule.when if job.schedule else "")


def until_of(fields: Mapping[str, str]) -> str:
    """The goal that a form asks for; what is wrong in it is for the node to say."""
    words, numbers = _GOALS.get(fields.get("goal", ""), ((), ()))
    until = " ".join([*words, *(fields.get(name, "").strip()[:40] for name in numbers)])
    minutes = fields.get("minutes", "").strip()[:20]
    return f"{until}, within {_seconds(minutes)}" if minutes else until


def _seconds(minutes: str) -> str:
    try:
        seconds = 60 * float(minutes)
    except ValueError:
        return minutes
    return f"{seconds:.3f}" if 0 < seconds < 1e8 else "0"


def number_of(written: str) -> int | float | str:
    """Read a number from a form; other text is kept, so that the model refuses it with a message."""
    for kind in (int, float):
        try:
            value = kind(written)
        except ValueError:
            continue
        return value if abs(value) < 2**53 else written  # beyond that JSON has no room; infinity and NaN too
    return written
