"""The store in memory keeps what a store on disk would keep."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from flnet.errors import LocalError
from flnet.params import TrainerId
from flnet.store.base import USUAL, KeptModel, SavedJob
from flnet.store.memory import MemoryStore
from tests.helpers import params

MNIST, CIFAR10 = TrainerId("MNIST"), TrainerId("CIFAR10")


async def test_what_was_saved_is_loaded() -> None:
    store = MemoryStore()
    job = SavedJob({"round": 3, "hyper": {"u": 1e-05}, "names": ["a", None]}, params(w=[1.0]), params(head=[2.0]))
    await store.save(MNIST, job)
    assert await store.load(MNIST) == job
    assert await store.load(CIFAR10) is None


async def test_params_that_are_none_stay_as_they_were() -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 1}, params(w=[1.0]), params(head=[1.0])))
    await store.save(MNIST, SavedJob({"round": 2}, params=params(w=[2.0])))
    await store.save(MNIST, SavedJob({"round": 3}))
    assert await store.load(MNIST) == SavedJob({"round": 3}, params(w=[2.0]), params(head=[1.0]))


async def test_jobs_are_kept_apart() -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 1}, params(w=[1.0])))
    await store.save(CIFAR10, SavedJob({"round": 9}))
    assert await store.load(MNIST) == SavedJob({"round": 1}, params(w=[1.0]))
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


async def test_closing_forgets_nothing_so_that_the_next_node_finds_it() -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 1}))
    await store.close()
    assert await store.load(MNIST) == SavedJob({"round": 1})


@pytest.mark.parametrize(
    "value", [datetime.date(2026, 1, 1), params(w=[1.0]), {1, 2}, float("nan"), b"x", object()]
)
async def test_what_a_disk_could_not_keep_is_refused_and_the_old_state_stays(value: Any) -> None:
    store = MemoryStore()
    await store.save(MNIST, SavedJob({"round": 1}, params(w=[1.0])))
    with pytest.raises(LocalError, match="plain JSON data"):
        await store.save(MNIST, SavedJob({"round": 2, "x": value}, params(w=[2.0])))
    assert await store.load(MNIST) == SavedJob({"round": 1}, params(w=[1.0]))


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


async def test_figures_that_a_disk_could_not_keep_are_refused() -> None:
    store = MemoryStore()
    with pytest.raises(LocalError, match="plain JSON data"):
        await store.keep_model(MNIST, {"x": object()}, params(w=[1.0]), params())
    assert await store.models(MNIST) == []


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
