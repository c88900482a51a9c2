"""When a node starts rounds by itself, who trains in them, and when a series of rounds has reached its goal."""

from flnet.policies.deciding import Decision, Progress, Score, decide
from flnet.policies.goal import Goal
from flnet.policies.participation import Participation, chosen

__all__ = [
    "Decision",
    "Goal",
    "Participation",
    "Progress",
    "Score",
    "chosen",
    "decide",
]
