"""Aggregation rules as people read them; the command line needs these words without numpy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from flnet.text import Text, text

MEANS: Mapping[str, Text] = {
    "agg0": text("plain average (agg0)"),
    "agg1": text("weighted average (agg1)"),
    "agg2": text("average weighted by labels (agg2)"),
}
_SECURE = re.compile(r"secure:(?P<part>0(\.[0-9]{1,4})?):(?P<bits>32|64)")
_THIRD = "0.3333"
_OF_MESHES: Mapping[str, Text] = {
    "open": text(
        "In an open mesh nobody proves a key: an active stranger can join as several nodes, or sit between two nodes "
        "and answer for each of them, and so see single updates. A pinned mesh closes that: nodes accept each other's "
        "fingerprints."
    ),
    "keyed": text(
        "In a mesh with a key, who knows that key can join as several nodes, or sit between two nodes and answer for "
        "each of them, and so see single updates; nobody else can. A pinned mesh closes that, too."
    ),
}


def rule_text(rule: str) -> Text:
    """A rule with its filters, as part of a sentence: "clip, weighted average (agg1)"."""
    params = {f"part{number}": _part(part) for number, part in enumerate(rule.split(","))}
    return Text(", ".join(f"{{{name}}}" for name in params), params)


def rule_words(rule: str, translate: Callable[..., str]) -> str:
    """The same for a page, in the reader's language; what has no name for people stays as it is written.

    Args:
        translate: template and what stands in its gaps -> words.
    """
    named = map(_part, rule.split(","))
    return ", ".join(translate(part.template, **part.params) if isinstance(part, Text) else part for part in named)


def _part(part: str) -> str:
    secure = _SECURE.fullmatch(part)
    if secure is None:
        return MEANS.get(part, part)
    away = "1/3" if secure["part"] == _THIRD else f"{100 * float(secure['part']):g} %"
    return text("secure sum (up to {part} of the nodes may vanish, {bits} bits)", away, secure["bits"])


def sum_cautions(mode: str, nodes: int, threshold: int) -> list[Text]:
    """What people should know before they rely on secure sums, a sentence or two each.

    Args:
        mode: of the mesh: "open", "keyed" or "pinned".
        nodes: in a sum.
        threshold: how many of them are needed to open one.
    """
    cautions = [_OF_MESHES[mode]] if mode in _OF_MESHES else []
    if nodes == 2:
        cautions.append(
            text("There are two nodes in the sum: the sum minus one's own update is the update of the other.")
        )
    elif nodes > 2 and 2 * threshold <= nodes + 1:  # see `flnet.algorithms.secure_sum.threshold`
        cautions.append(
            text(
                "{threshold} of {nodes} nodes open a sum: one node that lies to the others about who is in it could open "
                "a single update.",
                threshold,
                nodes,
            )
        )
    return cautions
