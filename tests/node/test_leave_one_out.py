"""Whom a node gains from: measured beside the rounds, given up when one begins, told to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import orjson
import pytest

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.screening import Bounds, remerge
from flnet.compute.queue import ComputeQueue
from flnet.compute.verbs import EvaluateRequest
from flnet.errors import TrainerError, UnknownTrainer
from flnet.node.core import NodeCore
from flnet.node.leave_one_out import TOO_FEW, TOO_LARGE, LeaveOneOut
from flnet.params.params import Params, PeerId, Schema, TrainerId
from flnet.protocol.effects import Average
from flnet.protocol.events import RoundTriggered, TrainingFailed
from flnet.protocol.messages import Trigger
from flnet.protocol.updates import Update
from flnet.rounds.steps import Phase
from flnet.trainer import Score
from tests.helpers import key, params, peer
from tests.node.mesh import MNIST_3_7, mesh_of, until
from tests.rounds.helpers import prepared

T = TrainerId("T")
KEY = key(0, "m")
UPDATES = tuple(Update(PeerId(name), KEY, params(w=[w, w]), 1) for name, w in (("a", 0.0), ("m", 0.5), ("z", 1.0)))


class Scale:
    """A pool whose measurement says how large the first number is; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.before: Callable[[], Any] = lambda: None
        self.fails = False

    async def call(self, trainer: TrainerId, request: EvaluateRequest) -> Score:
        self.asked.append(float(request.params["w"][0]))
        self.before()
        if self.fails:
            raise TrainerError("no memory")
        return Score(self.asked[-1], 8)


def mean(updates: Sequence[Update]) -> Params:
    return params(w=np.mean([update.params["w"] for update in updates], axis=0))


class Observed:
    """The gains of a node "m" whose job is between rounds, the last one being round 0."""

    def __init__(self, **more: Any) -> None:
        self.core, self.pool, self.told = NodeCore(peer("m"), [T]), Scale(), list[tuple[Any, ...]]()
        self.core.jobs[T].receive(prepared())
        self.core.jobs[T].receive(RoundTriggered())
        self.core.jobs[T].receive(TrainingFailed(KEY, "no memory"))
        self.leave_one_out = LeaveOneOut(
            self.core,
            cast(ComputeQueue, self.pool),
            lambda *told: self.told.append(told),
            **{"is_on": True, **more},
        )

    @property
    def view(self) -> Mapping[str, Any]:
        return self.leave_one_out.view(T)

    def keep(self, updates: tuple[Update, ...] = UPDATES, **more: Any) -> None:
        self.leave_one_out.keep(T, Average(KEY, updates, **more), mean)

    async def run(self, until_told: bool = True) -> None:
        """Let it measure until it said so, or until nothing more is to be done."""
        task = asyncio.create_task(self.leave_one_out.run())
        self.leave_one_out.note()
        try:
            await until(lambda: bool(self.told) or (not until_told and not self.leave_one_out._kept))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_average_is_measured_with_all_and_without_each_peer() -> None:
    seen = Observed()
    seen.keep()
    await seen.run()
    (found,) = seen.view["rounds"]
    assert (found["round"], found["accuracy"], found["examples"]) == (0, 0.5, 8)
    assert found["without"] == {"a": 0.75, "z": 0.25}  # never without itself
    assert seen.pool.asked == [0.5, 0.75, 0.25]
    assert [told[:3] for told in seen.told] == [
        ("gains_measured", "what each peer brought to round 0 is measured", T)
    ]
    assert "0.75" not in str(seen.told)  # of which everybody may hear
    assert seen.view["why_not"] == ""


async def test_a_round_that_begins_comes_first() -> None:
    seen = Observed()
    seen.keep()

    def begin() -> None:
        seen.core.jobs[T].receive(RoundTriggered())
        seen.leave_one_out.note()

    seen.pool.before = begin
    await seen.run(until_told=False)
    assert (seen.pool.asked, seen.told, seen.view["rounds"]) == ([0.5], [], [])


def test_nothing_is_begun_while_the_round_is_open() -> None:
    seen = Observed()
    seen.keep()
    round = seen.core.jobs[T].round
    assert round is not None
    for phase in (Phase.AVERAGING, Phase.MEASURING, Phase.EXCHANGING):
        round.phase = phase
        seen.leave_one_out.note()
        assert not seen.leave_one_out._news.is_set()
    round.phase = Phase.IDLE
    seen.leave_one_out.note()
    assert seen.leave_one_out._news.is_set()


@pytest.mark.parametrize(
    ("more", "updates", "folded", "why"),
    [
        ({"most_bytes": 23}, UPDATES, (), TOO_LARGE),
        ({}, UPDATES, (PeerId("b"),), TOO_LARGE),
        ({}, UPDATES[1:2], (), TOO_FEW),
    ],
)
def test_what_cannot_be_held_on_to_is_said(
    more: dict[str, int], updates: tuple[Update, ...], folded: tuple[PeerId, ...], why: str
) -> None:
    seen = Observed(**more)
    seen.keep(updates, folded=folded)
    assert (seen.view["why_not"], seen.leave_one_out._kept) == (why, {})


async def test_what_fails_is_said_and_the_next_round_is_measured() -> None:
    seen = Observed()
    seen.keep()
    seen.pool.fails = True
    await seen.run(until_told=False)
    assert seen.view["why_not"] == "it could not be measured: no memory"
    seen.pool.fails = False
    seen.keep()
    await seen.run()
    assert (len(seen.view["rounds"]), seen.view["why_not"]) == (1, "")


async def test_where_it_is_off_nothing_runs() -> None:
    seen = Observed(is_on=False)
    await asyncio.wait_for(seen.leave_one_out.run(), 60)
    assert seen.view == {"on": False, "why_not": "", "rounds": []}
    with pytest.raises(UnknownTrainer):
        seen.leave_one_out.view(TrainerId("nobody"))


def test_a_round_is_merged_again_as_the_node_merges_it() -> None:
    schema = Schema.of(params(w=[0, 0]), {}, {})
    far = Update(PeerId("y"), KEY, params(w=[900, 900]), 1)
    start = RoundStart(schema, params(w=[0.25, 0.25]))
    merge = remerge(Bounds(ratio=10), fed_avg(), start, None)
    assert merge((*UPDATES, far))["w"].tolist() == [0.5, 0.5]  # far does not count
    assert merge(UPDATES[1:])["w"].tolist() == [0.75, 0.75]


async def test_in_a_mesh_the_last_round_of_a_series_is_measured_and_no_peer_hears_of_it() -> None:
    async with mesh_of(1.0, 1.0, 3.0, leave_one_out=True) as mesh:
        node = mesh.nodes["a"]
        body = orjson.dumps({"trainerId": MNIST_3_7, "rounds": 2})
        await node.receive(Trigger.path, body, "application/json", "127.0.0.1")
        await mesh.idle(1)
        await until(lambda: bool(node.leave_one_out.view(MNIST_3_7)["rounds"]))
        found = node.leave_one_out.view(MNIST_3_7)["rounds"][-1]
        assert found["round"] == 1
        assert found["accuracy"] == pytest.approx(node.history(MNIST_3_7)[-1]["post_fedavg_accuracy"])
        assert found["without"].keys() == {"b", "c"}
        # Towards 1.0 the node learns with b; c, which pulls towards 3.0, takes it too far.
        assert found["without"]["b"] != found["accuracy"]
        heard = orjson.dumps([node.info(), list(node.history(MNIST_3_7)), [i.data for i in node.feed.recent()]])
        assert b"without" not in heard
