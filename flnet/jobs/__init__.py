"""One job per trainer."""

from flnet.jobs.job import Job
from flnet.jobs.state import HELD_ROUNDS, Rules, Waits
from flnet.jobs.steps import Phase

__all__ = ["HELD_ROUNDS", "Job", "Phase", "Rules", "Waits"]
