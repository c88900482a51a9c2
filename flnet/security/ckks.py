"""CKKS: additive encryption of vectors of real numbers, by TenSEAL's bindings of Microsoft SEAL (extra `vertical`).

Cheon, Kim, Kim, Song, "Homomorphic Encryption for Arithmetic of Approximate Numbers", Asiacrypt 2017. The parameters
are constants, so no peer can choose weak ones:

    degree of the polynomials   8192, so 4096 numbers in a ciphertext
    coefficient moduli          60, 45, 45 and 60 bits, of which the last is for the rotations: 210 bits in all
    scale                       2^45
    depth                       2 products with known numbers, each of which takes one modulus of 45 bits

The table of the Homomorphic Encryption Standard (Albrecht et al. 2018) allows 218 bits at this degree for 128-bit
security against classical computers, with ternary secrets; SEAL itself checks this.

A table of `rows` x `columns` stands in the slots row by row, in D columns where D is a power of two. Then the rows are
added by rotations of D, 2D, 4D ... slots through the whole ring, which leaves the totals in every row and nothing else:
no slot holds a part of a sum that the key holder could see.

CKKS is approximate: a decrypted value has the errors of the encryption in it, and whoever knows the ciphertext can
learn the key from many of them (Li, Micciancio, "On the Security of Homomorphic Encryption on Approximate Numbers",
Eurocrypt 2021). `CkksScheme.flooding` is the noise that prevents it, after Li, Micciancio, Schultz, Sorrell, "Securing
Approximate Homomorphic Encryption Using Differential Privacy", Crypto 2022.

What peers send is read by SEAL, in C++. Before that, lengths are compared with the only ones that are possible, and the
frames of the compression are counted: SEAL before 4.3 unpacks whatever there is, 400 KB to 5 GB. Nodes should still
read ciphertexts in the training child, which they survive.
"""

from __future__ import annotations

import math
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from flnet.algorithms.vertical.encryption import (
    Ciphertext,
    Encryption,
    Matrix,
    Shape,
    Vector,
    check_alike,
    check_fresh,
    spread,
    wrong_size,
)
from flnet.errors import DataMissing, InvalidMessage, LocalError
from flnet.installing import install
from flnet.security.noise import system_normal
from flnet.text import text

DEGREE = 8192
MODULI = (60, 45, 45, 60)  # bits; the last one is used by rotations only
SCALE = 2.0**45
SLOTS = DEGREE // 2
FRESH = len(MODULI) - 2  # the level of a new ciphertext; a product takes one, and at level 0 none is left
# At level 0 there are 60 bits, 45 of them behind the point and one for the sign; half is kept free.
CAPACITY = 2.0**13

FLOODING_BITS = 30
"""Statistical security of the noise, for all values together that are decrypted under one key."""
ERROR = 1.5e-10
"""Bound of the error of a total, for each unit of the norm of its factors: three standard deviations, as measured."""

_HEAD = struct.Struct("<4sBBIHI?")  # magic, version, level, rows, columns, parts, summed
_KEY_HEAD = struct.Struct("<4sBII")  # magic, version, bytes of the public key and of the rotation keys
_PART = struct.Struct("<I")
_MAGIC, _KEY_MAGIC, _VERSION = b"flCT", b"flPK", 1
# Magic, bytes of this head, version, version, compression, reserved, all bytes.
_SEAL_HEAD = struct.Struct("<HBBBBHQ")
_SEAL_MAGIC, _ZSTD = 0xA15E, 2
_FRAME_MAGIC = bytes.fromhex("28b52ffd")
_BLOCK = 2**17  # bytes that a block of a zstd frame unpacks to, at most
_WORD = 8


class CkksTable:
    """A ciphertext: one or more of SEAL's, each with as many rows as fit."""

    __slots__ = ("fresh", "level", "parts", "pending", "shape")

    def __init__(
        self, parts: tuple[Any, ...], shape: Shape, level: int, fresh: bool, pending: bool = False
    ) -> None:
        """Made by a scheme.

        Args:
            parts: SEAL's ciphertexts.
            shape: what they hold.
            level: products that are left.
            fresh: whether it may leave this node.
            pending: it is a product and still has both scales; dividing late keeps the error small.
        """
        self.parts, self.shape, self.level, self.fresh, self.pending = parts, shape, level, fresh, pending


@dataclass(frozen=True)
class _Layout:
    """How a table stands in the slots: `height` rows in each part, `width` slots from row to row."""

    height: int
    width: int
    parts: int

    @classmethod
    def of(cls, shape: Shape) -> _Layout:
        """The layout with the fewest rotations."""
        columns = _power_of_two(shape.columns)
        if columns > SLOTS:
            raise LocalError(text("a ciphertext of {columns} columns; at most {most} fit", shape.columns, SLOTS))
        width = max(columns, SLOTS // _power_of_two(min(shape.rows, SLOTS // columns)))
        height = SLOTS // width
        return cls(height, width, 1 if shape.summed else -(-shape.rows // height))

    def slots(self, table: Matrix) -> NDArray[np.float64]:
        """The slots of each part, (parts, SLOTS)."""
        filled = np.zeros((self.parts * self.height, self.width))
        filled[: table.shape[0], : table.shape[1]] = table
        return filled.reshape(self.parts, SLOTS)


class CkksScheme:
    """CKKS with the public key. Not for several threads at once."""

    capacity = CAPACITY

    def __init__(self) -> None:
        """Prepare the parameters; the keys follow."""
        self._seal = _sealapi()
        seal = self._seal
        parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(DEGREE)
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, list(MODULI)))
        self._context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
        self._encoder, self._evaluator = seal.CKKSEncoder(self._context), seal.Evaluator(self._context)
        self._file = _SealFile()
        self._version = tuple(_SEAL_HEAD.unpack_from(self._file.save(parameters))[2:4])  # SEAL's, as it writes it
        self._public_key, self._rotation_keys = seal.PublicKey(), seal.GaloisKeys()
        self._encryptor: Any = None
        self._levels = _levels(self._context)  # parms_id and last prime of each level, from 0 up

    @property
    def version(self) -> str:
        """The version of SEAL; another one cannot read what this one writes."""
        return ".".join(map(str, self._version))

    @classmethod
    def open_key(cls, data: bytes) -> CkksScheme:
        """The scheme of a public key that a peer sent.

        Raises:
            InvalidMessage: it is no such key.
            DataMissing: TenSEAL is not installed.
        """
        scheme = cls()
        public, rotations = _parts_of_key(data, scheme._version)
        with _seal_errors():
            scheme._file.load(scheme._public_key, scheme._context, public)
            scheme._file.load(scheme._rotation_keys, scheme._context, rotations)
            complete = all(scheme._rotation_keys.has_key(element) for element in _rotations())
        if not complete:
            raise InvalidMessage(text("the public key lacks keys for rotations"))
        scheme._encryptor = scheme._seal.Encryptor(scheme._context, scheme._public_key)
        return scheme

    def flooding(self, decryptions: int, values: int, norm: float) -> float:
        """sqrt(12 decryptions) 2^(bits / 2) times the error of all values (Li et al. 2022), 30 bits."""
        error = ERROR * max(1.0, norm) * math.sqrt(values)
        return math.sqrt(12 * decryptions * 2.0**FLOODING_BITS) * error

    def encrypt(self, values: Vector, columns: int = 1) -> CkksTable:
        """Encrypt with the public key."""
        rows = np.asarray(values, np.float64)
        shape = Shape(len(rows), columns)
        return CkksTable(tuple(map(self._encrypted, self._encoded_rows(rows, shape))), shape, FRESH, fresh=True)

    def add(self, left: Ciphertext, right: Ciphertext) -> CkksTable:
        """The sum, at the lower level of the two."""
        return self._combine(self._evaluator.add, left, right)

    def subtract(self, left: Ciphertext, right: Ciphertext) -> CkksTable:
        """The difference, at the lower level of the two."""
        return self._combine(self._evaluator.sub, left, right)

    def multiply(self, sealed: Ciphertext, plain: float | Vector | Matrix) -> CkksTable:
        """Entry by entry; takes one level.

        Raises:
            LocalError: no level is left.
        """
        table = self._settled(_own(sealed))
        if table.level == 0:
            raise LocalError(text("a ciphertext was multiplied more often than its parameters allow"))
        parms_id, prime = self._levels[table.level]
        layout = _Layout.of(table.shape)
        factors = spread(plain, table.shape)
        if table.shape.summed:
            factors = np.tile(factors, (layout.height, 1))
        with _seal_errors():
            encoded = [self._encode(slots, parms_id, prime) for slots in layout.slots(factors)]
            parts = tuple(self._product(*pair, table.level) for pair in zip(table.parts, encoded, strict=True))
        return CkksTable(parts, table.shape, table.level, fresh=False, pending=True)

    def total(self, sealed: Ciphertext) -> CkksTable:
        """The sum of the rows, in every row."""
        table = _own(sealed)
        layout = _Layout.of(table.shape)
        with _seal_errors():
            total = table.parts[0]
            for part in table.parts[1:]:
                total = self._made(self._evaluator.add, total, part)
            step = layout.width
            while step < SLOTS:
                turned = self._made(self._evaluator.rotate_vector, total, step, self._rotation_keys)
                total = self._made(self._evaluator.add, total, turned)
                step *= 2
        shape = Shape(table.shape.rows, table.shape.columns, summed=True)
        return CkksTable((total,), shape, table.level, table.fresh, table.pending)

    def rerandomise(self, sealed: Ciphertext) -> CkksTable:
        """Add a fresh encryption of zero, of the same scale."""
        table = _own(sealed)
        with _seal_errors():
            parts = tuple(
                self._made(self._evaluator.add, part, self._zero(table.level, part.scale)) for part in table.parts
            )
        return CkksTable(parts, table.shape, table.level, fresh=True, pending=table.pending)

    def flood(self, sealed: Ciphertext, deviation: float) -> CkksTable:
        """Add Gaussian noise to the totals, to the real and to the imaginary part, the same in every row."""
        table = self._settled(_own(sealed))
        if not table.shape.summed:
            raise LocalError(text("noise is added to totals only"))
        if not deviation:
            return table
        layout = _Layout.of(table.shape)
        noise = deviation * (system_normal(layout.width) + 1j * system_normal(layout.width))
        parms_id, _ = self._levels[table.level]
        with _seal_errors():
            plain = self._encode(np.tile(noise, layout.height), parms_id, SCALE)
            part = self._made(self._evaluator.add_plain, table.parts[0], plain)
        return CkksTable((part,), table.shape, table.level, table.fresh)

    def dump(self, sealed: Ciphertext) -> bytes:
        """A head with shape and level, and SEAL's bytes of each part."""
        table = self._settled(_own(sealed))
        check_fresh(table)
        return self._dumped(table.shape, table.level, [self._file.save(part) for part in table.parts])

    def load(self, data: bytes, shape: Shape) -> CkksTable:
        """Read what `dump` wrote, of this shape, at any level and of the usual scale."""
        layout = _Layout.of(shape)
        level, bodies = _parts_of_ciphertext(data, shape, layout.parts, self._version)
        parts = []
        for body in bodies:
            part = self._seal.Ciphertext()
            with _seal_errors():
                self._file.load(part, self._context, body)
                right = part.parms_id() == self._levels[level][0] and part.scale == SCALE and part.size() == 2
                right = right and part.is_ntt_form() and not part.is_transparent()
            if not right:
                raise InvalidMessage(text("a ciphertext has another level or scale than expected"))
            parts.append(part)
        return CkksTable(tuple(parts), shape, level, fresh=False)

    def _combine(self, operation: Any, left: Ciphertext, right: Ciphertext) -> CkksTable:
        check_alike(left, right)
        one, other = _own(left), _own(right)
        if (one.level, one.pending) != (other.level, other.pending):
            one, other = self._settled(one), self._settled(other)
            level = min(one.level, other.level)
            one, other = self._lowered(one, level), self._lowered(other, level)
        with _seal_errors():
            parts = tuple(self._made(operation, *pair) for pair in zip(one.parts, other.parts, strict=True))
        return CkksTable(parts, one.shape, one.level, one.fresh or other.fresh, one.pending)

    def _product(self, part: Any, plain: Any, level: int) -> Any:
        if plain.is_zero():  # SEAL refuses a product that shows that it is zero
            return self._zero(level, SCALE * self._levels[level][1])
        return self._made(self._evaluator.multiply_plain, part, plain)

    def _settled(self, table: CkksTable) -> CkksTable:
        """A product at the usual scale, one level lower."""
        if not table.pending:
            return table
        with _seal_errors():
            parts = tuple(self._made(self._evaluator.rescale_to_next, part) for part in table.parts)
        return CkksTable(parts, table.shape, table.level - 1, table.fresh)

    def _lowered(self, table: CkksTable, level: int) -> CkksTable:
        parts = table.parts
        for _ in range(table.level - level):
            with _seal_errors():
                parts = tuple(self._made(self._evaluator.mod_switch_to_next, part) for part in parts)
        return CkksTable(parts, table.shape, level, table.fresh)

    def _zero(self, level: int, scale: float) -> Any:
        """A fresh encryption of zero."""
        zero = self._seal.Ciphertext()
        self._encryptor.encrypt_zero(self._levels[level][0], zero)
        zero.scale = scale
        return zero

    def _made(self, operation: Any, *arguments: Any) -> Any:
        """What an operation of SEAL writes into its last argument."""
        made = self._seal.Ciphertext()
        operation(*arguments, made)
        return made

    def _encode(self, slots: Any, parms_id: Any, scale: float) -> Any:
        plain = self._seal.Plaintext()
        try:
            self._encoder.encode(slots.tolist(), parms_id, scale, plain)
        except ValueError as exc:
            raise LocalError(text("a number is too large to be encrypted: {reason}", exc)) from exc
        return plain

    def _encoded_rows(self, rows: Vector, shape: Shape) -> list[Any]:
        slots = _Layout.of(shape).slots(spread(rows, shape))
        return [self._encode(part, self._levels[FRESH][0], SCALE) for part in slots]

    def _encrypted(self, plain: Any) -> Any:
        return self._made(self._encryptor.encrypt, plain)

    @staticmethod
    def _dumped(shape: Shape, level: int, bodies: list[bytes]) -> bytes:
        head = _HEAD.pack(_MAGIC, _VERSION, level, shape.rows, shape.columns, len(bodies), shape.summed)
        return b"".join([head, *(piece for body in bodies for piece in (_PART.pack(len(body)), body))])


class CkksKeys(CkksScheme):
    """CKKS with the secret key, which is made here and never written anywhere."""

    def __init__(self) -> None:
        """Make new keys; takes a tenth of a second.

        Raises:
            DataMissing: TenSEAL is not installed.
        """
        super().__init__()
        seal = self._seal
        self._generator = seal.KeyGenerator(self._context)
        secret = self._generator.secret_key()
        self._generator.create_public_key(self._public_key)
        self._generator.create_galois_keys(_rotations(), self._rotation_keys)
        self._encryptor = seal.Encryptor(self._context, self._public_key, secret)
        self._decryptor = seal.Decryptor(self._context, secret)

    def public_key(self) -> bytes:
        """The public key and the keys for rotations, 9 MB."""
        public = self._file.save(self._public_key)
        rotations = self._file.save(self._generator.create_galois_keys(_rotations()))  # as seeds: half the bytes
        return _KEY_HEAD.pack(_KEY_MAGIC, _VERSION, len(public), len(rotations)) + public + rotations

    def seal(self, values: Vector, columns: int = 1) -> bytes:
        """Encrypt with the secret key: half of it is then a seed, and the error is smaller."""
        rows = np.asarray(values, np.float64)
        shape = Shape(len(rows), columns)
        sealed = [self._encryptor.encrypt_symmetric(plain) for plain in self._encoded_rows(rows, shape)]
        return self._dumped(shape, FRESH, [self._file.save(part) for part in sealed])

    def decrypt(self, sealed: Ciphertext, deviation: float = 0.0) -> Vector:
        """The values, with noise of this standard deviation."""
        table = self._settled(_own(sealed))
        layout = _Layout.of(table.shape)
        slots = np.array([self._decrypted(part) for part in table.parts]).reshape(-1, layout.width)
        values = slots.mean(axis=0)[: table.shape.columns] if table.shape.summed else slots[: table.shape.rows, 0]
        return values + deviation * system_normal(len(values)) if deviation else values

    def _decrypted(self, part: Any) -> list[float]:
        plain = self._seal.Plaintext()
        with _seal_errors():
            self._decryptor.decrypt(part, plain)
            decoded: list[float] = self._encoder.decode_double(plain)
        return decoded


def _name() -> str:
    return f"CKKS {DEGREE}, SEAL {CkksScheme().version}"


CKKS = Encryption(_name, CkksKeys, CkksScheme.open_key)


class _SealFile:
    """A file in memory: the bindings read and write files only."""

    def __init__(self) -> None:
        """Linux has files that are in no folder; elsewhere it is a temporary one."""
        self._named: IO[bytes] | None = None
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("flnet-ciphertext")
            self._path = f"/proc/self/fd/{self._descriptor}"
        else:
            self._named = tempfile.NamedTemporaryFile(prefix="flnet-ciphertext-")  # noqa: SIM115 - closed in __del__
            self._descriptor, self._path = self._named.fileno(), self._named.name

    def __del__(self) -> None:
        if self._named is not None:
            self._named.close()
        elif hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def save(self, thing: Any) -> bytes:
        """The bytes of something of SEAL."""
        thing.save(self._path)
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, size, 0)

    def load(self, thing: Any, context: Any, data: bytes) -> None:
        """Read something of SEAL, which checks that it fits the parameters."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)
        thing.load(context, self._path)


def _sealapi() -> Any:
    try:
        from tenseal import sealapi  # noqa: PLC0415 - an extra
    except ImportError as exc:
        what = text("encrypted training needs TenSEAL, which is not installed")
        raise DataMissing(what, text("install it: {command}", install("vertical"))) from exc
    return sealapi


@contextmanager
def _seal_errors() -> Iterator[None]:
    """SEAL's exceptions as a fault of what a peer sent: nothing else can bring them about here."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError, IndexError, OverflowError) as exc:
        raise InvalidMessage(text("a ciphertext or a key is damaged: {reason}", str(exc)[:200])) from exc


def _levels(context: Any) -> list[tuple[Any, float]]:
    """parms_id and last prime of each level, level 0 first."""
    levels = []
    data = context.get_context_data(context.first_parms_id())
    while data is not None:
        levels.append((data.parms_id(), float(data.parms().coeff_modulus()[-1].value())))
        data = data.next_context_data()
    return levels[::-1]


def _rotations() -> list[int]:
    """The Galois elements of rotations by 1, 2, 4 ... slots: powers of 3 modulo twice the degree, as SEAL numbers them."""
    return [pow(3, 2**power, 2 * DEGREE) for power in range(SLOTS.bit_length() - 1)]


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (number - 1).bit_length()


def _own(sealed: Ciphertext) -> CkksTable:
    if not isinstance(sealed, CkksTable):
        raise LocalError(text("this ciphertext is of another scheme"))
    return sealed


def _plain_bytes(level: int) -> int:
    """Bytes of a ciphertext of SEAL before compression, at most."""
    return 2 * (level + 1) * DEGREE * _WORD + 1024


def _parts_of_ciphertext(
    data: bytes, shape: Shape, count: int, version_of_seal: tuple[int, ...]
) -> tuple[int, list[bytes]]:
    """Level, and the bytes of each part, none of which SEAL has seen yet."""
    if len(data) < _HEAD.size:
        raise wrong_size(len(data), _HEAD.size)
    magic, version, level, rows, columns, parts, summed = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or level > FRESH:
        raise InvalidMessage(text("this is no ciphertext of this scheme"))
    if (rows, columns, summed, parts) != (shape.rows, shape.columns, shape.summed, count):
        raise InvalidMessage(text("this is no ciphertext of the expected shape"))
    bodies, at, most = [], _HEAD.size, _plain_bytes(level)
    for _ in range(count):
        size = _PART.unpack_from(data, at)[0] if at + _PART.size <= len(data) else 0
        body = data[at + _PART.size : at + _PART.size + size]
        _check_seal(body, size, most, version_of_seal)
        bodies.append(body)
        at += _PART.size + size
    if at != len(data):
        raise wrong_size(len(data), at)
    return level, bodies


def _parts_of_key(data: bytes, version_of_seal: tuple[int, ...]) -> tuple[bytes, bytes]:
    """The bytes of the public key and of the rotation keys."""
    if len(data) < _KEY_HEAD.size:
        raise InvalidMessage(text("this is no public key of this scheme"))
    magic, version, public, rotations = _KEY_HEAD.unpack_from(data)
    if magic != _KEY_MAGIC or version != _VERSION or len(data) != _KEY_HEAD.size + public + rotations:
        raise InvalidMessage(text("this is no public key of this scheme"))
    parts = data[_KEY_HEAD.size : _KEY_HEAD.size + public], data[_KEY_HEAD.size + public :]
    each = 2 * len(MODULI) * DEGREE * _WORD + 1024
    _check_seal(parts[0], public, each, version_of_seal)
    _check_seal(parts[1], rotations, len(_rotations()) * (len(MODULI) - 1) * each, version_of_seal)
    return parts


def _check_seal(body: bytes, size: int, most: int, version: tuple[int, ...]) -> None:
    """Refuse what cannot be something of SEAL, or would take more than `most` bytes unpacked.

    Raises:
        InvalidMessage: it is cut off, no zstd frame, too large, or of another version, which this one cannot read.
    """
    damaged = InvalidMessage(text("a ciphertext or a key is damaged: {reason}", "frame"))
    if not _SEAL_HEAD.size < size == len(body) <= most + most // 64:
        raise wrong_size(len(body), size if size <= most else most)
    magic, head, major, minor, compression, _, length = _SEAL_HEAD.unpack_from(body)
    if (magic, head, compression, length) != (_SEAL_MAGIC, _SEAL_HEAD.size, _ZSTD, size):
        raise damaged
    if (major, minor) != version:
        theirs, ours = f"{major}.{minor}", ".".join(map(str, version))
        raise InvalidMessage(
            text(
                "the other node encrypts with SEAL {theirs} and this one with {ours}, which cannot read each other; "
                "install the same version of TenSEAL on all nodes",
                theirs,
                ours,
            )
        )
    at, blocks, last = _SEAL_HEAD.size + _frame_head(body, most), 0, False
    if at <= _SEAL_HEAD.size:
        raise damaged
    while not last:
        if at + 3 > size or blocks > 4 * (most // _BLOCK) + 8:  # SEAL writes at most 2.5 times as many as it must
            raise damaged
        head = int.from_bytes(body[at : at + 3], "little")
        last, repeated = bool(head & 1), (head >> 1 & 3) == 1
        at, blocks = at + 3 + (1 if repeated else head >> 3), blocks + 1
    if at != size:
        raise damaged


def _frame_head(body: bytes, most: int) -> int:
    """Bytes of the head of a zstd frame (RFC 8878, section 3.1.1.1) as SEAL writes it; 0 for any other."""
    frame = body[_SEAL_HEAD.size : _SEAL_HEAD.size + 18]
    if len(frame) < 18 or frame[:4] != _FRAME_MAGIC:
        return 0
    descriptor = frame[4]
    single, bytes_of_size = bool(descriptor & 0x20), (0, 2, 4, 8)[descriptor >> 6]
    if descriptor & 0x1F:  # a checksum, a dictionary, or what is reserved
        return 0
    if single:
        bytes_of_size = bytes_of_size or 1
        unpacked = int.from_bytes(frame[5 : 5 + bytes_of_size], "little")
        return 5 + bytes_of_size if unpacked <= most else 0
    window = 10 + (frame[5] >> 3)
    return 6 + bytes_of_size if window <= 22 else 0
