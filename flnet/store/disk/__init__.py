"""What a node remembers over restarts, in a folder."""

from flnet.store.disk.store import DiskStore

__all__ = ["DiskStore"]
