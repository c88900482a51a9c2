"""Threat 3: one machine makes thousands of keys that nobody accepted, so that a pinned node forgets what it has seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from flnet.fingerprints import fingerprint
from flnet.security.signing import MOST_SENDERS, RequestSigner
from flnet.security.trust_book import MOST_TOLD_EACH, MOST_WAITING
from flnet.web.auth.signed_requests import MAX_REPORTED_EACH
from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import PinnedHarness, RealNode
from tests.security.keypairs import TestKey

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MEMBER, STRANGER = TestKey(77), TestKey(78)
NOTHING = sha256(b"").digest()
STARTS = MOST_SENDERS + 104  # of one stranger that claims to start again and again


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    """A node of a pinned mesh that accepts one member."""
    made = PinnedHarness(tmp_path)
    made.go()
    try:
        made.start(TRUSTED_PEERS=fingerprint(MEMBER.text))
        made.ready()
        yield made.nodes[0]
        assert "Traceback" not in (tmp_path / "n0.log").read_text()
    finally:
        made.stop()


def asked(node: RealNode, line: httpx.Client, signer: RequestSigner) -> dict[str, str]:
    """The headers of GET /info by this signer, which is told first for whom to sign."""
    address = f"127.0.0.1:{node.port}"
    first = signer.request(address, "GET", "/info", "", NOTHING)
    if first.receiver is None:
        challenge = line.get("/info", headers=dict(first.headers))
        assert signer.learn(address, first, challenge.status_code, challenge.headers.get)
        first = signer.request(address, "GET", "/info", "", NOTHING)
    return dict(first.headers)


def starting(node: RealNode, line: httpx.Client, key: TestKey, runs: int) -> Iterator[RequestSigner]:
    """Signers of one key, each of another run; they know who is there, as a stranger may learn once."""
    address = f"127.0.0.1:{node.port}"
    first = RequestSigner(key, None, f"{0:016x}")
    asked(node, line, first)
    for run in range(1, runs + 1):
        signer = RequestSigner(key, None, f"{run:016x}")
        signer._receivers.update({address: first._receivers[address]})
        yield signer


def test_a_key_that_is_not_accepted_ends_no_session_of_members(node: RealNode) -> None:
    with httpx.Client(base_url=str(node.http.base_url), verify=False, trust_env=False, timeout=60) as line:
        member = RequestSigner(MEMBER, None, "0123456789abcdef")
        recorded, second = asked(node, line, member), asked(node, line, member)
        assert line.get("/info", headers=recorded).status_code == 200
        statuses = {
            line.get("/info", headers=asked(node, line, signer)).status_code
            for signer in starting(node, line, STRANGER, STARTS)
        }
        assert statuses == {403}
        assert line.get("/info", headers=recorded).json()["error"] == "signature_refused"  # and replays stay known
        assert line.get("/info", headers=second).status_code == 200  # signed before, for the session that goes on


def test_knocks_of_one_machine_are_bounded_whatever_addresses_they_state(node: RealNode) -> None:
    address = f"127.0.0.1:{node.port}"
    with httpx.Client(base_url=str(node.http.base_url), verify=False, trust_env=False, timeout=60) as line:
        statuses = []
        for number in range(100, 200):
            key = TestKey(number)
            signer = RequestSigner(key, None, "0123456789abcdef")
            asked(node, line, signer)
            peer = {"id": f"x{number}", "ip": f"127.0.{number}.1", "port": 6666}
            body = json.dumps({"iAm": peer, "myKnownPeers": [], "key": key.text, "knock": True}).encode()
            kind = {"Content-Type": "application/json", **MESH_HEADERS}
            sealed = signer.request(address, "POST", "/announce", "", sha256(body).digest(), kind["Content-Type"])
            answer = line.post("/announce", content=body, headers={**sealed.headers, **kind})
            statuses.append(answer.status_code)
        assert set(statuses) <= {403, 429} and statuses.count(429) > 0
        for number in range(100, 200):
            signer = RequestSigner(TestKey(number), None, "fedcba9876543210")
            assert line.get("/info", headers=asked(node, line, signer)).status_code == 403
    assert len(node.get("/trust")["pending"]) <= MOST_WAITING
    assert len(node.told("trust_pending")) <= MOST_TOLD_EACH
    assert len(node.told("refused_here")) <= MAX_REPORTED_EACH
