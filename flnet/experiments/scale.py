"""What a round takes in meshes of ten to a thousand nodes: simulated where that is possible, and calculated.

Simulated is each message of the protocol (`flnet.simulation.scale`). Calculated is what a round takes at least: the sizes
of messages grow linearly with the mesh, as two small simulated ones show; and no link carries more than its rate, nor does
anything arrive before its round trips. Where no download waits for another one, both agree to 3 % (`agreement`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from flnet.algorithms.topology import Topology
from flnet.node.outbox import IN_FLIGHT
from flnet.protocol.segments import SegmentsMessage
from flnet.simulation.links import LINKS, Link
from flnet.simulation.network import FETCHED
from flnet.simulation.scale import LinkedCluster, RoundFigures, places_of

MODEL_BYTES = 40_000_000
MEASURED_SIZES = (8, 16)  # of the meshes that show how large messages are
SUM = f"{SegmentsMessage.path} sum"  # a message that tells what was made of a segment
ROUND_TRIPS, VOTED = 3, 4  # start, (vote,) offers, accuracies; with a vote also the sums of each owner


@dataclass(frozen=True)
class Case:
    """A mesh whose nodes all have the same link.

    Attributes:
        link: one of `LINKS`.
    """

    topology: str
    link: str
    nodes: int
    model_bytes: int = MODEL_BYTES

    @property
    def key(self) -> str:
        """Its name in a file of results."""
        return " ".join(map(str, asdict(self).values()))


def simulated(case: Case, downloads: int | None = None) -> RoundFigures:
    """The figures of the second round of a simulated mesh; in the first one all nodes get the initial model.

    Args:
        downloads: how many a node has under way at once; None for as many as a real one.
    """
    links = [LINKS[case.link]] * case.nodes
    cluster = LinkedCluster(case.topology, links, case.model_bytes, downloads=downloads)
    try:
        cluster.form()
        cluster.play_round()
        return cluster.play_round()
    finally:
        cluster.end()


def calculated(case: Case, downloads: int | None = None) -> RoundFigures:
    """What a round takes at least, and the traffic of a node in the mean."""
    link, topology, others = LINKS[case.link], Topology.read(case.topology), case.nodes - 1
    kinds = dict(messages(case.topology, case.nodes))
    transfers = kinds[FETCHED][0]
    each_bytes = case.model_bytes / (case.nodes if topology.kind == "segments" else 1)
    parts = _parts(topology, case.nodes, transfers)
    for kind, count in parts.items():
        kinds[kind] = kinds[kind][0], kinds[kind][1] + count * each_bytes
    volume = sum(parts.values()) * each_bytes
    passed = sum(size for _, size in kinds.values())
    round_trip = 4 * link.latency
    sums = topology.copies if topology.kind == "segments" else 0
    turns = ((VOTED if sums else ROUND_TRIPS) + sums) * max(1.0, others / IN_FLIGHT)
    each = each_bytes / min(link.up, link.down)
    waits = max(
        0.0,
        transfers / (downloads or places_of(topology)) * (round_trip + each) - volume / min(link.up, link.down),
    )
    seconds = _on_link(link, passed) + turns * round_trip + waits
    requests = round(sum(count for count, _ in kinds.values()))
    return RoundFigures(seconds, round(passed), round(passed), requests, kinds)


def _on_link(link: Link, passed: float) -> float:
    """Seconds until a node has sent and received so many bytes."""
    return 2 * passed / link.up if link.is_shared else passed / min(link.up, link.down)


def messages(topology: str, nodes: int) -> Mapping[str, tuple[float, float]]:
    """Requests of a node in a round, and bytes of them and their answers without parameters, by kind of message."""
    small, large = (_measured(topology, size) for size in MEASURED_SIZES)
    return {kind: _extended(small[kind], large[kind], nodes) for kind in small}


def _extended(small: tuple[float, float], large: tuple[float, float], nodes: int) -> tuple[float, float]:
    """Requests, and bytes of each of them, along straight lines through those of two meshes."""
    one, other = MEASURED_SIZES
    part = (nodes - one) / (other - one)
    is_of_all = large[0] > 1  # else the initiator alone makes them, one to each other node
    count = small[0] + part * (large[0] - small[0]) if is_of_all else (nodes - 1) / nodes
    each = small[1] / small[0] + part * (large[1] / large[0] - small[1] / small[0])
    return count, count * each


def _parts(topology: Topology, nodes: int, downloads: float) -> Mapping[str, float]:
    """How many updates or models, or segments of them, a node gets, by the kind of request that brings them.

    Args:
        downloads: how many requests for parameters it makes; one brings all that it lacks of an update.
    """
    if topology.kind != "segments":
        return {FETCHED: downloads}
    others, copies = nodes - 1, topology.copies
    if copies == 1:  # one segment more in place of its sender; those of the average come with their results
        return {FETCHED: others + 1, SUM: others}
    return {FETCHED: copies * others + nodes - copies}


@cache
def _measured(topology: str, size: int) -> Mapping[str, tuple[float, float]]:
    """By simulation on links so fast that nobody waits for the vote, less the parameters."""
    case = Case(topology, "lan", size, 8 * 1024 * 1024)
    kinds, read = dict(simulated(case, downloads=size).kinds), Topology.read(topology)
    of_params = case.model_bytes / (size if read.kind == "segments" else 1)
    return kinds | {
        kind: (kinds[kind][0], kinds[kind][1] - count * of_params)
        for kind, count in _parts(read, size, kinds[FETCHED][0]).items()
    }


def agreement(case: Case) -> Sequence[float]:
    """Simulated by calculated: seconds, bytes and requests of a node, where nobody waits for a place to download."""
    made, least = simulated(case, case.nodes), calculated(case, case.nodes)
    (requests, passed), (counted, expected) = (
        map(sum, zip(*each.kinds.values(), strict=True)) for each in (made, least)
    )
    return made.seconds / least.seconds, passed / expected, requests / counted
