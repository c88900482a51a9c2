"""Compares a vertical job of nodes on this machine with the same training in one place, and with each holder alone.

Which rows nodes hold out, and in which order they train, follows from the ids that all of them have, so only the nodes
know it. It is read from their state folders. With the same rows, batches and first weights, the network in one place must
become the one of the nodes, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.datasets.no_code import OwnColumns, read_own
from flnet.datasets.no_code_columns import Columns, read_columns
from flnet.errors import TrainerError
from flnet.experiments.vertical import Setup, Table, train_joint
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.vertical import EpochClosedPart
from flnet.rounds.vertical_models import VerticalModels
from flnet.store.sqlite_store import read_job
from flnet.trainer import TrainerSettings


@dataclass(frozen=True)
class MeshSetup(Setup):
    """The architecture of trainers without code, with the first weights and the batches of a job.

    Attributes:
        peers: the holders, sorted.
        common: number of rows that all of them have.
        agreement: digest of these.
    """

    peers: tuple[PeerId, ...] = ()
    common: int = 0
    agreement: str = ""

    def bottom_seed(self, place: int) -> int:
        """That of the holder at this place."""
        return seed_for(self.seed, f"bottom:{self.peers[place]}")

    def top_seed(self) -> int:
        """That of the job."""
        return seed_for(self.seed, "top")

    def batches(self, table: Table) -> AlignedBatches:
        """The batches of the job."""
        return AlignedBatches(self.common, self.batch, self.seed, self.agreement)


@dataclass(frozen=True)
class HolderFiles:
    """A node of this machine, whose trainer has no code.

    Attributes:
        trainer: its TOML file.
        datasets: FLNET_DATASETS_PATH.
        state: its state folder.
    """

    trainer: Path
    datasets: Path
    state: Path


@dataclass(frozen=True)
class MeshFigures:
    """Accuracy and AUC on hold-out rows; AUC is None with more than two classes."""

    accuracy: float
    auc: float | None


@dataclass(frozen=True)
class MeshComparison:
    """One job, trained by the nodes together, again in one place, and with the columns of one holder only.

    Attributes:
        columns: number of feature columns of each holder.
        label: the label holder.
        alone: of each holder's columns with the labels.
        is_equal: whether all weights of the nodes are those of the network in one place, to the last bit.
        held_out: number of rows that all figures are of.
    """

    columns: Mapping[PeerId, int]
    label: PeerId
    alone: Mapping[PeerId, MeshFigures]
    together: MeshFigures
    in_one_place: MeshFigures
    is_equal: bool
    common: int
    held_out: int


def compare_with_one_place(trainer: TrainerId, nodes: Mapping[PeerId, HolderFiles], epochs: int) -> MeshComparison:
    """Train again what nodes have trained.

    Args:
        nodes: all holders of the job; one of them has the label, of two classes or more.
        epochs: that they have trained, from new models.

    Raises:
        TrainerError: what the nodes keep does not belong together, or not to these epochs.
        StartError, DamagedDatabase, OSError: a file cannot be read.
    """
    models = {peer: read_models(trainer, files.state) for peer, files in sorted(nodes.items())}
    owns = {peer: _own(files) for peer, files in sorted(nodes.items())}
    columns = {
        peer: read_columns(own.path(TrainerSettings(nodes[peer].datasets, nodes[peer].state)), own)
        for peer, own in owns.items()
    }
    label = next(peer for peer, held in columns.items() if held.y is not None)
    report = _report(models, label, epochs)
    setup = _setup(owns[label], models[label], epochs)
    table = _table(columns, models, setup, label)
    joint = train_joint(table, setup, tuple(table.columns))
    alone = {peer: train_joint(table, setup, (peer,)) for peer in table.columns}
    assert report.score is not None
    return MeshComparison(
        {peer: len(columns[peer].names) for peer in columns},
        label,
        {peer: _figures(one.score.accuracy, one.score.metrics) for peer, one in alone.items()},
        _figures(report.score.accuracy, report.score.metrics),
        _figures(joint.score.accuracy, joint.score.metrics),
        joint.digests == (*(report.bottoms[peer] for peer in table.columns), report.top),
        setup.common,
        len(table.test),
    )


def read_models(trainer: TrainerId, state: Path) -> VerticalModels:
    """What a node on this machine keeps of a vertical job; it may be running.

    Raises:
        StartError, DamagedDatabase, OSError: it cannot be read.
    """
    saved = read_job(state, trainer)
    return (
        VerticalModels() if saved is None else VerticalModels.read(saved.snapshot.get("vertical"), saved.private)
    )


def _own(files: HolderFiles) -> OwnColumns:
    own = read_own(files.trainer)
    if not isinstance(own, OwnColumns):
        raise TrainerError(f'{files.trainer}: expected kind = "vertical"')
    return own


def _report(models: Mapping[PeerId, VerticalModels], label: PeerId, epochs: int) -> EpochClosedPart:
    """With which the last epoch ended.

    Raises:
        TrainerError: the nodes are not at the end of this epoch, or of another alignment.
    """
    last, held = epochs - 1, models[label].ended.get(epochs - 1)
    alignments = {each.alignment for each in models.values()}
    if (
        held is None
        or held.report is None
        or held.report.score is None
        or len(alignments) != 1
        or any(each.closed != last or each.rows is None for each in models.values())
    ):
        raise TrainerError(f"the nodes do not all keep the models of epoch {last}")
    return held.report


def _setup(own: OwnColumns, models: VerticalModels, epochs: int) -> MeshSetup:
    assert models.seed is not None and models.rows is not None
    hidden = tuple(own.hidden)
    return MeshSetup(
        hidden,
        own.width,
        True,
        hidden,
        rate=own.rate,
        batch=own.batch,
        epochs=epochs,
        seed=models.seed,
        peers=tuple(PeerId(peer) for peer in sorted(models.holders)),
        common=len(models.rows),
        agreement=models.alignment,
    )


def _table(
    columns: Mapping[PeerId, Columns], models: Mapping[PeerId, VerticalModels], setup: MeshSetup, label: PeerId
) -> Table:
    """The common rows in the order of the alignment."""
    rows = {peer: np.asarray(models[peer].rows) for peer in columns}
    y = columns[label].y
    assert y is not None
    batches = AlignedBatches(setup.common, setup.batch, setup.seed, setup.agreement)
    held_out = [batch.positions for batch in batches.hold_out()]
    with_features = [peer for peer in columns if columns[peer].names]
    return Table(
        {peer: columns[peer].x[rows[peer]] for peer in with_features},
        {peer: columns[peer].names for peer in with_features},
        y[rows[label]],
        batches.trained,
        np.concatenate(held_out) if held_out else np.zeros(0, np.int64),
    )


def _figures(accuracy: float, metrics: Mapping[str, float]) -> MeshFigures:
    return MeshFigures(accuracy, metrics.get("auc"))
