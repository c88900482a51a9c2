"""The training child by itself; tests/training/test_process.py speaks to it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, sys
from flnet.training import worker

def step():
    return [bytearray(8_000_000) for _ in range(5)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    worker._keep_memory()
step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


def new_pages(how: str) -> int:
    """Pages that ten steps of 40 MB each touch for the first time, after one such step, in a fresh process."""
    done = subprocess.run([sys.executable, "-c", STEPS, how], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library is told")
def test_the_memory_of_one_step_is_that_of_the_next() -> None:
    """A step of 40 MB has 9766 pages of 4 KiB."""
    assert new_pages("keep") < 5_000
    assert new_pages("as it is") > new_pages("keep")
