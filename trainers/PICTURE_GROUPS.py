"""Which kinds of pictures are there? Groups of pictures in a folder, by k-means, without a label.

Centroids are of rows that say in which direction edges run (`_orientations.py`), so what leaves a node are means
of these over many pictures, and no pixel.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flnet.datasets.labelled import Labelled, fingerprint
from flnet.datasets.split import held_back, own_rows, stored_split, with_partition
from flnet.text import text
from flnet.trainer import Array, DataInfo, DataMissing, InputSpec, Prediction, Trainer, TrainerSettings

from ._k_means import RULES, KMeans, Model, Options, Table
from ._options import read_lines
from ._orientations import CELLS, DIRECTIONS, NUMBERS, orientations
from ._pictures import grey_pictures

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_PLACE = "pictures"  # below FLNET_DATASETS_PATH
OPTIONS_FILE = "picture_groups.toml"  # in the same folder
SIDE = 32  # pixels
SHARES = {"train": 0.8, "test": 0.2}
_ENDINGS = {".jpeg", ".jpg", ".png"}
_HIGH = 0.3  # few cells hold more of a picture's edges in one direction
_NAMED = 3  # damaged files that the note names; the others are counted


class PictureGroups(KMeans):
    """k-means on one node's pictures."""

    def __init__(self, table: Table, options: Options) -> None:
        super().__init__(table, options, text("Groups of pictures"))
        self.agreement = {
            "columns": text("edges in {rows} x {columns} cells", CELLS, CELLS),
            "start": options.start,
        }

    def input_spec(self) -> InputSpec:
        """One picture."""
        return InputSpec("image", (SIDE, SIDE), 0, 255, hint=text("one picture, in grey; any size as a file"))

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """How near a picture is to each group."""
        return super().predict(params, orientations(inputs.reshape(-1, SIDE, SIDE)))


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's pictures; class folders or none, names of folders count for nothing.

    Raises:
        DataMissing: there are no pictures, or too few of them fall to this node.
    """
    place = settings.datasets_path
    if place is None or not (place / DATA_PLACE).is_dir():
        where = (
            text("FLNET_DATASETS_PATH is not set")
            if place is None
            else text("{path} is not there", place / DATA_PLACE)
        )
        raise DataMissing(where, text("put pictures into a folder {name} below FLNET_DATASETS_PATH", DATA_PLACE))
    options: dict[str, Any] = read_lines(place / OPTIONS_FILE, RULES)
    return PictureGroups(_table(place / DATA_PLACE, settings), Options(**options))


def _table(root: Path, settings: TrainerSettings) -> Table:
    names = sorted(
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.suffix.lower() in _ENDINGS
    )
    mine = own_rows(np.zeros(len(names), np.int64), settings)
    photographs = grey_pictures(root, [names[row] for row in mine], SIDE, settings.state_path / "pictures.npz")
    kept = stored_split(
        settings.state_path / "split-pictures.npz",
        photographs.images,
        np.zeros(len(photographs.images), np.int64),
        SHARES,
        settings.seed,
    )
    counts = {side: len(rows) for side, rows in kept.items()}
    if not all(counts.values()):
        words = ", ".join(f"{count} in {side}" for side, count in counts.items())
        raise DataMissing(
            text("too few pictures in {path}: {counts}", root, words),
            text("bring more pictures, or use fewer shards"),
        )
    rows, zeros = orientations(photographs.images), np.zeros(len(photographs.images), np.int64)
    kept = {**kept, **_held_back(kept["train"], settings)}
    sides = {
        side: Labelled(photographs.images[numbers], zeros[numbers])
        for side, numbers in kept.items()
        if len(numbers)
    }
    columns = tuple(
        f"{row} {column} {180 * way // DIRECTIONS}°"
        for row in range(CELLS)
        for column in range(CELLS)
        for way in range(DIRECTIONS)
    )
    numbers_of = {side: len(numbers) for side, numbers in kept.items()}
    info = DataInfo(text("pictures in {path}", root), numbers_of, checksum=fingerprint(sides))
    info = replace(info, note=with_partition(_note(names, mine, photographs.faults), settings))
    train, test, validation = (rows[kept[side]] for side in ("train", "test", "validation"))
    return Table(train, test, columns, (0.0,) * NUMBERS, (_HIGH,) * NUMBERS, info, validation)


def _held_back(train: Array, settings: TrainerSettings) -> dict[str, Array]:
    kept, validation = held_back(np.zeros(len(train), np.int64), settings)
    return {"train": train[kept], "validation": train[validation]}


def _note(names: list[str], mine: Array, faults: Any) -> str:
    if not faults:
        return ""
    some = ", ".join(f"{names[mine[place]]} ({why})" for place, why in list(faults.items())[:_NAMED])
    return text("skipped files that cannot be read ({count}): {names}", len(faults), some)
