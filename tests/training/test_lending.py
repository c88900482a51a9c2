"""Files that are written again: nobody ever sees numbers change, and few files do for many rounds."""

from __future__ import annotations

import os
import random
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flnet.params import Array, Params
from flnet.training.channel import INLINE, Channel
from flnet.training.frames import Frame
from flnet.training.lending import MOST
from flnet.training.memory_file import MemoryFile
from tests.helpers import params

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are written again on Linux only")
Pair = tuple[Channel, Channel]
LARGE = INLINE // 4 + 1  # float32 numbers


@pytest.fixture
def channels() -> Iterator[Pair]:
    a, b = socket.socketpair()
    ours, theirs = Channel(a, remember=2), Channel(b)
    yield ours, theirs
    ours.close()
    theirs.close()


def model(number: float, size: int = LARGE) -> Params:
    return params(w=np.full(size, number, "float32"))


def sent(sender: Channel, receiver: Channel, given: Params) -> Params:
    sender.send(Frame({"do": "it"}, given))
    frame = receiver.receive()
    assert frame is not None
    assert frame.fields == {"do": "it"}
    assert frame.params is not None
    return frame.params


def inode(array: Array) -> str:
    """Of the file in which an array stands."""
    address = array.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[4]
    raise AssertionError("it stands nowhere")


def files() -> int:
    """How many files of arrays this process has open or mapped."""
    opened = {(s.st_ino) for s in _stats() if s is not None}
    return len(opened | {int(n) for n in re.findall(r"(\d+) +/memfd:flnet-arrays", maps())})


def _stats() -> Iterator[os.stat_result | None]:
    for link in Path("/proc/self/fd").iterdir():
        try:
            yield link.stat() if "flnet-arrays" in str(link.readlink()) else None
        except FileNotFoundError:  # the one by which the folder is read
            yield None


def maps() -> str:
    return Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("back", [False, True], ids=["to the child", "to the node"])
def test_one_file_does_for_many_rounds_when_nobody_keeps_anything(channels: Pair, back: bool) -> None:
    ours, theirs = reversed(channels) if back else channels
    seen = set()
    for number in range(20):
        came = sent(ours, theirs, model(number))
        assert np.all(came["w"] == number)
        seen.add(inode(came["w"]))
        del came
        theirs.send(Frame({"answer": 1}))
        assert ours.receive() == Frame({"answer": 1})
    assert len(seen) == 1


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_never_changes_whatever_both_ends_do(channels: Pair, seed: int) -> None:
    """At random both ends send new arrays, what came before, or nothing, and keep, drop or share what came."""
    chance, before = random.Random(seed), files()
    kept: list[tuple[Array, float]] = []
    held: dict[int, list[Params]] = {0: [], 1: []}
    for number in range(150):
        end = chance.randrange(2)
        again = held[end] and chance.random() < 0.4
        given = chance.choice(held[end]) if again else model(number, chance.choice((1, 1, 2, 5)) * LARGE)
        value = float(given["w"][0])
        came = sent(channels[end], channels[1 - end], given)
        held[1 - end] = [*held[1 - end], came][-chance.randrange(1, 4) :]
        held[end] = [*held[end], given][-chance.randrange(1, 4) :]
        if chance.random() < 0.3:
            kept.append((came["w"][5:], value))
        if kept and chance.random() < 0.35:
            kept.pop(chance.randrange(len(kept)))
        if chance.random() < 0.02:
            channels[1].forked()
        assert all(np.all(array == expected) for array, expected in kept)
        assert all(len({float(n) for n in one["w"][[0, -1]]}) == 1 for one in (*held[0], *held[1]))
        assert len(channels[0]._files._ours) <= MOST
        assert len(channels[1]._files._ours) <= MOST
    for channel in channels:
        channel.forget()
    del given, came
    kept.clear()
    held.clear()
    assert files() == before


def test_a_file_at_which_something_looks_is_left_alone_and_comes_back_later(channels: Pair) -> None:
    ours, theirs = channels
    first = sent(ours, theirs, model(1))
    view = first["w"][3:]
    file = inode(view)
    del first
    others = set()
    for number in range(2, 5):
        came = sent(ours, theirs, model(number))
        others.add(inode(came["w"]))
        del came
        theirs.send(Frame({}))
        ours.receive()
    assert np.all(view == 1)
    assert len(others) == 1
    assert file not in others
    assert np.all(view == 1)


def test_a_file_is_not_written_again_when_a_process_was_forked_that_looks_at_it(channels: Pair) -> None:
    ours, theirs = channels
    came = sent(ours, theirs, model(1))
    file = inode(came["w"])
    theirs.forked()
    del came
    theirs.send(Frame({}))
    ours.receive()
    assert inode(sent(ours, theirs, model(2))["w"]) != file


def test_what_may_be_sent_again_is_kept_while_there_is_room(channels: Pair) -> None:
    ours, theirs = channels
    models = [model(number) for number in range(MOST)]
    files = [inode(sent(ours, theirs, one)["w"]) for one in models]
    assert len(set(files)) == MOST
    assert [inode(sent(ours, theirs, one)["w"]) for one in models] == files
    theirs.send(Frame({}))
    ours.receive()
    assert inode(sent(ours, theirs, model(9))["w"]) == files[0]  # used longest ago
    came = sent(ours, theirs, models[0])
    assert np.all(came["w"] == 0)  # written once more


def test_a_file_is_used_for_what_fills_at_least_half_of_it(channels: Pair) -> None:
    ours, theirs = channels
    files = []
    for size in (4, 2, 4, 1.9, 5):
        came = sent(ours, theirs, model(size, int(size * LARGE)))
        assert np.all(came["w"] == np.float32(size))
        assert len(came["w"]) == int(size * LARGE)
        files.append(inode(came["w"]))
        del came
        theirs.send(Frame({}))
        ours.receive()
    assert files[0] == files[1] == files[2]
    assert len(set(files)) == 3


def test_what_comes_back_to_its_owner_is_not_written_while_it_looks(channels: Pair) -> None:
    node, child = channels
    learnt = sent(child, node, model(1))
    again = sent(node, child, learnt)  # the same file
    del learnt
    node.send(Frame({}))
    assert child.receive() == Frame({})
    for number in range(2, 6):
        assert np.all(sent(child, node, model(number))["w"] == number)
        assert np.all(again["w"] == 1)


def test_without_files_that_can_be_written_again_each_is_new(
    channels: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFile, "rewritable", lambda size: None)
    ours, theirs = channels
    seen = []
    for number in range(4):
        seen.append(sent(ours, theirs, model(number)))
    assert [float(one["w"][-1]) for one in seen] == [0, 1, 2, 3]
    assert len({inode(one["w"]) for one in seen}) == 4
