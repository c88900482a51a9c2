"""The results of the rounds of a job: as JSON, as CSV, SVG and PNG files, and leave-one-out accuracies."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from markupsafe import Markup, escape
from pydantic import Field
from quart import Response, current_app, request

from flnet.errors import InvalidMessage, NotOffered, UnknownTrainer
from flnet.installing import install
from flnet.node import interface
from flnet.node.interface import Node
from flnet.node.replay import Replay, State, replayed
from flnet.params.params import TrainerId
from flnet.protocol.counts import MESH_FIGURES, Basis, DecidingRows
from flnet.protocol.messages import LAST_ROUND, HexDigest, HyperParams, Unit
from flnet.rounds.view import Figures, MetricsView, RoundMeshView, View
from flnet.text import text
from flnet.web.auth.permissions import Who
from flnet.web.charts import (
    AFTER,
    BEFORE,
    HEIGHT,
    LEFT,
    MAX_DOTS,
    RIGHT,
    WIDTH,
    Chart,
    ChartSeries,
    Look,
    Point,
    accuracy_chart,
    figure_chart,
    points_of,
    svg_of,
)
from flnet.web.formatting import one_line, seconds_words, size_words
from flnet.web.routes import JOBS, JSON, Api

READ_SECONDS = 600.0  # that a reader of a whole history may take: 100,000 rounds have 200 MB
MOST_POINTS = 1000  # of a line in a picture; of a longer history every so many rounds are drawn
TITLE, LEGEND, GAP = 24, 20, 16  # heights around a panel
COLOURS = ("#1c7a4b", "#6f8578", "#0f5f8a")
INK, GRID = "#1b221d", "#dde4de"
FONT = "sans-serif"
SCALE = 2  # pixels of a PNG for each unit, so that it is sharp in print
FILE_LOOK = Look(
    Markup('stroke="{}"').format(GRID),
    Markup('text-anchor="end"'),
    Markup('text-anchor="middle"'),
    Markup('fill="none" stroke="{}" stroke-width="2"'),
    Markup(' fill="{}" stroke="none"'),
    COLOURS,
)
SECONDS = ("fetch", "train", "wait", "average", "measure", "exchange")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one
_COLUMNS = (
    *("round", "initiator", "why", "outcome", "error", "participants", "contributors", "missing", "examples"),
    *(BEFORE, AFTER, "exchanged_with", "digest", "bytes_sent", "bytes_received", "messages", "seconds"),
    *(f"seconds_{part}" for part in SECONDS),
    *("decision", "decided", "mean_accuracy", "mean_loss", "seconds_align", "loss", "auc"),
    *(f"mesh_{name}" for name in ("accuracy", "basis", "examples", "nodes", *MESH_FIGURES)),
    *("mesh_worst", "mesh_worst_node", "mesh_spread", "mesh_jain", "mesh_groups", "common_test_accuracy"),
)
_LAST = {"last": "number of the newest rounds to return; all if absent"}
Page = Sequence[interface.View]
Make = Callable[[Page, str], bytes]
api = Api()


class DecisionView(View):
    """The decision of this node after a round of a series with a goal."""

    over: Literal["reached", "given_up"] | None
    words: str
    accuracy: Unit | None
    loss: float | None
    nodes: int = Field(description="number of nodes that reported")
    basis: Basis | None = Field(default=None, description="by what they count in the accuracy, as in `mesh`")
    rows: DecidingRows | None = Field(
        default=None,
        description="rows that decided; mixed where some nodes have no validation rows",
    )
    best: Unit | None


class BytesView(View):
    """Bytes of parameters that a round sent and received."""

    sent: int
    received: int


WeighedView = Annotated[
    dict[str, dict[str, float | str]],
    Field(
        description="for each peer, if known: weight, norm, cosine, consistency, reason (docs/aggregation-rules.md)"
    ),
]


class SpentView(View):
    """The noise of this node's update of a round, and what its budget had spent with it."""

    level: Literal["node", "rows"]
    epsilon: float = Field(description="epsilon of the promise")
    delta: float
    clip: float
    budget: str = Field(description="name of the budget")
    spent: float | None = Field(description="epsilon of all updates counted in this budget, this one included")
    noise_multiplier: float
    words: str = Field(description="all this in a sentence")


class SumView(View):
    """By whom the secure sum of a round was opened."""

    members: list[str] = Field(description="nodes that held shares for it")
    threshold: int = Field(description="how many of them were needed to open it")
    words: str = Field(description="all this in a sentence")


class DisputeView(View):
    """Why a node is not to be trusted."""

    reason: str
    statements: list[dict[str, str | int | None]] = Field(
        default=[], description="what it signed, as proof; empty where nothing is signed"
    )


class RoundView(View):
    """The result of one round on this node."""

    round: int
    initiator: str
    why: str = Field(default="", description="why a schedule of this node started the round; empty if it did not")
    decision: DecisionView | None = Field(
        default=None, description="decision after this round, in a series with a goal"
    )
    outcome: str
    error: str | None
    contributors: list[str]
    missing: list[str]
    digest: HexDigest | None = Field(description="of the average")
    pre_fedavg_accuracy: Unit | None
    post_fedavg_accuracy: Unit | None
    exchanged_with: str | None
    examples: int | None
    used_hyper: HyperParams | None
    seconds: Figures = Field(description="duration of each part of the round, in seconds")
    bytes: BytesView
    messages: int | None = Field(
        default=None,
        description="requests that this node made of others for the round; null where an older version saved none",
    )
    chosen: list[str] | None = Field(
        default=None, description="nodes that were chosen to train, or this node and its neighbours; null for all"
    )
    metrics: MetricsView
    contributions: list[dict[str, str | int | None]] = Field(
        default=[], description="signed statements of the updates (docs/audit.md)"
    )
    alone: dict[str, str] = Field(
        default={},
        description="why this node was alone, by peer that was expected: its update is the only one in the average, or "
        "nobody else has the average; empty if it was not",
    )
    left_out: dict[str, str] | None = Field(
        default=None,
        description="nodes that were to train and whose updates are not in the average, each with the reason; null "
        "where the round was cut short, where the node took the average of others, and where there are no common rounds",
    )
    weighed: WeighedView = Field(default={})
    privacy: SpentView | None = Field(
        default=None, description="what this node promised of its update, and spent with it; null if nothing"
    )
    secure: SumView | None = Field(
        default=None, description="by whom the secure sum was opened; null where updates are not masked"
    )
    spread: float | None = Field(
        default=None,
        description="the distance of neighbours: mean distance of their updates from this node's one, before averaging, as "
        "a part of its norm; null where all nodes make one average",
    )
    mesh: RoundMeshView | None = Field(
        default=None, description="figures on the test rows of all nodes; null where no other node told its own"
    )
    disputed: dict[str, DisputeView] = Field(
        default={},
        description="nodes that told others something else than this node, or stated wrong results, where updates are "
        "averaged in segments (docs/topology.md)",
    )


@api.get(
    "/jobs/<trainer>/history",
    JOBS,
    answer=list[RoundView],
    query=_LAST,
    refuses=(UnknownTrainer, InvalidMessage),
)
async def history(node: Node, trainer: TrainerId) -> Response:
    """The results of all rounds, oldest first."""
    return _in_pages(node, trainer, JSON, joined_json)


def _in_pages(
    node: Node, trainer: TrainerId, kind: str, written: Callable[[AsyncIterator[Page]], AsyncIterator[bytes]]
) -> Response:
    """An answer that is written while it is read, page by page: there may be a hundred thousand rounds."""
    node.job(trainer)
    answer = Response(written(node.record_pages(trainer, asked_rounds())), content_type=kind)
    answer.timeout = READ_SECONDS
    return answer


async def joined_json(pages: AsyncIterator[Page]) -> AsyncIterator[bytes]:
    """The records of all pages as one JSON array."""
    before = b"["
    async for page in pages:
        if page:
            yield before + (await asyncio.to_thread(orjson.dumps, page))[1:-1]
            before = b","
    yield b"]" if before == b"," else b"[]"


async def joined_csv(pages: AsyncIterator[Page]) -> AsyncIterator[bytes]:
    """The records of all pages as one table; see `as_csv`."""
    yield as_csv([])
    async for page in pages:
        yield (await asyncio.to_thread(as_csv, page)).partition(b"\r\n")[2]


class NodeStateView(View):
    """What a node did in a round, up to a step."""

    state: State
    why: str = Field(description="a sentence; empty where there is nothing to say")


class StepView(View):
    """One event of a round."""

    id: int
    at: float = Field(description="seconds since 1970 by this node's clock")
    seconds: float = Field(description="seconds since the first step")
    kind: str
    node: str = Field(description="the node that it is about")
    text: str
    changes: dict[str, NodeStateView] = Field(description="states that nodes are in from this step on")


class ReplayView(View):
    """A past round, step by step, from the kept events."""

    round: int
    record: RoundView | None = Field(description="null while the round is open, and if it is not kept any more")
    steps: list[StepView]
    nodes: dict[str, NodeStateView] = Field(description="what each node did in all, this node first")
    missing: list[str] = Field(description="sentences: which events of the round are not kept any more")


@api.get(
    "/jobs/<trainer>/history/<round>",
    JOBS,
    answer=ReplayView,
    refuses=(UnknownTrainer, InvalidMessage, NotOffered),
)
async def one_round(node: Node, trainer: TrainerId, round: str) -> interface.View:
    """A past round, step by step, from the kept events."""
    return (await replay_of(node, trainer, round_number(round))).view()


async def replay_of(node: Node, trainer: TrainerId, number: int) -> Replay:
    """A round told again.

    Raises:
        UnknownTrainer: no such job.
        NotOffered: nothing is kept of this round.
    """
    records = await node.records(trainer, 1, until=number)
    record = records[-1] if records and records[-1]["round"] == number else None
    # All events are read: one at a time.
    async with current_app.extensions.setdefault("flnet.replay", asyncio.Lock()):
        events = await node.events()
    told = await asyncio.to_thread(replayed, node.me.id, trainer, number, record, events)
    if record is None and not told.steps:
        raise NotOffered(text("neither a record nor events of round {round} are kept here", number))
    return told


def round_number(asked: str) -> int:
    """The number of a round in an address.

    Raises:
        InvalidMessage: it is none.
    """
    if not (asked.isascii() and asked.isdigit() and len(asked) <= len(str(LAST_ROUND))):
        raise InvalidMessage(text("round: expected a whole number from 0, got {value}", repr(asked[:60])))
    return int(asked)


def asked_rounds() -> int | None:
    """How many records the request wants at most; None for all.

    Raises:
        InvalidMessage: that is no number of rounds.
    """
    asked = request.args.get("last")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 9 and int(asked) > 0):
        raise InvalidMessage(
            text("last: expected a whole number from 1 to 999999999, got {value}", repr(asked[:60]))
        )
    return int(asked)


@dataclass(frozen=True)
class Panel:
    """One chart of the picture, with its name; `top` is where it begins."""

    title: str
    chart: Chart
    top: int


def as_csv(records: Sequence[interface.View]) -> bytes:
    """A header, and one line for each round, oldest first; lists are joined with semicolons."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\r\n")
    lines.writerow(_COLUMNS)
    lines.writerows([_cell(row.get(name)) for name in _COLUMNS] for row in map(_row, records))
    return out.getvalue().encode()


def panels_of(records: Sequence[interface.View]) -> list[Panel]:
    """Accuracy, participants, seconds and bytes by round, one below the other, as far as there are figures.

    Of vertical jobs, AUC and loss too; nothing is averaged there.
    """
    is_vertical = any("align" in _seconds(record) for record in records)
    after = [{"round": record["round"], **(record.get("metrics") or {})} for record in records]
    counted = [{**record, "of": {"count": len(record.get("contributors") or ())}} for record in records]
    totals = [{**record, "of": {"seconds": sum(_seconds(record).values())}} for record in records]
    train = points_of(records, "seconds", "train")
    averaged = (("after averaging", points_of(records, AFTER)), ("before averaging", points_of(records, BEFORE)))
    scored = (("accuracy", points_of(records, AFTER)), ("AUC", points_of(after, "after", "auc")))
    accuracies = _lines(*(scored if is_vertical else averaged))
    losses = _lines(("loss", points_of(after, "after", "loss"))) if is_vertical else []
    counts = _lines(
        ("nodes that took part" if is_vertical else "updates averaged", points_of(counted, "of", "count"))
    )
    seconds = _lines(("the whole round", points_of(totals, "of", "seconds")), (text("local training"), train))
    directions = [(name, points_of(records, "bytes", name)) for name in ("sent", "received")]
    charts = (
        ("Accuracy and AUC" if is_vertical else "Accuracy", accuracy_chart(accuracies, MOST_POINTS)),
        ("Loss", figure_chart(losses, lambda loss: f"{loss:.3g}", MOST_POINTS)),
        ("Participants", figure_chart(counts, lambda count: f"{count:g}", MOST_POINTS)),
        ("Seconds", figure_chart(seconds, seconds_words, MOST_POINTS)),
        ("Bytes", figure_chart(_lines(*directions), lambda nbytes: size_words(int(nbytes)), MOST_POINTS)),
    )
    drawn = [(title, chart) for title, chart in charts if chart is not None]
    each = TITLE + HEIGHT + LEGEND + GAP
    return [Panel(title, chart, TITLE + GAP + number * each) for number, (title, chart) in enumerate(drawn)]


def height_of(panels: Sequence[Panel]) -> int:
    """The height of the whole picture, in the units of `charts.WIDTH`."""
    return TITLE + GAP + max(len(panels), 1) * (TITLE + HEIGHT + LEGEND + GAP)


def as_svg(records: Sequence[interface.View], title: str) -> bytes:
    """A picture that stands alone: no style sheet, no script, no font of its own."""
    panels = panels_of(records)
    height = height_of(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{FONT}" font-size="12" fill="{INK}">',
        f"<title>{_plain(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{_plain(title)}</text>',
        *(_drawn(panel) for panel in panels),
    ]
    if not panels:
        parts.append(f'<text x="12" y="{TITLE + GAP + 24}">no rounds yet</text>')
    return "\n".join([*parts, "</svg>", ""]).encode()


def legend_of(chart: Chart) -> list[tuple[str, str]]:
    """Colour and words of each line."""
    return [(FILE_LOOK.mark(line.number), f"{line.name} ({line.last})") for line in chart.lines]


def _drawn(panel: Panel) -> str:
    chart, top = panel.chart, panel.top
    parts = [f'<text x="12" y="{top + 16}" font-weight="bold">{panel.title}</text>']
    parts.append(f'<g transform="translate(0 {top + TITLE})">{svg_of(chart, FILE_LOOK)}</g>')
    for number, (colour, words) in enumerate(legend_of(chart)):
        x, y = LEFT + 280 * number, top + TITLE + HEIGHT + 12
        parts.append(f'<path d="M{x} {y - 4}h20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 26}" y="{y}">{_plain(words)}</text>')
    return "\n".join(parts)


def _lines(*named: tuple[str, Sequence[Point]]) -> list[ChartSeries]:
    return [ChartSeries(name, _thinned(points)) for name, points in named]


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """At most MOST_POINTS of the points, evenly spaced, including the newest."""
    step = -(-len(points) // MOST_POINTS) or 1
    return tuple(points[::-1][::step][::-1])


def _row(record: interface.View) -> Mapping[str, Any]:
    moved, decision = record.get("bytes") or {}, record.get("decision") or {}
    seconds, after = _seconds(record), (record.get("metrics") or {}).get("after") or {}
    return {
        **record,
        "participants": len(record.get("contributors") or ()),
        "bytes_sent": moved.get("sent"),
        "bytes_received": moved.get("received"),
        "seconds": round(sum(seconds.values()), 3) if seconds else None,
        **{
            f"seconds_{part}": round(seconds[part], 3) if part in seconds else None for part in (*SECONDS, "align")
        },
        **{name: after.get(name) for name in ("loss", "auc", "common_test_accuracy")},
        "decision": decision.get("over"),
        "decided": decision.get("words"),
        "mean_accuracy": decision.get("accuracy"),
        "mean_loss": decision.get("loss"),
        **_mesh(record),
    }


def _mesh(record: interface.View) -> Mapping[str, Any]:
    mesh = record.get("mesh") or {}
    worst, groups = mesh.get("worst") or {}, mesh.get("groups") or {}
    fair = {
        "worst": worst.get("accuracy"),
        "worst_node": worst.get("node"),
        "groups": [f"{name}: {group['accuracy']:.4f} of {group['examples']}" for name, group in groups.items()],
    }
    return {f"mesh_{name}": value for name, value in {**(mesh.get("figures") or {}), **mesh, **fair}.items()}


def _seconds(record: interface.View) -> Mapping[str, float]:
    seconds: Mapping[str, Any] = record.get("seconds") or {}
    return {name: value for name, value in seconds.items() if isinstance(value, int | float)}


def _cell(value: Any) -> Any:
    """A figure as it is; words so that no spreadsheet takes them for a formula."""
    if value is None or isinstance(value, int | float):
        return value
    words = ";".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{words}" if words.startswith(_FORMULA) else words


def _plain(words: object) -> str:
    return str(escape(one_line(words, 200)))


def as_png(records: Sequence[interface.View], title: str) -> bytes:
    """The picture of `as_svg` in pixels, drawn with Pillow; takes a tenth of a second, so call it in a thread.

    Raises:
        NotOffered: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415
    except ImportError as exc:
        words = text(
            "a PNG needs Pillow, which is not installed; install it ({command}), or take the SVG",
            install("images"),
        )
        raise NotOffered(words) from exc
    panels = panels_of(records)
    image = Image.new("RGB", (SCALE * WIDTH, SCALE * height_of(panels)), "white")
    draw = ImageDraw.Draw(image)
    fonts = {size: ImageFont.load_default(SCALE * size) for size in (12, 16)}
    pen = _Pen(draw, fonts)
    pen.words(12, 24, one_line(title, 200), size=16)
    for panel in panels:
        _draw(pen, panel)
    if not panels:
        pen.words(12, 64, "no rounds yet")
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


class _Pen:
    """Draws in the units of the SVG; `y` of words is their base line."""

    def __init__(self, draw: Any, fonts: Any) -> None:
        self._draw, self._fonts = draw, fonts

    def words(self, x: float, y: float, words: str, *, size: int = 12, anchor: str = "ls") -> None:
        self._draw.text((SCALE * x, SCALE * y), words, INK, font=self._fonts[size], anchor=anchor)

    def line(self, places: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        scaled = [(SCALE * x, SCALE * y) for x, y in places]
        if len(scaled) > 1:
            self._draw.line(scaled, colour, round(SCALE * width), joint="curve")

    def dot(self, x: float, y: float, colour: str) -> None:
        box = [SCALE * (x - 2.5), SCALE * (y - 2.5), SCALE * (x + 2.5), SCALE * (y + 2.5)]
        self._draw.ellipse(box, colour)


def _draw(pen: _Pen, panel: Panel) -> None:
    chart, top = panel.chart, panel.top + TITLE
    pen.words(12, panel.top + 16, panel.title)
    for tick in chart.levels:
        y = top + float(tick.at)
        pen.line([(LEFT, y), (WIDTH - RIGHT, y)], GRID, 1)
        pen.words(LEFT - 6, y + 4, tick.label, anchor="rs")
    for tick in chart.rounds:
        pen.words(float(tick.at), top + HEIGHT - 12, tick.label, anchor="ms")
    legend = legend_of(chart)
    for line in reversed(chart.lines):
        colour = legend[line.number][0]
        places = [(float(x), top + float(y)) for x, y in line.dots]
        pen.line(places, colour, 2)
        for x, y in places if len(places) <= MAX_DOTS else ():
            pen.dot(x, y, colour)
    for number, (colour, words) in enumerate(legend):
        x, y = LEFT + 280 * number, top + HEIGHT + 12
        pen.line([(x, y - 4), (x + 20, y - 4)], colour, 2)
        pen.words(x + 26, y, words)


async def csv_file(node: Node, trainer: TrainerId) -> Response:
    """All rounds as CSV."""
    return _to_save(_in_pages(node, trainer, "text/csv; charset=utf-8", joined_csv), node, trainer, "csv")


def _picture(form: str, kind: str, make: Make) -> Callable[[Node, TrainerId], Awaitable[Response]]:
    async def answer(node: Node, trainer: TrainerId) -> Response:
        wanted = asked_rounds()
        title = f"{node.job(trainer).trainer_label} on {node.me.id}"
        async with current_app.extensions.setdefault("flnet.history_files", asyncio.Lock()):  # one at a time
            records = await node.thinned_records(trainer, MOST_POINTS, wanted)
            file = Response(await asyncio.to_thread(make, records, title), content_type=kind)
        return _to_save(file, node, trainer, form)

    return answer


def _to_save(file: Response, node: Node, trainer: TrainerId, form: str) -> Response:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{trainer}-{node.me.id}")[:100]
    file.headers["Content-Disposition"] = f'attachment; filename="{name}-history.{form}"'
    return file


FORMS: Mapping[str, tuple[str, Callable[[Node, TrainerId], Awaitable[Response]]]] = {
    "csv": ("text/csv", csv_file),
    "svg": ("image/svg+xml", _picture("svg", "image/svg+xml", as_svg)),
    "png": ("image/png", _picture("png", "image/png", as_png)),
}


for form, (kind, answer) in FORMS.items():
    api.add(
        *("GET", f"/jobs/<trainer>/history.{form}", JOBS, answer),
        what=f"The results of all rounds, as a {form.upper()} file",
        answer_type=kind,
        query=_LAST,
        refuses=(UnknownTrainer, InvalidMessage, *((NotOffered,) if form == "png" else ())),
    )


class GainsRoundView(View):
    """Leave-one-out accuracies of one round."""

    round: int
    accuracy: float = Field(description="of the average of all updates, on this node's test split")
    examples: int = Field(description="number of rows of that split")
    seconds: float = Field(description="seconds that the measurement took")
    without: dict[str, float] = Field(description="accuracy of the average without the update of each peer")


class GainsView(View):
    """Leave-one-out accuracies, which only this node knows (FLNET_LEAVE_ONE_OUT)."""

    on: bool = Field(description="whether they are measured")
    why_not: str = Field(description="why the newest round was not measured; empty if it was or will be")
    rounds: list[GainsRoundView] = Field(
        description="rounds that were measured since this node started, oldest first"
    )


@api.get("/jobs/<trainer>/gains", JOBS, answer=GainsView, refuses=(UnknownTrainer,), who=Who.OPERATOR)
async def gains(node: Node, trainer: TrainerId) -> interface.View:
    """Leave-one-out accuracies: the accuracy on this node without each peer, if it is measured."""
    return node.leave_one_out.view(trainer)
