"""POST /data/{trainerId}/import: a person brings data to a trainer of this node."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict
from quart import Blueprint, Request, Response, redirect, request

from flnet.errors import FlnetError
from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.training.places import ImportRefused
from flnet.web.answers import json_answer
from flnet.web.frame import language_of_request
from flnet.web.notices import Notice, Notices
from flnet.web.upload import Files, UploadBody, upload_body
from flnet.web.view import text
from flnet.web.words import Translate

_IMPORT = re.compile(r"/data/[^/]+/import|/view/data/[^/]+")
_FORM_BYTES = 64 * 1024 * 1024  # of a form beside its files: a head for each of them


class ImportView(BaseModel):
    """What was taken in, and what the trainer says of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    trainer_id: str
    place: str
    files: int
    bytes: int
    added: int = 0
    aside: str | None
    source: str
    rows: dict[str, int]
    classes: list[str]
    counts: dict[str, list[int]]
    checksum: str


def is_import(asked: Request) -> bool:
    """Whether this request may bring data."""
    return asked.method == "POST" and _IMPORT.fullmatch(asked.path) is not None


def import_body(asked: Request, node: Node) -> UploadBody:
    """Where the body of an `is_import` request goes."""
    return UploadBody(asked.content_length, node.imports.limit_bytes + _FORM_BYTES)


def import_routes(node: Node) -> Blueprint:
    """The endpoint."""
    routes = Blueprint("import", __name__)

    @routes.post("/data/<trainer>/import")
    async def bring(trainer: str) -> Response:
        return json_answer(dict(await _taken(node, trainer)))

    return routes


def import_form(routes: Blueprint, node: Node, notices: Notices) -> None:
    """The same for the form of the page; it leads back there, where the notice is shown."""

    @routes.post("/view/data/<trainer>")
    async def form(trainer: str) -> Any:
        try:
            notice = Notice(taken_words(await _taken(node, trainer), language_of_request()), is_error=False)
        except FlnetError as error:
            notice = Notice(error.message, is_error=True)
        return redirect(f"/view/data?notice={notices.put(notice)}#of-{quote(trainer, safe='')}", 303)


async def _taken(node: Node, trainer: str) -> View:
    """Take in what the request brings.

    Raises:
        PeerError: it was refused; nothing has changed.
    """
    node.job(TrainerId(trainer))

    add = request.args.get("add") == "true"  # read here: what comes later is taken outside of the request

    def begin(replace: bool) -> Any:
        return node.imports.begin(TrainerId(trainer), replace=replace, add=add)

    files = Files(
        begin,
        request.mimetype,
        request.mimetype_params,
        name=request.args.get("name", ""),
        replace=request.args.get("replace") == "true",
    )
    try:
        await upload_body().arrive_in(files)
        if files.upload is None:
            raise ImportRefused("no files came; choose a file, a folder, or a .zip or .tar archive")
        return await node.imports.take(files.upload)
    except BaseException:
        if files.upload is not None:
            files.upload.discard()
        raise


def taken_words(told: View, t: Translate) -> str:
    """What was taken in, in a sentence or two."""
    rows = sum(told["rows"].values())
    words = t("{files} files were taken in: {rows} rows.", files=told["files"], rows=f"{rows:,}")
    if told["aside"]:
        words += " " + t("The data that were there before are now in {aside}.", aside=text(told["aside"]))
    return words
