"""Arrays in a file of memory: the same numbers, not changeable, gone with the last view."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flnet.errors import TrainerError
from flnet.params import Array, Params
from flnet.training import memory_file
from flnet.training.memory_file import MemoryFile, UnreadableLayout, arrays_in, layout_of
from tests.helpers import params

KINDS = ("<f4", ">f8", "<f2", "|i1", "<u8", "|b1")


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(KINDS).flatmap(
            lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, min_side=0))
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_read_is_what_was_written(named: dict[str, Array]) -> None:
    given = Params({**named, "one more": np.ones(1)})  # a file needs a byte
    file = MemoryFile.of(given)
    read = file.arrays()
    file.close()
    assert list(read) == list(given)
    assert read.digest == given.digest
    assert not any(value.flags.writeable for value in read.values())
    assert all(value.ctypes.data % 64 == 0 for value in read.values() if value.size)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_memory_and_descriptor_go_with_the_last_view() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    read = MemoryFile.of(params(a=np.zeros(100_000), b=np.ones(3))).arrays()
    last = read["b"]
    del read
    gc.collect()
    assert "flnet-arrays" in maps()
    assert last.sum() == 3
    del last
    gc.collect()
    assert "flnet-arrays" not in maps()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def maps() -> str:
    return Path("/proc/self/maps").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="files are sealed on Linux only")
def test_nobody_can_change_or_shorten_a_file_that_was_handed_over() -> None:
    file = MemoryFile.of(params(a=[1.0, 2.0]))
    for change in (
        lambda: os.ftruncate(file.descriptor, 0),
        lambda: os.pwrite(file.descriptor, b"x", 0),
    ):
        with pytest.raises(PermissionError):
            change()
    unsealed = MemoryFile(os.memfd_create("open"), file.layout)
    os.ftruncate(unsealed.descriptor, 64)
    with pytest.raises(UnreadableLayout, match="can still change"):
        unsealed.arrays()
    with tempfile.TemporaryFile() as plain, pytest.raises(UnreadableLayout, match="can still change"):
        MemoryFile(os.dup(plain.fileno()), file.layout).arrays()


@pytest.mark.skipif(sys.platform != "linux", reason="files are written again on Linux only")
def test_a_file_that_is_written_again_keeps_its_size_and_others_can_only_read_it() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    file = MemoryFile.rewritable(64)
    assert file is not None
    for numbers in ([1.0, 2.0], [3.0, 4.0, 5.0]):
        given = params(a=numbers)
        file.write(given)
        assert not file.wanted
        assert not file.holds(given)
        assert file.remembering(given).holds(given)
        gone = threading.Event()
        read = MemoryFile(os.dup(file.descriptor), file.layout).arrays(gone.set)
        last = read["a"][1:]
        assert read["a"].tolist() == numbers
        del read
        assert not gone.is_set()
        del last
        assert gone.is_set()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(file.descriptor, b"x", 0)
    assert file._writable is not None
    for size in (0, 128):
        with pytest.raises(PermissionError):
            os.ftruncate(file._writable, size)
    with pytest.raises(UnreadableLayout, match="can still change"):
        file.arrays()  # nobody would say when it is looked at no more
    file.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.skipif(sys.platform != "linux", reason="files are written again on Linux only")
def test_what_is_written_where_others_stood_is_copied_there_and_more_than_stood_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    real = os.pwrite

    def noting(descriptor: int, data: memoryview, offset: int) -> int:
        calls.append(len(data))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", noting)
    monkeypatch.setattr(memory_file, "_MAPPED", 150)
    before = len(list(Path("/proc/self/fd").iterdir()))
    file, called = MemoryFile.rewritable(4096), []
    assert file is not None
    for length in (100, 60, 90, 5, 200, 200):
        one = Params({"a": np.arange(length, dtype=np.float32), "none": np.empty(0), "b": np.ones((), bool)})
        file.write(one)
        called.append(len(calls) > 0)
        calls.clear()
        read = MemoryFile(os.dup(file.descriptor), file.layout).arrays(lambda: None)
        assert read == one
    assert called == [True, False, False, True, True, False]  # new; twice within it; few; more than ever; again
    del read
    file.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.skipif(sys.platform != "linux", reason="files are written again on Linux only")
def test_a_file_that_could_not_be_written_whole_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: memoryview, offset: int) -> int:
        raise OSError(28, "No space left on device")

    file, given = MemoryFile.rewritable(64), params(a=[1.0, 2.0])
    assert file is not None
    file.write(given)
    file.remembering(given)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(TrainerError, match=r"4 bytes of parameters cannot be handed over: .*No space left"):
        file.write(params(a=[3.0]))
    assert not file.holds(given)


@pytest.mark.parametrize("missing", ["os.open", "fcntl.fcntl", "os.memfd_create"])
def test_where_a_file_cannot_be_written_again_there_is_none(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def refused(*args: object) -> None:
        raise OSError(38, "Function not implemented")

    before = len(list(Path("/dev/fd").iterdir()))
    with monkeypatch.context() as patched:
        patched.setattr(missing, refused)
        assert MemoryFile.rewritable(64) is None
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_the_very_arrays_are_known_again_and_equal_ones_are_not() -> None:
    first = params(a=[1.0], b=[2.0])
    file = MemoryFile.of(first)
    assert file.holds(first)
    assert file.holds(Params(first))  # the same arrays in another mapping
    assert not file.holds(params(a=[1.0], b=[2.0]))
    assert not file.holds(first.select(["a"]))
    assert file.wanted
    del first
    gc.collect()
    assert not file.wanted


def test_a_node_without_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "ftruncate", full)
    with pytest.raises(TrainerError, match=r"80 bytes of parameters cannot be handed over: .*No space left"):
        MemoryFile.of(params(a=np.zeros(10)))


def test_elsewhere_than_on_linux_a_file_without_a_name_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert MemoryFile.rewritable(64) is None
    file = MemoryFile.of(params(a=[1.0, 2.0]))
    assert os.fstat(file.descriptor).st_nlink == 0
    assert file.arrays()["a"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "layout",
    [
        [("a", "<f4", [3], 0)],
        [("a", "<f4", [2], 4)],
        [("a", "<f4", [-1], 0)],
        [("a", "<f4", [2], -4)],
        [("a", "<f4", [10**30], 0)],
        [("a", "O", [1], 0)],
        [("a", "V8", [1], 0)],
        [("a", "f4,i4", [1], 0)],
        [("a", "no such", [1], 0)],
        [("a", "<f4", [True], 0)],
        [("a", "<f4", [1.0], 0)],
        [("a", "<f4", "1", 0)],
        [("a", "<f4", None, 0)],
        [("a", "<f4", [1] * 99, 0)],
        [("a", "<f4")],
        ["a"],
        [None],
        {"a": 1},
        7,
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout: object) -> None:
    with pytest.raises(UnreadableLayout):
        arrays_in(bytearray(8), layout)


def test_the_layout_names_each_array_once_and_aligned() -> None:
    layout, size = layout_of(params(a=np.zeros(17, "<f4"), b=np.zeros((0, 3), "<f4"), c=np.ones((), "<f8")))
    assert layout == [("a", "<f4", [17], 0), ("b", "<f4", [0, 3], 128), ("c", "<f8", [], 128)]
    assert size == 192
