from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.node.event_log import EventLog
from flnet.store.base import Retention, Store
from flnet.store.event_retention import KeptEvent, dropped, shares, surplus
from flnet.store.memory import MemoryStore
from flnet.store.sqlite_store import DiskStore

FEW = Retention(1, 1, 1, 20)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.data())
def test_the_largest_groups_lose_until_they_are_like_the_others(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, sum(sizes)))
    lost = shares(dict(enumerate(sizes)), count)
    left = [size - lost[group] for group, size in enumerate(sizes)]
    assert sum(lost.values()) == count and min(left) >= 0
    touched = [left[group] for group in lost if lost[group]]
    assert not touched or max(left) - min(touched) <= 1  # nobody that lost has less than who has most now


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.data())
def test_of_equal_groups_the_oldest_goes(kinds: list[str], data: st.DataObject) -> None:
    events = [KeptEvent(number, kind, "") for number, kind in enumerate(kinds)]
    count = data.draw(st.integers(0, len(events)))
    gone = dropped(events, count)
    assert len(set(gone)) == count
    for kind in kinds:
        own = [event.id for event in events if event.kind == kind]
        assert [number for number in own if number in gone] == own[: len([n for n in own if n in gone])]
    assert dropped([KeptEvent(number, str(number), "") for number in range(9)], 2) == [0, 1]


def test_a_few_too_many_wait_for_more() -> None:
    assert [surplus(count, 1000) for count in (1000, 1020, 1021)] == [0, 0, 21]
    assert [surplus(count, 20) for count in (20, 21)] == [0, 1]


def event(number: int, kind: str, peer: str = "") -> dict[str, Any]:
    return {
        "id": number,
        "at": 0.0,
        "kind": kind,
        "text": kind,
        "trainer": "",
        "data": {"peer": peer} if peer else {},
    }


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore(FEW) if request.param == "memory" else DiskStore(tmp_path, FEW)


async def test_one_peers_events_do_not_push_out_those_of_others(store: Store) -> None:
    await store.add_events(
        [event(1, "model_restored"), event(2, "peer_joined", "b"), event(3, "peer_joined", "c")]
    )
    for number in range(4, 500):
        await store.add_events([event(number, "peer_joined", "evil")])
    kept = await store.events(1000)
    assert len(kept) == FEW.events
    assert [one["id"] for one in kept][:3] == [1, 2, 3]
    assert [one["id"] for one in kept][3:] == list(range(483, 500))
    await store.close()


async def test_the_log_in_memory_shares_its_places_too() -> None:
    feed = EventLog(lambda: 0.0, keep=20)
    feed.publish("model_restored", "a person went back")
    following = feed.watch(0)
    for number in range(500):
        feed.publish("peer_joined", f"{number}", "", {"peer": "evil"})
    assert [item.kind for item in feed.recent()] == ["model_restored", *["peer_joined"] * 19]
    assert [(await anext(following)).id for _ in range(20)] == [1, *range(483, 502)]


async def test_a_watcher_waits_also_where_the_newest_event_is_forgotten_already() -> None:
    feed = EventLog(lambda: 0.0, keep=1)
    for kind in ("a", "b", "a", "a"):
        feed.publish(kind, kind)
    following = feed.watch(0)
    first = await anext(following)
    feed.publish("c", "c")
    assert first.id < (await anext(following)).id
