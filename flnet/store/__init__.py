"""What a node remembers."""

from flnet.store.base import SavedJob, Store
from flnet.store.memory import MemoryStore

__all__ = ["MemoryStore", "SavedJob", "Store"]
