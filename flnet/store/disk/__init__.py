"""What a node remembers over restarts, in a folder."""

from flnet.store.disk.identity import identity
from flnet.store.disk.store import DiskStore

__all__ = ["DiskStore", "identity"]
