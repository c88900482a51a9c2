"""Which addresses a node calls when others name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.networks import NEVER, OWN_MACHINE, PRIVATE, Networks, address_of, networks_of

LAN = Networks([*PRIVATE, *OWN_MACHINE], named=["203.0.113.5", "peer.example"], own=["10.0.0.7"], port=4000)
HOME = Networks(OWN_MACHINE, own=["127.0.0.1"], port=4000)


def test_a_relay_of_an_open_mesh_serves_its_networks() -> None:
    inside = Networks(["10.1.0.0/16"], named=["203.0.113.5"], callers=["192.168.0.0/16"])
    for caller in ("10.1.2.3", "::ffff:10.1.2.3", "203.0.113.5", "192.168.1.1", "127.0.0.1", "::1"):
        assert inside.admits(caller)
    for caller in ("10.2.0.1", "8.8.8.8", "2001:db8::1", "a-name", ""):
        assert not inside.admits(caller)


@pytest.mark.parametrize("host", ["10.0.0.8", "192.168.3.4", "172.31.0.1", "100.64.0.9", "fd00::8"])
def test_a_peer_in_the_network_is_called(host: str) -> None:
    assert LAN.refusal(host, 4000, told_by="10.0.0.9") is None


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("8.8.8.8", 4000, "outside"),
        ("2001:db8::1", 4000, "outside"),
        ("169.254.169.254", 4000, "no node"),
        ("::ffff:169.254.169.254", 4000, "in disguise"),
        ("fe80::1", 4000, "no node"),
        ("0.0.0.0", 4000, "no node"),
        ("::", 4000, "no node"),
        ("224.0.0.1", 4000, "no node"),
        ("ff02::1", 4000, "no node"),
        ("255.255.255.255", 4000, "no node"),
        ("127.0.0.1", 6379, "own machine"),
        ("::1", 6379, "own machine"),
        ("10.0.0.8", 22, "ports below 1024"),
        ("203.0.113.5", 22, "ports below 1024"),
        ("name-of-a-host", 80, "ports below 1024"),
        ("10.0.0.7", 4000, "this node itself"),
    ],
)
def test_no_request_goes_there_and_the_reason_is_said(host: str, port: int, why: str) -> None:
    assert why in (LAN.refusal(host, port, told_by="10.0.0.9") or "")


def test_who_is_on_this_machine_may_name_this_machine() -> None:
    assert LAN.refusal("127.0.0.1", 4001, told_by="127.0.0.1") is None
    assert HOME.refusal("127.0.0.1", 4001, told_by="127.0.0.1") is None
    assert "itself" in (HOME.refusal("127.0.0.1", 4000, told_by="127.0.0.1") or "")
    assert "outside" in (HOME.refusal("10.0.0.8", 4001, told_by="127.0.0.1") or "")


def test_another_port_of_this_machine_is_no_call_to_itself() -> None:
    assert LAN.refusal("10.0.0.7", 4001, told_by="10.0.0.9") is None


def test_whom_a_person_named_is_called_wherever_it_is() -> None:
    assert LAN.refusal("203.0.113.5", 4000, told_by="10.0.0.9") is None
    assert LAN.refusal_of_name("peer.example", "203.0.113.77", 80) is None
    assert LAN.refusal_of_name("peer.example", "169.254.169.254", 80) == "no node can be there"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.0.0.8", None),
        ("8.8.8.8", "outside"),
        ("127.0.0.1", "this machine"),
        ("169.254.169.254", "no node"),
        ("fe80::1%eth0", "no node"),
        ("10.0.0.7", "itself"),
    ],
)
def test_a_host_name_is_judged_by_its_address(address: str, why: str | None) -> None:
    assert LAN.refusal("some-host", 4000, told_by="10.0.0.9") is None
    result = LAN.refusal_of_name("some-host", address, 4000)
    assert result is None if why is None else why in (result or "")


@pytest.mark.parametrize("address", ["::ffff:169.254.169.254", "::ffff:0.0.0.0", "::ffff:224.0.0.1"])
def test_ipv4_within_ipv6_is_judged_as_ipv4(address: str) -> None:
    assert Networks(["::/0"]).refusal_of_name("some-host", address, 4000) == "no node can be there"


def test_a_node_below_port_1024_has_peers_there() -> None:
    assert Networks(PRIVATE, port=443).refusal("10.0.0.8", 443, "10.0.0.9") is None
    assert Networks(PRIVATE, ports=[443]).refusal("10.0.0.8", 443, "10.0.0.9") is None
    assert Networks(PRIVATE, port=443).refusal("10.0.0.8", 22, "10.0.0.9") is not None


@given(st.ip_addresses(), st.integers(1, 65535))
def test_no_address_of_the_forbidden_kinds_is_ever_called(address: object, port: int) -> None:
    everything = Networks(["0.0.0.0/0", "::/0"])
    forbidden = any(address_of(str(address)) in network for network in NEVER)
    assert not forbidden or everything.refusal(str(address), max(port, 1024), "10.0.0.9") is not None


def test_what_is_no_network_is_refused() -> None:
    assert [str(network) for network in networks_of(["10.1.2.3", "fd00::/8"])] == ["10.1.2.3/32", "fd00::/8"]
    with pytest.raises(ValueError, match="host bits"):
        networks_of(["10.0.0.1/8"])


def test_a_private_network_beyond_the_own_ones_is_called_only_where_the_call_came_from() -> None:
    site = Networks(["10.1.0.0/16"], callers=PRIVATE)
    assert site.refusal("10.1.0.8", 4000, "10.9.9.9") is None
    assert site.refusal("10.2.0.8", 4000, "10.2.0.8") is None  # it called from there
    assert site.refusal("10.2.0.8", 4000) is None  # and is called there later
    for teller in ("10.1.0.8", "10.2.0.9", "node-b"):
        assert site.refusal("10.2.0.8", 4000, teller) == "it lies outside of FLNET_ALLOWED_NETWORKS"
    assert site.refusal_of_name("node-b", "10.2.0.8", 4000) == "it lies outside of FLNET_ALLOWED_NETWORKS"
    assert site.refusal("192.0.2.1", 4000, "192.0.2.1") == "it lies outside of FLNET_ALLOWED_NETWORKS"


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "::ffff:10.0.0.8", "10.0.0.8."])
def test_an_address_in_disguise_is_not_called_wherever_it_leads(host: str) -> None:
    everywhere = Networks(["0.0.0.0/0", "::/0"], named=[host])
    assert everywhere.refusal(host, 4000, "10.0.0.9") == "it is an address in disguise"
