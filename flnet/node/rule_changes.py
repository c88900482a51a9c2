"""Aggregation rules that are proposed to the mesh: asks the other nodes how far they are, and passes on what people say.

A node states that in its answer to GET /info. It is asked when a person looks, when nodes meet, and every few seconds
while a rule that was taken here is not in force everywhere. What follows from it is decided in
`flnet.rounds.rule_change`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence

from flnet.algorithms.registry import parse_rule
from flnet.errors import InvalidMessage
from flnet.node.core import NodeCore
from flnet.node.interface import PeerInfo, View
from flnet.node.peer_infos import PeerInfos
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.events import Event, RuleAnswered, RuleProposed, RulesHeard, RuleWithdrawn
from flnet.protocol.messages import RuleStatement
from flnet.rounds.steps import Phase
from flnet.text import text

POLL_SECONDS = 2.0
MOST_ASKED = 60  # peers, when a person says something
ASKED_AT_ONCE = 16  # peers; where there are more, they have their turns
_PRESENT = ("alive", "suspect", "dead")  # who has left, or is not accepted, is no member


class RuleChanges:
    """What people of this node say of proposed rules, and what other nodes state of them."""

    def __init__(
        self,
        core: NodeCore,
        infos: PeerInfos,
        peers: Callable[[], Sequence[View]],
        put: Callable[[TrainerId, Event], None],
        ask: Callable[[TrainerId, Event], Awaitable[object]],
    ) -> None:
        """Args:
        peers: the other nodes, as this one knows them.
        put: passes an event to a job.
        ask: the same, and waits until it is handled and saved.
        """
        self._core, self._infos, self._peers, self._put, self._ask = core, infos, peers, put, ask
        self._told: dict[TrainerId, RulesHeard] = {}
        self._asked: dict[str, float] = {}  # by peer, when it was asked for what the jobs were told last
        self._turn = 0
        self._has_news = asyncio.Event()

    async def run(self) -> None:
        """Ask the other nodes for ever, while something depends on it."""
        while True:
            await self.check()
            self._has_news.clear()
            try:
                await asyncio.wait_for(self._has_news.wait(), POLL_SECONDS)
            except TimeoutError:
                continue

    async def check(self) -> None:
        """Ask the peers whose turn it is, if a job waits for what they state."""
        if not any(job.rule_change.is_waiting for job in self._core.jobs.values()):
            return
        peers = self._members
        turned = [*peers[self._turn :], *peers[: self._turn]][:ASKED_AT_ONCE]
        self._turn = (self._turn + len(turned)) % max(1, len(peers))
        await self.heard(await self._infos.ask(turned))

    async def look(self, trainer: TrainerId) -> None:
        """Ask the peers now.

        Raises:
            UnknownTrainer: no such job.
        """
        self._core.job(trainer)
        await self.heard(await self._infos.ask(self._members[:MOST_ASKED]))

    async def propose(self, trainer: TrainerId, rule: str) -> None:
        """A person proposes a rule, as FLNET_AGGREGATION is written.

        Raises:
            UnknownTrainer, NotReady: there is no such job, or not yet.
            InvalidMessage: there is no such rule, or it does not fit. JobBusy: another proposal is open.
        """
        await self.look(trainer)
        try:
            whole = parse_rule(rule).name
        except ValueError as exc:
            raise InvalidMessage(text("{rule} is no rule: {reason}", repr(rule[:60]), exc)) from exc
        await self._say(trainer, RuleProposed(whole, secrets.token_hex(16)))

    async def answer(self, trainer: TrainerId, mark: str, *, takes: bool) -> None:
        """A person takes or declines the proposal of another node.

        Raises:
            UnknownTrainer, NotReady: there is no such job, or not yet.
            NoProposal: it is not made any more. InvalidMessage: the rule does not fit. JobBusy: another one was taken.
        """
        await self.look(trainer)
        await self._say(trainer, RuleAnswered(mark, takes))

    async def withdraw(self, trainer: TrainerId) -> None:
        """A person withdraws what this node proposes.

        Raises:
            UnknownTrainer: no such job. NoProposal: it proposes nothing. JobBusy: all nodes have taken it.
        """
        self._core.job(trainer)
        await self._say(trainer, RuleWithdrawn())

    def waits_for(self, peer: PeerId) -> bool:
        """Whether a rule that was taken here waits for this node."""
        return any(job.rule_change.waits_for(peer) for job in self._core.jobs.values())

    def forgotten(self, peer: PeerId) -> None:
        """A person forgot a peer: it is not waited for any more."""
        for trainer in self._core.jobs:
            self._told.pop(trainer, None)
            self._put(trainer, RulesHeard(self._present - {peer}, forgotten=frozenset({peer})))

    async def heard(self, infos: Sequence[PeerInfo]) -> None:
        """Tell each job what these peers state, if it is not what it was told last, and none has stated more since."""
        infos = [info for info in infos if info.error is None and info.asked >= self._asked.get(info.id, 0.0)]
        present = self._present
        self._asked = {peer: at for peer, at in self._asked.items() if peer in present}
        self._asked |= {info.id: info.asked for info in infos}
        for trainer in list(self._core.jobs):
            stated = {PeerId(info.id): said for info in infos if (said := _statement(info, trainer)) is not None}
            lacking = [info.id for info in infos if info.job(trainer) is None]
            event = RulesHeard(present, stated, frozenset(map(PeerId, lacking)))
            if self._told.get(trainer) != event:
                self._told[trainer] = event
                self._put(trainer, event)
        await asyncio.sleep(0)  # a page that is made next shows it already, unless the node is busy

    @property
    def _members(self) -> Sequence[View]:
        return [peer for peer in self._peers() if peer["state"] in _PRESENT]

    @property
    def _present(self) -> frozenset[PeerId]:
        return frozenset(PeerId(str(peer["id"])) for peer in self._members)

    async def _say(self, trainer: TrainerId, event: Event) -> None:
        await self._ask(trainer, event)
        self._has_news.set()


def _statement(info: PeerInfo, trainer: TrainerId) -> RuleStatement | None:
    """What a peer states of a job; None if it does not have the job, or has not read its state yet."""
    job = info.job(trainer)
    if job is None or job.phase is Phase.LOADING:
        return None
    return job.rule_statement or RuleStatement()
