"""What is read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.machine import (
    cpu_seconds,
    descendants,
    peak_mb,
    proportional_mb,
    received_bytes,
    resident_mb,
)

DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 1234567     100    0    0    0     0          0         0  1234567     100    0    0    0     0       0
  eth0:12       1    0    0    0     0          0         0  34     1    0    0    0     0       0
"""


def test_the_bytes_of_a_device_are_found() -> None:
    assert received_bytes(DEVICES) == 1234567
    assert received_bytes(DEVICES, "eth0") == 12
    with pytest.raises(LookupError, match="wlan0"):
        received_bytes(DEVICES, "wlan0")


def test_memory_of_this_process_is_told_in_its_three_ways() -> None:
    me = os.getpid()
    assert 0 < proportional_mb(me) <= peak_mb(me)
    assert 0 < resident_mb(me) <= peak_mb(me)
    assert cpu_seconds(me) > 0


def test_children_and_their_children_are_found() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        result = descendants(os.getpid())
        assert child.pid in result
        assert len(descendants(child.pid)) == 1
        assert set(descendants(child.pid)) < set(result)
        child.communicate(b"\n")
