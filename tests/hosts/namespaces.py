"""Network namespaces of these tests: made, entered, and taken away for certain, also after a run that crashed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PREFIX = "flnet-test-"  # whatever is called so belongs to these tests, and to one run of them at a time
NETNS = Path("/run/netns")
TUN = Path("/dev/net/tun")
_LOCK = Path("/run/flnet-test-hosts.lock")  # of the whole machine, as namespaces are
PROBES = 5  # programs that make their first namespaces at the same time disturb each other
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@cache
def unable() -> str:
    """Why there can be no hosts on this machine; empty if there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "hosts in network namespaces need root"
    if shutil.which("ip") is None:
        return "hosts in network namespaces need the program ip (iproute2)"
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as exc:
        return f"hosts in network namespaces need {TUN}, which cannot be opened: {exc.strerror}"
    # Its own name: another run clears away all namespaces that begin with PREFIX.
    probe, why = f"flnet-probe-{os.getpid()}", ""
    for _ in range(PROBES):
        tried = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
        subprocess.run(["ip", "netns", "delete", probe], capture_output=True, check=False)
        if tried.returncode == 0:
            return ""
        why = tried.stderr.strip()
    return f"no network namespace can be made here: {why}"


@contextmanager
def locked() -> Iterator[None]:
    """Wait for another run to end, and let no other begin."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def only_run() -> Iterator[None]:
    """Hold the lock, and clear away what an earlier run left."""
    with locked():
        clear()
        try:
            yield
        finally:
            clear()


def existing() -> list[str]:
    """Names of all namespaces of these tests."""
    return sorted(path.name for path in NETNS.glob(PREFIX + "*")) if NETNS.is_dir() else []


def clear() -> None:
    """Delete all namespaces of these tests, and kill what runs in them."""
    for name in existing():
        delete(name)


def create(name: str) -> None:
    """Make a namespace with a loopback that is up."""
    assert name.startswith(PREFIX)
    ip("netns", "add", name)
    ip("-n", name, "link", "set", "lo", "up")


def delete(name: str) -> None:
    """Kill the processes of a namespace of ours, and take it away; nothing if it is not there."""
    assert name.startswith(PREFIX)
    for pid in pids(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def pids(name: str) -> list[int]:
    """Processes in a namespace."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and is_in(int(entry.name), name)
    ]


def is_in(pid: int, name: str) -> bool:
    """Whether a process is in a namespace; not, if one of them is gone."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == (NETNS / name).stat().st_ino
    except OSError:
        return False


def ip(*words: str) -> None:
    """Run the program ip; its own words, if it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Let this thread, and no other, open its sockets in the namespace; they stay there for good."""
    with Path("/proc/thread-self/ns/net").open("rb") as home, (NETNS / name).open("rb") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
