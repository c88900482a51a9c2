"""Limits open connections, in total and per client address.

An open connection takes a file descriptor of the process. When a limit is reached, the connection that has been idle
longest is closed. A connection with a request under way is never closed for another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

MAX_PER_ADDRESS = 512
RESERVED_FILES = 128  # for the state on disk, connections to peers and the training child
MAX_CONNECTIONS = 8192
MIN_CONNECTIONS = 64


def raise_file_limit() -> int:
    """Let this process open as many files as it is allowed to.

    Returns:
        How many that is.
    """
    most = MAX_CONNECTIONS + RESERVED_FILES
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # not allowed after all
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return most if soft == resource.RLIM_INFINITY else soft


class ConnectionLimits:
    """Counts open connections and decides which one to close.

    Attributes:
        count: open connections by address.
    """

    def __init__(self, total: int, per_address: int = MAX_PER_ADDRESS) -> None:
        self.total, self.per_address = total, min(per_address, total)
        self.count = Counter[str]()
        self._open: dict[object, tuple[str, Callable[[], object]]] = {}
        self._idle: dict[object, None] = {}  # connections without a request, longest first

    def add(self, connection: object, address: str, close: Callable[[], object]) -> bool:
        """Count a new connection; another one may be closed for it.

        Args:
            connection: any object that stands for it.
            address: where it comes from.
            close: ends it at once.

        Returns:
            False: there is no room, and it must not stay.
        """
        if self.count[address] >= self.per_address and not self._close_idle(address):
            return False
        if len(self._open) >= self.total and not self._close_idle(self.count.most_common(1)[0][0]):
            return False
        self._open[connection] = address, close
        self._idle[connection] = None
        self.count[address] += 1
        return True

    def set_idle(self, connection: object, idle: bool) -> None:
        """Note whether a connection waits for its next request."""
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = None

    def remove(self, connection: object) -> None:
        """Forget a connection that has ended."""
        self._idle.pop(connection, None)
        if (known := self._open.pop(connection, None)) is not None:
            self.count[known[0]] -= 1
            if not self.count[known[0]]:
                del self.count[known[0]]

    def close_all(self) -> None:
        """Close every connection at once."""
        for _, close in list(self._open.values()):
            close()

    def _close_idle(self, address: str) -> bool:
        for connection in self._idle:
            its_address, close = self._open[connection]
            if its_address == address:
                self.remove(connection)
                close()
                return True
        return False
