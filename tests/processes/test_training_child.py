"""A node trains in a child process: it answers meanwhile, and outlives the child."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.processes.harness import harness, until


@pytest.mark.slow
def test_a_node_answers_while_it_trains_and_survives_its_killed_child(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        a, b = h.start(COMPUTE="process"), h.start(COMPUTE="process")
        h.ready()
        assert a.trigger().status_code == 202
        until(lambda: a.job()["phase"] == "TRAINING" and a.job()["progress"] is not None, "training at a")
        until(lambda: b.job()["phase"] == "TRAINING", "training at b")
        for _ in range(20):  # every endpoint answers while the trainer is busy
            for path in ("/health", "/info", "/peers", "/jobs", "/"):
                assert a.http.get(path).status_code == 200
        assert a.job()["phase"] == "TRAINING"
        assert a.trigger().status_code == 409

        b.kill_child()
        until(lambda: "killed by signal 9" in (b.job()["error"] or ""), "a clear state at b")
        assert b.get("/health") == {"status": "ok"}
        h.go()
        until(lambda: a.job()["phase"] == "IDLE" and b.job()["phase"] == "IDLE", "the end of the round")
        for node in (a, b):  # the round was averaged from what there was, and b got the model too
            (record,) = node.get("/jobs/SLOW/history")
            assert record["contributors"] == ["n0"]
            assert "n1: training failed" in record["outcome"]
        assert a.job()["digest"] == b.job()["digest"]

        assert b.trigger().status_code == 202  # and the next round has both
        until(lambda: a.job()["current_round"] == 1 and a.job()["phase"] == "IDLE", "the next round at a")
        until(lambda: b.job()["phase"] == "IDLE", "the next round at b")
        assert b.get("/jobs/SLOW/history")[1]["contributors"] == ["n0", "n1"]
        assert a.job()["digest"] == b.job()["digest"]


@pytest.mark.slow
def test_a_signal_ends_a_training_node_cleanly_and_its_child_with_it(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        node = h.start(COMPUTE="process")
        h.ready()
        node.trigger()
        until(lambda: node.job()["progress"] is not None, "training")
        children = node.children()
        assert len(children) == 1
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(30) == 0
        until(lambda: not any(child.is_running() for child in children), "the end of the child")
