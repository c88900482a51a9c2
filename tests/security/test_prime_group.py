"""The group for real data: what libsodium gives, checked against RFC 8032, RFC 9380 and arithmetic in Python."""

from __future__ import annotations

import builtins
import hashlib
import re
from typing import Any

import pytest

from flnet.algorithms.vertical.groups import Group
from flnet.errors import AlignmentRefused, TrainerError
from flnet.installing import install
from flnet.security import prime_group
from flnet.security.prime_group import FIELD, ORDER, ed25519_group

P = FIELD
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)
Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


@pytest.fixture
def group() -> Group:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    return ed25519_group()


# The curve in Python (RFC 8032, 5.1): an oracle that shares no code with libsodium


def add(left: Point, right: Point) -> Point:
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + y1 * x2) * pow(1 + product, -1, P)
    return x % P, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def times(number: int, point: Point) -> Point:
    total = NEUTRAL
    while number:
        total = add(total, point) if number & 1 else total
        point, number = add(point, point), number >> 1
    return total


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def decoded(data: bytes) -> Point:
    number = int.from_bytes(data, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    assert (x * x - square) % P == 0, "not on the curve"
    return (x if x & 1 == sign else -x % P), y


def low_order_points() -> list[Point]:
    """All eight points whose order divides 8."""
    y = 5
    # A point of order 8: the order of the subgroup times any point of the curve, for half of the points.
    while True:
        y += 1
        square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
        if pow(square, (P - 1) // 2, P) == 1:
            point = times(ORDER, decoded(y.to_bytes(32, "little")))
            if times(4, point) != NEUTRAL:
                return [times(n, point) for n in range(8)]


LOW_ORDER = low_order_points()


def test_the_oracle_is_the_curve() -> None:
    base = decoded(bytes.fromhex("58" + "66" * 31))  # RFC 8032, 5.1
    assert times(ORDER, base) == NEUTRAL
    assert len(set(LOW_ORDER)) == 8
    assert all(times(8, point) == NEUTRAL for point in LOW_ORDER)


def test_blinding_is_multiplication_without_clamping(group: Group) -> None:
    element = group.hash_to_element(b"id")
    for number in (1, 2, 3, ORDER - 1, int.from_bytes(hashlib.sha256(b"k").digest()) % ORDER):
        secret = number.to_bytes(32, "little")
        assert group.blind(secret, element) == encoded(times(number, decoded(element)))


def test_blinding_commutes_and_can_be_undone(group: Group) -> None:
    a, b = (group.secret(hashlib.sha512(name).digest()) for name in (b"a", b"b"))
    for data in (b"", b"1", b"x" * 1000):
        element = group.hash_to_element(data)
        assert group.blind(a, group.blind(b, element)) == group.blind(b, group.blind(a, element))
        assert group.blind(group.inverse(a), group.blind(a, element)) == element


def elligator(half: bytes) -> Point:
    """Elligator 2 onto edwards25519, times 8 (RFC 9380, 6.7.1 and 6.8.2; the highest bit gives the sign of x)."""
    number = int.from_bytes(half, "little")
    r, sign = number & ((1 << 255) - 1), number >> 255
    a = 486662
    x = -a * pow(1 + 2 * r * r, -1, P) % P
    if pow(x * (x * x + a * x + 1) % P, (P - 1) // 2, P) != 1:
        x = (-x - a) % P
    y = (x - 1) * pow(x + 1, -1, P) % P
    return times(8, decoded((y | sign << 255).to_bytes(32, "little")))


def test_ids_become_the_sum_of_two_mapped_points(group: Group) -> None:
    for data in (b"", b"7", "maría".encode()):
        digest = hashlib.sha512(b"flnet-psi-1.edwards25519\0" + data).digest()
        assert group.hash_to_element(data) == encoded(add(elligator(digest[:32]), elligator(digest[32:])))


def test_ids_are_in_the_group_and_differ(group: Group) -> None:
    elements = [group.hash_to_element(f"id-{n}".encode()) for n in range(200)]
    assert len(set(elements)) == 200
    for element in elements:
        group.check(element)
    assert times(ORDER, decoded(elements[0])) == NEUTRAL


def outside_points(group: Group) -> list[bytes]:
    """Points of the curve that are in no group of prime order: an element plus a point of low order."""
    element = decoded(group.hash_to_element(b"id"))
    return [encoded(add(element, point)) for point in LOW_ORDER if point != NEUTRAL]


def test_points_of_low_order_are_refused(group: Group) -> None:
    secret = group.secret(bytes(range(64)))
    for point in LOW_ORDER:
        words = "neutral" if point == NEUTRAL else "low order"
        for action in (group.check, lambda element: group.blind(secret, element)):
            with pytest.raises(AlignmentRefused, match=words):
                action(encoded(point))


def test_points_outside_the_subgroup_are_refused(group: Group) -> None:
    """CVE-2025-69277: an older libsodium took an element plus the point of order 2."""
    secret = group.secret(bytes(range(64)))
    for element in outside_points(group):
        for action in (group.check, lambda element: group.blind(secret, element)):
            with pytest.raises(AlignmentRefused, match="not in the group of prime order"):
                action(element)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (b"", "has 0"),
        (bytes(31), "has 31"),
        (bytes(33), "has 33"),
        (P.to_bytes(32, "little"), "not canonical"),  # 0
        ((P + 1).to_bytes(32, "little"), "not canonical"),  # 1
        ((2**255 - 1).to_bytes(32, "little"), "not canonical"),
        ((2**256 - 1).to_bytes(32, "little"), "not canonical"),
        ((1 | 1 << 255).to_bytes(32, "little"), "not canonical"),  # the neutral element with a sign
        ((P - 1 | 1 << 255).to_bytes(32, "little"), "not canonical"),
        ((2).to_bytes(32, "little"), "not in the group"),  # y = 2 is on the twist
        ((3).to_bytes(32, "little"), "not in the group"),  # y = 3 is on the curve, outside of the subgroup
    ],
)
def test_what_is_no_element_is_refused(group: Group, element: bytes, words: str) -> None:
    with pytest.raises(AlignmentRefused, match=words):
        group.check(element)
    with pytest.raises(AlignmentRefused, match=words):
        group.blind(group.secret(bytes(64)), element)


def test_secrets_are_below_the_order_and_never_zero(group: Group) -> None:
    assert int.from_bytes(group.secret(bytes(64)), "little") == 1
    assert int.from_bytes(group.secret((ORDER - 2).to_bytes(64, "little")), "little") == ORDER - 1
    assert int.from_bytes(group.secret((ORDER - 1).to_bytes(64, "little")), "little") == 1
    assert 0 < int.from_bytes(group.secret(b"\xff" * 64), "little") < ORDER
    with pytest.raises(ValueError, match="random=32"):
        group.secret(bytes(32))


# Where the library is missing, or is too old


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_nacl(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "nacl":
            raise ModuleNotFoundError("No module named 'nacl'")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_nacl)
    with pytest.raises(
        TrainerError, match="needs PyNaCl, which is not installed.*" + re.escape(install("vertical"))
    ):
        ed25519_group()


def test_a_library_that_accepts_points_outside_the_group_is_refused(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nacl import bindings

    monkeypatch.setattr(bindings, "crypto_core_ed25519_is_valid_point", lambda point: True)
    with pytest.raises(TrainerError, match="accepts points that are not in the group"):
        ed25519_group()
    monkeypatch.undo()
    monkeypatch.delattr(bindings, "crypto_core_ed25519_from_uniform")
    with pytest.raises(TrainerError, match="lacks the functions"):
        ed25519_group()


def test_the_library_is_loaded_with_the_group_alone() -> None:
    assert "nacl" not in vars(prime_group)
