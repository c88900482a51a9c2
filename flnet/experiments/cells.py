"""Cells of an experiment, their outcomes, where these are kept, and the interface of the engines that run them.

A cell is one training: a setup and a seed. Equal setups with equal seeds give equal numbers, so a cell is
identified by a digest of both, independent of its place in a table.

Outcomes are kept as JSON lines in the output folder, so that an interrupted run can continue. A line is written whole
and synced before its cell counts as done; a line that a power cut tore is skipped. A cell without numbers is kept with
its reason for the report, and is run again the next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from flnet.algorithms.registry import parse_rule
from flnet.errors import InvalidMessage, LabelsRefused, LocalError
from flnet.experiments.attacks import check_attack
from flnet.labels.spaces import read_fields
from flnet.protocol.counts import MESH_FIGURES, EvaluationCounts, PooledCounts
from flnet.rounds.goals import Goal
from flnet.settings import (
    Settings,
    check_aggregation,
    check_local_training,
    check_partition,
    check_personal_model,
    check_privacy,
    check_topology,
)
from flnet.trainer import Choice, Method, Partition

NUMBERS = 3  # increase it when a change of flnet changes the numbers of equal setups and seeds
OF_INCREMENTS = 1  # is added to it for setups with an increment, whose autoencoder has changed
Kind = Literal["federated", "lone", "central"]
Over = Literal["mean", "rows", "min", "max", "deviation", "others"] | Annotated[int, Field(ge=1, le=250)]
_OVER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "min": min,
    "max": max,
    "deviation": stdev,
    "others": fmean,
}
NodeGroup = Literal["small", "middle", "large", "alike", "between", "unlike", "steady", "drifting"]
_GROUPS: Mapping[NodeGroup, tuple[str, int]] = {  # the figure that decides, and which third or value of it
    "small": ("node.rows", 0),
    "middle": ("node.rows", 1),
    "large": ("node.rows", 2),
    "alike": ("node.unlikeness", 0),
    "between": ("node.unlikeness", 1),
    "unlike": ("node.unlikeness", 2),
    "steady": ("node.drifts", 0),
    "drifting": ("node.drifts", 1),
}
OF_CELL = frozenset({"bytes", "models", "spread", "rounds", "seconds", "processor_seconds"})  # not of single nodes
ALL_ROWS = frozenset({"accuracy", "answered_accuracy", *MESH_FIGURES} - {"auc"})  # figures that kept counts give
_DECIDES_NOTHING = frozenset({"needs", "together"})
_BETWEEN_NODES = frozenset(
    {
        "aggregation",
        "hostile",
        "attack",
        "participation",
        "min_participants",
        "exchange",
        "max_update_norm",
        "privacy",
        "topology",
    }
)
SCHEDULE = re.compile(r"cyclic|random-passing|bacombo:([1-9][0-9]{0,3}):([1-9][0-9]{0,2})")
_OF_PARTS = frozenset({"nodes", "partition"})
_FOLDS = re.compile(r"((nodes|rows):([2-9]|[1-9][0-9]{1,2}))?")
_DRIFT = re.compile(r"((shares|labels):(0\.[0-9]{1,4}|1))?")


def _checked_partition(text: str) -> str:
    """Check a partition, including the range of its number; it stays text, which goes into the key of a cell."""
    Partition.parse(check_partition(text))
    return text


def _checked_topology(text: str) -> str:
    return text if SCHEDULE.fullmatch(text) else check_topology(text)


def _checked_drift(text: str) -> str:
    if not _DRIFT.fullmatch(text):
        raise ValueError(f"expected shares:0.25 or labels:0.25, with the share of nodes that drift; got {text!r}")
    return text


def _checked_folds(text: str) -> str:
    if not _FOLDS.fullmatch(text):
        raise ValueError(f"expected nodes:5 or rows:5, with the number of folds, 2 to 999; got {text!r}")
    return text


def _checked_goal(text: str) -> str:
    try:
        Goal.parse(text)
    except InvalidMessage as exc:
        raise ValueError(exc.message) from exc
    return text


def _checked_labels(lines: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        if lines:
            read_fields(lines)
    except LabelsRefused as exc:
        raise ValueError(exc.message) from exc
    return lines


class Record(BaseModel):
    """A frozen model that refuses unknown fields and is JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Setup(Record):
    """Everything except the seed that decides a cell's numbers.

    Attributes:
        trainer: id of a trainer that a node would find.
        kind: "federated" for one mesh; "lone" for nodes that each learn from their own part and know no peer;
            "central" for one node with all rows.
        nodes: how many nodes; with "central", into how many parts the other kinds split the rows.
        partition: how rows are split between the nodes, as FLNET_DATA_PARTITION.
        topology: how updates travel, as FLNET_TOPOLOGY; or a schedule of experiments (`flnet.experiments.schedules`):
            "cyclic", "random-passing", or "bacombo:10:1" with the numbers of segments and of peers for each.
        aggregation: the aggregation rule, as FLNET_AGGREGATION.
        participation: share of the nodes that train in a round.
        min_participants: least number of nodes that train in a round.
        exchange: whether a node adopts a peer's model that is better on its own test rows.
        max_update_norm: as the setting of this name.
        privacy: as FLNET_PRIVACY, with a budget that is planned for `rounds`.
        local_training: as FLNET_LOCAL_TRAINING; "proximal:0.01" is FedProx.
        personal_model: as FLNET_PERSONAL_MODEL. Figures of personal models are named "after.local_...", and
            "after.chosen_..." where an autoencoder chooses between the personal and the common model.
        model_choice: as FLNET_MODEL_CHOICE.
        hostile: number of nodes that attack, or their share if it is below 1; they are the last nodes, and
            figures leave them out.
        attack: as in `flnet.experiments.attacks`.
        drift: how the rows of some nodes change over the rounds, as in `flnet.experiments.drift`.
        parts: whether a central node learns from the training rows of all `nodes`, and is measured on the test rows of
            each of them, so that its figures stand beside theirs; else it has all rows, and a test side of its own.
        folds: what is left out for the test, in turns by seed, as in `flnet.experiments.folds`.
        rounds: number of rounds; the largest number if there is a goal.
        until: a goal that ends the rounds earlier, as `flnet train --until`.
        epochs, rate, batch: of each local training; the trainer's defaults if absent.
        options_file: name of a TOML file that the trainer reads in the folder of its data.
        options: the entries of that file.
        labels: how rows are labelled on all nodes except the first `fine` ones, as FLNET_LABELS. On those nodes
            the labels are of the desired space, for as many rows as `rows` says.
        fine: how many nodes have labels of the desired space.
        needs: files or folders below FLNET_DATASETS_PATH, one of which must exist.
        curves: figures that are kept of every round; all figures of the last round are kept.
        together: how many seeds may be trained at once, as one batched computation.
    """

    trainer: str = Field(pattern=r"^[A-Za-z0-9_]{1,64}$")
    kind: Kind = "federated"
    nodes: int = Field(default=10, ge=1, le=250)
    partition: Annotated[str, AfterValidator(_checked_partition)] = "iid"
    topology: Annotated[str, AfterValidator(_checked_topology)] = "mesh"
    aggregation: Annotated[str, AfterValidator(check_aggregation)] = "agg1"
    participation: float = Field(default=1, gt=0, le=1)
    min_participants: int = Field(default=1, ge=1, le=257)
    exchange: bool = False
    max_update_norm: float = Field(default=100, ge=0)
    privacy: Annotated[str, AfterValidator(check_privacy)] = "none"
    local_training: Annotated[str, AfterValidator(check_local_training)] = "plain"
    personal_model: Annotated[str, AfterValidator(check_personal_model)] = "none"
    model_choice: Choice = "by-input"
    hostile: float = Field(default=0, ge=0, le=250)
    attack: Annotated[str, AfterValidator(check_attack)] = ""
    drift: Annotated[str, AfterValidator(_checked_drift)] = ""
    parts: bool = False
    folds: Annotated[str, AfterValidator(_checked_folds)] = ""
    rounds: int = Field(default=10, ge=1, le=100_000)
    until: Annotated[str, AfterValidator(_checked_goal)] | None = None
    epochs: int | None = Field(default=None, ge=1, le=10_000)
    rate: float | None = Field(default=None, gt=0, le=1_000)
    batch: int | None = Field(default=None, ge=1, le=1_000_000)
    options_file: str = Field(default="", pattern=r"^([A-Za-z0-9_-]{1,64}\.toml)?$")
    options: Mapping[str, Any] = Field(default_factory=dict)
    labels: Annotated[Mapping[str, Any], AfterValidator(_checked_labels)] = Field(default_factory=dict)
    fine: int = Field(default=1, ge=0, le=250)
    needs: tuple[str, ...] = ()
    curves: tuple[str, ...] = ("after.accuracy",)
    together: int = Field(default=1, ge=1, le=1000)

    @model_validator(mode="after")
    def _rules_of_topologies(self) -> Self:
        """Refuse what a schedule of experiments does not do, and what a node would refuse.

        Raises:
            ValueError: says which options do not go together.
        """
        if self.drift and self.kind == "central" and not self.parts:
            raise ValueError("a central node has no nodes whose rows could drift; it needs parts = true")
        if self.folds.startswith("nodes"):
            self._check_left_out()
        if self.topology == "mesh" or self.kind != "federated":
            return self
        if not self.is_schedule:
            Settings(topology=self.topology, aggregation=self.aggregation, participation=self.participation)
        idle = _BETWEEN_NODES - {"topology"} if self.is_schedule else {"exchange", "attack", "hostile"}
        idle |= {"until", "personal_model", "local_training", "drift", "folds"} if self.is_schedule else set()
        if wrong := sorted(name for name in idle if getattr(self, name) != type(self).model_fields[name].default):
            raise ValueError(
                f"the topology {self.topology} leaves no place for {', '.join(wrong)}: leave them away"
            )
        return self

    def _check_left_out(self) -> None:
        if self.kind == "lone" or (self.kind == "central" and not self.parts):
            raise ValueError("folds of nodes need nodes that learn together, or a central node with parts = true")
        if self.drift or self.hostile or self.personal_model != "none" or self.topology != "mesh":
            raise ValueError("folds of nodes need one common model: no drift, hostile, personal_model or topology")
        if int(self.folds.partition(":")[2]) > self.nodes:
            raise ValueError(f"{self.folds} are more folds than the {self.nodes} nodes")

    @property
    def is_schedule(self) -> bool:
        """Whether models travel by a schedule of experiments, which nodes do not offer."""
        return bool(SCHEDULE.fullmatch(self.topology))

    @property
    def method(self) -> Method:
        """The method around the trainer's own training."""
        controls = parse_rule(self.aggregation).changes_training
        return Method(self.local_training, self.personal_model, self.model_choice, controls)


class Cell(Record):
    """One training.

    Attributes:
        row, column: its place in the table.
    """

    row: str
    column: str
    seed: int = Field(ge=0, le=2**31)
    setup: Setup

    @property
    def key(self) -> str:
        """SHA-256 of everything that decides the numbers, as 64 hex digits.

        Defaults are left out, so that a new field changes no key. So are fields without effect: a lone node
        averages with nobody, and a central node has no part.
        """
        idle = set(_DECIDES_NOTHING)
        if self.setup.kind != "federated":
            idle |= _BETWEEN_NODES
        if self.setup.kind != "central":
            idle.add("parts")
        elif not self.setup.parts:
            idle |= _OF_PARTS
        setup = self.setup.model_dump(mode="json", exclude_defaults=True, exclude=idle)
        numbers = NUMBERS + OF_INCREMENTS * self.setup.personal_model.startswith("increment")
        text = json.dumps({"numbers": numbers, "seed": self.seed, "setup": setup}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class Outcome(Record):
    """The outcome of a cell.

    Figures are named "before.accuracy" or "after.f1_macro": of a node's own model before averaging, or of the
    average, on the node's own test rows. A node that did not train has None. Those named "node." are of the node itself:
    "node.rows", its training rows; "node.unlikeness", how far its shares of the classes are from those of all nodes
    (`flnet.experiments.drift.unlikeness`); and "node.drifts", 1 where its rows change.

    The mean of nodes weighs a node with ten test rows as one with ten thousand. What all rows together give follows from
    counts, which are kept beside the figures, without the binned scores for the area under the ROC curve.

    Attributes:
        rounds: how many rounds were played.
        figures: of the last round, by name, one for each node.
        counts: of the last round, "before" and "after", each node's counts of its test rows; None where it has none.
        curves: by name, for each node one figure for each round.
        right: for those curves that are accuracies, for each node and round how many test rows were right, and of how
            many; None where the node does not count.
        examples: number of rows behind each node's last update.
        bytes: how many bytes the nodes sent to each other.
        models: how many models each node sent in a round, in the mean, starts and other messages left out.
        spread: of the models that the nodes hold at the end: the root of the mean square of their distances from their
            mean, as a part of its norm; 0 where all hold one model.
        seconds: wall-clock time; cells that were trained together share it equally.
        processor_seconds: processor time, shared likewise.
        machine: a description of the machine.
        data: the trainer's description of its data.
        reason: why there are no numbers; empty if there are.
    """

    rounds: int = 0
    figures: Mapping[str, tuple[float | None, ...]] = Field(default_factory=dict)
    counts: Mapping[str, tuple[EvaluationCounts | None, ...]] = Field(default_factory=dict)
    curves: Mapping[str, tuple[tuple[float | None, ...], ...]] = Field(default_factory=dict)
    right: Mapping[str, tuple[tuple[tuple[int, int] | None, ...], ...]] = Field(default_factory=dict)
    examples: tuple[int | None, ...] = ()
    bytes: int = 0
    models: float = 0.0
    spread: float = 0.0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    machine: str = ""
    data: str = ""
    reason: str = ""

    def value(self, figure: str, over: Over = "mean", nodes: Sequence[NodeGroup] = ()) -> float | None:
        """A figure of the last round over the nodes that have it; None if no node has it.

        Args:
            figure: a name of a figure, "bytes", "models", "spread", "rounds", "seconds" or "processor_seconds".
            over: how the nodes' figures are combined; "rows" is the figure on all their test rows together, from their
                summed counts (`over_rows`); "deviation" is their standard deviation (with n - 1), None for
                fewer than two; "others" is the mean of all nodes but the first. Or the number of the node, from 1,
                whose figure it is.
            nodes: only those nodes that are in all of these groups.
        """
        if self.reason:
            return None
        if figure in OF_CELL:
            return float(getattr(self, figure))
        if over == "rows":
            return self.over_rows(figure, nodes)
        figures = self.of_nodes(figure)
        chosen = [figures[node] for node in self.members(nodes, len(figures))]
        if isinstance(over, int):
            chosen, over = chosen[over - 1 : over], "mean"
        values = [value for value in chosen[over == "others" :] if value is not None]
        return float(_OVER[over](values)) if len(values) > (over == "deviation") else None

    def over_rows(self, figure: str, nodes: Sequence[NodeGroup] = ()) -> float | None:
        """A figure of the last round on all test rows of the nodes that have it; None where counts do not give it.

        A node that has the figure and no counts makes it None: a mean of ratios is no substitute.
        """
        figure = self._named(figure)
        when, _, name = figure.partition(".")
        figures, counts = self.of_nodes(figure), self.counts.get(when, ())
        chosen = [node for node in self.members(nodes, len(figures)) if figures[node] is not None]
        known = [of_node for node in chosen if node < len(counts) and (of_node := counts[node]) is not None]
        if not known or len(known) < len(chosen):
            return None
        pooled = PooledCounts()
        for of_node in known:
            pooled.add(of_node)
        return pooled.figures().get(name)

    def why_not_over_rows(self, figure: str) -> str:
        """The reason why there is no such figure over all rows; empty where the nodes have no figure either."""
        known = [value for value in self.of_nodes(figure) if value is not None]
        if not known:
            return ""
        if self._named(figure).partition(".")[0] in self.counts:
            return f"{figure} over all rows: some nodes do not count their rows, or counts do not give it"
        return (
            f"{figure} over all rows: the trainer does not count its rows, or these trainings were done before counts were "
            "kept, and a new folder does them again"
        )

    def of_nodes(self, figure: str) -> Sequence[float | None]:
        """A figure of the last round, of each node; empty if no node has it."""
        return self.figures.get(self._named(figure), ())

    def _named(self, figure: str) -> str:
        """The name under which a figure is kept: without a personal model, the common one answers."""
        return figure if figure in self.figures else figure.replace(".answered_", ".")

    def members(self, groups: Sequence[NodeGroup], count: int) -> list[int]:
        """The places of those of `count` nodes that are in all groups, each a third of the nodes by size or likeness."""
        chosen = set(range(count))
        for group in groups:
            figure, part = _GROUPS[group]
            of_node = self.figures.get(figure, ())
            known = [(value, node) for node, value in enumerate(of_node[:count]) if value is not None]
            if group in {"steady", "drifting"}:
                chosen &= {node for value, node in known if value == part}
            else:
                chosen &= {node for rank, (_, node) in enumerate(sorted(known)) if rank * 3 // len(known) == part}
        return sorted(chosen)

    def course(self, figure: str, nodes: Sequence[NodeGroup] = (), over: Over = "mean") -> Mapping[int, float]:
        """The mean of a figure over the nodes that have it, by the number of rounds done, from 1.

        Rounds in which no node has it are left out. So are those in which a node has it and does not count, if it is to
        be that of all rows ("rows"); whatever else `over` says, it is the mean.
        """
        if over == "rows":
            return self._course_of_rows(figure, nodes)
        curves = self.curves.get(figure, ())
        rounds = zip(*(curves[node] for node in self.members(nodes, len(curves))), strict=True)
        known = {
            done: [value for value in values if value is not None] for done, values in enumerate(rounds, start=1)
        }
        return {done: fmean(values) for done, values in known.items() if values}

    def _course_of_rows(self, figure: str, nodes: Sequence[NodeGroup]) -> Mapping[int, float]:
        curves, right = self.curves.get(figure, ()), self.right.get(figure, ())
        course = {}
        members = self.members(nodes, len(right))
        for done in range(1, self.rounds + 1):
            has = [node for node in members if curves[node][done - 1] is not None]
            known = [of_node for node in has if (of_node := right[node][done - 1]) is not None]
            rows = sum(examples for _, examples in known)
            if rows and len(known) == len(has):
                course[done] = sum(count for count, _ in known) / rows
        return course


def in_all(courses: Sequence[Mapping[int, float]]) -> Mapping[int, Sequence[float]]:
    """The values of all courses, in the rounds that all of them have."""
    rounds = sorted(set.intersection(*map(set, courses))) if courses else []
    return {number: [course[number] for course in courses] for number in rounds}


class Engine(Protocol):
    """Runs cells. All engines give equal numbers for equal cells, in any order."""

    def run(self, cells: Sequence[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Yield each cell with its outcome as soon as it is known; the outcome of a failed cell has a reason.

        Closing the iterator early ends everything that is in progress.
        """
        ...


def batches(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Group the cells that are trained together, in the order of the cells.

    Batches follow from the cells alone and not from the engine, and with them the order of summation, so that
    all engines give equal numbers.
    """
    alike: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.setup.model_dump_json(), cell.seed // cell.setup.together), []).append(cell)
    return [tuple(batch) for batch in alike.values()]


FILE = "cells.jsonl"


class CellResult(Record):
    """A cell and its outcome."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    cell: Cell
    outcome: Outcome


class Results:
    """The outcomes of finished cells."""

    def __init__(self, folder: Path) -> None:
        """Read the results of earlier runs in this folder, which is created if it does not exist.

        Raises:
            LocalError: it cannot be created or read.
        """
        self.path = folder / FILE
        self._outcomes: dict[str, Outcome] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self.path.read_text("utf-8", "replace") if self.path.exists() else ""
        except OSError as exc:
            raise LocalError(f"results cannot be kept in {folder}: {exc}") from exc
        self._is_torn = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            if (result := _read(line)) is not None:
                self._outcomes[result.key] = result.outcome

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, cell: Cell) -> Outcome | None:
        """The outcome of a cell; None if it was never run."""
        return self._outcomes.get(cell.key)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that have no numbers yet, each key once."""
        todo: dict[str, Cell] = {}
        for cell in cells:
            outcome = self.get(cell)
            if outcome is None or outcome.reason:
                todo.setdefault(cell.key, cell)
        return list(todo.values())

    def add(self, done: Sequence[tuple[Cell, Outcome]]) -> None:
        """Write the outcomes of these cells to the disk.

        Raises:
            LocalError: the disk is full or gone.
        """
        results = [CellResult(key=cell.key, cell=cell, outcome=outcome) for cell, outcome in done]
        lines = "".join(json.dumps(result.model_dump(mode="json")) + "\n" for result in results)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" + lines if self._is_torn else lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise LocalError(f"results cannot be written to {self.path}: {exc}") from exc
        self._is_torn = False
        self._outcomes |= {result.key: result.outcome for result in results}


def _read(line: str) -> CellResult | None:
    """The result in a line; None if the line is torn, or the key of its cell has changed."""
    try:
        result = CellResult.model_validate_json(line)
    except ValidationError:
        return None
    return result if result.key == result.cell.key else None
