from __future__ import annotations

import pytest
from quart import Quart

from flnet.web.caller import (
    FORWARDED,
    asked_host,
    caller_ip,
    is_address,
    is_browser,
    is_from_this_machine,
    is_loopback,
)


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("10.0.0.1", False), ("<x>", False)]
)
def test_this_machine_is_known_by_its_loopback_addresses(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.1", True), ("fe80::1", True), ("0.0.0.0", True), ("127.1", False), ("", False)]
)
def test_an_address_is_no_name(host: str, address: bool) -> None:
    assert is_address(host) is address


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:4000", "localhost"),
        ("LOCALHOST.", "localhost"),
        ("[::1]:4000", "::1"),
        ("Node_A.example:1", "node_a.example"),
        ("evil.example\t", ""),
        ("a b", ""),
        ("user@localhost", ""),
        ("localhost/", ""),
        ("localhost:4000:1", ""),
        ("", ""),
    ],
)
async def test_the_host_is_read_without_port_and_brackets(header: str, host: str) -> None:
    async with Quart(__name__).test_request_context("/", headers={"Host": header}):
        assert asked_host() == host


async def test_a_header_does_not_change_the_address() -> None:
    scope = {"client": ("::ffff:10.0.0.7", 5)}
    headers = {"X-Forwarded-For": "127.0.0.1"}
    async with Quart(__name__).test_request_context("/", headers=headers, scope_base=scope):
        assert caller_ip() == "10.0.0.7"
        assert not is_from_this_machine()


@pytest.mark.parametrize(
    ("caller", "host", "is_here"),
    [
        ("127.0.0.1", "localhost:4000", True),
        ("::1", "[::1]:4000", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "192.168.1.5:4000", False),
        ("127.0.0.1", "0.0.0.0:4000", False),
        ("192.168.1.9", "localhost:4000", False),
        ("192.168.1.9", "127.0.0.1:4000", False),
    ],
)
async def test_both_address_and_name_have_to_be_of_this_machine(caller: str, host: str, is_here: bool) -> None:
    scope = {"client": (caller, 5)}
    async with Quart(__name__).test_request_context("/", headers={"Host": host}, scope_base=scope):
        assert is_from_this_machine() is is_here


@pytest.mark.parametrize("name", FORWARDED)
async def test_what_a_proxy_sends_on_is_not_of_this_machine(name: str) -> None:
    scope = {"client": ("127.0.0.1", 5)}
    headers = {"Host": "localhost:4000", name.upper(): "x"}
    async with Quart(__name__).test_request_context("/", headers=headers, scope_base=scope):
        assert not is_from_this_machine()


@pytest.mark.parametrize(("name", "browser"), [("Origin", True), ("Cookie", True), ("Accept", False)])
async def test_a_browser_is_known_by_what_it_sends(name: str, browser: bool) -> None:
    async with Quart(__name__).test_request_context("/", headers={name: "x"}):
        assert is_browser() is browser
