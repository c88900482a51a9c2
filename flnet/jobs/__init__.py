"""One job per trainer."""

from flnet.jobs.job import Job
from flnet.jobs.state import Waits
from flnet.jobs.steps import Phase

__all__ = ["Job", "Phase", "Waits"]
