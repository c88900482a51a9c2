"""POST /data/{trainerId}/import: import data for a trainer of this node."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from quart import Request, request

from flnet.errors import DataThere, ImportRefused, JobBusy, NoRoom, UnknownTrainer
from flnet.node.interface import Node, View
from flnet.params.params import TrainerId
from flnet.settings import Settings
from flnet.text import text
from flnet.web.body import EARLY_BYTES, MULTIPART, Files, LimitedBody, hand_on_body
from flnet.web.routes import JOBS, UNREADABLE, Api

api = Api()
_FORM_BYTES = 64 * 1024 * 1024  # of a form in addition to its files: a header for each of them


class ImportView(BaseModel):
    """The imported files, and the trainer's data after the import."""

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


def import_body(request: Request, node: Node, settings: Settings) -> LimitedBody:
    """The body of a request that imports data."""
    return LimitedBody(request.content_length, node.imports.limit_bytes + _FORM_BYTES, kept=EARLY_BYTES)


@api.post(
    "/data/<trainer>/import",
    JOBS,
    types=(MULTIPART, "application/octet-stream"),
    query={
        "name": "name of the file, if the body is not a form",
        "replace": "true: replace the existing data, which are kept in another folder",
        "add": "true: add the examples to the existing data",
    },
    answer=ImportView,
    refuses=(*UNREADABLE, UnknownTrainer, JobBusy, ImportRefused, DataThere, NoRoom),
    body=import_body,
)
async def import_files(node: Node, trainer: TrainerId) -> View:
    """Import data for a trainer: a file, an archive, or the files of a form."""
    return dict(await import_from_request(node, trainer))


async def import_from_request(node: Node, trainer: TrainerId) -> View:
    """Import the files that the current request brings.

    Raises:
        PeerError: it was refused; nothing has changed.
    """
    node.job(trainer)

    add = request.args.get("add") == "true"  # read here: what comes later is taken outside of the request

    def begin(replace: bool) -> Any:
        return node.imports.begin(trainer, replace=replace, add=add)

    files = Files(
        begin,
        request.mimetype,
        request.mimetype_params,
        name=request.args.get("name", ""),
        replace=request.args.get("replace") == "true",
    )
    try:
        await hand_on_body(files)
        if files.upload is None:
            raise ImportRefused(text("no files came; choose a file, a folder, or a .zip or .tar archive"))
        return await node.imports.take(files.upload)
    except BaseException:
        if files.upload is not None:
            files.upload.discard()
        raise
