"""When a node starts rounds by itself."""

from flnet.policies.manual import Policy, Snapshot, manual

__all__ = ["Policy", "Snapshot", "manual"]
