"""Tests of introductions: only an introducer is asked, only its own word counts, and any bytes are read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerUnreachable
from flnet.fingerprints import fingerprint
from flnet.node.trust import Introductions, Trust, introductions_of, vouched_in
from flnet.wire.transport import CONTROL_BYTES, Reply
from tests.security.keypairs import TestKey

OWN, A, B, C = (TestKey(seed).text for seed in (1, 2, 3, 4))
MARK = fingerprint(C)


class Introducer:
    """Answers for the peers."""

    def __init__(self, reply: Reply | None) -> None:
        self.reply, self.asked = reply, list[str]()

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
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
        wire = Introducer(reply)
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
