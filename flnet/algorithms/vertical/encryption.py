"""Additive homomorphic encryption of vectors, as nodes use it that hold columns of the same rows.

Whoever has the public key can encrypt, add ciphertexts and multiply them by numbers that it knows; only the key holder
can decrypt. `flnet.security.ckks` does this with CKKS. `PlainScheme`, its twin, computes the same in clear text: for
tests, for simulations, and to see what encryption costs.

A ciphertext is a table. A vector is encrypted with each value repeated in `columns` columns, so a matrix of that many
columns can be multiplied into it entry by entry; `total` then adds its rows. So `total(multiply(w, X))` is X'w.

A product with known numbers gives these numbers away to whoever has the ciphertext from before. So a ciphertext leaves
a node only after `rerandomise`, which adds a fresh encryption of zero; `dump` refuses any other. What goes to the key
holder gets noise on top (`flood`): she can decrypt, and would otherwise see errors that depend on the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.errors import InvalidMessage, LocalError
from flnet.text import text

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_ROWS = 2**20  # of one ciphertext
MOST_COLUMNS = 2**12


@dataclass(frozen=True)
class Shape:
    """What a ciphertext holds.

    Attributes:
        rows: values of the vector.
        columns: how often each value is there, and the columns that a matrix may have.
        summed: the rows have been added: one value is left for each column.
    """

    rows: int
    columns: int = 1
    summed: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= MOST_ROWS and 1 <= self.columns <= MOST_COLUMNS):
            raise LocalError(
                text(
                    "a ciphertext of {rows} rows and {columns} columns; expected 1 to {most} rows and 1 to {most_columns} "
                    "columns",
                    self.rows,
                    self.columns,
                    MOST_ROWS,
                    MOST_COLUMNS,
                )
            )


class Ciphertext(Protocol):
    """An encrypted table; only the scheme that made it can read it."""

    @property
    def shape(self) -> Shape:
        """What it holds."""

    @property
    def fresh(self) -> bool:
        """Whether it contains randomness of this node, so that it may leave it."""


class AdditiveScheme(Protocol):
    """What a node can do that has the public key."""

    @property
    def capacity(self) -> float:
        """Decrypted values must be smaller than this; larger ones come out wrong."""

    def flooding(self, decryptions: int, values: int, norm: float) -> float:
        """Standard deviation of the noise that decrypted values need before anyone else may know them.

        Args:
            decryptions: how many ciphertexts are decrypted under this key.
            values: numbers that are told of each.
            norm: the largest Euclidean norm of the numbers that went into a total.
        """

    def encrypt(self, values: Vector, columns: int = 1) -> Ciphertext:
        """Encrypt a vector (rows,) for matrices of up to `columns` columns."""

    def add(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The sum of two ciphertexts of one shape."""

    def subtract(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """The difference of two ciphertexts of one shape."""

    def multiply(self, sealed: Ciphertext, plain: float | Vector | Matrix) -> Ciphertext:
        """Entry by entry: by a number, by a vector (rows,) or by a matrix (rows, at most columns).

        A shorter vector or a smaller matrix counts as 0 elsewhere.
        """

    def total(self, sealed: Ciphertext) -> Ciphertext:
        """The sum of the rows in each column."""

    def rerandomise(self, sealed: Ciphertext) -> Ciphertext:
        """The same values, with a fresh encryption of zero added."""

    def flood(self, sealed: Ciphertext, deviation: float) -> Ciphertext:
        """The totals with Gaussian noise of this standard deviation, which hides what they were made of."""

    def dump(self, sealed: Ciphertext) -> bytes:
        """As bytes, to be sent.

        Raises:
            LocalError: it is not fresh.
        """

    def load(self, data: bytes, shape: Shape) -> Ciphertext:
        """Read what a peer sent.

        Raises:
            InvalidMessage: it is no ciphertext of this shape; nothing was read beyond the size that it can have.
        """


class SecretScheme(AdditiveScheme, Protocol):
    """What the key holder can do as well."""

    def public_key(self) -> bytes:
        """The keys that others need: to encrypt, and to add rows."""

    def seal(self, values: Vector, columns: int = 1) -> bytes:
        """Encrypt a vector to be sent; with the secret key that takes half the bytes."""

    def decrypt(self, sealed: Ciphertext, deviation: float = 0.0) -> Vector:
        """The values: (rows,), or (columns,) of totals.

        Args:
            sealed: the ciphertext.
            deviation: standard deviation of the Gaussian noise that is added (`flooding`); without it, values of CKKS
                tell something of the key to those who know the ciphertext.
        """


OpenKey = Callable[[bytes], AdditiveScheme]
"""Makes a scheme of a public key that a peer sent; raises InvalidMessage if it is none."""


@dataclass(frozen=True)
class Encryption:
    """A scheme as nodes use it, each from its own position.

    Attributes:
        name: of the scheme with its version, which all nodes need alike; raises DataMissing where it is not installed.
        keys: makes new keys.
        open_key: makes a scheme of a public key.
    """

    name: Callable[[], str]
    keys: Callable[[], SecretScheme]
    open_key: OpenKey


_HEAD = struct.Struct("<4sII?")
_MAGIC = b"flPT"


@dataclass(frozen=True)
class PlainTable:
    """The twin of a ciphertext: its values in clear text, (rows, columns) or (1, columns)."""

    values: Matrix
    shape: Shape
    fresh: bool = True


class PlainScheme:
    """The twin of an encryption scheme, in clear text; it has no noise, no limit and no secret."""

    capacity = float("inf")

    def flooding(self, decryptions: int, values: int, norm: float) -> float:
        """None is needed."""
        return 0.0

    def public_key(self) -> bytes:
        """There is nothing in it."""
        return _MAGIC

    @classmethod
    def open_key(cls, data: bytes) -> PlainScheme:
        """The scheme of a public key."""
        if data != _MAGIC:
            raise InvalidMessage(text("this is no public key of this scheme"))
        return cls()

    def encrypt(self, values: Vector, columns: int = 1) -> PlainTable:
        """Repeat the vector in each column."""
        rows = np.asarray(values, np.float64)
        return PlainTable(np.repeat(rows[:, None], columns, axis=1), Shape(len(rows), columns))

    def seal(self, values: Vector, columns: int = 1) -> bytes:
        """The vector, to be sent."""
        return self.dump(self.encrypt(values, columns))

    def add(self, left: Ciphertext, right: Ciphertext) -> PlainTable:
        """The sum."""
        one, other = _pair(_own(left), _own(right))
        return PlainTable(one.values + other.values, one.shape, one.fresh or other.fresh)

    def subtract(self, left: Ciphertext, right: Ciphertext) -> PlainTable:
        """The difference."""
        one, other = _pair(_own(left), _own(right))
        return PlainTable(one.values - other.values, one.shape, one.fresh or other.fresh)

    def multiply(self, sealed: Ciphertext, plain: float | Vector | Matrix) -> PlainTable:
        """Entry by entry."""
        table = _own(sealed)
        return replace(table, values=table.values * spread(plain, table.shape), fresh=False)

    def total(self, sealed: Ciphertext) -> PlainTable:
        """The sum of the rows."""
        table = _own(sealed)
        return PlainTable(table.values.sum(axis=0, keepdims=True), replace(table.shape, summed=True), table.fresh)

    def rerandomise(self, sealed: Ciphertext) -> PlainTable:
        """The same values; nothing hides them."""
        return replace(_own(sealed), fresh=True)

    def flood(self, sealed: Ciphertext, deviation: float) -> PlainTable:
        """The same values, since `flooding` asks for no noise."""
        return _own(sealed)

    def dump(self, sealed: Ciphertext) -> bytes:
        """Shape and float64 values."""
        table = _own(sealed)
        check_fresh(table)
        shape = table.shape
        return _HEAD.pack(_MAGIC, shape.rows, shape.columns, shape.summed) + table.values.astype("<f8").tobytes()

    def load(self, data: bytes, shape: Shape) -> PlainTable:
        """Read what `dump` wrote."""
        rows = 1 if shape.summed else shape.rows
        if len(data) != _HEAD.size + 8 * rows * shape.columns:
            raise wrong_size(len(data), _HEAD.size + 8 * rows * shape.columns)
        if data[: _HEAD.size] != _HEAD.pack(_MAGIC, shape.rows, shape.columns, shape.summed):
            raise InvalidMessage(text("this is no ciphertext of the expected shape"))
        values = np.frombuffer(data, "<f8", offset=_HEAD.size).reshape(rows, shape.columns).astype(np.float64)
        if not np.isfinite(values).all():
            raise InvalidMessage(text("this is no ciphertext of the expected shape"))
        return PlainTable(values, shape, fresh=False)

    def decrypt(self, sealed: Ciphertext, deviation: float = 0.0) -> Vector:
        """The values as they are."""
        table = _own(sealed)
        return table.values[0] if table.shape.summed else table.values[:, 0]


PLAIN = Encryption(lambda: "plain", PlainScheme, PlainScheme.open_key)
"""Clear text in place of encryption: for tests and simulations only."""


def spread(plain: float | Vector | Matrix, shape: Shape) -> Matrix:
    """A factor as a table (rows, columns) of this shape, with 0 where it has no entry.

    Raises:
        LocalError: it has more rows or columns, or a number that is not finite.
    """
    factor = np.asarray(plain, np.float64)
    rows, columns = (1 if shape.summed else shape.rows), shape.columns
    if factor.ndim == 0:
        factor = np.full((rows, columns), factor)
    elif factor.ndim == 1:
        factor = np.repeat(factor[:, None], columns, axis=1)
    if factor.ndim != 2 or factor.shape[0] > rows or factor.shape[1] > columns:
        raise LocalError(
            text(
                "a factor of shape {shape} for a ciphertext of {rows} rows and {columns} columns",
                str(np.shape(plain)),
                rows,
                columns,
            )
        )
    if not np.isfinite(factor).all():
        raise LocalError(text("a factor has a number that is not finite"))
    table = np.zeros((rows, columns))
    table[: factor.shape[0], : factor.shape[1]] = factor
    return table


def check_fresh(sealed: Ciphertext) -> None:
    """Refuse to send a ciphertext that was not re-randomised.

    Raises:
        LocalError: it was not.
    """
    if not sealed.fresh:
        raise LocalError(text("a ciphertext has to be re-randomised before it leaves a node"))


def wrong_size(came: int, expected: int) -> InvalidMessage:
    """The error for bytes of a wrong length."""
    return InvalidMessage(text("a ciphertext has {came} bytes; expected {expected}", came, expected))


def _own(sealed: Ciphertext) -> PlainTable:
    if not isinstance(sealed, PlainTable):
        raise LocalError(text("this ciphertext is of another scheme"))
    return sealed


def _pair(left: PlainTable, right: PlainTable) -> tuple[PlainTable, PlainTable]:
    check_alike(left, right)
    return left, right


def check_alike(left: Ciphertext, right: Ciphertext) -> None:
    """Refuse to add ciphertexts of two shapes.

    Raises:
        LocalError: they differ.
    """
    if left.shape != right.shape:
        raise LocalError(text("two ciphertexts of different shapes: {one} and {other}", left.shape, right.shape))
