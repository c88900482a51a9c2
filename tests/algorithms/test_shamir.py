"""Shares of a secret: any `threshold` of them give it back, fewer are consistent with every secret."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.shamir import PRIME, SECRET_BYTES, SHARE_BYTES, join, share_number, split, value_at

SECRET = bytes(range(SECRET_BYTES))


def is_prime(number: int, bases: int = 40) -> bool:
    """Miller and Rabin's test; a composite number passes it with probability 4^-bases at most."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    chance = random.Random(1)
    return all(_passes(chance.randrange(2, number - 1), odd, twos, number) for _ in range(bases))


def _passes(base: int, odd: int, twos: int, number: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    return any((power := power * power % number) == number - 1 for _ in range(twos - 1))


def test_the_modulus_is_the_first_prime_above_all_secrets() -> None:
    assert is_prime(PRIME)
    assert not any(is_prime(number, 5) for number in range(2**256 + 1, PRIME, 2))


@given(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES), st.integers(1, 12), st.data())
def test_any_sufficient_set_of_shares_gives_the_secret_back(secret: bytes, count: int, data: Any) -> None:
    threshold = data.draw(st.integers(1, count))
    shares = split(secret, threshold, count, data.draw(st.randoms(use_true_random=False)).randbytes)
    assert len(shares) == count
    assert {len(share) for share in shares} == {SHARE_BYTES}
    places = data.draw(st.lists(st.integers(1, count), min_size=threshold, max_size=count, unique=True))
    assert join({x: shares[x - 1] for x in places}, threshold) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_smallest_and_the_largest_secret_come_back(secret: bytes) -> None:
    shares = split(secret, 3, 5, random.Random(2).randbytes)
    assert join({1: shares[0], 4: shares[3], 5: shares[4]}, 3) == secret


@pytest.mark.parametrize(("threshold", "count"), [(2, 2), (3, 4), (7, 10), (20, 30)])
def test_shares_below_the_threshold_fit_every_other_secret(threshold: int, count: int) -> None:
    """For any other secret there is one polynomial of the right degree through the same shares."""
    shares = split(SECRET, threshold, count, random.Random(3).randbytes)
    colluding = {x: share_number(x, shares[x - 1]) for x in range(2, threshold + 1)}
    for other in (bytes(32), b"\xff" * 32, random.Random(4).randbytes(32)):
        points = {0: int.from_bytes(other, "big"), **colluding}
        invented = {
            x: value_at(x, points).to_bytes(SHARE_BYTES, "big") for x in range(1, count + 1) if x not in colluding
        }
        for x, share in invented.items():
            held = {place: shares[place - 1] for place in colluding}
            assert join({**held, x: share}, threshold) == other
        # all of the invented shares lie on that one polynomial: any sufficient set gives the other secret
        if len(invented) >= threshold:
            assert join(invented, threshold) == other


def test_coefficients_are_drawn_anew_for_every_secret() -> None:
    drawn = random.Random(5)
    assert split(SECRET, 2, 3, drawn.randbytes) != split(SECRET, 2, 3, drawn.randbytes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda shares: split(SECRET[1:], 2, 3, random.randbytes), "a secret of 31 bytes; expected 32"),
        (lambda shares: split(SECRET, 0, 3, random.randbytes), "0 of 3 shares; expected at least 1"),
        (lambda shares: split(SECRET, 4, 3, random.randbytes), "4 of 3 shares"),
        (lambda shares: split(SECRET, 2, 65_536, random.randbytes), "2 of 65536 shares"),
        (lambda shares: join({1: shares[0]}, 2), "1 shares; expected at least 2"),
        (lambda shares: join({}, 0), "a threshold of 0; expected at least 1"),
        (lambda shares: join({0: shares[0], 1: shares[1]}, 2), "a share at 0; expected 1 to 65535"),
        (
            lambda shares: join({1: shares[0][1:], 2: shares[1]}, 2),
            "the share at 1 is no number below 2^256 + 297",
        ),
        (lambda shares: join({1: PRIME.to_bytes(33, "big"), 2: shares[1]}, 2), "the share at 1 is no number"),
        (lambda shares: join({1: (PRIME - 1).to_bytes(33, "big")}, 1), "these shares are not of one secret"),
    ],
)
def test_wrong_input_is_refused_in_words(call: Callable[[tuple[bytes, ...]], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call(split(SECRET, 2, 3, random.Random(6).randbytes))
