"""A past round told again: what the kept events say, and what is said where some of them are gone."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.node.event_log import FeedItem
from flnet.node.replay import OF_PEER, OWN, STATES, NodeState, Replay, replayed
from flnet.web.api.history import ReplayView
from tests.node.mesh import MNIST_3_7, mesh_of

RECORD: dict[str, Any] = {
    "round": 4,
    "initiator": "b",
    "contributors": ["a", "b"],
    "missing": ["c"],
    "left_out": {"c": "it was too late", "d": "it moved too far"},
    "weighed": {"a": {"weight": 0.5}, "b": {"weight": 0.5}, "d": {"reason": "it moved too far"}},
    "exchanged_with": "b",
}
TOLD: list[tuple[str, str, dict[str, Any]]] = [
    ("round_opened", "T", {"initiator": "b"}),
    ("trained", "T", {}),
    ("update_received", "T", {"peer": "b"}),
    ("peer_lost", "", {"peer": "c"}),
    ("peer_lost", "", {"peer": "x"}),  # who has no part in the round
    ("update_received", "other", {"peer": "b"}),
    ("update_received", "T", {"peer": "d"}),
    ("averaged", "T", {"contributors": ["a", "b"]}),
    ("measured", "T", {}),
    ("exchanged", "T", {"peer": "b"}),
    ("round_closed", "T", RECORD),
]
MISSING = {
    "begin": "The events of the beginning of this round are not kept any more.",
    "end": "The event of the end of this round is not kept any more.",
    "all": "The events of this round are not kept any more.",
}


def events(*places: int) -> list[FeedItem]:
    """These events of TOLD, or all of them, with events of other rounds around them."""
    told = [
        FeedItem(10 + place, 100.0 + place, kind, f"sentence {place}", trainer, {"round": 4, **data})
        for place, (kind, trainer, data) in enumerate(TOLD)
        if place in (places or range(len(TOLD)))
    ]
    before = FeedItem(9, 99.0, "round_closed", "before", "T", {"round": 3})
    return [before, *told, FeedItem(40, 140.0, "round_opened", "after", "T", {"round": 5})]


def told(*places: int, record: dict[str, Any] | None = RECORD) -> Replay:
    return replayed("a", "T", 4, record, events(*places))


def test_every_node_goes_from_state_to_state() -> None:
    replay = told()
    assert (replay.nodes, replay.missing) == (["a", "b", "c", "d"], [])
    assert [step.kind for step in replay.steps] == [
        kind for kind, trainer, data in TOLD if trainer != "other" and data.get("peer") != "x"
    ]
    assert [step.seconds for step in replay.steps[:3]] == [0, 1, 2]
    assert [step.node for step in replay.steps[:4]] == ["b", "a", "b", "c"]
    states = [[state.state for state in replay.states(step).values()] for step in range(5)]
    assert states == [
        ["awaited", "awaited", "awaited", "awaited"],
        ["trains", "awaited", "awaited", "awaited"],
        ["sent", "awaited", "awaited", "awaited"],
        ["sent", "arrived", "awaited", "awaited"],
        ["sent", "arrived", "lost", "awaited"],
    ]
    assert replay.states(4)["c"].why == "sentence 3"
    assert replay.states() == {
        "a": NodeState("counted"),
        "b": NodeState("adopted"),
        "c": NodeState("left_out", "it was too late"),
        "d": NodeState("left_out", "it moved too far"),
    }


def test_what_is_gone_is_said_and_the_record_tells_the_result() -> None:
    assert told(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).missing == [MISSING["begin"]]
    assert told(0, 1, 2, 3, 4, 5, 6, 7, 8, 9).missing == [MISSING["end"]]
    assert told(0, 1, 10).missing == ["8 events of the time of this round are not kept any more."]
    assert told(0, 1, 10).states() == told().states()
    gone = replayed("a", "T", 4, RECORD, [])
    assert (gone.missing, gone.steps, gone.states()) == ([MISSING["all"]], [], told().states())
    still_open = told(0, 1, record=None)
    assert (still_open.missing, still_open.nodes) == ([], ["a", "b"])
    assert replayed("a", "T", 8, None, events()).steps == []


@given(st.sets(st.sampled_from(range(len(TOLD)))))
def test_whatever_is_gone_the_result_stays_and_nothing_is_lost_in_silence(kept: set[int]) -> None:
    replay = replayed("a", "T", 4, RECORD, events(*kept)) if kept else replayed("a", "T", 4, RECORD, [])
    assert {node: replay.states()[node] for node in ("a", "b", "c", "d")} == told().states()
    places = {place for place, (_, trainer, data) in enumerate(TOLD) if trainer == "T"}
    if not places <= kept:
        assert replay.missing
    ReplayView.model_validate_json(orjson.dumps({**replay.view(), "record": None}))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*OWN, *OF_PEER, "round_opened", "averaged", "merged", "peer_lost", "fault"]),
            st.dictionaries(
                st.sampled_from(["round", "peer", "contributors", "initiator"]),
                st.one_of(st.none(), st.just(4), st.text(max_size=3), st.lists(st.text(max_size=2), max_size=2)),
            ),
        )
    )
)
def test_no_event_of_another_version_stops_it(some: list[tuple[str, dict[str, Any]]]) -> None:
    items = [
        FeedItem(place, 1.0, kind, "s", "T", {"round": 4, **data}) for place, (kind, data) in enumerate(some, 1)
    ]
    replay = replayed("a", "T", 4, None, items)
    assert set(replay.states()) >= {"a"} and all(state.state in STATES for state in replay.states().values())


@pytest.mark.parametrize("me", ["a", "b"])
async def test_a_real_round_is_told_on_each_of_its_nodes(me: str) -> None:
    async with mesh_of(1.0, 2.0, 3.0) as mesh:
        await mesh.train()
        await mesh.train()
        node = mesh.nodes[me]
        record = (await node.records(MNIST_3_7, 1, until=1))[-1]
        replay = replayed(me, MNIST_3_7, 1, record, await node.events())
    assert replay.nodes == [me, *sorted({"a", "b", "c"} - {me})]
    kinds = [step.kind for step in replay.steps]
    assert (kinds[0], kinds[-1], replay.missing) == ("round_opened", "round_closed", [])
    assert kinds.count("update_received") == 2 and kinds.count("trained") == 1
    before_average = replay.states(kinds.index("averaged"))
    assert [before_average[node].state for node in replay.nodes] == ["sent", "arrived", "arrived"]
    assert {state.state for state in replay.states().values()} == {"counted"}
    ReplayView.model_validate_json(orjson.dumps(replay.view()))
