"""What a node computes that averages with its neighbours alone."""

from __future__ import annotations

from typing import cast

import numpy as np

from flnet.aggregation.fed_avg import fed_avg
from flnet.compute.queue import ComputeQueue
from flnet.compute.tasks import ComputeTasks
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Average
from flnet.protocol.events import Averaged
from flnet.protocol.updates import Update
from flnet.rounds.job import Job
from tests.compute.inline_queue import InlineQueue
from tests.helpers import key, params
from tests.rounds.helpers import prepared, settings

T = TrainerId("T")
LINKS = {PeerId("a"): 1 / 3, PeerId("c"): 1 / 4}


def tasks() -> ComputeTasks:
    job = Job(settings())
    job.receive(prepared((0, 0)))
    return ComputeTasks(cast(ComputeQueue, InlineQueue({})), fed_avg(), PeerId("b"), 0, lambda _: job)


def update(peer: str, w: tuple[float, float], examples: int = 10) -> Update:
    return Update(PeerId(peer), key(), params(w=w), examples)


async def test_updates_count_by_their_links() -> None:
    updates = (update("a", (6, 0)), update("b", (3, 4)), update("c", (0, 8), examples=5))
    event = await tasks().average(T, Average(key(), updates, links=LINKS))
    assert isinstance(event, Averaged)
    # c states half as many examples as b: an eighth.
    assert np.allclose(event.params["w"], [6 / 3 + 3 * 13 / 24, 4 * 13 / 24 + 8 / 8])
    assert [round(weighed.weight or 0, 6) for _, weighed in sorted(event.weighed.items())] == [
        round(share, 6) for share in (1 / 3, 13 / 24, 1 / 8)
    ]
    assert event.spread is not None and event.note.startswith("updates of neighbours differ from this node's by ")
    assert event.is_common


async def test_an_update_that_moved_too_far_leaves_its_weight_to_the_node_itself() -> None:
    updates = (update("a", (1e6, 0)), update("b", (1, 1)), update("c", (1, 0)))
    event = await tasks().average(T, Average(key(), updates, links=LINKS))
    assert isinstance(event, Averaged) and set(event.refused) == {"a"}
    assert np.allclose(event.params["w"], [1, 0.75])
