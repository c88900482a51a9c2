"""What experiments are made of: cells, what came of them, and the engines that run them.

A cell is one training of one table: a setup and a seed. Equal setups with equal seeds give equal numbers, so a
cell is known by the digest of both, wherever it stands in which table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from flnet.errors import InvalidMessage
from flnet.experiments.attacks import check_attack
from flnet.labels import read_fields
from flnet.policies import Goal
from flnet.refusals import LabelsRefused
from flnet.setting_types import (
    check_local_training,
    check_merging_rule,
    check_partition,
    check_personal_model,
)
from flnet.training.method import Choice, Method
from flnet.training.partition import Partition

NUMBERS = 3  # counts up when a change of flnet changes what equal setups and seeds give
Kind = Literal["federated", "lone", "central"]
Over = Literal["mean", "min", "max"]
_OVER: Mapping[Over, Callable[[Sequence[float]], float]] = {"mean": fmean, "min": min, "max": max}
_DECIDES_NOTHING = frozenset({"needs", "together"})
_BETWEEN_NODES = frozenset(
    {"aggregation", "hostile", "attack", "participation", "min_participants", "exchange", "max_update_norm"}
)
_OF_PARTS = frozenset({"nodes", "partition"})


def _dealt(text: str) -> str:
    """A partition, all of it: also that its number is in range. As it was written, for keys are of texts."""
    Partition.parse(check_partition(text))
    return text


def _aimed(text: str) -> str:
    """A goal for rounds."""
    try:
        Goal.parse(text)
    except InvalidMessage as exc:
        raise ValueError(exc.message) from exc
    return text


def _labelled(lines: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lines of FLNET_LABELS; none where all nodes label alike."""
    try:
        if lines:
            read_fields(lines)
    except LabelsRefused as exc:
        raise ValueError(exc.message) from exc
    return lines


class Record(BaseModel):
    """Something that is frozen, has no unknown fields and is JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Setup(Record):
    """All that decides a cell's numbers but the seed.

    Attributes:
        trainer: its id; the trainers are those that a node would find.
        kind: how the nodes learn: "federated" as one mesh; "lone" each from its own part, knowing nobody;
            "central": one node that has all rows.
        nodes: how many; of a central setup the parts that the others have.
        partition: how rows are dealt to the nodes, as FLNET_DATA_PARTITION has it.
        aggregation: the merging rule, as FLNET_AGGREGATION has it.
        participation: part of the nodes that train in a round.
        min_participants: nodes that train at least.
        exchange: whether a node adopts a peer's model that is better on its own test rows.
        max_update_norm: as the setting of this name.
        local_training: "proximal:0.01" for FedProx, as FLNET_LOCAL_TRAINING has it.
        personal_model: each node's own, as FLNET_PERSONAL_MODEL has it. Its figures are named "after.local_...",
            and "after.chosen_..." where an autoencoder chooses between it and the common one.
        model_choice: which model answers, as FLNET_MODEL_CHOICE has it.
        hostile: how many of the nodes, the last ones, attack; below 1 the part of all. Figures leave them out.
        attack: how, as in `flnet.experiments.attacks`.
        rounds: at most, where there is a goal.
        until: a goal that ends them earlier, as `flnet train --until` has it.
        epochs, rate, batch: of each local training; what the trainer says where they are absent.
        options_file: what a trainer reads from a TOML file in the folder of its data: the file's name,
        options: and its lines.
        labels: how the rows of all nodes but the first `fine` ones are labelled, in the lines of FLNET_LABELS; of
            those the same with the desired space as their own, where it says `rows` with so many labels.
        fine: how many nodes have labels of the desired space.
        needs: files or folders below FLNET_DATASETS_PATH of which one must be there.
        curves: figures that are kept of every round; of the last round all are.
        together: how many seeds may be trained at once, as one batched computation.
    """

    trainer: str = Field(pattern=r"^[A-Za-z0-9_]{1,64}$")
    kind: Kind = "federated"
    nodes: int = Field(default=10, ge=1, le=250)
    partition: Annotated[str, AfterValidator(_dealt)] = "iid"
    aggregation: Annotated[str, AfterValidator(check_merging_rule)] = "agg1"
    participation: float = Field(default=1, gt=0, le=1)
    min_participants: int = Field(default=1, ge=1, le=257)
    exchange: bool = False
    max_update_norm: float = Field(default=100, ge=0)
    local_training: Annotated[str, AfterValidator(check_local_training)] = "plain"
    personal_model: Annotated[str, AfterValidator(check_personal_model)] = "none"
    model_choice: Choice = "by-input"
    hostile: float = Field(default=0, ge=0, le=250)
    attack: Annotated[str, AfterValidator(check_attack)] = ""
    rounds: int = Field(default=10, ge=1, le=100_000)
    until: Annotated[str, AfterValidator(_aimed)] | None = None
    epochs: int | None = Field(default=None, ge=1, le=10_000)
    rate: float | None = Field(default=None, gt=0, le=1_000)
    batch: int | None = Field(default=None, ge=1, le=1_000_000)
    options_file: str = Field(default="", pattern=r"^([A-Za-z0-9_-]{1,64}\.toml)?$")
    options: Mapping[str, Any] = Field(default_factory=dict)
    labels: Annotated[Mapping[str, Any], AfterValidator(_labelled)] = Field(default_factory=dict)
    fine: int = Field(default=1, ge=0, le=250)
    needs: tuple[str, ...] = ()
    curves: tuple[str, ...] = ("after.accuracy",)
    together: int = Field(default=1, ge=1, le=1000)

    @property
    def method(self) -> Method:
        """What is done around each trainer's own training."""
        controls = self.aggregation.rpartition(",")[2].startswith("scaffold")
        return Method(self.local_training, self.personal_model, self.model_choice, controls)


class Cell(Record):
    """One training.

    Attributes:
        row, column: where in its table its numbers stand.
    """

    row: str
    column: str
    seed: int = Field(ge=0, le=2**31)
    setup: Setup

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the numbers, as 64 hex digits.

        What a setup does not say is left out, so that a field which comes later changes no key; and so is what
        decides nothing: a node that knows nobody averages with nobody, and a central one has no part.
        """
        idle = set(_DECIDES_NOTHING)
        if self.setup.kind != "federated":
            idle |= _BETWEEN_NODES
        if self.setup.kind == "central":
            idle |= _OF_PARTS
        said = self.setup.model_dump(mode="json", exclude_defaults=True, exclude=idle)
        text = json.dumps({"numbers": NUMBERS, "seed": self.seed, "setup": said}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class Outcome(Record):
    """What came of a cell.

    Figures are named "before.accuracy" or "after.f1_macro": of a node's own model before averaging, or of the
    average, measured on the node's own test rows. `None` stands where a node did not train.

    Attributes:
        rounds: that were done.
        figures: of the last round, by name, one for each node.
        curves: likewise one for each round of each node.
        examples: rows behind each node's last update.
        bytes: that the nodes sent each other.
        seconds: of this machine's clock, of cells that were trained together their share.
        processor_seconds: likewise, but those in which a processor worked for it: others' work is not in them.
        machine: that computed it, in words.
        data: where the rows are from, in the trainer's words.
        reason: why there are no numbers; empty if there are.
    """

    rounds: int = 0
    figures: Mapping[str, tuple[float | None, ...]] = Field(default_factory=dict)
    curves: Mapping[str, tuple[tuple[float | None, ...], ...]] = Field(default_factory=dict)
    examples: tuple[int | None, ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    machine: str = ""
    data: str = ""
    reason: str = ""

    def value(self, figure: str, over: Over = "mean") -> float | None:
        """A figure of the last round over the nodes that have it; None if no node has.

        Args:
            figure: "after.accuracy"; also "bytes", "rounds", "seconds" and "processor_seconds".
            over: what is made of the nodes' figures.
        """
        if self.reason:
            return None
        if figure in {"bytes", "rounds", "seconds", "processor_seconds"}:
            return float(getattr(self, figure))
        common = figure.replace(".answered_", ".")  # where there is one model, it is the one that answers
        found = [number for number in self.figures.get(figure, self.figures.get(common, ())) if number is not None]
        return float(_OVER[over](found)) if found else None

    def course(self, figure: str) -> list[float]:
        """Round by round the mean of a figure over the nodes that have it; a round that nobody has is left out."""
        rounds = zip(*self.curves.get(figure, ()), strict=True)
        return [fmean(here) for each in rounds if (here := [number for number in each if number is not None])]


class Engine(Protocol):
    """Runs cells. Two engines give equal numbers for equal cells, in an order of their own."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        """Each cell with what came of it, as soon as that is known; a cell that fails has the reason in it.

        Whoever leaves the iterator early ends all that is under way.
        """
        ...


def batches(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """The cells that are trained together, in the order in which they came.

    What is in a batch follows from the cells alone and not from the engine: so is the order in which numbers are
    summed, and engines give equal ones.
    """
    alike: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.setup.model_dump_json(), cell.seed // cell.setup.together), []).append(cell)
    return [tuple(some) for some in alike.values()]
