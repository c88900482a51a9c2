"""Data of a no-code trainer of kind "images": files are found, checked, decoded once, and stored as bytes.

    <data>/<class>/*.jpg            or            <data>/{train,val,test}/<class>/*.jpg

Pillow decodes the images to one size; later starts map the stored file. Its name depends on the paths, sizes and
modification times of the images, the size in pixels and the colours. When any of these changes, a new file is written and
the old one removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.datasets.files import class_folders, entries, replacing
from flnet.datasets.labelled import Labelled, Rows, fingerprint, shard
from flnet.datasets.no_code import CHECKSUM_SHOWN, OwnImages, OwnLabels, counted, words_on_common_test
from flnet.datasets.pictures import Colour, Unreadable, decoded
from flnet.datasets.samples import is_sample
from flnet.datasets.split import (
    SIDES,
    FolderSplit,
    dealt_counts,
    how_to_split_anew,
    own_published,
    own_rows,
    split_by_folders,
    with_partition,
    words_on_kept,
)
from flnet.datasets.tables import shown
from flnet.errors import DataMissing, TrainerError
from flnet.labels.losses import Labels
from flnet.params.params import Array
from flnet.text import joined, text
from flnet.trainer import DataInfo, TrainerSettings

SPLIT_FILE = "split-images.npz"  # in the trainer's own folder
_VERSION = 1  # of the way in which an image becomes bytes
_OF_PROCESS = re.compile(r"images-[0-9a-f]+\.(\d+)\.part")
_CANNOT = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system that takes room only as it is written


@dataclass(frozen=True)
class Decoded:
    """Decoded images in the given order; an unreadable one is black and has an entry in `faults`."""

    images: Array
    faults: Mapping[str, str]


def decoded_once(root: Path, files: Sequence[Path], size: int, colour: Colour, folder: Path) -> Decoded:
    """These images, uint8 (n, size, size) or (n, size, size, 3), mapped read-only from `folder`.

    Args:
        root: what their paths in `faults` begin below.
        files: the images.
        size: pixels of each side; what is not square is squeezed.
        colour: grey or rgb.
        folder: for the bytes; must exist.

    Raises:
        DataMissing: Pillow is not installed.
        TrainerError: the folder cannot be written.
    """
    names = [file.relative_to(root).as_posix() for file in files]
    shape = (len(files), size, size) if colour == "grey" else (len(files), size, size, 3)
    key = _key(files, names, shape)
    target = folder / f"images-{key}.npy"
    known = _mapped(target, shape)
    if known is None:
        try:
            _decode_all(files, names, shape, colour, target)
        except OSError as exc:
            raise TrainerError(
                text("the decoded images cannot be kept in {folder}: {reason}", folder, exc)
            ) from exc
        known = _mapped(target, shape)
        if known is None:
            raise TrainerError(text("{path} cannot be read back; is the disk full?", target))
        for old in folder.glob("images-*"):
            if not old.name.startswith(f"images-{key}."):
                with suppress(OSError):
                    old.unlink()
    return known


def _key(files: Sequence[Path], names: Sequence[str], shape: tuple[int, ...]) -> str:
    total = hashlib.sha256(f"{_VERSION} {shape}".encode())
    for file, name in zip(files, names, strict=True):
        try:
            state = file.stat()
            total.update(f"\n{name}\0{state.st_size} {state.st_mtime_ns}".encode(errors="surrogateescape"))
        except OSError:
            total.update(f"\n{name}\0gone".encode(errors="surrogateescape"))
    return total.hexdigest()[:24]


def _decode_all(
    files: Sequence[Path], names: Sequence[str], shape: tuple[int, ...], colour: Colour, target: Path
) -> None:
    """Write faults and array; the array last, so that if it exists, both do."""
    _sweep(target.parent)
    unfinished = target.with_suffix(f".{os.getpid()}.part")
    faults: dict[str, str] = {}
    try:
        images = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
        _take_room(unfinished)
        for place, file in enumerate(files):
            try:
                images[place] = decoded(file, (shape[2], shape[1]), colour)
            except Unreadable as exc:
                faults[names[place]] = str(exc)
        images.flush()
        del images
        with replacing(target.with_suffix(".json")) as beside:
            beside.write(json.dumps(faults).encode())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _take_room(file: Path) -> None:
    """Take room on the disk for all bytes of a file, where the system can do that.

    A mapped file has none until it is written to; on a full disk, the write would end the process by a signal.

    Raises:
        OSError: there is no room.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    with file.open("r+b") as opened:
        try:
            os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
        except OSError as exc:
            if exc.errno not in _CANNOT:
                raise


def _sweep(folder: Path) -> None:
    """Remove what processes left that were killed while they decoded."""
    for path in folder.glob("images-*.part"):
        named = _OF_PROCESS.fullmatch(path.name)
        if named and int(named[1]) != os.getpid():
            try:
                os.kill(int(named[1]), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except (OSError, OverflowError):
                continue


def _mapped(target: Path, shape: tuple[int, ...]) -> Decoded | None:
    """The stored images of an earlier start; None if they are missing or damaged."""
    try:
        images = np.load(target, mmap_mode="r", allow_pickle=False)
        faults = json.loads(target.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError, EOFError):
        return None
    return Decoded(images, faults) if images.shape == shape and images.dtype == np.uint8 else None


_ENDINGS = frozenset({".jpg", ".jpeg", ".png"})
_LAYOUT = text("expected <class name>/*.jpg, .jpeg or .png, or train, val and test with such folders")


@dataclass(frozen=True)
class ImageData:
    """One node's images: `images` (n, size, size) or (n, size, size, 3), uint8, mapped from disk.

    Attributes:
        labels: class numbers, int64 (n,); -1 where the folder is a class of the node's own space.
        coarse: class numbers in that space, -1 for none; None where nodes label alike.
        sides: train, validation, test: row numbers.
        common: images and class numbers of the common test; None without one.
    """

    images: Array
    labels: Array
    classes: tuple[str, ...]
    sides: Mapping[str, Rows]
    info: DataInfo
    coarse: Labels | None = None
    common: Labelled | None = None


@dataclass(frozen=True)
class _ImageFiles:
    """Image files with their part (train, val, test; "" if the folder is not split) and class."""

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
    listing = _find_images(root, own, spaces.words if spaces else None)
    mine = _own_rows(listing, settings)
    files = [listing.files[row] for row in mine]
    decoded, good = _decoded(root, files, own, settings.state_path)
    labels = listing.labels[mine]
    split = _split(own, settings, decoded.images, labels, [listing.parts[row] for row in mine], good)
    sides, anew = split.sides, _words_on_split(split, settings)
    counts = {side: len(rows) for side, rows in sides.items()}
    if not all(counts.values()):
        words = ", ".join(f"{n} in {side}" for side, n in counts.items())
        remedy = joined([text("bring more images, or change split"), *anew])
        raise DataMissing(text("too few images in {folder}: {counts}", root, words), remedy)
    wanted = range(len(listing.classes)) if spaces is None else ()  # else no node needs to have them all
    notes = _notes(root, listing, labels[good], decoded.faults, wanted)
    common = _common_test(own, listing.classes, settings, spaces)
    mark, on_common = _marked(common, _marks(decoded.images, labels, good)) if common is not None else ("", "")
    notes += [on_common] if on_common else []
    note = with_partition(joined([*anew, *notes]), settings)
    fine, coarse, classes = labels, None, listing.classes
    if spaces is not None:
        (fine, coarse), classes = spaces.numbers(listing.classes[label] for label in labels), spaces.desired
    per_class = {side: counted(fine[rows], len(classes)) for side, rows in sides.items()}
    checksum = fingerprint({side: _marks(decoded.images, labels, rows) for side, rows in sides.items()})
    dealt = _dealt(listing, settings) if spaces is None else ()
    info = DataInfo(
        text("images in {folder}", root), counts, classes, is_sample(root), note, per_class, checksum, dealt, mark
    )
    return ImageData(decoded.images, fine, classes, sides, info, coarse, common)


def _decoded(root: Path, files: Sequence[Path], own: OwnImages, folder: Path) -> tuple[Decoded, Rows]:
    """The images, and the numbers of those that could be read.

    Raises:
        TrainerError: one could not, and is not to be skipped.
    """
    decoded = decoded_once(root, files, own.size, own.colour, folder)
    if decoded.faults and own.on_bad_file == "stop":
        name, why = next(iter(decoded.faults.items()))
        more = text(" (and {count} more files)", len(decoded.faults) - 1) if len(decoded.faults) > 1 else ""
        raise TrainerError(
            text(
                '{path} cannot be read: {reason}{more}; mend or remove it, or set on_bad_file = "skip"',
                root / name,
                why,
                more,
            )
        )
    bad = set(decoded.faults)
    return decoded, np.array([i for i, file in enumerate(files) if _relative(root, file) not in bad], np.int64)


def _common_test(
    own: OwnImages, classes: Sequence[str], settings: TrainerSettings, spaces: OwnLabels | None
) -> Labelled | None:
    """The images of the common test and their labels, which are the same on all nodes; None without one.

    Args:
        classes: what the folders are called.
        spaces: where nodes label differently: those of this one. Then labels are numbers in the desired space.

    Raises:
        TrainerError: none of the images can be used.
    """
    there = own.of_common_test(settings)
    if there is None:
        return None
    root, folder = Path(there.data), settings.state_path / "common-test"
    folder.mkdir(parents=True, exist_ok=True)
    listing = _find_images(root, there, classes)
    decoded, good = _decoded(root, listing.files, there, folder)
    labels = listing.labels[good]
    if spaces is not None:
        labels = spaces.numbers(listing.classes[label] for label in labels)[0]
    if not (labels >= 0).any():
        raise TrainerError(text("nothing in {path} can be used for the common test", root))
    return Labelled(decoded.images[good], labels)


def _marked(common: Labelled, own: Labelled) -> tuple[str, str]:
    """The checksum of the common test, and a sentence on it."""
    marks = _marks(common.x, common.y, np.arange(len(common.y)))
    known = np.isin(marks.x, own.x).sum()
    checksum = fingerprint({"common": marks})[:CHECKSUM_SHOWN]
    return checksum, words_on_common_test(len(common.y), checksum, int(known))


def _find_images(root: Path, own: OwnImages, words: Sequence[str] | None) -> _ImageFiles:
    """`words`: what folders may be called where nodes label differently; None where they do not."""
    if not root.is_dir():
        raise TrainerError(text("{folder} is no folder; {words}", root, _LAYOUT))
    folders = _folders(root)
    tops: list[tuple[str, Path]] = [("", root)]
    if is_split(root):
        if "test" not in folders:
            raise TrainerError(text("{folder} has train but no test; {words} (val may be missing)", root, _LAYOUT))
        tops = [(SIDES[name], root / name) for name in folders]
    folders_of = [class_folders(top) for _, top in tops]
    present = sorted({name for known in folders_of for name in known})
    classes = _classes(root, words or own.classes, present)
    files: list[tuple[Path, str, int]] = []
    left_out = [] if tops[0][1] == root else _strange(root)
    for (part, top), known in zip(tops, folders_of, strict=True):
        left_out += _strange(top)
        for number, name in enumerate(classes):
            inside = [entry for folder in known.get(name, ()) for entry in entries(folder)]
            images = [entry for entry in inside if entry.suffix.lower() in _ENDINGS and entry.is_file()]
            left_out += [entry for entry in inside if entry not in set(images)]
            files += [(entry, part, number) for entry in images]
    if not files:
        raise DataMissing(text("there are no images in {folder}", root), _LAYOUT)
    paths, parts, labels = zip(*files, strict=True)
    return _ImageFiles(paths, parts, np.array(labels, np.int64), classes, left_out)


def is_split(root: Path) -> bool:
    """Whether a folder of images has folders of training and test images; otherwise it has those of the classes."""
    folders = _folders(root)
    return "train" in folders and set(folders) <= SIDES.keys() and bool(_folders(root / "train"))


def _classes(root: Path, allowed: Sequence[str] | None, present: Sequence[str]) -> tuple[str, ...]:
    classes = tuple(allowed or present)
    if unknown := [name for name in present if name not in classes]:
        words = text("expected {names}; found {present}", shown(classes), shown(present))
        raise TrainerError(
            text("{folder}: the folder {name} is no class of this trainer: {words}", root, repr(unknown[0]), words)
        )
    if odd := [name for name in present if not name.isprintable()]:
        raise TrainerError(
            text("{folder}: {name} is no name for a class: expected printable characters", root, repr(odd[0]))
        )
    if len(classes) < 2:
        raise TrainerError(
            text(
                "{folder} has {count} class folders ({names}); expected two or more",
                root,
                len(classes),
                shown(classes),
            )
        )
    return classes


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in entries(folder) if entry.is_dir()]


def _strange(folder: Path) -> list[Path]:
    return [entry for entry in entries(folder) if not entry.is_dir()]


def _own_rows(listing: _ImageFiles, settings: TrainerSettings) -> Rows:
    """This node's shard: the same share of each part and class, or a partition of all but a given test part."""
    if settings.partition.kind == "iid":
        _, part = np.unique(listing.parts, return_inverse=True)
        return shard(part.reshape(-1) * len(listing.classes) + listing.labels, settings.shard, settings.seed)
    given = np.array([part == "test" for part in listing.parts])
    free, test = np.flatnonzero(~given), np.flatnonzero(given)
    mine = free[own_rows(listing.labels[free], settings)]
    tested = own_published(listing.labels[free], listing.labels[test], settings)
    return np.sort(np.concatenate([mine, test[tested]]))


def _dealt(listing: _ImageFiles, settings: TrainerSettings) -> tuple[tuple[int, ...], ...]:
    """Images of each class in every shard, for display; a given test part counts with iid only."""
    if settings.partition.kind == "iid":
        _, part = np.unique(listing.parts, return_inverse=True)
        return dealt_counts(listing.labels, settings, len(listing.classes), part.reshape(-1))
    free = np.array([part != "test" for part in listing.parts])
    return dealt_counts(listing.labels[free], settings, len(listing.classes))


def _marks(images: Array, labels: Array, rows: Rows) -> Labelled:
    """A checksum for each picture, so that not all pictures are in memory at once."""
    marks = [zlib.crc32(np.ascontiguousarray(images[row]).data) for row in rows]
    return Labelled(np.array(marks, np.uint32), labels[rows])


def _split(
    own: OwnImages, settings: TrainerSettings, images: Array, labels: Array, parts: Sequence[str], good: Rows
) -> FolderSplit:
    folders = [parts[row] for row in good]
    path = settings.state_path / SPLIT_FILE
    split = split_by_folders(path, images[good], labels[good], folders, own.shares, settings.seed)
    return FolderSplit({side: good[rows] for side, rows in split.sides.items()}, split.kept)


def _words_on_split(split: FolderSplit, settings: TrainerSettings) -> list[str]:
    """Why images are on another side than their folders say, and the offer to split them anew."""
    if not split.kept:
        return []
    return [words_on_kept(split.kept), how_to_split_anew(settings.state_path / SPLIT_FILE)]


def _notes(
    root: Path, listing: _ImageFiles, labels: Array, faults: Mapping[str, str], wanted: Iterable[int]
) -> list[str]:
    notes: list[str] = []
    if faults:
        named = [f"{name} ({why})" for name, why in faults.items()]
        notes.append(text("skipped files that cannot be read ({count}): {names}", len(faults), shown(named)))
    if listing.left_out:
        names = [_relative(root, path) for path in listing.left_out]
        notes.append(
            text(
                "{count} entries that are no .jpg, .jpeg or .png were left out: {names}", len(names), shown(names)
            )
        )
    if absent := [listing.classes[i] for i in wanted if not (labels == i).any()]:
        notes.append(text("no image of {names}", shown(absent)))
    return notes


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
