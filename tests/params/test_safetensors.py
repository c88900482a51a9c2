"""The header of a safetensors file: whatever it claims is checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from flnet.errors import LocalError, ParamsRefused, UnreadableBody
from flnet.params.params import Array
from flnet.params.safetensors import (
    MAX_ARRAYS,
    MAX_HEADER,
    MAX_NAME,
    in_order,
    read_header,
    strict_object,
    write_header,
)


def file_of(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header, given as text or as what its JSON shall say."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def read(body: bytes) -> dict[str, Array]:
    result = read_header(memoryview(body), len(body))
    assert result is not None
    return {name: entry.view(memoryview(body)) for name, entry in result[0].items()}


def whole(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    return write_header(arrays, metadata or {}) + b"".join(arrays[name].tobytes() for name in in_order(arrays))


def one(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
EVERY: dict[str, Array] = {
    f"{kind}{shape}": np.ones(shape, kind) for kind in DTYPES for shape in ((), (3,), (2, 0), (1, 5))
}

# --- what it writes


def test_by_hand() -> None:
    arrays: dict[str, Array] = {"b": np.array([1, 2], np.int8), "w": np.array([[1.5]], np.float32)}
    text = (
        '{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},'
        '"b":{"dtype":"I8","shape":[2],"data_offsets":[4,6]}}'
    )
    assert len(text) == 133
    assert write_header(arrays, {"k": "v"}) == (136).to_bytes(8, "little") + text.encode() + b"   "


def test_larger_items_come_first_and_then_names() -> None:
    arrays: dict[str, Array] = {
        "c": np.ones(1, np.float32),
        "a": np.ones(1, np.int8),
        "b": np.ones(1, np.uint32),
        "d": np.ones(1),
    }
    assert in_order(arrays) == ["d", "b", "c", "a"]


def test_the_reference_library_reads_it() -> None:
    loaded = safetensors.numpy.load(whole(EVERY, {"words": 'ä"\\\n'}))
    assert loaded.keys() == EVERY.keys()
    for name, array in EVERY.items():
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(loaded[name], array)


def test_it_reads_what_the_reference_library_writes() -> None:
    result = read(safetensors.numpy.save(EVERY, {"words": "ä"}))
    assert result.keys() == EVERY.keys()
    for name, array in EVERY.items():
        assert (result[name].dtype, result[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(result[name], array)


def test_every_array_is_aligned_and_in_the_memory_of_the_file() -> None:
    body = whole(EVERY)
    for array in read(body).values():
        assert array.flags.aligned
        assert not array.size or np.shares_memory(array, np.frombuffer(body, np.uint8))


def test_an_array_in_memory_that_is_not_aligned_is_copied() -> None:
    body = b"x" + whole({"w": np.array([1.5, 2.5])})
    shifted = memoryview(body)[1:]
    result = read_header(shifted, len(shifted))
    assert result is not None
    array = result[0]["w"].view(shifted)
    assert array.flags.aligned
    assert array.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("name", ["a\nb", "\x00", "\ud800", "x" * (MAX_NAME + 1), "__metadata__"])
def test_names_that_would_not_be_read_are_not_written(name: str) -> None:
    with pytest.raises(LocalError, match="cannot stand in a file"):
        write_header({name: np.ones(1)}, {})
    body = file_of({name: one()}, bytes(8))
    with pytest.raises((ParamsRefused, UnreadableBody)):
        read(body)


def test_a_longdouble_and_too_many_dimensions_are_not_written() -> None:
    with pytest.raises(LocalError, match="dtype"):
        write_header({"w": np.ones(1, np.longdouble)}, {})
    with pytest.raises(LocalError, match="dimensions"):
        write_header({"w": np.ones((1,) * 33)}, {})


def test_headers_that_would_not_be_read_are_not_written() -> None:
    with pytest.raises(LocalError, match="neither would be read"):
        write_header({}, {"message": "x" * MAX_HEADER})
    with pytest.raises(LocalError, match="10001 arrays"):
        write_header({str(i): np.ones(()) for i in range(MAX_ARRAYS + 1)}, {})


def test_as_many_arrays_as_may_be_fit_with_usual_names() -> None:
    arrays = {f"encoder.layers.{i}.attention.output.weight": np.ones((1, 1)) for i in range(MAX_ARRAYS)}
    assert len(read(whole(arrays))) == MAX_ARRAYS


# --- what it refuses


def test_a_head_that_is_not_all_here_yet_is_waited_for() -> None:
    body = whole(EVERY)
    data = 8 + int.from_bytes(body[:8], "little")
    for seen in range(data):
        assert read_header(memoryview(body)[:seen], len(body)) is None
    assert read_header(memoryview(body)[:data], len(body)) is not None


def test_a_header_of_any_length_is_not_waited_for() -> None:
    assert read(file_of("{" + " " * (MAX_HEADER - 2) + "}")) == {}
    longer = file_of("{" + " " * MAX_HEADER + "}")
    for seen in (8, len(longer)):
        with pytest.raises(UnreadableBody, match=f"at most {MAX_HEADER}"):
            read_header(memoryview(longer)[:seen], len(longer))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x10",
        bytes(7),
        bytes(8),
        (16).to_bytes(8, "little") + b"{}      ",
        (2**63).to_bytes(8, "little") + b"{}      ",
        (2**64 - 8).to_bytes(8, "little") + b"{}      ",
        (2).to_bytes(8, "little") + b"{}",
        (MAX_HEADER + 8).to_bytes(8, "little") + b"{" + bytes(MAX_HEADER + 7),
        file_of(" {}"),
        file_of("[]"),
        file_of("{} {}"),
        file_of("\ufeff{}"),
        file_of('{"a": NaN}'),
        file_of('{"a": ' + "1" * 5000 + "}"),
        file_of('{"a":' * 100_000),
        file_of("{" + '"a":[' * 50_000),
        file_of('{"__metadata__": []}'),
        file_of('{"__metadata__": {"a": 1}}'),
        file_of('{"__metadata__": {}, "__metadata__": {}}'),
        file_of('{"__metadata__": {"a": "1", "\\u0061": "2"}}'),
        b"\x08" + bytes(7) + b'{"\xff": 1}',
        b"\x08" + bytes(7) + "{}      ".encode("utf-16-le")[:8],
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_no_file_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableBody) as refusal:
        read(body)
    assert len(refusal.value.message) < 300
    assert refusal.value.message.isascii()


TERA = 2**40


@pytest.mark.parametrize(
    ("described", "error"),
    [
        (None, UnreadableBody),
        ([], UnreadableBody),
        ({}, UnreadableBody),
        (one(more=1), UnreadableBody),
        ({"dtype": "F32", "shape": [2]}, UnreadableBody),
        (one("BF16"), ParamsRefused),
        (one("F8_E4M3"), ParamsRefused),
        (one("f32"), ParamsRefused),
        (one("O" * 1000), ParamsRefused),
        (one(7), ParamsRefused),
        (one([]), ParamsRefused),
        (one(shape=2), UnreadableBody),
        (one(shape="2"), UnreadableBody),
        (one(shape=[-2]), UnreadableBody),
        (one(shape=[-1, -2]), UnreadableBody),
        (one(shape=[2.0]), UnreadableBody),
        (one(shape=[True, 2]), UnreadableBody),
        (one(shape=[None]), UnreadableBody),
        (one(shape=[[2]]), UnreadableBody),
        (one(shape=[3]), UnreadableBody),
        (one(shape=[2, 0]), UnreadableBody),
        (one(shape=[10**400]), UnreadableBody),
        (one(shape=[2**32, 2**32]), ParamsRefused),
        (one(shape=[2**48] * 32), ParamsRefused),
        (one(shape=[2**62, 2**2]), UnreadableBody),
        (one(shape=[0, 2**48, 2**48], offsets=[0, 0]), ParamsRefused),
        (one(shape=[1] * 33), ParamsRefused),
        (one(shape=[TERA], offsets=[0, 4 * TERA]), UnreadableBody),
        (one(offsets=[0]), UnreadableBody),
        (one(offsets=[0, 8, 8]), UnreadableBody),
        (one(offsets=[8, 0]), UnreadableBody),
        (one(offsets=[-8, 0]), UnreadableBody),
        (one(offsets=[0, 4]), UnreadableBody),
        (one(offsets=[0, 8.0]), UnreadableBody),
        (one(offsets=[8, 16]), UnreadableBody),
        (one(shape=[1], offsets=[0, 4]), UnreadableBody),
        (one(shape=[1], offsets=[4, 8]), UnreadableBody),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_description_that_does_not_fit_is_refused(described: Any, error: type[Exception]) -> None:
    body = file_of({"w": described}, bytes(8))
    with pytest.raises(error) as refusal:
        read(body)
    assert len(str(refusal.value)) < 300


def test_holes_overlaps_and_leftovers_are_refused() -> None:
    a, b = one(shape=[1], offsets=[0, 4]), one(shape=[1], offsets=[4, 8])
    assert list(read(file_of({"a": a, "b": b}, bytes(8)))) == ["a", "b"]
    assert list(read(file_of({"b": b, "a": a}, bytes(8)))) == ["b", "a"]
    empty = one(shape=[0], offsets=[4, 4])
    assert read(file_of({"b": b, "e": empty, "a": a}, bytes(8)))["e"].shape == (0,)
    for arrays, size in [
        ({"a": a, "b": a}, 4),
        ({"a": a, "b": a}, 8),
        ({"a": a, "b": one(offsets=[4, 12])}, 8),
        ({"a": a, "b": one(shape=[1], offsets=[8, 12])}, 12),
        ({"a": a, "e": one(shape=[0], offsets=[2, 2])}, 4),
        ({"a": a, "e": one(shape=[0], offsets=[8, 8])}, 4),
        ({"a": a, "b": b}, 9),
        ({"a": a, "b": b}, 7),
        ({}, 1),
    ]:
        with pytest.raises(UnreadableBody):
            read(file_of(arrays, bytes(size)))


def test_an_array_that_is_not_aligned_is_refused() -> None:
    byte, word = one("U8", [1], [0, 1]), one("U16", [1], [1, 3])
    with pytest.raises(UnreadableBody, match="do not fit"):
        read(file_of({"a": byte, "b": word}, bytes(3)))


def test_two_arrays_of_one_name_are_refused() -> None:
    text = '{"w":' + json.dumps(one()) + ',"\\u0077":' + json.dumps(one()) + "}"
    with pytest.raises(UnreadableBody, match="same name"):
        read(file_of(text, bytes(8)))


def test_too_many_arrays_are_refused() -> None:
    header = {str(i): one(shape=[0], offsets=[0, 0]) for i in range(MAX_ARRAYS + 1)}
    with pytest.raises(ParamsRefused, match="10001 arrays"):
        read(file_of(header))


@pytest.mark.parametrize("byte", [2, 255])
def test_a_boolean_that_is_neither_true_nor_false_is_refused(byte: int) -> None:
    header = {"w": one("BOOL", [3], [0, 3])}
    assert read(file_of(header, b"\0\1\1"))["w"].tolist() == [False, True, True]
    with pytest.raises(ParamsRefused, match="0 or 1"):
        read(file_of(header, bytes([0, byte, 1])))


def test_a_strict_object_is_plain_json() -> None:
    assert strict_object('{"a": [1, 2.5], "b": {"a": null}}') == {"a": [1, 2.5], "b": {"a": None}}
    for text in ("", "null", '{"a": {"b": 1, "b": 1}}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": }'):
        with pytest.raises(UnreadableBody, match="no JSON object"):
            strict_object(text)
