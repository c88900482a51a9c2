"""The group of prime order in which ids are blinded, and the units of work on it.

Blinding raises an element to a secret exponent. It commutes: blinding with a and then with b gives the same element as
blinding with b and then with a, so two holders can compare ids that neither of them can read. That the result tells
nothing about the id rests on the decisional Diffie-Hellman assumption, which needs a group of prime order: in a
group with small subgroups, an element shows after any blinding in which of them it lies.

`flnet.security.prime_group` has the group for real data. `SafePrimeGroup` is its twin for tests and simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.errors import AlignmentRefused
from flnet.text import text

ELEMENT_BYTES = 32
RANDOM_BYTES = 64  # that a secret is made of: so many that taking them modulo the order leaves no bias

Items = NDArray[np.uint8]  # (n, width) items of fixed width: elements, or what else travels in lists
Positions = NDArray[np.int64]  # (n,) places in a list, or rows of a holder
Result = TypeVar("Result")


class Group(Protocol):
    """A cyclic group of prime order whose elements are `ELEMENT_BYTES` long."""

    @property
    def name(self) -> str:
        """What holders compare before they align."""
        ...

    def secret(self, random: bytes) -> bytes:
        """A secret exponent, never 0.

        Args:
            random: `RANDOM_BYTES` from a source for secrets.
        """
        ...

    def inverse(self, secret: bytes) -> bytes:
        """The exponent that undoes a secret: blinding with both gives back the element."""
        ...

    def hash_to_element(self, data: bytes) -> bytes:
        """An element whose exponent nobody knows; equal data give equal elements."""
        ...

    def blind(self, secret: bytes, element: bytes) -> bytes:
        """The element raised to the secret.

        Raises:
            AlignmentRefused: it is none, as in `check`.
        """
        ...

    def check(self, element: bytes) -> None:
        """Check what another node sent.

        Raises:
            AlignmentRefused: it is no element in its one valid encoding, or it is the neutral element.
        """
        ...


def hash_chunk(group: Group, secret: bytes, messages: Sequence[bytes]) -> Items:
    """(n, 32) the element of each message, blinded. One unit of work."""
    return as_items([group.blind(secret, group.hash_to_element(message)) for message in messages])


def blind_chunk(group: Group, secret: bytes, chunk: Items) -> Items:
    """(n, 32) each element of a chunk, blinded. One unit of work.

    Raises:
        AlignmentRefused: one of them is no element; says which by its place in the chunk.
    """
    return as_items(_each(chunk, lambda element: group.blind(secret, element)))


def check_chunk(group: Group, chunk: Items) -> Items:
    """The same chunk, checked. One unit of work.

    Raises:
        AlignmentRefused: as of `blind_chunk`.
    """
    _each(chunk, group.check)
    return chunk


def as_items(items: Sequence[bytes], width: int = ELEMENT_BYTES) -> Items:
    """(n, width) byte strings of equal length as one array."""
    return np.frombuffer(b"".join(items), np.uint8).reshape(-1, width)


def _each(chunk: Items, action: Callable[[bytes], Result]) -> list[Result]:
    results = []
    for place, element in enumerate(chunk):
        try:
            results.append(action(element.tobytes()))
        except AlignmentRefused as exc:
            raise AlignmentRefused(text("element {number} of a chunk: {reason}", place, exc.message)) from exc
    return results


class SafePrimeGroup:
    """The squares modulo a safe prime of 64 bits. Not for real data: its logarithms can be computed in minutes.

    The prime is 2**64 - 1469, and the order of the group is half of one less. It has the encodings and the errors of a
    real group and takes a tenth of the time, for tests and simulations.
    """

    PRIME = 18446744073709550147
    ORDER = (PRIME - 1) // 2

    @property
    def name(self) -> str:
        """Says that it is no real group."""
        return "safe-prime-64-for-tests"

    def secret(self, random: bytes) -> bytes:
        """See `Group`."""
        return (int.from_bytes(random) % (self.ORDER - 1) + 1).to_bytes(ELEMENT_BYTES)

    def inverse(self, secret: bytes) -> bytes:
        """See `Group`."""
        return pow(int.from_bytes(secret), -1, self.ORDER).to_bytes(ELEMENT_BYTES)

    def hash_to_element(self, data: bytes) -> bytes:
        """See `Group`."""
        number = int.from_bytes(blake3(b"flnet " + self.name.encode() + b"\0" + data).digest())
        base = number % (self.PRIME - 3) + 2  # neither 0 nor 1 nor -1, whose squares are none or neutral
        return pow(base, 2, self.PRIME).to_bytes(ELEMENT_BYTES)

    def blind(self, secret: bytes, element: bytes) -> bytes:
        """See `Group`."""
        self.check(element)
        power = pow(int.from_bytes(element), int.from_bytes(secret), self.PRIME)
        return power.to_bytes(ELEMENT_BYTES)

    def check(self, element: bytes) -> None:
        """See `Group`."""
        if len(element) != ELEMENT_BYTES:
            raise wrong_length(len(element))
        number = int.from_bytes(element)
        if number >= self.PRIME:
            raise AlignmentRefused(text("the encoding of the element is not canonical"))
        if number == 1:
            raise neutral()
        if number == 0 or pow(number, self.ORDER, self.PRIME) != 1:
            raise outside()


def wrong_length(count: int) -> AlignmentRefused:
    """An element of another length."""
    return AlignmentRefused(
        text("an element has {expected} bytes, but this one has {count}", ELEMENT_BYTES, count)
    )


def neutral() -> AlignmentRefused:
    """The neutral element, which every secret leaves as it is."""
    return AlignmentRefused(text("the element is the neutral one, which blinding does not change"))


def outside() -> AlignmentRefused:
    """A number or a point that is not in the group."""
    return AlignmentRefused(text("the element is not in the group of prime order"))
