"""Simulated meshes of vertical jobs: real cores, commit queues and small models; clock and network are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from flnet.compute.vertical import (
    VerticalHost,
    asked_outputs,
    asked_prediction,
    done,
    opened,
    outputs_computed,
    prediction_computed,
)
from flnet.errors import PeerError, TrainerError
from flnet.node.core import NodeCore
from flnet.node.performer import restored_of
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import ComputeOutputs, ComputePrediction, Effect, OpenEpoch, Talk, TellPrediction
from flnet.protocol.events import Event, MeshStarted, PredictionNotComputed, Prepared, VerticalFailed
from flnet.protocol.messages import Peer
from flnet.rounds.settings import Waits
from flnet.rounds.vertical_job import VerticalJob
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import Ledger
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from tests.algorithms.vertical.holders import People
from tests.node.vertical_mesh import HasHosts

WAITS = Waits(average=8, margin=1, start=2, claims=9)
COMPUTING = 0.02  # seconds of one turn


class NoLedger(Ledger):
    """The invariants of common rounds are no invariants of epochs."""

    def stepped(self, job: object) -> None: ...

    def entered_round(self, node: PeerId, number: int) -> None: ...

    def restarted(self, node: PeerId, saved: object, *, ran_without_disk: bool = False) -> None: ...


class VerticalNode(SimulatedNode):
    """A holder; its conversation runs at once, and ends a moment later."""

    host: VerticalHost

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        if isinstance(effect, TellPrediction):
            self._environment.predictions.setdefault(self.id, []).append(effect)  # type: ignore[attr-defined]
            return
        if not isinstance(effect, OpenEpoch | Talk | ComputeOutputs | ComputePrediction):
            super()._perform(owner, effect)
            return
        event = self._turn(effect) if isinstance(effect, OpenEpoch | Talk) else self._prediction(effect)
        self._environment.clock.after(COMPUTING * self.slowness, lambda: self.tell(TRAINER, event))

    def _turn(self, effect: OpenEpoch | Talk) -> Event:
        try:
            if isinstance(effect, OpenEpoch):
                return done(self.host.open(opened(effect, self.id)), effect.session)
            received: Sequence[Any] = [
                {"sender": peer, "part": part.as_dict(), "arrays": arrays}
                for peer, part, arrays in effect.received
            ]
            return done(self.host.go_on(effect.session, received), effect.session)
        except (TrainerError, PeerError) as exc:
            return VerticalFailed(effect.session, str(exc))

    def _prediction(self, effect: ComputeOutputs | ComputePrediction) -> Event:
        try:
            if isinstance(effect, ComputeOutputs):
                return outputs_computed(effect, self.host.outputs(asked_outputs(effect)))
            return prediction_computed(effect, self.host.prediction(asked_prediction(effect, self.id)))
        except (TrainerError, PeerError) as exc:
            return PredictionNotComputed(effect.asker, effect.session, str(exc))

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """Handle an event, and look at what has ended then."""
        super().tell(owner, event)
        environment = self._environment
        assert isinstance(environment, VerticalCluster)
        if not self.is_dead:
            environment.look(self)


class VerticalCluster(Cluster):
    """Holders of columns.

    Attributes:
        people: whose columns the nodes have, if no others are given.
        reports: of each epoch, by which the label holder has ended it.
        predictions: how those ended that a node asked for.
    """

    def __init__(
        self,
        seed: int,
        nodes: Sequence[str] = ("n00", "n01", "n02"),
        label: str = "n01",
        people: HasHosts | None = None,
    ) -> None:
        self.people = People(nodes, (label,), common=24)
        self._people = people or self.people
        for table in self.people.tables.values():
            table.in_flight = 1 + seed % 4
        self.reports: dict[int, Any] = {}
        self.predictions: dict[PeerId, list[TellPrediction]] = {}
        super().__init__(len(nodes), seed, Faults(), WAITS, ledger=NoLedger())

    def add(self, me: Peer, accepts: Sequence[str] = ()) -> SimulatedNode:
        self._runs += 1
        core = NodeCore(me, [TRAINER], WAITS, rng=Random(self._runs), run=f"run{self._runs}", vertical=[TRAINER])
        node = VerticalNode(core, self)
        node.host = self._people.hosts()[me.id]
        self.nodes[node.id] = node
        self.network.nodes[node.address] = node
        return node

    def begin(self) -> None:
        """Start all nodes."""
        addresses = list(self.network.nodes)
        for node in self.nodes.values():
            node.tell(TRAINER, self.loaded(node))
            node.tell(None, MeshStarted(tuple(addresses[:1])))

    def loaded(self, node: SimulatedNode) -> Event:
        """The event of a trainer that has been loaded."""
        return Prepared(self._people.hosts()[node.id].declared(3), Params())

    def back(self, dead: SimulatedNode) -> None:
        """Start a killed node again, with its disk."""
        node = self.add(dead.core.me)
        node.saved = dead.saved
        if node.saved.snapshot:
            node.tell(TRAINER, restored_of(node.saved))
        node.tell(None, MeshStarted(tuple(a for a in self.network.nodes if a != node.address)))
        node.tell(TRAINER, self.loaded(node))

    def job(self, name: str) -> VerticalJob:
        """The job of a node."""
        job = self.nodes[PeerId(name)].job
        assert isinstance(job, VerticalJob)
        return job

    def look(self, node: SimulatedNode) -> None:
        """No batch is trained twice by one side and once by the other: an epoch ends once, with the same models."""
        job = node.job
        assert isinstance(job, VerticalJob)
        for epoch, ended in job.models.ended.items():
            if ended.report is not None:
                assert self.reports.setdefault(epoch, ended.report) == ended.report, (node.id, epoch)
        closed = job.models.ended.get(job.models.closed)
        if closed is not None and job.models.closed in self.reports:
            bottoms = self.reports[job.models.closed].bottoms  # the key holder of an encrypted regression has none
            assert bottoms.get(node.id) == closed.bottom, (node.id, job.models.closed)
