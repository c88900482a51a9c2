"""What a node says of itself (state, jobs, history, peers, health), and how a person steers a job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_args

import orjson
from pydantic import BaseModel, ValidationError
from quart import Blueprint, Response, g

from flnet.errors import InvalidMessage, UnreadableBody
from flnet.explaining import explain
from flnet.messages import EditHyperParams, PlanRounds
from flnet.node.base import Node, Order
from flnet.params import TrainerId
from flnet.postponing import postponed
from flnet.settings import Settings
from flnet.web.answers import json_answer
from flnet.web.body import read_body
from flnet.web.configuration import settings_routes
from flnet.web.gains import gains_routes
from flnet.web.history_answer import asked_rounds, history_routes
from flnet.web.mesh import mesh_routes
from flnet.web.openapi import openapi_routes
from flnet.web.standing import may_act
from flnet.web.training import acceptable_type
from flnet.web.trust import trust_routes

with postponed("flnet.web.metrics"):  # until something watches over this node
    from flnet.web import metrics

M = TypeVar("M", bound=BaseModel)
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def info_routes(node: Node, settings: Settings) -> Blueprint:
    """The endpoints for reading, and those by which a person steers a job."""
    routes = Blueprint("info", __name__)

    @routes.get("/info")
    async def info() -> Response:
        return json_answer(node.info())

    @routes.get("/jobs")
    async def jobs() -> Response:
        return json_answer([node.job(TrainerId(job["trainer_id"])) for job in node.info()["jobsInfo"]])

    @routes.get("/jobs/<trainer>")
    async def job(trainer: str) -> Response:
        return json_answer(node.job(TrainerId(trainer)))

    @routes.get("/jobs/<trainer>/history")
    async def history(trainer: str) -> Response:
        records = await node.records(TrainerId(trainer), asked_rounds())
        return json_answer(list(records))

    @routes.get("/peers")
    async def peers() -> Response:
        return json_answer(list(node.peers()))

    _monitoring_routes(routes, node)
    _acting_routes(routes, node)
    routes.register_blueprint(history_routes(node))
    routes.register_blueprint(gains_routes(node))
    routes.register_blueprint(mesh_routes(node, settings))
    routes.register_blueprint(settings_routes(settings))
    routes.register_blueprint(trust_routes(node))
    routes.register_blueprint(openapi_routes())
    return routes


def _monitoring_routes(routes: Blueprint, node: Node) -> None:
    @routes.get("/health")
    async def health() -> Response:
        return json_answer({"status": "ok"})

    @routes.get("/ready")
    async def ready() -> Response:
        view = node.ready()
        if g.get("door") is not None and not may_act():  # the reasons tell whom this node calls
            view = {**view, "reasons": []}
        return json_answer(view, 200 if view["ready"] else 503)

    @routes.get("/metrics")
    async def figures() -> Response:
        info = node.info()
        trainers = [TrainerId(job["trainer_id"]) for job in info["jobsInfo"] if job["current_round"] >= 0]
        newest = {str(trainer): (*await node.records(trainer, 1), {})[0] for trainer in trainers}
        text = await asyncio.to_thread(metrics.metrics_text, info, node.ready(), newest)  # the first one imports
        return Response(text, content_type=METRICS_TYPE)


def _acting_routes(routes: Blueprint, node: Node) -> None:
    @routes.patch("/jobs/<trainer>/params")
    async def edit(trainer: str) -> Response:
        acceptable_type()
        changes = _read_changes(await read_body())
        return json_answer(await node.edit_hyper_params(TrainerId(trainer), changes))

    @routes.put("/jobs/<trainer>/schedule")
    async def plan(trainer: str) -> Response:
        acceptable_type()
        return json_answer(await node.plan(TrainerId(trainer), _read(PlanRounds, await read_body()).when))

    for order in get_args(Order):
        routes.add_url_rule(
            f"/jobs/<trainer>/{order}", endpoint=order, view_func=_steering(node, order), methods=["POST"]
        )


def _steering(node: Node, order: Order) -> Callable[[str], Awaitable[Response]]:
    async def steer(trainer: str) -> Response:
        await read_body()  # nothing is expected in it
        return json_answer(await node.steer(TrainerId(trainer), order))

    return steer


def _read_changes(body: bytes) -> EditHyperParams:
    """The changes; a person's typing error is named, never guessed at ("2" is no number)."""
    changes = _read(EditHyperParams, body)
    if not changes.fields():
        raise InvalidMessage('nothing to change: expected at least one of e, u, b, aggregation, such as {"e": 2}')
    return changes


def _read(kind: type[M], body: bytes) -> M:
    """What a person sends.

    Raises:
        UnreadableBody, InvalidMessage: it is no JSON, or breaks a rule.
    """
    try:
        fields: Any = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(f"the body is no JSON: {exc}") from exc
    try:
        return kind.model_validate(fields, strict=True)
    except ValidationError as exc:
        raise InvalidMessage(explain(exc)) from exc
