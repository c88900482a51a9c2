"""A TCP proxy before a node, which breaks off, holds, slows down or spoils what the node sends."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

ADDRESS = "127.0.0.2"  # on Linux all of 127.0.0.0/8 is this machine, so a node's own port is free here
PIECE = 64 * 1024
LARGE = 16 * 1024  # bytes; only bodies with arrays come in such pieces


class Proxy:
    """Listens on ADDRESS at the port of a node on 127.0.0.1; ends with its `with`.

    Attributes:
        passed: bytes that went from the node to its callers.
        broken: connections that were broken off so far.
        held: connections on which nothing more goes to the caller.
        rate: bytes per second that go to callers, in all; None: as many as come. May be set at any time.
        spoils: whether a byte of each large piece is changed on the way. May be set at any time.
    """

    def __init__(self, port: int, after: int, breaks: int | None = None) -> None:
        """Args:
        after: bytes from the node after which a connection is broken off, or held; 0: never.
        breaks: how many connections are broken off, later ones stay whole; None: all are held instead.
        """
        self.passed, self.broken, self.held = 0, 0, 0
        self.rate: int | None = None
        self.spoils = False
        self._next = 0.0  # when the next piece may leave, of those that are slowed down
        self._port, self._after, self._breaks = port, after, breaks
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listening = socket.create_server((ADDRESS, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; new ones are refused."""
        _end(self._listening, *self._open)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                caller, _ = self._listening.accept()
                self._open.append(caller)
                self._connect(caller)

    def _connect(self, caller: socket.socket) -> None:
        try:
            node = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            _end(caller)
            return
        self._open.append(node)
        for work in (self._ask, self._answer):
            threading.Thread(target=work, args=(caller, node), daemon=True).start()

    def _ask(self, caller: socket.socket, node: socket.socket) -> None:
        with suppress(OSError):
            while part := caller.recv(PIECE):
                node.sendall(part)
        _end(node)

    def _answer(self, caller: socket.socket, node: socket.socket) -> None:
        left = self._after
        with suppress(OSError):
            while part := node.recv(min(PIECE, left or PIECE)):
                if self.spoils and len(part) > LARGE:
                    part = part[:-1] + bytes([part[-1] ^ 1])
                self._wait(len(part))
                caller.sendall(part)
                with self._lock:
                    self.passed += len(part)
                if left:
                    left -= len(part)
                    if not left and self._stops():
                        break
        if self._breaks is not None:
            _end(caller, node)

    def _wait(self, nbytes: int) -> None:
        if self.rate is None:
            return
        with self._lock:
            leaves = max(self._next, time.monotonic())
            self._next = leaves + nbytes / self.rate
        time.sleep(max(0.0, leaves - time.monotonic()))

    def _stops(self) -> bool:
        with self._lock:
            if self._breaks is None:
                self.held += 1
                return True
            stops = self.broken < self._breaks
            self.broken += stops
            return stops


def _end(*sockets: socket.socket) -> None:
    for sock in sockets:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
