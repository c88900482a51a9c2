"""The running node: it receives messages, passes events to the core, performs effects, and gives views."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import flnet
from flnet.compute.queue import ComputeQueue
from flnet.errors import NotComparable, NotReady, PeerError, Pending, UnknownPath, UnknownPeer
from flnet.fingerprints import short
from flnet.membership.names import NameTaken
from flnet.names import DEFAULT_MESH
from flnet.node.core import NodeCore
from flnet.node.data_import import DataImports, FolderWatcher
from flnet.node.event_log import EventLog, EventLogStore
from flnet.node.event_queue import EventQueue
from flnet.node.formats import IDLE_SECONDS, BodyFormats, BufferPool, give_back_when_idle
from flnet.node.id_predictions import IdPredictions
from flnet.node.inbound import KINDS, ORDERS, STATUS, MessageChecks, check_speaker, check_trusted
from flnet.node.interface import (
    Body,
    EditHyperParams,
    Order,
    PeerInfo,
    Points,
    View,
)
from flnet.node.lan_discovery import Discovery
from flnet.node.leave_one_out import LeaveOneOut
from flnet.node.meeting import MeetingChecks
from flnet.node.model_registry import ModelRegistry
from flnet.node.model_service import ModelService
from flnet.node.own_trainers import OwnTrainers
from flnet.node.peer_infos import Distances, PeerInfos
from flnet.node.performer import Answered, Performer
from flnet.node.reach import Reachability
from flnet.node.relay import Relay
from flnet.node.relay_client import RelayLink
from flnet.node.round_history import PeerHistory, RoundHistory
from flnet.node.rule_changes import RuleChanges
from flnet.node.schedules import Schedules
from flnet.node.trust import Introductions, Trust
from flnet.params.params import Digest, PeerId, TrainerId
from flnet.protocol.events import AddressFound, AddressGranted, Event, Leaving, MeshStarted, PeerForgotten
from flnet.protocol.messages import Announce, JobMessage, Packet, Peer, Probe
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import VerticalMessage
from flnet.rounds.steps import Phase
from flnet.rounds.view import JobView, ProgressView, ScheduleView
from flnet.security.signing import RequestVerifier
from flnet.store.base import Store
from flnet.text import text
from flnet.trainer import TrainerFile
from flnet.wire.transport import Reply, Transport

if TYPE_CHECKING:
    from flnet.node.notices import NoticeSender

RELAY_SECONDS = 10.0  # that a node waits for its relay before it joins without an address at which others reach it
LEAVE_SECONDS = 5.0  # for what is on its way when this node is asked to end


def readiness(core: NodeCore, bootstrap: Sequence[str], trouble: str = "") -> View:
    """The view of `flnet.node.interface.Node.ready`.

    Args:
        core: the node.
        bootstrap: addresses of which one has to answer before the mesh is joined; none for the first node.
        trouble: why state cannot be kept; empty while it can.
    """
    joined = core.members.joined or not bootstrap
    jobs = core.jobs
    waits_at = ", ".join(sorted(core.members.state.waits_at))
    waits = text("a person has to accept the fingerprint of this node at {names}", waits_at)
    reasons: list[str] = (
        []
        if joined
        else [waits if waits_at else text("no bootstrap peer has answered yet: {names}", ", ".join(bootstrap))]
    )
    reasons += [
        text("{trainer} is still loading", trainer) for trainer, job in jobs.items() if job.phase is Phase.LOADING
    ]
    usable = [job for job in jobs.values() if job.phase not in (Phase.LOADING, Phase.NO_DATA)]
    reasons += [
        text("{trainer}: {reason}", t, job.error)
        for t, job in jobs.items()
        if job.phase is Phase.NO_DATA and not usable
    ]
    reasons += [trouble] if trouble else []
    loaded = bool(usable) and not any(job.phase is Phase.LOADING for job in jobs.values())
    return {
        "ready": joined and loaded and not trouble,
        "mesh_joined": joined,
        "data_loaded": loaded,
        "reasons": reasons,
    }


class NodeRuntime:
    """A running node; `flnet.node.build` makes it. See `flnet.node.interface.Node` for what it offers."""

    imports: DataImports
    own_trainers: OwnTrainers
    schedules: Schedules
    leave_one_out: LeaveOneOut
    watch: FolderWatcher | None = None  # of folders into which people drop files
    signing: RequestVerifier | None = None  # of a mesh with keys: verifies signed requests
    trust: Trust | None = None  # of a pinned mesh
    mesh_name = DEFAULT_MESH
    machine = ""  # name of this machine, by which people know a node that was given no name
    discovery: Discovery | None = None  # finds nodes to which nobody gave it an address
    relay: Relay | None = None  # for nodes that others do not reach
    relay_link: RelayLink | None = None  # to the relay through which others reach this node
    notices: NoticeSender | None = None  # for people who are not looking
    loads_first: Collection[TrainerId] = ()  # those whose data lie there

    def __init__(
        self,
        core: NodeCore,
        make_performer: Callable[[NodeRuntime], Performer],
        *,
        wire: BodyFormats,
        transport: Transport,
        store: Store,
        pool: ComputeQueue,
        registry: ModelRegistry,
        service: ModelService,
        history: RoundHistory,
        buffers: BufferPool,
        bootstrap: Sequence[str] = (),
    ) -> None:
        """Args:
        make_performer: creates the performer of the core's effects.
        """
        self.core = core
        self.feed, self._reachability = EventLog(time.time), Reachability(time.monotonic)
        self._log_store = EventLogStore(self.feed, store)
        self._wire, self._transport, self._store, self._pool = wire, transport, store, pool
        self._registry, self.studies, self._buffers = registry, service, buffers
        self._history, self.traffic = history, history.traffic
        # Answered by its parts directly; `flnet.node.interface.Node` says what each does.
        self.body_limit, self.held, self.memory = wire.body_limit, wire.held, buffers.take
        self.history, self.records, self.events = history.newest, history.records, self._log_store.all
        self.record_pages, self.thinned_records = history.pages, history.thinned
        self.models, self.pin = registry.views, registry.pin
        self.predict, self.export, self.card = service.predict, service.export, service.card
        self.id_predictions = IdPredictions(core)
        self.predict_ids = self.id_predictions.predict
        self.distances = Distances()
        self._peer_infos = PeerInfos(transport, self.peers, self.distances)
        self._meeting = MeetingChecks(core, self._peer_infos, self.peers, self.feed.publish)
        self._peer_history, self._bootstrap = PeerHistory(transport), tuple(bootstrap)
        self.checks = MessageChecks(core.me.id, time.monotonic, self.feed.publish)
        self._queue = EventQueue(self._handle, lambda words: self.feed.publish("fault", words, data={}))
        self.id_predictions.ask = self._queue.ask
        self.rule_changes = RuleChanges(core, self._peer_infos, self.peers, self.deliver, self._queue.ask)
        self._meeting.listen = self.rule_changes.heard
        self._progress: dict[TrainerId, ProgressView] = {}
        self._performer = make_performer(self)
        self._background: list[asyncio.Task[None]] = []  # what looks after this node from time to time

    @property
    def me(self) -> Peer:
        """This node, with the address at which others reach it."""
        return self.core.me

    async def start(self) -> None:
        """Load the trainers, and announce this node to its bootstrap peers; returns at once.

        Raises:
            StartError: the ports of its relay cannot be used.
        """
        if self.relay is not None:
            await self.relay.start()
        await self._log_store.begin()
        if self.trust is not None:
            await self.trust.begin()
        self._queue.start()
        for trainer in dict.fromkeys((*self.loads_first, *self.core.jobs)):
            self._performer.prepare(trainer)
        remembered = tuple(await self._performer.saver.addresses())
        keys = tuple((PeerId(peer), key) for peer, key in self._performer.saver.keys.items())
        incarnation = await self._performer.saver.begin_incarnation() if self.checks.claims is not None else 0
        started = MeshStarted(self._bootstrap, remembered, keys, incarnation)
        background: list[Coroutine[Any, Any, None]] = [
            self.schedules.keep(),
            self._log_store.write(),
            self.leave_one_out.run(),
            self._meeting.run(),
            self.rule_changes.run(),
        ]
        background.append(give_back_when_idle(self._buffers, self._is_busy, IDLE_SECONDS))
        if self.trust is not None:
            background.append(Introductions(self.trust, self._transport, self.peers).run())
        background += [self.watch.keep()] if self.watch else []
        background += [self.notices.run()] if self.notices else []
        background += [self._discover(self.discovery)] if self.discovery else []
        if self.relay_link is not None:
            background.append(self._join_through(self.relay_link, started))
        else:
            self.deliver(None, started)
        self._background = [asyncio.create_task(work) for work in background]

    def add_trainer(self, file: TrainerFile) -> None:
        """Begin the job of a trainer that came while this node runs."""
        trainer = TrainerId(file.id)
        for event in self.core.add_job(trainer):
            self.deliver(trainer, event)
        self.feed.publish("trainer_added", text("{trainer} was added to this node", trainer), trainer)
        self._performer.prepare(trainer)

    async def _discover(self, discovery: Discovery) -> None:
        try:
            await discovery.run(lambda address: self.deliver(None, AddressFound(address)))
        except OSError as exc:
            words = text("other nodes cannot be looked for on the local network: {reason}", exc.strerror or exc)
            self.feed.publish("discovery_failed", words)

    async def _join_through(self, link: RelayLink, started: MeshStarted) -> None:
        """Join the mesh as soon as a relay has granted an address, or after RELAY_SECONDS; then hold the address."""
        is_granted = asyncio.Event()

        def granted(host: str, port: int) -> None:
            self.deliver(None, AddressGranted(host, port))
            is_granted.set()

        async def join() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELAY_SECONDS):
                    await is_granted.wait()
            self.deliver(None, started)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(join())
            tasks.create_task(link.run(granted))

    async def leave(self) -> None:
        """Tell the peers that this node leaves, and wait for pending transfers for at most LEAVE_SECONDS."""
        await self._performer.saver.keep_incarnation()
        await self._queue.ask(None, Leaving())
        await self._performer.settle(LEAVE_SECONDS)

    async def stop(self) -> None:
        """End everything; waiting callers get an error, watchers of the feed their end."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self.relay is not None:
            await self.relay.close()
        await self._queue.stop()
        await self._performer.close()
        await self.own_trainers.close()
        self.feed.close()
        await self._log_store.end()
        await self._pool.close()
        await self._transport.close()
        await self._store.close()

    def deliver(self, owner: TrainerId | None, event: Event) -> None:
        """Put an event on the queue; from the event loop's own thread only."""
        self._queue.put(owner, self.checks.heard(event, self.core.members.address_of))

    def on_progress(self, trainer: TrainerId, done: int, total: int) -> None:
        """Note how far a local training is; may be called from any thread."""
        self._progress[trainer] = ProgressView(done=done, total=total)

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Look at the first bytes of a large body."""
        try:
            return self._wire.inspect(path, content_type, head, total)
        except PeerError as exc:
            self.checks.tell_refused(text("a request to {path} was refused by its head: {reason}", path, exc))
            raise

    def gave(self, digest: str, nbytes: int) -> None:
        """Count the bytes that were downloaded from this node in the current round of the job."""
        held = self.core.find(Digest(digest))
        key = self.core.jobs[held[0]].key if held else None
        if held and key is not None:
            self.traffic.sent(held[0], key, nbytes)

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        """Take one POSTed message and answer it; see `flnet.node.interface.Node`."""
        kind = KINDS.get(path)
        if kind is None:
            raise UnknownPath(path)
        try:
            packet = await self._wire.read(kind, body, content_type)
            answer = await self._take(packet, len(body), caller_ip, signer)
        except PeerError as exc:
            if isinstance(exc, NameTaken):
                self.deliver(None, exc.dispute)  # the membership tells it, once
            elif exc.status != NotComparable.status and not isinstance(exc, NotReady | Pending):  # no faults
                self.checks.tell_refused(
                    text("a request from {caller} to {path} was refused: {reason}", caller_ip, path, exc),
                    caller_ip,
                )
            raise
        status = STATUS.get(path, 200)
        if answer is None:
            return Reply(status, b"{}", "application/json")
        answered, form = await self._wire.write(answer)
        return Reply(status, bytes(answered), form)

    async def edit_hyper_params(self, trainer: TrainerId, changes: EditHyperParams) -> JobView:
        """Change hyper-parameters; the job's view afterwards."""
        self.core.job(trainer)
        await self._queue.ask(trainer, changes.as_event())
        return self.job(trainer)

    async def steer(self, trainer: TrainerId, order: Order) -> JobView:
        """End a series, pause or resume; the job's view afterwards."""
        self.core.job(trainer)
        await self._queue.ask(trainer, ORDERS[order])
        return self.job(trainer)

    async def plan(self, trainer: TrainerId, when: str | None) -> JobView:
        """Set the schedule of a job; the job's view afterwards."""
        await self._queue.ask(trainer, self.schedules.plan(trainer, when))
        return self.job(trainer)

    def info(self) -> View:
        """GET /info."""
        peers, changing = self.peers(), {}
        if self._users_of_other_key is not None:
            changing = {"signWithOtherKey": [peer["id"] for peer in peers if peer["signs_with_other_key"]]}
        return {
            "iAm": self.me.fields(),
            **{"fingerprint": short(self.core.members.key), "key": self.core.members.key or ""},
            "jobsInfo": [job.for_peers() for job in self.all_jobs()],
            "mesh": self.mesh_name,
            "mode": self.trust.mode if self.trust else "keyed" if self.signing else "open",
            "lastNodeStatus": "BUSY" if self._is_busy() else "IDLE",
            "peers": list(peers),
            "version": flnet.__version__,
            **({"machine": self.machine} if self.machine else {}),
            **({"unreached": unreached} if (unreached := self._unreached) else {}),
            **({"relayPort": self.relay.control_port} if self.relay is not None else {}),
            **changing,
        }

    def all_jobs(self) -> Sequence[JobView]:
        """All jobs of this node."""
        return [self.job(trainer) for trainer in self.core.jobs]

    def job(self, trainer: TrainerId) -> JobView:
        """The job's view, with its schedule and the progress of a training that runs."""
        job = self.core.job(trainer)
        progress = self._progress.get(trainer) if job.phase is Phase.TRAINING else None
        schedule = ScheduleView.model_validate(self.schedules.view(trainer))
        differs, view = self._meeting.differs(trainer), job.view()
        vertical = view.vertical and view.vertical.model_copy(update=self.traffic.of_job(trainer))
        update = {"schedule": schedule, "progress": progress, "differs": differs, "vertical": vertical}
        return view.model_copy(update=update)

    async def restore(self, trainer: TrainerId, digest: str) -> JobView:
        """Restore a model that is kept."""
        await self._queue.ask(trainer, await self._registry.rollback_to(trainer, digest))
        return self.job(trainer)

    def peers(self) -> Sequence[View]:
        """The other nodes."""
        users = self._users_of_other_key
        return [
            {
                **peer,
                "rtt_ms": self.distances.rtt_ms(peer["id"]),
                "signs_with_other_key": None if users is None else peer["key"] in users,
            }
            for peer in self.core.members.view()
        ]

    @property
    def _unreached(self) -> str:
        """Why this node is thought to be out of the others' reach; empty if it is not."""
        trouble = self.relay_link.trouble if self.relay_link is not None else ""
        return trouble or self._reachability.why_not(self.me.port, self._meeting.relays)

    @property
    def _users_of_other_key(self) -> Collection[str] | None:
        """The keys of nodes that sign with the second mesh key; None while only one is accepted."""
        return self.signing.users_of_other if self.signing is not None else None

    async def forget(self, peer: str) -> Sequence[View]:
        """Forget a peer, so that its name is free; those that are left."""
        try:
            await self._queue.ask(None, PeerForgotten(PeerId(peer)))
        except UnknownPeer:  # gone for so long that only a proposed rule still waits for it
            if not self.rule_changes.waits_for(PeerId(peer)):
                raise
        self.rule_changes.forgotten(PeerId(peer))
        return self.peers()

    async def peer_infos(self) -> Sequence[PeerInfo]:
        """The peers' answers to GET /info."""
        infos = await self._peer_infos.get()
        await self.rule_changes.heard(infos)
        return infos

    async def peer_rounds(self, trainer: TrainerId) -> Mapping[str, Points]:
        """Accuracies on the peers by round."""
        return await self._peer_history.get(trainer, await self._peer_infos.get())

    def ready(self) -> View:
        """Whether the mesh is joined and data are loaded, and if not, why."""
        return readiness(self.core, self._bootstrap, self._performer.saver.trouble)

    def _is_busy(self) -> bool:
        return any(job.busy for job in self.core.jobs.values())

    async def _take(self, packet: Packet, nbytes: int, caller_ip: str, signer: str) -> Packet | None:
        check_speaker(self.core.members, packet.message, signer)
        trainer, event = self.core.read(packet, caller_ip)
        event = self.checks.admit(packet.message, event, caller_ip)
        check_trusted(self.trust, packet.message, event, signer, self.me.id, caller_ip)
        if isinstance(packet.message, Announce | Probe | JobMessage):
            self._reachability.called(packet.message.i_am.id)
        self.imports.check_round(trainer, event)
        for contact in self.core.contacts(packet):
            self.deliver(None, contact)
        answer = await self._queue.ask(trainer, event)
        if answer is not None and self.checks.claims is not None:
            answer = Packet(self.checks.claims.signed(answer.message), answer.params)
        message = packet.message
        is_counted = packet.params is not None or isinstance(
            message, SecureSumMessage | SegmentsMessage | VerticalMessage
        )
        if is_counted and isinstance(message, JobMessage):
            key = RoundKey(message.round, PeerId(message.initiator or message.sender))
            self.traffic.received(message.trainer, key, nbytes)
        return answer

    async def _handle(self, owner: TrainerId | None, event: Event) -> Answered:
        owned = self.core.hear(owner, event)
        if owner is None:
            self._reachability.count(self.core.members.alive)
        self._history.note(owner, event)
        if self.leave_one_out.is_on:
            self.leave_one_out.note()
        return await self._performer.perform(self._history.measured(owned), (owner, event))
