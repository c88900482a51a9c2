"""Who is in the mesh: announcements until everyone knows everyone, probes, suspicion, refutation."""

from flnet.membership.members import Members
from flnet.membership.pace import Pauses
from flnet.membership.roster import Member
from flnet.membership.standing import Standing, State
from flnet.membership.state import MeshState

__all__ = ["Member", "Members", "MeshState", "Pauses", "Standing", "State"]
