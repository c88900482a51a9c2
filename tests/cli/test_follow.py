from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flnet.cli.client import NodeClient
from flnet.cli.follow import Follower, RoundFailed
from flnet.cli.progress import Views
from flnet.errors import PeerUnreachable, StartError
from tests.cli.fake_node import FakeNode, job, record, running_fake_node


class Quiet:
    """Remembers the phases it was shown."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def show(self, views: Views) -> None:
        self.phases += [view["phase"] for view in views.values()]

    def say(self, words: str) -> None:
        pass


@pytest.fixture
def second_node() -> Iterator[FakeNode]:
    with running_fake_node() as node:
        yield node


def follower(*nodes: FakeNode, **options: Any) -> Follower:
    clients = {chr(ord("a") + i): NodeClient(node.address) for i, node in enumerate(nodes)}
    return Follower(clients, "MNIST", options.pop("progress", Quiet()), **options)


def test_rounds_come_one_by_one(fake_node: FakeNode) -> None:
    quiet = Quiet()
    fake_node.views = [
        job(phase="TRAINING", current_round=0, rounds_left=1),
        job(phase="AVERAGING", current_round=1, rounds_left=0),
        job(current_round=1),
    ]
    fake_node.records = [record(0, "d0"), record(1, "d1")]
    results = list(follower(fake_node, progress=quiet).rounds(0, 2))
    assert [(result.number, result.digests["a"]) for result in results] == [(0, "d0"), (1, "d1")]
    assert quiet.phases == ["TRAINING", "AVERAGING", "IDLE"]


def test_a_round_is_over_when_every_node_has_its_result(fake_node: FakeNode, second_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [job(current_round=0)], [record(0)]
    second_node.views = [job(phase="MEASURING", current_round=0), job(current_round=0)]
    second_node.records = [record(0)]
    [result] = follower(fake_node, second_node).rounds(0, 1)
    assert result.same_model
    assert set(result.digests) == {"a", "b"}


def test_all_at_rest_without_a_result_is_a_failure(fake_node: FakeNode, second_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [job(current_round=0)], [record(0)]
    second_node.views = [job(outcome="took no part: busy\x1b")]
    with pytest.raises(RoundFailed, match=r"without a result on b \(took no part: busy\\x1b\)"):
        list(follower(fake_node, second_node).rounds(0, 1))


def test_a_round_that_does_not_move_is_a_failure(fake_node: FakeNode) -> None:
    fake_node.views = [job(phase="GATHERING", current_round=0, waiting_for=["node-b"])]
    with pytest.raises(RoundFailed, match=r"round 0 has not moved for 0.05 s: a gathering, 0 of 1 received"):
        list(follower(fake_node, patience=0.05).rounds(0, 1))


def test_the_check_ends_the_waiting(fake_node: FakeNode) -> None:
    def check() -> None:
        raise StartError("node-b has ended")

    with pytest.raises(StartError):
        list(follower(fake_node, check=check).rounds(0, 1))


def test_a_node_that_is_gone_is_an_error_unless_borne_with(fake_node: FakeNode) -> None:
    with running_fake_node() as gone:
        pass
    with pytest.raises(PeerUnreachable):
        list(follower(gone).rounds(0, 1))
    with pytest.raises(RoundFailed, match="has not moved"):
        list(follower(gone, tolerant=True, patience=0.05).rounds(0, 1))
