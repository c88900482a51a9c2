"""Whether a node can take part in rounds, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence

from flnet.jobs import Phase
from flnet.node.base import View
from flnet.node.core import NodeCore


def readiness(core: NodeCore, bootstrap: Sequence[str], trouble: str = "") -> View:
    """The view of `flnet.node.base.Node.ready`.

    Args:
        core: the node.
        bootstrap: addresses of which one has to answer before the mesh is joined; none for the first node.
        trouble: why state cannot be kept; empty while it can.
    """
    joined = core.members.joined or not bootstrap
    jobs = core.jobs
    waits_at = ", ".join(sorted(core.members.state.waits_at))
    waits = f"a person has to accept the fingerprint of this node at {waits_at}"
    reasons = (
        [] if joined else [waits if waits_at else f"no bootstrap peer has answered yet: {', '.join(bootstrap)}"]
    )
    reasons += [f"{trainer} is still loading" for trainer, job in jobs.items() if job.phase is Phase.LOADING]
    usable = [job for job in jobs.values() if job.phase not in (Phase.LOADING, Phase.NO_DATA)]
    reasons += [f"{t}: {job.state.error}" for t, job in jobs.items() if job.phase is Phase.NO_DATA and not usable]
    reasons += [trouble] if trouble else []
    loaded = bool(usable) and not any(job.phase is Phase.LOADING for job in jobs.values())
    return {
        "ready": joined and loaded and not trouble,
        "mesh_joined": joined,
        "data_loaded": loaded,
        "reasons": reasons,
    }
