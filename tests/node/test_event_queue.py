"""The queue of a node: one event at a time, in order, and every waiting caller gets an answer."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest

from flnet.errors import JobBusy, LocalError
from flnet.node.event_queue import EventQueue
from flnet.params.params import TrainerId
from flnet.protocol.events import Event, Paused, Resumed
from flnet.protocol.messages import Packet, Peer, ProbeReply

T = TrainerId("T")
ANSWER = Packet(ProbeReply(i_am=Peer(id="a", port=1)))


async def test_events_are_taken_one_at_a_time_and_in_order() -> None:
    taken: list[str] = []

    async def handle(owner: TrainerId | None, event: Event) -> Packet | None:
        taken.append(f"{type(event).__name__} begins")
        await asyncio.sleep(0)
        taken.append(f"{type(event).__name__} ends")
        return ANSWER if owner == T else None

    queue = EventQueue(handle, taken.append)
    queue.start()
    queue.put(None, Paused())
    assert await queue.ask(T, Resumed()) is ANSWER
    assert taken == ["Paused begins", "Paused ends", "Resumed begins", "Resumed ends"]
    await queue.stop()


async def test_a_refusal_reaches_who_asked_and_a_bug_is_told_in_words() -> None:
    faults: list[str] = []

    async def handle(owner: TrainerId | None, event: Event) -> Packet | None:
        raise JobBusy("not now") if isinstance(event, Paused) else ZeroDivisionError("oops")

    queue = EventQueue(handle, faults.append)
    queue.start()
    with pytest.raises(JobBusy, match="not now"):
        await queue.ask(None, Paused())
    assert faults == []
    with pytest.raises(LocalError, match="see the log"):
        await queue.ask(None, Resumed())
    queue.put(None, Resumed())  # and it goes on
    with pytest.raises(JobBusy):
        await queue.ask(None, Paused())
    assert faults == ["Resumed could not be handled: oops"] * 2
    await queue.stop()


async def test_a_refusal_leaves_nothing_for_the_garbage_collector() -> None:
    class Refused(JobBusy):
        """Of this test alone."""

    async def handle(owner: TrainerId | None, event: Event) -> Packet | None:
        raise Refused("not now")

    queue = EventQueue(handle, print)
    queue.start()
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):  # the first is let go of when the next is taken
            with suppress(Refused):
                await queue.ask(None, Paused())
        await asyncio.sleep(0)
        assert sum(issubclass(type(one), Refused) for one in gc.get_objects()) <= 1
    finally:
        gc.enable()
        await queue.stop()


async def test_who_waits_when_the_node_stops_hears_so() -> None:
    begun = asyncio.Event()

    async def handle(owner: TrainerId | None, event: Event) -> Packet | None:
        begun.set()
        await asyncio.Event().wait()
        return None

    queue = EventQueue(handle, lambda words: None)
    with pytest.raises(LocalError, match="not running"):
        await queue.ask(None, Paused())
    queue.start()
    waiting = [asyncio.create_task(queue.ask(None, Paused())) for _ in range(2)]
    await begun.wait()
    await queue.stop()
    for task in waiting:
        with pytest.raises(LocalError, match="stopping"):
            await task
