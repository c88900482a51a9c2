"""A person ends a training at once: with its process, if it does not stop by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flnet.compute import training_child
from flnet.compute.verbs import EvaluateRequest
from flnet.errors import TrainerError
from tests.compute.bench import ENDLESS, START, TINY, eventually, plugin
from tests.compute.conftest import MakeBench
from tests.compute.test_training_child import any_bench as any_bench

DEAF = """
        task.progress(1, 2)
        while True:
            time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_child, "_MOMENT_S", 0.05)


async def test_a_training_that_does_not_listen_ends_with_its_child(any_bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "DEAF", fit=DEAF)
    one = any_bench()
    running = one.fitting(name)
    await one.until_it_trains()
    first = one.child()
    one.queue.cancel(name)
    await asyncio.sleep(0)
    assert not running.done() and one.child() == first  # nobody said "at once": it goes on
    one.queue.cancel(name, at_once=True)
    with pytest.raises(TrainerError, match="the training of DEAF was cancelled"):
        await running
    await eventually(lambda: one.child() != first)
    assert (await one.queue.call(name, EvaluateRequest(START))).accuracy == 0.5  # the next call has a new child


async def test_a_training_that_listens_ends_and_its_child_stays(
    bench: MakeBench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_child, "_MOMENT_S", 60.0)
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench()
    running = one.fitting(name)
    await one.until_it_trains()
    first = one.child()
    one.queue.cancel(name, at_once=True)
    with pytest.raises(TrainerError, match="the training of ENDLESS was cancelled"):
        await running
    assert one.child() == first is not None


async def test_the_work_of_others_is_not_ended(bench: MakeBench, folder: Path) -> None:
    """A training that still waits for its turn is taken back; the one that runs is another trainer's."""
    name = plugin(folder, "DEAF", fit=DEAF)
    one = bench()
    running = one.fitting(name)
    await one.until_it_trains()
    waiting = one.fitting(TINY)
    await asyncio.sleep(0)
    first = one.child()
    one.queue.cancel(TINY, at_once=True)
    await asyncio.sleep(0.2)
    assert (running.done(), one.child()) == (False, first)
    one.queue.cancel(name, at_once=True)
    for ended, words in ((running, "was cancelled"), (waiting, "was cancelled before it began")):
        with pytest.raises(TrainerError, match=words):
            await ended
