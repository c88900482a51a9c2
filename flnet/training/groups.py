"""Shards and splits that keep groups of rows together: all X-rays of one patient on one node and on one side.

Pictures of one patient look alike; a model that trained on one of them recognises the others, and a score
on those says nothing about new patients. So whole groups are dealt out, by the rules of `data.shard` and
`split.stored_split`: as evenly for each label as whole groups allow, large ones and small ones too. What is
stored is the side of a group, so that a new row of a known group joins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.data import Rows, shard
from flnet.training.split import stored_split

_KEY_BYTES = 16


def grouped_shard(groups: Sequence[str], labels: Array, part: tuple[int, int], seed: int) -> Rows:
    """The row numbers of part i of n (counted from 1), ascending; the parts are disjoint and hold all rows.

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
    """The row numbers on each side, ascending; no group is on two sides, now or after any restart.

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
            raise TrainerError(f"{len(groups)} groups came with {len(labels)} labels; expected one each")
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
