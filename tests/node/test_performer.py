"""Steps that wait for the disk: saved together, shown in order, and nothing is promised that is not saved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import LocalError, NotReady
from flnet.membership.state import KEPT_AHEAD
from flnet.node.core import Owned
from flnet.node.performer import MOST_WAITING, CommitQueue, StateSaver, Step
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate, Publish, Save, Send
from flnet.protocol.events import Event, PeerSeen, UpdateOffered, UpdateReceived
from flnet.protocol.messages import Accuracy, ModelParams, Packet
from flnet.protocol.updates import Update
from flnet.store.base import SavedJob
from flnet.store.memory import MemoryStore
from tests.helpers import HYPER, params, peer, update

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
        self.queue = CommitQueue(self.save, self.finish, self.spawn)

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
    first = disk.queue.add(step("1"))
    await turns(lambda: bool(disk.tasks))
    await asyncio.sleep(0)  # it is at the disk now
    rest = [disk.queue.add(step(str(n), saves=n != 3)) for n in (2, 3, 4)]
    assert (disk.seen, disk.queue.is_empty) == ([], False)
    assert not any(answer.done() for answer in (first, *rest))
    disk.free.set()
    await asyncio.gather(first, *rest)
    assert disk.batches == [["1"], ["2", "4"]]
    assert disk.seen == ["1", "2", "3", "4"]
    await asyncio.gather(*disk.tasks)
    assert disk.queue.is_empty


async def test_a_line_is_long_until_the_disk_has_come_to_it() -> None:
    disk = Disk()
    answers = [disk.queue.add(step(str(n))) for n in range(MOST_WAITING)]
    assert disk.queue.is_long
    disk.free.set()
    await asyncio.gather(*answers)
    assert not disk.queue.is_long


async def test_a_refusal_is_one_steps_own_and_the_others_go_on() -> None:
    disk = Disk()
    disk.refused = {"2"}
    answers = [disk.queue.add(step(name)) for name in "123"]
    disk.free.set()
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(one) for one in found] == [type(None), NotReady, type(None)]


async def test_a_bug_of_the_store_shows_nothing_and_the_line_goes_on() -> None:
    disk = Disk()
    disk.broken = ZeroDivisionError("oops")
    answers = [disk.queue.add(step(name)) for name in "12"]
    disk.free.set()
    for answer in answers:
        with pytest.raises(ZeroDivisionError):
            await answer
    assert disk.seen == []
    disk.broken = None
    await disk.queue.add(step("3"))
    assert disk.seen == ["3"]


async def test_at_the_end_what_stands_in_line_is_waited_for_and_then_left() -> None:
    disk = Disk()
    answer = disk.queue.add(step("1"))
    await disk.queue.settle(0.0)
    assert not answer.done()
    settling = asyncio.create_task(disk.queue.settle(30))
    disk.free.set()
    await settling
    assert answer.done()
    await disk.queue.settle(30)  # nothing to wait for
    disk.free.clear()
    left = disk.queue.add(step("2"))
    disk.queue.close()
    assert left.cancelled()
    disk.free.set()
    await asyncio.gather(*disk.tasks)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=25), st.randoms())
def test_nothing_overtakes_whatever_the_disk_does(steps: list[tuple[bool, int]], chance: Any) -> None:
    async def play() -> None:
        disk = Disk()
        answers = []
        for n, (saves, waits) in enumerate(steps):
            answers.append(disk.queue.add(step(str(n), saves)))
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


# What cannot be saved is told once, tried again, and never promised.


TRAINER, OTHER = TrainerId("T"), TrainerId("OTHER")
FULL = "state cannot be written: No space left on device"


class FullableDisk(MemoryStore):
    """A store on a disk that may be full."""

    full = ""
    found: tuple[str, ...] = ()

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        if self.full:
            raise LocalError(self.full)
        await super().save(trainer, job)

    async def save_peers(self, peers: Sequence[Mapping[str, Any]]) -> None:
        if self.full:
            raise LocalError(self.full)
        await super().save_peers(peers)

    def notices(self) -> Sequence[str]:
        told, self.found = self.found, ()
        return told


class Kept:
    """A saver with all that it touches."""

    def __init__(self) -> None:
        self.disk = FullableDisk()
        self.told: list[tuple[str, str]] = []
        self.saver = StateSaver(self.disk, lambda kind, text: self.told.append((kind, text)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


def received(name: str = "b") -> UpdateReceived:
    return UpdateReceived(update(name, w=[1.0]))


async def test_parts_that_could_not_be_saved_go_with_the_next_save() -> None:
    kept = Kept()
    kept.disk.full = FULL
    first = Save({"round": 1}, params(w=[1.0]), None, params(s=[1.0]), (KeptUpdate(received().update),))
    assert not await kept.saver.save(TRAINER, first)
    assert not await kept.saver.save(TRAINER, Save({"round": 2}, records=({"round": 1, "initiator": "a"},)))
    assert kept.saver.trouble == FULL
    assert kept.told == [("state_not_written", f"{FULL}; rounds go on in memory, and it is tried again")]
    assert await kept.disk.load(TRAINER) is None
    kept.disk.full = ""
    assert await kept.saver.save(TRAINER, Save({"round": 3}))
    assert kept.saver.trouble == ""
    assert kept.kinds == ["state_not_written", "state_written"]
    saved = await kept.disk.load(TRAINER)
    assert saved is not None
    assert (saved.snapshot, saved.params, saved.sent) == ({"round": 3}, params(w=[1.0]), params(s=[1.0]))
    assert (len(saved.updates), len(saved.records)) == (1, 1)


class SlowDisk(FullableDisk):
    """It answers when a test says so, and by then may work again, or not any more."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Event] = []

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        self.answers.append(asyncio.Event())
        full = self.full
        await self.answers[-1].wait()
        if full:
            raise LocalError(full)
        await MemoryStore.save(self, trainer, job)


async def test_what_fails_while_an_older_state_is_tried_again_stays_unsaved() -> None:
    kept = Kept()
    kept.disk.full = FULL
    assert not await kept.saver.save(TRAINER, Save({"round": 1}, params(w=[1.0])))
    disk = SlowDisk()
    saver = kept.saver
    saver._store = disk
    again = asyncio.create_task(saver.retry())
    await asyncio.sleep(0)
    disk.full = FULL
    newer = asyncio.create_task(saver.save(TRAINER, Save({"round": 2}, updates=(KeptUpdate(received().update),))))
    await asyncio.sleep(0)
    for answer in disk.answers:
        answer.set()
    assert not await newer
    await again
    assert "state_written" not in kept.kinds
    refused = asyncio.create_task(saver.ensure_saved(TRAINER, received()))
    await asyncio.sleep(0)
    disk.answers[-1].set()
    with pytest.raises(NotReady):
        await refused
    disk.full = ""
    done = asyncio.create_task(saver.retry())
    await asyncio.sleep(0)
    disk.answers[-1].set()
    await done
    found = await disk.load(TRAINER)
    assert found is not None and found.snapshot == {"round": 2} and len(found.updates) == 1


async def test_a_state_that_was_kept_meanwhile_is_not_written_over_by_an_older_one_of_it() -> None:
    kept = Kept()
    kept.disk.full = FULL
    for trainer in (TRAINER, OTHER):
        assert not await kept.saver.save(trainer, Save({"round": 1}))
    disk = SlowDisk()
    kept.saver._store = disk
    again = asyncio.create_task(kept.saver.retry())
    await asyncio.sleep(0)
    newer = asyncio.create_task(kept.saver.save(OTHER, Save({"round": 2})))
    await asyncio.sleep(0)
    disk.answers[1].set()
    assert await newer
    disk.answers[0].set()
    await asyncio.sleep(0)
    assert len(disk.answers) == 2
    await again
    found = await disk.load(OTHER)
    assert found is not None and found.snapshot == {"round": 2}
    assert kept.kinds == ["state_not_written", "state_written"]


async def test_each_cause_is_told_once_and_all_is_well_when_nothing_is_left() -> None:
    kept = Kept()
    for why in (FULL, FULL, "read-only"):
        kept.disk.full = why
        await kept.saver.save(TRAINER, Save({}))
    await kept.saver.save(OTHER, Save({}))
    assert kept.kinds == ["state_not_written"] * 2
    kept.disk.full = ""
    await kept.saver.save(TRAINER, Save({}))
    assert kept.saver.trouble == "read-only"  # the other job is not saved yet
    await kept.saver.retry()
    assert kept.saver.trouble == ""
    assert kept.kinds[2:] == ["state_written"]


async def test_an_update_is_not_acknowledged_before_it_is_saved() -> None:
    kept = Kept()
    kept.disk.full = FULL
    await kept.saver.save(TRAINER, Save({}, updates=(KeptUpdate(received().update),)))
    offered = UpdateOffered(Update(PeerId("c"), received().update.key, Params()), Digest("d" * 64))
    for event in (received(), offered):
        with pytest.raises(NotReady, match="ask again"):
            await kept.saver.ensure_saved(TRAINER, event)
    others: list[tuple[TrainerId | None, Event]] = [(OTHER, received()), (TRAINER, PeerSeen(PeerId("b")))]
    for trainer, heard in [*others, (None, received())]:
        await kept.saver.ensure_saved(trainer, heard)
    kept.disk.full = ""
    await kept.saver.ensure_saved(TRAINER, received())  # the peer asked again
    saved = await kept.disk.load(TRAINER)
    assert saved is not None
    assert len(saved.updates) == 1


async def test_an_own_update_that_is_not_saved_is_not_handed_out() -> None:
    kept = Kept()
    said: dict[str, Any] = {"i_am": peer(), "trainer_id": "T", "round": 0, "federated_learning_params": HYPER}
    model = params(w=[1.0])
    send = Send((PeerId("b"),), ModelParams(**said, examples=3, accuracy=0.5, digest=model.digest), model)
    assert kept.saver.allowed(TRAINER, send) is send
    kept.disk.full = FULL
    await kept.saver.save(TRAINER, Save({}))
    refusal = kept.saver.allowed(TRAINER, send)
    assert isinstance(refusal.message, ModelParams)
    assert (refusal.to, refusal.params, refusal.message.digest) == (("b",), None, None)
    assert refusal.message.declined == f"its update could not be saved there: {FULL}"
    claim = Send((PeerId("b"),), Accuracy(**said, accuracy=0.5), model)
    assert kept.saver.allowed(TRAINER, claim) is claim


async def test_what_was_kept_is_what_a_job_hears_and_what_is_damaged_is_told() -> None:
    kept = Kept()
    assert await kept.saver.load(TRAINER) is None
    offer = KeptUpdate(Update(PeerId("c"), received().update.key, Params()), Digest("d" * 64))
    await kept.saver.save(
        TRAINER, Save({"round": 1}, params(w=[1.0]), updates=(KeptUpdate(received().update), offer))
    )
    kept.disk.found = ("a file was damaged",)
    found = await kept.saver.load(TRAINER)
    assert found is not None
    assert (found.snapshot, found.params) == ({"round": 1}, params(w=[1.0]))
    assert found.updates == (received(), UpdateOffered(offer.update, Digest("d" * 64)))
    assert kept.told == [("state_damaged", "a file was damaged")]


async def test_peers_that_answer_are_known_to_the_next_run() -> None:
    kept = Kept()
    assert await kept.saver.addresses() == ()

    def seen(**states: str) -> list[dict[str, str]]:
        return [{"id": name, "address": f"{name}:1", "state": state} for name, state in states.items()]

    await kept.saver.save_peers(seen(b="alive", c="dead", d="left"), {})
    assert await StateSaver(kept.disk, print).addresses() == ("b:1", "c:1")  # a dead one may be behind a cut
    await kept.saver.save_peers(seen(b="alive", c="suspect", d="left"), {})
    await kept.saver.save_peers(seen(b="dead", c="dead"), {})  # alone: who was there may be there again
    assert await StateSaver(kept.disk, print).addresses() == ("b:1", "c:1")


async def test_whose_name_is_whose_is_known_to_the_next_run() -> None:
    kept = Kept()
    seen = [{"id": "b", "address": "b:1", "state": "dead"}, {"id": "d", "address": "d:1", "state": "left"}]
    await kept.saver.save_peers(seen, {PeerId("b"): "key of b", PeerId("d"): "key of d", PeerId("e"): "key of e"})
    again = StateSaver(kept.disk, print)
    assert await again.addresses() == ("b:1",)
    assert again.keys == {"b": "key of b", "d": "key of d", "e": "key of e"}
    await again.save_peers([], {PeerId("d"): "key of d"})  # alone, and a person forgot the others
    last = StateSaver(kept.disk, print)
    assert await last.addresses() == ("b:1",)
    assert last.keys == {"d": "key of d"}


async def test_each_run_begins_with_a_higher_incarnation_than_the_last_one_used() -> None:
    kept = Kept()
    await kept.saver.addresses()
    assert await kept.saver.begin_incarnation() == 0
    second = StateSaver(kept.disk, print)
    await second.addresses()
    assert await second.begin_incarnation() == KEPT_AHEAD
    await second.keep_incarnation(100)
    await second.save_peers([{"id": "b", "address": "b:1", "state": "alive"}], {})
    kept.disk.full = FULL
    await second.keep_incarnation(200)
    kept.disk.full = ""
    third = StateSaver(kept.disk, print)
    assert await third.addresses() == ("b:1",)
    assert await third.begin_incarnation() == 100
    await second.keep_incarnation()  # as it does before it says that it leaves
    last = StateSaver(kept.disk, print)
    await last.addresses()
    assert await last.begin_incarnation() == 200


async def test_peers_that_an_older_flnet_kept_have_no_keys() -> None:
    kept = Kept()
    await kept.disk.save_peers([{"id": "b", "address": "b:1"}])
    assert await kept.saver.addresses() == ("b:1",)
    assert kept.saver.keys == {}
