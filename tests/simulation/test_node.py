"""A simulated node: its disk and its trainer, what waits for them, and what is left when it is killed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flnet.errors import JobBusy, LocalError, PeerError
from flnet.node.performer import MOST_WAITING
from flnet.params.params import Digest, PeerId, TrainerId
from flnet.protocol.effects import Save
from flnet.protocol.events import HyperParamsEdited, RoundTriggered
from flnet.protocol.messages import Packet
from flnet.simulation.clock import Died
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, Disk, SimulatedNode, accuracy, initial
from flnet.simulation.schedule import Faults
from flnet.store.base import KeptModel, SavedJob
from tests.simulation.helpers import idle, mesh, play_round

A, B = PeerId("n00"), PeerId("n01")
Replies = list[Packet | PeerError | Died | None]


def ask(node: SimulatedNode) -> Replies:
    replies: Replies = []
    node.ask(TRAINER, RoundTriggered(), replies.append)
    return replies


# The disk and the trainer.


def save(disk: Disk, number: int) -> list[tuple[float, object]]:
    """Save; the pauses that this takes, each with the round that is on the disk then."""
    work = disk.save(TRAINER, SavedJob({"round": number, "updates_from": 0}))
    pauses: list[tuple[float, object]] = []
    try:
        while True:
            pauses.append((work.send(None), disk.saved.snapshot.get("round")))
    except StopIteration:
        return pauses


def test_a_slow_disk_holds_a_state_before_its_node_knows_and_a_broken_one_keeps_the_old_state() -> None:
    assert save(Disk(lambda: (0.0, 0.0)), 3) == []
    disk = Disk(lambda: (1.0, 2.0))
    assert save(disk, 3) == [(1.0, None), (2.0, 3)]
    disk.fails = True
    with pytest.raises(LocalError, match="no space"):
        save(disk, 4)
    assert (disk.saved.snapshot["round"], disk.has_failed) == (3, True)


def test_a_model_has_one_accuracy_on_each_node_and_nodes_start_with_different_models() -> None:
    digests = [Digest(f"{i:064x}") for i in range(50)]
    values = [[accuracy(node, digest) for digest in digests] for node in (A, B, A)]
    assert values[0] == values[2]
    assert all(0 <= a < 1 and a != b for a, b in zip(*values[:2], strict=True))
    assert initial(3) != initial(4)


def test_an_average_is_weighted_by_examples() -> None:
    cluster = mesh(2, 1)
    play_round(cluster, A)
    updates = [node.job.held.own for node in cluster.nodes.values()]
    model = cluster.nodes[A].job.held.model
    assert model is not None
    numbers = [update.examples or 0 for update in updates if update is not None]
    total = sum(update.params["w"] * (update.examples or 0) for update in updates if update is not None)
    assert abs(model.shared["w"] - total / sum(numbers)).max() < 1e-6


# What waits, and for what.


def test_a_reply_comes_at_once_if_nothing_is_slow_and_a_refusal_ends_there() -> None:
    cluster = mesh(2, 1)
    node = cluster.nodes[A]
    (reply,) = ask(node)
    assert isinstance(reply, Packet)
    (refusal,) = ask(node)
    assert isinstance(refusal, JobBusy)
    node.tell(TRAINER, RoundTriggered())
    with pytest.raises(PeerError):
        node.hear(TRAINER, RoundTriggered())
    assert not cluster.trigger(A)


def test_replies_and_messages_wait_for_a_slow_disk_while_refusals_do_not() -> None:
    cluster = mesh(2, 1)
    cluster.faults = Faults(saving=(1.0, 1.0), training=(9, 9))
    first, second = ask(cluster.nodes[A]), ask(cluster.nodes[A])
    assert isinstance(second[0], JobBusy)  # a refusal promises nothing
    cluster.run_for(0.9)
    assert (first, cluster.nodes[A].job.number, cluster.nodes[B].job.number) == ([], 0, -1)
    cluster.run_for(0.2)
    assert isinstance(first[0], Packet)
    assert cluster.nodes[B].job.number == 0


def test_events_that_come_during_a_save_are_saved_together() -> None:
    cluster = mesh(6, 1)
    node = cluster.nodes[A]
    sizes: list[int] = []
    keep = node.saver.save

    async def counted(trainer: TrainerId, *effects: Save, models: Sequence[KeptModel] = ()) -> bool:
        sizes.append(len(effects))
        return await keep(trainer, *effects, models=models)

    node.saver.save = counted  # type: ignore[method-assign]
    cluster.faults = Faults(saving=(0.3, 0.3), training=(0.1, 0.1), delay=(0.001, 0.002))
    play_round(cluster, A)
    assert max(sizes) >= 3
    assert node.job.records()[-1]["contributors"] == list(cluster.nodes)


def test_events_wait_for_a_disk_that_is_far_behind() -> None:
    cluster = mesh(2, 1)
    node = cluster.nodes[A]
    cluster.faults = Faults(saving=(1.0, 1.0))
    replies: Replies = []
    for number in range(2 * MOST_WAITING):
        node.ask(TRAINER, HyperParamsEdited({"e": number + 1}), replies.append)
    hyper = node.job.settings.hyper
    assert hyper is not None
    assert hyper.e <= MOST_WAITING + 1  # one batch is being saved, one is queued
    cluster.run_for(2.5)
    assert len(replies) >= MOST_WAITING + 1
    cluster.run_for(2.0)
    assert len(replies) == 2 * MOST_WAITING


def test_a_stalled_node_handles_everything_afterwards() -> None:
    cluster = mesh(2, 1)
    cluster.nodes[A].stall(3.0)
    cluster.nodes[A].stall(1.0)
    replies = ask(cluster.nodes[A])
    cluster.run_for(2.9)
    assert replies == []
    cluster.run_for(0.2)
    assert isinstance(replies[0], Packet)


def test_a_node_that_is_killed_before_a_save_has_shown_nothing_and_its_callers_are_told() -> None:
    cluster = mesh(2, 1)
    cluster.faults = Faults(saving=(1.0, 1.0))
    node = cluster.nodes[A]
    replies = ask(node)
    node.ask(TRAINER, HyperParamsEdited({"e": 2}), replies.append)
    cluster.run_for(0.1)
    cluster.kill(A)
    replies += ask(node)
    assert [type(reply) for reply in replies] == [Died] * 3
    cluster.run_for(5.0)
    assert node.job.number == 0  # nothing of it continued
    cluster.faults = Faults()
    back = cluster.restart(node)
    cluster.run_for(5.0)
    assert back.job.number == cluster.nodes[B].job.number


def test_a_node_with_a_broken_disk_acknowledges_and_sends_nothing_until_it_works_again() -> None:
    cluster = mesh(3, 1)
    node = cluster.nodes[B]
    node.disk.fails = True
    play_round(cluster, A)
    assert B not in cluster.nodes[A].job.records()[-1]["contributors"]
    assert len(node.saved.updates) == 0
    assert node.saver.trouble
    node.disk.fails = False
    cluster.run_for(11)
    assert not node.saver.trouble
    assert node.saved.snapshot["round"] == 0


def test_a_slow_node_trains_longer() -> None:
    cluster = Cluster(1, 1, Faults(training=(1.0, 1.0)))
    cluster.start()
    cluster.nodes[A].slowness = 10.0
    cluster.trigger(A)
    cluster.run_for(9.0)
    assert cluster.busy() == [A]
    cluster.run_for(3.0)
    idle(cluster)
    assert not cluster.busy()
