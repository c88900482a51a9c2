"""Enrolments in online courses (KDD Cup 2015) as the schools of a federation have them.

A school is a course (FLNET_DATA_PARTITION=groups) or any other part of the enrolments that the partition deals;
`rows` in `mooc.toml` bounds how many are dealt in all, so that 54 schools have 1000 each. Each school is measured on the
whole published test part, too, which takes longer than the training; `official = false` leaves that away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from flnet.datasets.labelled import Labelled, fingerprint, read_npz
from flnet.datasets.split import own_grouped, own_published, own_rows, stored_split, with_partition
from flnet.text import text
from flnet.trainer import Array, DataInfo, DataMissing, TrainerError, TrainerSettings

from ._options import is_whole, read_lines

FILE, OPTIONS_FILE = "mooc_kddcup2015.npz", "mooc.toml"
CLASSES = ("stayed", text("dropped out"))
SHARES = {"train": 0.9, "validation": 0.1}
_ARRAYS = ("x_train", "y_train", "course_train", "x_test", "y_test", "course_test", "feature_names")


@dataclass(frozen=True)
class Enrolments:
    """Rows of counts on one scale (n, columns) float32, and whether each dropped out; the course of each row."""

    data: Labelled
    courses: Array


@dataclass(frozen=True)
class School:
    """One node's enrolments.

    Attributes:
        sides: train, validation, test.
        official: the whole published test part; None where the own test is an even part of it, or it is not wanted.
    """

    sides: Mapping[str, Labelled]
    info: DataInfo
    columns: tuple[str, ...]
    official: Labelled | None


def load_school(settings: TrainerSettings, wanted: int | None = None) -> School:
    """This node's enrolments, split for good.

    Args:
        wanted: how many are dealt in all, in place of what `mooc.toml` says.

    Raises:
        DataMissing: the file is not there, or too little of it falls to this node.
        TrainerError: the file or the options are wrong.
    """
    path = _find_file(settings.datasets_path)
    total, published, columns = _read(path, path.stat().st_mtime_ns)
    options = _options(path.with_name(OPTIONS_FILE))
    dealt = _dealt(len(total.data), wanted or options.get("rows"), settings.seed)
    labels, courses = total.data.y[dealt], total.courses[dealt]
    if settings.partition.kind == "groups":
        own = dealt[own_grouped([str(course) for course in courses], labels, settings)]
        tests = np.flatnonzero(np.isin(published.courses, total.courses[own]))
    else:
        own = dealt[own_rows(labels, settings)]
        tests = own_published(labels, published.data.y, settings)
    mine, test = total.data.take(own), published.data.take(tests)
    kept = stored_split(settings.state_path / "split-mooc.npz", mine.x, mine.y, SHARES, settings.seed)
    sides = {**{name: mine.take(rows) for name, rows in kept.items()}, "test": test}
    if not all(map(len, sides.values())):
        counts = ", ".join(f"{len(side)} in {name}" for name, side in sides.items())
        raise DataMissing(text("too few enrolments for this node: {counts}", counts), text("use fewer shards"))
    is_alike = settings.partition.kind == "iid" and settings.shard[1] > 1
    is_wanted = options.get("official", True) and not is_alike
    return School(sides, _info(path, sides, settings), columns, published.data if is_wanted else None)


@lru_cache(maxsize=1)
def all_enrolments(folder: Path | None, seed: int, wanted: int | None = None) -> Array:
    """(n, columns): the enrolments that are dealt to all schools together; for experiments only.

    Args:
        folder: FLNET_DATASETS_PATH.
        seed: as in the schools' settings.
        wanted: as for `load_school`.

    Raises:
        DataMissing, TrainerError: as there.
    """
    path = _find_file(folder)
    total, _, _ = _read(path, path.stat().st_mtime_ns)
    rows: Array = total.data.x[
        _dealt(len(total.data), wanted or _options(path.with_name(OPTIONS_FILE)).get("rows"), seed)
    ]
    return rows


def one_scale(counts: Array) -> Array:
    """Counts from 0 to many thousands as numbers of about one: a quarter of their logarithm.

    Fixed, and not from the rows themselves: all nodes need the same scale, and tell nobody what they have.
    """
    scaled: Array = (0.25 * np.sign(counts) * np.log1p(np.abs(counts))).astype(np.float32)
    return scaled


def as_counts(scaled: Array) -> Array:
    """The counts of which `one_scale` makes these numbers."""
    counts: Array = (np.sign(scaled) * np.expm1(4 * np.abs(scaled))).astype(np.float32)
    return counts


def _find_file(folder: Path | None) -> Path:
    remedy = text("put {file} into a folder and name that folder in FLNET_DATASETS_PATH", FILE)
    if folder is None:
        raise DataMissing(text("FLNET_DATASETS_PATH is not set"), remedy)
    if not (folder / FILE).is_file():
        raise DataMissing(text("{path} is not there", folder / FILE), remedy)
    return folder / FILE


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> tuple[Enrolments, Enrolments, tuple[str, ...]]:
    """Once for all nodes of an experiment in this process, until the file changes."""
    x, y, course, test_x, test_y, test_course, names = read_npz(path, _ARRAYS)
    columns = tuple(str(name) for name in names)
    parts = []
    for rows, labels, courses in ((x, y, course), (test_x, test_y, test_course)):
        if rows.shape != (len(labels), len(columns)) or len(courses) != len(labels):
            raise TrainerError(
                text(
                    "{path}: rows are {shape}, with {labels} labels and {courses} courses; expected "
                    "{columns} columns, and a label and a course for each row",
                    path,
                    list(rows.shape),
                    len(labels),
                    len(courses),
                    len(columns),
                )
            )
        if not np.isfinite(rows).all() or not np.isin(labels, (0, 1)).all():
            raise TrainerError(text("{path}: expected finite numbers, and labels 0 or 1", path))
        parts.append(Enrolments(Labelled(one_scale(rows), labels.astype(np.uint8)), courses))
    return parts[0], parts[1], columns


def _options(path: Path) -> dict[str, Any]:
    """The options that are given: `rows`, how many enrolments are dealt in all, and `official`.

    Raises:
        TrainerError: they are wrong.
    """
    rows = (text("how many enrolments are dealt, above 0"), is_whole)
    return read_lines(
        path, {"rows": rows, "official": (text("true or false"), lambda value: isinstance(value, bool))}
    )


def _dealt(total: int, wanted: int | None, seed: int) -> Array:
    """The numbers of the enrolments that are dealt, the same on all nodes."""
    if wanted is None or wanted >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, *b"enrolments"]).permutation(total)[:wanted])


def _info(path: Path, sides: Mapping[str, Labelled], settings: TrainerSettings) -> DataInfo:
    counts = {name: np.bincount(side.y, minlength=2).tolist() for name, side in sides.items()}
    rows = {name: len(side) for name, side in sides.items()}
    note = with_partition("", settings)
    source = text("enrolments in online courses, {path}", path.resolve())
    return DataInfo(source, rows, CLASSES, note=note, counts=counts, checksum=fingerprint(sides))
