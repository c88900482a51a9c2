"""Each rule is felt by real packets between two namespaces, and nobody else is reached."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.hosts.hosts import Network, network
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule

pytestmark = pytest.mark.skipif(bool(unable()), reason=unable())
PORT = 5000
SILENCE_SECONDS = 0.2  # in which what the switch has handed out arrives
COUNT = 200


@pytest.fixture(scope="module")
def made() -> Iterator[Network]:
    with network(3, seed=7) as hosts:
        yield hosts


@pytest.fixture
def net(made: Network) -> Network:
    """Three hosts on a reliable network."""
    made.rules.heal()
    made.rules.set_all(Rule())
    return made


@dataclass(frozen=True)
class Heard:
    """What of numbered datagrams arrived.

    Attributes:
        seconds: from the sending to the arrival of each.
    """

    numbers: list[int]
    seconds: list[float]


def cast(net: Network, source: int, target: int, count: int = COUNT) -> Heard:
    """Send datagrams from one host to another, and listen until nothing more comes.

    The switch may take its time for them, and they for the way from there; what is silence begins after that.
    """
    here, there, handled = net.hosts[source], net.hosts[target], handled_by(net, source, target)
    with there.socket(socket.SOCK_DGRAM) as ear, here.socket(socket.SOCK_DGRAM) as mouth:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        ear.bind((there.address, PORT))
        ear.settimeout(SILENCE_SECONDS)
        sent = []
        for number in range(count):
            sent.append(time.monotonic())
            mouth.sendto(number.to_bytes(64, "big"), (there.address, PORT))
        heard, all_are_out = Heard([], []), False
        while True:
            try:
                number = int.from_bytes(ear.recv(2000), "big")
            except TimeoutError:
                if all_are_out:
                    return heard
                all_are_out = handled_by(net, source, target) >= handled + count and not net.switch.on_their_way
            else:
                heard.seconds.append(time.monotonic() - sent[number])
                heard.numbers.append(number)


def handled_by(net: Network, source: int, target: int) -> int:
    """How many packets from one host to another the switch has carried or dropped."""
    return sum(net.switch.counts().get((source, target), (0, 0)))


def test_without_rules_all_arrives_in_order(net: Network) -> None:
    for source, target in ((0, 1), (1, 0), (2, 0)):
        heard = cast(net, source, target, 50)
        assert heard.numbers == list(range(50))


def test_a_delay_holds_both_ways(net: Network) -> None:
    net.rules.set_all(Rule(delay=0.1, jitter=0.02))
    for source, target in ((0, 1), (1, 0)):
        heard = cast(net, source, target, 20)
        assert heard.numbers == list(range(20))
        assert min(heard.seconds) >= 0.1


def test_loss_loses_about_what_it_says(net: Network) -> None:
    net.rules.set_all(Rule(loss=0.3))
    heard = cast(net, 0, 1)
    assert len(set(heard.numbers)) == len(heard.numbers)
    assert 100 <= len(heard.numbers) <= 175  # 140 expected; a standard deviation is 6.5
    carried, dropped = net.switch.counts()[0, 1]
    assert carried > 0 and dropped >= COUNT - len(heard.numbers)


@pytest.mark.parametrize(("rule", "times"), [(Rule(duplicate=1.0), 2), (Rule(corrupt=1.0), 0)])
def test_duplicates_come_twice_and_what_is_corrupt_fails_its_checksum(
    net: Network, rule: Rule, times: int
) -> None:
    net.rules.set_all(rule)
    assert sorted(cast(net, 0, 1, 20).numbers) == sorted([*range(20)] * times)


def test_a_cut_is_one_way_and_islands_are_apart_until_they_are_healed(net: Network) -> None:
    net.rules.cut(0, 1)
    assert cast(net, 0, 1, 5).numbers == []
    assert cast(net, 1, 0, 5).numbers == cast(net, 0, 2, 5).numbers == [0, 1, 2, 3, 4]
    net.rules.part([0, 1], [2])
    assert cast(net, 0, 2, 5).numbers == cast(net, 2, 0, 5).numbers == []
    net.rules.heal()
    for pair in ((0, 1), (0, 2), (2, 0)):
        assert cast(net, *pair, 5).numbers == [0, 1, 2, 3, 4]


def test_only_addresses_of_its_own_are_reached(net: Network) -> None:
    with net.hosts[0].socket(socket.SOCK_DGRAM) as mouth:
        with pytest.raises(OSError, match="unreachable"):
            mouth.sendto(b"?", ("192.0.2.1", PORT))
        before = net.switch.counts()
        mouth.sendto(b"?", ("10.66.0.99", PORT))  # of this network, but no host's
        assert cast(net, 1, 2, 1).numbers == [0]
        assert {way for way in net.switch.counts() if way not in before} <= {(1, 2)}
