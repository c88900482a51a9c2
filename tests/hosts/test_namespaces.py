"""Whatever hosts were made are gone afterwards, also after a run that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.alive import alive
from tests.hosts.hosts import network
from tests.hosts.namespaces import clear, delete, existing, inside, locked, only_run, pids, unable
from tests.processes.harness import until

pytestmark = pytest.mark.skipif(bool(unable()), reason=unable())
PROGRAM = "import time; print('here', flush=True); time.sleep(600)"
CRASHES = """
import sys, time
from pathlib import Path
from tests.hosts.hosts import connected

log = Path(sys.argv[1])
with connected(2, seed=1) as made:
    made.hosts[0].start([sys.executable, "-c", sys.argv[2]], log, {})
    while "here" not in log.read_text():  # it is on its host, and begins some time later
        time.sleep(0.01)
    print("up", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_run_left_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    environment, log = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, tmp_path / "log"
    command = [sys.executable, "-c", CRASHES, str(log), PROGRAM]
    with locked():  # by the test: the killed run would hand the lock to a waiting one, which clears before we look
        clear()
        run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n", log.read_text()
        run.kill()
        run.wait()
        run.stdout.close()
        left = existing()
        running = [pid for name in left for pid in pids(name)]
    assert len(left) == 2
    assert len(running) == 1, log.read_text()
    with only_run():
        assert existing() == []
    until(lambda: not alive(running[0]), "the end of what ran there")


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    processes = []

    def fail() -> None:
        with network(1, seed=1) as made:
            processes.append(made.hosts[0].start(["sleep", "600"], tmp_path / "log", {}))
            assert existing() == [made.hosts[0].namespace]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert existing() == []
    assert processes[0].wait(60) == -signal.SIGKILL


def test_only_namespaces_of_these_tests_are_touched() -> None:
    with pytest.raises(AssertionError):
        delete("somebody-elses")
    with pytest.raises(FileNotFoundError), inside("flnet-test-that-is-not-there"):
        pass
