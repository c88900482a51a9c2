"""The view of the data: what every trainer works on, how much of each class, or what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response, request

from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.postponing import postponed
from flnet.settings import Settings
from flnet.web.importing import import_form
from flnet.web.notices import Notices
from flnet.web.standing import may_act
from flnet.web.view import text
from flnet.web.views.frame import show

with postponed("flnet.web.parts_picture"):
    from flnet.web import parts_picture

MOST_CLASSES = 60  # rows of one trainer's table
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Count:
    """So many rows; `percent` of the longest bar beside it, from 0 to 100."""

    split: str
    rows: str
    percent: float


@dataclass(frozen=True)
class ClassCounts:
    """One class with its rows in every split."""

    name: str
    counts: tuple[Count, ...]


@dataclass(frozen=True)
class DataView:
    """The data of one trainer; `state` is ready, loading or missing."""

    trainer: str
    label: str
    state: str
    missing: str
    source: str
    note: str
    sample: bool
    checksum: str
    splits: tuple[Count, ...]
    classes: tuple[ClassCounts, ...]
    hidden: int
    class_names: str
    picture: parts_picture.PartsPicture | None
    peers: tuple[parts_picture.PeerRows, ...]


@dataclass(frozen=True)
class PartView:
    """Which part of each data set this node takes; `kind` and `value` say how the parts differ."""

    index: int
    count: int
    kind: str
    value: str


def data_view(routes: Blueprint, node: Node, settings: Settings) -> None:
    """GET /view/data, and its form."""
    notices = Notices()
    import_form(routes, node, notices)

    @routes.get("/view/data")
    async def data() -> Response:
        jobs = [node.job(TrainerId(job["trainer_id"])) for job in node.info()["jobsInfo"]]
        infos = await node.peer_infos()
        is_own = may_act()  # the folders of this machine are nobody else's business
        folder = text(str(settings.datasets_path or "")) if is_own else None
        return await show(
            "data.html",
            data=[view_of(job, infos, settings.data_shard.index) for job in jobs],
            part=part_of(settings),
            folder=folder,
            may_import=is_own,
            notice=notices.get(request.args.get("notice")),
        )


def view_of(job: View, infos: Sequence[View] = (), own: int = 1) -> DataView:
    """One trainer's data in words and bars.

    Args:
        job: the job's view.
        infos: what the peers say of themselves.
        own: this node's part of the data set, from 1.
    """
    data: Mapping[str, Any] = job.get("data") or {}
    phase = job.get("phase")
    classes: Sequence[Any] = data.get("classes") or ()
    counts: Mapping[str, Sequence[int]] = job.get("counts") or {}
    per_class = _classes([text(name, 60) for name in classes], counts)
    return DataView(
        trainer=text(job.get("trainer_id")),
        label=text(job.get("trainer_label")) or text(job.get("trainer_id")),
        state={"LOADING": "loading", "NO_DATA": "missing"}.get(str(phase), "ready"),
        missing=text(job.get("error"), 800) if phase == "NO_DATA" else "",
        source=text(data.get("source"), 400),
        note=text(data.get("note"), 800),
        sample=data.get("sample") is True,
        checksum=text(job.get("checksum"), 64),
        splits=_bars(data.get("rows")),
        classes=per_class[:MOST_CLASSES],
        hidden=max(0, len(per_class) - MOST_CLASSES),
        class_names="" if per_class else ", ".join(text(name, 60) for name in classes[:MOST_CLASSES]),
        picture=parts_picture.parts_picture(job.get("parts") or (), classes, own),
        peers=parts_picture.rows_of_peers(text(job.get("trainer_id")), infos),
    )


def part_of(settings: Settings) -> PartView:
    """This node's part of each data set, as the settings have it."""
    kind, _, value = settings.data_partition.partition(":")
    return PartView(settings.data_shard.index, settings.data_shard.count, kind, value)


def _bars(rows: Any) -> tuple[Count, ...]:
    """One bar for each split, or one for all rows."""
    pairs = dict(rows) if isinstance(rows, Mapping) else {"rows": rows} if isinstance(rows, int) else {}
    most = max(pairs.values(), default=0) or 1
    return tuple(_count(split, number, most) for split, number in pairs.items())


def _classes(names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> tuple[ClassCounts, ...]:
    """The rows of each class; a bar's length is comparable with all others of its split."""
    splits = sorted(counts, key=lambda split: SPLITS.index(split) if split in SPLITS else len(SPLITS))
    splits = [split for split in splits if len(counts[split]) == len(names)]
    if not splits:
        return ()
    most = {split: max(counts[split], default=0) or 1 for split in splits}
    return tuple(
        ClassCounts(name, tuple(_count(split, counts[split][place], most[split]) for split in splits))
        for place, name in enumerate(names)
    )


def _count(split: str, number: int, most: int) -> Count:
    return Count(text(split, 20), f"{number:,}", round(100 * number / most, 2))
