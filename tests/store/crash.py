"""Kills a process that saves, again and again, and looks each time at what is left: FOLDER, TIMES, SEED."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import Update
from flnet.store.base import SavedJob
from flnet.store.sqlite_store import DiskStore
from tests.helpers import key, params

T = TrainerId("T")
NUMBERS = 30_000  # in each model: large enough to be caught in the middle of a file


def state(number: int) -> SavedJob:
    """What is saved as the `number`th state: all parts say which it is."""
    model = params(w=[number] * NUMBERS)
    update = Update(PeerId("b"), key(number), params(w=[number]), 1)
    record = {"round": number, "initiator": "a"}
    said = {"round": number, "updates_from": number, "model_round": number}
    return SavedJob(said, model, params(h=[number]), params(s=[number]), (KeptUpdate(update),), (record,))


async def write(folder: Path, told: int, number: int) -> None:
    """Save states from `number` on for ever; say when the store is open, and of each state when it is promised."""
    store = DiskStore(folder)
    os.write(told, (number - 1).to_bytes(4, "big", signed=True))
    while True:
        await store.save(T, state(number))
        os.write(told, number.to_bytes(4, "big", signed=True))
        await store.keep_model(T, {"round": number}, params(w=[number] * NUMBERS), params(h=[number]))
        number += 1


async def look(folder: Path, promised: int) -> int:
    """The number of the state that is there, after it was held against what was promised."""
    store = DiskStore(folder)
    strange = [notice for notice in store.notices() if "half-written" not in notice]
    job = await store.load(T)
    models = await store.models(T)
    whole = [await store.load_model(T, model.digest) for model in models]
    await store.close()
    found = -1 if job is None else int(job.snapshot["round"])
    if strange or None in whole or found < promised:
        raise AssertionError(f"{promised} was promised, {found} is there: {strange} {whole}")
    if job is not None:
        expected = state(found)
        same = (job.snapshot, job.params, job.private, job.sent, job.updates) == (
            *(expected.snapshot, expected.params, expected.private, expected.sent, expected.updates),
        )
        if not same or [record["round"] for record in job.records] != list(range(found + 1)):
            raise AssertionError(f"state {found} is a mixture: {job}")
    return found


def kill_once(folder: Path, number: int, seconds: float | None = None) -> int:
    """Let a process save from `number` on, and kill it; the last number that it promised.

    Args:
        seconds: after which it is killed once its store is open; None: as soon as it has promised one.
    """
    hear, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(write(folder, told, number))
        finally:
            os._exit(1)
    os.close(told)
    with os.fdopen(hear, "rb", buffering=0) as pipe:
        promised = pipe.read(4)  # a busy machine may take long to open the store
        if seconds is None:
            promised += pipe.read(4)
        else:
            time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        promised += pipe.read()
    return int.from_bytes(promised[-4:], "big", signed=True)


def main() -> None:
    """Do it N times in one folder."""
    folder, times, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    begun = time.monotonic()
    promised, cut_short = kill_once(folder, 0), 0
    longest = min(1.0, time.monotonic() - begun)  # so that some saves are finished on a busy machine, too
    found = asyncio.run(look(folder, promised))
    for _ in range(times - 1):
        promised = kill_once(folder, found + 1, rng.uniform(0.001, longest))
        found = asyncio.run(look(folder, promised))
        cut_short += found > promised
    print(f"{times} kills, {found + 1} states kept, {cut_short} times a state more than was promised")


if __name__ == "__main__":
    main()
