"""Bodies whose arrays have a scale for each block of 256 numbers: how they are read, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from flnet.errors import ParamsRefused, PeerError, UnreadableBody
from flnet.params.params import Array, Params, Schema
from flnet.wire.binary_codec import BinaryCodec, read_head
from tests.wire.bodies import earlier_int8

CODEC = BinaryCodec()
SIZE, COUNT = 1300, 6  # numbers, and blocks: five of 256 and one of 20
STEPS = np.arange(SIZE, dtype=np.int64).reshape(130, 10) % 255 - 127
SCALES = np.array([0.5, 1.0, 0.25, 2.0, 33027 / 2**22, 8.0], "<f4")


def row(scales: Any = SCALES) -> Array:
    return np.concatenate([STEPS.reshape(-1).astype(np.int8), np.asarray(scales, "<f4").view(np.int8)])


def body(blocks: Any, stored: Array | None = None, **metadata: str) -> bytes:
    """A body with one array "w" and what is said of its blocks: text as it is, anything else as JSON."""
    described = blocks if isinstance(blocks, str) else json.dumps(blocks)
    stored = row() if stored is None else stored
    return safetensors.numpy.save({"w": stored, "b": np.ones(3, np.float32)}, {"blocks": described, **metadata})


def refused(data: bytes, error: type[PeerError] | tuple[type[PeerError], ...] = ParamsRefused) -> str:
    """How it is refused, in few words and without memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error) as refusal:
            CODEC.decode_params(data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert len(refusal.value.message) < 300
    return str(refusal.value.message)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_multiplied_with_the_scale_of_their_block(dtype: str) -> None:
    data = body({"w": [dtype, [130, 10]]})
    read = CODEC.decode_params(data)["w"]
    expected = STEPS.reshape(-1) * np.repeat(SCALES.astype(np.float64), [256, 256, 256, 256, 256, 20])
    assert (read.dtype.name, read.shape) == (dtype, (130, 10))
    assert read.reshape(-1).tolist() == expected.tolist()
    head = read_head(memoryview(data), len(data))
    assert head is not None
    assert head.specs == {"w": ((130, 10), dtype), "b": ((3,), "float32")}
    head.check(Schema.of(CODEC.decode_params(data)))


def test_the_form_with_one_scale_is_still_read() -> None:
    whole = np.linspace(-1, 1, 1300, dtype=np.float32).reshape(130, 10)
    read = CODEC.decode_params(earlier_int8(Params({"w": whole})))["w"]
    assert np.abs(read - whole).max() <= 0.51 / 127
    assert read.max() == pytest.approx(1, rel=2.0**-15)


def test_a_node_that_knows_no_blocks_refuses_them_by_their_shape() -> None:
    """Such a body comes to nobody who does not ask for it; a sender's mistake shows at once."""
    data = body({"w": ["float32", [130, 10]]}).replace(b'"blocks"', b'"unread"')
    head = read_head(memoryview(data), len(data))
    assert head is not None
    with pytest.raises(ParamsRefused, match="shape"):
        head.check(Schema.of(Params({"w": np.zeros((130, 10), np.float32), "b": np.ones(3, np.float32)})))


@pytest.mark.parametrize(
    "described",
    [
        ["float32"],
        ["float32", [130, 10], 1],
        ["float16", [130, 10]],
        ["int8", [130, 10]],
        [["float32"], [130, 10]],
        [1.0, "float32"],
        ["float32", 1300],
        ["float32", "1300"],
        ["float32", [1300.0]],
        ["float32", [True, 1300]],
        ["float32", [-130, -10]],
        ["float32", [1299]],
        ["float32", [1301]],
        ["float32", [1324]],
        ["float32", []],
        ["float32", [0]],
        ["float32", [1300, 0]],
        ["float32", [2**40]],
        ["float32", [2**40, 2**40, 0]],
        ["float32", [2**62, 2]],
        ["float32", [10**400]],
        ["float32", [[1300]]],
        ["float32", [1] * 32 + [1300]],
        ["float32", [1300] * 5000],
        {"dtype": "float32", "shape": [1300]},
        None,
    ],
    ids=lambda described: repr(described)[:40],
)
def test_what_does_not_describe_the_stored_row_is_refused_by_the_head(described: Any) -> None:
    data = body({"w": described})
    assert "the blocks of 'w'" in refused(data)
    with pytest.raises(ParamsRefused):
        read_head(memoryview(data)[: 8 + int.from_bytes(data[:8], "little")], len(data))


@pytest.mark.parametrize(
    "blocks",
    [
        "",
        "null",
        "[]",
        "[" * 100_000,
        '{"w": ["float32", [' + "9" * 5000 + "]]}",
        '{"w": ["float32", [NaN]]}',
        '{"w": ["float32", [130, 10]], "w": ["float32", [130, 10]]}',
        '{"v": ["float32", [130, 10]]}',
        '{"b": ["float32", [3]]}',
        '{"w": ["float32", [130, 10]], "\\ud800": ["float32", [1]]}',
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_names_no_rows_of_this_body_is_refused(blocks: str) -> None:
    refused(body(blocks), (UnreadableBody, ParamsRefused))


@pytest.mark.parametrize(
    "stored", [row().view(np.uint8), row().reshape(2, -1), row()[:-1], row()[:-4], row().view(np.bool_) & False]
)
def test_a_row_of_another_type_or_size_is_refused(stored: Array) -> None:
    assert "the blocks of 'w'" in refused(body({"w": ["float32", [130, 10]]}, stored))


def test_one_scale_and_blocks_exclude_each_other() -> None:
    assert "both" in refused(body({"w": ["float32", [130, 10]]}, scales='{"w": [1.0, "float32"]}'))


@pytest.mark.parametrize(
    "scale",
    [
        0x00000000,  # 0
        0x80000000,  # -0
        0xBF800000,  # -1
        0x7F800000,  # infinite
        0x7FC00000,  # not a number
        0x7F800001,  # nor this, of the signalling kind
        0x00000100,  # below all normal numbers
        0x09800000,  # 2^-108
        0x7C000000,  # 2^121
        0x3C010204,  # 1 / 127, with more than 16 bits
    ],
    ids=hex,
)
@pytest.mark.parametrize("block", range(COUNT))
def test_scales_that_no_packing_gives_are_refused(scale: int, block: int) -> None:
    scales = SCALES.view("<u4").copy()
    scales[block] = scale
    assert "a scale that no block" in refused(body({"w": ["float32", [130, 10]]}, row(scales.view("<f4"))))
