"""The interface of a node for the web layer, the command line and tests: `Node`, and the values that it takes and gives."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, ConfigDict, Field

from flnet.algorithms.registry import check_rule, parse_rule
from flnet.names import is_name
from flnet.node.data_import import DataImports
from flnet.node.event_log import EventLog, FeedItem
from flnet.node.own_trainers import OwnTrainers
from flnet.node.trust import Trust
from flnet.params.blob import Blob, Bytes
from flnet.params.params import TrainerId
from flnet.protocol.events import HyperParamsEdited
from flnet.protocol.messages import EARLIER_FORMS, Peer, PersonMessage
from flnet.rounds.view import JobView
from flnet.security.signing import RequestVerifier
from flnet.wire.transport import Reply

View = Mapping[str, Any]
Body = bytes | memoryview
Points = Sequence[tuple[int, float]]  # round and accuracy in [0, 1], in rising order of rounds
Order = Literal["stop", "pause", "resume"]  # what a person may say about the rounds of a job to come


class EditHyperParams(PersonMessage):
    """PATCH /jobs/{trainerId}/params: change some of them; absent ones keep their value.

    Attributes:
        aggregation: the aggregation rule of the job from now on, as FLNET_AGGREGATION is written.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"minProperties": 1})

    e: int | None = Field(default=None, ge=1, le=10_000)
    u: float | None = Field(default=None, gt=0, le=1_000)
    b: int | None = Field(default=None, ge=1, le=1_000_000)
    aggregation: Annotated[str, Field(max_length=200), AfterValidator(check_rule)] | None = None

    def as_event(self) -> HyperParamsEdited:
        """The change as a job hears it: an aggregation rule by its whole name."""
        stated = self.model_dump(exclude_none=True)
        if self.aggregation is None:
            return HyperParamsEdited(stated)
        rule = parse_rule(stated.pop("aggregation"))
        return HyperParamsEdited(stated, rule.name, rule.adds_as_they_come)


class ProposedRules(Protocol):
    """What people say of aggregation rules that are proposed to the mesh; see `flnet.node.rule_changes`."""

    async def look(self, trainer: TrainerId) -> None:
        """Ask all peers what they propose; raises UnknownTrainer."""
        ...

    async def propose(self, trainer: TrainerId, rule: str) -> None:
        """Propose a rule, as FLNET_AGGREGATION is written.

        Raises:
            UnknownTrainer, NotReady: there is no such job, or not yet.
            InvalidMessage: there is no such rule, or it does not fit. JobBusy: another proposal is open.
        """
        ...

    async def answer(self, trainer: TrainerId, mark: str, *, takes: bool) -> None:
        """Take or decline the proposal of another node.

        Raises:
            UnknownTrainer, NotReady: there is no such job, or not yet.
            NoProposal: it is not made any more. InvalidMessage: the rule does not fit. JobBusy: another one was taken.
        """
        ...

    async def withdraw(self, trainer: TrainerId) -> None:
        """Withdraw what this node proposes.

        Raises:
            UnknownTrainer: no such job. NoProposal: it proposes nothing. JobBusy: all nodes have taken it.
        """
        ...


class LeaveOneOutResults(Protocol):
    """Measures averages without each peer in turn; see `flnet.node.leave_one_out`."""

    def view(self, trainer: TrainerId) -> Mapping[str, Any]:
        """{on (whether that is wanted), why_not (the newest round was not measured, in words; or ""), rounds
        [{round, accuracy (with all), examples, seconds, without {peer: accuracy}}], oldest first}.

        Raises:
            UnknownTrainer: no such job.
        """
        ...


class Studies(Protocol):
    """Diagnoses models on this node's rows; see `flnet.trainer`."""

    async def findings(self, trainer: TrainerId, kind: str, digest: str | None = None) -> Mapping[str, Any]:
        """Diagnose a model: {kind, ..., model: {digest, round, accuracy}}.

        Args:
            kind: "labels", "groups", "leaks" for what a model gives away of the rows, or "confusion" for which classes
                it mistakes for which.
            digest: of the model; None for the one that is held.

        Raises:
            UnknownTrainer, NoData, UnknownModel: there is no such job or model.
            NotOffered: nothing of this kind is to be seen there.
            NotReady: the turn did not come in time.
        """
        ...


MAX_JOBS = 100  # of a peer
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")


@dataclass(frozen=True)
class PeerInfo:
    """A peer's answer to GET /info, checked.

    Attributes:
        version: of the program that it runs; None where it does not tell a sound one.
        machine: name of its machine, by which people know a node without a name; "" if it has one.
        relay: "host:port" for FLNET_RELAY, if it is a relay; else "".
        jobs: at most MAX_JOBS of them.
        error: why nothing is known of it; None if it answered.
        asked: when it was asked, in seconds of a clock that only rises.
    """

    id: str
    address: str
    version: str | None = None
    machine: str = ""
    relay: str = ""
    jobs: tuple[JobView, ...] = ()
    error: str | None = None
    asked: float = field(default=0.0, compare=False)

    @classmethod
    def claimed(cls, peer: str, address: str, info: Mapping[str, Any]) -> PeerInfo:
        """The information in an answer that may say anything."""
        version, jobs, machine = info.get("version"), info.get("jobsInfo"), info.get("machine")
        is_sound = isinstance(version, str) and _VERSION.fullmatch(version)
        read = map(JobView.claimed, jobs[:MAX_JOBS] if isinstance(jobs, list) else ())
        said = machine if isinstance(machine, str) and is_name(machine) else ""
        port = info.get("relayPort")
        is_port = isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= 65535
        relay = f"{address.rpartition(':')[0]}:{port}" if is_port else ""
        return cls(peer, address, version if is_sound else None, said, relay, tuple(read))

    def job(self, trainer: str) -> JobView | None:
        """Its job of this trainer."""
        return next((job for job in self.jobs if job.trainer_id == trainer), None)


@dataclass(frozen=True)
class PredictionInput:
    """The inputs of a prediction, numbers or an image, and the digest of the model (None: the current one)."""

    inputs: Any = None
    picture: bytes | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Download:
    """A file for a person."""

    body: bytes
    content_type: str
    file_name: str


class Node(Protocol):
    """One running node.

    A job is a `flnet.rounds.view.JobView`. Other views are plain JSON-ready data:

    history record: round, initiator, why (a schedule started it here; or ""), decision (of a series with a goal
        after it, {over, words, accuracy, loss, nodes, best}; or None), outcome, contributors [ids], digest,
        pre_fedavg_accuracy, post_fedavg_accuracy, exchanged_with (id or None), examples, used_hyper, seconds
        {train, average, fetch (the start), wait (for peers, with the own word out), measure, exchange; those
        that there were}, bytes {sent, received} of parameters, metrics {before, after: {name: figure}}.
    model: digest, round, contributors, accuracy (here, or None), exchanged_with (the peer it was adopted from,
        or None), bytes, held (whether the job goes on from it), pinned (by a person, so that it is kept).
    peer: id, ip, port, address, state ("alive", "suspect", "dead", "left"), reason, incarnation (how often it
        was shown that it is there after all), fingerprint (of its key, short, or ""), key (its public key, or
        ""), disputed (whether another node claims its name), rtt_ms (round-trip time of small requests,
        smoothed, in milliseconds; None while none was measured), signs_with_other_key (whether it signed its last
        request with the second of two mesh keys; None while only one is accepted).
    """

    machine: str  # name of this machine, by which people know a node that was given no name; else ""

    @property
    def me(self) -> Peer:
        """This node, with the address at which others reach it."""
        ...

    @property
    def feed(self) -> EventLog:
        """The event log of this node."""
        ...

    @property
    def imports(self) -> DataImports:
        """The import of data."""
        ...

    @property
    def own_trainers(self) -> OwnTrainers:
        """No-code trainers that people of this node make or take over."""
        ...

    @property
    def rule_changes(self) -> ProposedRules:
        """Aggregation rules that are proposed to the mesh."""
        ...

    @property
    def leave_one_out(self) -> LeaveOneOutResults:
        """The leave-one-out measurements, for the operator of this node only."""
        ...

    @property
    def studies(self) -> Studies:
        """The diagnostics on this node's rows, for its operator only."""
        ...

    @property
    def signing(self) -> RequestVerifier | None:
        """Verifies requests of other nodes in a keyed or pinned mesh; None in an open one."""
        ...

    @property
    def trust(self) -> Trust | None:
        """Whose keys are accepted in a pinned mesh, and who waits; None in an open or keyed one."""
        ...

    async def plan(self, trainer: TrainerId, when: str | None) -> JobView:
        """Give a job a schedule, as `flnet.rounds.schedule` reads it (None: that of the node's settings); the
        job's view afterwards.

        Raises:
            UnknownTrainer: no such job. InvalidMessage: it is no schedule. JobBusy: it is still loading.
        """
        ...

    def body_limit(self, path: str) -> int:
        """How many bytes a request to this path may have."""
        ...

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Look at the first bytes of a body of `total` bytes before the rest is taken in.

        Returns:
            True when the head was whole and is wanted, False when more of it is needed.

        Raises:
            PeerError: this node does not want such a body.
        """
        ...

    def memory(self, nbytes: int) -> Bytes:
        """So many bytes for a large body, with anything in them. They are used again once nothing refers to them."""
        ...

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        """Take one POSTed message and answer it; `signer` is the public key that signed it, if one did.

        Raises:
            PeerError: the caller's fault; its class knows the status.
        """
        ...

    async def edit_hyper_params(self, trainer: TrainerId, changes: EditHyperParams) -> JobView:
        """Change hyper-parameters; the job's view afterwards.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    async def steer(self, trainer: TrainerId, order: Order) -> JobView:
        """End the series of rounds after the open one, pause the job or resume it; the job's view afterwards.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    def info(self) -> View:
        """GET /info: {iAm, fingerprint (of this node's key, short, or ""), key, jobsInfo: [job view, ...],
        mode ("open", "keyed", "pinned"), lastNodeStatus: "IDLE"/"BUSY", peers: [peer view, ...], version}; while two
        mesh keys are accepted also signWithOtherKey, the ids of peers whose last request was signed with the second.
        """
        ...

    def all_jobs(self) -> Sequence[JobView]:
        """All jobs of this node."""
        ...

    def job(self, trainer: TrainerId) -> JobView:
        """The job's view; raises UnknownTrainer."""
        ...

    def history(self, trainer: TrainerId) -> Sequence[View]:
        """The records of the newest rounds, as many as are at hand, oldest first; raises UnknownTrainer."""
        ...

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[View]:
        """The records of the newest `last` rounds up to `until`, or of all that are kept (FLNET_KEEP_ROUNDS), oldest
        first.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    def record_pages(self, trainer: TrainerId, last: int | None = None) -> AsyncIterator[Sequence[View]]:
        """The same as pages, of which only one need be in memory at a time; ends early if they cannot be read."""
        ...

    async def thinned_records(self, trainer: TrainerId, most: int, last: int | None = None) -> Sequence[View]:
        """The same; if there are more than `most`, every so many of them, the newest among them."""
        ...

    async def events(self) -> Sequence[FeedItem]:
        """The kept events (FLNET_KEEP_EVENTS), oldest first."""
        ...

    async def models(self, trainer: TrainerId) -> Sequence[View]:
        """The models that are kept, the one held first.

        Raises:
            UnknownTrainer, NotReady, NoData: there is no job, or no model yet.
        """
        ...

    async def restore(self, trainer: TrainerId, digest: str) -> JobView:
        """Go on from a model that is kept: the next round that is started here begins with it; the job's view.

        Raises:
            UnknownTrainer, NotReady, NoData, UnknownModel: there is no such model.
            JobBusy: a round is open, or the model is held already.
        """
        ...

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        """Keep a model until it is unpinned, or let it go in its turn; its view afterwards.

        Raises:
            UnknownTrainer, NotReady, NoData, UnknownModel: there is no such model.
            JobBusy: as many are pinned as may be.
        """
        ...

    async def predict(self, trainer: TrainerId, question: PredictionInput) -> View:
        """{classes, probabilities (or scores), predicted: [names], model: {digest, round, accuracy}, note}, and
        coarse {space, classes, estimated, probabilities, predicted} where own rows are labelled in another space.

        Raises:
            InputRefused: not what the trainer takes. NotOffered: it does not predict.
            UnknownModel: of that digest. NotReady: the turn did not come in time.
        """
        ...

    async def predict_ids(self, trainer: TrainerId, ids: Sequence[str | int]) -> View:
        """Predict rows of a vertical job by id: {ids, unknown, epoch, predictions: [{holder, classes, probabilities,
        predicted}, ...]}, one prediction of each label holder for the ids that all holders have.

        Raises:
            InputRefused: no or too many ids, or none that all holders have. NotOffered: not allowed, or no vertical
            job. JobBusy: an epoch is open. NotReady: no model, or a holder is away, refuses or does not answer.
        """
        ...

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        """The model as a file; `form` is safetensors or onnx, with -common or -personal after it for one of two.

        Raises:
            UnknownModel, InvalidMessage, NotOffered, NotReady: no such model or format, or no turn in time.
            OwnMachineOnly: it holds private parameters, and the caller is on another machine.
        """
        ...

    async def card(self, trainer: TrainerId, digest: str, *, same_machine: bool = False) -> Download:
        """The card of the model, in Markdown.

        Args:
            same_machine: whether the operator reads it, who may see how this node's own rows scale the inputs.

        Raises:
            UnknownModel: of that digest.
        """
        ...

    async def held(
        self, digest: str, codings: Collection[str] = (), accepts: Collection[str] = EARLIER_FORMS
    ) -> Blob:
        """The parameters of this digest as they go over the wire.

        Args:
            codings: that the caller reads; where one of them pays, the body is compressed so.
            accepts: forms that the caller reads; in others nothing is packed.

        Raises:
            UnknownModel: none of that digest is kept here.
        """
        ...

    def gave(self, digest: str, nbytes: int) -> None:
        """So many bytes of the parameters of this digest are handed out now; for the history."""
        ...

    def peers(self) -> Sequence[View]:
        """The other nodes."""
        ...

    async def forget(self, peer: str) -> Sequence[View]:
        """Forget a peer that takes no part, so that its name is free for a node with another key; those left."""
        ...

    async def peer_infos(self) -> Sequence[PeerInfo]:
        """The peers' answers to GET /info, for the page; they are cached for a second."""
        ...

    async def peer_rounds(self, trainer: TrainerId) -> Mapping[str, Points]:
        """Accuracies after averaging of this trainer's job on the peers, by peer; a few peers, the newest rounds.

        Peers are asked for more than `peer_infos` tells only at the first look, and where rounds are missing.
        """
        ...

    def ready(self) -> View:
        """{ready: bool, mesh_joined: bool, data_loaded: bool, reasons: [sentences]}."""
        ...
