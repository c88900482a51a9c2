"""Merging rules: pure functions from updates to an average."""

from flnet.strategies.base import LocalTerm, Running, State, Strategy
from flnet.strategies.fed_avg import fed_avg

__all__ = ["LocalTerm", "Running", "State", "Strategy", "fed_avg"]
