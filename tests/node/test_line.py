"""Steps that wait for the disk: saved together, shown in order, and nothing is promised that is not saved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.effects import Publish, Save
from flnet.errors import NotReady
from flnet.messages import Packet
from flnet.node.core import Owned
from flnet.node.line import MOST_WAITING, Line, Step
from flnet.params import TrainerId

T = TrainerId("T")


class Disk:
    """Saves when it is let; notes all that becomes visible, and what was saved at that time."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.batches: list[list[str]] = []
        self.seen: list[str] = []
        self.saved: set[str] = set()
        self.broken: Exception | None = None
        self.refused: set[str] = set()
        self.tasks: list[asyncio.Task[None]] = []
        self.line = Line(self.save, self.finish, self.spawn)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def save(self, steps: Sequence[Step]) -> None:
        names = [name_of(step) for step in steps if step.saves]
        await self.free.wait()
        if self.broken is not None:
            raise self.broken
        self.batches.append(names)
        self.saved.update(names)

    async def finish(self, step: Step) -> Packet | None:
        name = name_of(step)
        assert not step.saves or name in self.saved
        self.seen.append(name)
        if name in self.refused:
            raise NotReady("not saved")
        return None


def step(name: str, saves: bool = True) -> Step:
    return Step([(T, Save({"name": name}))] if saves else [], (), [Owned(T, Publish("kind", name))])


def name_of(step: Step) -> str:
    (shown,) = step.effects
    assert isinstance(shown.effect, Publish)
    return shown.effect.text


async def turns(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def test_what_comes_while_the_disk_is_at_work_is_saved_at_once_and_shown_in_order() -> None:
    disk = Disk()
    first = disk.line.add(step("1"))
    await turns(lambda: bool(disk.tasks))
    await asyncio.sleep(0)  # it is at the disk now
    rest = [disk.line.add(step(str(n), saves=n != 3)) for n in (2, 3, 4)]
    assert (disk.seen, disk.line.is_empty) == ([], False)
    assert not any(answer.done() for answer in (first, *rest))
    disk.free.set()
    await asyncio.gather(first, *rest)
    assert disk.batches == [["1"], ["2", "4"]]
    assert disk.seen == ["1", "2", "3", "4"]
    await asyncio.gather(*disk.tasks)
    assert disk.line.is_empty


async def test_a_line_is_long_until_the_disk_has_come_to_it() -> None:
    disk = Disk()
    answers = [disk.line.add(step(str(n))) for n in range(MOST_WAITING)]
    assert disk.line.is_long
    disk.free.set()
    await asyncio.gather(*answers)
    assert not disk.line.is_long


async def test_a_refusal_is_one_steps_own_and_the_others_go_on() -> None:
    disk = Disk()
    disk.refused = {"2"}
    answers = [disk.line.add(step(name)) for name in "123"]
    disk.free.set()
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(one) for one in found] == [type(None), NotReady, type(None)]


async def test_a_bug_of_the_store_shows_nothing_and_the_line_goes_on() -> None:
    disk = Disk()
    disk.broken = ZeroDivisionError("oops")
    answers = [disk.line.add(step(name)) for name in "12"]
    disk.free.set()
    for answer in answers:
        with pytest.raises(ZeroDivisionError):
            await answer
    assert disk.seen == []
    disk.broken = None
    await disk.line.add(step("3"))
    assert disk.seen == ["3"]


async def test_at_the_end_what_stands_in_line_is_waited_for_and_then_left() -> None:
    disk = Disk()
    answer = disk.line.add(step("1"))
    await disk.line.settle(0.0)
    assert not answer.done()
    settling = asyncio.create_task(disk.line.settle(30))
    disk.free.set()
    await settling
    assert answer.done()
    await disk.line.settle(30)  # nothing to wait for
    disk.free.clear()
    left = disk.line.add(step("2"))
    disk.line.close()
    assert left.cancelled()
    disk.free.set()
    await asyncio.gather(*disk.tasks)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=25), st.randoms())
def test_nothing_overtakes_whatever_the_disk_does(steps: list[tuple[bool, int]], chance: Any) -> None:
    async def play() -> None:
        disk = Disk()
        answers = []
        for n, (saves, waits) in enumerate(steps):
            answers.append(disk.line.add(step(str(n), saves)))
            for _ in range(waits):
                await asyncio.sleep(0)
                disk.free.set() if chance.random() < 0.5 else disk.free.clear()
        disk.free.set()
        await asyncio.gather(*answers)
        assert disk.seen == [str(n) for n in range(len(steps))]
        assert [name for batch in disk.batches for name in batch] == [
            str(n) for n, (saves, _) in enumerate(steps) if saves
        ]

    asyncio.run(play())
