"""How the nodes of a mesh know each other, in words for every page: open, keyed or pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MeshMode:
    """One way to run.

    Attributes:
        name: as it stands on the badge.
        chip: the class of the badge.
        means: who may take part.
        hides: what those learn who listen on the way.
    """

    name: str
    chip: str
    means: str
    hides: str


MODES: Mapping[str, MeshMode] = {
    "open": MeshMode(
        "open mesh",
        "warn",
        "Whoever reaches a node may take part, under any name that is free. Use it on one machine, or in a "
        "network in which everybody is trusted.",
        "What nodes say to each other is neither signed nor encrypted.",
    ),
    "keyed": MeshMode(
        "mesh with a key",
        "calm",
        "Nodes that know the common secret take part. All others are refused.",
        "What nodes say to each other is signed but not encrypted.",
    ),
    "pinned": MeshMode(
        "pinned mesh",
        "calm",
        "Nodes take part whose fingerprints a person accepted, here or at a node that may introduce others. All "
        "others wait.",
        "What nodes say to each other is encrypted, and signed by each with its own key.",
    ),
}


def mesh_mode(name: str) -> MeshMode:
    """The mode of this name, as the settings have it."""
    return MODES[name]
