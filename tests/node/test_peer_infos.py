"""What peers say of themselves: all are asked at once, and not more often than once a second; and how far they are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerUnreachable
from flnet.fingerprints import short
from flnet.node import peer_infos as module
from flnet.node.interface import PeerInfo, View
from flnet.node.peer_infos import Distances, PeerInfos
from flnet.wire.transport import CONTROL_BYTES, Reply
from tests.node.mesh import mesh_of, until
from tests.security.keypairs import TestKey


class Answers:
    """A transport on which peers answer as a test says."""

    def __init__(self, answer: Callable[[str], Reply | Exception | None]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
        assert path == "/info"
        self.asked.append(address)
        answer = self.answer(address)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Reply):
            return answer
        assert isinstance(answer, Exception)
        raise answer


def peer(name: str, state: str = "alive", reason: str = "") -> View:
    return {"id": name, "address": f"{name}:1", "state": state, "reason": reason}


async def asked(answer: Reply | Exception | None) -> PeerInfo:
    transport: Any = Answers(lambda _: answer)
    (view,) = await PeerInfos(transport, lambda: [peer("b")], Distances()).get()
    return view


@pytest.mark.parametrize("stated", [0, 65536, -1, True, "9200", None, 9200.0, [9200]])
def test_a_relay_is_known_by_a_port_alone(stated: object) -> None:
    assert PeerInfo.claimed("b", "10.0.0.2:4000", {"relayPort": 9200}).relay == "10.0.0.2:9200"
    assert PeerInfo.claimed("b", "[fd00::2]:4000", {"relayPort": 9200}).relay == "[fd00::2]:9200"
    assert PeerInfo.claimed("b", "10.0.0.2:4000", {"relayPort": stated}).relay == ""


async def test_what_another_node_signed_is_not_shown_as_the_peers() -> None:
    def answered(address: str) -> Reply:
        return Reply(200, b"{}", signer=TestKey(2 if address == "b:1" else 3).text)

    transport: Any = Answers(answered)
    peers = [{**peer(name), "fingerprint": short(TestKey(2).text)} for name in "bc"]
    found = await PeerInfos(transport, lambda: peers, Distances()).get()
    assert [view.error for view in found] == [None, "another node than c answers there"]


async def test_every_peer_is_asked_and_told_of_in_order_with_the_time_it_took() -> None:
    transport: Any = Answers(lambda address: Reply(200, b'{"version": "%s"}' % address[:1].encode()))
    peers, distances = [peer("c"), peer("b"), peer("a", "dead", "no way")], Distances()
    found = await PeerInfos(transport, lambda: peers, distances).get()
    assert [(view.id, view.version, view.error) for view in found] == [
        ("c", "c", None),
        ("b", "b", None),
        ("a", None, "no way"),
    ]
    assert [distances.rtt_ms(name) is not None for name in "cba"] == [True, True, False]
    assert sorted(transport.asked) == ["b:1", "c:1"]  # nobody waits for one that does not answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (PeerUnreachable("b:1 refused"), "no usable answer"),
        (Reply(200, b"\xff"), "no usable answer"),
        (Reply(200, b"[" * 100_000), "no usable answer"),
        (Reply(200, b"[]"), "answered 200 instead of its state"),
        (Reply(404, b"{}"), "answered 404 instead of its state"),
    ],
)
async def test_what_cannot_be_used_is_said_in_words(answer: Reply | Exception, words: str) -> None:
    view = await asked(answer)
    assert words in (view.error or "")


async def test_a_silent_peer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.01)
    view = await asked(None)
    assert view.error == "no answer in 0.01 s"


async def test_a_peer_that_never_answered_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 3600.0)
    monkeypatch.setattr(module, "MOMENT_SECONDS", 0.01)
    transport: Any = Answers(lambda address: Reply(200, b"{}") if address == "b:1" else None)
    survey = PeerInfos(transport, lambda: [peer("b"), peer("c")], Distances())
    assert [view.error for view in await survey.get()] == [None, "no answer yet"]
    survey._until = 0.0
    assert [view.error for view in await survey.get()] == [None, "no answer yet"]
    assert transport.asked == ["b:1", "c:1", "b:1"]  # the other request is under way


async def test_who_fell_silent_is_waited_for_once_and_told_of_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(module, "MOMENT_SECONDS", 0.01)
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    distances, silent = Distances(), True
    distances.measured("b", 0.001)
    transport: Any = Answers(lambda _: None if silent else Reply(200, b"{}"))
    survey = PeerInfos(transport, lambda: [peer("b")], distances)
    assert [view.error for view in await survey.get()] == ["no answer in 0.05 s"]
    monkeypatch.setattr(module, "SECONDS", 3600.0)
    assert [view.error for view in await survey.get()] == ["no answer in 0.05 s"]  # now it is not waited for
    for task in survey._under_way.values():
        task.cancel()
    silent = False
    await until(lambda: not survey._under_way)
    assert [view.error for view in await survey.get()] == [None]


async def test_who_asks_again_at_once_is_told_the_same_and_later_peers_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 3600.0)
    transport: Any = Answers(lambda _: Reply(200, b"{}"))
    survey = PeerInfos(transport, lambda: [peer("b")], Distances())
    answers = await asyncio.gather(*(survey.get() for _ in range(5)))
    assert (len(transport.asked), all(answer is answers[0] for answer in answers)) == (1, True)
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    later = PeerInfos(transport, lambda: [peer("b")], Distances())
    await later.get()
    await later.get()
    assert len(transport.asked) == 3


@pytest.mark.parametrize(("state", "is_asked"), [("suspect", True), ("dead", False), ("left", False)])
async def test_who_is_only_suspected_is_asked_too(state: str, is_asked: bool) -> None:
    transport: Any = Answers(lambda _: Reply(200, b"{}"))
    (view,) = await PeerInfos(transport, lambda: [peer("b", state)], Distances()).get()
    assert (view.error is None, len(transport.asked)) == (is_asked, int(is_asked))


async def test_probes_measure_how_far_a_peer_is() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await until(lambda: all(node.peers()[0]["rtt_ms"] is not None for node in mesh.nodes.values()))


# distances


def test_the_first_measurement_stands_and_later_ones_move_it_by_an_eighth() -> None:
    distances = Distances()
    assert distances.rtt_ms("b") is None
    distances.measured("b", 0.008)
    assert distances.rtt_ms("b") == 8
    distances.measured("b", 0.016)  # 8 + (16 - 8) / 8
    assert distances.rtt_ms("b") == 9
    assert distances.rtt_ms("c") is None


@pytest.mark.parametrize("seconds", [-0.001, math.nan, math.inf])
def test_what_is_no_duration_is_left_out(seconds: float) -> None:
    distances = Distances()
    distances.measured("b", 0.5)
    distances.measured("b", seconds)
    assert distances.rtt_ms("b") == 500


def test_only_so_many_peers_are_remembered_and_those_of_late() -> None:
    distances = Distances(most=2)
    for peer in ("a", "b", "a", "c"):
        distances.measured(peer, 1)
    assert [distances.rtt_ms(peer) for peer in "abc"] == [1000, None, 1000]


@given(st.lists(st.floats(0, 100), min_size=1))
def test_the_average_lies_between_what_was_measured(found: list[float]) -> None:
    distances = Distances()
    for seconds in found:
        distances.measured("b", seconds)
    average = distances.rtt_ms("b")
    assert average is not None
    assert 1000 * min(found) - 0.01 <= average <= 1000 * max(found) + 0.01
