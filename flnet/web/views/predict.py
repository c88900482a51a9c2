"""The view for predictions: draw, choose a picture, fill in columns or paste rows; a model of this node judges."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quart import Blueprint, Response, request

from flnet.errors import FlnetError, PeerError
from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.web.body import read_body
from flnet.web.view import text
from flnet.web.views.frame import choices, show
from flnet.web.views.inputs import MOST_FIELDS, Handed, field_name, question_of, read_form
from flnet.web.views.models import model_view

DRAWN_SIDE = 28  # pixels of the pictures that a person can draw: handwritten signs in grey
MOST_BARS = 20  # classes shown of one input
MOST_CARDS = 5  # inputs shown with all their classes; more of them become a table


@dataclass(frozen=True)
class Bar:
    """One class with its number; `percent` is how far its bar goes, from 0 to 100."""

    name: str
    words: str
    percent: float
    chosen: bool


@dataclass(frozen=True)
class Judged:
    """What the model says of one input.

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
    """The same in the label space of the own rows; nothing is judged while nobody knows how both correspond."""

    space: str
    estimated: bool
    judged: tuple[Judged, ...]


@dataclass(frozen=True)
class Result:
    """All that the model says."""

    judged: tuple[Judged, ...]
    in_full: bool
    is_score: bool
    note: str
    digest: str
    round: str
    limit: str = ""  # the error up to which the local model answers
    coarse: Coarse | None = None


@dataclass(frozen=True)
class Column:
    """One field of the form for a row of a table."""

    field: str
    name: str
    value: str


def predict_view(routes: Blueprint, node: Node) -> None:
    """GET and POST /view/predict/<trainer>."""

    @routes.get("/view/predict/<trainer>")
    async def ask(trainer: str) -> Response:
        return await _show(node, trainer, Handed({"digest": request.args.get("digest", "")}))

    @routes.post("/view/predict/<trainer>")
    async def answer(trainer: str) -> Response:
        inputs = node.job(TrainerId(trainer)).get("inputs")
        handed = Handed()
        try:
            body = await read_body()
            options = dict(request.mimetype_params)
            handed = await asyncio.to_thread(read_form, body, request.mimetype, options)
            if inputs is None:
                return await _show(node, trainer, handed)
            question = await asyncio.to_thread(question_of, handed, inputs)
            found = await node.predict(TrainerId(trainer), question)
        except PeerError as error:
            return await _show(node, trainer, handed, fault=error)
        return await _show(node, trainer, handed, result=result_of(found))


def result_of(found: View) -> Result:
    """What a node's answer to a prediction says, in words and bars."""
    is_score = "scores" in found
    values: Sequence[Sequence[float]] = found.get("scores") or found.get("probabilities") or ()
    judged = _all_judged(found, values, is_score)
    choice = found.get("choice") or {}
    judged = [_with_choice(one, choice, place) for place, one in enumerate(judged)]
    model, limit = found["model"], choice.get("limit")
    round = model.get("round")
    return Result(
        tuple(judged),
        len(judged) <= MOST_CARDS,
        is_score,
        text(found.get("note"), 600),
        text(model.get("digest"))[:12],
        str(round) if isinstance(round, int) and round >= 0 else "",
        "" if limit is None else f"{limit:.3g}",
        _coarse(found.get("coarse")),
    )


def _coarse(found: View | None) -> Coarse | None:
    if not found:
        return None
    judged = _all_judged(found, found["probabilities"], is_score=False)
    return Coarse(text(found["space"], 64), found["estimated"] is True, tuple(judged))


def _all_judged(found: View, values: Sequence[Sequence[float]], is_score: bool) -> list[Judged]:
    """Each input with its classes, in the desired space or in the own one."""
    classes = [text(name, 60) for name in found["classes"]]
    return [
        _judged(place + 1, row, classes, predicted, is_score)
        for place, (row, predicted) in enumerate(zip(values, found["predicted"], strict=True))
    ]


def _with_choice(judged: Judged, choice: View, place: int) -> Judged:
    """With which model answered for the input at this place, and its error."""
    answered, errors = choice.get("answered") or (), choice.get("errors") or ()
    model = text(answered[place]) if place < len(answered) else ""
    return replace(judged, answered=model, error=f"{errors[place]:.3g}" if place < len(errors) else "")


def _judged(number: int, row: Sequence[float], classes: Sequence[str], predicted: Any, is_score: bool) -> Judged:
    chosen = {text(name, 60) for name in (predicted if isinstance(predicted, list) else [predicted])}
    least, most = (min(row, default=0), max(row, default=0)) if is_score else (0, 1)
    span = (most - least) or 1
    bars = [
        Bar(name, _value(value, is_score), round(100 * (value - least) / span, 2), name in chosen)
        for name, value in zip(classes, row, strict=True)
    ]
    shown = bars
    if len(bars) > MOST_BARS:
        shown = sorted(bars, key=lambda bar: -bar.percent)[:MOST_BARS]
    return Judged(
        number,
        ", ".join(name for name in classes if name in chosen),
        max(bars, key=lambda bar: bar.percent).words if bars else "",
        tuple(shown),
        len(bars) - len(shown),
    )


def _value(value: float, is_score: bool) -> str:
    return f"{value:.4g}" if is_score else f"{100 * value:.1f} %"


async def _show(
    node: Node, trainer: str, handed: Handed, *, result: Result | None = None, fault: FlnetError | None = None
) -> Response:
    job = node.job(TrainerId(trainer))
    inputs: Mapping[str, Any] | None = job.get("inputs")
    kept = await node.models(TrainerId(trainer))  # which says so while there are no data
    data = job.get("data") or {}
    return await show(
        "predict.html",
        fault.status if fault else 200,
        trainer=trainer,
        label=text(job.get("trainer_label")) or text(trainer),
        sample=data.get("sample") is True,
        inputs=None if inputs is None else form_of(inputs, handed),
        models=[model_view(trainer, job, model) for model in kept],
        digest=handed.get("digest"),
        rows=handed.get("rows"),
        note=text(job.get("note"), 600),
        result=result,
        fault=text(fault.message, 500) if fault else "",
        choices=choices(node, "predict", trainer),
    )


def form_of(inputs: Mapping[str, Any], handed: Handed) -> dict[str, Any]:
    """What the template needs of a trainer's inputs, with what was filled in before."""
    shape = [int(side) for side in inputs["shape"]]
    names: Sequence[str] = inputs.get("names") or ()
    is_picture = inputs["kind"] == "image"
    fields = names if 0 < len(names) <= MOST_FIELDS else ()
    return {
        "is_picture": is_picture,
        "drawn_side": DRAWN_SIDE if is_picture and shape in ([DRAWN_SIDE] * 2, [DRAWN_SIDE] * 2 + [1]) else 0,
        "size": " x ".join(map(str, shape[:2])),
        "numbers": shape[0],
        "columns": [
            Column(field_name(place), text(name, 80), handed.get(field_name(place)))
            for place, name in enumerate(fields)
        ],
        "names": ", ".join(text(name, 60) for name in names[:200]),
        "low": inputs.get("low"),
        "high": inputs.get("high"),
        "hint": text(inputs.get("hint"), 300),
    }
