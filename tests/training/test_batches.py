"""The Python version of CIFAR-10: a batch is read, anything else is named, and nothing is run."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training import batches
from flnet.training.batches import MAX_BYTES, PIXELS, parsed_batch, read_batch
from tests.training.cifar_files import array, filled_list, integer, put, python2_batch, text

HEAD = b"\x80\x02"
LABELS = [3, 9, 0]
BEGIN = HEAD + b"}(U\x06labels](K\x03K\x09K\x00eU\x04data"  # what follows is the array, then `u.`


def made_up(rows: int = len(LABELS)) -> Array:
    """Every value of a byte, so that a mistaken encoding shows."""
    return (np.arange(rows * PIXELS) * 7 % 256).astype(np.uint8).reshape(rows, PIXELS)


WHOLE = python2_batch(made_up(), LABELS)


def fault(data: bytes) -> str:
    with pytest.raises(TrainerError) as caught:
        parsed_batch(data, "data_batch_1")
    assert caught.value.message.startswith("data_batch_1")
    return caught.value.message


# What is read.


def test_a_batch_of_python_2_becomes_records(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(WHOLE)
    records = read_batch(tmp_path / "data_batch_1")
    assert records.dtype == np.uint8
    assert records.shape == (3, 3073)
    assert records[:, 0].tolist() == LABELS
    assert np.array_equal(records[:, 1:], made_up())


def test_more_rows_than_a_list_is_filled_with_at_once() -> None:
    pixels, labels = made_up(1_200), [row % 10 for row in range(1_200)]
    records = parsed_batch(python2_batch(pixels, labels), "data_batch_1")
    assert records[:, 0].tolist() == labels
    assert np.array_equal(records[:, 1:], pixels)


@pytest.mark.parametrize("core", [b"core", b"_core"])
def test_what_python_3_wrote_is_read(core: bytes) -> None:
    def unicode(characters: str) -> bytes:
        return b"X" + struct.pack("<I", len(characters.encode())) + characters.encode()

    def encoded(data: bytes) -> bytes:
        return b"c_codecs\nencode\n" + unicode(data.decode("latin-1")) + unicode("latin1") + b"\x86R"

    start = b"cnumpy." + core + b".multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + encoded(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + unicode("u1") + b"\x89\x88\x87R(K\x03" + unicode("|") + b"NNN"
    dtype += integer(-1) * 2 + b"K\x00tb"
    state = b"(K\x01" + integer(3) + integer(PIXELS) + b"\x86" + dtype + b"\x89" + encoded(made_up().tobytes())
    labels = unicode("labels") + filled_list([integer(label) for label in LABELS], count())
    whole = b"\x80\x02}(" + labels + unicode("data") + start + state + b"tbu."
    assert np.array_equal(parsed_batch(whole, "x"), parsed_batch(WHOLE, "x"))


def test_other_ways_to_say_the_same_are_read() -> None:
    in_one = b"(U\x06labelsp7\n(K\x03\x8a\x01\x09J\0\0\0\0lU\x04data" + array(made_up(), count(10)) + b"d."
    assert np.array_equal(parsed_batch(HEAD + in_one, "x"), parsed_batch(WHOLE, "x"))
    single = b"}U\x06labels]K\x03aK\x09aK\x00asU\x04data" + array(made_up(), count(10)) + b"s."
    assert np.array_equal(parsed_batch(HEAD + single, "x"), parsed_batch(WHOLE, "x"))
    others = b"(}U\x04morer\x00\x01\0\0G" + struct.pack(">d", 0.5) + b"sj\x00\x01\0\0h\x00t"
    assert "value number 0, which was not given" in fault(HEAD + others + b".")


def test_columns_may_come_first() -> None:
    first = array(np.asfortranarray(made_up()), count(10)).replace(b"b\x89", b"b\x88")
    turned = first.replace(made_up().tobytes(), made_up().tobytes(order="F"))
    assert np.array_equal(parsed_batch(BEGIN + turned + b"u.", "x"), parsed_batch(WHOLE, "x"))


# What could do harm.


@pytest.mark.parametrize(
    "name", ["os.system", "posix.system", "nt.system", "builtins.eval", "__builtin__.eval", "numpy.load", "a b.c"]
)
def test_a_foreign_name_is_refused_where_it_stands(name: str, tmp_path: Path) -> None:
    module, function = name.rsplit(".", 1)
    trace = tmp_path / "trace"
    command = text(f"touch {trace}".encode(), count())
    harm = b"c" + f"{module}\n{function}\n".encode() + command + b"\x85R"
    words = f"global {name.replace(' ', '.')} at byte 2 is not part of a CIFAR-10 batch; nothing was run"
    assert words in fault(HEAD + harm + b".")
    assert f"global {name.replace(' ', '.')} at byte {len(BEGIN)} " in fault(BEGIN + harm + b"u.")
    assert not trace.exists()


@pytest.mark.parametrize(
    "call",
    [
        b"cnumpy\nndarray\nK\x03\x85R",
        b"cnumpy\ndtype\nU\x01O\x85R",
        b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R",
        b"cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R",
        b"cnumpy\ndtype\n]R",
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R",
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x05\x85U\x01b\x87R",
        b"c_codecs\nencode\nX\x01\0\0\0aX\x03\0\0\0hex\x86R",
        b"c_codecs\nencode\nX\x03\0\0\0\xe2\x82\xacX\x06\0\0\0latin1\x86R",  # no byte stands for it
        b"U\x04evalU\x011\x85R",
        b"}}b",
        b"cnumpy\ndtype\n}b",
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R}b",
    ],
)
def test_a_call_that_no_batch_makes_is_refused(call: bytes) -> None:
    message = fault(HEAD + call + b".")
    assert "nothing was run" in message or "is damaged" in message


@pytest.mark.parametrize(
    ("instructions", "words"),
    [
        (b"}.", "data are nothing"),
        (b"U\x02osU\x06system\x93.", "instruction STACK_GLOBAL at byte 14"),
        (b"(ios\nsystem\n.", "instruction INST at byte 3"),
        (b"\x82\x01.", "instruction EXT1"),
        (b")\x81.", "instruction NEWOBJ"),
        (b"Pname\n.", "instruction PERSID"),
        (b"\x80\x05.", "protocol 5"),
        (b"cos\\x2e\nsystem\n.", "is damaged"),
        (b"c" + b"o" * 10_000 + b"\nsystem\n.", "is damaged"),
        (b"cos\n\xff\n.", "is damaged"),
        (b"\x8b\xff\xff\xff\x7f.", "is damaged"),
        *((b + b"\xff\xff\xff" + end, "is damaged") for b in (b"T", b"B", b"X") for end in (b"\x7f.", b"\xff.")),
        (b"\x8e" + b"\xff" * 8 + b".", "is damaged"),
        (b"}p-1\n.", "value number -1"),
        (b"}r\xff\xff\xff\xff.", "value number 4294967295"),
        (b"}p" + b"9" * 5000 + b"\n.", "is damaged"),
        (b"h\x07.", "value number 7"),
        (b"e.", "lacks a mark"),
        (b"s.", "lacks a value"),
        (b"(e.", "lacks a value"),
        (b"}K\x01a.", "appending to type dict"),
        (b"](K\x01K\x02u.", "of type list"),
        (b"}(K\x01u.", "setting 1 keys and values"),
        (b"}(K\x01K\x02u.", "a key that is type int"),
        (b"}].", "an end with 2 values and 0 marks"),
        (b"(}.", "an end with 1 values and 1 marks"),
        (b"}.more", "an end before the end of the file"),
        (b"].", "expected a dict, got type list"),
        (b"N.", "expected a dict, got nothing"),
    ],
)
def test_what_no_batch_holds_is_named(instructions: bytes, words: str) -> None:
    assert words in fault(HEAD + instructions)


def test_a_list_may_hold_itself_without_end() -> None:
    assert "expected uint8 [n, 3072]" in fault(HEAD + b"}q\x00U\x04data]q\x01h\x01asU\x06labelsh\x00s.")


def test_a_file_is_there_and_its_size_and_instructions_have_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainerError, match="test_batch cannot be read"):
        read_batch(tmp_path / "test_batch")
    with (tmp_path / "test_batch").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(TrainerError, match="test_batch is too large"):
        read_batch(tmp_path / "test_batch")
    assert "more than 200000 instructions" in fault(HEAD + b"(" * 300_000)
    assert "expected a dict, got type tuple" in fault(HEAD + b")" + b"\x85" * 199_000 + b".")
    monkeypatch.setattr(batches, "MAX_STEPS", 10)
    assert "more than 10 instructions" in fault(WHOLE)


# What is no CIFAR-10.


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (made_up()[:, :-1], "data are uint8 [3, 3071]; expected uint8 [n, 3072]"),
        (made_up().reshape(3, 3, 1024), "data are uint8 [3, 3, 1024]"),
        (made_up().reshape(-1), "data are uint8 [9216]"),
        (made_up()[:2], "labels are a list of 3; expected a list of 2"),
        (made_up()[:0], "an array of [3072] numbers out of 0 bytes"),
        (made_up().astype(np.int16), "dtype i2"),
        (made_up().astype(np.float32), "dtype f4"),
    ],
)
def test_other_shapes_and_numbers_are_named(pixels: Array, words: str) -> None:
    assert words in fault(BEGIN + array(pixels, count(10)) + b"u.")


def test_a_shape_that_its_bytes_do_not_fill_is_refused() -> None:
    shape = integer(3) + integer(PIXELS)
    for claim in (integer(4) + integer(PIXELS), integer(-3) + integer(-PIXELS), b"\x88" + integer(3 * PIXELS)):
        assert "an array of" in fault(WHOLE.replace(shape, claim))
    huge = b"\x8a\xff" + b"\x7f" * 255
    assert "an array of" in fault(WHOLE.replace(shape, huge + huge))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([3, 10, 0], "the label of row 1 is 10; expected 0 to 9"),
        ([3, 9, -1], "the label of row 2 is -1"),
        ([], "labels are a list of 0; expected a list of 3"),
    ],
)
def test_labels_that_are_none_are_named(labels: list[int], words: str) -> None:
    assert words in fault(python2_batch(made_up(), labels))


def test_labels_are_whole_numbers_in_a_list() -> None:
    pixels = b"}(U\x04data" + array(made_up(), count(10))
    assert "labels are nothing" in fault(HEAD + pixels + b"u.")
    assert "labels are type tuple" in fault(HEAD + pixels + b"U\x06labelsK\x01K\x02K\x03\x87u.")
    for label, words in ((b"\x88", "True"), (b"G" + struct.pack(">d", 1), "1.0"), (b"U\x011", "type bytes")):
        message = fault(HEAD + pixels + b"U\x06labels](K\x01K\x02" + label + b"eu.")
        assert f"the label of row 2 is {words}; expected 0 to 9" in message


def test_a_batch_lacks_nothing() -> None:
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    for data, words in ((b"N", "nothing"), (b"U\x01a", "type bytes"), (empty, "type Array")):
        assert f"data are {words}; expected" in fault(HEAD + b"}U\x04data" + data + b"s.")


# What is damaged.


SMALL = HEAD + b"}(U\x06labels](K\x03eU\x04data" + array(made_up(1), count(10)) + put(3) + b"u."


def test_a_batch_that_ends_early_is_none_wherever_it_ends() -> None:
    for end in range(len(SMALL)):
        fault(SMALL[:end])
    assert parsed_batch(SMALL, "x").shape == (1, 3073)


@given(
    st.lists(st.tuples(st.integers(-40, 400), st.binary(max_size=3), st.integers(0, 3)), min_size=1, max_size=6)
)
def test_a_changed_batch_is_read_or_refused(changes: list[tuple[int, bytes, int]]) -> None:
    data = bytearray(SMALL)
    for at, new, gone in changes:
        data[at : at + gone] = new
    with suppress(TrainerError):
        assert parsed_batch(bytes(data), "x").shape == (1, 3073)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(data: bytes) -> None:
    fault(data)
    fault(HEAD + data)


PIECES = (
    *(
        b"(",
        b"}",
        b"]",
        b")",
        b"l",
        b"d",
        b"t",
        b"\x85",
        b"\x86",
        b"\x87",
        b"s",
        b"u",
        b"a",
        b"e",
        b"q\x00",
        b"h\x00",
    ),
    *(b"U\x04data", b"U\x06labels", b"K\x01", b"N", b"\x88", b"R", b"b", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n", b"cos\nsystem\n", b"X\x01\0\0\0a"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_instructions_are_refused(pieces: list[bytes]) -> None:
    fault(HEAD + b"".join(pieces) + b".")
