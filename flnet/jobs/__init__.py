"""One job per trainer, and who is in the mesh."""

from flnet.jobs.job import Job
from flnet.jobs.members import Member, Members, Pauses
from flnet.jobs.state import Waits
from flnet.jobs.steps import Phase

__all__ = ["Job", "Member", "Members", "Pauses", "Phase", "Waits"]
