"""Whom a node gains from: measured beside the rounds, given up when one begins, told to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import orjson
import pytest

from flnet.effects import Average
from flnet.errors import TrainerError, UnknownTrainer
from flnet.jobs import Phase
from flnet.messages import Trigger
from flnet.node.core import NodeCore
from flnet.node.gains import TOO_FEW, TOO_LARGE, Gains, remerge
from flnet.params import Params, PeerId, Schema, TrainerId, Update
from flnet.screening import Bounds
from flnet.strategies import RoundStart, fed_avg
from flnet.training import Pool, Score
from tests.helpers import key, params, peer
from tests.jobs.helpers import prepared
from tests.node.mesh import MNIST_3_7, mesh_of, until

T = TrainerId("T")
KEY = key(0, "m")
UPDATES = tuple(Update(PeerId(name), KEY, params(w=[w, w]), 1) for name, w in (("a", 0.0), ("m", 0.5), ("z", 1.0)))


class Scale:
    """A pool whose measurement says how large the first number is; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.before: Callable[[], Any] = lambda: None
        self.fails = False

    async def evaluate(self, trainer: TrainerId, params: Params) -> Score:
        self.asked.append(float(params["w"][0]))
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
        self.core.jobs[T].state.key = KEY
        self.gains = Gains(
            self.core, cast(Pool, self.pool), lambda *told: self.told.append(told), **{"is_on": True, **more}
        )

    @property
    def view(self) -> Mapping[str, Any]:
        return self.gains.view(T)

    def keep(self, updates: tuple[Update, ...] = UPDATES, **more: Any) -> None:
        self.gains.keep(T, Average(KEY, updates, **more), mean)

    async def run(self, until_told: bool = True) -> None:
        """Let it measure until it said so, or until nothing more is to be done."""
        task = asyncio.create_task(self.gains.run())
        self.gains.note()
        try:
            await until(lambda: bool(self.told) or (not until_told and not self.gains._kept))
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
        seen.core.jobs[T].state.phase = Phase.TRAINING
        seen.core.jobs[T].state.key = key(1, "m")
        seen.gains.note()

    seen.pool.before = begin
    await seen.run(until_told=False)
    assert (seen.pool.asked, seen.told, seen.view["rounds"]) == ([0.5], [], [])


def test_nothing_is_begun_while_the_round_is_open() -> None:
    seen = Observed()
    seen.keep()
    for phase in (Phase.AVERAGING, Phase.MEASURING, Phase.EXCHANGING):
        seen.core.jobs[T].state.phase = phase
        seen.gains.note()
        assert not seen.gains._news.is_set()
    seen.core.jobs[T].state.phase = Phase.IDLE
    seen.gains.note()
    assert seen.gains._news.is_set()


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
    assert (seen.view["why_not"], seen.gains._kept) == (why, {})


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
    await asyncio.wait_for(seen.gains.run(), 60)
    assert seen.view == {"on": False, "why_not": "", "rounds": []}
    with pytest.raises(UnknownTrainer):
        seen.gains.view(TrainerId("nobody"))


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
        await until(lambda: bool(node.gains.view(MNIST_3_7)["rounds"]))
        found = node.gains.view(MNIST_3_7)["rounds"][-1]
        assert found["round"] == 1
        assert found["accuracy"] == pytest.approx(node.history(MNIST_3_7)[-1]["post_fedavg_accuracy"])
        assert found["without"].keys() == {"b", "c"}
        # Towards 1.0 the node learns with b; c, which pulls towards 3.0, takes it too far.
        assert found["without"]["b"] != found["accuracy"]
        heard = orjson.dumps([node.info(), list(node.history(MNIST_3_7)), [i.data for i in node.feed.recent()]])
        assert b"without" not in heard
