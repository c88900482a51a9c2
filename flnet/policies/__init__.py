"""When a node starts rounds by itself, and when a series of rounds has reached its goal."""

from flnet.policies.deciding import Decision, Progress, Score, decide
from flnet.policies.goal import Goal

__all__ = ["Decision", "Goal", "Progress", "Score", "decide"]
