"""The table behind a trainer of kind "table": one node's rows, split for good and standardised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flnet.errors import DataMissing
from flnet.params import Array
from flnet.training.api import DataInfo, TrainerSettings
from flnet.training.data import Labelled, Rows, fingerprint
from flnet.training.dealing import dealt_counts, own_grouped, own_rows, with_partition
from flnet.training.groups import grouped_split
from flnet.training.own import OwnTable
from flnet.training.own_labels import OwnLabels, counted
from flnet.training.own_rows import Table, read_table
from flnet.training.samples import is_sample
from flnet.training.split import stored_split

_FARTHEST = 1e6  # spreads from the mean; beyond it one typing error would be all that a model sees


@dataclass(frozen=True)
class TableData:
    """One node's part: sides (x standardised by `scales`, y), and what is known about it.

    Attributes:
        coarse: by side the labels in the node's own space, -1 for none; None where nodes label alike.
    """

    sides: Mapping[str, tuple[Array, Array]]
    table: Table
    scales: Array
    info: DataInfo
    coarse: Mapping[str, Array] | None = None


def load_table(own: OwnTable, settings: TrainerSettings) -> TableData:
    """This node's rows, split for good, features standardised.

    Raises:
        DataMissing: there is no file, or too few rows.
        TrainerError: something in it is not as agreed; says file, line and column.
    """
    path = own.path(settings)
    labels = OwnLabels.of(settings.labels, own.classes) if own.task == "classify" else None
    table = read_table(path, own, labels)
    rows = _sides(own, table, settings)
    counts = {side: len(numbers) for side, numbers in rows.items()}
    if not all(counts.values()):
        words = ", ".join(f"{n} in {side}" for side, n in counts.items())
        raise DataMissing(f"too few rows in {path}: {words}", "bring more rows, or change split")
    per_class = {
        side: counted(table.y[numbers], len(table.classes)) for side, numbers in rows.items() if table.classes
    }
    scales = _complete(table, table.x[rows["train"]])
    x = standardised(table.x, scales)
    sides = {side: (x[numbers], table.y[numbers]) for side, numbers in rows.items()}
    note, columns = with_partition(table.note, settings), table.classes or (own.target,)
    checksum = fingerprint({side: Labelled(table.x[numbers], table.y[numbers]) for side, numbers in rows.items()})
    is_counted = not table.groups and labels is None
    dealt = dealt_counts(table.kinds, settings, len(table.classes)) if is_counted else ()
    info = DataInfo(f"table {path}", counts, columns, is_sample(path), note, per_class, checksum, dealt)
    if table.coarse is None:
        return TableData(sides, table, scales, info)
    return TableData(sides, table, scales, info, {side: table.coarse[numbers] for side, numbers in rows.items()})


def standardised(x: Array, scales: Array) -> Array:
    """(x - mean) / spread, within a million spreads; what is missing becomes the mean, which is 0."""
    scaled = np.clip((x - scales[:, 0]) / scales[:, 1], -_FARTHEST, _FARTHEST)
    return np.nan_to_num(scaled, nan=0.0).astype(np.float32)


def _sides(own: OwnTable, table: Table, settings: TrainerSettings) -> dict[str, Rows]:
    """This node's rows, by side."""
    kinds, seed, path = table.kinds, settings.seed, settings.state_path / "split-table.npz"
    if table.groups:
        mine = own_grouped(table.groups, kinds, settings)
        groups = [table.groups[row] for row in mine]
        sides = grouped_split(path, groups, kinds[mine], own.shares, seed)
    else:
        mine = own_rows(kinds, settings)
        sides = stored_split(path, np.c_[table.x, table.y][mine], kinds[mine], own.shares, seed)
    return {side: mine[rows] for side, rows in sides.items()}


def _complete(table: Table, train: Array) -> Array:
    """The scales, with this node's own mean and spread where none are agreed: they never leave the node."""
    scales = table.scales.copy()
    for j in np.flatnonzero(np.isnan(scales[:, 0])):
        present = train[:, j][~np.isnan(train[:, j])].astype(np.float64)
        mean, spread = (float(present.mean()), float(present.std())) if present.size else (0.0, 0.0)
        scales[j] = mean, spread if spread > 0 else 1.0
    return scales
