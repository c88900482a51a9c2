"""The siege itself: its judgement of given figures, its attempts on a server, and one attack on real nodes."""

from __future__ import annotations

import io
import socket
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flnet.security.signatures import MeshKey
from tests.threats.attacker import HERE, Target, ask, named
from tests.threats.attacks import HELD, REPEATED, UNPACKED, again_and_again, held_open, zip_bomb_bytes
from tests.threats.siege import attacks, besieged, siege
from tests.threats.stranger import MEGA
from tests.threats.watching import MOST_GROWTH, MOST_PEAK, MOST_TOLD, Found, faults, p99, table

GOOD = Found(
    "replay",
    Counter({"403 signature_refused": 500}),
    Counter({"refused_here": 1}),
    rounds=9,
    seconds=0.5,
    quiet=0.4,
    memory=(80 * MEGA, 95 * MEGA, 90 * MEGA),
    health=(0.004, 0.02),
)


def test_an_attack_that_is_refused_cheaply_and_told_once_is_no_fault() -> None:
    assert faults(GOOD) == []
    assert table([GOOD]).splitlines()[2] == (
        "| replay | 500 x 403 signature_refused | 1 x refused_here | 9 | 0.50 (0.40) | 80, 95, 90 | 20 (4) |"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": Counter({"403": 499, "201": 1})}, "not refused"),
        ({"answers": Counter({"500 internal_error": 1})}, "not refused"),
        ({"answers": Counter({"403": 499, "no answer": 1})}, "not refused"),
        ({"answers": Counter()}, "nothing of it came"),
        ({"rounds": 0}, "no round"),
        ({"told": Counter({"refused_here": MOST_TOLD, "line of the log": 1})}, f"told {MOST_TOLD + 1} times"),
        ({"memory": (0, MOST_GROWTH + 1, MOST_GROWTH + 1)}, "memory"),
        ({"memory": (0, MOST_PEAK + 1, 0)}, "memory"),
    ],
)
def test_each_promise_that_is_broken_is_said(change: dict[str, Any], words: str) -> None:
    (said,) = faults(replace(GOOD, **change))
    assert said.startswith("replay: ") and words in said


def test_of_a_hundred_times_the_second_longest_is_not_above_99_percent() -> None:
    assert p99([float(n) for n in range(1, 101)]) == 100.0
    assert p99([float(n) for n in range(1, 201)]) == 199.0
    assert p99([]) == 0.0


def test_all_attacks_that_are_promised_are_there() -> None:
    at = Target(1, 2, MeshKey("x" * 16), "new", "old")
    assert [name for name, _ in attacks(at, 0.0, 1.0)] == [*REPEATED, *HELD]
    assert len(REPEATED) + len(HELD) == 14


def test_bombs_are_small_and_hold_what_they_are_said_to() -> None:
    with zipfile.ZipFile(io.BytesIO(zip_bomb_bytes())) as archive:
        assert archive.getinfo("zeros").file_size == UNPACKED > 500 * len(zip_bomb_bytes())
    assert 5000 * len(zstandard.compress(bytes(UNPACKED))) < UNPACKED


def test_attempts_are_counted_by_their_answers() -> None:
    said = iter(["403 x", "403 x"])

    def attempt() -> str:
        if how := next(said, ""):
            return how
        raise TimeoutError

    assert again_and_again(attempt, 0.0, 1.0) == Counter()
    told = again_and_again(attempt, 0.05, 1000.0)
    assert told["403 x"] == 2 and told["no answer"] > 0


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """Refuses whatever comes as soon as four bytes of it are there; and from where it came."""
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    sock, where = listening.accept()
                except TimeoutError:
                    continue
                seen.append(where[0])
                with sock, suppress(OSError):
                    sock.settimeout(10)
                    wanted = 4
                    while wanted and (came := sock.recv(wanted)):
                        wanted -= len(came)
                    if not wanted:
                        sock.sendall(b'HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n{"error":"x"}')

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1], seen
        over.set()
        thread.join()


def test_an_attempt_comes_from_an_address_of_its_own(server: tuple[int, list[str]]) -> None:
    port, seen = server
    assert named(ask(port, "/announce")) == "403 x"
    assert seen == [HERE]


def test_connections_that_are_held_are_counted_by_their_ends(server: tuple[int, list[str]]) -> None:
    at = Target(server[0], 0, MeshKey("x" * 16), "", "")
    assert held_open(at, 0.5, 1, b"", (b"GET /",))["403"] == 1
    assert held_open(at, 0.1, 1, b"", (b"G",))["left open"] == 1


@pytest.mark.slow
@pytest.mark.long
def test_a_mesh_trains_on_while_requests_are_replayed(tmp_path: Path) -> None:
    with besieged(tmp_path) as made:
        (found,) = siege(made, 1.5, 50.0, only="replay")
    assert faults(found) == []
    assert set(found.answers) == {"403 signature_refused"}
