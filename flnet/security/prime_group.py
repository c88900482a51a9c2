"""The group in which ids of real people are blinded: the prime-order subgroup of edwards25519, from libsodium.

X25519 would not do: it accepts points of the curve's twist and of small order, and a blinded point shows which kind it
was. Here each element is a point of the subgroup of prime order L (RFC 8032, 5.1), in its one canonical encoding of 32
bytes, and multiplications do not clamp the scalar, so that they commute.

An id becomes an element as in RFC 9380 (hash_to_curve): SHA-512 over a domain separator and the data gives two halves,
each is mapped to a point by Elligator 2 (which alone reaches only half of the points) and by the cofactor into the
subgroup, and the points are added.

PyNaCl comes with the extra `vertical` and is loaded by `ed25519_group`. Versions before 1.6.2 contain a libsodium whose
check lets points through that are not in the subgroup (CVE-2025-69277); `ed25519_group` tries one and refuses them.
"""

from __future__ import annotations

import hashlib
from typing import Any

from flnet.algorithms.vertical.groups import ELEMENT_BYTES, RANDOM_BYTES, Group, neutral, outside, wrong_length
from flnet.errors import AlignmentRefused, TrainerError
from flnet.installing import install
from flnet.text import joined, text

NAME = "edwards25519"
FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_DOMAIN = b"flnet-psi-1.edwards25519\0"
_SIGN = 1 << 255
_ORDER_8 = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
_LOW_ORDER = frozenset({0, FIELD - 1, _ORDER_8, FIELD - _ORDER_8})  # y of the points of orders 4, 2 and 8
_ORDER_2 = (FIELD - 1).to_bytes(ELEMENT_BYTES, "little")


def ed25519_group() -> Group:
    """The group for real data.

    Raises:
        TrainerError: PyNaCl is missing or too old; says how to install it.
    """
    how = text("install it: {command}", install("vertical"))
    try:
        from nacl import bindings, exceptions  # noqa: PLC0415 - an extra; only vertical training needs it

        group = _Ed25519Group(bindings, exceptions.CryptoError)
        mixed = bindings.crypto_core_ed25519_add(group.hash_to_element(b"test"), _ORDER_2)
    except ImportError as exc:
        raise TrainerError(joined([text("vertical training needs PyNaCl, which is not installed"), how])) from exc
    except (AttributeError, exceptions.UnavailableError) as exc:
        raise TrainerError(joined([text("this PyNaCl lacks the functions of edwards25519"), how])) from exc
    if bindings.crypto_core_ed25519_is_valid_point(mixed):
        raise TrainerError(joined([text("this PyNaCl accepts points that are not in the group"), how]))
    return group


class _Ed25519Group:
    """See `flnet.algorithms.vertical.groups.Group`. Scalars are 32 bytes, little-endian, below the order."""

    def __init__(self, bindings: Any, crypto_error: type[Exception]) -> None:
        self._nacl, self._crypto_error = bindings, crypto_error

    @property
    def name(self) -> str:
        return NAME

    def secret(self, random: bytes) -> bytes:
        if len(random) != RANDOM_BYTES:
            raise ValueError(f"random={len(random)} bytes")
        return (int.from_bytes(random, "little") % (ORDER - 1) + 1).to_bytes(ELEMENT_BYTES, "little")

    def inverse(self, secret: bytes) -> bytes:
        return bytes(self._nacl.crypto_core_ed25519_scalar_invert(secret))

    def hash_to_element(self, data: bytes) -> bytes:
        digest = hashlib.sha512(_DOMAIN + data).digest()
        first, second = (self._nacl.crypto_core_ed25519_from_uniform(half) for half in (digest[:32], digest[32:]))
        return bytes(self._nacl.crypto_core_ed25519_add(first, second))

    def blind(self, secret: bytes, element: bytes) -> bytes:
        try:
            return bytes(self._nacl.crypto_scalarmult_ed25519_noclamp(secret, element))
        except (
            self._crypto_error
        ) as exc:  # libsodium looks at the point first, and does not say what is wrong with it
            self.check(element)
            raise AlignmentRefused(text("the element cannot be blinded: {reason}", exc)) from exc

    def check(self, element: bytes) -> None:
        if len(element) != ELEMENT_BYTES:
            raise wrong_length(len(element))
        encoded = int.from_bytes(element, "little")
        y = encoded & (_SIGN - 1)
        if y >= FIELD or (encoded & _SIGN and y in {1, FIELD - 1}):  # there x is 0, which has no sign
            raise AlignmentRefused(text("the encoding of the element is not canonical"))
        if y == 1:
            raise neutral()
        if y in _LOW_ORDER:
            raise AlignmentRefused(text("the element has a low order: blinding would not hide it"))
        if not self._nacl.crypto_core_ed25519_is_valid_point(element):
            raise outside()
