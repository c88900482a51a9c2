"""Which events are forgotten when there are too many: the oldest of what is most frequent.

If the oldest of all went, whoever causes events without end would push out all that others did. So the places are
shared (max-min fairness): between kinds of events, and within a kind between the nodes that they are about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

SLACK = (
    50  # events are dropped when there is a 50th too many, so that the many need not be counted for each new one
)
K = TypeVar("K")


class KeptEvent(NamedTuple):
    """An event that is kept.

    Attributes:
        about: the node that it is about, or an address; empty for this node.
    """

    id: int
    kind: str
    about: str


def about(data: Mapping[str, object]) -> str:
    """The node or address that an event with these data is about; empty for this node."""
    return str(data.get("peer") or data.get("address") or "")


def surplus(count: int, most: int) -> int:
    """How many of so many events go, if `most` are kept; none while there are few too many."""
    return count - most if count > most + most // SLACK else 0


def dropped(events: Iterable[KeptEvent], count: int) -> list[int]:
    """The ids of `count` events that go.

    Args:
        events: all that are kept, oldest first.
    """
    kinds: dict[str, dict[str, list[int]]] = {}
    for event in events:
        kinds.setdefault(event.kind, {}).setdefault(event.about, []).append(event.id)
    ids: list[int] = []
    of_kinds = shares({kind: sum(map(len, nodes.values())) for kind, nodes in kinds.items()}, count)
    for kind, of_kind in of_kinds.items():
        nodes = kinds[kind]
        for node, of_node in shares({node: len(own) for node, own in nodes.items()}, of_kind).items():
            ids += nodes[node][:of_node]
    return ids


def shares(counts: Mapping[K, int], count: int) -> dict[K, int]:
    """How many of `count` each group loses: the largest lose most, until they are as large as the next ones.

    Args:
        counts: sizes of the groups; of equal ones the first loses first.
    """
    height = _height(counts.values(), count)
    lost = {group: max(0, size - height) for group, size in counts.items()}
    rest = count - sum(lost.values())
    highest: Sequence[K] = [group for group, size in counts.items() if size >= max(height, 1)]
    for group in highest[:rest]:
        lost[group] += 1
    return lost


def _height(sizes: Collection[int], count: int) -> int:
    """The smallest height to which groups can be cut without losing more than `count` in all."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high) // 2
        if sum(max(0, size - middle) for size in sizes) <= count:
            high = middle
        else:
            low = middle + 1
    return low
