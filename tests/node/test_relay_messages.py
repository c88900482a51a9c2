"""Lines between a relay and the nodes that use it, whatever bytes come."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import InvalidMessage, PeerError, PeerUnreachable
from flnet.node.relay_messages import (
    MOST_BYTES,
    Alive,
    Challenge,
    Granted,
    IncomingConnection,
    Line,
    PortRequest,
    Refused,
    RelayKeys,
    Token,
    decoded,
    encoded,
    receive,
)
from tests.security.keypairs import MESH, TestKey

NONCE = "0123456789abcdef" * 2
names = st.text(st.characters(categories=["L", "N", "S"]), min_size=1, max_size=64)
ports = st.integers(1, 65535)
lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(Challenge, nonce=st.just(NONCE), mesh=names),
    st.builds(PortRequest, node=names, mesh=names, wish=st.none() | ports),
    st.builds(Granted, port=ports, data_port=ports),
    st.builds(Refused, reason=st.text(max_size=300)),
    st.builds(IncomingConnection, token=st.just(NONCE), caller=st.ip_addresses().map(str)),
    st.builds(Token, token=st.just(NONCE)),
    st.just(Alive()),
)


@given(lines)
def test_a_line_is_read_as_it_was_written(line: Line) -> None:
    raw = encoded(line)
    assert raw.endswith(b"\n") and raw.count(b"\n") == 1
    assert decoded(raw) == line


@given(
    st.binary(max_size=3 * MOST_BYTES)
    | st.text(max_size=100).map(str.encode)
    | lines.map(lambda line: encoded(line)[:-5])
)
def test_any_bytes_are_a_line_or_a_refusal(raw: bytes) -> None:
    with suppress(InvalidMessage):
        assert isinstance(decoded(raw), Line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_line_or_a_refusal(value: object) -> None:

    try:
        raw = orjson.dumps({"kind": "port_request", "node": value, "mesh": "m"})
    except TypeError:  # an integer of more than 64 bits
        return
    with suppress(InvalidMessage):
        assert isinstance(decoded(raw), PortRequest)


def test_the_longest_request_fits_into_a_line() -> None:
    keys = RelayKeys("m" * 64, TestKey(1), MESH)
    request = keys.request(Challenge(nonce=NONCE, mesh="m" * 64), "\U0001f600" * 64, 65535)
    assert len(encoded(request)) <= MOST_BYTES
    assert keys.check(Challenge(nonce=NONCE, mesh="m" * 64), request) == TestKey(1).text


@pytest.mark.parametrize(
    "changed",
    [
        {"node": "c"},
        {"key": TestKey(2).text},
        {"signature": None},
        {"signature": "A" * 86 + "=="},
        {"proof": None},
        {"mesh": "n"},
    ],
)
def test_a_request_counts_for_its_node_key_and_mesh_only(changed: dict[str, str | None]) -> None:
    keys, challenge = RelayKeys("m", TestKey(1), MESH), Challenge(nonce=NONCE, mesh="m")
    request = keys.request(challenge, "b")
    assert keys.check(challenge, request) == TestKey(1).text
    with pytest.raises(PeerError):
        keys.check(challenge, request.model_copy(update=changed))
    with pytest.raises(PeerError):
        keys.check(Challenge(nonce="f" * 32, mesh="m"), request)


async def test_another_line_than_the_expected_one_is_refused_and_an_end_is_told() -> None:
    reader = asyncio.StreamReader(limit=4096)
    reader.feed_data(encoded(Alive()) + encoded(Alive()) + b'{"kind":"ali')
    reader.feed_eof()
    assert await receive(reader, Alive) == Alive()
    with pytest.raises(InvalidMessage, match="expected Token, Granted, not Alive"):
        await receive(reader, Token, Granted)
    with pytest.raises(PeerUnreachable, match="was closed"):
        await receive(reader, Alive)


async def test_a_line_without_end_is_refused() -> None:
    reader = asyncio.StreamReader(limit=4096)
    reader.feed_data(b"x" * 10_000)
    with pytest.raises(InvalidMessage, match="at most"):
        await receive(reader, Alive)
