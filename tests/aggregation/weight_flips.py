"""Measure whether Krum and the cosine gate leave out a node that turns its weights and keeps honest statistics.

`python -m tests.aggregation.weight_flips --out weight-flips.jsonl` prints the tables of docs/hostile-peers.md. Eight nodes
train the network of `CIFAR10`, which has batch normalisation, for four rounds; the last one sends w - F (w_i - w) for each
weight, and the running means and variances as it learnt them (`weight-flip` in `flnet.experiments.attacks`). A seed passes
if the attacker has no weight in any of the rounds.

Jobs, rules and trainers are those of `flnet experiment`. But a training that starts from the same model is done once for
all cells of a seed: as long as the attacker is left out, its factor changes nothing. Finished cells are kept in the file,
and the same command goes on where it was ended.

With `--blind` the same rounds are judged as if running means and variances were weights. The attacker is then like honest
nodes, which shows what the figures of the other table rest on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State
from flnet.aggregation.krum import krum_scores, squared_distances
from flnet.aggregation.screening import cosines
from flnet.compute.assignment import thread_bounds
from flnet.experiments.cells import Cell, Outcome, Setup
from flnet.experiments.learners import Learner, Order, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import CellMesh
from flnet.params.params import PeerId, Schema
from flnet.protocol.updates import Update
from flnet.settings import Settings, load_settings
from flnet.temporary import temporary_folder

NODES, ROUNDS, HOSTILE = 8, 4, 1
RULES = ("krum:1", "multi-krum:1", "cosine,agg1")
MEAN = "agg1"  # which leaves nobody out, to compare accuracies with
ATTACKS = ("weight-flip:1", "weight-flip:5")
NOBODY = ""  # no attack


class Row(BaseModel):
    """One cell: a rule and an attack under a seed.

    Attributes:
        weights: of the attacker in the average, by round.
        left_out: number of honest nodes without weight, by round.
        attacker: what the rule judges an update by, of the attacker's, by round: Krum's score, or the cosine to the
            median of the others.
        lowest, highest: the same of honest updates.
        accuracy: of the last average, mean over the honest nodes' test rows.
        seconds: what the cell took with the trainings that no earlier cell had done.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    trainer: str
    seed: int
    rule: str
    attack: str
    weights: tuple[float, ...]
    left_out: tuple[int, ...]
    attacker: tuple[float, ...] = ()
    lowest: tuple[float, ...] = ()
    highest: tuple[float, ...] = ()
    accuracy: float
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, int, str, str]:
        """The trainer, the seed, the rule and the attack."""
        return self.trainer, self.seed, self.rule, self.attack


class _Done(NamedTuple):
    order: Order
    learner: Learner  # kept, or another one might get its id


class SharedWork:
    """The trainings and evaluations of one seed, each of which is done once for all cells.

    Attributes:
        trainings: how many were done.
    """

    def __init__(self) -> None:
        self._done: dict[tuple[object, ...], _Done] = {}
        self.trainings = 0

    def carry_out(self, orders: Sequence[Order]) -> None:
        """Give these orders their results."""
        keys = [(id(o.learner), o.params.digest, o.split, o.task and o.task.seed) for o in orders]
        fresh = [order for order, key in zip(orders, keys, strict=True) if key not in self._done]
        self.trainings += sum(order.task is not None for order in fresh)
        carry_out(fresh)
        for order, key in zip(orders, keys, strict=True):
            done = self._done.setdefault(key, _Done(order, order.learner)).order
            order.params, order.fit, order.score, order.failure = done.params, done.fit, done.score, done.failure


Judge = Callable[[RoundStart, Sequence[Update]], Mapping[PeerId, float]]


@dataclass
class Judged:
    """What a rule judges updates by, by round and peer.

    Attributes:
        is_blind: whether it takes buffers for weights; the rule itself does not.
    """

    by_round: dict[int, Mapping[PeerId, float]]
    is_blind: bool = False

    def watching(self, rule: AggregationRule) -> AggregationRule:
        """The same rule, which notes how it judges."""
        judge = _judge(rule.name)

        def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
            if judge is not None and start.number not in self.by_round:
                seen = replace(start, schema=Schema.of(start.base)) if self.is_blind else start
                self.by_round[start.number] = judge(seen, updates)
            return rule.merge(state, start, updates)

        return rule._replace(merge=merge)


def _judge(rule: str) -> Judge | None:
    """What the rule of this name judges updates by; None if by nothing."""
    if "cosine" in rule:
        return lambda start, updates: {
            peer: angle for peer, angle in cosines(start, updates).items() if angle is not None
        }
    return _scores if "krum" in rule else None


def _scores(start: RoundStart, updates: Sequence[Update]) -> Mapping[PeerId, float]:
    scores = krum_scores(squared_distances(updates, start.schema), HOSTILE, range(len(updates)))
    return dict(zip((update.peer for update in updates), scores, strict=True))


def cell_of(trainer: str, seed: int, rule: str, attack: str) -> Cell:
    """The cell in which the last of eight nodes attacks."""
    hostile = HOSTILE if attack else 0
    setup = {"trainer": trainer, "nodes": NODES, "rounds": ROUNDS, "aggregation": rule}
    return Cell(
        row=attack,
        column=rule,
        seed=seed,
        setup=Setup.model_validate({**setup, "hostile": hostile, "attack": attack}),
    )


def measured(
    cell: Cell, learners: Sequence[Learner], work: SharedWork, *, is_blind: bool = False
) -> tuple[Row, Outcome]:
    """Run a cell, with the trainings that earlier cells of its seed have done."""
    began, mesh, judged = time.monotonic(), CellMesh(cell, learners), Judged({}, is_blind)
    mesh.strategy = judged.watching(mesh.strategy)
    while orders := mesh.advance():
        work.carry_out(orders)
        mesh.resume()
    outcome, hostile = mesh.outcome(), mesh.attackers.hostile
    if outcome.reason:
        raise RuntimeError(outcome.reason)
    weights = [_weights(record) for record in next(iter(mesh.records.values()))]
    judged_others = [
        [value for peer, value in by.items() if peer not in hostile] for _, by in sorted(judged.by_round.items())
    ]
    mesh.end()
    accuracy = outcome.value("after.accuracy")
    assert accuracy is not None
    row = Row(
        trainer=cell.setup.trainer,
        seed=cell.seed,
        rule=cell.column,
        attack=cell.row,
        weights=tuple(sum(by[peer] for peer in hostile) for by in weights),
        left_out=tuple(sum(not by[peer] for peer in by.keys() - hostile) for by in weights),
        attacker=tuple(by[peer] for _, by in sorted(judged.by_round.items()) for peer in hostile),
        lowest=tuple(map(min, judged_others)),
        highest=tuple(map(max, judged_others)),
        accuracy=accuracy,
        seconds=time.monotonic() - began,
    )
    return row, outcome


def _weights(record: Mapping[str, Any]) -> dict[PeerId, float]:
    """The weight of each update in the average of a round."""
    weights = {PeerId(peer): weighed["weight"] for peer, weighed in record["weighed"].items()}
    assert len(weights) == NODES
    return weights


def wanted(trainer: str, seeds: int, mean_seeds: int, rules_of_all: Sequence[str] = RULES) -> list[Cell]:
    """The cells of these rules, seed by seed; those of the mean for the first `mean_seeds` seeds."""
    cells = []
    for seed in range(seeds):
        rules = [(rule, attack) for rule in rules_of_all for attack in ATTACKS]
        means = [(MEAN, attack) for attack in (NOBODY, *ATTACKS)]
        cells += [cell_of(trainer, seed, *each) for each in (rules + means if seed < mean_seeds else rules)]
    return cells


def kept(path: Path) -> dict[tuple[str, int, str, str], Row]:
    """The rows of earlier runs in this file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row.key: row for row in map(Row.model_validate_json, lines)}


def run(cells: Iterable[Cell], settings: Settings, path: Path, *, is_blind: bool = False) -> None:
    """Run the cells that the file lacks, one seed after another, and add their rows to it."""
    known = kept(path)
    missing = [c for c in cells if (c.setup.trainer, c.seed, c.column, c.row) not in known]
    for seed in sorted({cell.seed for cell in missing}):
        of_seed, work = [cell for cell in missing if cell.seed == seed], SharedWork()
        with temporary_folder("weight-flips") as folder:
            file = trainer_file(of_seed[0].setup.trainer, settings)
            learners = learners_of(of_seed[0], file, settings, folder)
            for cell in of_seed:
                row, _ = measured(cell, learners, work, is_blind=is_blind)
                with path.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row.model_dump(mode="json")) + "\n")
                print(f"seed {seed} {row.rule} {row.attack}: {row.weights} {row.seconds:.0f} s", flush=True)


def table(rows: Sequence[Row], rule: str, attack: str) -> str:
    """The line of a table: seeds passed, rounds in which the attacker counted, honest nodes left out, accuracy."""
    passed = sum(not any(row.weights) for row in rows)
    counted = sum(bool(weight) for row in rows for weight in row.weights)
    rounds = sum(len(row.weights) for row in rows)
    honest = sum(map(sum, (row.left_out for row in rows)))
    nodes = rounds * (NODES - (HOSTILE if attack else 0))
    accuracies = [row.accuracy for row in rows]
    attackers = f"{passed} of {len(rows)} | {counted} of {rounds}" if attack else " | "
    figures = f"{attackers} | {honest} of {nodes} | {fmean(accuracies):.4f} ± {pstdev(accuracies):.4f}"
    return f"| `{rule}` | {attack or 'none'} | {figures} |"


def margins(rows: Sequence[Row], rule: str, attack: str) -> str:
    """The line of a table: how near the attacker came to an honest node, over all seeds, by round."""
    cells = []
    for number in range(ROUNDS):
        mine = [row.attacker[number] for row in rows]
        if "cosine" in rule:
            honest = [row.lowest[number] for row in rows]
            cells.append(f"{max(mine):+.2f}, {min(honest):+.2f}")
        else:  # scores, as a multiple of that of the honest update with the highest one
            cells.append(f"{min(m / row.highest[number] for m, row in zip(mine, rows, strict=True)):.2f}")
    return f"| `{rule}` | {attack} | {' | '.join(cells)} |"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description="whether rules leave out an attacker with honest statistics")
    parser.add_argument("--out", type=Path, required=True, help="file of the finished cells, as JSON lines")
    parser.add_argument("--trainer", default="CIFAR10")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--mean-seeds", type=int, default=5, help="how many of them also with the plain mean")
    parser.add_argument("--rule", action="append", choices=RULES, help="only this one; may be given several times")
    parser.add_argument("--blind", action="store_true", help="judge buffers as weights; needs a file of its own")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    os.environ |= thread_bounds(1)  # with more threads, sums may differ in the last digit
    cells = wanted(options.trainer, options.seeds, options.mean_seeds, options.rule or RULES)
    if not options.report:
        settings = load_settings({"compute_threads": 1}, os.environ)
        run(cells, settings, options.out, is_blind=options.blind)
    rows = [row for row in kept(options.out).values() if row.trainer == options.trainer]
    lines = {
        (c.column, c.row): [r for r in rows if (r.rule, r.attack) == (c.column, c.row)] for c in reversed(cells)
    }
    for (rule, attack), of_line in sorted(lines.items()):
        if of_line:
            print(table(sorted(of_line, key=lambda row: row.seed), rule, attack))
    for (rule, attack), of_line in sorted(lines.items()):
        if rule in RULES and of_line:
            print(margins(of_line, rule, attack))
    for row in rows:
        if row.rule in RULES and any(row.weights):
            print(f"missed: seed {row.seed}, {row.rule}, {row.attack}: weights {row.weights}, {row.attacker}")


if __name__ == "__main__":
    main()
