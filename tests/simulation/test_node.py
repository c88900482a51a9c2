"""A simulated node: what waits for its disk and for its loop, and what is left when it is killed."""

from __future__ import annotations

import pytest

from flnet.errors import JobBusy, PeerError
from flnet.events import RoundTriggered
from flnet.messages import Packet
from flnet.params import PeerId
from flnet.simulation import TRAINER, Cluster, Weather
from flnet.simulation.node import Died, SimulatedNode
from flnet.simulation.restarts import kill
from tests.simulation.helpers import mesh

A, B = PeerId("n00"), PeerId("n01")


def asked(node: SimulatedNode) -> list[Packet | PeerError | Died | None]:
    answers: list[Packet | PeerError | Died | None] = []
    node.ask(TRAINER, RoundTriggered(), answers.append)
    return answers


def test_an_answer_comes_at_once_where_nothing_is_slow() -> None:
    cluster = mesh(2, 1)
    (answer,) = asked(cluster.nodes[A])
    assert isinstance(answer, Packet)
    (refusal,) = asked(cluster.nodes[A])
    assert isinstance(refusal, JobBusy)


def test_with_a_slow_disk_answer_and_messages_wait_for_the_save_and_so_does_the_next_event() -> None:
    cluster = mesh(2, 1)
    cluster.weather = Weather(saving=(1.0, 1.0), training=(9, 9))
    first, second = asked(cluster.nodes[A]), asked(cluster.nodes[A])
    cluster.run_for(0.9)
    assert (first, second, cluster.nodes[B].job.state.number) == ([], [], -1)
    cluster.run_for(0.2)
    assert isinstance(first[0], Packet)
    assert isinstance(second[0], JobBusy)
    assert cluster.nodes[B].job.state.number == 0


def test_a_loop_that_stands_still_hears_all_of_it_afterwards() -> None:
    cluster = mesh(2, 1)
    cluster.nodes[A].stall(3.0)
    cluster.nodes[A].stall(1.0)
    answers = asked(cluster.nodes[A])
    cluster.run_for(2.9)
    assert answers == []
    cluster.run_for(0.2)
    assert isinstance(answers[0], Packet)


def test_who_waits_for_a_node_that_is_killed_hears_of_it() -> None:
    cluster = mesh(2, 1)
    cluster.weather = Weather(saving=(1.0, 1.0))
    node = cluster.nodes[A]
    first, second = asked(node), asked(node)
    kill(cluster, A)
    third = asked(node)
    assert [type(answer) for answers in (first, second, third) for answer in answers] == [Died] * 3
    cluster.run_for(5.0)
    assert node.job.state.number == 0  # nothing of it went on


def test_a_node_with_a_broken_disk_acknowledges_nothing_hands_out_nothing_and_recovers() -> None:
    cluster = mesh(3, 1)
    cluster.nodes[B].disk.fails = True
    cluster.trigger(A)
    assert cluster.run_until_idle()
    record = cluster.nodes[A].job.history()[-1]
    assert B not in record["contributors"]
    assert len(cluster.nodes[B].saved.updates) == 0
    assert cluster.nodes[B].keeper.trouble
    cluster.nodes[B].disk.fails = False
    cluster.run_for(11)
    assert not cluster.nodes[B].keeper.trouble
    assert cluster.nodes[B].saved.snapshot["round"] == 0


def test_a_slow_node_trains_longer() -> None:
    cluster = Cluster(1, 1, Weather(training=(1.0, 1.0)))
    cluster.start()
    cluster.nodes[A].slowness = 10.0
    cluster.nodes[A].hear(TRAINER, RoundTriggered())
    cluster.run_for(9.0)
    with pytest.raises(JobBusy):
        cluster.nodes[A].hear(TRAINER, RoundTriggered())
    cluster.run_for(3.0)
    assert not cluster.busy()
