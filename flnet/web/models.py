"""The models of a job: list, download, pin, go back to one, predict. For people; nodes never ask each other so."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from typing import Any, ClassVar

import orjson
from pydantic import ConfigDict, Field
from quart import Blueprint, Response, request

from flnet.errors import InputRefused, InvalidMessage, UnreadableBody
from flnet.messages import Message
from flnet.node.base import Download, Node, Question
from flnet.params import TrainerId
from flnet.web.answers import json_answer
from flnet.web.body import BASE_SECONDS, SLOWEST_BYTES_PER_SECOND, read_body
from flnet.web.standing import may_act
from flnet.web.training import acceptable_type

PREDICT_BYTES = 12 * 1024 * 1024  # a picture of 8 MB as base64, or a million numbers
PICTURES = ("image/png", "image/jpeg")
_LARGE = 64 * 1024  # bytes of JSON that are read beside the event loop
_PREDICT = re.compile(r"/jobs/[^/]+/predict")
_DATA_URL = re.compile(r"data:image/(?:png|jpeg);base64,")  # as a browser's canvas gives it


class Predict(Message):
    """POST /jobs/{trainerId}/predict: inputs as nested lists of numbers, or one picture as base64."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    inputs: list[Any] | None = None
    image: str | None = None
    digest: str | None = Field(default=None, max_length=64)


def is_predict(path: str) -> bool:
    """Whether a request to this path may bring inputs."""
    return _PREDICT.fullmatch(path) is not None


def model_routes(node: Node) -> Blueprint:
    """The endpoints under /jobs/{trainerId}/models, and the one for predictions."""
    routes = Blueprint("models", __name__)

    @routes.get("/jobs/<trainer>/models")
    async def models(trainer: str) -> Response:
        return json_answer(list(await node.models(TrainerId(trainer))))

    @routes.get("/jobs/<trainer>/models/<digest>")
    async def export(trainer: str, digest: str) -> Response:
        form = request.args.get("format", "safetensors")
        file = await node.export(TrainerId(trainer), digest, form, same_machine=may_act())
        return _file_answer(file)

    @routes.get("/jobs/<trainer>/models/<digest>/card")
    async def card(trainer: str, digest: str) -> Response:
        return _file_answer(await node.card(TrainerId(trainer), digest))

    @routes.post("/jobs/<trainer>/models/<digest>/restore")
    async def restore(trainer: str, digest: str) -> Response:
        await read_body()  # nothing is expected in it
        return json_answer(await node.restore(TrainerId(trainer), digest))

    @routes.put("/jobs/<trainer>/models/<digest>/pin")
    async def pin(trainer: str, digest: str) -> Response:
        await read_body()
        return json_answer(await node.pin(TrainerId(trainer), digest, True))

    @routes.delete("/jobs/<trainer>/models/<digest>/pin")
    async def unpin(trainer: str, digest: str) -> Response:
        await read_body()
        return json_answer(await node.pin(TrainerId(trainer), digest, False))

    @routes.post("/jobs/<trainer>/predict")
    async def predict(trainer: str) -> Response:
        if request.mimetype in PICTURES:
            question = Question(picture=await read_body(), digest=request.args.get("digest"))
        else:
            acceptable_type()
            question = await _question(await read_body())
        return json_answer(await node.predict(TrainerId(trainer), question))

    findings_routes(routes, node)
    return routes


def findings_routes(routes: Blueprint, node: Node) -> None:
    """The endpoints for what a model shows on the own rows."""

    async def shown(trainer: str, kind: str) -> Response:
        return json_answer(await node.studies.findings(TrainerId(trainer), kind, request.args.get("digest")))

    for kind in ("labels", "groups"):
        routes.add_url_rule(f"/jobs/<trainer>/{kind}", kind, shown, defaults={"kind": kind}, methods=["GET"])


def _file_answer(file: Download) -> Response:
    answer = Response(file.body, content_type=file.content_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="{file.file_name}"'
    answer.timeout = BASE_SECONDS + len(file.body) / SLOWEST_BYTES_PER_SECOND
    return answer


async def _question(body: bytes) -> Question:
    if len(body) > _LARGE:
        return await asyncio.to_thread(_read_question, body)
    return _read_question(body)


def _read_question(body: bytes) -> Question:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(f"the body is no JSON: {exc}") from exc
    asked: Predict = Predict.read(fields)
    if (asked.inputs is None) == (asked.image is None):
        raise InvalidMessage('expected either "inputs" (lists of numbers) or "image" (a PNG or JPEG as base64)')
    if asked.image is None:
        return Question(inputs=asked.inputs, digest=asked.digest)
    try:
        picture = base64.b64decode(_DATA_URL.sub("", asked.image, count=1), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InputRefused(f"the image is not base64: {exc}") from exc
    return Question(picture=picture, digest=asked.digest)
