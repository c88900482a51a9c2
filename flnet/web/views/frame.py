"""What the further views of the page have in common: the choice of a trainer, and errors as pages in words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from quart import Blueprint, Response, redirect, render_template, request
from werkzeug.exceptions import HTTPException

from flnet.errors import FlnetError, LocalError
from flnet.node.base import Node
from flnet.web.view import text

OF_TRAINERS = ("models", "predict")  # the views that are about one trainer each
_log = logging.getLogger("flnet.web")


@dataclass(frozen=True)
class Choice:
    """One trainer that a view can be about."""

    id: str
    label: str
    url: str
    chosen: bool


def view_url(view: str, trainer: str) -> str:
    """The address of a view of one trainer."""
    return f"/view/{view}/{quote(trainer, safe='')}"


def choices(node: Node, view: str, trainer: str) -> Sequence[Choice]:
    """This node's trainers, with the links to their views; `trainer` is the one that is shown."""
    jobs: Sequence[Mapping[str, Any]] = node.info()["jobsInfo"]
    return [_choice(view, job, trainer) for job in jobs]


def size_words(nbytes: int) -> str:
    """Bytes as people read them: "431 kB"."""
    size = float(nbytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


async def show(template: str, status: int = 200, **shown: Any) -> Response:
    """A template, filled in."""
    page = await render_template(template, **shown)
    return Response(page, status, content_type="text/html; charset=utf-8")


async def show_fault(node: Node, words: str, status: int) -> Response:
    """What went wrong, in one sentence on a page of its own."""
    view = next((view for view in OF_TRAINERS if request.path.startswith(f"/view/{view}")), OF_TRAINERS[0])
    return await show("fault.html", status, words=text(words, 500), choices=choices(node, view, ""))


def frame_views(routes: Blueprint, node: Node) -> None:
    """Lead from a view without a trainer to the first one's that has data, and show errors of views as pages."""

    async def first(view: str) -> Any:
        jobs: Sequence[Mapping[str, Any]] = node.info()["jobsInfo"]
        if not jobs:
            return await show_fault(node, "This node has no trainer.", 404)
        usable = [job for job in jobs if job.get("phase") not in ("LOADING", "NO_DATA")]
        return redirect(view_url(view, str((usable or jobs)[0]["trainer_id"])), 303)

    for view in OF_TRAINERS:
        routes.add_url_rule(f"/view/{view}", f"first_{view}", first, defaults={"view": view}, methods=["GET"])

    async def known_error(error: FlnetError) -> Response:
        if isinstance(error, LocalError):
            _log.error("%s %s: %s", request.method, request.path, error, exc_info=error)
        return await show_fault(node, error.message, error.status)

    async def refused(error: HTTPException) -> Response:
        return await show_fault(node, error.description or error.name, error.code or 500)

    routes.register_error_handler(FlnetError, known_error)
    routes.register_error_handler(HTTPException, refused)


def _choice(view: str, job: Mapping[str, Any], trainer: str) -> Choice:
    name = str(job["trainer_id"])
    return Choice(name, text(job.get("trainer_label")) or text(name), view_url(view, name), name == trainer)
