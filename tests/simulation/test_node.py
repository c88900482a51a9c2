"""A simulated node: what waits for its disk and for its loop, and what is left when it is killed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flnet.effects import Save
from flnet.errors import JobBusy, PeerError
from flnet.events import HyperParamsEdited, RoundTriggered
from flnet.messages import Packet
from flnet.node.line import MOST_WAITING
from flnet.params import PeerId, TrainerId
from flnet.simulation import TRAINER, Cluster, Weather
from flnet.simulation.node import SimulatedNode
from flnet.simulation.restarts import kill, start_again
from flnet.simulation.tasks import Died
from flnet.store import KeptModel
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


def test_with_a_slow_disk_answers_and_messages_wait_for_the_save_but_further_events_are_taken() -> None:
    cluster = mesh(2, 1)
    cluster.weather = Weather(saving=(1.0, 1.0), training=(9, 9))
    first, second = asked(cluster.nodes[A]), asked(cluster.nodes[A])
    assert isinstance(second[0], JobBusy)  # nothing is promised by that
    cluster.run_for(0.9)
    assert (first, cluster.nodes[A].job.state.number, cluster.nodes[B].job.state.number) == ([], 0, -1)
    cluster.run_for(0.2)
    assert isinstance(first[0], Packet)
    assert cluster.nodes[B].job.state.number == 0


def test_what_comes_while_the_disk_is_at_work_is_saved_at_once() -> None:
    cluster = mesh(6, 1)
    node = cluster.nodes[A]
    saves: list[int] = []
    save = node.keeper.save

    async def counted(trainer: TrainerId, *effects: Save, models: Sequence[KeptModel] = ()) -> bool:
        saves.append(len(effects))
        return await save(trainer, *effects, models=models)

    node.keeper.save = counted  # type: ignore[method-assign]
    cluster.weather = Weather(saving=(0.3, 0.3), training=(0.1, 0.1), delay=(0.001, 0.002))
    cluster.trigger(A)
    assert cluster.run_until_idle()
    assert max(saves) >= 3
    assert node.job.history()[-1]["contributors"] == list(cluster.nodes)


def test_a_disk_that_is_far_behind_is_waited_for() -> None:
    cluster = mesh(2, 1)
    node = cluster.nodes[A]
    cluster.weather = Weather(saving=(1.0, 1.0))
    answers: list[Packet | PeerError | Died | None] = []
    for number in range(2 * MOST_WAITING):
        node.ask(TRAINER, HyperParamsEdited({"e": number + 1}), answers.append)
    hyper = node.job.state.hyper
    assert hyper is not None
    assert hyper.e <= MOST_WAITING + 1  # one batch is at the disk, one stands in line
    cluster.run_for(2.5)
    assert len(answers) >= MOST_WAITING + 1
    cluster.run_for(2.0)
    assert len(answers) == 2 * MOST_WAITING


def test_who_is_killed_before_its_state_is_saved_has_shown_nothing_of_it() -> None:
    cluster = mesh(2, 1)
    cluster.weather = Weather(saving=(1.0, 1.0))
    answer = asked(cluster.nodes[A])
    cluster.run_for(0.1)
    dead = kill(cluster, A)
    assert [type(one) for one in answer] == [Died]
    assert dead.job.state.number == 0
    cluster.weather = Weather()
    back = start_again(cluster, dead)
    cluster.run_for(5.0)
    numbers = {node.job.state.number for node in (back, cluster.nodes[B])}
    assert len(numbers) == 1


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
    first, behind_it = asked(node), list[Packet | PeerError | Died | None]()
    node.ask(TRAINER, HyperParamsEdited({"e": 2}), behind_it.append)
    kill(cluster, A)
    too_late = asked(node)
    assert [type(answer) for answers in (first, behind_it, too_late) for answer in answers] == [Died] * 3
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
