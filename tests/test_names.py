"""What may stand as a name and as a host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.names import check_called_host, check_host, check_name, hostport


@pytest.mark.parametrize("name", ["a", "NODE_1", "Klinik Süd, 3. Stock", "病院", "x" * 64, "<script>"])
def test_printable_text_is_a_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, " a", "a ", "a\n", "a\x00b", "a\u202eb", "\u200b", "\ud800", "\t"])
def test_other_text_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="must"):
        check_name(name)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "2001:db8::7", "localhost", "node-1", "flnet_node_1", "a.b-c.example.org.", "x" * 63],
)
def test_addresses_and_host_names_are_hosts(host: str) -> None:
    assert check_host(host) == host


@pytest.mark.parametrize(
    "host",
    ["", ".", "a b", "a/b", "a@b", "a:80", "a?x", "a#x", "-a", "a-", "a..b", "x" * 64, "a." * 127 + "b", "[::1]",
     "127.0.0.1\r\nX: y", "a\n", "fe80::1%eth0/x@y", "höst", "病院", "\x00", "a\\b", "%61"],
)  # fmt: skip
def test_what_would_change_the_url_is_no_host(host: str) -> None:
    with pytest.raises(ValueError, match="must be an IP address or a host name"):
        check_host(host)


@given(st.text())
def test_any_text_is_taken_unchanged_or_refused(text: str) -> None:
    for check in (check_name, check_host):
        try:
            taken = check(text)
        except ValueError:
            continue
        assert taken == text


@pytest.mark.parametrize(
    ("host", "text"), [("10.0.0.1", "10.0.0.1:4000"), ("::1", "[::1]:4000"), ("a.b", "a.b:4000")]
)
def test_an_ipv6_address_stands_in_brackets_before_its_port(host: str, text: str) -> None:
    assert hostport(host, 4000) == text


@pytest.mark.parametrize(
    "host",
    [
        *("0", "127.1", "10.1.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1", "127.0.0.01"),
        *("017700000001", "127.0.0.1.", "1.2.3.4.5", "a.b.0x", "example.0x1", "::ffff:127.0.0.1", "::ffff:7f00:1"),
    ],
)
def test_an_address_in_disguise_is_no_host(host: str) -> None:
    with pytest.raises(ValueError, match="as an IPv4 or IPv6 address is usually written"):
        check_called_host(host)


@pytest.mark.parametrize("host", ["fe80::1%eth0", "::1%lo", "127.0.0.1%0", "\uff11\uff12\uff17.0.0.1"])
def test_a_zone_or_another_script_is_no_host(host: str) -> None:
    with pytest.raises(ValueError, match="must be an IP address or a host name"):
        check_host(host)


def test_a_host_name_may_begin_with_a_number() -> None:
    assert [check_called_host(host) for host in ("3com.example", "1.example.org", "0x1.example", "node.7b")]
