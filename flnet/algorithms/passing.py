"""Cyclic and random passing: one model travels from node to node, and each trains it on its own rows.

Delgado Bejarano, MLFedAvg (2024), section 3.1.4. No average is made: the model of the last holder is the result. A model
that is lost on its way is sent again by the last node that has it, to the next one that is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from flnet.params.params import PeerId


def cyclic(members: Collection[PeerId], holder: PeerId, gone: Collection[PeerId] = ()) -> PeerId:
    """The next holder of the model: the first one after this node, in the order of ids, that is there.

    Returns:
        The holder itself if no other node is there.
    """
    here = sorted(({*members} - {*gone}) | {holder})
    return here[(here.index(holder) + 1) % len(here)]


def at_random(
    members: Collection[PeerId], holder: PeerId, run: str, hop: int, gone: Collection[PeerId] = ()
) -> PeerId:
    """The next holder of the model: each of the other nodes that are there with the same probability.

    Args:
        run: what all nodes call this run; with the number of the hop it decides the draw, so that anybody can check it.

    Returns:
        The holder itself if no other node is there.
    """
    here = sorted({*members} - {*gone, holder})
    drawn = hashlib.sha256(f"passing:{len(run)}:{run}:{hop}:{holder}".encode()).digest()
    return here[int.from_bytes(drawn, "big") % len(here)] if here else holder
