"""BACombo: each node pulls every segment of a model from a few peers, those with the most bandwidth.

Jiang, Hu, "BACombo: Bandwidth-aware decentralized federated learning" (2020), as Delgado Bejarano, MLFedAvg (2024), section
3.1.4, tells it. A model is cut into S segments of nearly equal size. For segment l, node i pulls that of R peers and takes

    w_i[l] = (n_i w_i[l] + sum n_j w_j[l]) / (n_i + sum n_j),

with n examples. Different segments come from different peers, so a node receives R models in S R pieces. Nodes hold
different models afterwards. With S = 1 and R = all others this is the mean by examples (agg1) on all nodes.

The paper's figures of speed are not reproduced here. How a peer is chosen is told in words only; the defaults S = 10, R = 1
and an exploration of 0.1 are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from flnet.params.arithmetic import weighted_mean
from flnet.params.params import Params, PeerId
from flnet.params.segments import Segments

NEWEST = 0.5  # weight of the newest transfer in an estimate
SHORTEST = 1e-6  # seconds of a transfer: a clock may see none


class Bandwidths:
    """The bandwidth of each peer, as this node's transfers show it.

    Attributes:
        known: bytes a second, by peer: a moving average.
    """

    def __init__(self) -> None:
        self.known: dict[PeerId, float] = {}

    def note(self, peer: PeerId, size: int, seconds: float) -> None:
        """A transfer of this many bytes has ended."""
        measured = size / max(seconds, SHORTEST)
        before = self.known.get(peer, measured)
        self.known[peer] = before + NEWEST * (measured - before)

    def choose(
        self,
        peers: Collection[PeerId],
        segments: int,
        count: int,
        draw: Callable[[], float],
        exploration: float = 0.1,
    ) -> list[list[PeerId]]:
        """Choose from whom to pull each segment.

        The peers of which the fewest segments are pulled so far come first, then those of unknown bandwidth, then
        those with the most. With the probability `exploration`, a peer is chosen at random.

        Args:
            count: peers for each segment; all of them if there are fewer.
            draw: a number in [0, 1), drawn anew at each call.

        Returns:
            By segment, different peers.
        """
        pulls: Counter[PeerId] = Counter()
        chosen: list[list[PeerId]] = []
        for _ in range(segments):
            left, here = sorted(peers), list[PeerId]()
            while left and len(here) < count:
                explores, place = draw() < exploration, draw()
                best = min(
                    left, key=lambda peer: (pulls[peer], peer in self.known, -self.known.get(peer, 0.0), peer)
                )
                peer = left[int(place * len(left))] if explores else best
                left.remove(peer)
                here.append(peer)
            pulls.update(here)
            chosen.append(here)
        return chosen


def pulled(
    me: PeerId,
    models: Mapping[PeerId, tuple[Params, int]],
    sources: Sequence[Collection[PeerId]],
    segments: Segments,
) -> Params:
    """This node's model after it has pulled the segments.

    Args:
        models: of this node and of those that it pulls from, each with its number of examples.
        sources: by segment, the peers that it came from; fewer than were chosen where a transfer failed.
        segments: how models are cut.
    """
    cut = {peer: segments.cut(params) for peer, (params, _) in models.items()}
    joined = []
    for place, (peers, schema) in enumerate(zip(sources, segments.schemas, strict=True)):
        parts = [(cut[peer][place], float(models[peer][1])) for peer in sorted({me, *peers})]
        joined.append(weighted_mean(parts, schema.merge))
    return segments.joined(joined)
