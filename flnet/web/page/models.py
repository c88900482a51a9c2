"""The page of a trainer's models: which are kept, their files, and a comparison of two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from quart import Response, current_app, request

from flnet.errors import InvalidMessage
from flnet.node.interface import Node, View
from flnet.params.comparison import Difference, ModelComparison, compare
from flnet.params.params import TrainerId
from flnet.rounds.view import JobView
from flnet.text import text
from flnet.web.auth.permissions import may_act
from flnet.web.formatting import NONE, accuracy, one_line, size_words
from flnet.web.page.frame import choices, notices, redirect_to_first, redirect_with_notice, show, view_url
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_translator
from flnet.wire.binary_codec import BinaryCodec

pages = Pages()
MOST_ARRAYS = 300  # rows of a comparison


@dataclass(frozen=True)
class ModelRow:
    """A model that is kept, or held before any average; `files`: names and addresses of downloads."""

    digest: str
    short: str
    round: str
    contributors: str
    accuracy: str
    exchanged_with: str
    size: str
    held: bool
    pinned: bool
    averaged: bool  # and therefore kept
    back: str  # the address that asks whether to go back to it
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DifferenceView:
    """How two arrays differ, in words."""

    name: str
    numbers: str
    mean: str
    largest: str
    cosine: str


@dataclass(frozen=True)
class ComparisonView:
    """Two models side by side; `hidden` is how many arrays are not listed."""

    one: ModelRow
    other: ModelRow
    total: DifferenceView
    arrays: tuple[DifferenceView, ...]
    hidden: int
    unlike: str


@pages.get("/view/models")
async def first(node: Node) -> Any:
    """The models of the first trainer."""
    return await redirect_to_first(node, "models")


@pages.get("/view/models/<trainer>")
async def models(node: Node, trainer: TrainerId) -> Response:
    """A trainer's models. Compares two where ?one= and ?other= name them, and asks whether to go back to ?back=."""
    job = node.job(trainer)
    kept = [model_view(job, model) for model in await node.models(trainer)]
    one, other = request.args.get("one"), request.args.get("other")
    compared = None
    if one or other:
        pair = _pair(kept, one, other)
        # A comparison holds two whole models in memory: one at a time.
        async with current_app.extensions.setdefault("flnet.comparison", asyncio.Lock()):
            compared = await _compared(node, trainer, *pair)
    return await show(
        "models.html",
        job=job,
        url=view_url("models", trainer),
        models=kept,
        compared=compared,
        back=_back_to(kept, request.args.get("back")),
        notice=notices().get(request.args.get("notice")),
        one=one or (kept[0].digest if kept else ""),
        other=other or (kept[-1].digest if kept else ""),
        choices=choices(node, "models", trainer),
    )


@pages.post("/view/models/<trainer>")
async def keep(node: Node, trainer: TrainerId, form: Mapping[str, str]) -> Any:
    """Pin, unpin or restore a model; it leads back to the view, where the outcome is told."""
    node.job(trainer)  # an unknown one has no view to lead back to
    outcome = done(node, trainer, form.get("do", ""), form.get("digest", ""), request_translator())
    return await redirect_with_notice(outcome, view_url("models", trainer))


async def done(node: Node, trainer: str, order: str, digest: str, t: Translate) -> str:
    """Do what the form asks for; what came of it in a sentence.

    Raises:
        FlnetError: it was refused.
    """
    name = digest[:12]
    match order:
        case "pin":
            await node.pin(TrainerId(trainer), digest, True)
            return t("The model {digest} is kept until it is unpinned.", digest=name)
        case "unpin":
            await node.pin(TrainerId(trainer), digest, False)
            return t("The model {digest} goes when its turn comes.", digest=name)
        case "restore":
            await node.restore(TrainerId(trainer), digest)
            return t("The model {digest} is in use again.", digest=name)
    raise InvalidMessage(text("do: expected pin, unpin or restore"))


def model_view(job: JobView, model: View) -> ModelRow:
    """One model in words."""
    trainer = job.trainer_id
    digest = one_line(model.get("digest"))
    base = f"/jobs/{quote(trainer, safe='')}/models/{quote(digest, safe='')}"
    forms = job.formats or ("safetensors",)
    files = [
        (text("folder") if form == "folder" else one_line(form), f"{base}?format={quote(form)}") for form in forms
    ]
    round = model.get("round")
    averaged = isinstance(round, int) and round >= 0
    nbytes = model.get("bytes")
    return ModelRow(
        digest=digest,
        short=digest[:12],
        round=str(round) if averaged else NONE,
        contributors=one_line(model.get("contributors")) or NONE,
        accuracy=accuracy(model.get("accuracy")),
        exchanged_with=one_line(model.get("exchanged_with")) or NONE,
        size=size_words(nbytes) if isinstance(nbytes, int) else NONE,
        held=model.get("held") is True,
        pinned=model.get("pinned") is True,
        averaged=averaged,
        back=f"{view_url('models', trainer)}?back={quote(digest, safe='')}#back",
        files=(*files, (text("model card"), f"{base}/card")),
    )


def _back_to(kept: Sequence[ModelRow], digest: str | None) -> ModelRow | None:
    if not digest:
        return None
    model = next((model for model in kept if model.digest == digest), None)
    if model is None:
        raise InvalidMessage(
            text("no model {digest} is kept here any more; choose one of the list", repr(digest[:64]))
        )
    return None if model.held else model


def _pair(kept: Sequence[ModelRow], one: str | None, other: str | None) -> tuple[ModelRow, ModelRow]:
    by_digest = {model.digest: model for model in kept}
    if not one or not other or one == other:
        raise InvalidMessage(text("choose two different models to compare"))
    for digest in (one, other):
        if digest not in by_digest:
            raise InvalidMessage(
                text("no model {digest} is kept here any more; choose two of the list", repr(digest[:64]))
            )
    return by_digest[one], by_digest[other]


async def _compared(node: Node, trainer: str, one: ModelRow, other: ModelRow) -> ComparisonView:
    own = may_act()
    files = [
        (await node.export(TrainerId(trainer), model.digest, "safetensors", same_machine=own)).body
        for model in (one, other)
    ]
    comparison = await asyncio.to_thread(_compare, *files)
    return ComparisonView(
        one,
        other,
        _difference(comparison.total),
        tuple(_difference(array) for array in comparison.arrays[:MOST_ARRAYS]),
        max(0, len(comparison.arrays) - MOST_ARRAYS),
        ", ".join(one_line(name, 60) for name in comparison.unlike[:20]),
    )


def _compare(one: bytes, other: bytes) -> ModelComparison:
    codec = BinaryCodec()
    return compare(codec.decode_params(one), codec.decode_params(other))


def _difference(difference: Difference) -> DifferenceView:
    return DifferenceView(
        one_line(difference.name, 80),
        f"{difference.numbers:,}",
        _figure(difference.mean),
        _figure(difference.largest),
        _cosine(difference.cosine),
    )


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def _cosine(value: float | None) -> str:
    return NONE if value is None else f"{value:.6f}"
