"""Who sends what to whom in a round."""

from flnet.topologies.full_mesh import Topology, full_mesh

__all__ = ["Topology", "full_mesh"]
