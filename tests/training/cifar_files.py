"""CIFAR-10 batches as Python 2 wrote them, instruction by instruction: no pickle module has a part in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import count

from flnet.params import Array


def python2_batch(pixels: Array, labels: Sequence[int], title: str = "training batch 1 of 5") -> bytes:
    """One batch file in protocol 2 out of pixels (n, 3072) uint8 and as many labels."""
    numbers = count(1)
    items = [
        *(text(b"batch_label", numbers), text(title.encode(), numbers)),
        *(text(b"labels", numbers), filled_list([integer(label) for label in labels], numbers)),
        *(text(b"data", numbers), array(pixels, numbers)),
        *(text(b"filenames", numbers), filled_list([text(b"cat.png", numbers) for _ in labels], numbers)),
    ]
    return b"\x80\x02}" + put(0) + b"(" + b"".join(items) + b"u."


def put(number: int) -> bytes:
    """Remember the value on top by this number."""
    return b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)


def text(data: bytes, numbers: Iterator[int]) -> bytes:
    """A string of Python 2."""
    head = b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))
    return head + data + put(next(numbers))


def integer(value: int) -> bytes:
    """An int in the fewest bytes."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    return b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value)


def filled_list(items: Sequence[bytes], numbers: Iterator[int]) -> bytes:
    """A list, filled a thousand at a time."""
    parts = [b"(" + b"".join(items[at : at + 1000]) + b"e" for at in range(0, len(items), 1000)]
    return b"]" + put(next(numbers)) + b"".join(parts)


def array(pixels: Array, numbers: Iterator[int]) -> bytes:
    """An array of numpy, announced, then filled."""
    shape = b"".join(integer(size) for size in pixels.shape) + {1: b"\x85", 2: b"\x86", 3: b"\x87"}[pixels.ndim]
    empty = b"K\x00\x85" + put(next(numbers)) + text(b"b", numbers) + b"\x87" + put(next(numbers))
    start = (
        *(b"cnumpy.core.multiarray\n_reconstruct\n", put(next(numbers)), b"cnumpy\nndarray\n", put(next(numbers))),
        *(empty, b"R", put(next(numbers))),
    )
    code = text(f"{pixels.dtype.kind}{pixels.dtype.itemsize}".encode(), numbers)
    order = b"\x55\x01|" + put(next(numbers))
    dtype = (
        *(b"cnumpy\ndtype\n", put(next(numbers)), code, b"K\x00K\x01\x87", put(next(numbers)), b"R"),
        *(
            put(next(numbers)),
            b"(K\x03",
            order,
            b"NNN",
            integer(-1),
            integer(-1),
            b"K\x00t",
            put(next(numbers)),
            b"b",
        ),
    )
    data = text(pixels.tobytes(), numbers)
    state = (b"(K\x01", shape, put(next(numbers)), *dtype, b"\x89", data, b"t", put(next(numbers)), b"b")
    return b"".join((*start, *state))
