"""Checks, when nodes meet and before any training, whether they can train together.

A node asks each reachable peer what it states of its jobs (GET /info), and compares that with its own. A difference
is an event, and part of the job's view as long as it lasts. Nothing of it enters a round: there, each message is
checked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.node.core import NodeCore
from flnet.node.interface import PeerInfo, View
from flnet.node.peer_infos import PeerInfos
from flnet.params.params import Digest, TrainerId
from flnet.rounds.base_job import AnyJob
from flnet.rounds.steps import Phase
from flnet.rounds.view import DiffersView
from flnet.text import text

TICK_SECONDS = 1.0
AGAIN_SECONDS = 5.0  # until a peer is asked again that did not answer, or was still loading its data
KEPT_SECONDS = 60.0  # until a peer is asked again that has answered: its data and rules may have changed
AT_ONCE = 8  # peers that are asked at the same time
MANY = 16  # peers, of which each is asked as soon as it is due
ASKED_A_TICK = 0.25  # peers where there are more, so that requests do not grow with the mesh
Tell = Callable[[str, str, str, Mapping[str, Any]], object]
Listen = Callable[[Sequence[PeerInfo]], Awaitable[object]]


@dataclass(frozen=True)
class Stated:
    """What a peer states of a job, as far as training together depends on it.

    Attributes:
        agreement: what must be equal on all nodes.
        schema: digest of the shared parameters and the trainer's agreement.
    """

    agreement: Mapping[str, str]
    schema: Digest | None


class MeetingChecks:
    """What reachable peers state of the jobs that this node has, too, and with whom it cannot train."""

    def __init__(self, core: NodeCore, infos: PeerInfos, peers: Callable[[], Sequence[View]], tell: Tell) -> None:
        """Args:
        peers: the other nodes, as this one knows them.
        tell: takes a kind, a sentence, a trainer and figures, for the feed.
        """
        self._core, self._infos, self._peers, self._tell = core, infos, peers, tell
        self._stated: dict[str, Mapping[TrainerId, Stated]] = {}  # by peer
        self._relays: dict[str, str] = {}  # where each peer that is a relay takes requests, by peer
        self._allowance = float(AT_ONCE)  # peers that may be asked now
        self._due: dict[str, float] = {}  # when a peer is asked next, by the clock of the event loop
        self._differs: dict[TrainerId, dict[str, str]] = {}
        self._rules: dict[TrainerId, str] = {}  # of the jobs, at the last check
        self.listen: Listen | None = None  # told of all answers, too

    async def run(self) -> None:
        """Ask and compare for ever."""
        while True:
            await self.check()
            await asyncio.sleep(TICK_SECONDS)

    async def check(self) -> None:
        """Ask the peers whose turn it is, and compare."""
        now = asyncio.get_running_loop().time()
        alive = {str(peer["id"]): peer for peer in self._peers() if peer["state"] == "alive"}
        self._stated = {name: stated for name, stated in self._stated.items() if name in alive}
        self._relays = {name: address for name, address in self._relays.items() if name in alive}
        self._due = {name: self._due.get(name, now) for name in alive}
        due = sorted((name for name in alive if self._due[name] <= now), key=self._due.__getitem__)
        self._allowance = min(AT_ONCE, self._allowance + (ASKED_A_TICK if len(alive) > MANY else AT_ONCE))
        asked = due[: int(self._allowance)]
        self._allowance -= len(asked)
        infos = await self._infos.ask([alive[name] for name in asked])
        for info in infos:
            self._answered(info, now)
        if self.listen is not None and infos:
            await self.listen(infos)
        if self._rule_has_changed():
            # What was stated is of earlier rounds, and others open the next one a moment later.
            self._stated, self._due = {}, dict.fromkeys(alive, now + AGAIN_SECONDS)
        for trainer, job in self._core.jobs.items():
            self._compare(trainer, job)

    @property
    def relays(self) -> list[str]:
        """The peers that are relays, as FLNET_RELAY takes them, sorted."""
        return sorted(set(self._relays.values()))

    def differs(self, trainer: TrainerId) -> list[DiffersView]:
        """The peers with which this node cannot train, by name, and why."""
        found = self._differs.get(trainer, {})
        return [DiffersView(peer=peer, words=words) for peer, words in sorted(found.items())]

    def _rule_has_changed(self) -> bool:
        """Whether a job averages by a proposed rule that has come into force since the last check."""
        before, self._rules = self._rules, {trainer: job.settings.rule for trainer, job in self._core.jobs.items()}
        changed = [trainer for trainer, rule in self._rules.items() if before.get(trainer, rule) != rule]
        return any(self._core.jobs[trainer].rule_change.changes_rules for trainer in changed)

    def _answered(self, info: PeerInfo, now: float) -> None:
        """Keep what a peer states; one that does not answer has stated what it said before."""
        is_complete = info.error is None and all(job.phase is not Phase.LOADING for job in info.jobs)
        self._due[info.id] = now + (KEPT_SECONDS if is_complete else AGAIN_SECONDS)
        if info.error is None:
            self._relays.pop(info.id, None)
            self._relays |= {info.id: info.relay} if info.relay else {}
            jobs = ((trainer, info.job(trainer)) for trainer in self._core.jobs)
            # An earlier version states nothing here, and a node that is loading its data cannot yet.
            self._stated[info.id] = {
                trainer: Stated(job.agreement, Digest(job.schema_digest) if job.schema_digest else None)
                for trainer, job in jobs
                if job is not None and job.agreement is not None
            }

    def _compare(self, trainer: TrainerId, job: AnyJob) -> None:
        known = {peer: stated[trainer] for peer, stated in self._stated.items() if trainer in stated}
        words_of = {peer: job.obstacles_with(theirs.agreement, theirs.schema) for peer, theirs in known.items()}
        found = {peer: words for peer, words in words_of.items() if words}
        before, self._differs[trainer] = self._differs.get(trainer, {}), found
        label = job.settings.declaration.label if job.settings.declaration else trainer
        for peer, words in found.items():
            if before.get(peer) != words:
                told = text("{peer} and this node cannot train {label} together: {words}", peer, label, words)
                self._tell("differs", told, trainer, {"peer": peer})
        for peer in sorted((before.keys() - found.keys()) & known.keys()):
            told = text("{peer} and this node can train {label} together now", peer, label)
            self._tell("differs_no_longer", told, trainer, {"peer": peer})
