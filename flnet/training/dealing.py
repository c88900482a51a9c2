"""Which rows are this node's: its part of the partition that the settings ask for.

"iid" is dealt by `data.shard` and `groups.grouped_shard`; all other ways by `partition.Partition`. A published
test part is dealt in the proportions of the training part, so that a node is measured on what it has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.api import TrainerSettings
from flnet.training.data import Rows, shard
from flnet.training.groups import grouped_shard
from flnet.training.partition import matching_parts

_MOST_SHOWN = 1000  # parts that are counted
_LEAST_ROWS = 10  # of a part, where there are enough: a tenth of them validates


def own_rows(labels: Array, settings: TrainerSettings) -> Rows:
    """The numbers of this node's rows, ascending; all nodes' together are all rows, each once.

    Args:
        labels: one for each row.
        settings: shard, partition and seed; the last two the same on all nodes.

    Raises:
        TrainerError: these rows cannot be dealt so.
    """
    if settings.partition.kind == "iid":
        return shard(labels, settings.shard, settings.seed)
    return _parts(labels, settings)[settings.shard[0] - 1]


def own_published(labels: Array, others: Array, settings: TrainerSettings) -> Rows:
    """The numbers of this node's rows of a published test part.

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
    """The numbers of this node's rows where groups stay whole: what is dealt are groups, by their commonest label.

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
    """The rows of each class in every part that `own_rows` deals, for people; nothing where there is one part.

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
    """The note for people with a word on how rows were dealt; as it is where they were dealt evenly."""
    if settings.partition.kind == "iid":
        return note
    index, count = settings.shard
    said = f"this node has part {index} of {count} of the partition {settings.partition}"
    return f"{said}; {note}" if note else said


def _parts(labels: Array, settings: TrainerSettings) -> list[Rows]:
    count = settings.shard[1]
    least = max(1, min(_LEAST_ROWS, len(labels) // (2 * count)))
    try:
        return settings.partition.parts(labels, count, settings.seed, min_rows=least)
    except TrainerError as exc:
        raise TrainerError(f"FLNET_DATA_PARTITION={settings.partition}: {exc.message}") from exc
