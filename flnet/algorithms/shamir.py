"""Shares of a secret: any `threshold` of them give it back, fewer say nothing about it.

A. Shamir, "How to share a secret", Communications of the ACM 22(11), 1979. The secret is the value at 0 of a polynomial of
degree threshold - 1 over the integers modulo a prime, whose other coefficients are drawn evenly. A share is the value at
x = 1, 2, ... Through the points of fewer than `threshold` shares and any value at 0 goes exactly one such polynomial, so
all secrets are equally likely for whoever holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from flnet.text import text

SECRET_BYTES = 32
SHARE_BYTES = 33  # a number modulo PRIME, big-endian
PRIME = 2**256 + 297  # the first prime above all secrets
MOST_SHARES = 65_535
_DRAWN_BYTES = 48  # for a coefficient: reduced modulo PRIME, it is 2^-127 from evenly drawn


def split(secret: bytes, threshold: int, count: int, randomness: Callable[[int], bytes]) -> tuple[bytes, ...]:
    """The shares of a secret for x = 1 to `count`.

    Args:
        secret: of 32 bytes.
        threshold: how many shares give it back, from 1 to `count`.
        count: of shares.
        randomness: so many bytes, unpredictable and never drawn before.

    Raises:
        ValueError: the secret has another length, or the numbers do not fit together.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(text("a secret of {count} bytes; expected {expected}", len(secret), SECRET_BYTES))
    if not 1 <= threshold <= count <= MOST_SHARES:
        raise ValueError(
            text(
                "{threshold} of {count} shares; expected at least 1, no more than there are, and at most {most}",
                threshold,
                count,
                MOST_SHARES,
            )
        )
    drawn = [int.from_bytes(randomness(_DRAWN_BYTES), "big") % PRIME for _ in range(threshold - 1)]
    coefficients = [int.from_bytes(secret, "big"), *drawn]
    return tuple(_value(coefficients, x).to_bytes(SHARE_BYTES, "big") for x in range(1, count + 1))


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret of 32 bytes that these shares are of.

    Args:
        shares: by x. Where there are more than `threshold`, those of the smallest x are used.

    Raises:
        ValueError: too few shares, one is malformed, or they are not of one secret (which is noticed by chance only).
    """
    if threshold < 1:
        raise ValueError(text("a threshold of {threshold}; expected at least 1", threshold))
    if len(shares) < threshold:
        raise ValueError(text("{count} shares; expected at least {threshold}", len(shares), threshold))
    points = {x: share_number(x, shares[x]) for x in sorted(shares)[:threshold]}
    secret = value_at(0, points)
    if secret >= 1 << (8 * SECRET_BYTES):
        raise ValueError(text("these shares are not of one secret"))
    return secret.to_bytes(SECRET_BYTES, "big")


def share_number(x: int, share: bytes) -> int:
    """The value of a share, a number modulo PRIME.

    Raises:
        ValueError: x or the length is wrong, or the number is too large.
    """
    if not 1 <= x <= MOST_SHARES:
        raise ValueError(text("a share at {x}; expected 1 to {most}", x, MOST_SHARES))
    if len(share) != SHARE_BYTES or (number := int.from_bytes(share, "big")) >= PRIME:
        raise ValueError(
            text("the share at {x} is no number below 2^256 + 297 in {expected} bytes", x, SHARE_BYTES)
        )
    return number


def value_at(x: int, points: Mapping[int, int]) -> int:
    """The value at x of the polynomial of smallest degree through these points, modulo PRIME."""
    weights = _weights(x, tuple(points))
    return sum(weight * value for weight, value in zip(weights, points.values(), strict=True)) % PRIME


# The holders of all secrets of a sum are mostly the same, and the work grows with their square.
@lru_cache(maxsize=1024)
def _weights(x: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """What the value at each place counts for the value at x (Lagrange)."""
    weights = []
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * (x - other) % PRIME
                below = below * (place - other) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


def _value(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
