"""A node that kills its own process at a named point of a round: `python -m tests.processes.crashing run ...`.

It is `flnet run`, with a performer and a post that look into the file named by CRASH_POINT before and after each
effect of a job. A point is a moment, an effect and the phase of the job at that time, such as "before Save
GATHERING", and a round before which it does not count. A vertical job has the stage of its epoch in place of the
phase, such as "before Talk CLOSING". A node may also die when it passes a point for the nth time.

- before: the effect is the next thing to be done.
- after: it was done, or, if it takes time, begun.
- done: what it began has ended.
- answered: one peer has answered a message; the effect is that message's kind.

CRASH_SEEN names a file to which the points that the node passes are added, CRASH_LEDGER one to which it adds each
own update that a peer took.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from flnet.__main__ import main
from flnet.node import build
from flnet.node.core import NodeCore, Owned
from flnet.node.event_queue import Deliver
from flnet.node.model_registry import SelectedModel
from flnet.node.outbox import Outbox
from flnet.node.performer import Performer, Step
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Answer, Save
from flnet.protocol.events import Event
from flnet.protocol.messages import JobMessage, ModelParams, Packet
from flnet.protocol.updates import RoundKey
from flnet.rounds.base_job import AnyJob
from flnet.rounds.vertical_job import VerticalJob
from flnet.wire.transport import Reply

POINT, SEEN, LEDGER = "CRASH_POINT", "CRASH_SEEN", "CRASH_LEDGER"


class Point(NamedTuple):
    """Where a node is killed."""

    moment: str
    effect: str
    phase: str

    def __str__(self) -> str:
        return " ".join(self)


def arm(file: Path, point: Point, round: int, times: int = 1) -> None:
    """Let the node that looks into this file die there, in this round or a later one, when it has passed so often."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(f"{point} {round}" if times == 1 else f"{point} {round} {times}")
    unfinished.rename(file)


class _Crashes:
    """Looks at each point whether this is the one."""

    def __init__(self) -> None:
        self._seen: set[Point] = set()
        self._passed: Counter[str] = Counter()  # how often the armed point was passed

    def pass_by(self, core: NodeCore, owner: TrainerId | None, moment: str, effect: str) -> None:
        """Die here if it was asked for."""
        if owner is None:
            return
        job = core.jobs[owner]
        point = Point(moment, effect, _phase_of(job))
        if point not in self._seen:
            self._seen.add(point)
            _add(SEEN, str(point).encode())
        file = Path(os.environ[POINT])
        try:
            armed = file.read_text()
        except FileNotFoundError:
            return
        *wanted, round, times = armed.split() if len(armed.split()) == 5 else [*armed.split(), "1"]
        if Point(*wanted) != point or job.number < int(round):
            return
        self._passed[armed] += 1
        if self._passed[armed] >= int(times):
            file.unlink()  # so that the node that comes after this one lives
            os.kill(os.getpid(), signal.SIGKILL)


def _phase_of(job: AnyJob) -> str:
    if isinstance(job, VerticalJob) and job.round is not None and job.round.stage:
        return job.round.stage.upper()
    return job.phase.value


_crashes = _Crashes()


class CrashingPerformer(Performer):
    """May die before and after each effect of a job, in the order in which they are performed."""

    _current: Owned | None = None

    def _show(self, step: Step) -> Packet | None:
        answer = super()._show(step)
        for item in step.effects:
            if isinstance(item.effect, Answer):
                self._pass_by("after", item)
        return answer

    async def _save(self, owner: TrainerId, saves: Sequence[Save], models: Sequence[SelectedModel]) -> bool:
        self._pass_by("before", Owned(owner, saves[-1]))
        done = await super()._save(owner, saves, models)
        self._pass_by("after", Owned(owner, saves[-1]))
        return done

    def _for_anyone(self, item: Owned) -> None:
        self._pass_by("before", item)
        super()._for_anyone(item)
        self._pass_by("after", item)

    def _for_job(self, owner: TrainerId, item: Owned) -> None:
        self._pass_by("before", item)
        self._current = item
        super()._for_job(owner, item)
        self._current = None
        self._pass_by("after", item)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        item = self._current

        async def watched() -> None:
            await work
            if item is not None:
                self._pass_by("done", item)

        return super()._spawn(watched())

    def _pass_by(self, moment: str, item: Owned) -> None:
        _crashes.pass_by(_core_of(self._deliver), item.owner, moment, type(item.effect).__name__)


class CrashingPost(Outbox):
    """May die when one peer has answered, and the others have not."""

    async def _outcome(self, peer: PeerId, message: JobMessage, key: RoundKey, reply: Reply) -> Event | None:
        if isinstance(message, ModelParams) and reply.status < 400 and not message.declined:
            entry = {"from": message.i_am.id, "to": peer, "round": key.number, "initiator": key.initiator}
            _add(LEDGER, orjson.dumps(entry))
        _crashes.pass_by(
            _core_of(self._deliver), TrainerId(message.trainer_id), "answered", type(message).__name__
        )
        return await super()._outcome(peer, message, key, reply)


def _core_of(deliver: Deliver) -> NodeCore:
    """Of the node whose `deliver` this is."""
    core = getattr(deliver, "__self__").core  # noqa: B009 - a bound method, which its type does not tell
    assert isinstance(core, NodeCore)
    return core


def _add(variable: str, line: bytes) -> None:
    """Add a line to a file; what was written stays when the process is killed."""
    if name := os.environ.get(variable):
        handle = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line + b"\n")
        finally:
            os.close(handle)


if __name__ == "__main__":
    vars(build).update(Performer=CrashingPerformer, Outbox=CrashingPost)
    main()
