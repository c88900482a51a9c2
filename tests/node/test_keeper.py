"""What cannot be saved is told once, tried again, and never promised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flnet.effects import KeptUpdate, Save, Send
from flnet.errors import LocalError, NotReady
from flnet.events import Event, PeerSeen, UpdateOffered, UpdateReceived
from flnet.messages import Accuracy, ModelParams
from flnet.node.keeper import Keeper
from flnet.params import Digest, Params, PeerId, TrainerId, Update
from flnet.store import MemoryStore, SavedJob
from tests.helpers import HYPER, params, peer, update

T, OTHER = TrainerId("T"), TrainerId("OTHER")
FULL = "state cannot be written: No space left on device"


class Disk(MemoryStore):
    """A store on a disk that may be full."""

    full = ""
    found: tuple[str, ...] = ()

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        if self.full:
            raise LocalError(self.full)
        await super().save(trainer, job)

    def notices(self) -> Sequence[str]:
        told, self.found = self.found, ()
        return told


class Kept:
    """A keeper with all that it touches."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.told: list[tuple[str, str]] = []
        self.keeper = Keeper(self.disk, lambda kind, text: self.told.append((kind, text)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


def received(name: str = "b") -> UpdateReceived:
    return UpdateReceived(update(name, w=[1.0]))


async def test_parts_that_could_not_be_saved_go_with_the_next_save() -> None:
    kept = Kept()
    kept.disk.full = FULL
    first = Save({"round": 1}, params(w=[1.0]), None, params(s=[1.0]), (KeptUpdate(received().update),))
    assert not await kept.keeper.save(T, first)
    assert not await kept.keeper.save(T, Save({"round": 2}, records=({"round": 1, "initiator": "a"},)))
    assert kept.keeper.trouble == FULL
    assert kept.told == [("state_not_written", f"{FULL}; rounds go on in memory, and it is tried again")]
    assert await kept.disk.load(T) is None
    kept.disk.full = ""
    assert await kept.keeper.save(T, Save({"round": 3}))
    assert kept.keeper.trouble == ""
    assert kept.kinds == ["state_not_written", "state_written"]
    saved = await kept.disk.load(T)
    assert saved is not None
    assert (saved.snapshot, saved.params, saved.sent) == ({"round": 3}, params(w=[1.0]), params(s=[1.0]))
    assert (len(saved.updates), len(saved.records)) == (1, 1)


class SlowDisk(Disk):
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
    assert not await kept.keeper.save(T, Save({"round": 1}, params(w=[1.0])))
    disk = SlowDisk()
    keeper = kept.keeper
    keeper._store = disk
    again = asyncio.create_task(keeper.retry())
    await asyncio.sleep(0)
    disk.full = FULL
    newer = asyncio.create_task(keeper.save(T, Save({"round": 2}, updates=(KeptUpdate(received().update),))))
    await asyncio.sleep(0)
    for answer in disk.answers:
        answer.set()
    assert not await newer
    await again
    assert "state_written" not in kept.kinds
    refused = asyncio.create_task(keeper.must_be_kept(T, received()))
    await asyncio.sleep(0)
    disk.answers[-1].set()
    with pytest.raises(NotReady):
        await refused
    disk.full = ""
    done = asyncio.create_task(keeper.retry())
    await asyncio.sleep(0)
    disk.answers[-1].set()
    await done
    found = await disk.load(T)
    assert found is not None and found.snapshot == {"round": 2} and len(found.updates) == 1


async def test_a_state_that_was_kept_meanwhile_is_not_written_over_by_an_older_one_of_it() -> None:
    kept = Kept()
    kept.disk.full = FULL
    for trainer in (T, OTHER):
        assert not await kept.keeper.save(trainer, Save({"round": 1}))
    disk = SlowDisk()
    kept.keeper._store = disk
    again = asyncio.create_task(kept.keeper.retry())
    await asyncio.sleep(0)
    newer = asyncio.create_task(kept.keeper.save(OTHER, Save({"round": 2})))
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
        await kept.keeper.save(T, Save({}))
    await kept.keeper.save(OTHER, Save({}))
    assert kept.kinds == ["state_not_written"] * 2
    kept.disk.full = ""
    await kept.keeper.save(T, Save({}))
    assert kept.keeper.trouble == "read-only"  # the other job is not saved yet
    await kept.keeper.retry()
    assert kept.keeper.trouble == ""
    assert kept.kinds[2:] == ["state_written"]


async def test_an_update_is_not_acknowledged_before_it_is_saved() -> None:
    kept = Kept()
    kept.disk.full = FULL
    await kept.keeper.save(T, Save({}, updates=(KeptUpdate(received().update),)))
    offered = UpdateOffered(Update(PeerId("c"), received().update.key, Params()), Digest("d" * 64))
    for event in (received(), offered):
        with pytest.raises(NotReady, match="ask again"):
            await kept.keeper.must_be_kept(T, event)
    others: list[tuple[TrainerId | None, Event]] = [(OTHER, received()), (T, PeerSeen(PeerId("b")))]
    for trainer, heard in [*others, (None, received())]:
        await kept.keeper.must_be_kept(trainer, heard)
    kept.disk.full = ""
    await kept.keeper.must_be_kept(T, received())  # the peer asked again
    saved = await kept.disk.load(T)
    assert saved is not None
    assert len(saved.updates) == 1


async def test_an_own_update_that_is_not_saved_is_not_handed_out() -> None:
    kept = Kept()
    said: dict[str, Any] = {"i_am": peer(), "trainer_id": "T", "round": 0, "federated_learning_params": HYPER}
    model = params(w=[1.0])
    send = Send((PeerId("b"),), ModelParams(**said, examples=3, accuracy=0.5, digest=model.digest), model)
    assert kept.keeper.allowed(T, send) is send
    kept.disk.full = FULL
    await kept.keeper.save(T, Save({}))
    refusal = kept.keeper.allowed(T, send)
    assert isinstance(refusal.message, ModelParams)
    assert (refusal.to, refusal.params, refusal.message.digest) == (("b",), None, None)
    assert refusal.message.declined == f"its update could not be saved there: {FULL}"
    claim = Send((PeerId("b"),), Accuracy(**said, accuracy=0.5), model)
    assert kept.keeper.allowed(T, claim) is claim


async def test_what_was_kept_is_what_a_job_hears_and_what_is_damaged_is_told() -> None:
    kept = Kept()
    assert await kept.keeper.load(T) is None
    offer = KeptUpdate(Update(PeerId("c"), received().update.key, Params()), Digest("d" * 64))
    await kept.keeper.save(T, Save({"round": 1}, params(w=[1.0]), updates=(KeptUpdate(received().update), offer)))
    kept.disk.found = ("a file was damaged",)
    found = await kept.keeper.load(T)
    assert found is not None
    assert (found.snapshot, found.params) == ({"round": 1}, params(w=[1.0]))
    assert found.updates == (received(), UpdateOffered(offer.update, Digest("d" * 64)))
    assert kept.told == [("state_damaged", "a file was damaged")]


async def test_peers_that_answer_are_known_to_the_next_run() -> None:
    kept = Kept()
    assert await kept.keeper.addresses() == ()

    def seen(**states: str) -> list[dict[str, str]]:
        return [{"id": name, "address": f"{name}:1", "state": state} for name, state in states.items()]

    await kept.keeper.keep_peers(seen(b="alive", c="dead", d="left"), {})
    assert await Keeper(kept.disk, print).addresses() == ("b:1", "c:1")  # a dead one may be behind a cut
    await kept.keeper.keep_peers(seen(b="alive", c="suspect", d="left"), {})
    await kept.keeper.keep_peers(seen(b="dead", c="dead"), {})  # alone: who was there may be there again
    assert await Keeper(kept.disk, print).addresses() == ("b:1", "c:1")


async def test_whose_name_is_whose_is_known_to_the_next_run() -> None:
    kept = Kept()
    seen = [{"id": "b", "address": "b:1", "state": "dead"}, {"id": "d", "address": "d:1", "state": "left"}]
    await kept.keeper.keep_peers(seen, {PeerId("b"): "key of b", PeerId("d"): "key of d", PeerId("e"): "key of e"})
    again = Keeper(kept.disk, print)
    assert await again.addresses() == ("b:1",)
    assert again.keys == {"b": "key of b", "d": "key of d", "e": "key of e"}
    await again.keep_peers([], {PeerId("d"): "key of d"})  # alone, and a person forgot the others
    last = Keeper(kept.disk, print)
    assert await last.addresses() == ("b:1",)
    assert last.keys == {"d": "key of d"}


async def test_peers_that_an_older_flnet_kept_have_no_keys() -> None:
    kept = Kept()
    await kept.disk.save_peers([{"id": "b", "address": "b:1"}])
    assert await kept.keeper.addresses() == ("b:1",)
    assert kept.keeper.keys == {}
