"""A switch in software: each host has a TUN device, and one thread carries packets between them by the rules."""

from __future__ import annotations

import fcntl
import heapq
import os
import selectors
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address
from itertools import count

from tests.hosts.namespaces import TUN, inside, ip
from tests.hosts.rules import Direction, Rules

DEVICE = "flnet0"
_SET_INTERFACE, _TUN, _NO_PACKET_INFO = 0x400454CA, 0x0001, 0x1000
_MOST_BYTES, _AT_ONCE = 65536, 64


class Switch:
    """Carries IPv4 packets between hosts that it was given, and no others.

    Attributes:
        rules: what befalls packets; may be changed at any time.
    """

    def __init__(self, rules: Rules, seed: int) -> None:
        self.rules, self._seed = rules, seed
        self._devices: list[int] = []
        self._host_at: dict[bytes, int] = {}
        self._directions: dict[tuple[int, int], Direction] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []  # arrival, tie, host, packet
        self._ties = count()
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringing = os.pipe()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)

    def plug_in(self, namespace: str, address: str, bits: int) -> None:
        """Give a namespace a device with this address; before `start`."""
        with inside(namespace):
            device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            asked = struct.pack("16sH14x", DEVICE.encode(), _TUN | _NO_PACKET_INFO)
            fcntl.ioctl(device, _SET_INTERFACE, asked)
        ip("-n", namespace, "address", "add", f"{address}/{bits}", "dev", DEVICE)
        ip("-n", namespace, "link", "set", DEVICE, "up", "mtu", "1500")
        self._host_at[IPv4Address(address).packed] = len(self._devices)
        self._selector.register(device, selectors.EVENT_READ, len(self._devices))
        self._devices.append(device)

    def start(self) -> None:
        """Begin to carry packets."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and give up the devices, which disappear with it."""
        self._ending.set()
        os.write(self._ringing, b"!")
        if self._thread.is_alive():
            self._thread.join()
        self._selector.close()
        for descriptor in (*self._devices, self._bell, self._ringing):
            os.close(descriptor)

    def counts(self) -> Mapping[tuple[int, int], tuple[int, int]]:
        """Packets carried and dropped, by source and target."""
        return {way: (one.carried, one.dropped) for way, one in sorted(self._directions.items())}

    @property
    def on_their_way(self) -> int:
        """How many packets wait to be handed out."""
        return len(self._waiting)

    def _run(self) -> None:
        while not self._ending.is_set():
            wait = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for key, _ in self._selector.select(wait):
                if key.data is not None:
                    self._take(key.data)
            self._hand_out()

    def _take(self, source: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(self._devices[source], _MOST_BYTES)
            except OSError:  # nothing more, or the device is down
                return
            if packet[:1] and packet[0] >> 4 == 4 and self._host_at.get(packet[12:16]) == source:
                for target in self._targets(source, packet[16:20]):
                    self._carry(packet, source, target)

    def _targets(self, source: int, address: bytes) -> list[int]:
        """The hosts to which a packet goes: to all others, if it is for a multicast group."""
        if IPv4Address(address).is_multicast:
            return [host for host in range(len(self._devices)) if host != source]
        return [self._host_at[address]] if address in self._host_at else []

    def _carry(self, packet: bytes, source: int, target: int) -> None:
        way = source, target
        if way not in self._directions:
            self._directions[way] = Direction(self._seed, *way)
        for due in self._directions[way].carry(packet, self.rules.rule(*way), time.monotonic()):
            heapq.heappush(self._waiting, (due.at, next(self._ties), target, due.packet))

    def _hand_out(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._waiting)
            with suppress(OSError):  # a full queue loses packets, as queues do
                os.write(self._devices[target], packet)
