"""Asking the peers: all at once, for a moment, and not more often than once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flnet.errors import PeerUnreachable
from flnet.fingerprints import short
from flnet.node import survey as module
from flnet.node.base import View
from flnet.node.distances import Distances
from flnet.node.survey import Survey
from flnet.transport import Reply
from tests.node.mesh import mesh_of, until
from tests.signing.keypairs import TestKey


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


async def asked(answer: Reply | Exception | None) -> View:
    transport: Any = Answers(lambda _: answer)
    (view,) = await Survey(transport, lambda: [peer("b")]).get()
    return view


async def test_what_another_node_signed_is_not_shown_as_the_peers() -> None:
    def answered(address: str) -> Reply:
        return Reply(200, b"{}", signer=TestKey(2 if address == "b:1" else 3).text)

    transport: Any = Answers(answered)
    peers = [{**peer(name), "fingerprint": short(TestKey(2).text)} for name in "bc"]
    found = await Survey(transport, lambda: peers).get()
    assert [view["error"] for view in found] == [None, "another node than c answers there"]


async def test_every_peer_is_asked_and_told_of_in_order_with_the_time_it_took() -> None:
    transport: Any = Answers(lambda address: Reply(200, b'{"said": "%s"}' % address.encode()))
    peers, distances = [peer("c"), peer("b"), peer("a", "dead", "no way")], Distances()
    found = await Survey(transport, lambda: peers, distances).get()
    assert [(view["id"], view["info"], view["error"]) for view in found] == [
        ("c", {"said": "c:1"}, None),
        ("b", {"said": "b:1"}, None),
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
    assert view["info"] is None
    assert words in view["error"]


async def test_a_silent_peer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.01)
    view = await asked(None)
    assert view["error"] == "no answer in 0.01 s"


async def test_who_asks_again_at_once_is_told_the_same_and_later_peers_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 3600.0)
    transport: Any = Answers(lambda _: Reply(200, b"{}"))
    survey = Survey(transport, lambda: [peer("b")])
    answers = await asyncio.gather(*(survey.get() for _ in range(5)))
    assert (len(transport.asked), all(answer is answers[0] for answer in answers)) == (1, True)
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    later = Survey(transport, lambda: [peer("b")])
    await later.get()
    await later.get()
    assert len(transport.asked) == 3


@pytest.mark.parametrize(("state", "is_asked"), [("suspect", True), ("dead", False), ("left", False)])
async def test_who_is_only_suspected_is_asked_too(state: str, is_asked: bool) -> None:
    transport: Any = Answers(lambda _: Reply(200, b"{}"))
    (view,) = await Survey(transport, lambda: [peer("b", state)]).get()
    assert (view["info"] is not None, len(transport.asked)) == (is_asked, int(is_asked))


async def test_probes_measure_how_far_a_peer_is() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await until(lambda: all(node.peers()[0]["rtt_ms"] is not None for node in mesh.nodes.values()))
