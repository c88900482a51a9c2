"""Hosts of one network whose links carry so much and no more: namespaces, a bridge, and token buckets of the kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

NETWORK, BITS = "10.67.0", 24  # exists inside of these namespaces only
BURST, QUEUE = "128kb", "100ms"


@dataclass(frozen=True)
class Host:
    """One namespace with an address."""

    namespace: str
    address: str

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that runs a command on this host."""
        return ["ip", "netns", "exec", self.namespace, *command]


@contextmanager
def limited_hosts(count: int, mbit: int) -> Iterator[tuple[Host, list[Host]]]:
    """A host at the bridge without any limit, and others whose links carry so many Mbit/s in each direction.

    Raises:
        subprocess.CalledProcessError: network namespaces cannot be made here.
    """
    with ExitStack() as stack:
        bridge = _namespace(stack, "switch", 250)
        _in(bridge, "link", "add", "br0", "type", "bridge")
        _in(bridge, "addr", "add", f"{bridge.address}/{BITS}", "dev", "br0")
        _in(bridge, "link", "set", "br0", "up")
        hosts = [_namespace(stack, f"host{number}", number + 1) for number in range(count)]
        for number, host in enumerate(hosts):
            far = f"to{number}"
            _ip(
                "link",
                "add",
                far,
                "netns",
                bridge.namespace,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                host.namespace,
            )
            _in(bridge, "link", "set", far, "master", "br0", "up")
            _in(host, "addr", "add", f"{host.address}/{BITS}", "dev", "eth0")
            _in(host, "link", "set", "eth0", "up")
            for place, device in ((host, "eth0"), (bridge, far)):
                rate = ("rate", f"{mbit}mbit", "burst", BURST, "latency", QUEUE)
                _run(place.inside(["tc", "qdisc", "add", "dev", device, "root", "tbf", *rate]))
        yield bridge, hosts


def address_of(number: int) -> str:
    """The address of a host, from 0."""
    return f"{NETWORK}.{number + 1}"


def can_limit() -> bool:
    """Whether this process can make such hosts."""
    try:
        with limited_hosts(1, 100):
            return True
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False


def _namespace(stack: ExitStack, name: str, number: int) -> Host:
    host = Host(f"flbench{os.getpid()}-{name}", address_of(number - 1))
    _ip("netns", "add", host.namespace)
    stack.callback(_ip, "netns", "del", host.namespace)
    _in(host, "link", "set", "lo", "up")
    return host


def _in(host: Host, *words: str) -> None:
    _ip("-n", host.namespace, *words)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
