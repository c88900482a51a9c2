"""A relay and nodes behind it, over sockets of loopback: what is carried, who gets a port, what strangers can do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import StartError
from flnet.node import relay as relay_module
from flnet.node import relay_client
from flnet.node.relay import Places, Ports, Relay, Stream, holder_limits
from flnet.node.relay_client import RelayClient, caller_of
from flnet.node.relay_messages import (
    Challenge,
    Granted,
    IncomingConnection,
    PortRequest,
    RelayKeys,
    Token,
    encoded,
    receive,
)
from flnet.security.keys import own_key
from flnet.security.tls import Channel, server_context
from tests.ports import free_port
from tests.security.keypairs import MESH, OTHER_MESH, TestKey

HERE = "127.0.0.1"
PAUSES = (0.01, 0.02)
SECONDS = 60.0  # a deadline that turns a hang into a failure


class Node:
    """A node behind a relay, whose server answers each connection with a handler."""

    def __init__(self, client: RelayClient, handler: Callable[[Stream], Any]) -> None:
        self.client, self.handler = client, handler
        self.addresses: list[tuple[str, int]] = []
        self.callers: list[str] = []
        self.tasks = set[asyncio.Task[Any]]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.client.run(lambda host, port: self.addresses.append((host, port))))
            group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            sock, caller = await self.client.connections.get()
            self.callers.append(caller)
            task = asyncio.create_task(self._handle(await asyncio.open_connection(sock=sock)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _handle(self, stream: Stream) -> None:
        try:
            await self.handler(stream)
        finally:
            stream[1].close()


class World:
    """A relay, and what was started with it."""

    def __init__(self) -> None:
        self.ports = [free_port() for _ in range(6)]
        self.told: list[str] = []
        self.relay: Relay
        self._running: dict[Node, asyncio.Task[None]] = {}

    async def start(self, keys: RelayKeys | None = None, **more: Any) -> None:
        said: dict[str, Any] = {"publish": lambda kind, words: self.told.append(str(words))}
        said["tell_refused"] = lambda words, caller: self.told.append(str(words))
        self.relay = Relay(HERE, self.ports, keys or RelayKeys("m"), **said, **more)
        await self.relay.start()

    def holders(self) -> dict[str, int]:
        """The port of each node that holds one."""
        return {holder.node: holder.port for holder in self.relay._holders.values()}

    def client(self, name: str, keys: RelayKeys | None = None, channel: Channel | None = None) -> RelayClient:
        tls = (channel.known, channel.name) if channel is not None else (None, "")
        return RelayClient(f"{HERE}:{self.ports[0]}", name, keys or RelayKeys("m"), tls=tls, pauses=PAUSES)

    async def node(
        self,
        name: str,
        handler: Callable[[Stream], Any],
        keys: RelayKeys | None = None,
        *,
        waits: bool = True,
        channel: Channel | None = None,
    ) -> Node:
        node = Node(self.client(name, keys, channel), handler)
        self._running[node] = asyncio.create_task(node.run())
        if waits:
            await until(lambda: bool(node.addresses))
        return node

    async def stop(self, node: Node) -> None:
        await stopped(self._running.pop(node))

    async def close(self) -> None:
        for node in list(self._running):
            await self.stop(node)
        await self.relay.close()


async def stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.002)


async def echo(stream: Stream) -> None:
    """Send back what comes, and end when the other side has sent its last byte."""
    reader, writer = stream
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection(HERE, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def asked(port: int, body: bytes) -> bytes:
    """What is answered to a body and its end."""
    async with asyncio.timeout(SECONDS), connected(port) as (reader, writer):
        writer.write(body)
        writer.write_eof()
        return await reader.read()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that still comes; a connection that was broken off has ended, too."""
    async with asyncio.timeout(SECONDS):
        with suppress(ConnectionError):
            return await reader.read()
        return b""


# --- what is carried


async def test_peers_reach_a_node_through_its_port_and_half_closed_connections_are_carried(world: World) -> None:
    await world.start()
    node = await world.node("b", echo)
    (address,) = node.addresses
    assert address == (HERE, world.ports[2])
    bodies = [bytes([number]) * 300_000 for number in range(8)]
    assert await asyncio.gather(*(asked(address[1], body) for body in bodies)) == bodies
    assert node.callers == [HERE] * 8
    assert world.holders() == {"b": address[1]}


async def test_the_node_may_speak_first_and_end_first(world: World) -> None:
    async def greet(stream: Stream) -> None:
        stream[1].write(b"hello")
        stream[1].write_eof()
        assert await stream[0].read() == b"thanks"
        stream[1].close()

    await world.start()
    node = await world.node("b", greet)
    async with connected(node.addresses[0][1]) as (reader, writer):
        assert await reader.read() == b"hello"
        writer.write(b"thanks")
        writer.write_eof()
        await until(lambda: not node.tasks)


async def test_who_reads_slowly_makes_the_sender_wait_and_not_the_relay_remember(world: World) -> None:
    is_read = asyncio.Event()
    received = bytearray()

    async def late(stream: Stream) -> None:
        await is_read.wait()
        while data := await stream[0].read(65536):
            received.extend(data)

    await world.start()
    node = await world.node("b", late)
    loop, sent, whole = asyncio.get_running_loop(), 0, 64 * 1024 * 1024
    with socket.socket() as sender:
        sender.setblocking(False)
        await loop.sock_connect(sender, node.addresses[0])
        piece = b"x" * 262_144
        while sent < whole:  # until nobody takes more
            try:
                async with asyncio.timeout(0.3):
                    await loop.sock_sendall(sender, piece)
            except TimeoutError:
                break
            sent += len(piece)
        assert sent < whole
        is_read.set()
        sender.shutdown(socket.SHUT_WR)
        await until(lambda: len(received) >= sent)


async def test_one_side_that_is_gone_ends_the_other(world: World) -> None:
    async def wait(stream: Stream) -> None:
        assert await ended(stream[0]) == b"x"

    await world.start()
    node = await world.node("b", wait)
    async with connected(node.addresses[0][1]) as (_, writer):
        writer.write(b"x")
        await until(lambda: bool(node.tasks))
        writer.transport.abort()
        await until(lambda: not node.tasks)
    await until(lambda: not world.relay._places.count)


async def test_joined_connections_on_which_nothing_moves_are_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "IDLE_SECONDS", 0.2)

    async def wait(stream: Stream) -> None:
        await ended(stream[0])

    await world.start()
    node = await world.node("b", wait)
    async with connected(node.addresses[0][1]) as (reader, _):
        assert await ended(reader) == b""
    await until(lambda: not node.tasks)


async def test_a_peer_is_sent_away_when_the_node_brings_no_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "DIAL_SECONDS", 0.1)
    monkeypatch.setattr(relay_client, "MOST_DIALLING", 0)
    await world.start()
    node = await world.node("b", echo)
    async with connected(node.addresses[0][1]) as (reader, _):
        assert await ended(reader) == b""
    assert not world.relay._waiting


async def test_a_peer_that_ignores_the_end_of_the_node_gives_its_place_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "CLOSED_SECONDS", 0.2)

    async def greet(stream: Stream) -> None:
        stream[1].write(b"bye")
        await stream[1].drain()
        stream[1].close()

    await world.start()
    node = await world.node("b", greet)
    async with connected(node.addresses[0][1]) as (reader, _):
        assert await reader.readexactly(3) == b"bye"
        await until(lambda: not any(name == "joined" for name in world.relay._places.count))


async def test_a_data_connection_that_comes_as_its_node_leaves_is_closed(world: World) -> None:
    await world.start()
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(connected(world.ports[0]))
        granted = await granted_to(node, RelayKeys("m"), "b")
        readers = []
        for _ in range(8):
            await stack.enter_async_context(connected(granted.port))
            incoming = await receive(node[0], IncomingConnection)
            reader, writer = await stack.enter_async_context(connected(granted.data_port))
            readers.append(reader)
            writer.write(encoded(Token(token=incoming.token)))
        node[1].write(b"no line\n")  # ends the control connection at the same moment
        for reader in readers:
            assert await ended(reader) == b""
    await until(lambda: not world.relay._places.count)


async def test_strangers_at_the_relay_take_no_place_of_those_that_hold_a_port(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_GREETING", 2)
    await world.start()
    node = await world.node("b", echo)
    strangers = [
        socket.create_connection((HERE, world.ports[0]), source_address=(f"127.0.0.{last}", 0)) for last in (2, 3)
    ]
    try:
        await until(lambda: world.relay._places.count["greeting"] == 2)
        assert await asked(node.addresses[0][1], b"hello") == b"hello"
    finally:
        for stranger in strangers:
            stranger.close()


# --- who gets a port


async def test_a_port_is_given_back_also_if_two_ask_for_it_while_it_is(world: World) -> None:
    await world.start()
    node = await world.node("b", echo)
    async with AsyncExitStack() as stack:
        for _ in range(20):  # they take some turns of the event loop to end
            _, writer = await stack.enter_async_context(connected(node.addresses[0][1]))
            writer.write(b"x")
        await until(lambda: len(node.tasks) == 20)
        (holder,) = world.relay._holders.values()
        asking = [asyncio.create_task(world.relay._dismiss(holder))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking += [asyncio.create_task(world.relay._dismiss(holder)) for _ in range(3)]
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*asking)
    assert holder not in world.relay._holders.values()
    await until(lambda: bool(world.holders()))  # it asks for its port again
    assert world.holders() == {"b": holder.port}


async def test_a_node_gets_its_port_again_after_it_or_the_relay_was_gone(world: World) -> None:
    await world.start()
    first = await world.node("a", echo)
    node = await world.node("b", echo)
    assert [first.addresses, node.addresses] == [[(HERE, world.ports[2])], [(HERE, world.ports[3])]]
    await world.relay.close()
    await until(lambda: "trying again" in node.client.trouble)
    with pytest.raises(ConnectionRefusedError):
        await asked(world.ports[3], b"x")
    await world.start()
    await until(lambda: len(node.addresses) == len(first.addresses) == 2)
    assert node.client.trouble == "" and node.addresses[0] == node.addresses[1]
    assert await asked(world.ports[3], b"again") == b"again"


async def test_a_node_that_proves_its_key_takes_the_place_of_its_old_connection(world: World) -> None:
    await world.start(keyed(9))
    old = await world.node("b", echo, keyed(1))
    new = await world.node("b", echo, keyed(1))
    assert old.addresses[0] == new.addresses[0]
    assert set(world.holders()) == {"b"}


async def test_one_address_gets_half_of_the_ports(world: World) -> None:
    await world.start()
    for name in "ab":
        await world.node(name, echo)
    third = await world.node("c", echo, waits=False)
    await until(lambda: "no port of this relay is free" in third.client.trouble)
    assert set(world.holders()) == {"a", "b"}
    assert any("gets no port of this relay" in words for words in world.told)


async def test_a_port_that_another_program_has_is_passed_over(world: World) -> None:
    await world.start()
    with socket.create_server((HERE, world.ports[2])):
        node = await world.node("b", echo)
    assert node.addresses == [(HERE, world.ports[3])]


async def test_a_relay_whose_ports_are_taken_does_not_start(world: World) -> None:
    await world.start()
    with socket.create_server((HERE, free_port())) as taken:
        other = Relay(HERE, [free_port(), taken.getsockname()[1], free_port()], RelayKeys("m"))
        with pytest.raises(StartError, match=f"cannot listen on port {taken.getsockname()[1]}"):
            await other.start()


async def test_a_node_that_says_nothing_any_more_loses_its_port(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "SILENCE_SECONDS", 0.2)
    await world.start()
    async with connected(world.ports[0]) as stream:
        await granted_to(stream, RelayKeys("m"), "b")
        assert await ended(stream[0]) == b""
    await until(lambda: not world.holders())
    assert world.told[-1] == "b is not reached through this relay any more"


# --- strangers


def keyed(seed: int) -> RelayKeys:
    return RelayKeys("m", TestKey(seed), MESH)


async def granted_to(stream: Stream, keys: RelayKeys, name: str) -> Granted:
    challenge = await receive(stream[0], Challenge)
    stream[1].write(encoded(keys.request(challenge, name)))
    return await receive(stream[0], Granted)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (RelayKeys("m"), "this one is not"),
        (RelayKeys("other"), "the mesh m"),
        (RelayKeys("m", TestKey(1), OTHER_MESH), "not signed with the key of this mesh"),
        (RelayKeys("m", TestKey(1)), "not signed with the key of this mesh"),
    ],
)
async def test_strangers_of_a_keyed_mesh_get_no_port(world: World, keys: RelayKeys, words: str) -> None:
    await world.start(keyed(9))
    node = await world.node("b", echo, keys, waits=False)
    await until(lambda: words in node.client.trouble)
    assert not node.addresses and not world.holders()


async def test_in_a_pinned_mesh_a_node_has_a_port_as_long_as_its_key_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_client, "ALIVE_SECONDS", 0.02)
    monkeypatch.setattr(relay_module, "PACE_SECONDS", 0.0)
    trusted: set[str] = set()
    await world.start(RelayKeys("m", TestKey(9), None, trusted.__contains__))
    node = await world.node("b", echo, RelayKeys("m", TestKey(1), None, lambda _: True), waits=False)
    await until(lambda: "is not accepted here" in node.client.trouble)
    trusted.add(TestKey(1).text)
    await until(lambda: bool(node.addresses))
    trusted.clear()  # a person rejects the key: the port goes when the node says again that it is there
    await until(lambda: not world.holders() and "is not accepted here" in node.client.trouble)


async def test_in_a_pinned_mesh_a_request_goes_to_a_relay_whose_key_is_accepted_and_through_tls_only(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked_of = own_key(tmp_path).text, list[str]()

    def trusts(key: str) -> bool:
        asked_of.append(key)
        return True

    await world.start(RelayKeys("m", TestKey(9), None, trusts), tls=server_context(tmp_path, lambda: None))
    keys = RelayKeys("m", TestKey(1), None, lambda _: True)
    with monkeypatch.context() as patched:
        patched.setattr(relay_module, "GREETING_SECONDS", 0.1)
        plain = await world.node("b", echo, keys, waits=False)
        await until(lambda: "gives this node no port" in plain.client.trouble)
        await world.stop(plain)
    stranger = await world.node("b", echo, keys, waits=False, channel=Channel(key.__ne__))
    await until(lambda: "its key is not accepted here" in stranger.client.trouble)
    assert not asked_of and not world.holders()
    node = await world.node("b", echo, keys, channel=Channel(key.__eq__))
    assert set(asked_of) == {TestKey(1).text}
    assert await asked(node.addresses[0][1], b"through") == b"through"


async def test_a_recorded_request_is_of_no_use(world: World) -> None:
    await world.start(keyed(9))
    request = keyed(1).request(Challenge(nonce="0" * 32, mesh="m"), "b")
    async with connected(world.ports[0]) as (reader, writer):
        await receive(reader, Challenge)
        writer.write(encoded(request))
        assert b"the signature is not that of the key" in await ended(reader)


async def test_in_an_open_mesh_the_address_decides_also_about_peers(world: World) -> None:
    await world.start(admits=lambda ip: False)
    node = await world.node("b", echo, waits=False)
    await until(lambda: bool(node.client._failures))
    for port in world.ports[:2]:
        async with connected(port) as (reader, _):
            assert await ended(reader) == b""
    assert not world.holders()


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\xff\x00\n", b"[" * 3000 + b"\n", b"x" * 400_000]
)
async def test_junk_and_unknown_tokens_end_the_connection(world: World, junk: bytes) -> None:
    await world.start()
    for port, sent in [
        (world.ports[0], junk),
        (world.ports[1], junk),
        (world.ports[1], encoded(Token(token="0" * 32))),
    ]:
        async with connected(port) as (reader, writer):
            writer.write(sent)
            with suppress(ConnectionError):
                writer.write_eof()
            await ended(reader)
    await until(lambda: not world.relay._places.count)
    assert not world.holders()


async def test_who_says_nothing_has_little_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "GREETING_SECONDS", 0.1)
    await world.start()
    for port in world.ports[:2]:
        async with connected(port) as (reader, _):
            await ended(reader)


async def test_connections_that_have_proven_nothing_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_GREETING_EACH", 3)
    await world.start()
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connected(world.ports[0])) for _ in range(5)]
        first = [await ended_or_line(reader) for reader, _ in streams]
        assert sorted(map(bool, first)) == [False, False, True, True, True]


async def ended_or_line(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(SECONDS):
        with suppress(ConnectionError):
            return await reader.readline()
        return b""


async def test_a_token_is_good_for_one_connection(world: World) -> None:
    await world.start()
    async with connected(world.ports[0]) as control:
        granted = await granted_to(control, RelayKeys("m"), "b")
        async with connected(granted.port) as (_, peer):
            incoming = await receive(control[0], IncomingConnection)
            assert incoming.caller == HERE
            peer.write(b"secret")
            async with connected(granted.data_port) as data, connected(granted.data_port) as again:
                data[1].write(encoded(Token(token=incoming.token)))
                assert await data[0].readexactly(6) == b"secret"
                again[1].write(encoded(Token(token=incoming.token)))
                assert await ended(again[0]) == b""


async def test_a_node_can_send_nothing_but_that_it_is_there(world: World) -> None:
    await world.start()
    async with connected(world.ports[0]) as control:
        await granted_to(control, RelayKeys("m"), "b")
        control[1].write(encoded(PortRequest(node="c", mesh="m")))
        assert await ended(control[0]) == b""
    await until(lambda: not world.holders())


# --- a relay that lies


@pytest.mark.parametrize(
    "stated", ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1", "localhost", "224.0.0.1", "fe80::1"]
)
def test_a_relay_cannot_pass_callers_off_as_this_machine(stated: str) -> None:
    assert caller_of(stated, "10.0.0.9") == "10.0.0.9"
    assert caller_of("10.0.0.1", "10.0.0.9") == "10.0.0.1"
    assert caller_of("fd00::1", "10.0.0.9") == "fd00::1"


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n", b"", b"{}\n", b"\0" * 400_000])
async def test_what_is_no_relay_is_asked_again_with_pauses(world: World, answer: bytes) -> None:
    count = 0

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        writer.write(answer)
        writer.close()

    await world.start()
    server = await asyncio.start_server(other, HERE, port := free_port())
    client = RelayClient(f"{HERE}:{port}", "b", RelayKeys("m"), pauses=PAUSES)
    task = asyncio.create_task(client.run(lambda host, port: None))
    await until(lambda: count > 3)
    assert client.trouble.startswith(f"the relay {HERE}:{port} gives this node no port")
    await stopped(task)
    server.close()


# --- what decides, without sockets


def test_a_port_is_held_once_and_goes_back_to_its_last_holder() -> None:
    ports = Ports([1, 2, 3, 4])
    ports.take(ports.choices("a", "x")[0], "a", "x")
    ports.take(ports.choices("b", "y")[0], "b", "y")
    assert ports.choices("c", "z") == [3, 4]
    assert ports.choices("c", "z", wish=4) == [4, 3]
    assert ports.choices("c", "z", wish=1) == ports.choices("c", "z", wish=99) == [3, 4]
    ports.give_back(1)
    assert ports.choices("a", "other address") == [1, 3, 4]
    assert ports.choices("c", "z", wish=1) == [3, 4, 1]  # another one's last port comes last
    ports.give_back(2)
    assert ports.choices("c", "z") == [3, 4, 1, 2]


def test_an_address_that_holds_half_of_the_ports_gets_no_more() -> None:
    ports = Ports([1, 2, 3, 4])
    for name in "ab":
        ports.take(ports.choices(name, "x")[0], name, "x")
    assert ports.choices("c", "x") == []
    assert ports.choices("c", "y") == [3, 4]
    assert Ports([1]).choices("a", "x") == [1]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.none() | st.integers(0, 9)), max_size=40
    )
)
def test_whoever_comes_and_goes_no_port_has_two_holders(steps: list[tuple[str, str, int | None]]) -> None:
    ports, held = Ports(range(1, 7)), dict[str, tuple[int, str]]()
    last: dict[str, int] = {}
    for name, address, wish in steps:
        if name in held:
            ports.give_back(held.pop(name)[0])
            continue
        choices = ports.choices(name, address, wish)
        taken = {port for port, _ in held.values()}
        assert len(choices) == len(set(choices)) and not taken & set(choices) and set(choices) <= set(range(1, 7))
        is_full = sum(other == address for _, other in held.values()) >= 3
        assert bool(choices) != is_full or len(held) == 6
        if choices:
            is_first = last.get(name) in choices and all(last[n] != last[name] for n in last if n != name)
            assert not is_first or choices[0] == last[name]
            ports.take(choices[0], name, address)
            held[name], last[name] = (choices[0], address), choices[0]


def test_places_are_counted_under_each_name_or_under_none() -> None:
    places = Places()
    limits = holder_limits(1)
    taken = sum(places.take(limits("x")) for _ in range(1000))
    assert taken == relay_module.MOST_OF_PEER
    assert places.count["joined"] == places.count[1] == taken
    assert places.take(limits("y"))
    for _ in range(taken):
        places.give(limits("x"))
    assert dict(places.count) == {"joined": 1, 1: 1, (1, "y"): 1}
