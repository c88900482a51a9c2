"""Chest X-rays of children with and without pneumonia: one node's part of them, (n, 64, 64, 1) uint8, grey.

The published set (Kermany, Zhang, Goldbaum 2018) has parts train, val and test. Its 16 val images join train,
as that is too few to choose a model by; what is dealt out to the nodes and split there into train, validation
and test is these two. The published test part is nobody's to train on: every node may measure on it.
Patients stay whole: all images of one patient are on one node and on one side of its split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.datasets.labelled import Labelled, Rows, fingerprint, read_npz
from flnet.datasets.split import grouped_split, own_grouped, with_partition
from flnet.text import joined, text
from flnet.trainer import Array, DataInfo, DataMissing, TrainerError, TrainerSettings

from ._pictures import grey_pictures

SIDE = 64  # pixels
CLASSES = ("NORMAL", "PNEUMONIA")
SUBTYPES = ("NORMAL", "BACTERIAL", "VIRAL")
_OF_NAMES = ("", "bacteria", "virus")  # what stands in the names of files, in the order of SUBTYPES
SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
_NPZ = "chest_xray_pneumonia_64.npz"
_ENDINGS = {".jpeg", ".jpg", ".png"}
_PATIENT = re.compile(r"person(\d+)_|(?:NORMAL2-)?IM-(\d+)-|(?:NORMAL|BACTERIA|VIRUS)-(\d+)-", re.IGNORECASE)
_LAYOUT = "chest_xray/{train,val,test}/{NORMAL,PNEUMONIA}/*.jpeg"
_REMEDY = text(
    "put the published images as {layout} into a folder and name that folder in "
    "FLNET_DATASETS_PATH; they are at https://data.mendeley.com/datasets/rscbjbr9sj (CC "
    "BY 4.0)",
    _LAYOUT,
)
_NAMED = 3  # damaged files that the note names; the others are counted


@dataclass(frozen=True)
class XRays:
    """One node's X-rays; labels int64, 1 for pneumonia. `official` is the published test part."""

    train: Labelled
    validation: Labelled
    test: Labelled
    official: Labelled
    info: DataInfo


@dataclass(frozen=True)
class _Part:
    """X-rays of which not all may be wanted: labels and patients of all, and what reads those that are."""

    labels: Array
    patients: Sequence[str]
    read: Callable[[Rows], _Read]


@dataclass(frozen=True)
class _Read:
    """The rows that could be read, their images, and what is wrong with the other files, by name."""

    rows: Rows
    images: Array
    faults: dict[str, str]


def patient_of(name: str) -> str:
    """The patient in a file's name as the set has them: "person12_virus_7.jpeg", "NORMAL2-IM-0115-0001.jpeg".

    A name of another kind counts as a patient of its own.
    """
    match = _PATIENT.match(name)
    if not match:
        return f"file {name}"
    person, normal, other = match.groups()
    # One number with and without "NORMAL2-" may be two patients; taking them for one leaks nothing.
    return f"person {int(person)}" if person else f"IM {int(normal)}" if normal else f"patient {int(other)}"


def load_xrays(settings: TrainerSettings, classes: Sequence[str] = CLASSES) -> XRays:
    """This node's patients, split for good, and the published test part.

    Args:
        classes: CLASSES, or SUBTYPES to tell apart what causes a pneumonia.

    Raises:
        DataMissing: there are no X-rays, or their folders are not as expected, or too few for so many shards.
        TrainerError: an .npz file is damaged.
    """
    source, own, official = _found(settings, classes)
    mine = own_grouped(own.patients, own.labels, settings)
    read, published = own.read(mine), official.read(np.arange(len(official.labels)))
    new = _first_seen(read.images, [own.patients[row] for row in read.rows], published.images)
    rows = read.rows[new]
    data = Labelled(read.images[new, ..., None], own.labels[rows].astype(np.int64))
    patients = [own.patients[row] for row in rows]
    split = grouped_split(settings.state_path / "split-chest.npz", patients, data.y, SHARES, settings.seed)
    sides = {side: data.take(numbers) for side, numbers in split.items()}
    sides["official"] = Labelled(published.images[..., None], official.labels[published.rows].astype(np.int64))
    counts = {side: len(part) for side, part in sides.items()}
    if not all(counts.values()):
        words = ", ".join(f"{n} in {side}" for side, n in counts.items())
        raise DataMissing(
            text("too few X-rays for this shard: {counts}", words), text("use fewer shards, or bring more X-rays")
        )
    note = _note(read.faults | published.faults, len(read.rows) - len(rows), patients, counts["official"])
    note = with_partition(note, settings)
    rows_of = {side: counts[side] for side in SHARES}
    per_class = {side: np.bincount(sides[side].y, minlength=len(classes)).tolist() for side in SHARES}
    checksum = fingerprint({side: sides[side] for side in SHARES})
    return XRays(
        **sides, info=DataInfo(source, rows_of, tuple(classes), note=note, counts=per_class, checksum=checksum)
    )


def load_subtypes(settings: TrainerSettings) -> XRays:
    """The same with the causes of a pneumonia told apart."""
    return load_xrays(settings, SUBTYPES)


def _first_seen(images: Array, patients: Sequence[str], others: Array) -> Rows:
    """Rows whose picture is neither among the others nor under the name of another patient further up."""
    owner = {image.tobytes(): "" for image in others}
    pairs = zip(images, patients, strict=True)
    return np.array(
        [i for i, (image, p) in enumerate(pairs) if owner.setdefault(image.tobytes(), p) == p], np.int64
    )


def _note(faults: dict[str, str], twice: int, patients: Sequence[str], official: int) -> str:
    notes: list[str] = [
        text(
            "{patients} patients; {count} more X-rays, the published test part, are for measuring only",
            len(set(patients)),
            official,
        )
    ]
    if faults:
        named = [f"{name} ({why})" for name, why in list(faults.items())[:_NAMED]]
        shown = ", ".join(named)
        hidden = len(faults) - _NAMED
        damaged = text("{names} and {count} more", shown, hidden) if hidden > 0 else shown
        notes.append(text("{count} damaged left out: {names}", len(faults), damaged))
    if twice:
        notes.append(
            text(
                "{count} left out that are there twice, under another patient or in the published test part", twice
            )
        )
    unknown = sum(patient.startswith("file ") for patient in patients)
    if unknown:
        notes.append(
            text("{count} have no patient in their name, so that each counts as a patient of its own", unknown)
        )
    return joined(notes)


def _found(settings: TrainerSettings, classes: Sequence[str]) -> tuple[str, _Part, _Part]:
    """What was found in words, what is dealt out, the published test part."""
    folder = settings.datasets_path
    if folder is None:
        raise DataMissing(text("the chest X-rays are not here, because FLNET_DATASETS_PATH is not set"), _REMEDY)
    for name in ("chest_xray", "chest-xray-pneumonia"):
        if (folder / name).is_dir():
            inside = folder / name / "chest_xray"  # the usual archive has one in the other
            root = inside if inside.is_dir() else folder / name
            cache = settings.state_path / f"chest-{SIDE}"
            own = _files(root, ("train", "val"), cache.with_name(f"{cache.name}-own.npz"), classes)
            official = _files(root, ("test",), cache.with_name(f"{cache.name}-test.npz"), classes)
            return text("chest X-rays in {folder}", root), own, official
    for path in (folder / _NPZ, folder / "chest_xray" / _NPZ):
        if path.is_file():
            return text("chest X-rays in {folder}", path), *_npz(path, classes)
    raise DataMissing(text("the chest X-rays were not found in {folder}", folder), _REMEDY)


def _files(root: Path, parts: Sequence[str], cache: Path, classes: Sequence[str]) -> _Part:
    """The images of these folders; nothing is opened before it is wanted."""
    names, labels = [], []
    for part in parts:
        for label, kind in enumerate(CLASSES):
            files = _pictures_in(root / part / kind)
            if not files and part != "val":
                have = ", ".join(sorted(entry.name for entry in root.iterdir())[:10]) or text("nothing")
                what = text(
                    "{folder} is not as expected: no images in {part}/{kind}; {name} has {present}",
                    root,
                    part,
                    kind,
                    root.name,
                    have,
                )
                raise DataMissing(what, text("arrange them as {layout} (or .jpg, .png)", _LAYOUT))
            names += [f"{part}/{kind}/{name}" for name in files]
            labels += [label] * len(files) if classes == CLASSES else [_subtype(name) for name in files]

    def read(rows: Rows) -> _Read:
        wanted = [names[row] for row in rows]
        pictures = grey_pictures(root, wanted, SIDE, cache)
        faults = {wanted[place]: why for place, why in pictures.faults.items()}
        return _Read(rows[pictures.readable], pictures.images, faults)

    return _Part(np.array(labels, np.int64), [patient_of(Path(name).name) for name in names], read)


def _pictures_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    entries = (entry.name for entry in folder.iterdir() if entry.suffix.lower() in _ENDINGS)
    return sorted(name for name in entries if not name.startswith("."))  # "._..." is what some systems leave


def _subtype(name: str) -> int:
    """What a file's name says of the cause: "person12_virus_7.jpeg"."""
    return next((label for label in (1, 2) if _OF_NAMES[label] in name.lower()), 0)


def _npz(path: Path, classes: Sequence[str]) -> tuple[_Part, _Part]:
    labels = "y" if classes == CLASSES else "subtype"
    names = [f"{what}_{part}" for part in ("train", "val", "test") for what in ("x", labels, "patient")]
    arrays = read_npz(path, names)
    starts, kinds = (0, 3, 6), len(classes)
    parts = [_checked(arrays[at], arrays[at + 1], arrays[at + 2], path, kinds) for at in starts]
    own = [np.concatenate(both) for both in zip(*parts[:2], strict=True)]
    return _arrays(*own), _arrays(*parts[2])


def _arrays(x: Array, y: Array, patients: Array) -> _Part:
    return _Part(y, [f"patient {number}" for number in patients], lambda rows: _Read(rows, x[rows], {}))


def _checked(x: Array, y: Array, patients: Array, path: Path, kinds: int) -> tuple[Array, Array, Array]:
    if x.ndim != 3 or x.shape[1:] != (SIDE, SIDE) or x.dtype != np.uint8:
        raise TrainerError(
            text(
                "{path}: images are {dtype} {shape}; expected uint8 [n, {height}, {width}]",
                path,
                x.dtype,
                list(x.shape),
                SIDE,
                SIDE,
            )
        )
    if y.shape != (len(x),) or y.dtype.kind not in "iu" or not np.isin(y, range(kinds)).all():
        expected = " or ".join(map(str, range(kinds)))
        raise TrainerError(
            text(
                "{path}: labels are {dtype} {shape}; expected {words} for each of {count} images",
                path,
                y.dtype,
                list(y.shape),
                expected,
                len(x),
            )
        )
    if patients.shape != (len(x),) or patients.dtype.kind not in "iu":
        raise TrainerError(
            text(
                "{path}: patients are {dtype} {shape}; expected {count} numbers",
                path,
                patients.dtype,
                list(patients.shape),
                len(x),
            )
        )
    return x, y, patients
