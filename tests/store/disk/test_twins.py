"""Whatever is asked of the store on disk, also over restarts, it says what the store in memory says."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from flnet.effects import KeptUpdate
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId, Update
from flnet.store import USUAL, KeptModel, MemoryStore, SavedJob
from flnet.store.disk import DiskStore
from tests.helpers import params

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
TestTwins.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
