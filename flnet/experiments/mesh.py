"""One cell as a mesh: the nodes' own jobs, membership and merging rule, in virtual time and over memory.

What the nodes are is `flnet.simulation`, without faults. Only their work is done otherwise: a training or a
measurement that falls due stops the mesh, with all others that were begun before; whoever drives it has them done,
those of several meshes at once if it likes, and lets it go on. So the number of nodes that are trained as one
computation changes nothing about who hears what when.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from flnet.effects import Average, Evaluate, Train
from flnet.errors import LocalError
from flnet.events import (
    AnnounceReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    MeshStarted,
    Prepared,
    RoundTriggered,
    Trained,
    TrainingFailed,
)
from flnet.experiments.assault import WEIGHT, Assault, DeceivedLedger, TwoFacedCalls
from flnet.experiments.base import Cell, Outcome
from flnet.experiments.learners import Learner, Order
from flnet.experiments.remembering import remembered, remembering
from flnet.jobs import Rules, Waits
from flnet.membership import Pauses
from flnet.node.lane import round_seed
from flnet.node.merging import strategy_for
from flnet.params import Params, PeerId, TrainerId
from flnet.policies import Participation
from flnet.screening import Bounds
from flnet.simulation import TRAINER, Cluster, Weather
from flnet.simulation.node import SimulatedNode
from flnet.training.api import Task
from flnet.training.method import Choice
from flnet.vectors import distance

# Longer than it takes until all nodes heard of a round, so that all that they will do is begun before any ends.
WORK_SECONDS = 5.0
FORMING_SECONDS = 60.0
LONGEST = 1e9  # seconds of virtual time; nobody waits for them
WAITS = Waits(average=600.0, margin=5.0, start=60.0, claims=600.0)
QUIET = Pauses(tick=30.0)  # nobody dies here, so nobody need be looked after
FIGURES = (("before", "pre_fedavg_accuracy"), ("after", "post_fedavg_accuracy"))
FEW = 5  # rounds
Record = dict[str, Any]


class Mesh(Cluster):
    """The nodes of one cell; `advance` and `go_on` in turn take them through their rounds."""

    def __init__(self, cell: Cell, learners: Sequence[Learner]) -> None:
        """Args:
        learners: one for each node, in the order of the nodes.
        """
        self.cell = cell
        setup = cell.setup
        participation = Participation(setup.participation, setup.min_participants)
        weather = Weather(digests=1.0)
        super().__init__(len(learners), cell.seed, weather, WAITS, QUIET, rules=Rules(participation))
        own = learners[0].declaration.merging if learners else ""
        self.strategy = remembering(strategy_for(own or setup.aggregation))
        self.bounds, self.measure = Bounds(setup.max_update_norm), remembered(distance)
        self.learners = dict(zip(self.nodes, learners, strict=True))
        self.records: dict[PeerId, list[Record]] = {name: [] for name in self.nodes}
        self.failures: dict[PeerId, str] = {}
        self._begun: list[tuple[SimulatedNode, Train | Evaluate, Order]] = []  # and nothing of it is done
        self._ends: dict[int, Event] = {}  # by the order's identity, from when it is done until its node hears it
        self._is_due = self._is_asked = False
        attack = setup.attack if setup.kind == "federated" else ""
        self.assault = Assault(attack, setup.hostile, list(self.nodes), cell.seed)
        self.assault.poison(self.learners)
        if self.assault.deceives:
            self.ledger = DeceivedLedger()
            self.calls = TwoFacedCalls(self.network, self.ledger, self.assault)

    @property
    def done(self) -> float:
        """The part of all rounds that is over, in [0, 1]."""
        return min(map(len, self.records.values())) / self.cell.setup.rounds

    def name_of(self, number: int) -> str:
        """With the seed, so that others train in its rounds than in those of another seed."""
        return f"n{number:03}-{self.cell.seed}"

    def advance(self) -> list[Order]:
        """Let things happen until work falls due; all of it that was begun, or nothing if all rounds are over.

        Raises:
            LocalError: the rounds do not end.
        """
        if not self._is_asked:
            self._form()
        self.clock.run(lambda: self._is_due or self._is_over(), LONGEST)
        self._collect()
        if not self._is_due and not self._is_over():
            raise LocalError(f"rounds do not end on {', '.join(self.busy()) or 'any node'}")
        self._begun.sort(key=lambda begun: begun[0].id)  # not as they came: what is summed in one go has one order
        return [order for _, _, order in self._begun] if self._is_due else []

    def go_on(self) -> None:
        """All that `advance` gave is done."""
        crafted = self._crafted()
        for node, effect, order in self._begun:
            self._ends[id(order)] = self._end(node, effect, order, crafted.get(node.id))
        self._begun.clear()
        self._is_due = False

    def outcome(self) -> Outcome:
        """What came of the rounds."""
        last = max(map(len, self.records.values()))
        if not last or self.failures:
            why = "; ".join(f"{name}: {words}" for name, words in list(self.failures.items())[:3])
            return Outcome(rounds=last, reason=why or "no round came about", data=self._data())
        ends_alone = self.cell.setup.kind == "lone"  # after rounds of its own number
        newest = [
            self._last_figures(name, records if records and (ends_alone or len(records) == last) else [])
            for name, records in self.records.items()
        ]
        names = sorted({name for figures in newest for name in figures})
        return Outcome(
            rounds=last,
            figures={name: tuple(figures.get(name) for figures in newest) for name in names},
            curves={name: self._curve(name, last) for name in self.cell.setup.curves},
            examples=tuple(records[-1].get("examples") if records else None for records in self.records.values()),
            bytes=sum(self.network.moved.values()),
            data=self._data(),
        )

    def begins(self, node: SimulatedNode, owner: TrainerId | None, effect: Train | Average | Evaluate) -> None:
        """A training or a measurement waits for all others; an average is the simulation's."""
        if isinstance(effect, Average):
            node.shelf.clear()  # nobody goes back to a model here
            super().begins(node, owner, effect)
            return
        order = self._order(node, effect)
        self._begun.append((node, effect, order))
        self.clock.after(WORK_SECONDS, lambda: self._falls_due(node, owner, order))

    def _form(self) -> None:
        """Let the nodes find each other, and the first one (of lone nodes each) be asked for rounds."""
        self._is_asked = True
        setup, first = self.cell.setup, next(iter(self.nodes.values()))
        is_one = setup.kind == "federated"
        for name, node in self.nodes.items():
            learner = self.learners[name]
            node.tell(TRAINER, Prepared(learner.declaration, learner.initial))
            node.tell(None, MeshStarted(()))
        if is_one:
            _introduce(self.nodes.values())
        self.run_for(FORMING_SECONDS)
        self.network.moved.clear()
        for node in [first] if is_one else self.nodes.values():
            defaults = self.learners[node.id].declaration.defaults
            said = {"e": setup.epochs, "u": setup.rate, "b": setup.batch}
            hyper = defaults.model_copy(update={name: value for name, value in said.items() if value is not None})
            node.hear(TRAINER, RoundTriggered(setup.rounds, hyper, until=setup.until))

    def _order(self, node: SimulatedNode, effect: Train | Evaluate) -> Order:
        learner = self.learners[node.id]
        if effect.hyper is None:
            return Order(learner, effect.params)
        seed = round_seed(self.cell.seed, effect.key, node.id)
        task = Task(effect.params, effect.hyper, seed, round=effect.key.number)
        return Order(learner, effect.params, task, is_personal=isinstance(effect, Evaluate))

    def _falls_due(self, node: SimulatedNode, owner: TrainerId | None, order: Order) -> None:
        if id(order) in self._ends:
            node.tell(owner, self._ends.pop(id(order)))
            return
        self._is_due = True
        self.clock.after(0.0, lambda: self._falls_due(node, owner, order))

    def _crafted(self) -> Mapping[PeerId, Params]:
        """What hostile nodes send in place of what they learnt, in the round whose trainings were begun."""
        trained = {
            node.id: (effect, Params(order.fit.params))
            for node, effect, order in self._begun
            if isinstance(effect, Train) and order.fit is not None and not order.failure
        }
        if not self.assault.hostile & trained.keys():
            return {}
        bases = {name: effect.params for name, (effect, _) in trained.items()}
        learnt = {name: params for name, (_, params) in trained.items()}
        number, model = next(iter(trained.values()))[0].key.number, next(iter(self.nodes.values())).job.state.model
        assert model is not None
        return self.assault.crafted(number, bases, learnt, model.schema)

    def _end(
        self, node: SimulatedNode, effect: Train | Evaluate, order: Order, crafted: Params | None = None
    ) -> Event:
        if order.sits_out:
            return TrainingFailed(effect.key, order.failure, is_choice=True)
        if order.failure or order.score is None:
            self.failures.setdefault(node.id, order.failure or "its model was not measured")
            if isinstance(effect, Train):
                return TrainingFailed(effect.key, order.failure)
            return EvaluationFailed(effect.key, effect.shared.digest, order.failure)
        score = order.score
        if isinstance(effect, Evaluate):
            metrics = {**score.metrics, **self.assault.success(order.learner, order.params)}
            accuracy, digest = score.accuracy, effect.shared.digest
            return Evaluated(effect.key, digest, accuracy, score.examples, metrics, order.private)
        assert order.fit is not None
        figures = (order.fit.examples, score.accuracy, order.fit.labels, 0.0)
        learnt = Params(order.fit.params) if crafted is None else crafted
        return Trained(effect.key, learnt, *figures, metrics={**order.fit.metrics, **score.metrics})

    def _is_over(self) -> bool:
        if self._open_rounds:
            return False
        states = [node.job.state for node in self.nodes.values()]
        return not any(node.job.busy for node in self.nodes.values()) and not any(
            state.rounds_left or state.pursuit.series for state in states
        )

    def _collect(self) -> None:
        """Take the records of rounds that are over; a job holds only the newest ones."""
        for name, node in self.nodes.items():
            known = self.records[name]
            after = known[-1]["round"] if known else -1
            known += [dict(record.view()) for record in node.job.state.history if record.key.number > after]

    def _curve(self, name: str, rounds: int) -> tuple[tuple[float | None, ...], ...]:
        found = []
        for node, records in self.records.items():
            course = [self._figures(node, record).get(name) for record in records]
            found.append((*course, *[None] * (rounds - len(course))))
        return tuple(found)

    def _figures(self, node: PeerId, record: Record) -> dict[str, float | None]:
        """All figures of a round; of honest nodes alone, and with the weight that hostile ones had there."""
        if node in self.assault.hostile:
            return {}
        found, weight = _figures(record), self.assault.weight(record.get("weighed") or {})
        answers = _answered(found, self.cell.setup.model_choice) if self.cell.setup.method.kind != "none" else {}
        return {**found, **answers, **({} if weight is None else {f"after.{WEIGHT}": weight})}

    def _last_figures(self, node: PeerId, records: Sequence[Record]) -> dict[str, float | None]:
        """Those of the last round; of hostile nodes' weight the mean of the last few, for it goes up and down."""
        found = self._figures(node, records[-1] if records else {})
        few = [self._figures(node, record).get(f"after.{WEIGHT}") for record in records[-FEW:]]
        weights = [weight for weight in few if weight is not None]
        return {**found, f"after.{WEIGHT}": fmean(weights)} if weights else found

    def _data(self) -> str:
        return str(next(iter(self.learners.values())).declaration.data.get("source", ""))


def _introduce(nodes: Iterable[SimulatedNode]) -> None:
    """Have each node hear each other one announce itself.

    Nodes that are told of one peer come to know all others, too, but by messages that each name all nodes: the
    third power of them. How a mesh forms decides none of an experiment's numbers.
    """
    everyone = list(nodes)
    for node, other in itertools.permutations(everyone, 2):
        node.tell(None, AnnounceReceived(other.core.me, accepts=frozenset(other.core.members.accepts or ())))


def _answered(figures: Mapping[str, float | None], choice: Choice) -> dict[str, float | None]:
    """Accuracies of the model that answers: the chosen one, or of two models the one that was asked for."""
    kinds = {"by-input": ("chosen_", "local_"), "local": ("local_",), "global": ("",)}[choice]
    found: dict[str, float | None] = {}
    for name in ("accuracy", "global_accuracy"):
        there = [figures[one] for kind in kinds if (one := f"after.{kind}{name}") in figures]
        found |= {f"after.answered_{name}": number for number in there[:1]}
    return found


def _figures(record: Record) -> dict[str, float | None]:
    """All figures of a round by name: "before.accuracy", "after.f1_macro"; without those that are not finite."""
    found: dict[str, float | None] = {}
    for when, accuracy in FIGURES:
        if record.get(accuracy) is not None:
            found[f"{when}.accuracy"] = record[accuracy]
        metrics = record.get("metrics", {}).get(when, {})
        found |= {f"{when}.{name}": float(value) for name, value in metrics.items() if abs(value) < 1e300}
    return found
