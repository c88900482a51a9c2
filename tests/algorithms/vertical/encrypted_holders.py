"""Three nodes of an encrypted regression for tests: a has the label, b other columns, c the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.algorithms.vertical.encrypted_conversation import NOISE_EPOCHS, RIDGE
from flnet.algorithms.vertical.encrypted_regression import RegressionPlan
from flnet.algorithms.vertical.encryption import PLAIN, Encryption, Vector
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels, standardise, train
from flnet.compute.vertical import VerticalHost
from flnet.params.params import Array
from flnet.rounds.vertical_job import VerticalJob
from flnet.trainer import DataInfo, HyperParams, NotOffered
from flnet.vertical_trainer import KeyHolderTrainer, Method, VerticalTrainer


class RegressionTable(VerticalTrainer):
    """Standardised columns of some people, with or without their labels."""

    label = "People"
    method: Method = "encrypted-regression"

    def __init__(self, ids: Sequence[Any], x: Array | None, y: Array | None = None, b: int = 24) -> None:
        self.ids, self.x, self.y = ids, x, y
        self.defaults = HyperParams(e=1, u=0.1, b=b)

    def identifiers(self) -> Sequence[Any]:
        return self.ids

    def features(self, rows: Array) -> Array:
        if self.x is None:
            raise NotOffered("no features")
        return self.x[rows]

    def labels(self, rows: Array) -> Array:
        if self.y is None:
            raise NotOffered("no labels")
        return self.y[rows]

    def data_info(self) -> DataInfo:
        return DataInfo(source="a test", rows={"train": len(self.ids)})


class RegressionPeople:
    """People whom both data holders know, in an order of each one's own, and a node that holds the key.

    Attributes:
        tables: the trainer of each node.
    """

    def __init__(
        self, x_a: Array, x_b: Array, y: Array, encryption: Encryption = PLAIN, b: int = 24, group: Any = None
    ) -> None:
        """All rows match; `hiding` makes others."""
        self.encryption, self.group = encryption, group or SafePrimeGroup
        chance = np.random.default_rng(3)
        self.tables: dict[str, VerticalTrainer] = {"c": KeyHolderTrainer()}
        self.tables["c"].defaults = HyperParams(e=1, u=0.1, b=b)
        for name, x, labels in (("a", x_a, y), ("b", x_b, None)):
            order = chance.permutation(len(y))
            ids = [f"P{number:04}" for number in order]
            self.tables[name] = RegressionTable(ids, x[order], None if labels is None else labels[order], b)

    @classmethod
    def random(cls, count: int = 90) -> RegressionPeople:
        """People with two columns at a, three at b, and a label that depends on both."""
        chance = np.random.default_rng(8)
        x, _, _ = standardise(chance.normal(size=(count, 5)))
        return cls(x[:, :2], x[:, 2:], (x @ [1.0, -1, 1, 0.5, 0] > 0).astype(np.int64))

    @classmethod
    def hiding(cls, common: int = 90, strangers: int = 30, encryption: Encryption = PLAIN) -> RegressionPeople:
        """People of whom only the key holder learns who is at both; a has strangers, and b half as many."""
        chance = np.random.default_rng(8)
        x, _, _ = standardise(chance.normal(size=(common + strangers, 5)))
        made = cls(x[:, :2], x[:, 2:], (x @ [1.0, -1, 1, 0.5, 0] > 0).astype(np.int64), encryption)
        b = made.table("b")
        kept = [row for row, one in enumerate(b.ids) if int(one[1:]) < common + strangers // 2]
        assert b.x is not None
        b.ids = [b.ids[row] if int(b.ids[row][1:]) < common else f"Q{b.ids[row]}" for row in kept]
        b.x = b.x[kept]
        for table in made.tables.values():
            table.hides_matches = True
        return made

    def table(self, name: str) -> RegressionTable:
        """The table of a data holder."""
        table = self.tables[name]
        assert isinstance(table, RegressionTable)
        return table

    def hosts(self) -> dict[str, VerticalHost]:
        """The trainers as a compute queue has them."""
        return {
            name: VerticalHost(table, name, self.group, encryption=self.encryption)
            for name, table in self.tables.items()
        }

    def plan(self, job: VerticalJob) -> RegressionPlan:
        """Of one epoch of a job."""
        assert job.models.rows is not None
        assert job.settings.hyper is not None
        count, b = len(job.models.rows), job.settings.hyper.b
        held = int(0.2 * count)
        widths = [0 if (x := self.table(name).x) is None else x.shape[1] for name in "ab"]
        batches = fixed_batches(count - held, b)
        rate = job.settings.hyper.u
        return RegressionPlan(widths[0] + 1, widths[1], batches, held, 1, rate, RIDGE, noise_epochs=NOISE_EPOCHS)

    def rows(self, jobs: Mapping[str, VerticalJob]) -> tuple[Array, Vector, int]:
        """All columns with the constant one, labels, and how many rows are trained on: those come first."""
        models, hyper = jobs["a"].models, jobs["a"].settings.hyper
        assert models.rows is not None
        assert models.seed is not None
        assert hyper is not None
        batches = AlignedBatches(len(models.rows), hyper.b, models.seed, models.alignment)
        places = np.concatenate([batches.trained, batches.held_out])
        rows = {name: np.asarray(jobs[name].models.rows)[places] for name in "ab"}
        parts = [
            np.ones((len(places), 1)),
            *(x[rows[name]] for name in "ab" if (x := self.table(name).x) is not None),
        ]
        y = self.table("a").y
        assert y is not None
        return np.hstack(parts).astype(np.float64), signed_labels(y[rows["a"]]), len(batches.trained)

    def expected(self, jobs: Mapping[str, VerticalJob], epochs: int) -> Vector:
        """What the same steps in one place give, in clear text."""
        x, y, count = self.rows(jobs)
        plan = self.plan(jobs["a"])
        start = np.zeros(x.shape[1])
        return train(x[:count], y[:count], plan.batches, start, epochs, plan.rate, plan.ridge)


def weights_of(jobs: Mapping[str, VerticalJob]) -> tuple[Vector, Vector]:
    """The weights of the newest epoch: the parts of a and b, one after the other, and those of the key holder."""
    models = {name: job.models.ended[job.models.closed].params for name, job in jobs.items()}
    parts = [np.asarray(models[name]["bottom/weights/theta"]) for name in "ab"]
    return np.concatenate(parts), np.asarray(models["c"]["top/weights/theta"])
