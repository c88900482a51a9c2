"""PeerHistory of rounds: this node's records, with the seconds and bytes that rounds took, and accuracies of the peers.

Jobs know no clock, so their phases are watched from outside. What was measured is saved with a record. Training
and averaging are measured where they are done; here the time that a job waits in its other phases is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from flnet.errors import LocalError, TransportError
from flnet.node.core import NodeCore, Owned
from flnet.node.interface import PeerInfo, Points, View
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Save
from flnet.protocol.events import Event, Restored
from flnet.protocol.messages import LAST_ROUND
from flnet.protocol.updates import RoundKey
from flnet.rounds.history import HELD_ROUNDS
from flnet.rounds.steps import Phase
from flnet.rounds.vertical_job import VerticalJob
from flnet.rounds.view import JobView
from flnet.store.base import FIRST, Store
from flnet.wire.transport import Transport

MOST_ROUNDS = 2 * HELD_ROUNDS  # of each job; peers may name rounds that never come
V = TypeVar("V")
VERTICAL_PARTS = {Phase.ALIGNING: "align", Phase.TRAINING: "train"}
PARTS = {
    Phase.FETCHING: "fetch",
    Phase.GATHERING: "wait",
    Phase.MEASURING: "measure",
    Phase.EXCHANGING: "exchange",
}
ROUND_PARTS = ("align", "fetch", "train", "wait", "average", "measure", "exchange")  # in the order of a round
NOTHING: Mapping[str, int] = {"sent": 0, "received": 0}
PAGE_ROUNDS = 100  # records that a reader of a whole history makes this node hold at once
PEER_ROUNDS = 100  # of one peer, the newest
MOST_PEERS = 6  # of one job; so many lines can be told apart
MOST_KEPT = 128  # jobs of peers; the least recently looked at is forgotten first
PEER_BYTES = 1024 * 1024  # of one peer's answer
PEER_SECONDS = 2.0  # a page should not wait longer for a peer
PAUSE_SECONDS = 5.0  # between two questions to a peer for one job
FAILED_SECONDS = 30.0  # after a question that brought nothing


class PerRound(Generic[V]):
    """One counter for each round of each job; the oldest of a job is dropped first."""

    def __init__(self, make: Callable[[], V], most: int = MOST_ROUNDS) -> None:
        """Args:
        make: creates a new counter.
        most: rounds of each job that are kept.
        """
        self._make, self._most = make, most
        self._rounds: dict[TrainerId, OrderedDict[RoundKey, V]] = {}

    def of(self, trainer: TrainerId, key: RoundKey) -> V:
        """The counter of a round, a new one if there is none."""
        rounds = self._rounds.setdefault(trainer, OrderedDict())
        if key not in rounds:
            rounds[key] = self._make()
            while len(rounds) > self._most:
                rounds.popitem(last=False)
        return rounds[key]

    def find(self, trainer: TrainerId, key: RoundKey) -> V | None:
        """The counter of a round, if there is one."""
        rounds = self._rounds.get(trainer)
        return None if rounds is None else rounds.get(key)


@dataclass
class _PhaseSpan:
    """The phase that a job is in, and since when."""

    key: RoundKey | None
    phase: Phase
    since: float


class Stopwatch:
    """Adds up the seconds that jobs spend in their phases, round by round."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Args:
        now: seconds on a clock that never goes back.
        """
        self._now = now
        self._spells: dict[TrainerId, _PhaseSpan] = {}
        self._seconds = PerRound[dict[str, float]](dict)

    def note(
        self, trainer: TrainerId, key: RoundKey | None, phase: Phase, parts: Mapping[Phase, str] = PARTS
    ) -> None:
        """Note the phase of a job after an event; the same phase again changes nothing.

        Args:
            parts: names of the phases that are measured here.
        """
        spell = self._spells.get(trainer)
        if spell is not None and (spell.key, spell.phase) == (key, phase):
            return
        now = self._now()
        self._spells[trainer] = _PhaseSpan(key, phase, now)
        if spell is None or spell.key is None or spell.phase not in parts:
            return
        seconds, part = self._seconds.of(trainer, spell.key), parts[spell.phase]
        seconds[part] = seconds.get(part, 0.0) + now - spell.since

    def seconds(self, trainer: TrainerId, key: RoundKey) -> Mapping[str, float]:
        """Seconds of a round's parts, as far as they happened: fetch, wait, measure, exchange; align and train of
        vertical jobs.
        """
        return self._seconds.find(trainer, key) or {}


class Traffic:
    """Adds up the bodies with parameters that went out and came in, round by round and of each job, and counts messages.

    A body counts with the bytes that it has on the way, without headers, TLS and the answer to it: one that goes out
    when it is answered without a refusal, one that comes in when it is taken. Of vertical jobs, all messages count.
    The sums of jobs are those since the node was started. Messages are the requests that this node made of others for a
    round, downloads among them.
    """

    def __init__(self) -> None:
        self._rounds = PerRound[dict[str, int]](lambda: dict(NOTHING))
        self._messages = PerRound[list[int]](lambda: [0])
        self._jobs: dict[TrainerId, dict[str, int]] = {}

    def asked(self, trainer: TrainerId, key: RoundKey) -> None:
        """A request of this round is made of another node."""
        self._messages.of(trainer, key)[0] += 1

    def sent(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round went out."""
        self._count(trainer, key, "sent", nbytes)

    def received(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round came in, or the part of it that did."""
        self._count(trainer, key, "received", nbytes)

    def recall(self, trainer: TrainerId, key: RoundKey, moved: Mapping[str, int], messages: int) -> None:
        """An earlier run of the node has counted this in a round."""
        self._messages.of(trainer, key)[0] += messages
        counted = self._rounds.of(trainer, key)
        for way in NOTHING:
            counted[way] += moved[way]

    def view(self, trainer: TrainerId, key: RoundKey) -> Mapping[str, int]:
        """{sent, received}, in bytes."""
        return dict(self._rounds.find(trainer, key) or NOTHING)

    def messages(self, trainer: TrainerId, key: RoundKey) -> int:
        """How many requests this node made of others in a round."""
        return sum(self._messages.find(trainer, key) or ())

    def of_job(self, trainer: TrainerId) -> Mapping[str, int]:
        """{sent, received} of a job since the node was started, in bytes."""
        return dict(self._jobs.get(trainer, NOTHING))

    def _count(self, trainer: TrainerId, key: RoundKey, way: str, nbytes: int) -> None:
        self._rounds.of(trainer, key)[way] += nbytes
        self._jobs.setdefault(trainer, dict(NOTHING))[way] += nbytes


class RoundHistory:
    """Measures rounds while they are open, and finds their records later.

    What was measured is saved with a record, so that it outlives the bounded counters. A request that is made after the
    last save of a record is counted in memory only.
    """

    def __init__(self, core: NodeCore, store: Store, now: Callable[[], float] = time.monotonic) -> None:
        self._core, self._store = core, store
        self._stopwatch, self.traffic = Stopwatch(now), Traffic()

    def note(self, owner: TrainerId | None, event: Event) -> None:
        """Note the phases of all jobs after the core handled an event."""
        for trainer, job in self._core.jobs.items():
            parts = VERTICAL_PARTS if isinstance(job, VerticalJob) else PARTS
            self._stopwatch.note(trainer, job.key, job.phase, parts)
        if owner is not None and isinstance(event, Restored):
            for record in event.records:
                self._recall(owner, record)

    def measured(self, owned: Sequence[Owned]) -> list[Owned]:
        """The same effects, with the measurements added to the records that are saved."""
        return [self._measured(item) for item in owned]

    def newest(self, trainer: TrainerId) -> Sequence[View]:
        """The records of the newest HELD_ROUNDS rounds that are over, oldest first."""
        return [self._view(trainer, record) for record in self._core.job(trainer).records()]

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[View]:
        """The records of the newest `last` rounds up to `until`, or of all that are kept, oldest first."""
        held = self.newest(trainer)
        if until is None and last is not None and last <= len(held):
            return held[-last:]
        try:
            saved = await self._store.records(trainer, last, until)
        except LocalError:  # what is held can be told all the same
            saved = ()
        by_key = {_key(record): _saved(record) for record in saved}
        by_key |= {_key(record): record for record in held if until is None or record["round"] <= until}
        rows = _in_order(by_key)
        return rows if last is None else rows[-last:]

    async def pages(self, trainer: TrainerId, last: int | None = None) -> AsyncIterator[Sequence[View]]:
        """The records of the newest `last` rounds, or of all that are kept, oldest first, PAGE_ROUNDS at a time."""
        if last is not None and last <= HELD_ROUNDS:
            yield await self.records(trainer, last)
            return
        held, after = {_key(record): record for record in self.newest(trainer)}, FIRST
        try:
            skip = 0 if last is None else max(0, await self._store.count_records(trainer) - last)
            while saved := await self._store.records_after(trainer, after, PAGE_ROUNDS, skip):
                after, skip = (saved[-1]["round"], saved[-1]["initiator"]), 0
                known = [key for key in held if (key.number, key.initiator) <= after]
                page = {_key(record): _saved(record) for record in saved} | {key: held.pop(key) for key in known}
                yield _in_order(page)
        except LocalError:  # what is held can be told all the same
            pass
        yield _in_order(held)

    async def thinned(self, trainer: TrainerId, most: int, last: int | None = None) -> Sequence[View]:
        """As `records`; if there are more than `most`, every so many of them, the newest among them."""
        with contextlib.suppress(LocalError):  # then what is held can be told
            count = await self._store.count_records(trainer)
            every = -(-min(count, count if last is None else last) // most)
            if every > 1:
                return [_saved(record) for record in await self._store.every_record(trainer, every, last)]
        return await self.records(trainer, last)

    def _recall(self, trainer: TrainerId, record: View) -> None:
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # the job says so when records are damaged
            key, moved = _key(record), {**NOTHING, **record.get("bytes", {})}
            self.traffic.recall(trainer, key, moved, record.get("messages") or 0)

    def _measured(self, item: Owned) -> Owned:
        if item.owner is None or not isinstance(item.effect, Save) or not item.effect.records:
            return item
        records = tuple(self._view(item.owner, record) for record in item.effect.records)
        return Owned(item.owner, replace(item.effect, records=records))

    def _view(self, trainer: TrainerId, record: View) -> View:
        key = _key(record)
        seconds = {**record["seconds"], **self._stopwatch.seconds(trainer, key)}
        in_order = {part: seconds[part] for part in ROUND_PARTS if part in seconds}
        moved, messages = self.traffic.view(trainer, key), self.traffic.messages(trainer, key)
        return {**record, "seconds": in_order, "bytes": moved, "messages": messages}


def _saved(record: View) -> View:
    # Older versions saved none.
    return {**record, "bytes": record.get("bytes", NOTHING), "messages": record.get("messages")}


def _in_order(by_key: Mapping[RoundKey, View]) -> list[View]:
    return [by_key[key] for key in sorted(by_key, key=lambda key: (key.number, key.initiator))]


def _key(record: View) -> RoundKey:
    return RoundKey(record["round"], PeerId(record["initiator"]))


@dataclass
class _PeerPoints:
    """The cached history of one job of one peer: accuracy after averaging by round, and the time of the next request."""

    points: dict[int, float] = field(default_factory=dict)
    is_whole: bool = False
    again: float = float("-inf")

    def add(self, points: Mapping[int, float]) -> None:
        self.points.update(points)
        for number in sorted(self.points)[:-PEER_ROUNDS]:
            del self.points[number]


class PeerHistory:
    """Accuracies of the peers by round.

    What a peer says of itself anyway (GET /info) tells of its newest round. Its history is asked only when that
    does not join on to what is known: at the first look, and when rounds passed while nobody looked.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: OrderedDict[tuple[str, str], _PeerPoints] = OrderedDict()
        self._asking = asyncio.Lock()

    async def get(self, trainer: str, infos: Sequence[PeerInfo]) -> Mapping[str, Points]:
        """Accuracies of this trainer's job by peer, of the first MOST_PEERS that have trained it."""
        jobs = [(info, job) for info in infos if (job := info.job(trainer)) is not None and job.current_round >= 0]
        jobs = jobs[:MOST_PEERS]
        async with self._asking:  # concurrent readers wait for the same answers
            points = await asyncio.gather(*(self._of(trainer, info, job) for info, job in jobs))
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return {info.id: points_of_peer for (info, _), points_of_peer in zip(jobs, points, strict=True)}

    async def _of(self, trainer: str, peer: PeerInfo, job: JobView) -> Points:
        key = (peer.id, trainer)
        told = self._kept.setdefault(key, _PeerPoints())
        self._kept.move_to_end(key)
        newest, now = _newest(job), asyncio.get_running_loop().time()
        if _is_asked(told, newest) and now >= told.again:
            answer = await self._ask(peer.address, trainer)
            told.is_whole = answer is not None
            told.again = now + (PAUSE_SECONDS if answer is not None else FAILED_SECONDS)
            if answer is not None:
                told.points.clear()
                told.add(answer)
        told.add(newest)
        return tuple(sorted(told.points.items()))

    async def _ask(self, address: str, trainer: str) -> Mapping[int, float] | None:
        """The accuracies of a peer's history; None if there is no usable answer."""
        path = f"/jobs/{trainer}/history?last={PEER_ROUNDS}"
        try:
            async with asyncio.timeout(PEER_SECONDS):
                reply = await self._transport.fetch(address, path, PEER_BYTES)
            if reply.status != 200:
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
    points: dict[int, float] = {}
    for record in records[-PEER_ROUNDS:]:
        points.update(_point(record))
    return points


def _is_asked(told: _PeerPoints, newest: Mapping[int, float]) -> bool:
    if not told.is_whole:
        return True
    last = max(told.points, default=-1)
    return any(number not in (last, last + 1) for number in newest)


def _newest(job: JobView) -> Mapping[int, float]:
    """The accuracy of the newest model, by its round."""
    accuracy = job.post_fedavg_accuracy
    return {} if job.model_round < 0 or accuracy is None else {job.model_round: accuracy}


def _point(record: Any) -> Mapping[int, float]:
    """The round and the accuracy after averaging of a record, where both are sound."""
    if not isinstance(record, Mapping):
        return {}
    number, accuracy = record.get("round"), record.get("post_fedavg_accuracy")
    if type(number) is not int or not 0 <= number <= LAST_ROUND:
        return {}
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 <= accuracy <= 1:
        return {}
    return {number: float(accuracy)}
