"""The floors do the work that they are said to do, at tiny sizes: all bytes arrive, the mean is the mean."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest

from benchmarks.forks import forked, listeners
from benchmarks.options import in_process
from benchmarks.socket_mesh import SocketMesh, spread_out
from benchmarks.trainers._work import WORKS


def test_forked_processes_return_in_order() -> None:
    results = forked(3, lambda index: {"index": index, "pid": os.getpid()})
    assert [result["index"] for result in results] == [0, 1, 2]
    assert len({result["pid"] for result in results} | {os.getpid()}) == 4


@pytest.mark.parametrize("nbytes", [1, 3_000_001])
def test_every_process_of_a_socket_mesh_gets_what_the_others_sent(nbytes: int) -> None:
    listening = listeners(3)

    def node(index: int) -> list[list[Any]]:
        mesh = SocketMesh(index, listening)
        payload = np.full(nbytes, index, np.uint8)
        kept = [mesh.exchange(payload.data) for _ in range(2)][-1]
        return [[len(buffer), sorted(set(bytes(buffer)))] for buffer in kept]

    everyone = {0, 1, 2}
    for index, got in enumerate(forked(3, node)):
        assert got == [[nbytes, [other]] for other in sorted(everyone - {index})]
    for socket in listening:
        socket.close()


def test_an_exchange_lasts_from_the_last_start_to_the_last_end() -> None:
    assert spread_out([[(1.0, 3.0), (10.0, 11.0)], [(2.0, 2.5), (10.0, 14.0)]]) == [1.0, 4.0]


def test_the_sizes_of_the_works_are_those_that_are_stated() -> None:
    assert {name: work.numbers for name, work in WORKS.items()} == {"W1": 235_146, "W2": 10_020_874, "W3": 7_850}
    assert WORKS["W2"].nbytes == 40_083_496


@pytest.mark.parametrize("ways", [("sockets",), pytest.param(("http", "sockets"), marks=pytest.mark.long)])
def test_plain_meshes_learn_and_both_the_same(ways: tuple[str, ...]) -> None:
    result = [
        json.loads(in_process("plain_mesh", "W1", "--way", way, "--nodes", 2, "--rounds", 1)) for way in ways
    ]
    assert all(len(run["rounds_s"]) == 1 and run["mb"] > 0 for run in result)
    assert result[0]["accuracy"] == pytest.approx(result[-1]["accuracy"], abs=0.01)
    assert result[0]["accuracy"] > 0.3  # of ten classes
