"""What a node remembers."""

from flnet.store.base import USUAL, KeptModel, Retention, SavedJob, Store
from flnet.store.memory import MemoryStore

__all__ = ["USUAL", "KeptModel", "MemoryStore", "Retention", "SavedJob", "Store"]
