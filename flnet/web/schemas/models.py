"""The forms of a node's answers to people, for the description of its endpoints; tests hold answers to them.

The node makes these views itself (`flnet.node.base.Node`) and nothing is checked against them while it runs.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from flnet.jobs import Phase
from flnet.messages import HexDigest, HyperParams, Peer, StateWord, Unit
from flnet.web.schemas.versions import VersionsView
from flnet.web.schemas.weights import LittleView, RuleView, WeighedView

Figures = dict[str, float]


class View(BaseModel):
    """What all views share: every field that there is is known here."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ErrorView(BaseModel):
    """Every error has this form."""

    error: str = Field(description="a code that does not change")
    message: str = Field(description="what was expected and what came, in words")


class PeerView(View):
    """Another node, as this one knows it."""

    id: str
    ip: str | None
    port: str
    address: str
    state: StateWord
    reason: str = Field(description="why it is not held for alive, in words")
    incarnation: int = Field(description="how often it was shown that it is there after all")
    fingerprint: str = Field(default="", description="of its key, the short form; empty if it has none")
    key: str = Field(default="", description="its public key; empty if it has none")
    disputed: bool = Field(default=False, description="whether another node claims its name, and is refused")
    rtt_ms: float | None = Field(default=None, description="of small requests to it, smoothed; milliseconds")


class ProgressView(View):
    """How far a local training is, in batches."""

    done: int
    total: int


class MetricsView(View):
    """Further figures of the trainer, before and after averaging."""

    before: Figures = {}
    after: Figures = {}


class DataView(BaseModel):
    """What was found where."""

    source: str = ""
    rows: dict[str, int] = {}
    classes: list[str] = []
    sample: bool = Field(default=False, description="whether these are generated sample data")
    note: str = ""


class GoalView(View):
    """A series of rounds that goes on until a goal is reached, as this node sees it."""

    until: str = Field(description="the goal")
    by: str = Field(description="the node that was asked for it")
    first_round: int
    rounds: int = Field(description="how many there are at most")
    round: int = Field(description="the newest one, or the one that it ended with")
    done: int = Field(description="rounds that are over and of which nodes reported")
    state: Literal["open", "reached", "given_up"]
    accuracy: Unit | None = Field(description="mean of the nodes that reported in the newest round that is over")
    nodes: int = Field(description="that reported in it")
    best: Unit | None = Field(description="the best mean so far")
    stale: int = Field(description="rounds since then")
    words: str = Field(description="why it goes on, or how it ended")


class ScheduleView(View):
    """When rounds start by themselves on this node."""

    when: str = Field(description="as FLNET_TRAIN_WHEN is written")
    by_person: bool = Field(description="whether a person gave the job this schedule")
    next_seconds: int | None = Field(description="until the next start, where that can be told")
    next_words: str = Field(description="why it will be; empty if none is to come")
    new_examples: int = Field(description="rows that have come since this node trained last")
    unwilling: str = Field(description="why it takes no part in rounds of others now; empty if it does")


class DecisionView(View):
    """What this node made of a round of a series with a goal."""

    over: Literal["reached", "given_up"] | None
    words: str
    accuracy: Unit | None
    loss: float | None
    nodes: int = Field(description="that reported")
    best: Unit | None


class JobView(View):
    """One trainer on this node; accuracies are on its own test split, in [0, 1]."""

    trainer_id: str
    trainer_label: str
    phase: Phase
    current_round: int = Field(description="the newest round entered; -1 before the first")
    fed_learn_done: Literal["Yes", "No"]
    federated_learning_params: str
    hyper: HyperParams | None
    used_hyper: HyperParams | None = Field(description="what this node trained with in the last round")
    pre_fedavg_accuracy: Unit | None
    post_fedavg_accuracy: Unit | None
    metrics: MetricsView
    model_was_exchanged: Literal["Yes", "No"]
    exchanged_with: str | None
    digest: HexDigest | None = Field(description="of the model held")
    schema_digest: HexDigest | None
    model_round: int
    contributors: int
    initiator: str | None
    rounds_left: int
    goal: GoalView | None = Field(default=None, description="of the series under way, or of the last one")
    schedule: ScheduleView | None = None
    paused: bool
    versions: VersionsView | None = Field(default=None, description="null where rounds are common to all nodes")
    sits_out: str = Field(default="", description="why it does not train in the open round; empty if it does")
    chosen: list[str] | None = Field(default=None, description="who trains in the newest round; null for all")
    rolled_back: bool = Field(default=False, description="whether a person went back to the model held")
    merging_rule: RuleView = ""
    counts_little: list[LittleView] = Field(default=[], description="by their updates; not in GET /info")
    waiting_for: list[str]
    received: list[str]
    progress: ProgressView | None = None
    outcome: str
    error: str | None
    data: DataView
    formats: list[str] = Field(description="to which its models can be exported")
    inputs: dict[str, Any] | None = Field(default=None, description="what predictions take; not in GET /info")
    finds: Literal["", "labels", "groups"] = Field(
        default="", description="what can be seen of its models on the own rows; not in GET /info"
    )
    note: str = Field(default="", description="of the trainer, on its predictions; not in GET /info")
    counts: dict[str, list[int]] = Field(default={}, description="rows of each class by split; not in GET /info")
    checksum: str = Field(default="", description="of the own data; not in GET /info")
    parts: list[list[int]] = Field(default=[], description="rows of each class in every part; not in GET /info")


class InfoView(View):
    """This node, its jobs and its peers."""

    iAm: Peer  # as it stands on the wire
    fingerprint: str = Field(default="", description="of this node's key, the short form")
    key: str = Field(default="", description="the public key by which this node is known")
    mode: Literal["open", "keyed", "pinned"] = Field(
        default="open", description="how the nodes of the mesh know each other"
    )
    jobsInfo: list[JobView]
    lastNodeStatus: Literal["IDLE", "BUSY"]
    peers: list[PeerView]
    version: str


class BytesView(View):
    """Bodies with parameters that a round moved, in bytes."""

    sent: int
    received: int


class RoundView(View):
    """What came of one round on this node."""

    round: int
    initiator: str
    why: str = Field(default="", description="why a schedule of this node started it")
    decision: DecisionView | None = Field(default=None, description="on a series with a goal, after this round")
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
    seconds: Figures = Field(description="that the parts of the round took")
    bytes: BytesView
    chosen: list[str] | None = Field(default=None, description="who was to train; null for all")
    metrics: MetricsView
    contributions: list[dict[str, str | int | None]] = Field(default=[], description="see docs/audit.md")
    weighed: WeighedView = {}


class HealthView(View):
    """The process answers."""

    status: Literal["ok"]


class ReadyView(View):
    """Whether this node can take part in rounds."""

    ready: bool
    mesh_joined: bool
    data_loaded: bool
    reasons: list[str]
