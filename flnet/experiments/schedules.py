"""Schedules by which models travel that nodes do not offer: cyclic and random passing, and BACombo.

They have no rounds that jobs could conduct, so they are played in one process, with the trainers of the nodes and the
formulas of `flnet.algorithms.passing` and `flnet.algorithms.bacombo`. To compare them with a mesh, a round is in which as
many trainings are done as there are nodes. After each round all nodes measure the model that they would answer with: with
passing the one that travels, which the others would fetch from its holder.

As `CellMesh`, a `ScheduledMesh` says what work is due, and goes on when it is done.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from flnet.algorithms.bacombo import Bandwidths, pulled
from flnet.algorithms.passing import at_random, cyclic
from flnet.compute.tasks import round_seed
from flnet.errors import LocalError
from flnet.experiments.cells import SCHEDULE, Cell, Outcome
from flnet.experiments.learners import Learner, Order
from flnet.experiments.mesh import spread_of, without_bins
from flnet.params.params import Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.counts import EvaluationCounts
from flnet.protocol.updates import RoundKey
from flnet.trainer import Task

MEAN_BANDWIDTH, DEVIATION = 1e6, 1.0  # bytes a second between two nodes: log-normal, drawn once
Steps = Iterator[list[Order]]


class ScheduledMesh:
    """The nodes of one cell whose models travel by a schedule.

    Attributes:
        models: by node, all parameters that it holds.
    """

    def __init__(self, cell: Cell, learners: Sequence[Learner]) -> None:
        """Args:
        learners: one for each node, in order.
        """
        self.cell = cell
        names = [PeerId(f"n{number:03}-{cell.seed}") for number in range(len(learners))]
        self.learners = dict(zip(names, learners, strict=True))
        declared, initial = learners[0].declaration, learners[0].initial
        shared = initial.select(declared.shared)
        self._schema = Schema.of(shared, declared.merge, declared.agreement, declared.buffers)
        # The first node's parameters, and private ones of each node: as in the first round of a mesh.
        self.models = {name: learner.initial.merged_with(shared) for name, learner in self.learners.items()}
        self._examples: dict[PeerId, int | None] = dict.fromkeys(names)
        self._given = {"e": cell.setup.epochs, "u": cell.setup.rate, "b": cell.setup.batch}
        self._figures: dict[str, list[list[float]]] = {}  # by name, for each round those of the nodes
        self._counts: list[list[EvaluationCounts | None]] = []  # for each round those of the nodes
        self._played = 0
        self._sent = 0.0  # models, of all nodes
        self._steps = self._play()

    @property
    def done(self) -> float:
        """The part of the rounds that is done, in [0, 1]."""
        return self._played / self.cell.setup.rounds

    def advance(self) -> list[Order]:
        """Go on until work is due, and return it; nothing if all rounds are over.

        Raises:
            LocalError: a trainer failed.
        """
        return next(self._steps, [])

    def resume(self) -> None:
        """The work is done; `advance` takes it up."""

    def end(self) -> None:
        """Nothing is left to end."""

    def outcome(self) -> Outcome:
        """The outcome of the rounds."""
        last, count = self._played, len(self.learners)
        curves = {name: self._figures[name] for name in self.cell.setup.curves if name in self._figures}
        held = [params.select(self._schema.specs) for params in self.models.values()]
        return Outcome(
            rounds=last,
            figures={name: tuple(rounds[-1]) for name, rounds in self._figures.items()},
            counts={"after": tuple(self._counts[-1])} if any(self._counts[-1]) else {},
            curves={name: tuple(zip(*rounds, strict=True)) for name, rounds in curves.items()},
            right={name: self._right() for name in curves if name == "after.accuracy"},
            examples=tuple(self._examples.values()),
            bytes=round(self._sent * held[0].nbytes),
            models=self._sent / (count * last),
            spread=spread_of(held, self._schema) if len({model.digest for model in held}) > 1 else 0.0,
            data=str(next(iter(self.learners.values())).declaration.data.get("source", "")),
        )

    def _play(self) -> Steps:
        numbers = SCHEDULE.fullmatch(self.cell.setup.topology)
        assert numbers is not None
        pulls = numbers[1] is not None
        steps = self._pull_rounds(int(numbers[1]), int(numbers[2])) if pulls else self._pass_rounds()
        for orders in steps:
            yield orders
            if failed := next((order.failure for order in orders if order.failure), ""):
                raise LocalError(failed)

    # --- one model travels

    def _pass_rounds(self) -> Steps:
        names, is_cyclic = list(self.learners), self.cell.setup.topology == "cyclic"
        holder, hop = names[0], 0
        travelling = self.models[holder].select(self._schema.specs)
        for number in range(self.cell.setup.rounds):
            for _ in names:
                self.models[holder] = self.models[holder].merged_with(travelling)
                order = self._training(holder, number)
                yield [order]
                travelling = self._learnt(holder, order).select(self._schema.specs)
                following = (
                    cyclic(names, holder) if is_cyclic else at_random(names, holder, str(self.cell.seed), hop)
                )
                self._sent, holder, hop = self._sent + (following != holder), following, hop + 1
            self.models = {name: params.merged_with(travelling) for name, params in self.models.items()}
            yield from self._measured()

    # --- segments are pulled

    def _pull_rounds(self, segments: int, peers: int) -> Steps:
        rng, cut = Random(self.cell.seed), Segments(self._schema, segments)
        widths = {name: Bandwidths() for name in self.learners}
        real = {
            (a, b): MEAN_BANDWIDTH * math.exp(rng.gauss(0, DEVIATION)) for a in widths for b in widths if a != b
        }
        for number in range(self.cell.setup.rounds):
            orders = {name: self._training(name, number) for name in self.learners}
            yield list(orders.values())
            learnt = {name: self._learnt(name, order) for name, order in orders.items()}
            updates = {
                name: (params.select(self._schema.specs), self._examples[name] or 0)
                for name, params in learnt.items()
            }
            for name, known in widths.items():
                sources = known.choose(widths.keys() - {name}, cut.count, peers, rng.random)
                for place, froms in enumerate(sources):
                    size = sum(math.prod(spec.shape) for spec in cut.schemas[place].specs.values())
                    self._sent += len(froms) * size / self._schema.numbers
                    for peer in froms:
                        known.note(peer, size, size / real[peer, name])
                self.models[name] = learnt[name].merged_with(pulled(name, updates, sources, cut))
            yield from self._measured()

    # --- trainings and measurements

    def _training(self, name: PeerId, number: int) -> Order:
        learner = self.learners[name]
        given = {key: value for key, value in self._given.items() if value is not None}
        hyper = learner.declaration.defaults.model_copy(update=given)
        seed = round_seed(self.cell.seed, RoundKey(number, next(iter(self.learners))), name)
        return Order(learner, self.models[name], Task(self.models[name], hyper, seed, round=number))

    def _learnt(self, name: PeerId, order: Order) -> Params:
        assert order.fit is not None
        self._examples[name] = order.fit.examples
        return Params(order.fit.params)

    def _measured(self) -> Steps:
        """Measure the models that the nodes hold; then the round is over."""
        orders = [Order(self.learners[name], params) for name, params in self.models.items()]
        yield orders
        scores = [order.score for order in orders if order.score is not None]
        names = {"accuracy", *(name for score in scores for name in score.metrics)}
        for name in sorted(names):
            values = [score.accuracy if name == "accuracy" else float(score.metrics[name]) for score in scores]
            self._figures.setdefault(f"after.{name}", []).append(values)
        counts = [score.counts for score in scores]
        self._counts.append([None if of_node is None else without_bins(of_node) for of_node in counts])
        self._played += 1

    def _right(self) -> tuple[tuple[tuple[int, int] | None, ...], ...]:
        """For each node and round how many test rows were right, and of how many."""
        return tuple(
            tuple(None if counts is None else (counts.right, counts.examples) for counts in of_node)
            for of_node in zip(*self._counts, strict=True)
        )
