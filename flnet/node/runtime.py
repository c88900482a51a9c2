"""The running node: one queue, one consumer, and the views that people see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import flnet
from flnet.blob import Blob
from flnet.errors import NotComparable, NotReady, PeerError, UnknownPath
from flnet.events import Event, Leaving, MeshStarted, PeerForgotten
from flnet.fingerprints import short
from flnet.jobs import Phase
from flnet.membership.naming import NameTaken
from flnet.messages import EditHyperParams, JobMessage, Packet, Peer
from flnet.node.base import Body, Download, FeedItem, Order, Points, Question, View
from flnet.node.chronicle import Chronicle
from flnet.node.core import NodeCore
from flnet.node.desk import Desk
from flnet.node.diary import Diary
from flnet.node.discretion import for_peers
from flnet.node.distances import Distances
from flnet.node.door import Door, check_speaker, check_trusted
from flnet.node.feed import RingFeed
from flnet.node.gains import Gains
from flnet.node.gate import Gate
from flnet.node.histories import Histories
from flnet.node.importing import Imports
from flnet.node.introductions import Introductions
from flnet.node.line import Answered
from flnet.node.mailbox import Mailbox
from flnet.node.merging import edit_of
from flnet.node.perform import Performer
from flnet.node.readiness import readiness
from flnet.node.scheduling import Schedules
from flnet.node.shelf import Shelf
from flnet.node.spare import IDLE_SECONDS, SpareMemory, give_back_when_idle
from flnet.node.survey import Survey
from flnet.node.translate import KINDS, ORDERS, STATUS
from flnet.node.trust import Trust
from flnet.node.watching import Watch
from flnet.node.wire import Wire
from flnet.params import Digest, PeerId, RoundKey, TrainerId
from flnet.signing.refusals import Pending
from flnet.store import Store
from flnet.training import Pool
from flnet.transport import Reply, Transport

LEAVE_SECONDS = 5.0  # for what is on its way when this node is asked to end


class NodeRuntime:
    """A node that runs: takes messages, feeds the core, performs effects. Made by `build`."""

    imports: Imports
    schedules: Schedules
    gains: Gains
    watch: Watch | None = None  # of folders into which people drop files
    door: Door | None = None  # of a mesh with a key
    trust: Trust | None = None  # of a pinned mesh

    def __init__(
        self,
        core: NodeCore,
        make_performer: Callable[[NodeRuntime], Performer],
        *,
        wire: Wire,
        transport: Transport,
        store: Store,
        pool: Pool,
        shelf: Shelf,
        desk: Desk,
        chronicle: Chronicle,
        spare: SpareMemory,
        bootstrap: Sequence[str] = (),
    ) -> None:
        """Args:
        make_performer: who carries out what the core asks for.
        """
        self.me: Peer = core.me
        self.core = core
        self.feed = RingFeed(time.time)
        self._diary = Diary(self.feed, store)
        self._wire, self._transport, self._store, self._pool = wire, transport, store, pool
        self._shelf, self._desk, self.studies, self._spare = shelf, desk, desk, spare
        self._chronicle, self.traffic = chronicle, chronicle.traffic
        self.distances = Distances()
        self._survey = Survey(transport, self.peers, self.distances)
        self._histories, self._bootstrap = Histories(transport), tuple(bootstrap)
        self.gate = Gate(core.me.id, time.monotonic, self.feed.publish)
        self._mailbox = Mailbox(self._handle, lambda words: self.feed.publish("fault", words, data={}))
        self._progress: dict[TrainerId, Mapping[str, int]] = {}
        self._performer = make_performer(self)
        self._beside: list[asyncio.Task[None]] = []  # what looks after this node from time to time

    async def start(self) -> None:
        """Load the trainers, and announce this node to its bootstrap peers; returns at once."""
        await self._diary.begin()
        if self.trust is not None:
            await self.trust.begin()
        self._mailbox.start()
        for trainer in self.core.jobs:
            self._performer.prepare(trainer)
        remembered = tuple(await self._performer.keeper.addresses())
        keys = tuple((PeerId(peer), key) for peer, key in self._performer.keeper.keys.items())
        self.deliver(None, MeshStarted(self._bootstrap, remembered, keys))
        beside: list[Coroutine[Any, Any, None]] = [self.schedules.keep(), self._diary.write(), self.gains.run()]
        beside.append(give_back_when_idle(self._spare, self._is_busy, IDLE_SECONDS))
        if self.trust is not None:
            beside.append(Introductions(self.trust, self._transport, self.peers).run())
        beside += [self.watch.keep()] if self.watch else []
        self._beside = [asyncio.create_task(one) for one in beside]

    async def leave(self) -> None:
        """Tell the peers that this node goes, and let what is on its way arrive, for LEAVE_SECONDS at most."""
        await self._mailbox.ask(None, Leaving())
        await self._performer.settle(LEAVE_SECONDS)

    async def stop(self) -> None:
        """End everything; waiting callers get an error, watchers of the feed their end."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._mailbox.stop()
        await self._performer.close()
        self.feed.close()
        await self._diary.end()
        await self._pool.close()
        await self._transport.close()
        await self._store.close()

    def deliver(self, owner: TrainerId | None, event: Event) -> None:
        """Put an event on the queue; from the event loop's own thread only."""
        self._mailbox.put(owner, self.gate.heard(event, self.core.members.address_of))

    def on_progress(self, trainer: TrainerId, done: int, total: int) -> None:
        """Note how far a local training is; may be called from any thread."""
        self._progress[trainer] = {"done": done, "total": total}

    def body_limit(self, path: str) -> int:
        """How many bytes a request to this path may have: what the largest model here needs, as JSON."""
        return self._wire.body_limit(path)

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Look at the first bytes of a large body."""
        try:
            return self._wire.inspect(path, content_type, head, total)
        except PeerError as exc:
            self.gate.tell_refused(f"a request to {path} was refused by its head: {exc}")
            raise

    async def held(self, digest: str, codings: Collection[str] = ()) -> Blob:
        """The parameters of this digest."""
        return await self._wire.held(digest, codings)

    def gave(self, digest: str, nbytes: int) -> None:
        """Count what was handed out for the round that its job is in."""
        found = self.core.find(Digest(digest))
        key = self.core.jobs[found[0]].state.key if found else None
        if found and key is not None:
            self.traffic.sent(found[0], key, nbytes)

    async def receive(self, path: str, body: Body, content_type: str, caller_ip: str, signer: str = "") -> Reply:
        """Take one POSTed message and answer it; see `flnet.node.base.Node`."""
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
                self.gate.tell_refused(f"a request from {caller_ip} to {path} was refused: {exc}", caller_ip)
            raise
        status = STATUS.get(path, 200)
        if answer is None:
            return Reply(status, b"{}", "application/json")
        answered, form = await self._wire.write(answer)
        return Reply(status, bytes(answered), form)

    async def edit_hyper_params(self, trainer: TrainerId, changes: EditHyperParams) -> View:
        """Change hyper-parameters; the job's view afterwards."""
        self.core.job(trainer)
        await self._mailbox.ask(trainer, edit_of(changes))
        return self.job(trainer)

    async def steer(self, trainer: TrainerId, order: Order) -> View:
        """End a series, pause or resume; the job's view afterwards."""
        self.core.job(trainer)
        await self._mailbox.ask(trainer, ORDERS[order])
        return self.job(trainer)

    async def plan(self, trainer: TrainerId, when: str | None) -> View:
        """Give a job a schedule; the job's view afterwards."""
        await self._mailbox.ask(trainer, self.schedules.plan(trainer, when))
        return self.job(trainer)

    def info(self) -> View:
        """GET /info."""
        return {
            "iAm": self.me.fields(),
            **{"fingerprint": short(self.core.members.key), "key": self.core.members.key or ""},
            "jobsInfo": [for_peers(self.job(trainer)) for trainer in self.core.jobs],
            "mode": self.trust.mode if self.trust else "keyed" if self.door else "open",
            "lastNodeStatus": "BUSY" if self._is_busy() else "IDLE",
            "peers": list(self.peers()),
            "version": flnet.__version__,
        }

    def job(self, trainer: TrainerId) -> View:
        """The job's view, with the progress of a training that runs."""
        job = self.core.job(trainer)
        progress = self._progress.get(trainer) if job.phase is Phase.TRAINING else None
        return {**job.view(), "schedule": self.schedules.view(trainer), "progress": progress}

    def history(self, trainer: TrainerId) -> Sequence[View]:
        """The records of the newest rounds, oldest first, with the seconds and bytes that they took."""
        return self._chronicle.newest(trainer)

    async def records(self, trainer: TrainerId, last: int | None = None) -> Sequence[View]:
        """The records of the newest `last` rounds, or of all that are kept, oldest first."""
        return await self._chronicle.records(trainer, last)

    async def events(self) -> Sequence[FeedItem]:
        """What happened, as far back as it is kept, oldest first."""
        return await self._diary.all()

    async def models(self, trainer: TrainerId) -> Sequence[View]:
        """The models that are kept."""
        return await self._shelf.views(trainer)

    async def restore(self, trainer: TrainerId, digest: str) -> View:
        """Go back to a model that is kept."""
        await self._mailbox.ask(trainer, await self._shelf.way_back(trainer, digest))
        return self.job(trainer)

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        """Keep a model until it is unpinned, or let it go in its turn."""
        return await self._shelf.pin(trainer, digest, pinned)

    async def predict(self, trainer: TrainerId, question: Question) -> View:
        """What the model says of inputs."""
        return await self._desk.predict(trainer, question)

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        """The model as a file."""
        return await self._desk.export(trainer, digest, form, same_machine=same_machine)

    async def card(self, trainer: TrainerId, digest: str) -> Download:
        """What is known of the model."""
        return await self._desk.card(trainer, digest)

    def peers(self) -> Sequence[View]:
        """The other nodes."""
        return [{**peer, "rtt_ms": self.distances.rtt_ms(peer["id"])} for peer in self.core.members.view()]

    async def forget(self, peer: str) -> Sequence[View]:
        """Forget a peer, so that its name is free; those that are left."""
        await self._mailbox.ask(None, PeerForgotten(PeerId(peer)))
        return self.peers()

    async def peer_infos(self) -> Sequence[View]:
        """What the peers say of themselves."""
        return await self._survey.get()

    async def peer_rounds(self, trainer: TrainerId) -> Mapping[str, Points]:
        """Accuracies on the peers by round."""
        return await self._histories.get(trainer, await self._survey.get())

    def ready(self) -> View:
        """Whether the mesh is joined and data are loaded, and if not, why."""
        return readiness(self.core, self._bootstrap, self._performer.keeper.trouble)

    def _is_busy(self) -> bool:
        return any(job.busy for job in self.core.jobs.values())

    async def _take(self, packet: Packet, nbytes: int, caller_ip: str, signer: str) -> Packet | None:
        check_speaker(self.core.members, packet.message, signer)
        trainer, event = self.core.read(packet, caller_ip)
        event = self.gate.admit(packet.message, event, caller_ip)
        check_trusted(self.trust, packet.message, event, signer, self.me.id)
        for contact in self.core.contacts(packet):
            self.deliver(None, contact)
        answer = await self._mailbox.ask(trainer, event)
        message = packet.message
        if packet.params is not None and isinstance(message, JobMessage):
            key = RoundKey(message.round, PeerId(message.initiator or message.sender))
            self.traffic.received(message.trainer, key, nbytes)
        return answer

    async def _handle(self, owner: TrainerId | None, event: Event) -> Answered:
        owned = self.core.hear(owner, event)
        self._chronicle.note(owner, event)
        self.gains.note()
        return await self._performer.perform(self._chronicle.measured(owned), (owner, event))
