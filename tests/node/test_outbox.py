"""What travels with its parameters, what by digest only, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, cast

import pytest

from flnet.errors import PeerTimeout
from flnet.membership.members import Members
from flnet.membership.state import MeshState
from flnet.node import outbox
from flnet.node.formats import BodyFormats, BufferPool
from flnet.node.outbox import IN_FLIGHT, MOST_WAITING, PUSH_BYTES, Outbox, goes_along
from flnet.node.peer_infos import Distances
from flnet.node.round_history import Traffic
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import Send, SendProbe
from flnet.protocol.events import AnnounceReceived, Event, ProbeAnswered, ProbeFailed, SendFailed
from flnet.protocol.messages import SAFETENSORS, Accuracy, Message, ModelParams, Packet, Probe, StartTraining
from flnet.wire.transport import Reply, Transport
from tests.helpers import HYPER, params, peer
from tests.node.mesh import until

ROUND: dict[str, Any] = {"i_am": peer(), "trainer_id": "MNIST", "round": 0, "federated_learning_params": HYPER}
START, UPDATE, CLAIM = StartTraining(**ROUND), ModelParams(**ROUND), Accuracy(**ROUND, accuracy=0.5)
READS = frozenset({SAFETENSORS})


@pytest.mark.parametrize("message", [START, UPDATE, CLAIM])
def test_who_reads_the_thesis_json_only_gets_all_parameters(message: Message) -> None:
    assert goes_along(message, params(w=[0.0] * PUSH_BYTES), frozenset())
    assert goes_along(message, params(w=[0.0]), frozenset({"something newer"}))


@pytest.mark.parametrize(("message", "along"), [(START, False), (UPDATE, True), (CLAIM, False)])
def test_others_get_updates_and_the_digests_of_what_they_will_hold_already(message: Message, along: bool) -> None:
    assert goes_along(message, params(w=[0.0]), READS) is along


def test_a_large_update_is_fetched_when_there_is_room() -> None:
    largest = params("uint8", w=[0] * PUSH_BYTES)
    assert goes_along(UPDATE, largest, READS)
    assert not goes_along(UPDATE, params("uint8", w=[0] * (PUSH_BYTES + 1)), READS)


def test_a_message_without_parameters_goes_as_it_is() -> None:
    assert goes_along(UPDATE, None, READS)
    assert goes_along(UPDATE, Params(), READS)


class Wire:
    """Encodes nothing; counts the bodies that it was asked for."""

    def __init__(self) -> None:
        self.bodies = 0

    async def write(self, packet: Packet, accepts: Collection[str] = ()) -> tuple[bytes, str]:
        self.bodies += 1
        return b"{}", "application/json"


class Network:
    """Peers that answer at once, and silent ones, whose requests end in a timeout when `timeout` is set."""

    def __init__(self, silent: Iterable[str]) -> None:
        self.silent = set(silent)
        self.timeout = asyncio.Event()
        self.asked: list[str] = []
        self.reply = Reply(200, b"{}")

    async def send(self, address: str, *_: object) -> Reply:
        self.asked.append(address)
        if address in self.silent:
            await self.timeout.wait()
            raise PeerTimeout("no answer")
        return self.reply


class Sender:
    """An outbox of a node that knows some peers, by port; all of them but `unproven` have answered it before."""

    def __init__(self, ports: Iterable[int], silent: Iterable[int], unproven: Iterable[int] = ()) -> None:
        members = Members(MeshState(peer("me", 1), cast(Any, None)))
        for port in ports:
            members.receive(AnnounceReceived(peer(f"p{port}", port)))
            if port not in unproven:
                members.receive(ProbeAnswered(PeerId(f"p{port}")))
        self.wire, self.network = Wire(), Network(f"127.0.0.1:{port}" for port in silent)
        self.events: list[Event] = []
        self.outbox = Outbox(
            cast(Transport, self.network),
            cast(BodyFormats, self.wire),
            members,
            lambda _, event: self.events.append(event),
            BufferPool(),
            Traffic(),
            Distances(),
        )

    def send(self, *ports: int) -> asyncio.Task[None]:
        """Begin to send an update to these peers."""
        effect = Send(tuple(PeerId(f"p{port}") for port in ports), UPDATE)
        return asyncio.create_task(self.outbox.send(TrainerId("MNIST"), effect))

    async def arrives(self, port: int) -> None:
        """A message to this peer leaves."""
        await until(lambda: f"127.0.0.1:{port}" in self.network.asked)

    def failed(self) -> list[str]:
        """To whom a message could not be sent, and why not."""
        return [f"{event.peer}: {event.reason}" for event in self.events if isinstance(event, SendFailed)]


SILENT, ANSWERS = range(2000, 2000 + 4 * IN_FLIGHT), 4000
EVERYBODY = (*SILENT, ANSWERS)


async def test_a_peer_that_answers_waits_for_none_that_never_did() -> None:
    sender = Sender(EVERYBODY, SILENT, unproven=SILENT)
    sending = sender.send(*EVERYBODY)
    await sender.arrives(ANSWERS)
    assert len(sender.network.asked) == IN_FLIGHT + 1
    sender.network.timeout.set()
    await sending
    assert len(sender.failed()) == len(SILENT)


async def test_nor_for_those_that_do_not_answer_any_more() -> None:
    sender = Sender(EVERYBODY, SILENT)
    sender.network.timeout.set()
    await sender.send(*EVERYBODY)
    sender.network.timeout.clear()
    sender.network.asked.clear()
    sending = sender.send(*EVERYBODY)
    await sender.arrives(ANSWERS)
    assert len(sender.network.asked) == IN_FLIGHT + 1
    sender.network.timeout.set()
    await sending


async def test_small_messages_to_peers_that_just_vanished_keep_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """All have answered before, so nothing shows yet who is gone; the timeouts of requests never come."""
    monkeypatch.setattr(outbox, "SMALL_SECONDS", 0.01)
    sender = Sender(EVERYBODY, SILENT)
    sending = sender.send(*EVERYBODY)
    await sender.arrives(ANSWERS)
    assert not sender.failed()
    sender.network.timeout.set()
    await sending


async def test_who_answers_again_waits_for_nobody_again() -> None:
    sender = Sender(EVERYBODY, EVERYBODY)
    sender.network.timeout.set()
    await sender.send(*EVERYBODY)
    sender.network.silent.discard(f"127.0.0.1:{ANSWERS}")
    await sender.send(ANSWERS)
    sender.network.timeout.clear()
    sender.network.asked.clear()
    sending = sender.send(*EVERYBODY)
    await sender.arrives(ANSWERS)
    sender.network.timeout.set()
    await sending


async def test_messages_that_wait_for_silent_peers_are_bounded_and_the_further_ones_fail() -> None:
    sender = Sender(EVERYBODY, SILENT, unproven=SILENT)
    rounds = 2 * MOST_WAITING // len(SILENT)
    sending = [sender.send(*EVERYBODY) for _ in range(rounds)]
    await until(lambda: len(sender.failed()) >= rounds * len(SILENT) - MOST_WAITING - IN_FLIGHT)
    await until(lambda: sender.network.asked.count(f"127.0.0.1:{ANSWERS}") == rounds)
    assert "too many messages wait for peers that do not answer" in sender.failed()[0]
    sender.network.timeout.set()
    await asyncio.gather(*sending)
    assert len(sender.failed()) == rounds * len(SILENT)


async def test_a_message_is_encoded_once_when_the_first_receiver_gets_its_turn() -> None:
    sender = Sender(EVERYBODY, SILENT, unproven=SILENT)
    sending = [sender.send(*SILENT) for _ in range(5)]
    await until(lambda: len(sender.network.asked) == IN_FLIGHT)
    assert sender.wire.bodies == 1  # those that wait hold none
    sender.network.timeout.set()
    await asyncio.gather(*sending)
    assert sender.wire.bodies == 5


@pytest.mark.parametrize(
    ("reply", "is_alive"),
    [
        (Reply(404, b"<h1>Not Found</h1>"), True),
        (Reply(429, b"{}"), True),
        (Reply(200, b"<h1>It works!</h1>"), False),
        (Reply(200, b"{}"), False),
        (Reply(204, b""), False),
    ],
)
async def test_who_answers_a_probe_like_another_program_is_not_there(reply: Reply, is_alive: bool) -> None:
    sender = Sender([ANSWERS], [])
    sender.network.reply = reply
    await sender.outbox.probe(SendProbe(PeerId(f"p{ANSWERS}"), Probe(i_am=peer("me", 1)), 30.0))
    (event,) = sender.events
    assert isinstance(event, ProbeAnswered if is_alive else ProbeFailed)
