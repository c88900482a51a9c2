"""The page for predictions of a model of this node: draw, choose a picture, fill in columns or paste rows."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quart import Response, request
from werkzeug.exceptions import HTTPException, UnsupportedMediaType
from werkzeug.formparser import FormDataParser

from flnet.compute.prediction import MAX_INPUTS, columns_of
from flnet.errors import FlnetError, InputRefused, PeerError, UnreadableBody
from flnet.node.interface import Node, PredictionInput, View
from flnet.params.params import TrainerId
from flnet.text import text
from flnet.web.api.models import input_body
from flnet.web.body import read_body
from flnet.web.formatting import one_line
from flnet.web.page.frame import choices, redirect_to_first, show
from flnet.web.page.input_rows import Table, answered_rows, by_name, inputs_of, number_of, rows_of, table_of
from flnet.web.page.models import model_view
from flnet.web.page.predict_ids import ids_of, ids_result, show_ids
from flnet.web.routes import Pages

pages = Pages()
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
MOST_PARTS = 2000  # a field for each column, and a few more
MOST_FILE_ROWS = 20_000  # that are answered as a file
MOST_FIELDS = 60  # columns with a field each; more are pasted as rows
_PLACE = "column-"
_TOO_MANY = text("the form cannot be read, or has more than {most} parts", MOST_PARTS)
DRAWN_SIDE = 28  # pixels of the pictures that a person can draw: handwritten signs in grey
MOST_BARS = 20  # classes shown of one input
MOST_CARDS = 5  # inputs shown with all their classes; more of them become a table


@dataclass(frozen=True)
class FormInput:
    """The fields of a form, and the contents of its file (empty if none was chosen)."""

    fields: Mapping[str, str] = field(default_factory=dict)
    file: bytes = b""

    def get(self, name: str) -> str:
        """A field's text; empty if it is not there."""
        return self.fields.get(name, "")


@dataclass(frozen=True)
class InputPrediction:
    """The prediction for one input.

    Attributes:
        hidden: how many classes are not listed.
        answered: "local" or "global" where the node has two models; else empty.
        error: where an autoencoder chose, how badly it rebuilds the input.
    """

    number: int
    predicted: str
    top: str
    bars: tuple[Bar, ...]
    hidden: int
    answered: str = ""
    error: str = ""


@dataclass(frozen=True)
class Coarse:
    """The predictions in the label space of the own rows; empty while it is not known how both spaces correspond."""

    space: str
    estimated: bool
    predictions: tuple[InputPrediction, ...]


@dataclass(frozen=True)
class PredictionResult:
    """The predictions for all inputs of a form."""

    predictions: tuple[InputPrediction, ...]
    in_full: bool
    is_score: bool
    note: str
    digest: str
    round: str
    limit: str = ""  # the error up to which the local model answers
    coarse: Coarse | None = None


@dataclass(frozen=True)
class Bar:
    """One class with its number; `percent` is how far its bar goes, from 0 to 100."""

    name: str
    words: str
    percent: float
    chosen: bool


@dataclass(frozen=True)
class Column:
    """One field of the form for a row of a table; `words` are those that a column of words may have."""

    field: str
    name: str
    value: str
    words: tuple[str, ...] = ()


@pages.get("/view/predict")
async def first(node: Node) -> Any:
    """Predictions of the first trainer."""
    return await redirect_to_first(node, "predict")


@pages.get("/view/predict/<trainer>")
async def ask(node: Node, trainer: TrainerId) -> Response:
    """The form for inputs, or for ids where nodes hold different columns."""
    if node.job(trainer).vertical is not None:
        return await show_ids(node, trainer, "")
    return await _show(node, trainer, FormInput({"digest": request.args.get("digest", "")}))


@pages.post("/view/predict/<trainer>", body=input_body)
async def answer(node: Node, trainer: TrainerId) -> Response:
    """The prediction for what was handed in."""
    if node.job(trainer).vertical is not None:
        return await _answer_ids(node, trainer)
    inputs = node.job(trainer).inputs
    handed = FormInput()
    try:
        body = await read_body()
        options = dict(request.mimetype_params)
        handed = await asyncio.to_thread(read_form, body, request.mimetype, options)
        if inputs is None:
            return await _show(node, trainer, handed)
        if handed.get("as") == "csv":
            return await _file_of_predictions(node, trainer, handed, inputs)
        question = await asyncio.to_thread(question_of, handed, inputs)
        prediction = await node.predict(trainer, question)
    except PeerError as error:
        return await _show(node, trainer, handed, fault=error)
    return await _show(node, trainer, handed, result=result_of(prediction))


async def _file_of_predictions(
    node: Node, trainer: TrainerId, handed: FormInput, inputs: Mapping[str, Any]
) -> Response:
    """The rows of a table with their predictions, as a file; all of them by one model."""
    pasted = _text_of(handed.file) if handed.file else handed.get("rows")
    if inputs["kind"] == "image" or not pasted.strip():
        raise InputRefused(text("a CSV file is the answer to rows: choose a CSV file, or paste rows"))
    table = await asyncio.to_thread(table_of, pasted, inputs, MOST_FILE_ROWS)
    answers: list[View] = []
    digest = handed.get("digest") or None
    for start in range(0, len(table.cells), MAX_INPUTS):
        part = Table(table.head, table.cells[start : start + MAX_INPUTS])
        rows = await asyncio.to_thread(inputs_of, part, inputs, start)
        answers.append(await node.predict(trainer, PredictionInput(inputs=rows, digest=digest)))
        digest = answers[0]["model"]["digest"]
    if not answers:
        raise InputRefused(text("the file has no rows"))
    body = await asyncio.to_thread(answered_rows, table, inputs.get("names") or (), answers)
    answer = Response(body, content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{trainer}-predictions.csv"'
    return answer


async def _answer_ids(node: Node, trainer: TrainerId) -> Response:
    handed = FormInput()
    try:
        body = await read_body()
        handed = read_form(body, request.mimetype, dict(request.mimetype_params))
        answer = await node.predict_ids(trainer, ids_of(handed.get("ids")))
    except PeerError as error:
        return await show_ids(node, trainer, handed.get("ids"), fault=error)
    return await show_ids(node, trainer, handed.get("ids"), result=ids_result(answer))


async def _show(
    node: Node,
    trainer: TrainerId,
    handed: FormInput,
    *,
    result: PredictionResult | None = None,
    fault: FlnetError | None = None,
) -> Response:
    job = node.job(trainer)
    kept = await node.models(trainer)  # which says so while there are no data
    return await show(
        "predict.html",
        fault.status if fault else 200,
        job=job,
        inputs=None if job.inputs is None else form_of(job.inputs, handed),
        models=[model_view(job, model) for model in kept],
        digest=handed.get("digest"),
        rows=handed.get("rows"),
        result=result,
        fault=one_line(fault.message, 500) if fault else "",
        choices=choices(node, "predict", trainer),
    )


def form_of(inputs: Mapping[str, Any], handed: FormInput) -> dict[str, Any]:
    """Template values for a trainer's inputs, with the previous entries."""
    shape = [int(side) for side in inputs["shape"]]
    names: Sequence[str] = inputs.get("names") or ()
    is_picture = inputs["kind"] == "image"
    columns = columns_of(names)
    fields = columns if 0 < len(columns) <= MOST_FIELDS else {}
    return {
        "is_picture": is_picture,
        "drawn_side": DRAWN_SIDE if is_picture and shape in ([DRAWN_SIDE] * 2, [DRAWN_SIDE] * 2 + [1]) else 0,
        "size": " x ".join(map(str, shape[:2])),
        "numbers": shape[0],
        "columns": [
            Column(field_name(place), one_line(name, 80), handed.get(field_name(place)), tuple(words))
            for place, (name, words) in enumerate(fields.items())
        ],
        "has_gaps": inputs.get("gaps") is True,
        "has_words": any(columns.values()),
        "most": MAX_INPUTS,
        "names": ", ".join(_with_words(*column) for column in list(columns.items())[:200]),
        "low": inputs.get("low"),
        "high": inputs.get("high"),
        "hint": one_line(inputs.get("hint"), 300),
    }


def _with_words(name: str, words: Sequence[str]) -> str:
    shown = ", ".join(one_line(word, 60) for word in words[:50])
    return f"{one_line(name, 60)} ({shown})" if words else one_line(name, 60)


def read_form(body: bytes, kind: str, options: Mapping[str, str]) -> FormInput:
    """Read the fields of a form, with or without a file.

    Args:
        body: the whole request body.
        kind: its content type.
        options: of the content type: the boundary.

    Raises:
        UnsupportedMediaType: another content type.
        UnreadableBody: broken, or of too many parts.
    """
    if kind not in FORMS:
        raise UnsupportedMediaType(
            text("expected a form ({expected}), got {got}", " or ".join(FORMS), repr(kind[:100]))
        )
    if kind == FORMS[1] and body.count(b"&") >= MOST_PARTS:
        raise UnreadableBody(_TOO_MANY)
    parser = FormDataParser(
        max_form_memory_size=len(body) + 1, max_form_parts=MOST_PARTS, silent=False, stream_factory=_in_memory
    )
    try:
        _, fields, files = parser.parse(io.BytesIO(body), kind, len(body), dict(options))
    except (ValueError, HTTPException) as exc:
        raise UnreadableBody(_TOO_MANY) from exc
    chosen = files.get("file")
    return FormInput({str(name): str(value) for name, value in fields.items()}, chosen.read() if chosen else b"")


def question_of(handed: FormInput, inputs: Mapping[str, Any]) -> PredictionInput:
    """The question that a form asks.

    Args:
        handed: what came.
        inputs: what the trainer takes, as in a job's view: kind, shape, low, high, names, ignored, gaps, no_value, decimal.

    Raises:
        InputRefused: nothing came, or it is not what was asked for; says which row and column.
    """
    digest = handed.get("digest") or None
    if inputs["kind"] == "image":
        if handed.file:
            return PredictionInput(picture=handed.file, digest=digest)
        return PredictionInput(inputs=[_drawn(handed.get("pixels"), inputs)], digest=digest)
    if handed.file:
        return PredictionInput(inputs=rows_of(_text_of(handed.file), inputs), digest=digest)
    if handed.get("rows").strip():
        return PredictionInput(inputs=rows_of(handed.get("rows"), inputs), digest=digest)
    return PredictionInput(inputs=[_fields(handed, inputs)], digest=digest)


def _text_of(file: bytes) -> str:
    try:
        return file.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InputRefused(text("the file is not text in UTF-8; save it as UTF-8")) from exc


def field_name(place: int) -> str:
    """The form field of a column."""
    return f"{_PLACE}{place}"


def _in_memory(*_: object, **__: object) -> io.BytesIO:
    """The buffer of a file in a form; the body is in memory already, and its size is limited."""
    return io.BytesIO()


def _drawn(pixels: str, inputs: Mapping[str, Any]) -> Any:
    """A drawing of grey values from 0 to 255, in the range and shape that the trainer takes."""
    if not pixels.strip():
        raise InputRefused(text("there is no input yet: draw something, or choose a PNG or JPEG file"))
    shape: Sequence[int] = inputs["shape"]
    low = 0.0 if inputs.get("low") is None else float(inputs["low"])
    high = 255.0 if inputs.get("high") is None else float(inputs["high"])
    height, width, count = shape[0], shape[1], pixels.count(",") + 1
    if count != height * width or shape[2:] not in ([], [1], (), (1,)):
        raise InputRefused(text("the drawing has {count} numbers; expected shape {shape}", count, list(shape)))
    scaled = [low + (high - low) * number_of(word, text("the drawing")) / 255 for word in pixels.split(",")]
    lines = [scaled[start : start + width] for start in range(0, len(scaled), width)]
    return [[[value] for value in line] for line in lines] if len(shape) == 3 else lines


def _fields(handed: FormInput, inputs: Mapping[str, Any]) -> dict[str, float | None]:
    columns = columns_of(inputs.get("names") or ())
    cells = {name: handed.get(field_name(place)).strip() for place, name in enumerate(columns)}
    if not any(cells.values()):
        raise InputRefused(text("there is no input yet: fill in the fields, paste rows, or choose a file"))
    return by_name(cells, inputs)


def result_of(prediction: View) -> PredictionResult:
    """The predictions of a node in words and bars."""
    is_score = "scores" in prediction
    values: Sequence[Sequence[float]] = prediction.get("scores") or prediction.get("probabilities") or ()
    predictions = _predictions(prediction, values, is_score)
    choice = prediction.get("choice") or {}
    predictions = [_with_choice(each, choice, place) for place, each in enumerate(predictions)]
    model, limit = prediction["model"], choice.get("limit")
    round = model.get("round")
    return PredictionResult(
        tuple(predictions),
        len(predictions) <= MOST_CARDS,
        is_score,
        one_line(prediction.get("note"), 600),
        one_line(model.get("digest"))[:12],
        str(round) if isinstance(round, int) and round >= 0 else "",
        "" if limit is None else f"{limit:.3g}",
        _coarse(prediction.get("coarse")),
    )


def _coarse(coarse: View | None) -> Coarse | None:
    if not coarse:
        return None
    predictions = _predictions(coarse, coarse["probabilities"], is_score=False)
    return Coarse(one_line(coarse["space"], 64), coarse["estimated"] is True, tuple(predictions))


def _predictions(prediction: View, values: Sequence[Sequence[float]], is_score: bool) -> list[InputPrediction]:
    """Each input with its classes, in the desired space or in the own one."""
    classes = [one_line(name, 60) for name in prediction["classes"]]
    return [
        _prediction(place + 1, row, classes, predicted, is_score)
        for place, (row, predicted) in enumerate(zip(values, prediction["predicted"], strict=True))
    ]


def _with_choice(prediction: InputPrediction, choice: View, place: int) -> InputPrediction:
    """The prediction with the model that answered for this input, and its error."""
    answered, errors = choice.get("answered") or (), choice.get("errors") or ()
    model = one_line(answered[place]) if place < len(answered) else ""
    return replace(prediction, answered=model, error=f"{errors[place]:.3g}" if place < len(errors) else "")


def _prediction(
    number: int, row: Sequence[float], classes: Sequence[str], predicted: Any, is_score: bool
) -> InputPrediction:
    chosen = {one_line(name, 60) for name in (predicted if isinstance(predicted, list) else [predicted])}
    least, most = (min(row, default=0), max(row, default=0)) if is_score else (0, 1)
    span = (most - least) or 1
    bars = [
        Bar(name, _value(value, is_score), round(100 * (value - least) / span, 2), name in chosen)
        for name, value in zip(classes, row, strict=True)
    ]
    shown = bars
    if len(bars) > MOST_BARS:
        shown = sorted(bars, key=lambda bar: -bar.percent)[:MOST_BARS]
    return InputPrediction(
        number,
        ", ".join(name for name in classes if name in chosen),
        max(bars, key=lambda bar: bar.percent).words if bars else "",
        tuple(shown),
        len(bars) - len(shown),
    )


def _value(value: float, is_score: bool) -> str:
    return f"{value:.4g}" if is_score else f"{100 * value:.1f} %"
