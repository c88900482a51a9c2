"""Public keys as text, and their fingerprints, which people compare: with check characters, and as words."""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import lru_cache

from flnet.spoken import spoken

KEY_BYTES = 32  # of a raw Ed25519 public key (RFC 8032, 5.1.5)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # base32 (RFC 4648, section 6)
GROUP = 4  # characters, before the one that checks them
GROUPS = 13  # of 20 bits each: all of SHA-256
SHORT_GROUPS = 2
SPOKEN_WORDS = 6
_LOOKS_LIKE = str.maketrans("018", "OIB")


def check_key(text: str) -> str:
    """Hand a public key back if it is one: the base64 of 32 bytes, in the one form that stands for them.

    Raises:
        ValueError: it is none.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES or key_text(raw) != text:
        raise ValueError(f"must be the base64 of a public key of {KEY_BYTES} bytes")
    return text


def key_text(raw: bytes) -> str:
    """A raw public key as it stands in messages."""
    return base64.b64encode(raw).decode("ascii")


def fingerprint(key: str) -> str:
    """The SHA-256 of a public key in groups of five characters, the last of which checks the group.

    Args:
        key: the base64 of a public key.

    Returns:
        Thirteen groups with hyphens between them.
    """
    digits = base64.b32encode(_digest(key)).decode("ascii").rstrip("=")
    parts = (digits[at : at + GROUP] for at in range(0, GROUP * GROUPS, GROUP))
    return "-".join(part + _check(number, part) for number, part in enumerate(parts, 1))


@lru_cache(1024)  # the same few keys stand in every view
def short(key: str | None) -> str:
    """The first two groups of the fingerprint, by which people tell keys apart; empty for no key.

    They are no proof: who has some days of computing time can make a key whose fingerprint begins with them.
    """
    return "-".join(fingerprint(key).split("-")[:SHORT_GROUPS]) if key else ""


def words(key: str) -> str:
    """The first 60 bits of the fingerprint as six words, for two people who read them to each other."""
    return spoken(_digest(key), SPOKEN_WORDS)


def words_of(mark: str) -> str:
    """The same six words, for a whole fingerprint in its usual form."""
    digits = "".join(part[:GROUP] for part in mark.split("-"))
    return spoken(base64.b32decode(digits + "=" * (-len(digits) % 8)), SPOKEN_WORDS)


def read_fingerprint(text: str) -> str:
    """A whole fingerprint in its usual form, however typed: small letters, spaces, 0 for O, 1 for I and 8 for B.

    Raises:
        ValueError: it has another length, or a group has a typing error; says which.
    """
    plain = "".join(text.upper().translate(_LOOKS_LIKE).replace("-", " ").split())
    if len(plain) != (GROUP + 1) * GROUPS or not set(plain) <= set(ALPHABET):
        raise ValueError(f"a fingerprint has {GROUPS} groups of {GROUP + 1} letters and digits")
    parts = [plain[at : at + GROUP + 1] for at in range(0, len(plain), GROUP + 1)]
    for number, part in enumerate(parts, 1):
        if _check(number, part[:GROUP]) != part[GROUP]:
            raise ValueError(f"group {number} ({part}) has a typing error")
    return "-".join(parts)


def _digest(key: str) -> bytes:
    return hashlib.sha256(base64.b64decode(key)).digest()


def _check(number: int, part: str) -> str:
    """The character that checks a group.

    A polynomial over the field of 32 elements, at an element of order 31: any one wrong character changes it, and
    so do two neighbours in each other's place, and a group in another place than its own.
    """
    sum_ = number
    for letter in part:
        sum_ = _doubled(sum_) ^ ALPHABET.index(letter)
    return ALPHABET[_doubled(sum_)]


def _doubled(element: int) -> int:
    """Times x, modulo x^5 + x^2 + 1."""
    return element << 1 ^ (0b100101 if element & 0b10000 else 0)
