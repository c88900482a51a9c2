"""How a saved state follows from the one before it, and what can be saved at all."""

from __future__ import annotations

import asyncio
import datetime
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from flnet.errors import LocalError
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import RoundKey, Update
from flnet.settings import load_settings
from flnet.store.base import FIRST, USUAL, KeptModel, Retention, SavedJob
from flnet.store.memory import MemoryStore
from flnet.store.sqlite_store import DiskStore
from flnet.text import code_of, text
from tests.helpers import key, params


def kept_update(peer: str, round: int) -> KeptUpdate:
    return KeptUpdate(Update(PeerId(peer), key(round), params(w=[round])))


def test_updates_stay_while_their_round_is_needed() -> None:
    saved = SavedJob({}, updates=(kept_update("b", 1),)).then(
        SavedJob({"updates_from": 1}, updates=(kept_update("a", 2),))
    )
    assert saved.updates == (kept_update("b", 1), kept_update("a", 2))
    assert saved.then(SavedJob({"updates_from": 2})).updates == (kept_update("a", 2),)
    assert saved.then(SavedJob({"updates_from": 3})).updates == ()


def test_of_each_round_the_newest_record_stays_in_the_order_of_rounds() -> None:
    def record(round: int, outcome: str) -> dict[str, object]:
        return {"round": round, "initiator": "a", "outcome": outcome}

    saved = SavedJob(records=(record(0, "x"), record(1, "y")))
    again = saved.then(SavedJob(records=(record(2, "z"), record(0, "new"))))
    assert again.records == (record(0, "new"), record(1, "y"), record(2, "z"))


def test_parameters_that_are_none_stay() -> None:
    remembered = params(r=[1.0])
    before = SavedJob({}, params(w=[1.0]), params(h=[1.0]), params(s=[1.0]), remembered=remembered)
    after = before.then(SavedJob({"round": 1}, sent=params(s=[2.0])))
    kept = (params(w=[1.0]), params(h=[1.0]), params(s=[2.0]))
    assert after == SavedJob({"round": 1}, *kept, remembered=remembered)
    assert after.parts == (*kept, remembered)
    assert before.then(SavedJob({}, remembered=params(r=[2.0]))).remembered == params(r=[2.0])


def test_of_models_that_wait_for_a_disk_the_newest_few_stay() -> None:
    def model(number: int, round: int) -> KeptModel:
        return KeptModel.of({"round": round}, params(w=[number]), params())

    saved = SavedJob(models=(model(1, 0), model(2, 1))).then(SavedJob(models=(model(1, 2),)))
    assert saved.models == (model(2, 1), model(1, 2))
    assert saved.then(SavedJob(models=(model(3, 3),))).models == (model(1, 2), model(3, 3))


def test_what_is_kept_is_what_a_person_set() -> None:
    asked = {"keep_models": 0, "keep_model_megabytes": 2, "keep_rounds": 30, "keep_events": 4}
    assert Retention.of(load_settings(asked, {})) == Retention(0, 2 * 1024 * 1024, 30, 4)
    assert Retention.of(load_settings({}, {"FLNET_KEEP_ROUNDS": "7"})) == Retention(
        5, 128 * 1024 * 1024, 7, 10_000
    )
    assert Retention.of(load_settings({}, {})) == USUAL


MNIST, CIFAR10 = TrainerId("MNIST"), TrainerId("CIFAR10")


async def test_what_was_saved_is_loaded_job_by_job_also_after_it_was_closed() -> None:
    store = MemoryStore()
    job = SavedJob({"round": 3, "hyper": {"u": 1e-05}, "names": ["a", None]}, params(w=[1.0]), params(head=[2.0]))
    await store.save(MNIST, job)
    assert await store.load(CIFAR10) is None
    await store.save(CIFAR10, SavedJob({"round": 9}))
    await store.close()
    assert await store.load(MNIST) == job
    assert await store.load(CIFAR10) == SavedJob({"round": 9})


async def test_nothing_is_shared_with_the_job() -> None:
    store = MemoryStore()
    snapshot: dict[str, Any] = {"peers": ["a"]}
    await store.save(MNIST, SavedJob(snapshot))
    snapshot["peers"].append("b")
    first, second = await store.load(MNIST), await store.load(MNIST)
    assert first is not None
    assert second is not None
    assert first.snapshot == {"peers": ["a"]}
    first.snapshot["peers"].append("c")
    assert second.snapshot == {"peers": ["a"]}


@pytest.mark.parametrize(
    "value", [datetime.date(2026, 1, 1), params(w=[1.0]), {1, 2}, float("nan"), b"x", object()]
)
async def test_what_a_disk_could_not_keep_is_refused_and_the_old_state_stays(value: Any) -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 1}, params(w=[1.0])))
    with pytest.raises(LocalError, match="plain JSON data"):
        await store.save(MNIST, SavedJob({"round": 2, "x": value}, params(w=[2.0])))
    with pytest.raises(LocalError, match="plain JSON data"):
        await store.keep_model(MNIST, {"x": value}, params(w=[1.0]), params())
    assert await store.load(MNIST) == SavedJob({"round": 1}, params(w=[1.0]))
    assert await store.models(MNIST) == []


async def kept(store: MemoryStore, trainer: TrainerId = MNIST) -> list[tuple[int, int]]:
    """(round, bytes) of every model, newest first."""
    return [(model.figures["round"], model.nbytes) for model in await store.models(trainer)]


async def test_models_are_kept_with_their_figures_and_private_parts() -> None:
    store, shared, private = MemoryStore(), params(w=[1.0, 2.0]), params(head=[3.0])
    await store.keep_model(MNIST, {"round": 0}, shared, private)
    (listed,) = await store.models(MNIST)
    assert listed == KeptModel(shared.digest, {"round": 0}, 12)
    assert await store.load_model(MNIST, shared.digest) == KeptModel(
        shared.digest, {"round": 0}, 12, shared, private
    )
    assert await store.load_model(CIFAR10, shared.digest) is None
    assert await store.load_model(MNIST, private.digest) is None
    assert await store.models(CIFAR10) == []


async def test_the_last_averages_are_kept_and_older_ones_go() -> None:
    store = MemoryStore()
    for number in range(USUAL.averages + 4):
        await store.keep_model(MNIST, {"round": number}, params(w=[number]), params())
    assert await kept(store) == [(number, 4) for number in range(USUAL.averages + 3, 2, -1)]
    assert await store.load_model(MNIST, params(w=[0]).digest) is None


async def test_what_becomes_known_later_replaces_the_figures_and_makes_it_the_newest() -> None:
    store = MemoryStore()
    await store.keep_model(MNIST, {"round": 0}, params(w=[0]), params())
    await store.keep_model(MNIST, {"round": 1}, params(w=[1]), params())
    await store.keep_model(MNIST, {"round": 7}, params(w=[0]), params(h=[5]))
    assert await kept(store) == [(7, 8), (1, 4)]


async def test_of_very_large_models_fewer_are_kept_but_always_the_newest() -> None:
    store = MemoryStore(replace(USUAL, model_bytes=10))
    for number in range(3):
        await store.keep_model(MNIST, {"round": number}, params(w=[number]), params())
    assert await kept(store) == [(2, 4), (1, 4)]
    await store.keep_model(MNIST, {"round": 3}, params(w=[3] * 9), params())
    assert await kept(store) == [(3, 36)]


async def test_a_pinned_model_stays_whatever_comes_and_takes_no_place_of_the_others() -> None:
    store = MemoryStore()
    await store.keep_model(MNIST, {"round": 0}, params(w=[0]), params(h=[9]))
    assert await store.pin(MNIST, params(w=[0]).digest, True)
    for number in range(1, USUAL.averages + 4):
        await store.keep_model(MNIST, {"round": number}, params(w=[number]), params())
    assert await kept(store) == [(number, 4) for number in range(USUAL.averages + 3, 2, -1)] + [(0, 8)]
    assert [model.pinned for model in await store.models(MNIST)] == [False] * (USUAL.averages + 1) + [True]
    found = await store.load_model(MNIST, params(w=[0]).digest)
    assert found is not None
    assert (found.private, found.pinned) == (params(h=[9]), True)


async def test_the_size_of_pinned_models_drives_no_other_out() -> None:
    store = MemoryStore(replace(USUAL, model_bytes=10))
    await store.keep_model(MNIST, {"round": 0}, params(w=[0] * 9), params())
    assert await store.pin(MNIST, params(w=[0] * 9).digest, True)
    for number in (1, 2, 3):
        await store.keep_model(MNIST, {"round": number}, params(w=[number]), params())
    assert await kept(store) == [(3, 4), (2, 4), (0, 36)]


async def test_keeping_a_model_again_does_not_lose_the_pin_and_unpinned_it_goes_in_its_turn() -> None:
    store, digest = MemoryStore(), params(w=[0]).digest
    await store.keep_model(MNIST, {"round": 0}, params(w=[0]), params())
    assert await store.pin(MNIST, digest, True)
    await store.keep_model(MNIST, {"round": 7}, params(w=[0]), params(h=[5]))
    (model,) = await store.models(MNIST)
    assert (model.figures, model.nbytes, model.pinned) == ({"round": 7}, 8, True)
    assert await store.pin(MNIST, digest, False)
    assert await store.pin(MNIST, digest, False)
    for number in range(USUAL.averages + 1):
        assert await store.load_model(MNIST, digest) is not None
        await store.keep_model(MNIST, {"round": number}, params(w=[number + 1]), params())
    assert await store.load_model(MNIST, digest) is None


async def test_what_is_not_kept_cannot_be_pinned() -> None:
    store = MemoryStore()
    await store.keep_model(MNIST, {"round": 0}, params(w=[0]), params())
    assert not await store.pin(MNIST, params(w=[1]).digest, True)
    assert not await store.pin(CIFAR10, params(w=[0]).digest, True)
    assert [model.pinned for model in await store.models(MNIST)] == [False]


def records(*numbers: int) -> tuple[dict[str, Any], ...]:
    return tuple({"round": number, "initiator": "a"} for number in numbers)


async def test_the_records_of_the_newest_rounds_are_kept() -> None:
    store = MemoryStore(replace(USUAL, rounds=3))
    assert await store.records(MNIST) == []
    await store.save(MNIST, SavedJob({"round": 2}, records=records(0, 1, 2)))
    await store.save(MNIST, SavedJob({"round": 4}, records=({**records(2)[0], "outcome": "again"}, *records(4))))
    kept = [records(1)[0], {**records(2)[0], "outcome": "again"}, records(4)[0]]
    assert await store.records(MNIST) == kept
    assert await store.records(MNIST, last=2) == kept[1:]
    assert await store.records(MNIST, last=9, until=3) == kept[:2]
    assert await store.records(MNIST, last=1, until=3) == kept[1:2]
    loaded = await store.load(MNIST, rounds=1)
    assert loaded is not None
    assert list(loaded.records) == kept[2:]


async def test_a_history_is_read_in_pages_or_thinned() -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 9}, records=records(*range(10))))
    assert await store.count_records(MNIST) == 10
    assert await store.records_after(MNIST, FIRST, 3) == list(records(0, 1, 2))
    assert await store.records_after(MNIST, (2, "a"), 3, 4) == list(records(7, 8, 9))
    assert await store.records_after(MNIST, (9, "a"), 3) == []
    assert await store.every_record(MNIST, 4) == list(records(1, 5, 9))
    assert await store.every_record(MNIST, 4, last=5) == list(records(5, 9))


R = TypeVar("R")
FEW = replace(USUAL, averages=2, rounds=5, events=6)
EVENT = {"at": 1.5, "kind": "k", "text": "t", "trainer": "A"}
TRAINERS = st.sampled_from([TrainerId("A"), TrainerId("B")])
SOME = st.integers(0, 5).map(lambda n: params(w=[n]))
MAYBE = st.none() | SOME
PRIVATE = st.sampled_from([Params(), params(h=[1.0]), params(h=[2.0])])
ROUNDS = st.integers(0, 3)
KEYS = st.builds(RoundKey, ROUNDS, st.sampled_from([PeerId("a"), PeerId("b")]))
PEERS = st.sampled_from([PeerId("p"), PeerId("q"), PeerId("r")])
PUSHED = st.builds(
    Update, PEERS, KEYS, SOME, st.none() | st.integers(1, 9), st.integers(1, 3), staleness=st.integers(0, 2)
).map(KeptUpdate)
OFFERED = st.builds(Update, PEERS, KEYS, st.just(Params())).map(lambda u: KeptUpdate(u, Digest("d" * 64)))
RECORDS = KEYS.flatmap(
    lambda key: st.integers().map(lambda n: {"round": key.number, "initiator": key.initiator, "n": n})
)


MODELS = st.builds(
    lambda round, number, private: KeptModel.of({"round": round}, params(w=[number]), private),
    ROUNDS,
    st.integers(0, 9),
    PRIVATE,
)


class Twins(RuleBasedStateMachine):
    """Asks both stores the same."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.disk, self.memory = DiskStore(self.folder, FEW), MemoryStore(FEW)

    def run(self, one: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(one)

    @rule(
        trainer=TRAINERS,
        first=ROUNDS,
        parts=st.tuples(MAYBE, MAYBE, MAYBE, MAYBE),
        updates=st.lists(PUSHED | OFFERED, max_size=3),
        records=st.lists(RECORDS, max_size=2),
        models=st.lists(MODELS, max_size=3),
    )
    def save(self, trainer: TrainerId, first: int, parts: Any, updates: Any, records: Any, models: Any) -> None:
        shared, private, sent, remembered = parts
        words = (tuple(updates), tuple(records), remembered, tuple(models))
        job = SavedJob({"updates_from": first}, shared, private, sent, *words)
        self.run(self.disk.save(trainer, job))
        self.run(self.memory.save(trainer, job))

    @rule(trainer=TRAINERS, rounds=st.none() | ROUNDS)
    def load(self, trainer: TrainerId, rounds: int | None) -> None:
        assert self.run(self.disk.load(trainer, rounds)) == self.run(self.memory.load(trainer, rounds))

    @rule(trainer=TRAINERS, last=st.none() | st.integers(1, 4), until=st.none() | ROUNDS)
    def records(self, trainer: TrainerId, last: int | None, until: int | None) -> None:
        found = self.run(self.memory.records(trainer, last, until))
        assert self.run(self.disk.records(trainer, last, until)) == found

    @rule(trainer=TRAINERS, most=st.integers(1, 4), skip=st.integers(0, 3))
    def pages(self, trainer: TrainerId, most: int, skip: int) -> None:
        whole, after = list(self.run(self.memory.records(trainer)))[skip:], FIRST
        assert self.run(self.disk.count_records(trainer)) == self.run(self.memory.count_records(trainer))
        while page := self.run(self.memory.records_after(trainer, after, most, skip)):
            assert self.run(self.disk.records_after(trainer, after, most, skip)) == page == whole[: len(page)]
            after, skip, whole = (page[-1]["round"], page[-1]["initiator"]), 0, whole[len(page) :]
        assert whole == self.run(self.disk.records_after(trainer, after, most, skip)) == []

    @rule(trainer=TRAINERS, every=st.integers(1, 3), last=st.none() | st.integers(1, 4))
    def every_record(self, trainer: TrainerId, every: int, last: int | None) -> None:
        found = self.run(self.memory.every_record(trainer, every, last))
        assert self.run(self.disk.every_record(trainer, every, last)) == found

    @rule(trainer=TRAINERS, number=ROUNDS, shared=st.integers(0, 9).map(lambda n: params(w=[n])), private=PRIVATE)
    def keep(self, trainer: TrainerId, number: int, shared: Params, private: Params) -> None:
        for store in (self.disk, self.memory):
            self.run(store.keep_model(trainer, {"round": number}, shared, private))

    @rule(trainer=TRAINERS)
    def models(self, trainer: TrainerId) -> None:
        listed = self.run(self.memory.models(trainer))
        assert self.run(self.disk.models(trainer)) == listed
        for model in listed:
            whole = self.run(self.memory.load_model(trainer, model.digest))
            assert self.run(self.disk.load_model(trainer, model.digest)) == whole

    @rule(trainer=TRAINERS, shared=SOME, pinned=st.booleans())
    def pin(self, trainer: TrainerId, shared: Params, pinned: bool) -> None:
        done = self.run(self.memory.pin(trainer, shared.digest, pinned))
        assert self.run(self.disk.pin(trainer, shared.digest, pinned)) == done

    @rule(names=st.sets(st.sampled_from("xyz")))
    def peers(self, names: set[str]) -> None:
        for store in (self.disk, self.memory):
            self.run(store.save_peers([{"id": name} for name in names]))
        assert self.run(self.disk.load_peers()) == self.run(self.memory.load_peers())

    @rule(marks=st.sets(st.sampled_from("xyz")))
    def trust(self, marks: set[str]) -> None:
        for store in (self.disk, self.memory):
            self.run(store.save_trust([{"fingerprint": mark} for mark in marks]))
        assert self.run(self.disk.load_trust()) == self.run(self.memory.load_trust())

    @rule(count=st.integers(0, 4))
    def events(self, count: int) -> None:
        last = self.run(self.memory.begin_events())
        assert self.run(self.disk.begin_events()) == last
        told = [{**EVENT, "id": last + n, "data": {"n": n}} for n in range(1, count + 1)]
        for store in (self.disk, self.memory):
            self.run(store.add_events(told))
            self.run(store.add_events(told[-1:]))  # once more changes nothing
            self.run(store.end_events(last + count))
        assert self.run(self.disk.events(4)) == self.run(self.memory.events(4))

    @rule()
    def restart(self) -> None:
        self.run(self.disk.close())
        self.disk = DiskStore(self.folder, FEW)
        assert self.disk.notices() == []

    def teardown(self) -> None:
        self.run(self.disk.close())
        self.runner.close()
        shutil.rmtree(self.folder)


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=25)


@pytest.mark.parametrize("on_disk", [False, True])
async def test_sentences_of_records_and_snapshots_can_be_translated_later(tmp_path: Path, on_disk: bool) -> None:
    store = DiskStore(tmp_path) if on_disk else MemoryStore()
    outcome = text("{error}; the model stays as it was", text("no update came"))
    record = {**records(1)[0], "outcome": outcome, "weighed": {"b": {"reason": outcome}}}
    await store.save(MNIST, SavedJob({"round": 1, "error": outcome}, records=(record,)))
    loaded = await store.load(MNIST)
    assert loaded is not None and loaded.snapshot == {"round": 1, "error": outcome}
    (again,) = await store.records(MNIST)
    assert again == record == loaded.records[0]
    for sentence in (again["outcome"], again["weighed"]["b"]["reason"], loaded.snapshot["error"]):
        assert code_of(sentence) == code_of(outcome)
    await store.close()
