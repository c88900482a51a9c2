"""Frames over a pair of sockets: all that is sent comes, and nothing that comes does harm."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flnet.params import Params
from flnet.training import memory_file
from flnet.training.channel import INLINE, Channel, Garbled, receive_message, send_message
from flnet.training.frames import Frame
from flnet.training.memory_file import MemoryFile
from tests.helpers import params

Pair = tuple[Channel, Channel]
LARGE = INLINE // 4 + 1  # float32 numbers
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        yield a, b


@pytest.fixture
def channels(ends: tuple[socket.socket, socket.socket]) -> Pair:
    return Channel(ends[0], remember=2), Channel(ends[1])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("numbers", [1, LARGE - 1, LARGE, 500_000])
def test_fields_and_arrays_come_as_they_were_sent(channels: Pair, numbers: int) -> None:
    ours, theirs = channels
    sent = params(w=np.arange(numbers, dtype="float32"), steps=np.int64(3), none=np.zeros((0, 2), "float32"))
    for frame in (Frame({"do": "this", "ä": [1, None]}), Frame({"do": "that"}, sent), Frame({}, Params())):
        ours.send(frame)
        came = theirs.receive()
        assert came is not None
        assert (came.fields, came.params) == (frame.fields, frame.params)
    assert theirs._end.gettimeout() is None


def test_the_end_of_the_other_side_is_no_frame(ends: tuple[socket.socket, socket.socket]) -> None:
    whole = bytearray()
    send_message(ends[0], {"do": "it"}, [b"beside"])
    whole += ends[1].recv(1000)
    for cut in range(len(whole)):
        a, b = socket.socketpair()
        with a, b:
            a.sendall(whole[:cut])
            a.close()
            assert Channel(b).receive() is None


@linux
@pytest.mark.parametrize(
    "message",
    [
        struct.pack(">IQB", 2**31, 0, 0),
        struct.pack(">IQB", 2, 2**63, 0) + b"{}",
        struct.pack(">IQB", 2, 0, 1) + b"{}",
        struct.pack(">IQB", 2, 0, 0) + b"[]",
        struct.pack(">IQB", 2, 0, 0) + b"\xff\xff",
        struct.pack(">IQB", 2, 0, 0) + b"{,",
        b"what is this? no frame, that is sure",
    ],
)
def test_nonsense_is_called_so(ends: tuple[socket.socket, socket.socket], message: bytes) -> None:
    before = descriptors()
    ends[0].sendall(message)
    with pytest.raises(Garbled):
        Channel(ends[1]).receive()
    assert descriptors() == before


@linux
@pytest.mark.parametrize("said", [{}, {"lent": 1}, {"back": 1}, {"lent": "x"}, {"lent": True}, {"back": []}])
@pytest.mark.parametrize("kind", ["plain file", "unsealed", "wrong layout", "two of them"])
def test_descriptors_that_come_with_nonsense_are_closed(
    ends: tuple[socket.socket, socket.socket], kind: str, said: dict[str, object]
) -> None:
    good = MemoryFile.of(params(a=[1.0]))
    files = {
        "plain file": os.open(os.devnull, os.O_RDWR),
        "unsealed": os.memfd_create("x"),
        "wrong layout": os.dup(good.descriptor),
        "two of them": os.open(os.devnull, os.O_RDWR),
    }
    before = descriptors()
    layout = [["a", "<f4", [99], 0]]
    sent = [files[kind]] * (2 if kind == "two of them" else 1)
    send_message(ends[0], {"arrays": layout, **said}, (), sent)
    with pytest.raises(Garbled):
        Channel(ends[1]).receive()
    assert descriptors() == before
    for descriptor in files.values():
        os.close(descriptor)


@linux
@pytest.mark.parametrize(
    "said",
    [{"lent": "1"}, {"lent": True}, {"lent": None, "back": 1.5}, {"free": 3}, {"free": ["x"]}, {"free": {}}],
)
def test_nonsense_about_a_file_is_called_so(
    ends: tuple[socket.socket, socket.socket], said: dict[str, object]
) -> None:
    good = MemoryFile.of(params(a=[1.0]))
    before = descriptors()
    send_message(ends[0], {"arrays": good.layout, **said}, (), [good.descriptor])
    with pytest.raises(Garbled):
        Channel(ends[1], remember=2).receive()
    assert descriptors() == before


@linux
def test_numbers_of_files_that_nobody_lent_are_passed_over(channels: Pair) -> None:
    ours, theirs = channels
    send_message(theirs._end, {"free": [7, -1, 10**30]})
    assert ours.receive() == Frame({})
    for _ in range(2):
        ours.send(Frame({}, params(w=np.zeros(LARGE, "float32"))))
        assert theirs.receive() is not None


def test_random_bytes_end_in_a_frame_in_nothing_or_in_garbled() -> None:
    chance = random.Random(4)
    for _ in range(300):
        a, b = socket.socketpair()
        with a, b:
            head = json.dumps({"arrays": [["a", "<f4", [chance.randrange(9)], chance.randrange(9)]]}).encode()
            frame = bytearray(struct.pack(">IQB", len(head), 16, 0) + head + bytes(16))
            for _ in range(chance.randrange(4)):
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            a.sendall(frame)
            a.close()
            try:
                came = Channel(b).receive()
            except Garbled:
                continue
            assert came is None or isinstance(came, Frame)


@linux
def test_many_rounds_leave_no_descriptor_behind(channels: Pair) -> None:
    ours, theirs = channels
    held = []
    for number in range(200):
        ours.send(Frame({"number": number}, params(w=np.full(LARGE, number, "float32"))))
        came = theirs.receive()
        assert came is not None and came.params is not None
        held = [came.params]
        if number == 5:
            before = descriptors()
    assert held[0]["w"][0] == 199
    assert descriptors() == before


@pytest.mark.parametrize("again", [True, False], ids=["files written again", "new files"])
def test_the_same_arrays_are_written_once_and_what_came_is_sent_back_as_it_is(
    channels: Pair, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    ours, theirs = channels
    written: list[Params] = []
    write = memory_file._write_all

    def counted(descriptor: int, layout: memory_file.Layout, params: Params) -> None:
        written.append(params)
        write(descriptor, layout, params)

    monkeypatch.setattr(memory_file, "_write_all", counted)
    if not again:
        monkeypatch.setattr(MemoryFile, "rewritable", lambda size: None)
    model, other = (params(w=np.full(LARGE, n, "float32")) for n in (1, 2))
    for sent in (model, Params(model), other, model):
        ours.send(Frame({}, sent))
        assert theirs.receive() == Frame({}, sent)
    assert len(written) == 2
    theirs.send(Frame({}, other))
    assert len(written) == 3
    learnt = ours.receive()
    assert learnt is not None
    ours.send(Frame({}, learnt.params))
    assert theirs.receive() == learnt
    assert len(written) == 3
    ours.forget()
    ours.send(Frame({}, model))
    assert len(written) == 4


def test_frames_of_two_threads_do_not_mix(channels: Pair) -> None:
    ours, theirs = channels

    def send(name: str) -> None:
        for number in range(100):
            ours.send(Frame({"from": name, "number": number, "fill": name * 5000}))

    threads = [threading.Thread(target=send, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    came = [theirs.receive() for _ in range(200)]
    for thread in threads:
        thread.join()
    assert all(frame is not None and frame.fields["fill"] == frame.fields["from"] * 5000 for frame in came)


@linux
def test_more_descriptors_than_wanted_are_not_taken(ends: tuple[socket.socket, socket.socket]) -> None:
    before = descriptors()
    send_message(ends[0], {}, (), [0, 0, 0])
    with pytest.raises(Garbled, match="3 descriptors"):
        receive_message(ends[1], 2)
    assert descriptors() == before
