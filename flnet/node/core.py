"""The logic of a whole node without any I/O: events go to the membership and the jobs, and effects come out.

The running node and the simulation both drive this class; they differ only in who performs the effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple

from flnet.errors import IdTaken, NotAnnounced, OtherRounds, UnknownTrainer
from flnet.membership.members import Members
from flnet.membership.probing import Pauses
from flnet.membership.state import MeshState
from flnet.node.inbound import to_event
from flnet.params.params import Digest, Params, PeerId, Rng, TrainerId
from flnet.protocol.effects import Effect, TellJobs
from flnet.protocol.events import ContactMade, Event, PeerLost, PeerSeen, VerticalReceived
from flnet.protocol.messages import AskVersion, JobMessage, ModelParams, Packet, Peer, StartTraining
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.vertical import VerticalMessage
from flnet.rounds.asynchronous_job import AsynchronousJob
from flnet.rounds.base_job import AnyJob
from flnet.rounds.job import Job
from flnet.rounds.settings import JobSettings, Rules, Waits
from flnet.rounds.vertical_job import VerticalJob
from flnet.text import text

_OF_MEMBERS = (StartTraining, ModelParams, AskVersion, SecureSumMessage, SegmentsMessage, VerticalMessage)


class Owned(NamedTuple):
    """An effect, and the job that asked for it (None: the membership)."""

    owner: TrainerId | None
    effect: Effect


class NodeCore:
    """Members and jobs of one node."""

    def __init__(
        self,
        me: Peer,
        trainers: Iterable[TrainerId],
        waits: Waits | None = None,
        *,
        prune: bool = False,
        pauses: Pauses | None = None,
        rng: Rng | None = None,
        accepts: Sequence[str] = (),
        folds: bool = True,
        key: str | None = None,
        rules: Rules | None = None,
        run: str = "",
        proves_keys: bool = False,
        vertical: Collection[str] = (),
        seals: bool = False,
    ) -> None:
        """Args:
        trainers: ids of the jobs.
        prune: forget peers that do not answer.
        rng: random numbers for the choice of members to probe.
        accepts: formats of parameters that this node reads besides the thesis' JSON.
        folds: whether the aggregation rule can add updates as they come.
        key: public key by which this node is known, if it keeps one.
        rules: the rules of rounds.
        run: a word that no earlier run of this node had.
        proves_keys: whether messages prove the key of their sender.
        vertical: trainers for different columns of the same rows.
        seals: whether all connections to peers are encrypted for their receiver.
        """
        rules, waits = rules or Rules(), waits or Waits()
        names_members = rules.participation.names_all
        how = (rng or Random(me.id), prune, pauses, accepts, key)
        self.members = Members(MeshState(me, *how, proves_keys=proves_keys, asks_at_once=names_members))
        usual: type[AsynchronousJob | Job] = AsynchronousJob if rules.asynchronous else Job

        def made(trainer: TrainerId) -> AnyJob:
            settings = JobSettings(me, trainer, waits, rules, folds, run, seals)
            return VerticalJob(settings) if trainer in vertical else usual(settings)

        self._made = made
        self.jobs: dict[TrainerId, AnyJob] = {trainer: made(trainer) for trainer in trainers}

    @property
    def me(self) -> Peer:
        """This node, with the address at which others reach it."""
        return self.members.me

    def add_job(self, trainer: TrainerId) -> list[Event]:
        """Add the job of a trainer that came while the node runs.

        Returns:
            What it has missed, for it to hear: the members that are there.
        """
        self.jobs[trainer] = self._made(trainer)
        return [self._seen(peer) for peer in self.members.alive]

    def job(self, trainer: str) -> AnyJob:
        """The job of this trainer.

        Raises:
            UnknownTrainer: there is none.
        """
        try:
            return self.jobs[TrainerId(trainer)]
        except KeyError:
            raise UnknownTrainer(trainer[:64], sorted(self.jobs)) from None

    def find(self, digest: Digest) -> tuple[TrainerId, Params] | None:
        """The parameters with this digest and their job, if a peer may download them here."""
        for trainer, job in self.jobs.items():
            if (params := job.find(digest)) is not None:
                return trainer, params
        return None

    def read(self, packet: Packet, caller_ip: str) -> tuple[TrainerId | None, Event]:
        """The event that a received message causes.

        Raises:
            PeerError: it is for no trainer of ours, claims to come from ourselves, or comes from a node that did
                not announce itself.
        """
        message = packet.message
        if isinstance(message, JobMessage):
            self.job(message.trainer_id)
            if message.sender == self.me.id:
                raise IdTaken(message.sender)
            self.members.check_sender(message.sender)
        trainer, event = to_event(packet, caller_ip)
        if trainer is not None:
            self.job(trainer)
        if isinstance(event, VerticalReceived) and trainer and not isinstance(self.jobs[trainer], VerticalJob):
            raise OtherRounds(text("all nodes have the same columns in this job here"))
        if isinstance(message, _OF_MEMBERS) and message.sender not in self.members.known:
            self._refuse_stranger(message, packet)
        return trainer, event

    def _refuse_stranger(self, message: JobMessage, packet: Packet) -> None:
        """Errors in the parameters are reported first, because people who try the examples by hand learn from them.

        Raises:
            ParamsRefused: they do not fit.
            NotAnnounced: the sender is no member; so it opens no round, and counts in none.
        """
        job = self.job(message.trainer_id)
        if job.held.model is not None and packet.params is not None and not isinstance(message, VerticalMessage):
            job.form_of(message).conform(packet.params)
        raise NotAnnounced(message.sender)

    def hear(self, owner: TrainerId | None, event: Event) -> list[Owned]:
        """Pass an event to a job, or (None) to the membership, and tell all jobs of peers that came or went.

        Raises:
            PeerError: it was refused; nothing changed.
        """
        if owner is not None:
            return [Owned(owner, effect) for effect in self.jobs[owner].receive(event)]
        owned = []
        for effect in self.members.receive(event):
            if isinstance(effect, TellJobs):
                owned += self._tell_jobs(effect)
            else:
                owned.append(Owned(None, effect))
        return owned

    def contacts(self, packet: Packet) -> list[Event]:
        """Note that the sender of a message is reachable, which is news if it was considered lost."""
        message = packet.message
        if not isinstance(message, JobMessage) or self.members.settled(message.sender):
            return []
        return [ContactMade(message.sender)]

    def _tell_jobs(self, effect: TellJobs) -> list[Owned]:
        peer = PeerId(effect.peer)
        news = self._seen(peer) if effect.alive else PeerLost(peer, effect.reason)
        return [Owned(trainer, e) for trainer, job in self.jobs.items() for e in job.receive(news)]

    def _seen(self, peer: PeerId) -> Event:
        return PeerSeen(peer, self.members.counts(peer), self.members.is_thesis(peer))
