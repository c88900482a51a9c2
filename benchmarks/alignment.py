"""Private set intersection of real processes on loopback: seconds, processor time, memory, and bytes.

It runs in processes of its own: python -m benchmarks.alignment 2 100000
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from benchmarks.bounds import BOUNDS
from benchmarks.forks import forked, listeners
from benchmarks.machine import peak_mb, resident_mb
from benchmarks.options import Options, in_process
from benchmarks.report import Row
from flnet.algorithms.vertical.alignment import Follower, Leader, follower, leader
from flnet.algorithms.vertical.batches import permutation
from flnet.algorithms.vertical.groups import Group
from flnet.algorithms.vertical.holder import (
    Acceptance,
    Aligned,
    AlignmentOpening,
    AlignmentWork,
    Chunk,
    Effect,
    Kind,
    Message,
    PairKey,
    Randomness,
    SendToHolder,
    Terms,
)
from flnet.algorithms.vertical.identifiers import normalised_column
from flnet.security.prime_group import ed25519_group

IDS = 100_000
SAMPLE = 3_000  # elements by which the bare operations are timed
HEAD = struct.Struct("!II")  # bytes of the fields, and of the items
KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in (AlignmentOpening, Acceptance, PairKey, Chunk)}
PATIENCE_S = 600.0


def run(options: Options) -> None:
    """Two holders, and three: the leader's ids and each follower's overlap by half."""
    count = IDS // 10 if options.quick else IDS
    for holders in [options.nodes] if options.nodes else [2, 3]:
        results = json.loads(in_process("alignment", holders, count, patience=PATIENCE_S))
        what = f"alignment of {holders} holders with {count:,} ids each"
        wall = max(result["seconds"] for result in results)
        bounded = holders == 2 and not options.quick
        add = options.report.add
        bound = BOUNDS["alignment.seconds"] if bounded else None
        add(Row(what, "s", [wall], bound=bound, note=f"{results[0]['common']:,} common"))
        for name, result in zip(_names(holders), results, strict=True):
            longest = f"{result['units']} units of work, the longest {result['longest']:.2f} s"
            note = f"{result['sent'] / 1e6:.1f} MB sent, {longest}"
            bare = "hashing and multiplications alone"
            add(Row(f"processor time of {name}", "s", [result["processor"]], [result["bare"]], bare, note=note))
            bound = BOUNDS["alignment.memory"] if bounded else None
            note = f"{result['before']:.0f} MB before, with the ids"
            add(Row(f"memory of {name}, at most", "MB", [result["memory"]], bound=bound, note=note))


class Channels:
    """Connections of one process to all others, and what is still to be sent and to be read."""

    def __init__(self, index: int, listening: Sequence[socket.socket], names: Sequence[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._unsent = {name: bytearray() for name in names}
        self._unread = {name: bytearray() for name in names}
        self._connections: dict[str, socket.socket] = {}
        self.sent = 0
        for other in range(index):
            connection = socket.create_connection(listening[other].getsockname())
            connection.sendall(HEAD.pack(index, 0))
            self._add(names[other], connection)
        for _ in range(index + 1, len(names)):
            connection, _ = listening[index].accept()
            self._add(names[HEAD.unpack(connection.recv(HEAD.size, socket.MSG_WAITALL))[0]], connection)

    def _add(self, name: str, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connections[name] = connection
        self._selector.register(connection, selectors.EVENT_READ, name)

    def send(self, to: str, message: Message) -> None:
        """Queue a message."""
        body = encoded(message)
        self._unsent[to] += body
        self.sent += len(body)
        self._selector.modify(self._connections[to], selectors.EVENT_READ | selectors.EVENT_WRITE, to)

    def move(self, is_waiting: bool) -> list[Message]:
        """Send and read what can be; with `is_waiting`, until something could."""
        messages: list[Message] = []
        for key, events in self._selector.select(None if is_waiting else 0):
            name, connection = key.data, self._connections[key.data]
            if events & selectors.EVENT_WRITE:
                del self._unsent[name][: connection.send(self._unsent[name][: 1 << 20])]
                if not self._unsent[name]:
                    self._selector.modify(connection, selectors.EVENT_READ, name)
            if events & selectors.EVENT_READ:
                data = connection.recv(1 << 20)
                if not data:  # that holder is done
                    self._selector.unregister(connection)
                self._unread[name] += data
                messages += decoded(self._unread[name])
        return messages

    def flush(self) -> None:
        """Send all that is queued."""
        while any(self._unsent.values()):
            self.move(is_waiting=True)


def encoded(message: Message) -> bytes:
    """A message as its fields in JSON, and its bytes behind them."""
    fields: dict[str, Any] = {"message": type(message).__name__, **vars(message)}
    items: bytes = fields.pop("items", None) or fields.pop("element", b"")
    head = json.dumps(fields).encode()
    return HEAD.pack(len(head), len(items)) + head + items


def decoded(buffer: bytearray) -> Iterable[Message]:
    """The messages that have arrived as a whole; they are taken out of the buffer."""
    while len(buffer) >= HEAD.size:
        head, items = HEAD.unpack_from(buffer)
        end = HEAD.size + head + items
        if len(buffer) < end:
            return
        fields: dict[str, Any] = json.loads(bytes(buffer[HEAD.size : HEAD.size + head]))
        data = bytes(buffer[HEAD.size + head : end])
        del buffer[:end]
        kind = KINDS[fields.pop("message")]
        if kind is Chunk:
            fields |= {"items": data, "kind": Kind(fields["kind"])}
        elif kind is PairKey:
            fields["element"] = data
        elif kind is AlignmentOpening:
            fields["holders"] = tuple(fields["holders"])
        yield kind(**fields)


def _names(holders: int) -> list[str]:
    return ["leader", *(f"follower-{number}" for number in range(1, holders))]


def _ids(index: int, count: int) -> list[str]:
    """Half of a follower's ids are the leader's; the rows have an order of their own."""
    start = 0 if index == 0 else count // 2
    order = permutation(count, hashlib.sha256(bytes([index])).digest())
    return normalised_column([f"person-{start + number:07}" for number in order])


def _hold(count: int, listening: Sequence[socket.socket], index: int) -> dict[str, float]:
    """One holder, from the ids to the agreement."""
    group, names = ed25519_group(), _names(len(listening))
    ids = _ids(index, count)
    terms = Terms("measured", tuple(names))
    channels = Channels(index, listening, names)
    before = resident_mb(os.getpid())
    started, busy = time.monotonic(), time.process_time()
    randomness = Randomness.draw(group, count, os.urandom(32))
    machine: Leader | Follower
    effects: list[Effect] = []
    if index:
        machine = follower(terms, names[index], ids, group, randomness)
    else:
        machine = leader(terms, ids, group, randomness)
        effects = machine.start()
    common, units = _to_the_end(machine, effects, channels)
    return {
        "seconds": time.monotonic() - started,
        "processor": time.process_time() - busy,
        "bare": _bare_seconds(group, index, len(names), count),
        "before": before,
        "memory": peak_mb(os.getpid()),
        "common": common,
        "sent": channels.sent,
        "units": len(units),
        "longest": max(units),
    }


def _to_the_end(machine: Leader | Follower, effects: list[Effect], channels: Channels) -> tuple[int, list[float]]:
    """How many ids are common, and the seconds of all units of work."""
    work: AlignmentWork | None = None
    units: list[float] = []
    while True:
        for effect in effects:
            match effect:
                case SendToHolder(to=to, message=message):
                    channels.send(to, message)
                case AlignmentWork():
                    work = effect
                case Aligned(agreement=agreement):
                    channels.flush()
                    return len(agreement.rows), units
                case _:
                    raise RuntimeError(str(effect))
        effects = [each for message in channels.move(is_waiting=work is None) for each in machine.receive(message)]
        if work is not None:
            current, work = work, None
            begun = time.monotonic()
            result = current.run()
            units.append(time.monotonic() - begun)
            effects += machine.finished(current, result)


def _bare_seconds(group: Group, index: int, holders: int, count: int) -> float:
    """Processor time of a holder's operations in the group and nothing else, by a sample of them."""
    secret = group.secret(os.urandom(64))
    begun = time.process_time()
    elements = [group.hash_to_element(number.to_bytes(4)) for number in range(SAMPLE)]
    hashed = time.process_time()
    for element in elements:
        group.blind(secret, element)
    blinded = time.process_time()
    for element in elements:
        group.check(element)
    checked = time.process_time()
    # All blind their own list and that of another; the leader blinds one for each follower, or checks one.
    lists = 2 if index else holders
    seconds = (hashed - begun) + lists * (blinded - hashed)
    if not index and holders == 2:
        seconds += checked - blinded
    return seconds * count / SAMPLE


def main(holders: int, count: int) -> None:
    """Measure, and print the figures of each holder as JSON."""
    listening = listeners(holders)
    print(json.dumps(forked(holders, partial(_hold, count, listening))))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
