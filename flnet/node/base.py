"""What the web layer, the command line and tests may ask of a node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from flnet.blob import Blob
from flnet.messages import EditHyperParams, Peer
from flnet.node.gains_base import Gains
from flnet.node.import_base import Imports
from flnet.node.studies_base import Studies
from flnet.node.trust import Trust
from flnet.params import TrainerId
from flnet.transport.base import Reply

View = Mapping[str, Any]
Body = bytes | memoryview
Points = Sequence[tuple[int, float]]  # round and accuracy in [0, 1], in rising order of rounds
Order = Literal["stop", "pause", "resume"]  # what a person may say about the rounds of a job to come
OWN_PEOPLE_ONLY = ("finds", "inputs", "note", "counts", "checksum", "parts", "counts_little")  # of a job


@dataclass(frozen=True)
class FeedItem:
    """One thing that happened: ids rise, by one while a node runs; `text` is a plain sentence.

    Attributes:
        at: seconds since the epoch by this node's own clock, for people only.
        trainer: the job it belongs to; empty for the mesh.
    """

    id: int
    at: float
    kind: str
    text: str
    trainer: str
    data: View


@dataclass(frozen=True)
class Question:
    """What a person wants judged: numbers or a picture, by the model of this digest (None: the one held)."""

    inputs: Any = None
    picture: bytes | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Download:
    """A file for a person."""

    body: bytes
    content_type: str
    file_name: str


class Feed(Protocol):
    """What happened, kept in a bounded ring, and fanned out to whoever watches."""

    def recent(self, after: int = 0) -> Sequence[FeedItem]:
        """Items with an id greater than `after` that are still kept, oldest first."""
        ...

    def watch(self, after: int | None = None) -> AsyncIterator[FeedItem]:
        """Items as they happen, those after `after` first; ends when the node stops."""
        ...


class Node(Protocol):
    """One running node.

    Views are plain JSON-ready data:

    job: trainer_id, trainer_label, phase (LOADING, NO_DATA, IDLE, TRAINING, GATHERING, AVERAGING, MEASURING,
        EXCHANGING), current_round (-1: never), fed_learn_done and model_was_exchanged ("Yes"/"No"),
        federated_learning_params (words), hyper {e, u, b}, pre_fedavg_accuracy, post_fedavg_accuracy (or None),
        digest (of the model held, or None), contributors, initiator, rounds_left, goal (of the series of rounds
        under way or the last one, as in `flnet.jobs.pursuit`; None if there was none), schedule (as in
        `flnet.node.scheduling`), paused (by a person here), waiting_for [ids], metrics (of the last round, as
        below), received [ids], progress {done, total} or None, outcome (a sentence on the last round), error (or
        None), data {source, rows, classes, sample, note}, inputs (what predictions take: kind, shape, low, high,
        names, hint; None if there are none; not in `info`), note (of the trainer, on its predictions), formats
        (of an export), counts {split: [rows of each class]}, checksum of the own data and parts (rows of each
        class in every part of an experiment), finds (what can be seen of its models on the own rows: "labels",
        "groups" or ""; these four, inputs and note not in /info), merging_rule, counts_little [{peer, since,
        weight, fair, reason}] (not in /info).
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
        smoothed, in milliseconds; None while none was measured).
    """

    me: Peer

    @property
    def feed(self) -> Feed:
        """What happened on this node."""
        ...

    @property
    def imports(self) -> Imports:
        """Who takes in data that a person brings."""
        ...

    @property
    def gains(self) -> Gains:
        """Who measures what each peer brings, for persons of this node alone."""
        ...

    @property
    def studies(self) -> Studies:
        """Who looks at the own rows, for persons of this node alone."""
        ...

    @property
    def trust(self) -> Trust | None:
        """Whose keys are accepted in a pinned mesh, and who waits; None in an open or keyed one."""
        ...

    async def plan(self, trainer: TrainerId, when: str | None) -> View:
        """Give a job a schedule, as `flnet.policies.schedule` reads it (None: that of the node's settings); the
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

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        """Take one POSTed message and answer it; `signer` is the public key that signed it, if one did.

        Raises:
            PeerError: the caller's fault; its class knows the status.
        """
        ...

    async def edit_hyper_params(self, trainer: TrainerId, changes: EditHyperParams) -> View:
        """Change hyper-parameters; the job's view afterwards.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    async def steer(self, trainer: TrainerId, order: Order) -> View:
        """End the series of rounds after the open one, pause the job or resume it; the job's view afterwards.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    def info(self) -> View:
        """GET /info: {iAm, fingerprint (of this node's key, short, or ""), key, jobsInfo: [job view, ...],
        mode ("open", "keyed", "pinned"), lastNodeStatus: "IDLE"/"BUSY", peers: [peer view, ...], version}.
        """
        ...

    def job(self, trainer: TrainerId) -> View:
        """The job's view; raises UnknownTrainer."""
        ...

    def history(self, trainer: TrainerId) -> Sequence[View]:
        """The records of the newest rounds, as many as are at hand, oldest first; raises UnknownTrainer."""
        ...

    async def records(self, trainer: TrainerId, last: int | None = None) -> Sequence[View]:
        """The records of the newest `last` rounds, or of all that are kept (FLNET_KEEP_ROUNDS), oldest first.

        Raises:
            UnknownTrainer: no such job.
        """
        ...

    async def events(self) -> Sequence[FeedItem]:
        """What happened, as far back as it is kept (FLNET_KEEP_EVENTS), oldest first."""
        ...

    async def models(self, trainer: TrainerId) -> Sequence[View]:
        """The models that are kept, the one held first.

        Raises:
            UnknownTrainer, NotReady, NoData: there is no job, or no model yet.
        """
        ...

    async def restore(self, trainer: TrainerId, digest: str) -> View:
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

    async def predict(self, trainer: TrainerId, question: Question) -> View:
        """{classes, probabilities (or scores), predicted: [names], model: {digest, round, accuracy}, note}, and
        coarse {space, classes, estimated, probabilities, predicted} where own rows are labelled in another space.

        Raises:
            InputRefused: not what the trainer takes. NotOffered: it does not predict.
            UnknownModel: of that digest. NotReady: the turn did not come in time.
        """
        ...

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        """The model as a file; `form` is safetensors or onnx, with -common or -personal after it for one of two.

        Raises:
            UnknownModel, InvalidMessage, NotOffered, NotReady: no such model or format, or no turn in time.
            OwnMachineOnly: it holds private parameters, and the caller is on another machine.
        """
        ...

    async def card(self, trainer: TrainerId, digest: str) -> Download:
        """What is known of the model, in Markdown.

        Raises:
            UnknownModel: of that digest.
        """
        ...

    async def held(self, digest: str, codings: Collection[str] = ()) -> Blob:
        """The parameters of this digest as they go over the wire.

        Args:
            codings: that the caller reads; where one of them pays, the body is compressed so.

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

    async def peer_infos(self) -> Sequence[View]:
        """What the peers say of themselves, for the page; who asks again within a second is told the same.

        One per peer: {id, address, info: its GET /info as it came, unchecked, or None, error: words or None}.
        """
        ...

    async def peer_rounds(self, trainer: TrainerId) -> Mapping[str, Points]:
        """Accuracies after averaging of this trainer's job on the peers, by peer; a few peers, the newest rounds.

        Peers are asked for more than `peer_infos` tells only at the first look, and where rounds are missing.
        """
        ...

    def ready(self) -> View:
        """{ready: bool, mesh_joined: bool, data_loaded: bool, reasons: [sentences]}."""
        ...
