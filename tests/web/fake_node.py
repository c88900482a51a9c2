"""An in-memory twin of a node: the same views, errors and feed, but rounds move only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from flnet.errors import (
    FlnetError,
    ImportRefused,
    JobBusy,
    NotComparable,
    NotReady,
    OwnMachineOnly,
    ParamsRefused,
    StaleRound,
    UnknownModel,
    UnknownPath,
    UnknownTrainer,
    UnreadableBody,
)
from flnet.node.interface import Body, Download, EditHyperParams, Order, PeerInfo, Points, PredictionInput, View
from flnet.params.blob import Blob, Bytes, fresh
from flnet.params.params import TrainerId
from flnet.protocol.messages import (
    Accuracy,
    Announce,
    AnnounceReply,
    AskRound,
    AskVersion,
    HyperParams,
    JobMessage,
    ModelParams,
    Peer,
    Probe,
    StartTraining,
    Trigger,
    Triggered,
)
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.vertical import VerticalMessage
from flnet.rounds.schedule import Schedule
from flnet.rounds.view import JobView
from flnet.text import text
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.transport import Reply
from tests.web.fake_feed import FakeFeed
from tests.web.fake_job import NO_SCHEDULE, FakeGains, FakeJob, FakeStudies
from tests.web.fake_registry import FakeRegistry

KINDS = {
    kind.path: kind
    for kind in (
        Announce,
        AskRound,
        AskVersion,
        Probe,
        StartTraining,
        ModelParams,
        Accuracy,
        SecureSumMessage,
        SegmentsMessage,
        VerticalMessage,
        Trigger,
    )
}
CONTROL = 64 * 1024
WANTED = b"wanted head:"  # what a binary body must begin with


class FakeOwnTrainers:
    """Nobody shows a trainer, and no data wait."""

    def draft(self, key: str) -> Any:
        raise ImportRefused("these data are not waiting any more")

    async def offers(self) -> Sequence[Any]:
        return []

    async def offered(self) -> Sequence[View]:
        return []


class FakeRuleChanges:
    """Every proposal and answer is noted."""

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    async def look(self, trainer: str) -> None:
        self.said.append((trainer, "look"))

    async def propose(self, trainer: str, rule: str) -> None:
        self.said.append((trainer, "propose", rule))

    async def answer(self, trainer: str, mark: str, *, takes: bool) -> None:
        self.said.append((trainer, "take" if takes else "decline", mark))

    async def withdraw(self, trainer: str) -> None:
        self.said.append((trainer, "withdraw"))


class FakeNode(FakeRegistry):
    """One node; `jobs`, `known` and `around` are open for tests to arrange."""

    def __init__(self, node_id: str = "NODE_1", port: int = 4000, limit: int = 1024 * 1024) -> None:
        super().__init__()
        self.me, self.machine = Peer(id=node_id, port=port), ""
        self.feed = FakeFeed()
        self.imports: Any = None
        self.own_trainers: Any = FakeOwnTrainers()
        self.rule_changes = FakeRuleChanges()
        self.leave_one_out = FakeGains()
        self.studies = FakeStudies()
        self.limit = limit
        self.jobs = {
            "MNIST": FakeJob("MNIST", "MNIST Dataset", HyperParams(e=2, u=1e-05, b=64)),
            "MNIST_3_7": FakeJob("MNIST_3_7", "MNIST 3 or 7", HyperParams(e=1, u=0.1, b=32), sample=True),
        }
        self.known: list[View] = []
        self.around: list[View] = []
        self.rounds_around: dict[tuple[str, str], Points] = {}  # by peer and trainer
        self.asked_peers = 0
        self.received: list[tuple[str, int, str, str]] = []  # path, bytes, content type, caller
        self.inspected: list[tuple[str, str, int, int]] = []  # path, content type, bytes of the head, of all
        self.given_memory: list[Bytes] = []  # that bodies were received into
        self.landed: list[memoryview] = []  # binary bodies that were taken
        self.blobs: dict[str, Blob] = {}
        self.lent: list[str] = []  # digests that were asked for
        self.given: list[tuple[str, int]] = []  # and how many bytes were handed out
        self.questions: list[PredictionInput] = []
        self.reasons: list[str] = []  # why it is not ready

    @property
    def reported(self) -> list[str]:
        """What was told of refused requests."""
        return [item.text for item in self.feed.recent() if item.kind == "refused_here"]

    def body_limit(self, path: str) -> int:
        model = path in (StartTraining.path, ModelParams.path, Accuracy.path)
        return self.limit if model else CONTROL

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Wants what begins with WANTED, and does not want what begins otherwise."""
        self.inspected.append((path, content_type, len(head), total))
        if not WANTED.startswith(bytes(head[: len(WANTED)])):
            raise ParamsRefused("the head is not of this node's model")
        return len(head) >= len(WANTED)

    def memory(self, nbytes: int) -> Bytes:
        self.given_memory.append(fresh(nbytes))
        return self.given_memory[-1]

    async def held(self, digest: str, codings: Collection[str] = (), accepts: Collection[str] = ()) -> Blob:
        self.lent.append(digest)
        if digest not in self.blobs:
            raise UnknownModel(f"no parameters {digest}")
        return self.blobs[digest]

    def gave(self, digest: str, nbytes: int) -> None:
        self.given.append((digest, nbytes))

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        self.received.append((path, len(body), content_type, caller_ip))
        if self.failure is not None:
            raise self.failure
        if path not in KINDS:
            raise UnknownPath(path)
        if content_type == BINARY_TYPE:
            self.landed.append(memoryview(body))
            return _reply(200, {})
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise UnreadableBody(f"the body is no JSON: {exc}") from exc
        message = KINDS[path].read(fields)
        if isinstance(message, Announce):
            return self._announce(message, caller_ip)
        if isinstance(message, Probe):
            return _reply(200, {"iAm": self.me.fields()})
        if isinstance(message, Trigger):
            return await self._trigger(message)
        return self._round(message)

    def _announce(self, message: Announce, caller_ip: str) -> Reply:
        ip = message.i_am.ip or caller_ip
        self.add_peer(message.i_am.id, f"{ip}:{message.i_am.port}")
        return _reply(201, AnnounceReply(announce_yourself_to_peers=[], i_am=self.me).fields())

    async def _trigger(self, message: Trigger) -> Reply:
        job = self._job(message.trainer_id)
        if job.phase == "LOADING":
            raise NotReady(text("{trainer} is still loading its data", job.label))
        if job.phase != "IDLE":
            raise JobBusy(f"{job.label} is in round {job.round} already; wait until it is averaged")
        job.round += 1
        job.phase, job.progress = "TRAINING", {"done": 1, "total": 4}
        self.feed.publish("round_started", f"Round {job.round} of {job.label} began", job.trainer_id)
        return _reply(202, Triggered(trainer_id=job.trainer_id, round=job.round).fields())

    def _round(self, message: JobMessage) -> Reply:
        job = self._job(message.trainer)
        if message.round < job.round:
            raise StaleRound(message.round, job.round)
        if isinstance(message, Accuracy):
            raise NotComparable(f"round {message.round} is not averaged here yet")
        return _reply(200, {"iAm": self.me.fields()})

    async def finish_round(self, trainer: str, before: float, after: float) -> None:
        """End the round that a trigger began."""
        job = self.jobs[trainer]
        job.phase, job.progress, job.before, job.after = "IDLE", None, before, after
        job.digest = f"{job.round:064x}"
        job.outcome = f"Round {job.round} was averaged from 1 update."
        job.records.append({"round": job.round, "pre_fedavg_accuracy": before, "post_fedavg_accuracy": after})
        self.feed.publish("averaged", f"Round {job.round} of {job.label} was averaged", trainer)

    def add_peer(self, peer_id: str, address: str, state: str = "alive", reason: str = "") -> None:
        ip, _, port = address.rpartition(":")
        place = {"id": peer_id, "ip": ip, "port": port, "address": address}
        self.known.append({**place, "state": state, "reason": reason, "incarnation": 0})

    async def edit_hyper_params(self, trainer: TrainerId, changes: EditHyperParams) -> JobView:
        job, said = self._job(trainer), changes.model_dump(exclude_none=True)
        if "aggregation" in said:
            job.more = {**job.more, "merging_rule": said.pop("aggregation")}
        job.hyper = HyperParams.model_validate({**job.hyper.model_dump(), **said})
        return job.view()

    async def plan(self, trainer: TrainerId, when: str | None) -> JobView:
        said = {"when": str(Schedule.parse(when or "")), "by_person": when is not None}
        self._job(trainer).schedule = {**NO_SCHEDULE, **said}
        return self.job(trainer)

    async def steer(self, trainer: TrainerId, order: Order) -> JobView:
        job = self._job(trainer)
        if order == "stop":
            job.rounds_left = 0
        else:
            job.paused = order == "pause"
        return job.view()

    def info(self) -> View:
        busy = any(job.phase not in ("IDLE", "NO_DATA") for job in self.jobs.values())
        return {
            "iAm": self.me.fields(),
            "jobsInfo": [job.for_peers() for job in self.all_jobs()],
            "lastNodeStatus": "BUSY" if busy else "IDLE",
            "peers": self.peers(),
            "version": "0",
        }

    def all_jobs(self) -> Sequence[JobView]:
        return [self.job(TrainerId(trainer)) for trainer in self.jobs]

    def job(self, trainer: TrainerId) -> JobView:
        return self._job(trainer).view()

    def history(self, trainer: TrainerId) -> Sequence[View]:
        return list(self._job(trainer).records)

    async def models(self, trainer: TrainerId) -> Sequence[View]:
        digests = [self._job(trainer).digest, *[record.get("digest") for record in self.history(trainer)]]
        return [{"digest": digest, "held": place == 0} for place, digest in enumerate(digests) if digest]

    async def predict(self, trainer: TrainerId, question: PredictionInput) -> View:
        self.questions.append(question)
        if self.failure is not None:
            raise self.failure
        return {"classes": ["3", "7"], "predicted": ["7"], "model": {"digest": self._job(trainer).digest}}

    async def predict_ids(self, trainer: TrainerId, ids: Sequence[str | int]) -> View:
        if self.failure is not None:
            raise self.failure
        self._job(trainer)
        of_b = {"holder": "b", "classes": ["no", "yes"], "probabilities": [[0.25, 0.75]], "predicted": ["yes"]}
        return {
            "ids": [str(ids[0])],
            "unknown": [str(value) for value in ids[1:]],
            "epoch": 4,
            "predictions": [of_b],
        }

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        if not same_machine:
            raise OwnMachineOnly("ask from the machine that it runs on")
        return Download(b"\0weights", "application/octet-stream", f"{self._known(trainer, digest)}.{form}")

    async def card(self, trainer: TrainerId, digest: str, *, same_machine: bool = False) -> Download:
        return Download(b"# A model", "text/markdown; charset=utf-8", f"{self._known(trainer, digest)}.md")

    def peers(self) -> Sequence[View]:
        return list(self.known)

    async def peer_infos(self) -> Sequence[PeerInfo]:
        self.asked_peers += 1
        await asyncio.sleep(0)
        return infos_of(self.around)

    async def peer_rounds(self, trainer: TrainerId) -> Mapping[str, Points]:
        return {peer: points for (peer, of), points in self.rounds_around.items() if of == trainer}

    def ready(self) -> View:
        return {
            "ready": not self.reasons,
            "mesh_joined": True,
            "data_loaded": not self.reasons,
            "reasons": self.reasons,
        }

    def _known(self, trainer: str, digest: str) -> str:
        if self._job(trainer).digest != digest:
            raise UnknownModel(f"no model {digest}")
        return f"{trainer}-{digest}"

    def _job(self, trainer: str) -> FakeJob:
        if trainer not in self.jobs:
            raise UnknownTrainer(trainer, sorted(self.jobs))
        return self.jobs[trainer]


def infos_of(around: Sequence[View]) -> list[PeerInfo]:
    """What peers say of themselves, read as the node reads their answers."""
    return [
        PeerInfo(one["id"], one.get("address", ""), error=one.get("error"))
        if one["info"] is None
        else PeerInfo.claimed(one["id"], one.get("address", ""), one["info"])
        for one in around
    ]


def _reply(status: int, fields: Any) -> Reply:
    return Reply(status, orjson.dumps(fields))


def raising(error: FlnetError) -> FakeNode:
    """A node that answers every message with this error."""
    node = FakeNode()
    node.failure = error
    return node
