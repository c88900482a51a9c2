"""What nodes on a local network tell of each other, and what is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import SettingsError
from flnet.node.lan_discovery import MESH, MOST_ADDRESSES, addresses_in, is_of, own_addresses
from flnet.settings import load_settings
from tests.node.mesh import Linear, mesh_of


class MemoryLan:
    """A discovery that is told where others are, and tells each address twice."""

    def __init__(self, *addresses: str) -> None:
        self.addresses, self.is_over = addresses, False

    async def run(self, found: Callable[[str], None]) -> None:
        for address in (*self.addresses, *self.addresses):
            found(address)
        try:
            await asyncio.Event().wait()
        finally:
            self.is_over = True


async def test_a_node_announces_itself_where_others_were_found() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        lan = MemoryLan(mesh.nodes["a"].me.address, "127.0.0.1:1")
        node = await mesh.add("z", Linear(3.0), discovery=lan)
        await mesh.full()
        assert {*node.core.members.known} == {"a", "b"}
    assert lan.is_over


async def test_where_nobody_can_be_looked_for_a_node_says_so_and_goes_on() -> None:
    class NoLan(MemoryLan):
        async def run(self, found: Callable[[str], None]) -> None:
            raise OSError(19, "No such device")

    async with mesh_of(1.0) as mesh:
        node = await mesh.add("z", Linear(3.0), ("a",), discovery=NoLan())
        await mesh.full()
        (told,) = [item.text for item in node.feed.recent() if item.kind == "discovery_failed"]
        assert told == "other nodes cannot be looked for on the local network: No such device"


def test_only_the_text_record_of_the_same_mesh_counts() -> None:
    assert is_of({MESH: b"lab", b"x": None}, b"lab")
    for other in ({}, {MESH: None}, {MESH: b"Lab"}, {b"name": b"lab"}):
        assert not is_of(other, b"lab")


def test_addresses_of_an_instance_are_read_bounded_and_those_of_ipv4_come_first() -> None:
    stated = ["fd00::1", "10.0.0.2", "10.0.0.2", "224.0.0.251", "0.0.0.0", "nonsense", "fe80::1%eth0"]
    assert addresses_in(stated, 4000) == ["10.0.0.2:4000", "[fd00::1]:4000"]
    assert addresses_in([f"10.0.0.{number}" for number in range(9)], 1) == [
        f"10.0.0.{number}:1" for number in range(MOST_ADDRESSES)
    ]
    assert addresses_in(["10.0.0.2"], None) == addresses_in(["10.0.0.2"], 0) == []


@given(st.lists(st.text(max_size=50), max_size=8), st.integers(0, 65535))
def test_whatever_an_instance_states_is_no_error(stated: list[str], port: int) -> None:
    assert len(addresses_in(stated, port)) <= MOST_ADDRESSES


def test_this_machine_is_not_found_by_its_loopback() -> None:
    assert not {"127.0.0.1", "::1"} & {*own_addresses()}


def test_a_node_that_listens_on_this_machine_only_cannot_be_found() -> None:
    with pytest.raises(SettingsError, match=r"discovery=lan .*LISTEN_ADDRESS=0\.0\.0\.0"):
        load_settings({"discovery": "lan"}, {})
    assert load_settings({"discovery": "lan", "listen_address": "0.0.0.0"}, {}).discovery == "lan"
