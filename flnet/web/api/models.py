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
from pydantic import ConfigDict, Field, StrictInt
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
from flnet.node.interface import Download, Node, PredictionInput
from flnet.params.params import TrainerId
from flnet.protocol.messages import HexDigest, Message, Unit
from flnet.protocol.vertical import MAX_PREDICTED
from flnet.rounds.view import JobView, View
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import Who, may_act
from flnet.web.body import BASE_SECONDS, SLOWEST_BYTES_PER_SECOND, LimitedBody, read_body
from flnet.web.routes import MODELS, UNREADABLE, Api, acceptable_type, read_json

PREDICT_BYTES = 12 * 1024 * 1024  # a picture of 8 MB as base64, or a million numbers
PICTURES = ("image/png", "image/jpeg")
_LARGE = 64 * 1024  # bytes of JSON that are read in a thread
_DATA_URL = re.compile(r"data:image/(?:png|jpeg);base64,")  # as a browser's canvas gives it
RowId = Annotated[str, Field(strict=True, min_length=1, max_length=1000)]
NO_MODEL = (UnknownTrainer, UnknownModel, NotReady, NoData)
DIAGNOSES = (UnknownTrainer, UnknownModel, NotOffered, NotReady, NoData)
api = Api()


class Predict(Message):
    """POST /jobs/{trainerId}/predict: inputs as nested lists of numbers, or one picture as base64."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", json_schema_extra={"anyOf": [{"required": ["inputs"]}, {"required": ["image"]}]}
    )

    inputs: list[Any] | None = None
    image: str | None = None
    digest: str | None = Field(default=None, max_length=64)


class ModelView(View):
    """A model that this node keeps."""

    digest: HexDigest
    round: int
    contributors: int
    accuracy: Unit | None
    exchanged_with: str | None
    bytes: int
    held: bool = Field(description="whether it is the current model of the job")
    pinned: bool = Field(default=False, description="whether it is kept until a person unpins it")


class PredictedBy(View):
    """The model that made a prediction."""

    digest: HexDigest
    round: int
    accuracy: Unit | None


class ChoiceView(View):
    """Which model made each prediction, on a node with a local and a common model."""

    answered: list[Literal["local", "global"]] = Field(description="the model that predicted, for each input")
    errors: list[float] = Field(
        description="reconstruction error of each input, with an autoencoder of this node's data"
    )
    limit: float | None = Field(
        description="error up to which the local model predicts; null if the input does not decide"
    )


class CoarseView(View):
    """A prediction in the label space of this node's rows."""

    space: str
    classes: list[str]
    estimated: bool = Field(description="whether the correspondence of the spaces is estimated")
    probabilities: list[list[float]] = Field(description="empty while the correspondence is not known")
    predicted: list[str] = Field(description="a name for each input; empty while the correspondence is not known")


class PredictionView(View):
    """Predictions: probabilities, or scores if the trainer has no probabilities."""

    classes: list[str]
    probabilities: list[list[float]] = Field(default=[])
    scores: list[list[float]] = Field(default=[])
    predicted: list[Any] = Field(description="a name, or a list of names, for each input")
    model: PredictedBy
    note: str
    choice: ChoiceView | None = None
    coarse: CoarseView | None = Field(
        default=None, description="the same in the label space of this node's rows, if it is another one"
    )


class PredictIds(Message):
    """POST /jobs/{trainerId}/predict/ids: ids of rows that all holders of a vertical job have."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    ids: list[StrictInt | RowId] = Field(
        min_length=1, max_length=MAX_PREDICTED, description="as they are written in this node's data"
    )


class HolderPredictionView(View):
    """What a label holder predicts, for each id that all holders have."""

    holder: str
    classes: list[str]
    probabilities: list[list[float]]
    predicted: list[Any] = Field(description="a name, or a list of names, for each id")


class IdPredictionsView(View):
    """Predictions of a vertical job for rows by their ids."""

    ids: list[str] = Field(description="those that all holders have, in the order in which they were asked for")
    unknown: list[str] = Field(description="the others")
    epoch: int = Field(description="number of the epoch after which the models are")
    predictions: list[HolderPredictionView] = Field(
        description="one of each label holder; of this node alone if it is one"
    )


Shares = Annotated[
    list[list[Unit]],
    Field(description="one row per class of this node, one column per class of the predictions"),
]


class SpaceView(View):
    """A label space."""

    id: str
    classes: list[str] = Field(description="names, in the order of the class numbers")


class ShownModel(View):
    """The model that a diagnosis is about."""

    digest: HexDigest
    round: int
    accuracy: Unit | None


class WaitingView(View):
    """Why coarse labels are not used for training yet."""

    from_round: int = Field(description="number of the first round in which they may be used")
    share: Unit = Field(description="share of this node's rows for which the model makes a confident guess")
    needed: Unit = Field(description="share that is needed")
    judged: int = Field(description="number of rows from which the share is computed")


class LabelsView(View):
    """How this node's label space corresponds to the classes of the predictions."""

    kind: Literal["labels"]
    space: SpaceView = Field(description="label space of this node's rows, with J classes")
    desired: SpaceView = Field(description="label space of the predictions, with K classes")
    estimated: bool = Field(
        description="whether the correspondence is estimated from confident guesses, because the labels file "
        "does not state it"
    )
    pooled: bool = Field(
        description="whether the nodes pool their counts, which tells the other nodes a histogram of the labels"
    )
    threshold: Unit = Field(description="minimum probability of a confident guess")
    matrix: Shares | None = Field(
        description="J x K: probability of each label of this node, given the class of the predictions; null "
        "before the first estimate"
    )
    deviation: list[list[float]] | None = Field(
        description="J x K: standard deviation of each entry, from a Dirichlet distribution per column; null if "
        "not estimated"
    )
    counts: list[list[int]] | None = Field(
        description="J x K: number of rows with each label and each confident guess; null if not estimated"
    )
    waiting: WaitingView | None = Field(
        description="why coarse labels are not used for training yet; null otherwise"
    )
    model: ShownModel


class GroupingView(View):
    """The quality of one number of groups."""

    k: int
    inertia: float = Field(description="mean squared distance of a row to the centre of its group")
    silhouette: float | None = Field(description="mean silhouette, from -1 to 1; null for a single group")


class GroupsView(View):
    """How many groups this node's rows form."""

    kind: Literal["groups"]
    rows: int = Field(description="number of training rows on this node")
    judged: int = Field(description="number of rows that were drawn from them for the diagnosis")
    compared: int = Field(description="number of these rows from which silhouettes are computed")
    model: ShownModel
    common: GroupingView = Field(description="groups of the common model, on the drawn rows")
    tried: list[GroupingView] = Field(description="k-means on the drawn rows alone, by rising number of groups")
    bend: int = Field(description="number of groups at which the curve of the inertia bends most")


class ComparedRowsView(View):
    """Rows of this node."""

    train: int
    test: int


class LeaksView(View):
    """How well a model's loss tells this node's training rows from its test rows (Yeom et al. 2018)."""

    kind: Literal["leaks"]
    advantage: Unit = Field(
        description="share of training rows that are recognised, less the share of test rows that are taken for such, "
        "at the loss that separates them best: 0 for a guess, 1 if every row is told rightly"
    )
    low: Unit = Field(description="lower end of its interval (95 %), by the bootstrap")
    high: Unit = Field(description="upper end of that interval")
    by_chance: Unit = Field(
        description="advantage below which a model that has seen no row stays in 95 of 100 cases"
    )
    seen: bool = Field(description="whether the advantage is above that")
    by_mean: float = Field(description="advantage at the mean loss of the training rows, from -1 to 1")
    auc: Unit = Field(description="chance that a training row has a smaller loss than a test row")
    members: int = Field(description="number of training rows that were compared")
    others: int = Field(description="number of test rows that were compared")
    rows: ComparedRowsView = Field(description="number of such rows on this node")
    model: ShownModel


class ConfusionView(View):
    """Which classes a model mistakes for which, on this node's test rows."""

    kind: Literal["confusion"]
    rows: int = Field(description="number of test rows with a class on this node")
    judged: int = Field(description="number of rows that were predicted")
    classes: list[str]
    matrix: list[list[int]] = Field(
        description="for each class (row) how many of its rows each class was predicted for"
    )
    figures: dict[str, float] = Field(
        description="accuracy, balanced_accuracy, f1_macro, auc, ... over all classes"
    )
    each: dict[str, list[float | None]] = Field(description="precision, recall, f1 and auc of each class")
    model: ShownModel


@api.get("/jobs/<trainer>/models", MODELS, answer=list[ModelView], refuses=(UnknownTrainer, NotReady, NoData))
async def models(node: Node, trainer: TrainerId) -> Sequence[interface.View]:
    """The models that this node keeps, the current one first."""
    return list(await node.models(trainer))


@api.get(
    "/jobs/<trainer>/models/<digest>",
    MODELS,
    answer_type="application/octet-stream",
    query={
        "format": "safetensors, or onnx, folder (a zip file) or html if the trainer offers it; with -common or -personal "
        "appended, one of the two models"
    },
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
    """The card of a model, in Markdown."""
    return _file_answer(await node.card(trainer, digest, same_machine=may_act()))


@api.post("/jobs/<trainer>/models/<digest>/restore", MODELS, answer=JobView, refuses=(*NO_MODEL, JobBusy))
async def restore(node: Node, trainer: TrainerId, digest: str) -> JobView:
    """Restore a model: the next round that starts here begins with it."""
    return await node.restore(trainer, digest)


@api.put("/jobs/<trainer>/models/<digest>/pin", MODELS, answer=ModelView, refuses=(*NO_MODEL, JobBusy))
async def pin(node: Node, trainer: TrainerId, digest: str) -> interface.View:
    """Pin a model: it is kept until it is unpinned."""
    return await node.pin(trainer, digest, True)


@api.delete("/jobs/<trainer>/models/<digest>/pin", MODELS, answer=ModelView, refuses=NO_MODEL)
async def unpin(node: Node, trainer: TrainerId, digest: str) -> interface.View:
    """Unpin a model: it is deleted when newer ones need its place."""
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
    query={"digest": "of the model to use; the current one if absent"},
    refuses=(*UNREADABLE, InputRefused, UnknownTrainer, UnknownModel, NotOffered, NotReady),
    body=input_body,
)
async def predict(node: Node, trainer: TrainerId) -> interface.View:
    """Predict from inputs or from an image."""
    if request.mimetype in PICTURES:
        question = PredictionInput(picture=await read_body(), digest=request.args.get("digest"))
    else:
        acceptable_type()
        question = await _question(await read_body())
    return await node.predict(trainer, question)


@api.post(
    "/jobs/<trainer>/predict/ids",
    MODELS,
    accepts=PredictIds,
    answer=IdPredictionsView,
    refuses=(*UNREADABLE, InputRefused, UnknownTrainer, NotOffered, NotReady, JobBusy),
)
async def predict_ids(node: Node, trainer: TrainerId) -> interface.View:
    """Predict rows of a vertical job by their ids, together with the other holders."""
    asked: PredictIds = PredictIds.read(await read_json())
    return await node.predict_ids(trainer, asked.ids)


@api.get(
    "/jobs/<trainer>/labels",
    MODELS,
    answer=LabelsView,
    query={"digest": "of the model to use; the current one if absent"},
    refuses=DIAGNOSES,
    who=Who.OPERATOR,
)
async def labels(node: Node, trainer: TrainerId) -> interface.View:
    """How the label space of this node's rows corresponds to the classes of the predictions."""
    return await node.studies.findings(trainer, "labels", request.args.get("digest"))


@api.get(
    "/jobs/<trainer>/groups",
    MODELS,
    answer=GroupsView,
    query={"digest": "of the model to use; the current one if absent"},
    refuses=DIAGNOSES,
    who=Who.OPERATOR,
)
async def groups(node: Node, trainer: TrainerId) -> interface.View:
    """How many groups this node's rows form, by k-means."""
    return await node.studies.findings(trainer, "groups", request.args.get("digest"))


@api.get(
    "/jobs/<trainer>/leaks",
    MODELS,
    answer=LeaksView,
    query={"digest": "of the model to use; the current one if absent"},
    refuses=DIAGNOSES,
    who=Who.OPERATOR,
)
async def leaks(node: Node, trainer: TrainerId) -> interface.View:
    """How much a model gives away of this node's rows."""
    return await node.studies.findings(trainer, "leaks", request.args.get("digest"))


@api.get(
    "/jobs/<trainer>/confusion",
    MODELS,
    answer=ConfusionView,
    query={"digest": "of the model to use; the current one if absent"},
    refuses=DIAGNOSES,
    who=Who.OPERATOR,
)
async def confusion(node: Node, trainer: TrainerId) -> interface.View:
    """Which classes a model mistakes for which on this node's test rows."""
    return await node.studies.findings(trainer, "confusion", request.args.get("digest"))


def _file_answer(file: Download) -> Response:
    answer = Response(file.body, content_type=file.content_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="{file.file_name}"'
    answer.timeout = BASE_SECONDS + len(file.body) / SLOWEST_BYTES_PER_SECOND
    return answer


async def _question(body: bytes) -> PredictionInput:
    if len(body) > _LARGE:
        return await asyncio.to_thread(_read_question, body)
    return _read_question(body)


def _read_question(body: bytes) -> PredictionInput:
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
        return PredictionInput(inputs=asked.inputs, digest=asked.digest)
    try:
        picture = base64.b64decode(_DATA_URL.sub("", asked.image, count=1), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InputRefused(text("the image is not base64: {reason}", exc)) from exc
    return PredictionInput(picture=picture, digest=asked.digest)
