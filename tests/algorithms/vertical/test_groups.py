"""The twin group is a group of prime order, and both groups refuse what is no element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.groups import SafePrimeGroup, as_items, blind_chunk, check_chunk, hash_chunk
from flnet.errors import AlignmentRefused
from tests.algorithms.vertical.playing import TWIN

P, Q = SafePrimeGroup.PRIME, SafePrimeGroup.ORDER
randoms = st.binary(min_size=64, max_size=64)


def is_prime(number: int) -> bool:
    """Miller and Rabin; these bases are exact below 2**64 (Sinclair 2011)."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 325, 9375, 28178, 450775, 9780504, 1795265022):
        power = pow(base, odd, number)
        if power in (1, number - 1) or any(pow(base, odd << k, number) == number - 1 for k in range(1, twos)):
            continue
        return False
    return True


def test_its_prime_is_safe() -> None:
    assert P == 2**64 - 1469
    assert is_prime(P)
    assert is_prime(Q)


@given(randoms, randoms, st.binary())
def test_blinding_commutes_and_can_be_undone(first: bytes, second: bytes, data: bytes) -> None:
    a, b, element = TWIN.secret(first), TWIN.secret(second), TWIN.hash_to_element(data)
    TWIN.check(element)
    assert TWIN.blind(a, TWIN.blind(b, element)) == TWIN.blind(b, TWIN.blind(a, element))
    assert TWIN.blind(TWIN.inverse(a), TWIN.blind(a, element)) == element


@given(st.binary(), st.binary())
def test_equal_data_and_no_others_have_one_element(left: bytes, right: bytes) -> None:
    assert (TWIN.hash_to_element(left) == TWIN.hash_to_element(right)) == (left == right)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (b"", "32 bytes, but this one has 0"),
        (bytes(33), "has 33"),
        (P.to_bytes(32), "not canonical"),
        ((P + 4).to_bytes(32), "not canonical"),
        ((1).to_bytes(32), "neutral"),
        (bytes(32), "not in the group"),
        ((P - 1).to_bytes(32), "not in the group"),  # of order 2
        ((P - 4).to_bytes(32), "not in the group"),  # minus a square
    ],
)
def test_what_is_no_element_is_refused(element: bytes, words: str) -> None:
    with pytest.raises(AlignmentRefused, match=words):
        TWIN.check(element)
    with pytest.raises(AlignmentRefused, match=words):
        TWIN.blind(TWIN.secret(bytes(64)), element)


def test_units_of_work_do_what_one_element_after_the_other_does() -> None:
    secret = TWIN.secret(bytes(range(64)))
    hashed = hash_chunk(TWIN, secret, [b"a", b"b"])
    assert hashed.shape == (2, 32)
    assert [row.tobytes() for row in hashed] == [TWIN.blind(secret, TWIN.hash_to_element(m)) for m in (b"a", b"b")]
    again = blind_chunk(TWIN, secret, hashed)
    assert [row.tobytes() for row in again] == [TWIN.blind(secret, row.tobytes()) for row in hashed]
    assert check_chunk(TWIN, again) is again
    assert blind_chunk(TWIN, secret, hashed[:0]).shape == (0, 32)


def test_a_wrong_element_of_a_chunk_is_named_by_its_place() -> None:
    chunk = as_items([TWIN.hash_to_element(b"a"), bytes(32), bytes(32)])
    with pytest.raises(AlignmentRefused, match="element 1 of a chunk: the element is not in the group"):
        check_chunk(TWIN, chunk)
    with pytest.raises(AlignmentRefused, match="element 1 of a chunk: the element is not in the group"):
        blind_chunk(TWIN, TWIN.secret(bytes(64)), chunk)


def test_secrets_are_never_zero() -> None:
    assert int.from_bytes(TWIN.secret(bytes(64))) == 1
    assert int.from_bytes(TWIN.secret((Q - 2).to_bytes(64))) == Q - 1
    assert int.from_bytes(TWIN.secret((Q - 1).to_bytes(64))) == 1
    assert np.all([0 < int.from_bytes(TWIN.secret(bytes([n]) * 64)) < Q for n in range(256)])
