"""A full mesh of bare TCP connections, one per pair: the least that handing every update to everyone can cost."""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.forks import forked, listeners

HELLO = struct.Struct("!I")
PIECE = 1024 * 1024  # bytes per call; larger and smaller ones are no faster
BETWEEN_S = 0.1  # in which all get ready for the next exchange


class SocketMesh:
    """The connections of one process to all others; one thread, everything non-blocking."""

    def __init__(self, index: int, listening: Sequence[socket.socket]) -> None:
        """Connect to those before, and let those behind connect."""
        self._peers: dict[int, socket.socket] = {}
        for other in range(index):
            connection = socket.create_connection(listening[other].getsockname())
            connection.sendall(HELLO.pack(index))
            self._peers[other] = connection
        for _ in range(index + 1, len(listening)):
            connection, _ = listening[index].accept()
            self._peers[HELLO.unpack(connection.recv(HELLO.size, socket.MSG_WAITALL))[0]] = connection
        for connection in self._peers.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)

    def exchange(self, payload: memoryview) -> list[memoryview]:
        """Send the payload to all others, and return the equally long ones that they sent, in new memory."""
        size = len(payload)
        buffers = {peer: np.empty(size, np.uint8).data for peer in self._peers}
        received, sent = dict.fromkeys(self._peers, 0), dict.fromkeys(self._peers, 0)
        with selectors.DefaultSelector() as selector:
            for peer, connection in self._peers.items():
                selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, peer)
            while selector.get_map():
                for key, events in selector.select():
                    peer = key.data
                    connection = self._peers[peer]
                    if events & selectors.EVENT_READ and received[peer] < size:
                        at = received[peer]
                        received[peer] += _received(connection, buffers[peer][at : at + PIECE])
                    if events & selectors.EVENT_WRITE and sent[peer] < size:
                        sent[peer] += connection.send(payload[sent[peer] : sent[peer] + PIECE])
                    _wait_for(selector, connection, received[peer] < size, sent[peer] < size)
        return [buffers[peer] for peer in sorted(buffers)]


def _received(connection: socket.socket, into: memoryview) -> int:
    count = connection.recv_into(into)
    if not count:
        raise ConnectionError("a process of the mesh has gone")
    return count


def _wait_for(selector: selectors.BaseSelector, connection: socket.socket, reads: bool, writes: bool) -> None:
    wanted = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
    if not wanted:
        selector.unregister(connection)
    elif selector.get_key(connection).events != wanted:
        selector.modify(connection, wanted, selector.get_key(connection).data)


def exchange_seconds(nodes: int, nbytes: int, repetitions: int) -> list[float]:
    """Seconds from the last process's start until every one holds what all the others sent, per repetition.

    Args:
        nodes: processes.
        nbytes: that each sends to each.
    """
    listening = listeners(nodes)

    def node(index: int) -> list[list[float]]:
        mesh = SocketMesh(index, listening)
        payload = np.random.default_rng(index).integers(0, 256, nbytes, np.uint8).data
        spans = []
        for _ in range(repetitions):
            mesh.exchange(payload[:1])  # nobody begins before all are there
            start = time.monotonic() + BETWEEN_S
            time.sleep(BETWEEN_S)
            kept = mesh.exchange(payload)
            spans.append([start, time.monotonic()])
            del kept
        return spans

    return spread_out(forked(nodes, node))


def spread_out(spans: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """Per repetition, from the last start to the last end; spans[process][repetition] is (start, end)."""
    return [
        max(end for _, end in together) - max(start for start, _ in together)
        for together in zip(*spans, strict=True)
    ]


if __name__ == "__main__":
    print(json.dumps(exchange_seconds(*(int(argument) for argument in sys.argv[1:4]))))
