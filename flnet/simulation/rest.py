"""What must hold of a simulated mesh that came to rest; each function names what does not."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.jobs.lagging import LATE
from flnet.membership import Pauses
from flnet.membership.pace import MAX_DOUBT, suspicion_ticks
from flnet.membership.probing import HELP_TICKS
from flnet.membership.standing import State
from flnet.messages import MAX_PEERS
from flnet.params import PeerId, RoundKey
from flnet.simulation.cluster import Cluster
from flnet.simulation.ledger import InvariantBroken


def agreement_bound(pauses: Pauses, size: int) -> float:
    """Seconds after the last fault in which all must hold the same of all.

    A dead node has its turn (every node probes all others in turn, at worst at an eighth of the pace), its helpers
    and its suspicion; one that is held for dead is announced to after the longest pause and a half; what was not
    heard is exchanged with a peer drawn by chance, which needs some turns to reach everyone.
    """
    probed = (size + HELP_TICKS + 2) * MAX_DOUBT
    ticks = probed + suspicion_ticks(pauses, size, 1) + pauses.refresh * 8 * size
    return ticks * pauses.tick + pauses.longest * 1.5 + 2 * pauses.probe * MAX_DOUBT


def disagreements(cluster: Cluster) -> list[str]:
    """Who holds whom for something that it is not, or for another incarnation than it has itself."""
    alive = {node.id: node for node in cluster.alive}
    found = []
    for node in alive.values():
        known = node.core.members.known
        for other, there in alive.items():
            if other == node.id:
                continue
            member = known.get(other)
            mine = there.core.members.state.incarnation
            if member is None or member.state is not State.ALIVE or member.standing.incarnation != mine:
                held = "nobody" if member is None else f"{member.state.value} {member.standing.incarnation}"
                found.append(f"{node.id} holds {other} (alive {mine}) for {held}")
        dead = [name for name, member in known.items() if member.alive and name not in alive]
        found += [f"{node.id} holds {name} (gone) for {known[name].state.value}" for name in dead]
    return found


def is_one(cluster: Cluster) -> None:
    """All hold one model of one round.

    Raises:
        InvariantBroken: they do not.
    """
    held = {node.id: node.job.state for node in cluster.alive}
    rounds = {name: state.number for name, state in held.items()}
    if len(set(rounds.values())) > 1:
        raise InvariantBroken(f"after a clean round the nodes are in rounds {rounds}")
    models = {name: state.model.shared.digest[:8] for name, state in held.items() if state.model}
    if len(set(models.values())) > 1 or len(models) != len(held):
        raise InvariantBroken(f"after a clean round the nodes hold models {models}")


def closed_by_all(cluster: Cluster, number: int) -> None:
    """Every node that runs has averaged this round with the updates of all that run and were chosen, but for those
    that were offered and could not be fetched, for slow nodes whose update counts later, and for updates that no
    node with the same ones counts because they moved too far: trainings move by chance here, and so others may by
    next to nothing.

    Raises:
        InvariantBroken: a round was lost with one peer.
    """
    lags = {node.id for node in cluster.alive if node.job.state.behind or node.job.state.late}
    names = {node.id for node in cluster.alive} - lags
    records = {
        node: next((r for r in node.job.state.history if r.key.number >= number), None) for node in cluster.alive
    }
    refused = {
        node.id: (cluster.ledger.left_out(node.id, record.key), set(record.contributors))
        for node, record in records.items()
        if record
    }
    for node, record in records.items():
        if record is None or record.digest is None:
            raise InvariantBroken(f"{node.id} has no average of the last round")
        averaging = node.job.state.averaging
        reasons = averaging.declined if averaging is not None else {}
        named = {name for name, why in reasons.items() if "could not be fetched" in why}
        named |= {name for name in names if f"{name}: {LATE}" in record.outcome}
        chosen = names if record.chosen is None else names & set(record.chosen)
        by_all = set.intersection(*_refused_alike(refused, node.id))
        if missing := chosen - set(record.contributors) - named - by_all:
            raise InvariantBroken(f"{node.id} closed the last round without {sorted(missing)}: {record.outcome}")


def _refused_alike(refused: Mapping[PeerId, tuple[set[PeerId], set[PeerId]]], node: PeerId) -> list[set[PeerId]]:
    """Whose updates each node left out that had the same ones as this node."""
    had = set.union(*refused[node])
    return [left_out for left_out, counted in refused.values() if left_out | counted == had]


def choices_agree(cluster: Cluster) -> None:
    """All nodes that heard who trains in a round chose the same ones.

    Raises:
        InvariantBroken: two chose differently.
    """
    found: dict[RoundKey, tuple[PeerId, ...]] = {}
    for node in cluster.nodes.values():
        for record in node.job.state.history:
            if record.chosen is not None and found.setdefault(record.key, record.chosen) != record.chosen:
                raise InvariantBroken(f"{node.id} chose {record.chosen} for {record.key}, not {found[record.key]}")


def is_bounded(cluster: Cluster, size: int) -> None:
    """Nobody remembers more than the mesh can fill.

    Raises:
        InvariantBroken: somebody does.
    """
    for node in cluster.alive:
        mesh, state = node.core.members.state, node.job.state
        amounts = {
            "members": (len(mesh.roster.known), min(size - 1, MAX_PEERS)),
            "pieces of gossip": (len(mesh.roster.gossip), size * (size + 1)),
            "probes": (len(mesh.prober.checks), size),
            "announcements": (len(mesh.announcer.asking) + len(mesh.announcer.failures), 2 * size),
            "requests for help": (len(mesh.helping), size),
            "words of later rounds": (len(state.early), size),
            "versions": (len(state.versions.heard), size),
            "peers that were away": (len(state.away), size),
        }
        rounds = [record.key for record in state.history]
        amounts["records"] = (len(rounds), len(set(rounds)))
        for what, (there, most) in amounts.items():
            if there > most:
                raise InvariantBroken(f"{node.id} keeps {there} {what}, where {most} are enough")


def acknowledged_is_named(cluster: Cluster) -> None:
    """An update that was acknowledged is in the average, or named with the round: missing, or left out.

    Raises:
        InvariantBroken: it is in neither.
    """
    for node in cluster.alive:
        for record in node.job.state.history:
            owed = cluster.ledger.acknowledged(node.id, record.key)
            is_told = "; left out: " in record.outcome
            left_out = cluster.ledger.left_out(node.id, record.key) if is_told else set()
            if record.digest is not None and (lost := owed - left_out - {*record.contributors, *record.missing}):
                raise InvariantBroken(
                    f"{node.id} says nothing of {sorted(lost)} in {record.key}: {record.outcome}"
                )
