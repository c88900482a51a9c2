"""The rows of this node, and their split into training, validation and test rows.

`own_rows` and its variants take this node's shard of a data set, as the settings partition it. A published test set is
dealt in the proportions of the training set, so that a node is measured on the classes it has.

A split is decided once and stored. A score means nothing once test rows were trained on, and a node is restarted many
times: with more rows, with another shard, with its files in another order. So a side is not computed from row numbers.
The side of every row ever seen is stored under a digest of the row's contents. A row that returns gets its old side;
equal rows are on the same side; only new rows are dealt, label by label, in the given proportions.

`split_by_folders` does the same where folders say on which side a row is to be: a row that was on a side before
stays there, and only new rows follow their folders.

Group-aware functions keep all rows of one group (for example all X-rays of one patient) on one node and on one side.
Pictures of one patient look alike: a model that trained on one of them recognises the others, and a score on those
says nothing about new patients. What is stored is the side of a group, so that a new row of a known group joins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flnet.datasets.files import replacing
from flnet.datasets.labelled import UNREADABLE, Rows, open_npz, read_npz, shard
from flnet.datasets.partition import matching_parts
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.text import joined, text
from flnet.trainer import TrainerSettings

Sides = NDArray[np.uint8]
# As folders, and the cells of a column, name them.
SIDES = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_GOLDEN = 0.6180339887498949


def stored_split(
    path: Path, rows: Array, labels: Array, shares: Mapping[str, float], seed: int
) -> dict[str, Rows]:
    """Split rows into sides, and remember the side of each row; returns ascending row numbers.

    Args:
        path: file that remembers; made at the first call, extended when new rows come.
        rows: the first axis counts them.
        labels: one for each row.
        shares: side -> proportion; {"train": 0.7, "validation": 0.1, "test": 0.2}.
        seed: of the shuffling of rows that are new.

    Raises:
        TrainerError: the file is damaged, is of other sides, or cannot be written.
    """
    keys, first, where = np.unique(_digests(rows), return_index=True, return_inverse=True)
    known, known_sides = _load(path, shares)
    sides = _remembered(keys, known, known_sides)
    new = np.flatnonzero(sides < 0)
    if new.size:
        sides[new] = _dealt(labels[first[new]], shares, seed, len(known))
        _store(path, np.r_[known, keys[new]], np.r_[known_sides, sides[new].astype(np.uint8)], shares)
    return {name: np.flatnonzero(sides[where.reshape(-1)] == i) for i, name in enumerate(shares)}


def _digests(rows: Array) -> NDArray[np.uint64]:
    """Digests of rows, 8 bytes each: the chance that two of a million rows collide is below one in 30 million."""
    joined = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(joined, "<u8").astype(np.uint64)


def _remembered(keys: NDArray[np.uint64], known: NDArray[np.uint64], known_sides: Sides) -> NDArray[np.int16]:
    """The stored side of each key, -1 for new keys."""
    sides = np.full(len(keys), -1, np.int16)
    if len(known):
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)
        known_before = known[order[at]] == keys
        sides[known_before] = known_sides[order[at[known_before]]]
    return sides


def _dealt(labels: Array, shares: Mapping[str, float], seed: int, dealt_before: int) -> NDArray[np.int16]:
    """Sides for new rows, label by label in the given proportions.

    Multiples of the golden ratio fill [0, 1) evenly from any start and over any stretch, so that every label
    gets its proportions, and rows that come one at a time do too.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    bounds = np.cumsum(list(shares.values())) / sum(shares.values())
    place = (0.5 + _GOLDEN * (dealt_before + np.arange(len(labels)))) % 1.0
    sides = np.empty(len(labels), np.int16)
    sides[order] = np.minimum(np.searchsorted(bounds, place, side="right"), len(bounds) - 1)
    return sides


def _load(path: Path, shares: Mapping[str, float]) -> tuple[NDArray[np.uint64], Sides]:
    if not path.exists():
        return np.empty(0, np.uint64), np.empty(0, np.uint8)
    names, digests, sides = _read(path)
    if names != list(shares):
        raise _of_other_sides(path, names, shares)
    return digests, sides


def _read(path: Path) -> tuple[list[str], NDArray[np.uint64], Sides]:
    """The names of the sides, the digests of all rows, and the number of each one's side.

    Raises:
        TrainerError: the file is damaged.
    """
    names, digests, sides, checksum = read_npz(path, ("names", "digests", "sides", "checksum"))
    if len(digests) != len(sides) or str(checksum) != _checksum(digests, sides):
        raise TrainerError(
            text("{path} is damaged: bring it back, or delete it and start with untrained parameters", path)
        )
    return names.tolist(), digests.astype(np.uint64), sides.astype(np.uint8)


def _of_other_sides(path: Path, names: Sequence[str], shares: Mapping[str, float]) -> TrainerError:
    return TrainerError(
        text("{path} splits into {parts}; expected {expected}", path, ", ".join(names), ", ".join(shares))
    )


def _store(
    path: Path, digests: NDArray[np.uint64], sides: Sides, shares: Collection[str], **more: Array | bool | int
) -> None:
    try:
        with replacing(path) as file:
            checksum = _checksum(digests, sides)
            np.savez(file, names=list(shares), digests=digests, sides=sides, checksum=checksum, **more)  # type: ignore[arg-type]
    except OSError as exc:
        raise TrainerError(text("the split cannot be stored in {path}: {reason}", path, exc)) from exc


def _checksum(digests: Array, sides: Array) -> str:
    return hashlib.sha256(digests.astype("<u8").tobytes() + sides.tobytes()).hexdigest()


@dataclass(frozen=True)
class FolderSplit:
    """Rows by side, and how many of them keep an earlier side though the layout of the folders says another one.

    Attributes:
        sides: side -> ascending row numbers.
        kept: rows that were on another side before than that of their folder; where folders name no side, rows
            whose side an earlier folder named.
    """

    sides: dict[str, Rows]
    kept: int


def split_by_folders(
    path: Path, rows: Array, labels: Array, folders: Sequence[str], shares: Mapping[str, float], seed: int
) -> FolderSplit:
    """Split rows that lie in folders of a side or in none, and remember the side of each row.

    A row that was on a side before keeps it, whatever its folder says now: a test row that was trained on would
    say nothing. Equal rows that come at once from folders of two sides are on both.

    Args:
        path: file that remembers, as of `stored_split`; one that knows fewer sides is extended.
        rows: the first axis counts them.
        labels: one for each row.
        folders: of each row the side that its folder names, or "" if it names none. Where no folder names
            "validation", that side is dealt from new rows in "train".
        shares: side -> proportion; train, validation and test.
        seed: of the shuffling of rows that are new.

    Raises:
        TrainerError: the file is damaged, is of other sides, or cannot be written.
    """
    names = list(shares)
    may_be = _sides_allowed(names, set(folders))
    known, before = _remembered_by_folder(path, names)
    digests, sides, kept = _digests(rows).tolist(), np.full(len(rows), -1, np.int16), 0
    for row, (digest, folder) in enumerate(zip(digests, folders, strict=True)):
        if was := known.get(digest):
            side = min((number for number in was if number in may_be[folder]), default=min(was))
            sides[row] = side
            kept += was[side] if not folder else side not in may_be[folder]
        elif len(may_be[folder]) == 1:
            sides[row] = may_be[folder][0]
    free = np.flatnonzero(sides < 0)
    if free.size:
        dealt_to = {names[number]: shares[names[number]] for number in may_be[folders[int(free[0])]]}
        _, first, where = np.unique(np.array(digests, np.uint64)[free], return_index=True, return_inverse=True)
        sides[free] = _dealt(labels[free[first]], dealt_to, seed, len(known))[where.reshape(-1)]
    for digest, folder, side in zip(digests, folders, sides.tolist(), strict=True):
        known.setdefault(digest, {}).setdefault(side, len(may_be[folder]) == 1)
    after = {"split": any(folders), "kept": kept}
    if before != {**after, "entries": sum(map(len, known.values()))}:
        entries = [(digest, side, by) for digest, was in known.items() for side, by in was.items()]
        stored = np.array([digest for digest, _, _ in entries], np.uint64)
        numbers = np.array([side for _, side, _ in entries], np.uint8)
        by_folder = np.array([by for _, _, by in entries], bool)
        _store(path, stored, numbers, names, by_folder=by_folder, **after)
    return FolderSplit({name: np.flatnonzero(sides == i) for i, name in enumerate(names)}, kept)


def _sides_allowed(names: Sequence[str], folders: Collection[str]) -> dict[str, tuple[int, ...]]:
    """For each folder the numbers of the sides that its new rows may be on."""
    allowed: dict[str, tuple[int, ...]] = {name: (number,) for number, name in enumerate(names)}
    if "validation" not in folders:
        allowed["train"] = (names.index("train"), names.index("validation"))
    return {**allowed, "": tuple(range(len(names)))}


def _remembered_by_folder(
    path: Path, names: Sequence[str]
) -> tuple[dict[int, dict[int, bool]], dict[str, int | bool]]:
    """For each digest its sides, each with whether a folder named it; and what the file says of its last use."""
    if not path.exists():
        return {}, {}
    stored, digests, sides = _read(path)
    if not set(stored) <= set(names):
        raise _of_other_sides(path, stored, dict.fromkeys(names, 0.0))
    number = [names.index(name) for name in stored]
    with open_npz(path) as file:
        by_folder = np.asarray(file["by_folder"]) if "by_folder" in file.files else np.zeros(len(sides), bool)
    known: dict[int, dict[int, bool]] = {}
    for digest, side, by in zip(digests.tolist(), sides.tolist(), by_folder.tolist(), strict=True):
        known.setdefault(digest, {})[number[side]] = bool(by)
    return known, {**_last_use(path), "entries": len(digests)}


def _last_use(path: Path) -> dict[str, int | bool]:
    with open_npz(path) as file:
        if "split" not in file.files or "kept" not in file.files:
            return {}
        return {"split": bool(file["split"]), "kept": int(file["kept"])}


def examine_split(path: Path, is_split: bool | None = None) -> tuple[bool, str]:
    """Whether a stored split can be used, and a sentence if there is something to say about it.

    Args:
        path: the file that remembers the sides.
        is_split: whether the folder of the images has folders of sides now; None if that is not known.
    """
    try:
        names, _, _ = _read(path)
        last = _last_use(path)
    except TrainerError as exc:
        return False, exc.message
    except UNREADABLE as exc:
        return False, text("{path} cannot be read as an .npz file: {reason}", path, exc)
    was_split = bool(last.get("split", names == ["train", "validation"]))
    if is_split is not None and is_split != was_split:
        kept = text("the folders are laid out anew; images that were split before keep their side")
        return True, joined([kept, how_to_split_anew(path)])
    if kept_rows := int(last.get("kept", 0)):
        return True, joined([words_on_kept(kept_rows), how_to_split_anew(path)])
    return True, ""


def words_on_kept(kept: int) -> str:
    """That some rows, or images, are on another side than their folder or column says."""
    return text(
        "{count} rows keep the side of the split that they had before their folder or column said another one, so that "
        "nothing is tested on that was trained on",
        kept,
    )


def how_to_split_anew(path: Path) -> str:
    """What a person does who wants another split all the same."""
    return text(
        "to split all of them anew, stop the node and delete {path}; a model that was trained before has then seen "
        "rows of the new test",
        path,
    )


_KEY_BYTES = 16


def grouped_shard(groups: Sequence[str], labels: Array, part: tuple[int, int], seed: int) -> Rows:
    """Row numbers of part i of n (from 1), ascending, with whole groups; parts are disjoint and hold all rows.

    All nodes that call it with the same groups, labels and seed agree on the parts, in whatever order their
    rows are.

    Args:
        groups: the name of each row's group.
        labels: one for each row.
        part: (i, n).
        seed: of the shuffling of groups.
    """
    dealt = _Groups.of(groups, labels)
    return dealt.rows_of(shard(dealt.kinds, part, seed))


def grouped_split(
    path: Path, groups: Sequence[str], labels: Array, shares: Mapping[str, float], seed: int
) -> dict[str, Rows]:
    """Split rows into sides like `stored_split`, with every group on one side, also after a restart.

    Args:
        path: file that remembers; made at the first call, extended when new groups come.
        groups: the name of each row's group.
        labels: one for each row.
        shares: side -> proportion.
        seed: of the shuffling of groups that are new.

    Raises:
        TrainerError: the file is damaged, is of other sides, or cannot be written.
    """
    dealt = _Groups.of(groups, labels)
    sides = stored_split(path, dealt.keys, dealt.kinds, shares, seed)
    return {side: dealt.rows_of(numbers) for side, numbers in sides.items()}


@dataclass(frozen=True)
class _Groups:
    """Groups in the order of their names: `keys` (m, 16) bytes that stand for the name, `kinds` (m,) and the
    group number of each row. Groups are of one kind when their commonest label and their size are the same;
    kinds count up by label, then by size."""

    keys: Array
    kinds: Array
    numbers: Array

    @classmethod
    def of(cls, groups: Sequence[str], labels: Array) -> _Groups:
        if len(groups) != len(labels):
            raise TrainerError(
                text("{count} groups came with {labels} labels; expected one each", len(groups), len(labels))
            )
        names, numbers = np.unique(np.array(groups, np.str_), return_inverse=True)
        _, codes = np.unique(labels, return_inverse=True)
        counts = np.zeros((len(names), int(codes.max(initial=0)) + 1), np.int64)
        np.add.at(counts, (numbers, codes), 1)
        described = np.column_stack([counts.argmax(1), counts.sum(1)])
        _, kinds = np.unique(described, axis=0, return_inverse=True)
        # Names of fixed length: the width of a text array depends on the longest name in it.
        joined = b"".join(
            hashlib.blake2b(name.encode(), digest_size=_KEY_BYTES).digest() for name in names.tolist()
        )
        keys = np.frombuffer(joined, np.uint8).reshape(len(names), _KEY_BYTES)
        return cls(keys, kinds.reshape(-1), numbers.reshape(-1))

    def rows_of(self, groups: Array) -> Rows:
        return np.flatnonzero(np.isin(self.numbers, groups))


_MOST_SHOWN = 1000  # parts that are counted
_LEAST_ROWS = 10  # of a part, where there are enough: a tenth of them validates


def own_rows(labels: Array, settings: TrainerSettings) -> Rows:
    """Row numbers of this node's shard, ascending; the shards of all nodes hold every row once.

    Args:
        labels: one for each row.
        settings: shard, partition and seed; the last two the same on all nodes.

    Raises:
        TrainerError: these rows cannot be dealt so.
    """
    if settings.partition.kind == "iid":
        return shard(labels, settings.shard, settings.seed)
    return _parts(labels, settings)[settings.shard[0] - 1]


def held_back(labels: Array, settings: TrainerSettings) -> tuple[Rows, Rows]:
    """Numbers of the rows to train with and of those to hold back for validation, ascending, label by label.

    For data sets without validation rows: FLNET_VALIDATION_SHARE of the training rows, the same for the same rows and seed.

    Args:
        labels: one for each training row of this node.
    """
    share = settings.validation_share
    if not share:
        return np.arange(len(labels)), np.arange(0)
    sides = _dealt(labels, {"train": 1 - share, "validation": share}, settings.seed, 0)
    return np.flatnonzero(sides == 0), np.flatnonzero(sides == 1)


def own_published(labels: Array, others: Array, settings: TrainerSettings) -> Rows:
    """Row numbers of this node's share of a published test set.

    Args:
        labels: of the rows that `own_rows` deals.
        others: of the rows of the test part.
        settings: as for `own_rows`.
    """
    if settings.partition.kind == "iid":
        return shard(others, settings.shard, settings.seed)
    if not len(others):
        return np.empty(0, np.int64)
    parts = matching_parts(_parts(labels, settings), labels, others, settings.seed)
    return parts[settings.shard[0] - 1]


def own_grouped(groups: Sequence[str], labels: Array, settings: TrainerSettings) -> Rows:
    """Row numbers of this node's shard with whole groups, which are dealt by their most common label.

    Of "groups" the parts are as equal in rows as they can be; "quantity" and "power" count groups, not rows.

    Raises:
        TrainerError: these groups cannot be dealt so.
    """
    index, count = settings.shard
    if settings.partition.kind == "iid":
        return grouped_shard(groups, labels, settings.shard, settings.seed)
    names = np.array(groups, np.str_)
    if settings.partition.kind == "groups":
        return settings.partition.parts(labels, count, settings.seed, groups=names)[index - 1]
    _, numbers = np.unique(names, return_inverse=True)
    kinds, codes = np.unique(labels, return_inverse=True)
    held = np.zeros((int(numbers.max(initial=-1)) + 1, len(kinds)), np.int64)
    np.add.at(held, (numbers, codes), 1)
    mine = _parts(held.argmax(1), settings)[index - 1]
    return np.flatnonzero(np.isin(numbers, mine))


def dealt_counts(
    labels: Array, settings: TrainerSettings, classes: int, strata: Array | None = None
) -> tuple[tuple[int, ...], ...]:
    """Rows of each class in every part that `own_rows` deals, for display; empty if there is one part.

    Args:
        labels: class numbers from 0, one for each row.
        settings: as for `own_rows`.
        classes: how many there are; 0 where labels are no classes.
        strata: numbers of what is dealt apart by iid, each label in each.
    """
    _, count = settings.shard
    if not 1 < count <= _MOST_SHOWN or classes < 1:
        return ()
    if settings.partition.kind == "iid":
        ordered = labels[np.lexsort((labels, np.zeros_like(labels) if strata is None else strata))]
        # `shard` deals them out one by one in this order
        parts = [ordered[part::count] for part in range(count)]
    else:
        parts = [labels[rows] for rows in _parts(labels, settings)]
    return tuple(tuple(np.bincount(part, minlength=classes).tolist()) for part in parts)


def with_partition(note: str, settings: TrainerSettings) -> str:
    """The note with a sentence about the partition; unchanged for iid."""
    if settings.partition.kind == "iid":
        return note
    index, count = settings.shard
    words = text(
        "this node has part {index} of {count} of the partition {partition}", index, count, settings.partition
    )
    return joined([words, note]) if note else words


def _parts(labels: Array, settings: TrainerSettings) -> list[Rows]:
    count = settings.shard[1]
    least = max(1, min(_LEAST_ROWS, len(labels) // (2 * count)))
    try:
        return settings.partition.parts(labels, count, settings.seed, min_rows=least)
    except TrainerError as exc:
        raise TrainerError(
            text("FLNET_DATA_PARTITION={partition}: {reason}", settings.partition, exc.message)
        ) from exc
