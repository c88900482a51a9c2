"""The view of a job: the core creates it, the API returns and documents it, peers receive it, and pages show it.

Each part of a job gives its figures (`view` of the part); one more figure needs a field here and a line there.
What peers say of their jobs is read with the same model, by `JobView.claimed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from flnet.protocol.counts import Basis, DecidingRows
from flnet.protocol.messages import Agreement, HexDigest, HyperParams, RuleStatement, Unit
from flnet.rounds.steps import Phase
from flnet.text import Words, one_line

MAX_WORDS = 500  # characters of a text that a peer claims
MAX_ENTRIES = 256  # of a list or mapping that it claims
MAX_DEPTH = 5  # of lists and mappings within each other
MAX_NUMBER = 10**15
NAMES_FOR_PEERS = 50  # of columns of a holder in GET /info, whose size peers limit
_NOT_FOR_PEERS: Mapping[str, bool | set[str]] = {
    **dict.fromkeys(("finds", "inputs", "note", "counts", "checksum", "parts", "counts_little", "differs"), True),
    **dict.fromkeys(("asks_too_much", "rule_proposals"), True),
    "vertical": {"own", "gain", "warnings", "sent", "received"},
}

_AGREEMENT = TypeAdapter[Mapping[str, str] | None](Agreement | None)

Figures = dict[str, float]
RuleView = Annotated[str, Field(description="aggregation rule, in the notation of FLNET_AGGREGATION")]


class View(BaseModel):
    """Base of all views; it does not accept unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ProgressView(View):
    """How far a local training is, in batches."""

    done: int
    total: int


class MetricsView(View):
    """Further metrics of the trainer, before and after averaging."""

    before: Figures = {}
    after: Figures = {}


def _open(schema: dict[str, Any]) -> None:
    """Further metrics of a trainer are not part of the API description."""
    schema.pop("additionalProperties", None)


class WorstNodeView(View):
    """The node with the lowest accuracy among those that have test rows."""

    node: str
    accuracy: Unit


class GroupView(View):
    """What a round reached on all test rows of a group."""

    accuracy: Unit
    examples: int
    nodes: int = Field(description="number of nodes that have rows of the group")


class MeshFiguresView(View):
    """What a round reached on the test rows of all nodes that told it; each node's statement is its word."""

    accuracy: Unit = Field(description="of all these nodes together")
    basis: Basis = Field(
        description='"counts": the share of right rows among all test rows; "examples": the mean, weighted by test rows of '
        'the nodes; "nodes": the plain mean, because a node does not tell how many rows it has'
    )
    examples: int | None = Field(description="number of test rows; null if a node does not tell its own")
    nodes: int
    figures: Figures = Field(
        default={}, description="further figures of all test rows together, where all nodes count them"
    )
    worst: WorstNodeView | None = Field(default=None, description="null where no node has test rows")
    spread: float | None = Field(
        default=None, description="standard deviation of the accuracies over the nodes that have test rows"
    )
    jain: float | None = Field(
        default=None,
        description="Jain's index of these accuracies: 1 where all are equal, 1/n where one node has all",
    )
    groups: dict[str, GroupView] = Field(default={}, description="by name, where nodes declare groups of rows")


class NodeAccuracyView(View):
    """What a node states of its average on its own test rows."""

    accuracy: Unit
    examples: int | None


class RoundMeshView(MeshFiguresView):
    """The same in the record of a round, with each node's own figures beside the mesh's."""

    by_node: dict[str, NodeAccuracyView] = {}
    labels: dict[str, list[float | None]] = Field(
        default={},
        description="precision, recall, f1 and auc of each label, in the order of the trainer's classes; where all nodes "
        "count the same labels",
    )


class DataView(BaseModel):
    """A trainer's data and their source."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, json_schema_extra=_open)

    source: Words = ""
    rows: dict[str, int] = {}
    classes: list[str] = []
    sample: bool = Field(default=False, description="whether these are generated sample data")
    note: Words = ""
    common_test: str = Field(
        default="",
        description="beginning of a checksum of the rows of the common test; empty if there is none",
    )


class GoalView(View):
    """A series of rounds that goes on until a goal is reached, as this node sees it."""

    until: str = Field(description="goal of the series")
    by: str = Field(description="node at which the series was started")
    first_round: int
    rounds: int = Field(description="maximum number of rounds")
    round: int = Field(description="newest round of the series, or the last one if it is over")
    done: int = Field(description="number of rounds that are over and that nodes reported on")
    state: Literal["open", "reached", "given_up"]
    accuracy: Unit | None = Field(description="accuracy of the nodes that reported in the newest closed round")
    basis: Basis | None = Field(
        default=None, description="by what they count in it, as in `mesh`; null before the first round"
    )
    rows: DecidingRows | None = Field(
        default=None,
        description="rows that these accuracies are of; mixed where some nodes have no validation rows",
    )
    nodes: int = Field(description="number of these nodes")
    best: Unit | None = Field(description="best accuracy of the nodes so far")
    stale: int = Field(description="number of rounds since the best mean")
    words: Words = Field(description="why the series goes on, or how it ended")


class ScheduleView(View):
    """The schedule by which this node starts rounds automatically."""

    when: str = Field(description="schedule in the notation of FLNET_TRAIN_WHEN")
    by_person: bool = Field(description="whether a person gave the job this schedule")
    next_seconds: int | None = Field(description="seconds until the next start, if it is known")
    next_words: Words = Field(description="reason of the next start; empty if there is none")
    new_examples: int = Field(description="number of rows added since this node trained last")
    unwilling: Words = Field(
        description="why the node takes no part in rounds of other nodes now; empty if it does"
    )


class PeerVersionView(View):
    """A peer's versions in an asynchronous mesh, as far as this node knows them."""

    peer: str
    version: int | None = Field(description="newest version that the peer stated")
    merged: int | None = Field(description="newest version that this node merged")
    into: int | None = Field(description="version of this node that resulted from the merge")
    at: float | None = Field(description="time of that merge, in seconds since 1970 by this node's clock")
    newer: bool = Field(description="whether the newest version is not merged yet")
    reachable: bool


class VersionsView(View):
    """Versions of the model in an asynchronous mesh."""

    own: int = Field(description="number of this node's newest version; 0 before the first training")
    peers: list[PeerVersionView]


class HolderView(View):
    """A node that holds columns in a vertical job."""

    peer: str
    columns: int = Field(description="number of its feature columns")
    names: list[str] = Field(description="names of columns, as far as its owner shares them")
    has_label: bool = Field(description="whether it holds the label")
    holds_key: bool = Field(default=False, description="whether it holds the key of an encrypted regression")
    rows: int = Field(description="number of its rows")
    defences: list[Words] = Field(default=[], description="how it protects what it sends, as it states it")


class OwnFiguresView(View):
    """Figures on the hold-out rows of a vertical job, or differences of such figures."""

    accuracy: float | None = None
    auc: float | None = Field(default=None, description="null where it is not defined, or was not measured")
    loss: float | None = None


class VerticalView(View):
    """The state of a job whose nodes hold different columns of the same rows."""

    method: Literal["", "split-network", "encrypted-regression"] = Field(
        default="", description="how the nodes train; empty until this node's trainer is loaded"
    )
    holders: list[HolderView] = Field(description="nodes that take part, with what each holds")
    hides_matches: bool = Field(
        default=False,
        description="whether only the node with the key of an encrypted regression knows which rows match",
    )
    common: int | None = Field(
        description="number of rows that all holders have; where only the key holder learns which rows match, number of "
        "positions at which rows stand; null before they are aligned"
    )
    epochs: int = Field(description="number of epochs that the models were trained")
    stage: Literal["", "asking", "aligning", "training", "closing"] = Field(
        description="stage of the open epoch; empty between epochs"
    )
    step: int = Field(description="number of batches that are done in the open epoch")
    steps: int = Field(description="number of its batches; 0 if it is not known")
    loss: float | None = Field(
        description="loss of the newest epoch that has ended, on hold-out rows if it is told"
    )
    accuracy: Unit | None = Field(default=None, description="accuracy of that epoch on hold-out rows")
    auc: Unit | None = Field(default=None, description="AUC of that epoch on hold-out rows, where it is defined")
    own: OwnFiguresView | None = Field(
        default=None,
        description="figures of a model of this node's own columns alone, after as many epochs on the same rows; null "
        "where this node does not hold both features and the label, or nothing was measured; not in GET /info",
    )
    predicts: bool = Field(default=False, description="whether this node offers predictions by id")
    predictions_refused: Words = Field(default="", description="why it offers none; empty where it does")
    gain: OwnFiguresView | None = Field(
        default=None,
        description="figures of the joint model minus those of the own columns alone; null likewise; not in GET /info",
    )
    warnings: list[Words] = Field(
        default=[], description="what a person should know before using the model; not in GET /info"
    )
    sent: int = Field(
        default=0,
        description="bytes of the messages of this job that were delivered since the node was started; not in "
        "GET /info",
    )
    received: int = Field(default=0, description="bytes of its messages that arrived since then; not in GET /info")
    keeps_score: bool = Field(
        default=False, description="whether this node tells no other node how good the model is"
    )


class RuleProposalView(View):
    """An aggregation rule that a node proposes to the mesh."""

    by: str = Field(description="the node that proposes it")
    rule: RuleView
    mark: str = Field(description="by which the proposal is taken or declined")
    state: Literal["open", "taken", "ready"] = Field(
        description="open: not taken here; taken: waits for others; ready: all nodes have taken it"
    )
    not_taken: list[str] = Field(description="nodes that have not taken it yet, as far as this one has heard")
    declined_by: list[str] = Field(description="nodes whose people declined it")


class PrivacyView(View):
    """What this node promises of its updates, and what they have spent of it."""

    level: Literal["node", "rows"] = Field(
        description="whether all rows of the node are hidden together, or each row"
    )
    epsilon: float = Field(description="epsilon of the promise")
    delta: float = Field(description="delta of the promise")
    clip: float = Field(description="L2 norm to which updates, or gradients of rows, are shortened")
    budget: str = Field(description="name of the budget")
    spent: float | None = Field(
        description="epsilon of all updates counted in this budget; null if one left without the noise that was promised"
    )
    updates: int = Field(description="number of updates counted in this budget")
    noise_multiplier: float | None = Field(
        description="standard deviation of the noise of the next update, as a multiple of the clip; null if not known yet"
    )
    rounds_left: int | None = Field(
        description="how many more updates with this noise the budget allows; null if not known yet"
    )
    words: Words = Field(description="all this in a sentence")
    covers: Words = Field(description="what the promise covers, and what it does not")


class SecureView(View):
    """How updates are masked, so that only their sum can be opened, and the newest sum."""

    part_away: float = Field(description="part of the nodes of a sum that may vanish")
    bits: Literal[32, 64] = Field(description="bits of each number of a masked update")
    round: int | None = Field(description="newest round whose sum was opened here; null before the first")
    members: int = Field(
        description="number of nodes that held shares for that sum; before the first, of all nodes that are here"
    )
    threshold: int = Field(description="how many of them are needed to open a sum")
    contributors: int | None = Field(description="number of updates in that sum; null before the first")
    words: Words = Field(description="all this in a sentence")


class LittleView(View):
    """A node whose updates have a low weight in the averages of this node."""

    peer: str
    since: int = Field(description="first round since which the weight has been low")
    weight: float | None = Field(description="weight in the newest average that included it, in [0, 1]")
    fair: float | None = Field(description="share of its examples in that average, at most an equal share")
    reason: Words = Field(description="why its newest update was left out; empty if it counted")


class DiffersView(View):
    """A node with which this one cannot train."""

    peer: str
    words: Words = Field(description="what differs, from the side of this node")


class JobView(View):
    """The job of one trainer on this node. Accuracies are measured on its own test split, in [0, 1]."""

    trainer_id: str
    trainer_label: str
    phase: Phase
    current_round: int = Field(description="the newest round entered; -1 before the first")
    fed_learn_done: Literal["Yes", "No"]
    federated_learning_params: str
    hyper: HyperParams | None = Field(description="hyper-parameters of the rounds that start at this node")
    asks_too_much: Words = Field(
        default="",
        description="why a node with the limits of this one does not train in rounds that start here; empty if it "
        "does; not in GET /info",
    )
    round_hyper: HyperParams | None = Field(
        default=None,
        description="hyper-parameters of the newest round; null before the first, and where this node did not train "
        "by them",
    )
    used_hyper: HyperParams | None = Field(description="hyper-parameters that this node used in the last round")
    figures_round: int | None = Field(
        default=None,
        description="round of the accuracies and metrics below: the round before, until the newest one has some",
    )
    pre_fedavg_accuracy: Unit | None
    post_fedavg_accuracy: Unit | None
    metrics: MetricsView
    spread: float | None = Field(
        default=None,
        description="the distance of neighbours: mean distance of their updates from this node's one in that round, before "
        "averaging, as a part of its norm; null where all nodes make one average (docs/topology.md)",
    )
    mesh: MeshFiguresView | None = Field(
        default=None,
        description="figures of that round on the test rows of all nodes; null where no other node told its own",
    )
    model_was_exchanged: Literal["Yes", "No"]
    exchanged_with: str | None
    digest: HexDigest | None = Field(description="of the current model")
    schema_digest: HexDigest | None
    model_round: int
    contributors: int
    initiator: str | None
    rounds_left: int
    goal: GoalView | None = Field(
        default=None, description="goal of the current series of rounds, or of the last one"
    )
    schedule: ScheduleView | None = None
    paused: bool
    versions: VersionsView | None = Field(
        default=None, description="only in an asynchronous mesh; null with common rounds"
    )
    vertical: VerticalView | None = Field(
        default=None, description="only where nodes hold different columns of the same rows; null otherwise"
    )
    sits_out: Words = Field(
        default="", description="why this node does not train in the open round; empty if it does"
    )
    chosen: list[str] | None = Field(
        default=None,
        description="nodes that train in the newest round, or this node and its neighbours in it; null for all",
    )
    rolled_back: bool = Field(default=False, description="whether a person restored the current model")
    merging_rule: RuleView = ""
    rule_proposals: list[RuleProposalView] = Field(
        default=[], description="aggregation rules that are proposed to the mesh; not in GET /info"
    )
    next_rule: str = Field(
        default="",
        description="aggregation rule from the next round on; empty if it is that of the newest round",
    )
    rule_statement: RuleStatement | None = Field(
        default=None,
        description="how far this node is with a proposed aggregation rule, for other nodes; null if none was proposed",
    )
    topology: str = Field(
        default="mesh", description="how updates travel, as FLNET_TOPOLOGY has it (docs/topology.md)"
    )
    rule_needs: int = Field(
        default=1,
        description="updates that the aggregation rule needs; of fewer the coordinate-wise median is taken",
    )
    agreement: Agreement | None = Field(
        default=None,
        description="what must be equal on all nodes that train together; null before data are loaded",
    )
    differs: list[DiffersView] = Field(
        default=[], description="reachable nodes with which this one cannot train; not in GET /info"
    )
    privacy: PrivacyView | None = Field(
        default=None,
        description="what this node promises of its updates, and what was spent; null without FLNET_PRIVACY",
    )
    secure: SecureView | None = Field(
        default=None,
        description="how updates are masked, and the newest sum; null where FLNET_AGGREGATION names no secure sum",
    )
    counts_little: list[LittleView] = Field(
        default=[], description="nodes whose updates have a low weight; not in GET /info"
    )
    waiting_for: list[str]
    received: list[str]
    late: list[str] = Field(
        default=[], description="nodes that are still training; their updates count in a later round"
    )
    progress: ProgressView | None = None
    outcome: Words
    error: Words | None
    data: DataView
    formats: list[str] = Field(description="formats to which models can be exported")
    inputs: dict[str, Any] | None = Field(default=None, description="inputs of predictions; not in GET /info")
    finds: Literal["", "labels", "groups"] = Field(
        default="", description="diagnostics that the trainer offers; not in GET /info"
    )
    note: Words = Field(default="", description="the trainer's note on its predictions; not in GET /info")
    counts: dict[str, list[int]] = Field(default={}, description="rows of each class by split; not in GET /info")
    checksum: str = Field(default="", description="checksum of this node's data; not in GET /info")
    parts: list[list[int]] = Field(default=[], description="rows of each class in every shard; not in GET /info")

    @property
    def label(self) -> str:
        """The name of the trainer for people."""
        return self.trainer_label or self.trainer_id or "?"

    @property
    def measures_leaks(self) -> bool:
        """Whether it may be measured what a model gives away of the rows: it predicts, and the rows have classes."""
        return bool(self.inputs and self.counts)

    @property
    def has_data(self) -> bool:
        """Whether the trainer has loaded its data."""
        return self.phase not in (Phase.LOADING, Phase.NO_DATA)

    @property
    def is_busy(self) -> bool:
        """Whether data are loaded or a round is open."""
        return self.phase not in (Phase.IDLE, Phase.NO_DATA)

    @property
    def older_round(self) -> int | None:
        """The round of the accuracies and metrics, if the newest round has none yet."""
        return None if self.figures_round in (None, self.current_round) else self.figures_round

    @property
    def missing_updates(self) -> list[str]:
        """Peers whose updates are waited for; while models are compared, none of them is an update any more."""
        return [] if self.phase is Phase.EXCHANGING else self.waiting_for

    def as_json(self) -> Mapping[str, Any]:
        """The fields as JSON-ready data, without unknown ones."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def for_peers(self) -> Mapping[str, Any]:
        """The fields as JSON-ready data for peers, without long ones and those about single classes of the data.

        Without scores, too, where this node tells them to nobody; and with NAMES_FOR_PEERS columns of each holder.
        """
        view = self
        if self.vertical is not None:
            holders = [
                holder.model_copy(update={"names": holder.names[:NAMES_FOR_PEERS]})
                for holder in self.vertical.holders
            ]
            told = self.vertical.model_copy(update={"holders": holders})
            view = self.model_copy(update={"vertical": told})
            if self.vertical.keeps_score:
                told = told.model_copy(update=dict.fromkeys(("loss", "accuracy", "auc", "own", "gain")))
                none = {"pre_fedavg_accuracy": None, "post_fedavg_accuracy": None, "metrics": MetricsView()}
                view = self.model_copy(update={**none, "vertical": told})
        return view.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_NOT_FOR_PEERS)

    @classmethod
    def claimed(cls, claim: object) -> JobView:
        """Parse a peer's view of one of its jobs, which may contain anything.

        A field that is missing or breaks its rule has the value of a job that did nothing yet, and is not in
        `model_fields_set`. Texts are cut to one line of MAX_WORDS characters, lists to MAX_ENTRIES entries.
        """
        stated = _bounded(claim)
        if type(stated) is dict and type(claim) is dict and "agreement" in claim:
            stated.pop("agreement", None)
            with suppress(ValidationError):  # it has bounds of its own
                stated["agreement"] = _AGREEMENT.validate_python(claim["agreement"], strict=True)
        known = {name: stated[name] for name in cls.model_fields if name in stated} if type(stated) is dict else {}
        try:
            job = cls._read(known)
        except ValidationError as exc:
            wrong = {error["loc"][0] for error in exc.errors(include_url=False, include_input=False)}
            known = {name: value for name, value in known.items() if name not in wrong}
            job = cls._read(known)
        return cls.model_construct(_fields_set=set(known), **dict(job))

    @classmethod
    def _read(cls, known: Mapping[str, Any]) -> JobView:
        return cls.model_validate_json(json.dumps({**_NOTHING_DONE, **known}), strict=True)


_NOTHING_DONE: Mapping[str, Any] = {
    **dict.fromkeys(("trainer_id", "trainer_label", "federated_learning_params", "outcome"), ""),
    **dict.fromkeys(("fed_learn_done", "model_was_exchanged"), "No"),
    **dict.fromkeys(("hyper", "used_hyper", "pre_fedavg_accuracy", "post_fedavg_accuracy", "exchanged_with")),
    **dict.fromkeys(("digest", "schema_digest", "initiator", "error", "inputs")),
    **dict.fromkeys(("current_round", "model_round"), -1),
    **dict.fromkeys(("contributors", "rounds_left"), 0),
    **{
        "phase": "IDLE",
        "metrics": {},
        "data": {},
        "paused": False,
        "waiting_for": [],
        "received": [],
        "formats": [],
    },
}


def _bounded(value: object, depth: int = 0) -> Any:
    """JSON data without texts, lists and numbers beyond the bounds; null in place of what cannot be kept."""
    if isinstance(value, str):
        return one_line(value, MAX_WORDS)
    if isinstance(value, int | float):
        return value if -MAX_NUMBER < value < MAX_NUMBER else None
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_bounded(entry, depth + 1) for entry in value[:MAX_ENTRIES]]
    if isinstance(value, dict):
        pairs = list(value.items())[:MAX_ENTRIES]
        return {one_line(str(name), MAX_WORDS): _bounded(entry, depth + 1) for name, entry in pairs}
    return None
