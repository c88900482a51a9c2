"""Files that are written again between a node and its child: whatever a trainer does, no number ever changes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError, WorkerDied
from flnet.params import Params
from flnet.training.forking import running
from flnet.training.lending import MOST
from tests.helpers import HYPER
from tests.training.bench import ENDLESS, plugin
from tests.training.conftest import MakeBench
from tests.training.test_lending import LARGE, files, inode, model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are written again on Linux only")


@pytest.fixture(scope="module")
def server() -> Iterator[Path | None]:
    with running() as path:
        yield path


@pytest.fixture(params=["spawned", "forked"])
def bench(bench: MakeBench, request: pytest.FixtureRequest) -> MakeBench:
    """Lanes whose children are started by themselves, and by a fork server."""
    if request.param == "spawned":
        return bench
    path = request.getfixturevalue("server")
    return lambda **settings: bench(fork_server=path, **settings)


_LOOKS = """
import re
kept = []
def inode():
    maps = open('/proc/self/maps').read()
    return max(map(float, re.findall(r'(\\d+) +/memfd:flnet-arrays', maps)))
"""


async def test_few_files_do_for_many_rounds_of_a_child(bench: MakeBench, folder: Path) -> None:
    fit = "return Fit({'w': task.params['w'] + 1}, examples=3, metrics={'inode': inode()})"
    name = plugin(folder, "ECHO", head=_LOOKS, fit=fit)
    one, ours = bench(), set()
    theirs: Counter[float] = Counter()
    updates: list[Params] = []
    for number in range(12):
        average = model(number)
        await one.pool.evaluate(name, average)
        fit_, _ = await one.pool.fit(name, average, HYPER, seed=1)
        theirs[fit_.metrics["inode"]] += 1
        updates = [*updates[-1:], Params(fit_.params)]
        del fit_
        ours.add(inode(updates[-1]["w"]))
        assert [float(update["w"][-1]) for update in updates] == [number, number + 1][-len(updates) :]
    # The answer to each order says that its file is free again; were this said later, two would take turns.
    assert theirs.most_common(1)[0][1] >= 9
    assert len(ours) <= MOST


async def test_a_trainer_that_keeps_parameters_sees_them_unchanged_for_ever(
    bench: MakeBench, folder: Path
) -> None:
    fit = """
        kept.append(task.params['w'][::2]) if len(kept) < 2 else None
        return Fit({'w': task.params['w'] + 1}, 3, metrics={f'k{n}': float(k.max()) for n, k in enumerate(kept)})
"""
    check = "assert all(k.min() == k.max() for k in kept), 'they changed'"
    name = plugin(folder, "KEEPS", head=_LOOKS, fit=fit, evaluate=check)
    one, answers = bench(), []
    for number in range(1, 9):
        fit_, _ = await one.pool.fit(name, model(number), HYPER, seed=1)
        answers.append(fit_)
        assert fit_.metrics["k0"] == 1
        assert fit_.metrics.get("k1", 2) == 2
        await one.pool.evaluate(name, model(100 + number))
    assert [set(np.unique(answer.params["w"])) for answer in answers] == [{n + 1} for n in range(1, 9)]


async def test_a_process_that_a_trainer_forks_sees_its_parameters_unchanged(
    bench: MakeBench, folder: Path
) -> None:
    fit = """
        if not kept:
            ends = os.pipe(), os.pipe()
            if os.fork() == 0:
                os.read(ends[0][0], 1)
                os.write(ends[1][1], bytes(map(int, np.unique(task.params['w']))))
                os._exit(0)
            kept.append(ends)
        elif task.params['w'][0] == 5:
            os.write(kept[0][0][1], b'!')
            seen = os.read(kept[0][1][0], 9)
            return Fit(dict(task.params), 3, metrics={'first': float(seen[0]), 'count': float(len(seen))})
"""
    name = plugin(folder, "FORKS", head=_LOOKS, fit=fit)
    one = bench()
    for number in range(1, 6):
        last, _ = await one.pool.fit(name, model(number), HYPER, seed=1)
    assert last.metrics == {"first": 1.0, "count": 1.0}


async def test_files_go_on_being_used_after_failures_and_cancelled_trainings(
    bench: MakeBench, folder: Path
) -> None:
    fails = plugin(folder, "FAILS", fit="raise ValueError(str(task.params['w'][0]))")
    echo = plugin(folder, "ECHO", head=_LOOKS, fit="return Fit(dict(task.params), 3, metrics={'i': inode()})")
    endless = plugin(folder, "ENDLESS", fit=ENDLESS)
    one, seen = bench(), set()
    for number in range(8):
        with pytest.raises(TrainerError, match=rf"ValueError: {number}\.0"):
            await one.pool.fit(fails, model(number), HYPER, seed=1)
        done = len(one.progress)
        task = one.fitting(endless, w=np.full(LARGE, 50 + number, "float32"))
        await one.until_it_trains(done + 1)
        task.cancel()
        fit_, _ = await one.pool.fit(echo, model(100 + number), HYPER, seed=1)
        assert np.all(fit_.params["w"] == 100 + number)
        seen.add(fit_.metrics["i"])
    assert len(seen) <= MOST


async def test_a_killed_child_leaves_no_file_and_the_next_one_begins_anew(bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ECHO", fit="return Fit({'w': task.params['w'] + 1}, 3)")
    dies = plugin(folder, "DIES", fit="os.kill(os.getpid(), 9)")
    one = bench()
    gc.collect()
    before = files()
    fit_, _ = await one.pool.fit(name, model(1), HYPER, seed=1)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        await one.pool.fit(dies, model(2), HYPER, seed=1)
    assert files() == before + 1  # the answer
    other, _ = await one.pool.fit(name, model(3), HYPER, seed=1)
    assert (float(fit_.params["w"][-1]), float(other.params["w"][-1])) == (2, 4)
    child = one.child()
    assert child is not None
    os.kill(child, signal.SIGKILL)
    del fit_, other
    await asyncio.sleep(0)  # what woke this test up holds the last answer
    one.pool.backend.rest()
    gc.collect()
    assert files() == before
