"""Tests of introductions: only an introducer is asked, only its own word counts, and any bytes are read."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerUnreachable
from flnet.fingerprints import fingerprint, short
from flnet.node import announcements as module
from flnet.node.announcements import Distances, Introductions, PeerInfos, introductions_of, vouched_in
from flnet.node.interface import PeerInfo, View
from flnet.node.trust import Trust
from flnet.wire.transport import Reply
from tests.node.mesh import mesh_of, until
from tests.security.keypairs import TestKey

OWN, A, B, C = (TestKey(seed).text for seed in (1, 2, 3, 4))
MARK = fingerprint(C)


class BodyFormats:
    """Answers for the peers."""

    def __init__(self, reply: Reply | None) -> None:
        self.reply, self.asked = reply, list[str]()

    async def fetch(self, address: str, path: str) -> Reply:
        self.asked.append(address + path)
        if self.reply is None:
            raise PeerUnreachable("no connection")
        return self.reply


def said(*marks: str, signer: str = A, status: int = 200) -> Reply:
    rows = [{"fingerprint": mark, "name": "n3"} for mark in marks]
    return Reply(status, json.dumps({"introductions": rows}).encode(), signer=signer)


PEERS: list[dict[str, Any]] = [
    {"key": A, "address": "10.0.0.1:1", "state": "alive"},
    {"key": B, "address": "10.0.0.2:1", "state": "alive"},
]


async def after(*replies: Reply | None) -> tuple[Trust, list[str]]:
    trust = Trust(OWN)
    await trust.accept(A, introducer=True)
    await trust.accept(B)
    asked: list[str] = []
    for reply in replies:
        wire = BodyFormats(reply)
        await Introductions(trust, wire, lambda: PEERS).ask()  # type: ignore[arg-type]
        asked += wire.asked
    return trust, asked


async def test_those_whom_an_introducer_names_are_accepted_until_it_names_them_no_more() -> None:
    trust, asked = await after(said(MARK))
    assert asked == ["10.0.0.1:1/introductions"]
    assert trust.trusts(C)
    trust, _ = await after(said(MARK), None, said(status=503), said(signer=B))
    assert trust.trusts(C)  # what it said last holds while it says nothing, and whatever others say
    trust, _ = await after(said(MARK), said())
    assert not trust.trusts(C)


async def test_what_another_key_signed_counts_for_nothing() -> None:
    trust, _ = await after(said(MARK, signer=B))
    assert not trust.trusts(C)


async def test_an_introducer_names_those_whom_people_accepted() -> None:
    trust, _ = await after(said(MARK))
    told = introductions_of(trust)["introductions"]
    assert {one["fingerprint"] for one in told} == {fingerprint(A), fingerprint(B)}  # not those whom A brought
    assert vouched_in(Reply(200, json.dumps({"introductions": told}).encode())) == [
        (one["fingerprint"], "") for one in told
    ]


ANY = st.recursive(st.none() | st.text() | st.integers(), lambda of: st.lists(of) | st.dictionaries(st.text(), of))


@given(st.binary() | ANY.map(lambda v: json.dumps({"introductions": v}).encode()))
def test_any_bytes_are_introductions_or_none(body: bytes) -> None:
    found = vouched_in(Reply(200, body))
    assert found is None or found == []


def test_one_bad_row_makes_all_of_it_worth_nothing() -> None:
    rows = [{"fingerprint": MARK, "name": "n3"}, {"fingerprint": MARK, "name": "\x1b[2J"}]
    assert vouched_in(Reply(200, json.dumps({"introductions": rows}).encode())) is None
    assert vouched_in(Reply(200, b"[" * 100_000)) is None


# Asking the peers: all at once, for a moment, and not more often than once a second.


class Answers:
    """A transport on which peers answer as a test says."""

    def __init__(self, answer: Callable[[str], Reply | Exception | None]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def fetch(self, address: str, path: str) -> Reply:
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
