"""What a node remembers."""

from flnet.store.base import KEPT_AVERAGES, KeptModel, SavedJob, Store
from flnet.store.memory import MemoryStore

__all__ = ["KEPT_AVERAGES", "KeptModel", "MemoryStore", "SavedJob", "Store"]
