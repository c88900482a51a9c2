"""Nodes that are stopped for a while, asked to end in the middle of work, or started twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, at_rest, digests, harness, kept, until
from tests.processes.proxy import ADDRESS, Proxy
from tests.processes.test_wires import LARGE, MEGA, SOON, Wires

WAIT = {"WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "20", "REQUEST_TIMEOUT_IN_SECONDS": "3"}
END_SECONDS = 60  # a node ends within ten; the rest is for a busy machine


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Three nodes whose trainings end at once; all are there again after each test but the last of this file."""
    with harness(tmp_path_factory.mktemp("stopping")) as h:
        h.go()
        for _ in range(3):
            h.start(**WAIT)
        h.ready()
        yield h


def one_round(h: Harness, starter: RealNode) -> int:
    """A round that ends with one model, which all nodes have a part in; its number."""
    answer = starter.trigger()
    assert answer.status_code == 202, answer.text
    number: int = answer.json()["round"]
    until(lambda: at_rest(h.nodes, number), f"the end of round {number}")
    assert len(digests(h.nodes)) == 1
    for node in h.nodes:
        assert node.history()[-1]["contributors"] == ["n0", "n1", "n2"]
    return number


@pytest.mark.slow
def test_all_nodes_killed_at_once_go_on_from_the_last_round_that_ended(three: Harness) -> None:
    number = one_round(three, three.nodes[0])
    until(lambda: kept(three.nodes, number), "the round on all disks")
    before = {node.name: (node.job()["digest"], len(node.history())) for node in three.nodes}
    for node in three.nodes:
        node.process.kill()
    for node in three.nodes:
        node.process.wait()
    for index in (2, 0, 1):  # who was called first by the others is not the first to be there
        three.again(three.nodes[index])
    three.ready()
    for node in three.nodes:
        assert node.job()["current_round"] == number
        assert (node.job()["digest"], len(node.history())) == before[node.name]
    assert one_round(three, three.nodes[1]) == number + 1


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.long)])
def test_a_node_that_is_stopped_for_a_while_is_one_of_them_again(three: Harness, seconds: float) -> None:
    first, second, third = three.nodes
    number = one_round(three, first) + 1
    third.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert first.trigger().json() == {"trainerId": "SLOW", "round": number}
    until(lambda: at_rest([first, second], number), "a round without the stopped node")
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    third.process.send_signal(signal.SIGCONT)
    three.meshed(*three.nodes)
    for node in three.nodes:
        assert sorted(node.states()) == sorted({"n0", "n1", "n2"} - {node.name})
    # What it did in between counts once or not at all: the next round is the same for all.
    until(lambda: third.job()["phase"] == "IDLE", "rest at the stopped node")
    assert one_round(three, second) == number + 1
    for node in (first, second):
        assert node.history()[number]["contributors"] == ["n0", "n1"]


@pytest.mark.slow
def test_a_node_that_is_asked_to_end_tells_its_peers(three: Harness) -> None:
    first, second, third = three.nodes
    third.process.send_signal(signal.SIGTERM)
    assert third.process.wait(END_SECONDS) == 0
    for node in (first, second):
        until(lambda node=node: node.states()["n2"] == "left", "the news that it has left")  # type: ignore[misc]


@pytest.mark.slow
def test_a_node_that_is_asked_to_end_gives_what_it_has_begun_to_give(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        wires = Wires(made, 8 * LARGE)  # 32 MB: more than the system takes from the node at once
        ending = wires.start()
        made.ready()
        digest = ending.get("/jobs/MANY")["digest"]
        with ending.http.stream("GET", f"/training/model_params/{digest}") as answer:
            body = answer.iter_raw(MEGA)
            came = len(next(body))
            ending.process.send_signal(signal.SIGTERM)
            came += sum(len(part) for part in body)
            assert came == int(answer.headers["Content-Length"]) > 8 * LARGE * 4
        assert ending.process.wait(END_SECONDS) == 0


@pytest.mark.long
def test_a_receiver_that_takes_nothing_does_not_hold_a_node_that_is_asked_to_end(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        wires = Wires(made, LARGE)
        first, ending = wires.start(**SOON), wires.start(NODE_IP=ADDRESS, **SOON)
        with Proxy(ending.port, after=MEGA, breaks=None) as proxy:
            made.ready()
            wires.trigger()
            until(lambda: proxy.held > 0, "the beginning of a transfer")
            ending.process.send_signal(signal.SIGTERM)
            assert ending.process.wait(END_SECONDS) == 0
        until(lambda: first.get("/jobs/MANY")["phase"] == "IDLE", "the end of the round without it")
        assert first.get("/jobs/MANY/history")[-1]["contributors"] == ["n0"]


@pytest.mark.slow
def test_a_second_node_on_a_port_or_a_state_folder_ends_with_a_word_on_it(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        node = h.start()
        h.up(node)
        same_port = h.start(NODE_PORT=str(node.port))
        same_folder = h.start(STATE_PATH=str(h.state(node)))
        for second, words in ((same_port, f"port {node.port}"), (same_folder, "state0 is in use")):
            assert second.process.wait(END_SECONDS) == 1
            log = second.log.read_text()
            assert words in log and "Traceback" not in log
        assert node.get("/health") == {"status": "ok"}
