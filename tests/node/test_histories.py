"""The peers' accuracies by round: asked when rounds are missing, never otherwise, and checked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerUnreachable
from flnet.node import histories as module
from flnet.node.base import Points, View
from flnet.node.histories import MAX_BYTES, MOST_PEERS, MOST_ROUNDS, Histories, read_history
from flnet.transport import Reply

PATH = f"/jobs/AB/history?last={MOST_ROUNDS}"


def record(number: object, accuracy: object) -> dict[str, object]:
    return {"round": number, "post_fedavg_accuracy": accuracy}


class Told:
    """A transport on which peers have these histories."""

    def __init__(self, *records: dict[str, object]) -> None:
        self.reply: Reply | None = Reply(200, json.dumps(records).encode())
        self.asked: list[str] = []

    async def fetch(self, address: str, path: str) -> Reply:
        assert path == PATH
        self.asked.append(address)
        await asyncio.sleep(0)
        if self.reply is None:
            raise PeerUnreachable(f"{address} refused")
        return self.reply


def info(peer: str, round: object, accuracy: object = None, current: object = 9) -> View:
    job = {"trainer_id": "AB", "current_round": current, **record(None, accuracy), "model_round": round}
    return {"id": peer, "address": f"{peer}:1", "info": {"jobsInfo": [job]}, "error": None}


async def look(histories: Histories, *infos: View) -> dict[str, Points]:
    return dict(await histories.get("AB", infos))


def made(*records: dict[str, object]) -> tuple[Any, Histories]:
    transport: Any = Told(*records)
    return transport, Histories(transport)


async def test_a_history_is_asked_once_and_later_rounds_are_told_by_the_peers_info() -> None:
    transport, histories = made(record(0, 0.25), record(1, 0.5))
    assert await look(histories, info("b", 1, 0.5)) == {"b": ((0, 0.25), (1, 0.5))}
    assert await look(histories, info("b", 2, 0.75)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.75))}
    assert await look(histories, info("b", 2, 0.8)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.8))}  # after an exchange
    assert await look(histories, info("b", 2, None)) == {"b": ((0, 0.25), (1, 0.5), (2, 0.8))}
    assert transport.asked == ["b:1"]


@pytest.mark.parametrize("newest", [5, 0])
async def test_rounds_that_passed_unseen_are_asked_for_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    transport, histories = made(record(1, 0.5))
    await look(histories, info("b", 1, 0.5))
    await look(histories, info("b", newest, 0.75))
    assert transport.asked == ["b:1"]  # not so soon
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    transport, histories = made(record(1, 0.5))
    await look(histories, info("b", 1, 0.5))
    transport.reply = Reply(200, json.dumps([record(newest, 0.75)]).encode())
    assert await look(histories, info("b", newest, 0.75)) == {"b": ((newest, 0.75),)}
    assert transport.asked == ["b:1"] * 2


@pytest.mark.parametrize(
    "reply",
    [None, Reply(404, b"{}"), Reply(200, b"{}"), Reply(200, b"[" * 90_000), Reply(200, b" " * MAX_BYTES + b"[]")],
)
async def test_a_peer_without_a_usable_history_is_left_in_peace_for_a_while(reply: Reply | None) -> None:
    transport, histories = made()
    transport.reply = reply
    for number in range(5):
        await look(histories, info("b", 3 + number, 0.5))
    assert (await look(histories, info("b", 7, 0.5)))["b"][-1] == (7, 0.5)
    assert transport.asked == ["b:1"]


async def test_who_never_trained_or_does_not_answer_is_not_asked() -> None:
    transport, histories = made()
    silent: View = {"id": "c", "address": "c:1", "info": None, "error": "no"}
    found = await look(histories, info("b", -1, None, current=-1), silent, info("d", 0, 1, current="0"))
    assert (found, transport.asked) == ({}, [])


async def test_pages_that_look_at_once_ask_once_and_only_so_many_peers() -> None:
    transport, histories = made(record(0, 1))
    infos = [info(f"n{place}", 0, 1) for place in range(40)]
    found = await asyncio.gather(*(look(histories, *infos) for _ in range(10)))
    assert transport.asked == [f"n{place}:1" for place in range(MOST_PEERS)]
    assert all(one == {f"n{place}": ((0, 1.0),) for place in range(MOST_PEERS)} for one in found)


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    transport, histories = made(*(record(number, 0.5) for number in range(500)))
    points = (await look(histories, info("b", 500, 0.5)))["b"]
    assert (len(points), points[0][0], points[-1][0]) == (MOST_ROUNDS, 401, 500)
    monkeypatch.setattr(module, "MOST_KEPT", 1)
    await look(histories, info("c", 499, 0.5))
    await look(histories, info("b", 499, 0.5))
    assert transport.asked == ["b:1", "c:1", "b:1"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.binary()
    | st.lists(ANYTHING | st.builds(record, ANYTHING, ANYTHING)).map(lambda one: json.dumps(one).encode())
)
def test_whatever_a_peer_answers_only_rounds_and_accuracies_come_out(body: bytes) -> None:
    found = read_history(body)
    assert found is None or all(
        type(number) is int and number >= 0 and type(accuracy) is float and 0 <= accuracy <= 1
        for number, accuracy in found.items()
    )
