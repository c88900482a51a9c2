"""What the peers tell of their rounds, for the chart of a job: asked rarely, checked, and kept."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.errors import TransportError
from flnet.messages import LAST_ROUND
from flnet.node.base import Points, View
from flnet.transport import Transport

MOST_ROUNDS = 100  # of one peer, the newest
MOST_PEERS = 6  # of one job; so many lines can be told apart
MOST_KEPT = 128  # jobs of peers; the least recently looked at is forgotten first
MAX_BYTES = 1024 * 1024  # of one peer's answer
SECONDS = 2.0  # a page should not wait longer for a peer
PAUSE_SECONDS = 5.0  # between two questions to a peer for one job
FAILED_SECONDS = 30.0  # after a question that brought nothing


@dataclass
class _Told:
    """What is known of one job of one peer: accuracy after averaging by round, and when it may be asked again."""

    points: dict[int, float] = field(default_factory=dict)
    is_whole: bool = False
    again: float = float("-inf")

    def add(self, points: Mapping[int, float]) -> None:
        self.points.update(points)
        for number in sorted(self.points)[:-MOST_ROUNDS]:
            del self.points[number]


class Histories:
    """Accuracies of the peers by round.

    What a peer says of itself anyway (GET /info) tells of its newest round. Its history is asked only when that
    does not join on to what is known: at the first look, and when rounds passed while nobody looked.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: OrderedDict[tuple[str, str], _Told] = OrderedDict()
        self._asking = asyncio.Lock()

    async def get(self, trainer: str, infos: Sequence[View]) -> Mapping[str, Points]:
        """Accuracies of this trainer's job by peer, of the first MOST_PEERS that have trained it.

        Args:
            infos: what the peers say of themselves, unchecked; see `flnet.node.base.Node.peer_infos`.
        """
        jobs = [(one, job) for one in infos if (job := _job(one["info"], trainer)) is not None][:MOST_PEERS]
        async with self._asking:  # whoever looks at the same time waits for the same answers
            found = await asyncio.gather(*(self._of(trainer, one, job) for one, job in jobs))
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return {one["id"]: points for (one, _), points in zip(jobs, found, strict=True)}

    async def _of(self, trainer: str, peer: View, job: View) -> Points:
        key = (peer["id"], trainer)
        told = self._kept.setdefault(key, _Told())
        self._kept.move_to_end(key)
        newest, now = _point(job, "model_round"), asyncio.get_running_loop().time()
        if _is_asked(told, newest) and now >= told.again:
            answer = await self._ask(peer["address"], trainer)
            told.is_whole = answer is not None
            told.again = now + (PAUSE_SECONDS if answer is not None else FAILED_SECONDS)
            if answer is not None:
                told.points.clear()
                told.add(answer)
        told.add(newest)
        return tuple(sorted(told.points.items()))

    async def _ask(self, address: str, trainer: str) -> Mapping[int, float] | None:
        """What a peer's history holds of accuracies; None where there is no usable answer."""
        path = f"/jobs/{trainer}/history?last={MOST_ROUNDS}"
        try:
            async with asyncio.timeout(SECONDS):
                reply = await self._transport.fetch(address, path)
            if reply.status != 200 or len(reply.body) > MAX_BYTES:
                return None
            return await asyncio.to_thread(read_history, reply.body)
        except (TimeoutError, TransportError):
            return None


def read_history(body: bytes) -> Mapping[int, float] | None:
    """Accuracies after averaging by round, of the newest MOST_ROUNDS records; None for what is no history."""
    try:
        records = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(records, list):
        return None
    found: dict[int, float] = {}
    for record in records[-MOST_ROUNDS:]:
        found.update(_point(record, "round"))
    return found


def _is_asked(told: _Told, newest: Mapping[int, float]) -> bool:
    if not told.is_whole:
        return True
    last = max(told.points, default=-1)
    return any(number not in (last, last + 1) for number in newest)


def _job(info: Any, trainer: str) -> View | None:
    """The job of this trainer in an answer to GET /info, if it has come to a round."""
    jobs = info.get("jobsInfo") if isinstance(info, Mapping) else None
    named = [job for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, list) else []
    job = next((job for job in named if job.get("trainer_id") == trainer), None)
    number = job.get("current_round") if job is not None else None
    return job if type(number) is int and number >= 0 else None


def _point(said: Any, name: str) -> Mapping[int, float]:
    """The round and the accuracy after averaging of a record or a job, where both are sound."""
    if not isinstance(said, Mapping):
        return {}
    number, accuracy = said.get(name), said.get("post_fedavg_accuracy")
    if type(number) is not int or not 0 <= number <= LAST_ROUND:
        return {}
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 <= accuracy <= 1:
        return {}
    return {number: float(accuracy)}
