"""The mesh of one cell: real jobs, membership and aggregation, in virtual time and over an in-memory network.

The nodes are those of `flnet.simulation`, without faults, but really train. A training or an evaluation that is due
stops the mesh. Its driver then carries out all the work that nodes have begun, possibly of several meshes together,
and resumes the mesh. So the order of messages does not depend on how many nodes are trained in one computation.

Some nodes may be hostile (`Attackers`). What their attack does to rows and updates stands in `flnet.experiments.attacks`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State
from flnet.aggregation.screening import Bounds, Measure
from flnet.algorithms.differential_privacy import released, words_of
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.topology import Topology
from flnet.compute.privacy_accounting import plan_of
from flnet.compute.tasks import evaluation_of, round_seed
from flnet.errors import LocalError
from flnet.experiments.attacks import Attack, backdoor_success, crafted, poisoned
from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.drift import Drift, Pool, unlikeness
from flnet.experiments.learners import Learner, Order, carry_out, changeable
from flnet.membership.probing import Pauses
from flnet.params.arithmetic import distance, norm, weighted_mean
from flnet.params.params import Digest, Params, PeerId, Schema, TrainerId
from flnet.protocol.counts import EvaluationCounts
from flnet.protocol.effects import Average, Evaluate, Send, Train
from flnet.protocol.events import (
    Evaluated,
    EvaluationFailed,
    Event,
    MeshStarted,
    Prepared,
    RoundTriggered,
    Trained,
    TrainingFailed,
)
from flnet.protocol.messages import ModelParams, Packet
from flnet.protocol.updates import NoisyRelease, RoundKey, Update
from flnet.rounds.participation import Participation
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.rounds.settings import Rules, Waits
from flnet.settings import Settings
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import Ledger
from flnet.simulation.network import FETCHED, Calls, Receiver, SimulatedNetwork
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from flnet.trainer import Choice, Score, Task

WEIGHT, OWN_WEIGHT, SUCCESS = "hostile_weight", "weight", "backdoor_success"  # names of figures
Updates = Mapping[PeerId, Params]


class Attackers:
    """The hostile nodes of one mesh, which are its last ones.

    Attributes:
        hostile: their names.
    """

    def __init__(self, attack: str, hostile: float, names: Sequence[PeerId], seed: int) -> None:
        """Args:
        attack: as for `Attack.parse`; empty for none.
        hostile: number of nodes, or their share if it is below 1.
        """
        count = round(hostile * len(names)) if hostile < 1 else int(hostile)
        self.attack = Attack.parse(attack) if attack and count else None
        self.hostile = frozenset(names[len(names) - count :] if self.attack else ())
        self._names, self._seed = tuple(names), seed

    def poison(self, learners: Mapping[PeerId, Learner]) -> None:
        """Poison the training rows of the hostile nodes, if the attack is on data.

        Raises:
            LocalError: their trainer does not let its rows be changed.
        """
        attack = self.attack
        if attack is None or not (attack.has_backdoor or attack.name == "label-flip"):
            return
        for name in sorted(self.hostile):
            trainer = changeable(learners[name])
            classes, chance = len(learners[name].trainer.data_info().classes), self._chance(name, 0)
            trainer.change_rows(lambda rows: poisoned(attack, rows, classes, chance))  # noqa: B023  called at once

    def crafted(self, number: int, bases: Updates, learnt: Updates, schema: Schema) -> Updates:
        """The updates that hostile nodes send to all others instead of those that they learnt.

        Args:
            number: of the round.
            bases: the parameters that each node began with.
        """
        if self.attack is None or self.deceives:
            return {}
        return {
            name: crafted(self.attack, bases[name], name, learnt, schema, self._chance(name, number + 1))
            for name in sorted(self.hostile & learnt.keys())
        }

    def success(self, learner: Learner, params: Params) -> Mapping[str, float]:
        """How often the backdoor works in a model, as a figure; nothing for other attacks."""
        tests = learner.trainer.tests() if self.attack is not None and self.attack.has_backdoor else {}
        if "accuracy" not in tests:
            return {}
        share = backdoor_success(lambda x: learner.trainer.predict(params, x).values, tests["accuracy"])
        return {} if share is None else {SUCCESS: share}

    def weight(self, weighed: Mapping[str, Mapping[str, Any]]) -> float | None:
        """The share that hostile nodes had in an average; None if the aggregation rule gives no weights."""
        weights = [weighed[name].get("weight") for name in self.hostile if name in weighed]
        known = [weight for weight in weights if weight is not None]
        return sum(known) if known else None

    @property
    def deceives(self) -> bool:
        """Whether hostile nodes send different updates to different peers."""
        return self.attack is not None and self.attack.name == "two-faced"

    def is_deceived(self, sender: PeerId, receiver: PeerId) -> bool:
        """Whether a two-faced sender sends this peer the flipped update, as it does to every second one."""
        if not self.deceives or sender not in self.hostile:
            return False
        others = sorted(name for name in self._names if name not in self.hostile)
        return receiver in others[1::2]

    def _chance(self, name: PeerId, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, self._names.index(name), number))


class DeceivedLedger(Ledger):
    """The invariants of a mesh with two-faced senders, where averages of equal sets may differ."""

    def averaged(self, *args: Any, **kwargs: Any) -> None:
        """Check all invariants except that one."""
        self._results.clear()
        super().averaged(*args, **kwargs)


class TwoFacedCalls(Calls):
    """Calls of a mesh in which two-faced nodes send flipped updates to some of their peers."""

    def __init__(self, network: SimulatedNetwork, ledger: Ledger, attackers: Attackers) -> None:
        super().__init__(network, ledger)
        self.attackers = attackers

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """Send a message, with a flipped update to those peers that the sender deceives."""
        message = effect.message
        deceived = [peer for peer in effect.to if self.attackers.is_deceived(node.id, peer)]
        if not deceived or not isinstance(message, ModelParams) or effect.params is None:
            super().send(node, owner, effect)
            return
        super().send(node, owner, Send(tuple(p for p in effect.to if p not in deceived), message, effect.params))
        flipped = self._flipped(node, effect.params)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        self._ledger.sent.setdefault((node.id, key), set()).add(flipped.digest)
        message = message.model_copy(update={"digest": flipped.digest})
        body = self._network.encode(Packet(message, flipped))
        for peer in deceived:
            self.send_to(node, owner, peer, message, key, body)

    def _flipped(self, node: Receiver, params: Params) -> Params:
        job, attack = node.core.jobs[next(iter(node.core.jobs))], self.attackers.attack
        model = job.held.model
        assert attack is not None
        assert model is not None
        chance = np.random.default_rng(0)  # not used by this attack
        return crafted(attack, job.screened_from, node.id, {node.id: params}, model.schema, chance)


# Longer than a round needs to reach all nodes, so that all of its work begins before any of it ends.
WORK_SECONDS = 5.0
FORMING_SECONDS = 60.0
LONGEST = 1e9  # seconds of virtual time, which cost nothing
WAITS = Waits(average=600.0, margin=5.0, start=60.0, claims=600.0)
QUIET = Pauses(tick=30.0)  # nobody dies here, so probes may be rare
FIGURES = (("before", "pre_fedavg_accuracy"), ("after", "post_fedavg_accuracy"))
_COUNTED = {f"{when}.accuracy" for when, _ in FIGURES}  # curves of which the right rows are kept
LAST_ROUNDS = 5  # over which the weight of hostile nodes is averaged
Record = dict[str, Any]


class CellMesh(Cluster):
    """The nodes of one cell; `advance` and `resume` in turn take them through their rounds."""

    def __init__(
        self,
        cell: Cell,
        learners: Sequence[Learner],
        parts: Sequence[Learner] = (),
        left_out: Sequence[Learner] = (),
    ) -> None:
        """Args:
        learners: one for each node, in order.
        parts: for a central node, those whose training rows it learns from and on whose test rows it is measured.
        left_out: nodes on whose test rows the common model is measured instead.
        """
        self.cell = cell
        setup = cell.setup
        participation = Participation(setup.participation, setup.min_participants)
        faults = Faults(digests=1.0)
        self.plan = planned(setup.privacy, setup.rounds) if setup.kind == "federated" else None
        topology = Topology.read(setup.topology if setup.kind == "federated" else "mesh")
        participation = replace(participation, names_all=topology.kind != "mesh")
        rules = Rules(participation, privacy=self.plan, topology=topology)
        super().__init__(len(learners), cell.seed, faults, WAITS, QUIET, rules=rules)
        own = learners[0].declaration.merging if learners else ""
        self.strategy = cached_rule(parse_rule(own or setup.aggregation))
        self.bounds, self.measure = Bounds(setup.max_update_norm), cached_measure(distance)
        self.learners = dict(zip(self.nodes, learners, strict=True))
        self.records: dict[PeerId, list[Record]] = {name: [] for name in self.nodes}
        self.failures: dict[PeerId, str] = {}
        self._begun: list[tuple[SimulatedNode, Train | Evaluate, Order]] = []  # work that is not done yet
        self._accuracies: dict[tuple[PeerId, Digest], float] = {}  # that nodes measured on their test rows
        # Of test rows, by model ("before" and "after"), node and round.
        self._counts: dict[tuple[str, PeerId, int], EvaluationCounts] = {}
        self._results: dict[int, Event] = {}  # of work that is done, by id of its order, until its node is told
        self._is_due = self._is_formed = False
        attack = setup.attack if setup.kind == "federated" else ""
        self.attackers = Attackers(attack, setup.hostile, list(self.nodes), cell.seed)
        self.attackers.poison(self.learners)
        self._elsewhere = list(left_out or parts)  # where the common model is measured, if not at the nodes
        self.drift = Drift(setup.drift, parts or learners, setup.rounds, cell.seed)
        self._pool = Pool(learners[0], parts, self.drift) if parts else None
        self._at_others: list[list[dict[str, float | None]]] = []  # by round, the figures there
        self._counts_at_others: list[list[EvaluationCounts | None]] = []  # likewise
        if self.attackers.deceives:
            self.ledger = DeceivedLedger()
            self.calls = TwoFacedCalls(self.network, self.ledger, self.attackers)

    @property
    def done(self) -> float:
        """The part of the rounds that is done, in [0, 1]."""
        return min(map(len, self.records.values())) / self.cell.setup.rounds

    def accuracy_of(self, node: PeerId, digest: Digest) -> float:
        """The accuracy that a node has measured of a model on its test rows."""
        return self._accuracies[node, digest]

    def name_of(self, number: int) -> str:
        """The id of a node, which contains the seed, so that other nodes train in the rounds of another seed."""
        return f"n{number:03}-{self.cell.seed}"

    def advance(self) -> list[Order]:
        """Run until work is due, and return all work that was begun; nothing if all rounds are over.

        Raises:
            LocalError: the rounds do not end.
        """
        if not self._is_formed:
            self._form()
        self.clock.run(lambda: self._is_due or self._is_over(), LONGEST)
        self._collect()
        if not self._is_due and not self._is_over():
            raise LocalError(f"rounds do not end on {', '.join(self.busy()) or 'any node'}")
        self._begun.sort(key=lambda begun: begun[0].id)  # a fixed order, in which sums are computed
        return [order for _, _, order in self._begun] if self._is_due else []

    def resume(self) -> None:
        """Take the results of the work that `advance` returned."""
        crafted = self._crafted()
        for node, effect, order in self._begun:
            self._results[id(order)] = self._result(node, effect, order, crafted.get(node.id))
        self._begun.clear()
        self._is_due = False

    def outcome(self) -> Outcome:
        """The outcome of the rounds."""
        last = max(map(len, self.records.values()))
        if not last or self.failures:
            reason = "; ".join(f"{name}: {failure}" for name, failure in list(self.failures.items())[:3])
            return Outcome(rounds=last, reason=reason or "no round took place", data=self._data())
        ends_alone = self.cell.setup.kind == "lone"  # nodes have different numbers of rounds
        newest = [
            self._last_figures(name, records if records and (ends_alone or len(records) == last) else [])
            for name, records in self.records.items()
        ]
        if self._at_others:
            newest = self._at_others[-1]
        newest = [{**figures, **own} for figures, own in zip(newest, self._of_nodes(), strict=True)]
        names = sorted({name for figures in newest for name in figures})
        curves = self.cell.setup.curves
        return Outcome(
            rounds=last,
            figures={name: tuple(figures.get(name) for figures in newest) for name in names},
            counts=self._last_counts(last),
            curves={name: self._curve(name, last) for name in curves},
            right={name: self._right(name.partition(".")[0], last) for name in curves if name in _COUNTED},
            examples=tuple(records[-1].get("examples") if records else None for records in self.records.values()),
            bytes=sum(self.network.moved.values()),
            models=self._models(last),
            spread=self._spread(),
            data=self._data(),
        )

    def _models(self, rounds: int) -> float:
        size = next(iter(self.nodes.values())).job.held.current.shared.nbytes
        return self.network.moved[FETCHED] / (size * len(self.nodes) * rounds)

    def _spread(self) -> float:
        held = [node.job.held.current for node in self.nodes.values()]
        is_one = len({model.shared.digest for model in held}) == 1
        return 0.0 if is_one else spread_of([model.shared for model in held], held[0].schema)

    def begins(self, node: SimulatedNode, owner: TrainerId | None, effect: Train | Average | Evaluate) -> None:
        """Start a training or an evaluation, which stops the mesh when it is due; averages take virtual time only."""
        if isinstance(effect, Average):
            node.models.clear()  # not needed here
            super().begins(node, owner, effect)
            return
        self._reach(node, effect.key.number)
        order = self._order(node, effect)
        self._begun.append((node, effect, order))
        self.clock.after(WORK_SECONDS, lambda: self._due(node, owner, order))

    def _form(self) -> None:
        """Let the nodes meet, and start the rounds at the first node, or at every lone node."""
        self._is_formed = True
        setup, first = self.cell.setup, next(iter(self.nodes.values()))
        is_one = setup.kind == "federated"
        for name, node in self.nodes.items():
            learner = self.learners[name]
            node.tell(TRAINER, Prepared(learner.declaration, learner.initial))
            node.tell(None, MeshStarted(()))
        if is_one:
            self.introduce()
        self.run_for(FORMING_SECONDS)
        self.network.moved.clear()
        for node in [first] if is_one else self.nodes.values():
            defaults = self.learners[node.id].declaration.defaults
            given = {"e": setup.epochs, "u": setup.rate, "b": setup.batch}
            hyper = defaults.model_copy(update={name: value for name, value in given.items() if value is not None})
            node.hear(TRAINER, RoundTriggered(setup.rounds, hyper, until=setup.until))

    def _order(self, node: SimulatedNode, effect: Train | Evaluate) -> Order:
        learner = self.learners[node.id]
        if effect.hyper is None:
            assert isinstance(effect, Evaluate)  # every training has hyper-parameters
            return Order(learner, effect.params, split=effect.split, validates=effect.validates)
        seed = round_seed(self.cell.seed, effect.key, node.id)
        task = Task(effect.params, effect.hyper, seed, round=effect.key.number)
        if isinstance(effect, Evaluate):
            return Order(
                learner, effect.params, task, is_personal=True, split=effect.split, validates=effect.validates
            )
        return Order(learner, effect.params, task)

    def _reach(self, node: SimulatedNode, number: int) -> None:
        """Bring the rows of a node to a round."""
        if self._pool is not None:
            self._pool.reach(number)
        else:
            self.drift.reach(list(self.nodes).index(node.id), number)

    def _due(self, node: SimulatedNode, owner: TrainerId | None, order: Order) -> None:
        if id(order) in self._results:
            node.tell(owner, self._results.pop(id(order)))
            return
        self._is_due = True
        self.clock.after(0.0, lambda: self._due(node, owner, order))

    def _crafted(self) -> Mapping[PeerId, Params]:
        """The updates that hostile nodes send in the current round, in place of their own."""
        trained = {
            node.id: (effect, Params(order.fit.params))
            for node, effect, order in self._begun
            if isinstance(effect, Train) and order.fit is not None and not order.failure
        }
        if not self.attackers.hostile & trained.keys():
            return {}
        bases = {name: effect.params for name, (effect, _) in trained.items()}
        learnt = {name: params for name, (_, params) in trained.items()}
        number, model = next(iter(trained.values()))[0].key.number, next(iter(self.nodes.values())).job.held.model
        assert model is not None
        return self.attackers.crafted(number, bases, learnt, model.schema)

    def _result(
        self, node: SimulatedNode, effect: Train | Evaluate, order: Order, crafted: Params | None = None
    ) -> Event:
        if order.sits_out:
            return TrainingFailed(effect.key, order.failure, is_choice=True)
        if order.failure or order.score is None:
            self.failures.setdefault(node.id, order.failure or "its model was not evaluated")
            if isinstance(effect, Train):
                return TrainingFailed(effect.key, order.failure)
            return EvaluationFailed(effect.key, effect.shared.digest, order.failure, effect.split)
        score = order.score
        if score.counts is not None and (isinstance(effect, Train) or effect.split == "test"):
            # The average is the first one that is measured in a round; models that could be adopted come after it.
            when = "before" if isinstance(effect, Train) else "after"
            self._counts.setdefault((when, node.id, effect.key.number), without_bins(score.counts))
        if isinstance(effect, Evaluate):
            metrics = {**score.metrics, **self.attackers.success(order.learner, order.params)}
            measured = (score.accuracy, score.examples, metrics)
            if effect.split == "test":
                self._accuracies[node.id, effect.shared.digest] = score.accuracy
                self._measure_elsewhere(node.id, order.params)
            return Evaluated(
                effect.key, effect.shared.digest, *measured, order.private, score.split, *evaluation_of(score)
            )
        assert order.fit is not None
        figures = (order.fit.examples, score.accuracy, order.fit.labels, 0.0)
        learnt = Params(order.fit.params) if crafted is None else crafted
        shared, release = self._private(node, effect, learnt)
        metrics = {**order.fit.metrics, **score.metrics}
        return Trained(effect.key, learnt, *figures, metrics=metrics, shared=shared, release=release)

    def _measure_elsewhere(self, node: PeerId, params: Params) -> None:
        """Measure the common model, which the first node has like all others, on the test rows of other nodes."""
        if not self._elsewhere or node != next(iter(self.nodes)):
            return
        orders = [Order(learner, params) for learner in self._elsewhere]
        carry_out(orders)
        for failure in {order.failure for order in orders if order.score is None}:
            self.failures.setdefault(node, failure)
        scores = [order.score for order in orders]
        self._at_others.append([{} if score is None else _after(score) for score in scores])
        counts = [None if score is None else score.counts for score in scores]
        self._counts_at_others.append([None if of_node is None else without_bins(of_node) for of_node in counts])

    def _of_nodes(self) -> list[dict[str, float | None]]:
        """The figures by which nodes are grouped."""
        infos = [learner.trainer.data_info() for learner in self._elsewhere or self.learners.values()]
        figures: list[dict[str, float | None]] = [
            {"node.rows": float(info.rows.get("train", 0)), "node.drifts": float(place in self.drift.places)}
            for place, info in enumerate(infos)
        ]
        counts = [np.array(info.counts.get("train", ())) for info in infos]
        if len({info.classes for info in infos}) == 1 and all(of.sum() for of in counts):
            for own, distance_of_all in zip(figures, unlikeness(counts), strict=True):
                own["node.unlikeness"] = distance_of_all
        return figures

    def _private(
        self, node: SimulatedNode, effect: Train, learnt: Params
    ) -> tuple[Params | None, NoisyRelease | None]:
        """What leaves a node that promises privacy, and the noise in it; nothing of both where nodes do not."""
        plan = self.plan
        if plan is None:
            return None, None
        release, schema = plan.release(effect.hyper, 0), node.job.held.schema
        place = list(self.nodes).index(node.id)
        chance = np.random.default_rng((self.cell.seed, place, effect.key.number))  # so that equal seeds are equal
        shared = learnt.select(schema.specs)
        noise = plan.privacy.clip, release.noise_multiplier, words_of(chance)
        return released(effect.params, shared, *noise), release

    def _is_over(self) -> bool:
        if self._open_rounds:
            return False
        jobs = [node.job for node in self.nodes.values()]
        return not any(job.busy or job.series.is_under_way for job in jobs)

    def _collect(self) -> None:
        """Copy the records of finished rounds, because a job keeps only the newest ones."""
        for name, node in self.nodes.items():
            known = self.records[name]
            after = known[-1]["round"] if known else -1
            known += [dict(record.view()) for record in node.job.history.records if record.key.number > after]

    def _curve(self, name: str, rounds: int) -> tuple[tuple[float | None, ...], ...]:
        if self._at_others:
            return tuple(zip(*([of.get(name) for of in others] for others in self._at_others), strict=True))
        curves = []
        for node, records in self.records.items():
            course = [self._figures(node, record).get(name) for record in records]
            curves.append((*course, *[None] * (rounds - len(course))))
        return tuple(curves)

    def _counts_of(self, when: str) -> list[list[EvaluationCounts | None]]:
        """The counts of test rows of each honest node, by round done."""
        if self._at_others:
            by_round = self._counts_at_others if when == "after" else []
            return [list(of_node) for of_node in zip(*by_round, strict=True)]
        return [
            []
            if node in self.attackers.hostile
            else [self._counts.get((when, node, record["round"])) for record in records]
            for node, records in self.records.items()
        ]

    def _last_counts(self, rounds: int) -> dict[str, tuple[EvaluationCounts | None, ...]]:
        """The counts behind the figures of the last round; none of nodes that had no part in it."""
        ends_alone = self.cell.setup.kind == "lone" or bool(self._at_others)
        counts = {
            when: tuple(
                of_node[-1] if of_node and (ends_alone or len(of_node) == rounds) else None
                for of_node in self._counts_of(when)
            )
            for when, _ in FIGURES
        }
        return {when: of_nodes for when, of_nodes in counts.items() if any(of_nodes)}

    def _right(self, when: str, rounds: int) -> tuple[tuple[tuple[int, int] | None, ...], ...]:
        """For each node and round how many test rows were right, and of how many."""
        courses = (
            [None if counts is None else (counts.right, counts.examples) for counts in of_node]
            for of_node in self._counts_of(when)
        )
        return tuple((*course, *[None] * (rounds - len(course))) for course in courses)

    def _figures(self, node: PeerId, record: Record) -> dict[str, float | None]:
        """All figures of a round on an honest node, with the weights that it and hostile nodes had in its average."""
        if node in self.attackers.hostile:
            return {}
        figures, weighed = _figures(record), record.get("weighed") or {}
        answers = _answered(figures, self.cell.setup.model_choice) if self.cell.setup.method.kind != "none" else {}
        weights = {WEIGHT: self.attackers.weight(weighed), OWN_WEIGHT: weighed.get(node, {}).get("weight")}
        known = {f"after.{name}": weight for name, weight in weights.items() if weight is not None}
        return {**figures, **answers, **known}

    def _last_figures(self, node: PeerId, records: Sequence[Record]) -> dict[str, float | None]:
        """The figures of the last round; weights, which vary, are means of the last rounds."""
        figures = self._figures(node, records[-1] if records else {})
        last = [self._figures(node, record) for record in records[-LAST_ROUNDS:]]
        for name in (f"after.{WEIGHT}", f"after.{OWN_WEIGHT}"):
            if weights := [weight for of_round in last if (weight := of_round.get(name)) is not None]:
                figures[name] = fmean(weights)
        return figures

    def _data(self) -> str:
        return str(next(iter(self.learners.values())).declaration.data.get("source", ""))


def without_bins(counts: EvaluationCounts) -> EvaluationCounts:
    """Counts without the binned scores, which are most of them."""
    return counts.model_copy(update={"positives": (), "negatives": ()})


def spread_of(models: Sequence[Params], schema: Schema) -> float:
    """How far models are from their mean: the root of the mean square, as a part of the norm of the mean."""
    middle = weighted_mean([(model, 1.0) for model in models], schema.merge)
    return math.sqrt(fmean(distance(middle, model, schema) ** 2 for model in models)) / norm(middle, schema)


def planned(privacy: str, rounds: int) -> PrivacyPlan | None:
    """The promise of all nodes, planned for so many rounds; None if they promise nothing.

    Raises:
        LocalError: it is about rows, which experiments do not hide, or a library is not installed.
    """
    plan = plan_of(Settings(privacy=privacy, privacy_rounds=rounds))
    if plan is not None and plan.privacy.level == "rows":
        raise LocalError(f"expected node:epsilon:delta as the privacy of an experiment, got {privacy}")
    return plan


def _answered(figures: Mapping[str, float | None], choice: Choice) -> dict[str, float | None]:
    """The accuracies of the model that answers: the one chosen by input, the personal or the common one."""
    kinds = {"by-input": ("chosen_", "local_"), "local": ("local_",), "global": ("",)}[choice]
    answered: dict[str, float | None] = {}
    for name in (
        figure[6:] for figure in figures if figure.startswith(("after.accuracy", "after.global_accuracy"))
    ):
        known = [figures[figure] for kind in kinds if (figure := f"after.{kind}{name}") in figures]
        answered |= {f"after.answered_{name}": value for value in known[:1]}
    return answered


def _after(score: Score) -> dict[str, float | None]:
    """The figures of a model by name, as `_figures` has them."""
    return {"after.accuracy": score.accuracy, **{f"after.{name}": float(v) for name, v in score.metrics.items()}}


def _figures(record: Record) -> dict[str, float | None]:
    """All finite figures of a round by name: "before.accuracy", "after.f1_macro"."""
    figures: dict[str, float | None] = {}
    for when, accuracy in FIGURES:
        if record.get(accuracy) is not None:
            figures[f"{when}.accuracy"] = record[accuracy]
        metrics = record.get("metrics", {}).get(when, {})
        figures |= {f"{when}.{name}": float(value) for name, value in metrics.items() if abs(value) < 1e300}
    return figures


# All nodes of a round screen and merge the same updates, and are in one process: it is computed once for all of them.


def cached_measure(measure: Measure) -> Measure:
    """A measure of distance that computes each distance once per round."""
    known: dict[tuple[Digest, Digest, Digest], float] = {}
    last: list[Digest] = []  # the base of the round

    def cached(base: Params, params: Params, schema: Schema) -> float:
        if last != [base.digest]:
            known.clear()
            last[:] = [base.digest]
        key = (params.digest, schema.digest, base.digest)
        if key not in known:
            known[key] = measure(base, params, schema)
        return known[key]

    return cached


def cached_rule(rule: AggregationRule) -> AggregationRule:
    """An aggregation rule that merges equal updates once, whichever node merges them."""
    last: dict[Hashable, Merged] = {}

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        described = tuple((u.peer, u.params.digest, u.examples, u.labels, u.staleness) for u in updates)
        remembered = None if state is None else state.digest
        key = (start.schema.digest, start.base.digest, start.number, start.members, remembered, described)
        if key not in last:
            result = rule.merge(state, start, updates)
            last.clear()
            last[key] = result
        return last[key]

    return rule._replace(merge=merge, running=None)
