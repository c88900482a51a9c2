"""The page of the data: what every trainer works on, how much of each class, or what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from quart import Response, request

from flnet.node.interface import Node, PeerInfo, View
from flnet.params.params import TrainerId
from flnet.rounds.view import JobView
from flnet.settings import Settings
from flnet.web.api.data_import import import_body, import_from_request
from flnet.web.auth.permissions import may_act
from flnet.web.formatting import one_line
from flnet.web.page.frame import notices, redirect_with_notice, show
from flnet.web.page.own_trainers import offer_card
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_translator

pages = Pages()
MOST_CLASSES = 60  # rows of one trainer's table
SPLITS = ("train", "validation", "test")
STEP, LARGEST = 22.0, 9.5  # of the picture of shards: pixels from one dot to the next, and the largest radius
LEFT, TOP = 110.0, 22.0  # room for the names of classes, and for the numbers of shards
MOST_PARTS, MOST_CLASSES_DRAWN = 30, 30
_LABEL = 14  # characters of a class


@dataclass(frozen=True)
class Count:
    """A number of rows, and `percent` of the longest bar, from 0 to 100."""

    split: str
    rows: str
    percent: float


@dataclass(frozen=True)
class ClassCounts:
    """One class with its rows in every split."""

    name: str
    counts: tuple[Count, ...]


@dataclass(frozen=True)
class PartDot:
    """The rows of a class in a shard; the area of the dot is in proportion to them."""

    x: float
    y: float
    radius: float
    own: bool
    words: str


@dataclass(frozen=True)
class AxisLabel:
    """A name next to the dots."""

    x: float
    y: float
    text: str
    own: bool = False


@dataclass(frozen=True)
class PartsPicture:
    """How a data set is dealt to the shards of an experiment: a dot for each class in each shard, and a table.

    Attributes:
        rows: for each class its name and the rows in each part.
        totals: rows in each part.
        own: this node's part, from 1.
    """

    width: float
    height: float
    dots: tuple[PartDot, ...]
    classes: tuple[AxisLabel, ...]
    parts: tuple[AxisLabel, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    totals: tuple[str, ...]
    own: int
    hidden_parts: int
    hidden_classes: int


@dataclass(frozen=True)
class PeerRows:
    """How many rows a peer says that it has; `percent` of the most."""

    id: str
    rows: str
    percent: float


@dataclass(frozen=True)
class DataCard:
    """The data of one trainer on the page, besides the fields of its view.

    Attributes:
        hidden: how many classes are not listed.
        class_names: where the rows of each class are not known.
    """

    job: JobView
    splits: tuple[Count, ...]
    classes: tuple[ClassCounts, ...]
    hidden: int
    class_names: str
    picture: PartsPicture | None
    peers: tuple[PeerRows, ...]


@dataclass(frozen=True)
class PartView:
    """Which part of each data set this node takes; `kind` and `value` say how the parts differ."""

    index: int
    count: int
    kind: str
    value: str


@pages.get("/view/data")
async def data(node: Node, settings: Settings) -> Response:
    """The page of the data of all trainers."""
    infos = await node.peer_infos()
    is_own = may_act()  # the folders of this machine are nobody else's business
    folder = one_line(str(settings.datasets_path or "")) if is_own else None
    return await show(
        "data.html",
        data=[card_of(job, infos, settings.data_shard.index) for job in node.all_jobs()],
        part=part_of(settings),
        folder=folder,
        may_import=is_own,
        offers=[offer_card(offer) for offer in await node.own_trainers.offers()] if is_own else [],
        notice=notices().get(request.args.get("notice")),
    )


@pages.post("/view/data/<trainer>", body=import_body)
async def import_files(node: Node, trainer: TrainerId) -> Any:
    """Import data for a trainer; redirects to the view, which shows the notice."""
    outcome = _bring(node, trainer, request_translator())
    return await redirect_with_notice(outcome, "/view/data", f"#of-{quote(trainer, safe='')}")


async def _bring(node: Node, trainer: TrainerId, t: Translate) -> str:
    return import_words(await import_from_request(node, trainer), t)


def import_words(result: View, t: Translate) -> str:
    """The result of an import, in a sentence or two."""
    rows = sum(result["rows"].values())
    words = t("Imported files: {files}; rows: {rows}.", files=result["files"], rows=f"{rows:,}")
    if result["aside"]:
        words += " " + t("The data that were there before are now in {aside}.", aside=one_line(result["aside"]))
    return words


def card_of(job: JobView, infos: Sequence[PeerInfo] = (), own: int = 1) -> DataCard:
    """One trainer's data in words and bars.

    Args:
        infos: what the peers say of themselves.
        own: this node's part of the data set, from 1.
    """
    names = [one_line(name, 60) for name in job.data.classes]
    per_class = _classes(names, job.counts)
    return DataCard(
        job=job,
        splits=_bars(job.data.rows),
        classes=per_class[:MOST_CLASSES],
        hidden=max(0, len(per_class) - MOST_CLASSES),
        class_names="" if per_class else ", ".join(names[:MOST_CLASSES]),
        picture=parts_picture(job.parts, names, own),
        peers=rows_of_peers(job.trainer_id, infos),
    )


def part_of(settings: Settings) -> PartView:
    """This node's part of each data set, as the settings have it."""
    kind, _, value = settings.data_partition.partition(":")
    return PartView(settings.data_shard.index, settings.data_shard.count, kind, value)


def rows_of_peers(trainer: str, infos: Sequence[PeerInfo]) -> tuple[PeerRows, ...]:
    """How many rows the peers say that they have for a trainer, those that say it."""
    totals = {
        one_line(info.id, 64): sum(job.data.rows.values())
        for info in infos
        for job in info.jobs
        if job.trainer_id == trainer and job.data.rows and min(job.data.rows.values()) >= 0
    }
    most = max(totals.values(), default=0) or 1
    return tuple(PeerRows(peer, f"{rows:,}", round(100 * rows / most, 2)) for peer, rows in sorted(totals.items()))


def _bars(rows: Mapping[str, int]) -> tuple[Count, ...]:
    """One bar for each split."""
    most = max(rows.values(), default=0) or 1
    return tuple(_count(split, number, most) for split, number in rows.items())


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
    return Count(one_line(split, 20), f"{number:,}", round(100 * number / most, 2))


def parts_picture(parts: Sequence[Sequence[int]], names: Sequence[str], own: int) -> PartsPicture | None:
    """The picture of the shards; None where there is nothing to compare.

    Args:
        parts: for each part the rows of each class.
        names: of the classes.
        own: this node's part, from 1.
    """
    if len(parts) < 2 or not names or any(len(counts) != len(names) for counts in parts):
        return None
    # This node's part is among those shown.
    first = max(0, min(own - 1 - MOST_PARTS // 2, len(parts) - MOST_PARTS))
    shown = range(first, min(first + MOST_PARTS, len(parts)))
    classes = [one_line(name, 60) for name in names[:MOST_CLASSES_DRAWN]]
    most = max(parts[part][place] for part in shown for place in range(len(classes))) or 1
    dots = tuple(
        _dot(column, place, parts[part][place], most, own=part + 1 == own, words=f"{name} · {part + 1}")
        for place, name in enumerate(classes)
        for column, part in enumerate(shown)
        if parts[part][place]
    )
    return PartsPicture(
        round(LEFT + STEP * len(shown), 1),
        round(TOP + STEP * len(classes), 1),
        dots,
        tuple(
            AxisLabel(LEFT - 8, _at(TOP, place) + 4, one_line(name, _LABEL)) for place, name in enumerate(classes)
        ),
        tuple(AxisLabel(_at(LEFT, column), TOP - 8, str(p + 1), p + 1 == own) for column, p in enumerate(shown)),
        tuple((name, tuple(f"{parts[part][place]:,}" for part in shown)) for place, name in enumerate(classes)),
        tuple(f"{sum(parts[part]):,}" for part in shown),
        own,
        len(parts) - len(shown),
        len(names) - len(classes),
    )


def _dot(column: int, place: int, count: int, most: int, *, own: bool, words: str) -> PartDot:
    radius = max(1.0, LARGEST * math.sqrt(count / most))
    return PartDot(_at(LEFT, column), _at(TOP, place), round(radius, 2), own, f"{words}: {count:,}")


def _at(start: float, place: int) -> float:
    return round(start + STEP * (place + 0.5), 1)
