"""Changes to bytes that are likely to reach a reader's far corners; all chance comes from one generator."""

from __future__ import annotations

from random import Random

NUMBERS = (
    b"0",
    b"-1",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"1e-400",
    b"9223372036854775808",
    b"0.1",
    b"2.0",
)
TOKENS = (
    *NUMBERS,
    *(b"null", b"true", b'""', b"[]", b"{}", b"[[", b'{"":', b'"\\ud800"', b'"\\u0000"', b",", b":", b"]", b"}"),
    *(
        b"__metadata__",
        b"message",
        b"scales",
        b"blocks",
        b"flnet",
        b"dtype",
        b"shape",
        b"data_offsets",
        b"F32",
        b"I8",
        b"BOOL",
    ),
    *(
        b"modelParams",
        b"iAm",
        b"round",
        b"members",
        b"news",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\x00",
        b"\x1b[",
    ),
)
LENGTHS = (0, 1, 7, 8, 9, 127, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
MOST_BYTES = 8192  # of an input: what lies in there is found sooner in small ones
_PREFIX = 8  # bytes that hold the length of a tensor file's header


def mutated(rng: Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """The seed changed in up to eight places; now and then its header's length is made right again.

    Args:
        rng: all chance.
        seed: what is changed.
        seeds: of which pieces may be put in.
    """
    data = bytearray(seed)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 8))):
        rng.choice(_WAYS)(rng, data, seeds)
    del data[MOST_BYTES:]
    if rng.random() < 0.3:
        _fit_length(data)
    return bytes(data)


def nested(rng: Random, depth: int) -> bytes:
    """Brackets in brackets, closed or not."""
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"modelParams":[', b"]}")))
    return opened * depth + b"0" + closed * rng.choice((0, depth))


def _at(rng: Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put(rng: Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _insert(rng: Random, data: bytearray, _: list[bytes]) -> None:
    at = _at(rng, data)
    data[at:at] = rng.choice(TOKENS)


def _replace(rng: Random, data: bytearray, _: list[bytes]) -> None:
    token, at = rng.choice(TOKENS), _at(rng, data)
    data[at : at + len(token)] = token


def _number(rng: Random, data: bytearray, _: list[bytes]) -> None:
    """Another number where one stands."""
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if digits:
        at = rng.choice(digits)
        data[at : at + 1] = rng.choice(NUMBERS)


def _cut(rng: Random, data: bytearray, _: list[bytes]) -> None:
    at = _at(rng, data)
    del data[at : at + rng.choice((1, 2, 8, 64, len(data)))]


def _repeat(rng: Random, data: bytearray, _: list[bytes]) -> None:
    at, size = _at(rng, data), rng.choice((1, 4, 16, 64))
    data[at:at] = data[at : at + size] * rng.choice((1, 2, 30))


def _join(rng: Random, data: bytearray, seeds: list[bytes]) -> None:
    """Go on as another seed does."""
    other = rng.choice(seeds)
    data[_at(rng, data) :] = other[rng.randrange(len(other) + 1) :]


def _length(rng: Random, data: bytearray, _: list[bytes]) -> None:
    data[:_PREFIX] = rng.choice(LENGTHS).to_bytes(_PREFIX, "little")


def _fit_length(data: bytearray) -> None:
    """Let the header end where its last bracket does."""
    end = bytes(data).rfind(b"}") + 1
    if end > _PREFIX:
        data[:_PREFIX] = (end - _PREFIX).to_bytes(_PREFIX, "little")


_WAYS = (_flip, _put, _insert, _insert, _replace, _number, _number, _cut, _repeat, _join, _length)
