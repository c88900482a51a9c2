"""All attacks at once, from a process of its own: strangers, members with the key, sybils and peers that are called."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

from flnet.security.signatures import MeshKey
from flnet.web.server import raise_file_limit
from tests.security.keypairs import TestKey
from tests.threats.attacker import Signer, Target, ask, call_from, connected, ended, named
from tests.threats.attacks import HELD, REPEATED, again_and_again
from tests.threats.test_06_huge_answers import greedy, verifier_of

Answers = Counter[str]
Attempt = Callable[[], str]
LAST_ROUND, LAST_INCARNATION = 2**53, 2**53
SYBILS, SILENT_PORT = 250, 19_000  # and the first of the ports at which nobody answers
PEERS_THAT_ANSWER = 4
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000006040000000000" + "000400000000")  # no window
HTTP2_LINES = 80
_runs = count(1)


class Member:
    """One that has the key of the mesh, announced under a name of its own."""

    def __init__(self, at: Target, name: str, key: int, port: int = 0) -> None:
        """Args:
        key: number of its key.
        port: at which it says it is; 0 for one at which nobody answers.
        """
        port = port or SILENT_PORT + key
        self.at, self.name = at, name
        self._signer = Signer(at.mesh, f"{random.getrandbits(32):08x}{next(_runs):08x}", key)
        self.peer = {"id": name, "ip": "127.0.0.1", "port": port}

    def say(self, path: str, **fields: object) -> str:
        """Send a signed message; how it was answered."""
        body = json.dumps({"iAm": self.peer, **fields}).encode()
        return named(ask(self.at.port, path, body, self._signer.signed(self.at.port, path, body)))

    def announce(self, **fields: object) -> str:
        """Announce itself."""
        return self.say("/announce", myKnownPeers=[], key=self._signer.key.text, incarnation=0, **fields)

    def probe(self, **fields: object) -> str:
        """Probe the node, with news."""
        return self.say("/probe", key=self._signer.key.text, **fields)


def job_of(at: Target) -> Mapping[str, object]:
    """The job of the attacked node, as its operator sees it: a member can work most of it out."""
    answer = ask(at.port, "/jobs/SLOW", b"", {"Authorization": f"Bearer {at.token}"}, "GET")
    job: Mapping[str, object] = json.loads(answer[1])
    return job


def order(at: Target, **changes: object) -> dict[str, object]:
    """The fields of a message of the next round."""
    job = job_of(at)
    hyper = job["hyper"] or {"e": 1, "u": 0.1, "b": 8}
    number = int(str(job["current_round"])) + 1
    fields = {"trainerId": "SLOW", "round": number, "federatedLearningParams": hyper, "digest": job["digest"]}
    return {**fields, **changes}


def upgrades(at: Target) -> Attempt:
    """Requests to become a WebSocket, with and without a body."""
    fields = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    more = {**fields, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    return lambda: named(ask(at.port, random.choice(("/", "/events", "/announce")), b"", more, "GET"))


def start_storm(at: Target) -> Attempt:
    """A member starts the next round, again and again."""
    member = Member(at, "stormy", 78)
    member.announce()
    return lambda: member.say("/training", initiator=member.name, **order(at))


def wrong_starts(at: Target) -> Attempt:
    """A member starts rounds far ahead, from models that claim to be the best, with orders that cost much."""
    member = Member(at, "liar", 79)
    member.announce()
    hyper = {"e": 10_000, "u": 1000, "b": 1}
    wrong: tuple[dict[str, object], ...] = (
        {"round": LAST_ROUND},
        {"round": LAST_ROUND - 1},
        {"contributors": 10**9, "baseRound": 10**6, "digest": "0" * 64},
        {"contributors": 10**9, "restoredAt": 10**6, "digest": "1" * 64},
        {"federatedLearningParams": hyper},
    )
    return lambda: member.say("/training", initiator=member.name, **order(at, **random.choice(wrong)))


def wrong_claims(at: Target) -> Attempt:
    """A member claims a perfect average of a billion updates."""
    member = Member(at, "boaster", 80)
    member.announce()

    def attempt() -> str:
        fields = order(at, digest="2" * 64)
        fields["round"] = max(int(str(fields["round"])) - 1, 0)
        path = "/training/model_params/accuracy"
        return member.say(path, initiator="n1", accuracy=1.0, contributors=10**9, **fields)

    return attempt


def wrong_news(at: Target) -> Attempt:
    """A member says that the others left, with the highest incarnation."""
    member = Member(at, "gossip", 81)
    member.announce()

    def attempt() -> str:
        news = [
            {
                "id": name,
                "port": SILENT_PORT,
                "state": random.choice(("left", "dead")),
                "incarnation": LAST_INCARNATION,
            }
            for name in ("n0", "n1", "n2")
        ]
        return member.probe(incarnation=0, news=news)

    return attempt


def sybils(at: Target) -> Attempt:
    """One machine announces hundreds of nodes, at ports where nobody answers."""
    numbers = count()

    def attempt() -> str:
        number = next(numbers) % SYBILS
        return Member(at, f"sybil{number}", 1 + number % 70, SILENT_PORT + 256 + number).announce()

    return attempt


CONTINUED: Mapping[str, tuple[Callable[[Target], Attempt], float]] = {  # and attempts per second
    **{name: (make, 8.0) for name, make in REPEATED.items()},
    "zip bomb": (REPEATED["zip bomb"], 0.5),
    "upgrades": (upgrades, 20.0),
    "start storm": (start_storm, 8.0),
    "wrong starts": (wrong_starts, 4.0),
    "wrong claims": (wrong_claims, 4.0),
    "wrong news": (wrong_news, 4.0),
    "sybils": (sybils, 8.0),
}


def http2(at: Target, seconds: float) -> Answers:
    """Connections that speak HTTP/2 from their first byte, and never open a window."""
    told, ends = Answers(), time.monotonic() + seconds
    while time.monotonic() < ends:
        socks: list[socket.socket] = []
        for _ in range(HTTP2_LINES):
            with suppress(OSError):
                socks.append(connected(at.port))
                socks[-1].sendall(HTTP2)
        time.sleep(min(5.0, max(0.0, ends - time.monotonic())))
        told.update(ended(sock) or "left open" for sock in socks)
        for sock in socks:
            sock.close()
    return told


@contextmanager
def greedy_members(at: Target) -> Iterator[list[Member]]:
    """Members that answer whatever they are asked with 500 MB."""
    with ExitStack() as stack:
        ports = {
            number: stack.enter_context(greedy(number % 2 == 0, verifier_of(TestKey(90 + number), at.mesh)))[0]
            for number in range(PEERS_THAT_ANSWER)
        }
        yield [Member(at, f"greedy{port}", 90 + number, port) for number, port in ports.items()]


def huge_answers(at: Target, seconds: float) -> Answers:
    """Such members announce themselves again and again, so that the node calls them."""
    with greedy_members(at) as members:
        return again_and_again(lambda: random.choice(members).announce(), seconds, 1.0)


HELD_OPEN: Mapping[str, Callable[[Target, float], Answers]] = {
    **HELD,
    "HTTP/2": http2,
    "huge answers": huge_answers,
}
NAMES = (*CONTINUED, *HELD_OPEN)


def _attack(make: Callable[[Target], Attempt], per_second: float, at: Target, seconds: float) -> Answers:
    """Make an attack ready, which may fail while the node is flooded, and go on with it."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        try:
            return again_and_again(make(at), left, per_second)
        except (OSError, ValueError, KeyError, AssertionError):
            time.sleep(1.0)
    return Answers({"never ready": 1})


def attacks(at: Target) -> Mapping[str, Callable[[float], Answers]]:
    """All attacks by name; each goes on for the seconds that it is called with."""
    held = {name: partial(hold, at) for name, hold in HELD_OPEN.items()}
    return {**{name: partial(_attack, make, rate, at) for name, (make, rate) in CONTINUED.items()}, **held}


def _run(
    at: tuple[int, int, str, str, str],
    seconds: float,
    only: Sequence[str],
    begin: Event,
    told: Queue[tuple[str, Answers]],
) -> None:
    raise_file_limit()
    os.nice(10)  # attackers have machines of their own, and take no time from the node
    port, other_port, mesh, token, old_token = at
    target = Target(port, other_port, MeshKey(mesh), token, old_token)
    begin.wait()

    def one(number: int, name: str, attack: Callable[[float], Answers]) -> None:
        call_from(f"127.0.0.{66 + number}")
        try:
            told.put((name, attack(seconds)))
        except Exception as exc:
            told.put((name, Answers({f"attack failed: {exc!r:.100}": 1})))

    threads = [
        threading.Thread(target=one, args=(number, name, attack))
        for number, (name, attack) in enumerate(attacks(target).items())
        if name in only
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Assault:
    """All attacks, in a process of their own, which waits until it may begin."""

    def __init__(self, at: tuple[int, int, str, str, str], seconds: float, only: Sequence[str] = NAMES) -> None:
        """Args:
        at: what `Target` holds, with the mesh's key as text.
        only: names of attacks.
        """
        context = multiprocessing.get_context("spawn")
        self._begin = context.Event()
        self._told: Queue[tuple[str, Answers]] = context.Queue()
        self._count = len(only)
        self._process = context.Process(
            target=_run, args=(at, seconds, only, self._begin, self._told), daemon=True
        )
        self._process.start()

    def begin(self) -> None:
        """Let the attacks begin."""
        self._begin.set()

    def answers(self) -> dict[str, Answers]:
        """Wait for the end of all attacks; how the node answered each."""
        found: dict[str, Answers] = {}
        for _ in range(self._count):
            name, answers = self._told.get(timeout=300 + 3600)
            found[name] = answers
        self._process.join(60)
        return found

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
