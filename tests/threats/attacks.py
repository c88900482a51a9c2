"""Attacks on a node that trains, by name: those that are tried again and again, and those that hold connections open."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import count, cycle

import zstandard

from flnet.security.signatures import MeshKey
from tests.threats.attacker import Signer, Target, ask, connected, ended, named
from tests.threats.stranger import JSON, MEGA, head

Attempt = Callable[[], str]  # tried once; how it was answered
METADATA, TEN_GIGABYTES, BRACKETS = "169.254.169.254", 10 * 1024 * MEGA, 200_000
ANNOUNCE, UPDATE, TRIGGER = "/announce", "/training/model_params", b'{"trainerId": "SLOW"}'
HALF_OPEN, TRICKLING, UNPACKED = 1500, 100, 256 * MEGA
STARTS = (b"", b"G", b"POST /announce HTTP/1.1\r\nHost: 127", head(ANNOUNCE, Content_Length=1000) + b"{")
_runs = count(1)


def signer(mesh: MeshKey) -> Signer:
    """One that signs as nobody before."""
    return Signer(mesh, f"{next(_runs):016x}")


def announcement(ip: str, port: int, key: str) -> bytes:
    """What a node says that wants to be called there."""
    return json.dumps({"iAm": {"id": "x", "ip": ip, "port": port}, "myKnownPeers": [], "key": key}).encode()


def wrong_key(at: Target) -> Attempt:
    """Announcements that are signed with the key of another mesh."""
    other = signer(MeshKey("another horse, same old battery"))
    body = announcement("127.0.0.1", 46_900, other.key.text)
    return lambda: named(ask(at.port, ANNOUNCE, body, other.signed(at.port, ANNOUNCE, body)))


def replay(at: Target) -> Attempt:
    """One request of a member, again and again."""
    member = signer(at.mesh)
    body = announcement(METADATA, 80, member.key.text)
    headers = member.signed(at.port, ANNOUNCE, body)
    ask(at.port, ANNOUNCE, body, headers)  # the one that counts
    return lambda: named(ask(at.port, ANNOUNCE, body, headers))


def changed_body(at: Target) -> Attempt:
    """Requests of a member, in which somebody on the way changed the port."""
    member = signer(at.mesh)
    body = announcement("127.0.0.1", 46_900, member.key.text)
    changed = body.replace(b"46900", b"46901")
    return lambda: named(ask(at.port, ANNOUNCE, changed, member.signed(at.port, ANNOUNCE, body)))


def other_receiver(at: Target) -> Attempt:
    """Requests that a member signed for another node."""
    member = signer(at.mesh)
    body = announcement("127.0.0.1", 46_900, member.key.text)
    return lambda: named(ask(at.port, ANNOUNCE, body, member.signed(at.other_port, ANNOUNCE, body)))


def _as_person(at: Target, **headers: str) -> Attempt:
    own = {"Content-Type": JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return lambda: named(ask(at.port, "/training/trigger", TRIGGER, own))


def expired_token(at: Target) -> Attempt:
    """A person's request with the token that was replaced."""
    return _as_person(at, Authorization=f"Bearer {at.old_token}")


def foreign_origin(at: Target) -> Attempt:
    """What a page of another site sends, even with the right token."""
    return _as_person(at, Authorization=f"Bearer {at.token}", Origin="http://evil.example")


def rebinding(at: Target) -> Attempt:
    """The same from a page whose name was made to lead to the node."""
    return _as_person(at, Authorization=f"Bearer {at.token}", Host="evil.example", Origin="http://evil.example")


def announced_addresses(at: Target) -> Attempt:
    """A member wants to be called at the address of metadata, at the node itself, and at port 22 beside it."""
    member = signer(at.mesh)
    places = cycle([(METADATA, 80), ("127.0.0.1", at.port), ("127.0.0.1", 22)])

    def attempt() -> str:
        body = announcement(*next(places), member.key.text)
        return named(ask(at.port, ANNOUNCE, body, member.signed(at.port, ANNOUNCE, body)))

    return attempt


def ten_gigabytes(at: Target) -> Attempt:
    """A member announces a body of 10 GB, and begins with it."""
    member = signer(at.mesh)
    more = {"Content-Length": str(TEN_GIGABYTES)}
    return lambda: named(ask(at.port, ANNOUNCE, b"{", member.signed(at.port, ANNOUNCE, b"{") | more))


@cache
def zip_bomb_bytes() -> bytes:
    """An archive of a quarter of a megabyte that unpacks to 256 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made, made.open("zeros", "w") as zeros:
        for _ in range(UNPACKED // MEGA):
            zeros.write(bytes(MEGA))
    return out.getvalue()


def zip_bomb(at: Target) -> Attempt:
    """A person brings it as data."""
    headers = {"Authorization": f"Bearer {at.token}", "Content-Type": "application/octet-stream"}
    return lambda: named(ask(at.port, "/data/SLOW/import?name=bomb.zip", zip_bomb_bytes(), headers))


def zstd_bomb(at: Target) -> Attempt:
    """A member sends 8 kB that unpack to 256 MB."""
    member, body = signer(at.mesh), zstandard.compress(bytes(UNPACKED))
    more = {"Content-Encoding": "zstd"}
    return lambda: named(ask(at.port, ANNOUNCE, body, member.signed(at.port, ANNOUNCE, body) | more))


def brackets(at: Target) -> Attempt:
    """A member sends 200,000 nested brackets as parameters."""
    member, body = signer(at.mesh), b"[" * BRACKETS + b"]" * BRACKETS
    return lambda: named(ask(at.port, UPDATE, body, member.signed(at.port, UPDATE, body)))


REPEATED: Mapping[str, Callable[[Target], Attempt]] = {
    "wrong key": wrong_key,
    "replay": replay,
    "changed body": changed_body,
    "other receiver": other_receiver,
    "expired token": expired_token,
    "foreign origin": foreign_origin,
    "rebinding host": rebinding,
    "announced addresses": announced_addresses,
    "10 GB announced": ten_gigabytes,
    "zip bomb": zip_bomb,
    "zstd bomb": zstd_bomb,
    "200,000 brackets": brackets,
}


def again_and_again(attempt: Attempt, seconds: float, per_second: float) -> Counter[str]:
    """How the attempts of this time were answered."""
    told, begun = Counter[str](), time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if (ahead := told.total() / per_second - passed) > 0:
            time.sleep(ahead)
        try:
            told[attempt()] += 1
        except TimeoutError:
            told["no answer"] += 1
        except OSError:
            told["closed"] += 1
    return told


def held_open(at: Target, seconds: float, many: int, trickle: bytes, starts: tuple[bytes, ...]) -> Counter[str]:
    """Open connections that begin some request; each says no more than a trickle each second.

    Returns:
        How the node ended them, and how many were "left open": closing them is the caller's end.
    """
    told, begun, socks = Counter[str](), time.monotonic(), []
    try:
        for number in range(many):
            with suppress(OSError):
                socks.append(connected(at.port))
                socks[-1].sendall(starts[number % len(starts)])
        while time.monotonic() - begun < seconds:
            for sock in list(socks):
                if how := ended(sock):
                    told[how] += 1
                    sock.close()
                    socks.remove(sock)
                    continue
                with suppress(OSError):
                    sock.sendall(trickle)
            time.sleep(1)
        return told + Counter({"left open": len(socks)})
    finally:
        for sock in socks:
            sock.close()


def half_open(at: Target, seconds: float) -> Counter[str]:
    """1,500 connections that begin a request and never end it."""
    return held_open(at, seconds, HALF_OPEN, b"", STARTS)


def one_byte_per_second(at: Target, seconds: float) -> Counter[str]:
    """A hundred requests, of which a byte comes each second: half in their heads, half in a member's body."""
    member, body = signer(at.mesh), b'{"iAm": ' + b" " * 500

    def begun() -> bytes:
        fields: dict[str, str] = {"Content-Length": str(len(body)), **member.signed(at.port, ANNOUNCE, body)}
        del fields["Content-Type"]
        return head(ANNOUNCE, **{name.replace("-", "_"): value for name, value in fields.items()})

    starts = tuple(STARTS[2] if number % 2 else begun() for number in range(TRICKLING))
    return held_open(at, seconds, TRICKLING, b" ", starts)


HELD: Mapping[str, Callable[[Target, float], Counter[str]]] = {
    "1,500 half-open": half_open,
    "1 byte per second": one_byte_per_second,
}
