"""Nodes that are killed and started again, on what they had saved or on an empty disk."""

from __future__ import annotations

from flnet.events import MeshStarted
from flnet.node.keeper import restored_of
from flnet.params import PeerId
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.work import prepared


def kill(cluster: Cluster, name: PeerId) -> SimulatedNode:
    """End a node at once: nothing that it had under way comes to an end, and what is sent to it is lost."""
    node = cluster.nodes[name]
    cluster.network.nodes.pop(node.address)
    node.end()
    return node


def start_again(cluster: Cluster, dead: SimulatedNode, *, keeps: bool = True) -> SimulatedNode:
    """Start a killed node under its id and address.

    Args:
        keeps: whether its disk is as it left it; else it is a node that knows nothing.
    """
    node = cluster.add(dead.core.me, dead.core.members.accepts or ())
    index = list(cluster.nodes).index(node.id)
    cluster.network.refusing.discard(node.address)
    if keeps:
        node.saved = dead.saved
        cluster.ledger.restarts(node.id, node.saved.snapshot, went_on_in_memory=dead.disk.has_failed)
        if node.saved.snapshot:
            node.tell(TRAINER, restored_of(node.saved))
    else:
        cluster.ledger.forgets(node.id)
    node.tell(None, MeshStarted(tuple(a for a in cluster.network.nodes if a != node.address)))
    node.tell(TRAINER, prepared(index))
    return node
