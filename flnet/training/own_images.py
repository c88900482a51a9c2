"""The folder behind a trainer of kind "images": found, checked, decoded once, and remembered as bytes on disk.

<data>/<class>/*.jpg            or            <data>/{train,val,test}/<class>/*.jpg
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.errors import DataMissing, TrainerError
from flnet.params import Array
from flnet.training.api import DataInfo, TrainerSettings
from flnet.training.columns import shown
from flnet.training.data import Labelled, Rows, fingerprint, shard
from flnet.training.dealing import dealt_counts, own_published, own_rows, with_partition
from flnet.training.image_cache import decoded_once
from flnet.training.lesson import Labels
from flnet.training.own import OwnImages
from flnet.training.own_labels import OwnLabels, counted
from flnet.training.samples import is_sample
from flnet.training.split import stored_split

_ENDINGS = frozenset({".jpg", ".jpeg", ".png"})
_PARTS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_IGNORED = ("Thumbs.db", "desktop.ini", "__MACOSX")  # what operating systems leave behind
_LAYOUT = "expected <class name>/*.jpg, .jpeg or .png, or train, val and test with such folders"


@dataclass(frozen=True)
class ImageData:
    """One node's images: `images` (n, size, size) or (n, size, size, 3), uint8, mapped from disk.

    Attributes:
        labels: class numbers, int64 (n,); -1 where the folder is a class of the node's own space.
        coarse: class numbers in that space, -1 for none; None where nodes label alike.
        sides: train, validation, test: row numbers.
    """

    images: Array
    labels: Array
    classes: tuple[str, ...]
    sides: Mapping[str, Rows]
    info: DataInfo
    coarse: Labels | None = None


@dataclass(frozen=True)
class _Found:
    """Image files by part of the folder; with one part "" it is not split yet."""

    files: Sequence[Path]
    parts: Sequence[str]
    labels: Array
    classes: tuple[str, ...]
    left_out: Sequence[Path]


def load_images(own: OwnImages, settings: TrainerSettings) -> ImageData:
    """This node's images, split for good.

    Raises:
        DataMissing: there is no folder, too few images, or Pillow is not installed.
        TrainerError: a class is not among those agreed, or a file cannot be read; names it.
    """
    root = own.path(settings)
    spaces = OwnLabels.of(settings.labels, own.classes)
    found = _found(root, own, spaces.words if spaces else None)
    mine = _own_rows(found, settings)
    files = [found.files[row] for row in mine]
    decoded = decoded_once(root, files, own.size, own.colour, settings.state_path)
    if decoded.faults and own.on_bad_file == "stop":
        name, why = next(iter(decoded.faults.items()))
        more = f" (and {len(decoded.faults) - 1} more files)" if len(decoded.faults) > 1 else ""
        raise TrainerError(
            f'{root / name} cannot be read: {why}{more}; mend or remove it, or set on_bad_file = "skip"'
        )
    bad = set(decoded.faults)
    good = np.array([i for i, file in enumerate(files) if _relative(root, file) not in bad], np.int64)
    labels = found.labels[mine]
    sides = _sides(own, settings, decoded.images, labels, [found.parts[row] for row in mine], good)
    counts = {side: len(rows) for side, rows in sides.items()}
    if not all(counts.values()):
        words = ", ".join(f"{n} in {side}" for side, n in counts.items())
        raise DataMissing(f"too few images in {root}: {words}", "bring more images, or change split")
    wanted = range(len(found.classes)) if spaces is None else ()  # else no node needs to have them all
    note = with_partition(_note(root, found, labels[good], decoded.faults, wanted), settings)
    fine, coarse, classes = labels, None, found.classes
    if spaces is not None:
        (fine, coarse), classes = spaces.numbers(found.classes[label] for label in labels), spaces.desired
    per_class = {side: counted(fine[rows], len(classes)) for side, rows in sides.items()}
    checksum = fingerprint({side: _marks(decoded.images, labels, rows) for side, rows in sides.items()})
    dealt = _dealt(found, settings) if spaces is None else ()
    info = DataInfo(f"images in {root}", counts, classes, is_sample(root), note, per_class, checksum, dealt)
    return ImageData(decoded.images, fine, classes, sides, info, coarse)


def _found(root: Path, own: OwnImages, words: Sequence[str] | None) -> _Found:
    """`words`: what folders may be called where nodes label differently; None where they do not."""
    if not root.is_dir():
        raise TrainerError(f"{root} is no folder; {_LAYOUT}")
    folders = _folders(root)
    tops: list[tuple[str, Path]] = [("", root)]
    if "train" in folders and set(folders) <= _PARTS.keys() and _folders(root / "train"):
        if "test" not in folders:
            raise TrainerError(f"{root} has train but no test; {_LAYOUT} (val may be missing)")
        tops = [(_PARTS[name], root / name) for name in folders]
    present = sorted({name for _, top in tops for name in _folders(top)})
    classes = _classes(root, words or own.classes, present)
    files: list[tuple[Path, str, int]] = []
    left_out = [] if tops[0][1] == root else _strange(root)
    for part, top in tops:
        left_out += _strange(top)
        for number, name in enumerate(classes):
            entries = list(_entries(top / name)) if (top / name).is_dir() else []
            images = [entry for entry in entries if entry.suffix.lower() in _ENDINGS and entry.is_file()]
            left_out += [entry for entry in entries if entry not in set(images)]
            files += [(entry, part, number) for entry in images]
    if not files:
        raise DataMissing(f"there are no images in {root}", _LAYOUT)
    paths, parts, labels = zip(*files, strict=True)
    return _Found(paths, parts, np.array(labels, np.int64), classes, left_out)


def _classes(root: Path, allowed: Sequence[str] | None, present: Sequence[str]) -> tuple[str, ...]:
    classes = tuple(allowed or present)
    if unknown := [name for name in present if name not in classes]:
        words = f"expected {shown(classes)}; found {shown(present)}"
        raise TrainerError(f"{root}: the folder {unknown[0]!r} is no class of this trainer: {words}")
    if odd := [name for name in present if not name.isprintable()]:
        raise TrainerError(f"{root}: {odd[0]!r} is no name for a class: expected printable characters")
    if len(classes) < 2:
        raise TrainerError(f"{root} has {len(classes)} class folders ({shown(classes)}); expected two or more")
    return classes


def _entries(folder: Path) -> Iterator[Path]:
    """What lies in a folder, sorted; nothing hidden."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith(".") and entry.name not in _IGNORED:
            yield entry


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in _entries(folder) if entry.is_dir()]


def _strange(folder: Path) -> list[Path]:
    return [entry for entry in _entries(folder) if not entry.is_dir()]


def _own_rows(found: _Found, settings: TrainerSettings) -> Rows:
    """This node's share: of each part and class alike, or by a partition of all that is not a given test part."""
    if settings.partition.kind == "iid":
        _, part = np.unique(found.parts, return_inverse=True)
        return shard(part.reshape(-1) * len(found.classes) + found.labels, settings.shard, settings.seed)
    given = np.array([part == "test" for part in found.parts])
    free, test = np.flatnonzero(~given), np.flatnonzero(given)
    mine = free[own_rows(found.labels[free], settings)]
    tested = own_published(found.labels[free], found.labels[test], settings)
    return np.sort(np.concatenate([mine, test[tested]]))


def _dealt(found: _Found, settings: TrainerSettings) -> tuple[tuple[int, ...], ...]:
    """The images of each class in every part, for people; those of a given test part by iid only."""
    if settings.partition.kind == "iid":
        _, part = np.unique(found.parts, return_inverse=True)
        return dealt_counts(found.labels, settings, len(found.classes), part.reshape(-1))
    free = np.array([part != "test" for part in found.parts])
    return dealt_counts(found.labels[free], settings, len(found.classes))


def _marks(images: Array, labels: Array, rows: Rows) -> Labelled:
    """A number for each picture in place of the picture, so that they need not all be in memory at once."""
    marks = [zlib.crc32(np.ascontiguousarray(images[row]).data) for row in rows]
    return Labelled(np.array(marks, np.uint32), labels[rows])


def _sides(
    own: OwnImages, settings: TrainerSettings, images: Array, labels: Array, parts: Sequence[str], good: Rows
) -> dict[str, Rows]:
    path = settings.state_path / "split-images.npz"
    given = {name: good[[parts[row] == name for row in good]] for name in set(_PARTS.values())}
    if not given["train"].size and not given["test"].size:
        rows = stored_split(path, images[good], labels[good], own.shares, settings.seed)
        return {side: good[numbers] for side, numbers in rows.items()}
    if not given["validation"].size:  # taken from what is there to train on, in the proportions asked for
        shares = {side: share for side, share in own.shares.items() if side != "test"}
        rows = stored_split(path, images[given["train"]], labels[given["train"]], shares, settings.seed)
        given |= {side: given["train"][numbers] for side, numbers in rows.items()}
    return {side: given[side] for side in ("train", "validation", "test")}


def _note(root: Path, found: _Found, labels: Array, faults: Mapping[str, str], wanted: Iterable[int]) -> str:
    said = []
    if faults:
        named = [f"{name} ({why})" for name, why in faults.items()]
        said.append(f"{len(faults)} files that cannot be read were skipped: {shown(named)}")
    if found.left_out:
        names = [_relative(root, path) for path in found.left_out]
        said.append(f"{len(names)} entries that are no .jpg, .jpeg or .png were left out: {shown(names)}")
    if absent := [found.classes[i] for i in wanted if not (labels == i).any()]:
        said.append(f"no image of {shown(absent)}")
    return "; ".join(said)


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
