"""One job per trainer."""

from flnet.jobs.asynchronous import AsynchronousJob
from flnet.jobs.job import Job
from flnet.jobs.rules import Rules
from flnet.jobs.state import HELD_ROUNDS, Waits
from flnet.jobs.steps import Phase

__all__ = ["HELD_ROUNDS", "AsynchronousJob", "Job", "Phase", "Rules", "Waits"]
