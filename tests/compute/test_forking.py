"""Children that a process forks: their exit codes, their sessions, and what they hold of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux has them")

# Run in a process of its own: that of the tests has threads, and handlers of its own for signals.
_PARENT = """
import json, os, selectors, signal, sys, time
import numpy as np
from flnet.compute.forking import Forks, set_environment

forks = Forks()

def told(work):
    source, end = os.pipe()
    def child():
        os.close(source)
        os.write(end, json.dumps(work()).encode())
        return 0
    forks.fork(child)
    os.close(end)
    with open(source, "rb") as answer:
        return json.loads(answer.read())

def collect(count):
    ended = {}
    with selectors.DefaultSelector() as watched:
        watched.register(forks, selectors.EVENT_READ)
        while len(ended) < count:
            assert watched.select(30), "no child ended"
            ended |= forks.reap()
    return ended

def sleep():
    time.sleep(600)
    return 0

def wrong():
    raise ValueError("it went wrong")

def print_and_return():
    print("a child was here")  # into a buffer that nobody but the child flushes
    return 3

def draw():
    set_environment({"GIVEN": "yes"})
    return dict(os.environ), float(np.random.random())

%s
"""


def parent(code: str) -> tuple[Any, str, str]:
    """Run this code in a process that forks; what it has in `result`, what was printed, and the errors."""
    done = subprocess.run(
        [sys.executable, "-c", _PARENT % code + "\nprint(json.dumps(result), file=sys.stderr)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    *errors, result = done.stderr.splitlines()
    return json.loads(result), done.stdout, "\n".join(errors)


def test_exit_codes_are_collected_once_however_a_child_ends() -> None:
    code = """
names = {forks.fork(print_and_return): "returns", forks.fork(wrong): "raises", forks.fork(sleep): "killed"}
names[forks.fork(sys.exit)] = "exits"
for pid in names:
    if names[pid] == "killed":
        forks.kill(pid)
result = [{names[pid]: code for pid, code in collect(4).items()}, forks.reap()]
for pid in names:
    forks.kill(pid)  # of those that have ended: nothing
"""
    (codes, later), printed, errors = parent(code)
    assert codes == {"returns": 3, "raises": 1, "killed": -9, "exits": 1}
    assert later == {}
    assert printed == "a child was here\n"
    assert "ValueError: it went wrong" in errors


def test_all_children_are_killed_together() -> None:
    code = """
for _ in range(5):
    forks.fork(sleep)
forks.kill_all()
result = sorted(collect(5).values())
"""
    assert parent(code)[0] == [-9] * 5


def test_a_child_has_its_session_signals_environment_and_random_numbers() -> None:
    code = """
own = lambda: [os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.set_wakeup_fd(-1)]
sockets = lambda: sum(os.path.exists(p) and os.readlink(p)[:6] == "socket" for p in
                      (f"/proc/self/fd/{fd}" for fd in range(64)))
result = [told(own), told(sockets), told(draw), told(draw), len(collect(4))]
"""
    (own, sockets, first, second, ended), _, _ = parent(code)
    assert own == [True, True, -1]
    assert sockets == 0
    assert first[0] == second[0]
    assert first[0]["GIVEN"] == "yes"
    assert set(first[0]) <= {"GIVEN", "LC_CTYPE"}  # Python itself sets the second one in some locales
    assert first[1] != second[1]
    assert ended == 4
