"""The models of a job: list, download, pin, go back to one, predict, and what a model shows on the own rows.

For people; nodes never ask each other so.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import ConfigDict, Field
from quart import Request, Response, request

from flnet.errors import (
    InputRefused,
    InvalidMessage,
    JobBusy,
    NoData,
    NotOffered,
    NotReady,
    OwnMachineOnly,
    UnknownModel,
    UnknownTrainer,
    UnreadableBody,
)
from flnet.node import interface
from flnet.node.interface import Download, Node, Question
from flnet.params.params import TrainerId
from flnet.protocol.messages import HexDigest, Message, Unit
from flnet.rounds.view import JobView, View
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import Who, may_act
from flnet.web.body import BASE_SECONDS, SLOWEST_BYTES_PER_SECOND, LimitedBody, read_body
from flnet.web.routes import MODELS, UNREADABLE, Api, acceptable_type

PREDICT_BYTES = 12 * 1024 * 1024  # a picture of 8 MB as base64, or a million numbers
PICTURES = ("image/png", "image/jpeg")
_LARGE = 64 * 1024  # bytes of JSON that are read beside the event loop
_DATA_URL = re.compile(r"data:image/(?:png|jpeg);base64,")  # as a browser's canvas gives it
NO_MODEL = (UnknownTrainer, UnknownModel, NotReady, NoData)
api = Api()


class Predict(Message):
    """POST /jobs/{trainerId}/predict: inputs as nested lists of numbers, or one picture as base64."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    inputs: list[Any] | None = None
    image: str | None = None
    digest: str | None = Field(default=None, max_length=64)


class ModelView(View):
    """A model that is kept here."""

    digest: HexDigest
    round: int
    contributors: int
    accuracy: Unit | None
    exchanged_with: str | None
    bytes: int
    held: bool = Field(description="whether the job goes on from it")
    pinned: bool = Field(default=False, description="whether it is kept until a person unpins it")


class PredictedBy(View):
    """The model that a prediction is of."""

    digest: HexDigest
    round: int
    accuracy: Unit | None


class ChoiceView(View):
    """Of a node that has a local model beside the common one."""

    answered: list[Literal["local", "global"]] = Field(description="which of them, for each input")
    errors: list[float] = Field(description="how badly an autoencoder of the own data rebuilds each input")
    limit: float | None = Field(description="the error up to which the local one answers; null where none chooses")


class CoarseView(View):
    """What a prediction means in the label space of this node's own rows."""

    space: str
    classes: list[str]
    estimated: bool = Field(description="whether the correspondence of the spaces is estimated")
    probabilities: list[list[float]] = Field(description="empty while nobody knows the correspondence")
    predicted: list[str] = Field(description="a name for each input; empty likewise")


class PredictionView(View):
    """What a model says of inputs: probabilities, or scores where the trainer gives no probabilities."""

    classes: list[str]
    probabilities: list[list[float]] = Field(default=[])
    scores: list[list[float]] = Field(default=[])
    predicted: list[Any] = Field(description="a name, or a list of names, for each input")
    model: PredictedBy
    note: str
    choice: ChoiceView | None = None
    coarse: CoarseView | None = Field(
        default=None, description="the same in the label space of the own rows, where that is another one"
    )


Shares = Annotated[
    list[list[Unit]],
    Field(description="a row for each own class, a column for each desired one"),
]


class SpaceView(View):
    """A label space."""

    id: str
    classes: list[str] = Field(description="in the order of their numbers")


class ShownModel(View):
    """The model that was looked at."""

    digest: HexDigest
    round: int
    accuracy: Unit | None


class WaitingView(View):
    """Why coarse labels do not teach yet."""

    from_round: int = Field(description="number of the first round in which they may teach")
    share: Unit = Field(description="of the own rows: on which the model is sure")
    needed: Unit = Field(description="which share it takes")
    judged: int = Field(description="rows behind that share")


class LabelsView(View):
    """How the classes of this node's label space correspond to those in which the model answers."""

    kind: Literal["labels"]
    space: SpaceView = Field(description="of the own rows, J classes")
    desired: SpaceView = Field(description="of the answers, K classes")
    estimated: bool = Field(description="whether nobody said it, so that it is found from confident guesses")
    pooled: bool = Field(description="whether the nodes pool their counts, so that the others know a histogram")
    threshold: Unit = Field(description="from which probability on a guess is counted")
    matrix: Shares | None = Field(
        description="J x K: the chance of each own label in each desired class; null before the first estimate"
    )
    deviation: list[list[float]] | None = Field(
        description="J x K: standard deviation of each entry, of a Dirichlet column; null where it is no estimate"
    )
    counts: list[list[int]] | None = Field(
        description="J x K: how often each own label met each confident guess; null where it is no estimate"
    )
    waiting: WaitingView | None = Field(description="null where nothing is waited for")
    model: ShownModel


class GroupingView(View):
    """One number of groups."""

    k: int
    inertia: float = Field(description="mean squared distance of a row to the middle of its group")
    silhouette: float | None = Field(
        description="from -1 to 1: how much nearer rows are to their own group than to another; null for one"
    )


class GroupsView(View):
    """How many groups the own rows have."""

    kind: Literal["groups"]
    rows: int = Field(description="own training rows")
    judged: int = Field(description="rows that were drawn from them for this")
    compared: int = Field(description="rows of these that silhouettes compare")
    model: ShownModel
    common: GroupingView = Field(description="the groups of the common model, on the rows that were judged")
    tried: list[GroupingView] = Field(description="k-means on these rows alone, of rising numbers of groups")
    bend: int = Field(description="the number of groups at which the inertia bends most")


@api.get("/jobs/<trainer>/models", MODELS, answer=list[ModelView], refuses=(UnknownTrainer, NotReady, NoData))
async def models(node: Node, trainer: TrainerId) -> Sequence[interface.View]:
    """The models that are kept here, the one held first."""
    return list(await node.models(trainer))


@api.get(
    "/jobs/<trainer>/models/<digest>",
    MODELS,
    answer_type="application/octet-stream",
    query={"format": "safetensors, or onnx where offered; -common or -personal after it: one of two models"},
    refuses=(UnknownTrainer, UnknownModel, InvalidMessage, NotOffered, NotReady, OwnMachineOnly),
)
async def export(node: Node, trainer: TrainerId, digest: str) -> Response:
    """A model as a file."""
    form = request.args.get("format", "safetensors")
    return _file_answer(await node.export(trainer, digest, form, same_machine=may_act()))


@api.get(
    "/jobs/<trainer>/models/<digest>/card",
    MODELS,
    answer_type="text/markdown",
    refuses=(UnknownTrainer, UnknownModel),
)
async def card(node: Node, trainer: TrainerId, digest: str) -> Response:
    """What is known of a model, in Markdown."""
    return _file_answer(await node.card(trainer, digest))


@api.post("/jobs/<trainer>/models/<digest>/restore", MODELS, answer=JobView, refuses=(*NO_MODEL, JobBusy))
async def restore(node: Node, trainer: TrainerId, digest: str) -> JobView:
    """Go back to a model: the next round that is started here begins with it."""
    return await node.restore(trainer, digest)


@api.put("/jobs/<trainer>/models/<digest>/pin", MODELS, answer=ModelView, refuses=(*NO_MODEL, JobBusy))
async def pin(node: Node, trainer: TrainerId, digest: str) -> interface.View:
    """Keep a model until it is unpinned."""
    return await node.pin(trainer, digest, True)


@api.delete("/jobs/<trainer>/models/<digest>/pin", MODELS, answer=ModelView, refuses=NO_MODEL)
async def unpin(node: Node, trainer: TrainerId, digest: str) -> interface.View:
    """Let a model go when its turn comes."""
    return await node.pin(trainer, digest, False)


def input_body(request: Request, node: Node, settings: Settings) -> LimitedBody:
    """A body that may bring inputs."""
    return LimitedBody(request.content_length, PREDICT_BYTES)


@api.post(
    "/jobs/<trainer>/predict",
    MODELS,
    accepts=Predict,
    types=PICTURES,
    answer=PredictionView,
    query={"digest": "of the model that is asked; the one held if absent"},
    refuses=(*UNREADABLE, InputRefused, UnknownTrainer, UnknownModel, NotOffered, NotReady),
    body=input_body,
)
async def predict(node: Node, trainer: TrainerId) -> interface.View:
    """What a model says of inputs, or of a picture."""
    if request.mimetype in PICTURES:
        question = Question(picture=await read_body(), digest=request.args.get("digest"))
    else:
        acceptable_type()
        question = await _question(await read_body())
    return await node.predict(trainer, question)


@api.get(
    "/jobs/<trainer>/labels",
    MODELS,
    answer=LabelsView,
    query={"digest": "of the model that is asked; the one held if absent"},
    refuses=(UnknownTrainer, UnknownModel, NotOffered, NotReady, NoData),
    who=Who.OPERATOR,
)
async def labels(node: Node, trainer: TrainerId) -> interface.View:
    """How the label space of the own rows corresponds to that of the answers."""
    return await node.studies.findings(trainer, "labels", request.args.get("digest"))


@api.get(
    "/jobs/<trainer>/groups",
    MODELS,
    answer=GroupsView,
    query={"digest": "of the model that is asked; the one held if absent"},
    refuses=(UnknownTrainer, UnknownModel, NotOffered, NotReady, NoData),
    who=Who.OPERATOR,
)
async def groups(node: Node, trainer: TrainerId) -> interface.View:
    """How many groups the own rows have, by k-means."""
    return await node.studies.findings(trainer, "groups", request.args.get("digest"))


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
        raise UnreadableBody(text("the body is no JSON: {reason}", exc)) from exc
    asked: Predict = Predict.read(fields)
    if (asked.inputs is None) == (asked.image is None):
        raise InvalidMessage(
            text('expected either "inputs" (lists of numbers) or "image" (a PNG or JPEG as base64)')
        )
    if asked.image is None:
        return Question(inputs=asked.inputs, digest=asked.digest)
    try:
        picture = base64.b64decode(_DATA_URL.sub("", asked.image, count=1), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InputRefused(text("the image is not base64: {reason}", exc)) from exc
    return Question(picture=picture, digest=asked.digest)
