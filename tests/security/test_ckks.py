"""CKKS: the arithmetic, its errors and noise, and what peers can send."""

from __future__ import annotations

import re
import struct
import sys
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.algorithms.vertical.encryption import PlainScheme, Shape
from flnet.errors import DataMissing, InvalidMessage, LocalError, PeerError
from flnet.installing import install

pytest.importorskip("tenseal", reason="TenSEAL is not installed")

from flnet.security import ckks
from flnet.security.ckks import ERROR, SLOTS, CkksKeys, CkksScheme

SHAPE = Shape(32, 20)


@cache
def pair() -> tuple[CkksKeys, CkksScheme]:
    """The key holder, and a node that got the public key as bytes."""
    keys = CkksKeys()
    return keys, CkksScheme.open_key(keys.public_key())


def sealed(values: Any, columns: int = 1) -> Any:
    keys, node = pair()
    return node.load(keys.seal(np.asarray(values, np.float64), columns), Shape(len(values), columns))


# Arithmetic


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1, 1), (32, 20), (33, 11), (3, 2), (100, 63), (130, 40), (3000, 60), (5000, 1), (2, 4096)],
)
def test_it_computes_what_its_twin_does(rows: int, columns: int) -> None:
    keys, node = pair()
    chance = np.random.default_rng(rows)
    mask, u, v = chance.integers(0, 2, rows).astype(float), chance.normal(size=rows), chance.normal(size=rows)
    matrix = chance.normal(size=(rows, columns))
    one = sealed(mask, columns)
    residual = node.load(node.dump(node.rerandomise(node.multiply(one, u))), Shape(rows, columns))
    combined = node.add(residual, node.rerandomise(node.multiply(one, v)))
    total = node.total(node.rerandomise(node.multiply(combined, matrix)))
    received = keys.load(node.dump(total), Shape(rows, columns, summed=True))
    assert keys.decrypt(keys.load(node.dump(combined), Shape(rows, columns))) == pytest.approx(
        mask * (u + v), abs=6 * ERROR
    )
    norm = max(1.0, np.linalg.norm(matrix, axis=0).max())
    assert keys.decrypt(received) == pytest.approx(matrix.T @ (mask * (u + v)), abs=6 * ERROR * norm)


def test_sums_differences_and_numbers() -> None:
    keys, node = pair()
    values, other = np.arange(5.0), np.array([2.0, -1, 0, 7, 1])
    left, right = node.encrypt(values, 2), node.encrypt(other, 2)
    assert keys.decrypt(node.subtract(left, right)) == pytest.approx(values - other, abs=1e-6)
    assert keys.decrypt(node.multiply(left, -2.5)) == pytest.approx(-2.5 * values, abs=1e-6)
    lower = node.multiply(left, 2.0)
    assert keys.decrypt(node.add(lower, right)) == pytest.approx(2 * values + other, abs=1e-6)
    assert keys.decrypt(node.multiply(node.total(left), np.array([[3.0, 4]]))) == pytest.approx([30, 40], abs=1e-6)


def test_a_product_with_zeros_is_an_encryption_of_zero() -> None:
    keys, node = pair()
    product = node.rerandomise(node.multiply(sealed(np.ones(3)), np.zeros(3)))
    assert keys.decrypt(node.load(node.dump(product), Shape(3))) == pytest.approx([0, 0, 0], abs=1e-8)


def test_totals_leave_no_part_of_a_sum_in_any_slot() -> None:
    """The key holder decrypts all slots, so no row of a product may be left in one."""
    keys, node = pair()
    chance = np.random.default_rng(0)
    values, matrix = chance.normal(size=32), chance.normal(size=(32, 20))
    total = node.rerandomise(node.total(node.multiply(sealed(values, 20), matrix)))
    slots = np.array(keys._decrypted(node._settled(total).parts[0])).reshape(32, 128)
    expected = np.pad(matrix.T @ values, (0, 108))
    assert np.abs(slots - expected).max() < 1e-7


def test_only_two_products_fit() -> None:
    keys, node = pair()
    twice = node.multiply(node.multiply(sealed([1.0, 2]), 3.0), 4.0)
    assert keys.decrypt(twice) == pytest.approx([12, 24], abs=1e-6)
    with pytest.raises(LocalError, match="more often than its parameters allow"):
        node.multiply(twice, 1.0)


def test_what_cannot_be_done_is_refused() -> None:
    _, node = pair()
    with pytest.raises(LocalError, match="re-randomised"):
        node.dump(node.multiply(sealed([1.0]), 2.0))
    with pytest.raises(LocalError, match="different shapes"):
        node.add(sealed([1.0]), sealed([1.0, 2]))
    with pytest.raises(LocalError, match="another scheme"):
        node.rerandomise(PlainScheme().encrypt(np.ones(1)))
    with pytest.raises(LocalError, match="totals only"):
        node.flood(sealed([1.0]), 1.0)
    with pytest.raises(LocalError, match="too large"):
        node.encrypt(np.array([1e300]))
    assert not hasattr(node, "decrypt")
    assert not hasattr(node, "_decryptor")


# Noise and randomness


def test_the_same_numbers_are_never_the_same_bytes() -> None:
    keys, node = pair()
    product = node.multiply(sealed([1.0, 2]), 3.0)
    assert node.dump(node.rerandomise(product)) != node.dump(node.rerandomise(product))
    assert keys.seal(np.ones(2)) != keys.seal(np.ones(2))
    assert node.dump(node.encrypt(np.ones(2))) != node.dump(node.encrypt(np.ones(2)))


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    keys, node = pair()
    total = node.total(node.rerandomise(node.multiply(sealed(np.ones(2), 2000), np.ones((2, 2000)))))
    flooded = keys.decrypt(node.flood(total, 0.25)) - 2
    assert flooded.std() == pytest.approx(0.25, rel=0.1)
    assert abs(flooded.mean()) < 0.03
    noisy = keys.decrypt(total, 0.5) - 2
    assert noisy.std() == pytest.approx(0.5, rel=0.1)
    assert np.abs(keys.decrypt(node.flood(total, 0.0)) - 2).max() < 1e-7


def test_noise_grows_with_what_is_told() -> None:
    _, node = pair()
    once = node.flooding(1, 1, 1.0)
    assert once == pytest.approx(np.sqrt(12) * 2**15 * ERROR)
    assert node.flooding(280, 31, 17.0) == pytest.approx(once * np.sqrt(280 * 31) * 17)
    assert node.flooding(1, 1, 0.1) == once


# What peers send


@cache
def sample(kind: str) -> bytes:
    keys, node = pair()
    if kind == "key":
        return keys.public_key()
    whole = node.multiply(sealed(np.arange(32.0), 20), 1.5)
    return node.dump(node.rerandomise(whole))


def read(kind: str, data: bytes) -> None:
    if kind == "key":
        CkksScheme.open_key(data)
    else:
        pair()[1].load(data, SHAPE)


@given(st.integers(0, 10**6), st.integers(1, 255))
@example(0, 1)
@example(5, 1)
@example(9, 255)
@example(11, 255)
@example(15, 255)
@example(19, 255)
@example(34, 255)
@example(40, 255)
def test_a_damaged_ciphertext_is_refused_or_still_one(at: int, change: int) -> None:
    """Any changed byte gives an error of a peer, or another valid ciphertext: there is no checksum, nor a crash."""
    keys, node = pair()
    data = bytearray(sample("ciphertext"))
    data[at % len(data)] ^= change
    try:
        loaded = node.load(bytes(data), SHAPE)
    except PeerError:
        return
    assert loaded.shape == SHAPE
    assert np.isfinite(keys.decrypt(loaded)).all()


@given(st.integers(0, 10**6))
@example(0)
@example(17)
@example(33)
def test_a_ciphertext_that_is_cut_off_is_refused(length: int) -> None:
    data = sample("ciphertext")
    with pytest.raises(PeerError):
        pair()[1].load(data[: length % len(data)], SHAPE)


@pytest.mark.parametrize("kind", ["ciphertext", "key"])
def test_bytes_behind_or_before_are_refused(kind: str) -> None:
    data = sample(kind)
    for wrong in (data + b"\0", b"\0" + data, data + data, b"", data[:10], data[:-1], b"x" * len(data)):
        with pytest.raises(PeerError):
            read(kind, wrong)


@pytest.mark.parametrize("at", [0, 4, 8, 14, 20, 100, 480_000, 500_000, 5_000_000, -1])
def test_a_damaged_key_is_refused_or_still_one(at: int) -> None:
    data = bytearray(sample("key"))
    data[at] ^= 0x55
    with suppress(PeerError):
        assert CkksScheme.open_key(bytes(data)).encrypt(np.ones(2)).shape == Shape(2)


def test_a_key_without_rotations_is_refused() -> None:
    keys = CkksKeys()
    few = keys._file.save(keys._generator.create_galois_keys([3]))
    public = keys._file.save(keys._public_key)
    head = struct.pack("<4sBII", b"flPK", 1, len(public), len(few))
    with pytest.raises(InvalidMessage, match="lacks keys for rotations"):
        CkksScheme.open_key(head + public + few)


@pytest.mark.parametrize("shape", [Shape(31, 20), Shape(32, 19), Shape(32, 20, summed=True), Shape(5000, 20)])
def test_another_shape_is_refused(shape: Shape) -> None:
    with pytest.raises(InvalidMessage, match="expected shape"):
        pair()[1].load(sample("ciphertext"), shape)


def seal_body(data: bytes) -> tuple[bytes, bytes]:
    """Our head, and SEAL's bytes of the only part."""
    begins = ckks._HEAD.size + 4
    return data[: ckks._HEAD.size], data[begins:]


def with_frame(frame: bytes, mode: int = 2) -> bytes:
    head, body = seal_body(sample("ciphertext"))
    size = 16 + len(frame)
    return head + struct.pack("<I", size) + body[:5] + bytes([mode, 0, 0]) + struct.pack("<Q", size) + frame


def raw() -> bytearray:
    """What SEAL compressed: parms_id (32 bytes), form, size, degree, moduli, and from byte 57 the scale."""
    _, body = seal_body(sample("ciphertext"))
    return bytearray(zstandard.ZstdDecompressor().decompressobj().decompress(body[16:]))


def packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=False).compress(data)


def test_a_ciphertext_that_was_packed_again_is_read() -> None:
    pair()[1].load(with_frame(packed(bytes(raw()))), SHAPE)


@pytest.mark.parametrize("scale", [2.0**44, 2.0**46, -1.0, 0.0, float("nan"), float("inf")])
def test_another_scale_is_refused(scale: float) -> None:
    data = raw()
    data[57:65] = struct.pack("<d", scale)
    with pytest.raises(InvalidMessage):
        pair()[1].load(with_frame(packed(bytes(data))), SHAPE)


@pytest.mark.parametrize("at", [0, 33, 41, 49, 65])
def test_another_level_or_size_is_refused(at: int) -> None:
    data = raw()
    data[at : at + 8] = struct.pack("<Q", 2**40)
    with pytest.raises(InvalidMessage, match="damaged"):
        pair()[1].load(with_frame(packed(bytes(data))), SHAPE)


def test_what_would_unpack_to_gigabytes_is_refused_unread() -> None:
    """SEAL before 4.3 unpacks all of a frame: 40 KB of repeated bytes become a gigabyte."""
    repeated = struct.pack("<I", (2**17 << 3 | 1 << 1))[:3] + b"\0"  # a block that repeats one byte 2^17 times
    last = struct.pack("<I", (2**17 << 3 | 1 << 1 | 1))[:3] + b"\0"
    begin = b"\x28\xb5\x2f\xfd\x00\x58"
    frame, small = begin + 8000 * repeated + last, begin + 2 * repeated + last
    assert zstandard.ZstdDecompressor().decompressobj().decompress(small) == bytes(3 * 2**17)
    whole = packed(bytes(raw()) + bytes(2**24))
    for wrong in (frame, small, whole, packed(bytes(raw())) + frame):
        with pytest.raises(InvalidMessage):
            pair()[1].load(with_frame(wrong), SHAPE)


def test_another_version_of_seal_is_named() -> None:
    data = bytearray(sample("ciphertext"))
    major, minor = data[ckks._HEAD.size + 4 + 3 :][:2]
    data[ckks._HEAD.size + 4 + 4] += 1
    with pytest.raises(InvalidMessage, match=rf"SEAL {major}\.{minor + 1} and this one with {major}\.{minor}"):
        pair()[1].load(bytes(data), SHAPE)


@pytest.mark.parametrize("mode", [0, 1, 3])
def test_other_compressions_are_refused(mode: int) -> None:
    with pytest.raises(InvalidMessage, match="frame"):
        pair()[1].load(with_frame(bytes(raw()), mode), SHAPE)


def test_a_ciphertext_that_anybody_can_read_is_refused() -> None:
    """Its second polynomial is 0: the first one is the plain text."""
    data = raw()
    data[len(data) - 2 * 8192 * 8 :] = bytes(2 * 8192 * 8)
    with pytest.raises(InvalidMessage, match="level or scale"):
        pair()[1].load(with_frame(packed(bytes(data))), SHAPE)


def test_without_tenseal_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(DataMissing, match="TenSEAL, which is not installed.*" + re.escape(install("vertical"))):
        CkksKeys()


def test_where_there_are_no_files_in_memory_a_temporary_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create", raising=False)
    keys = CkksKeys()
    node = CkksScheme.open_key(keys.public_key())
    received = node.load(keys.seal(np.arange(3.0)), Shape(3))
    assert keys.decrypt(received) == pytest.approx([0, 1, 2], abs=1e-8)


def test_the_parameters_are_those_of_128_bits() -> None:
    """At degree 8192 the standard allows 218 bits in all."""
    assert ckks.DEGREE == 8192
    assert sum(ckks.MODULI) <= 218
    assert SLOTS == 4096
    levels = pair()[0]._levels
    assert [prime.bit_length() for prime in (int(prime) for _, prime in levels)] == list(ckks.MODULI[:-1])
