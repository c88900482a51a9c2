"""Somebody who may not read any more goes on with a stream of events that began when it still could."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.fingerprints import fingerprint
from flnet.security.signing import RequestSigner
from tests.processes.harness import PinnedHarness, RealNode
from tests.security.keypairs import TestKey
from tests.threats.test_03_unaccepted_keys import NOTHING

pytestmark = pytest.mark.slow
MEMBER = TestKey(77)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[PinnedHarness]:
    """A node of a pinned mesh that accepts one member."""
    harness = PinnedHarness(tmp_path)
    try:
        harness.up(harness.start(TRUSTED_PEERS=fingerprint(MEMBER.text)))
        yield harness
    finally:
        harness.stop()


def reading(node: RealNode, headers: dict[str, str]) -> httpx.Client:
    """A client of its own, with these headers."""
    return httpx.Client(
        base_url=str(node.http.base_url), verify=False, trust_env=False, timeout=60, headers=headers
    )


def as_member(node: RealNode) -> dict[str, str]:
    """The headers of GET /events by the member, which asks first for whom to sign."""
    signer, address = RequestSigner(MEMBER, None, "0123456789abcdef"), f"127.0.0.1:{node.port}"
    first = signer.request(address, "GET", "/events", "", NOTHING)
    challenge = node.http.get("/events", headers=dict(first.headers))
    signer.learn(address, first, challenge.status_code, challenge.headers.get)
    return dict(signer.request(address, "GET", "/events", "", NOTHING).headers)


def rest(stream: httpx.Response) -> str:
    """What comes until the node ends the stream."""
    return "".join(stream.iter_text())


def test_a_member_that_is_forgotten_hears_no_more(made: PinnedHarness) -> None:
    (node,) = made.nodes
    with reading(node, as_member(node)) as client, client.stream("GET", "/events") as stream:
        assert stream.status_code == 200
        forgotten = node.http.post("/trust/forget", json={"fingerprint": fingerprint(MEMBER.text)})
        assert forgotten.status_code == 200, forgotten.text
        assert "trust_forgotten" not in rest(stream)


def test_an_old_token_hears_no_more(made: PinnedHarness) -> None:
    (node,) = made.nodes
    folder = made.state(node)
    token = (folder / "operator-token").read_text().strip()
    away = {"Host": "192.0.2.1", "Authorization": f"Bearer {token}"}  # not for its own machine
    with reading(node, away) as client, client.stream("GET", "/events") as stream:
        assert stream.status_code == 200
        renewed = CliRunner().invoke(cli, ["token", "--new"], env={"FLNET_STATE_PATH": str(folder)})
        assert renewed.exit_code == 0, renewed.output
        rest(stream)  # which ends
        assert client.get("/events").status_code == 401
