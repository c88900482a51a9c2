"""The view of a trainer's models: which are kept, their files, and how far two of them are from each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from quart import Blueprint, Response, request

from flnet.codec import BinaryCodec
from flnet.comparing import Comparison, Difference, compare
from flnet.errors import InvalidMessage
from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.web.notices import Notices
from flnet.web.standing import may_act
from flnet.web.view import NONE, accuracy, text
from flnet.web.views.frame import choices, show, size_words, view_url
from flnet.web.views.keeping import keeping_form

MOST_ARRAYS = 300  # rows of a comparison


@dataclass(frozen=True)
class ModelView:
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

    one: ModelView
    other: ModelView
    total: DifferenceView
    arrays: tuple[DifferenceView, ...]
    hidden: int
    unlike: str


def models_view(routes: Blueprint, node: Node) -> None:
    """GET /view/models/<trainer>, which compares two models where ?one= and ?other= say which, and asks whether to
    go back to the one that ?back= names; POST does what its buttons say.
    """
    notices = Notices()
    keeping_form(routes, node, notices)
    one_at_a_time = asyncio.Lock()  # a comparison holds two whole models in memory

    @routes.get("/view/models/<trainer>")
    async def models(trainer: str) -> Response:
        job = node.job(TrainerId(trainer))
        kept = [model_view(trainer, job, model) for model in await node.models(TrainerId(trainer))]
        one, other = request.args.get("one"), request.args.get("other")
        compared = None
        if one or other:
            pair = _pair(kept, one, other)
            async with one_at_a_time:
                compared = await _compared(node, trainer, *pair)
        return await show(
            "models.html",
            job=_job(trainer, job),
            models=kept,
            compared=compared,
            back=_back_to(kept, request.args.get("back")),
            notice=notices.get(request.args.get("notice")),
            one=one or (kept[0].digest if kept else ""),
            other=other or (kept[-1].digest if kept else ""),
            choices=choices(node, "models", trainer),
        )


def model_view(trainer: str, job: View, model: Mapping[str, Any]) -> ModelView:
    """One model in words."""
    digest = text(model.get("digest"))
    base = f"/jobs/{quote(trainer, safe='')}/models/{quote(digest, safe='')}"
    formats: Sequence[str] = job.get("formats") or ("safetensors",)
    files = [(text(form), f"{base}?format={quote(form)}") for form in formats]
    round = model.get("round")
    averaged = isinstance(round, int) and round >= 0
    nbytes = model.get("bytes")
    return ModelView(
        digest=digest,
        short=digest[:12],
        round=str(round) if averaged else NONE,
        contributors=text(model.get("contributors")) or NONE,
        accuracy=accuracy(model.get("accuracy")),
        exchanged_with=text(model.get("exchanged_with")) or NONE,
        size=size_words(nbytes) if isinstance(nbytes, int) else NONE,
        held=model.get("held") is True,
        pinned=model.get("pinned") is True,
        averaged=averaged,
        back=f"{view_url('models', trainer)}?back={quote(digest, safe='')}#back",
        files=(*files, ("model card", f"{base}/card")),
    )


def _job(trainer: str, job: View) -> dict[str, Any]:
    data = job.get("data") or {}
    return {
        "id": trainer,
        "label": text(job.get("trainer_label")) or text(trainer),
        "sample": data.get("sample") is True,
        "rolled_back": job.get("rolled_back") is True,
        "url": view_url("models", trainer),
    }


def _back_to(kept: Sequence[ModelView], digest: str | None) -> ModelView | None:
    if not digest:
        return None
    found = next((model for model in kept if model.digest == digest), None)
    if found is None:
        raise InvalidMessage(f"no model {digest[:64]!r} is kept here any more; choose one of the list")
    return None if found.held else found


def _pair(kept: Sequence[ModelView], one: str | None, other: str | None) -> tuple[ModelView, ModelView]:
    by_digest = {model.digest: model for model in kept}
    if not one or not other or one == other:
        raise InvalidMessage("choose two different models to compare")
    for digest in (one, other):
        if digest not in by_digest:
            raise InvalidMessage(f"no model {digest[:64]!r} is kept here any more; choose two of the list")
    return by_digest[one], by_digest[other]


async def _compared(node: Node, trainer: str, one: ModelView, other: ModelView) -> ComparisonView:
    own = may_act()
    files = [
        (await node.export(TrainerId(trainer), model.digest, "safetensors", same_machine=own)).body
        for model in (one, other)
    ]
    found = await asyncio.to_thread(_compare, *files)
    return ComparisonView(
        one,
        other,
        _difference(found.total),
        tuple(_difference(array) for array in found.arrays[:MOST_ARRAYS]),
        max(0, len(found.arrays) - MOST_ARRAYS),
        ", ".join(text(name, 60) for name in found.unlike[:20]),
    )


def _compare(one: bytes, other: bytes) -> Comparison:
    codec = BinaryCodec()
    return compare(codec.decode_params(one), codec.decode_params(other))


def _difference(found: Difference) -> DifferenceView:
    return DifferenceView(
        text(found.name, 80),
        f"{found.numbers:,}",
        _figure(found.mean),
        _figure(found.largest),
        _cosine(found.cosine),
    )


def _figure(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def _cosine(value: float | None) -> str:
    return NONE if value is None else f"{value:.6f}"
