"""Meshes whose updates are masked, with a member that breaks the protocol: the others open their sum all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import Average, Send
from flnet.protocol.messages import ModelParams
from flnet.protocol.secure_sum import (
    MAX_BALLOT,
    AcceptPart,
    HeldPart,
    KeysPart,
    MembersPart,
    PreparePart,
    PromisePart,
    ProposePart,
    RevealPart,
    SecurePart,
    SecureSumMessage,
    SharesPart,
)
from flnet.rounds.model import MASKED
from flnet.rounds.secure_group import LAST_ATTEMPT
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.hostile_play import HonestSecureLedger
from flnet.simulation.node import TRAINER
from tests.simulation.helpers import idle

A, LIAR = PeerId("n01"), PeerId("n00")  # A starts the rounds; the liar comes first in the order of names
DIGEST = "f" * 64
Said = list[tuple[int, Sequence[PeerId], SecurePart]]  # (attempt, to whom, part)
VOTES = PreparePart | PromisePart | ProposePart | AcceptPart


class LenientLedger(HonestSecureLedger):
    """Does not check what is in a sum: the liar has sent something else than it trained."""

    def opened_sum(self, node: PeerId, effect: Average, result: Params) -> None:
        """A node has opened the sum of a round."""


class Liar:
    """Changes what a node of a simulated mesh sends."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.node = cluster, cluster.nodes[LIAR]
        self.others = sorted(set(cluster.nodes) - {LIAR})
        self.copied: set[int] = set()  # attempts of which it has heard the keys of another node

    def changed(self, part: SecurePart, attempt: int, to: tuple[PeerId, ...]) -> Said:
        """What it says in place of a part: the attempt, to whom, and the part."""
        return [(attempt, to, part)]

    def updates(self, effect: Send) -> list[Send]:
        """What it sends in place of its masked update."""
        return [effect]

    def hears(self, message: SecureSumMessage) -> Said:
        """What it says when another node says something."""
        return []


class SendsNoKeys(Liar):
    """It sends keys that are none."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        keys = part.model_copy(update={"keys": "AAAA"}) if isinstance(part, KeysPart) else part
        return [(attempt, to, keys)]


class CopiesKeys(Liar):
    """It sends the keys of another node, as soon as it has heard them, in place of its own."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        return [] if isinstance(part, KeysPart) else [(attempt, to, part)]

    def hears(self, message: SecureSumMessage) -> Said:
        if not isinstance(message.part, KeysPart) or message.attempt in self.copied:
            return []
        self.copied.add(message.attempt)
        return [(message.attempt, self.others, message.part)]


class Silent(Liar):
    """It sends its keys in every attempt, and nothing else."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        return [(attempt, to, part)] if isinstance(part, KeysPart) else []


class SharesWithSome(Liar):
    """It sends its shares to all but one node, in every attempt."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        return [] if isinstance(part, SharesPart) and self.others[-1] in to else [(attempt, to, part)]


class SharesBadly(Liar):
    """The shares that it sends to one node cannot be read."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if isinstance(part, SharesPart) and self.others[-1] in to:
            part = part.model_copy(update={"shares": "AAAA"})
        return [(attempt, to, part)]


class RevealsWhatCannotBeRead(Liar):
    """Its shares that open the sum are no base64."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if isinstance(part, RevealPart):
            part = part.model_copy(update={"shares": dict.fromkeys(part.shares, "A")})
        return [(attempt, to, part)]


class FloodsShares(Liar):
    """It sends shares of groups that do not exist before there is one."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        invented = [(attempt, to, SharesPart(group=f"{number:064x}", shares="AAAA")) for number in range(20)]
        return [(attempt, to, part), *(invented if isinstance(part, KeysPart) else [])]


class Accuses(Liar):
    """It says that the shares of all others cannot be used."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if isinstance(part, HeldPart):
            part = part.model_copy(update={"refused": tuple(self.others)})
        return [(attempt, to, part)]


class BeginsAttempts(Liar):
    """It goes on to the next attempts alone, and says nothing else."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        return [(n, to, part) for n in range(LAST_ATTEMPT + 1)] if isinstance(part, KeysPart) else []


class NamesItself(Liar):
    """It names members in place of the leader."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if not isinstance(part, KeysPart):
            return [(attempt, to, part)]
        members = {str(LIAR): DIGEST, str(self.others[0]): DIGEST}
        return [(attempt, to, part), (attempt, to, MembersPart(members=members))]


class KeepsUpdate(Liar):
    """It takes part in all, and sends no masked update."""

    def updates(self, effect: Send) -> list[Send]:
        return []


class SendsTwoUpdates(Liar):
    """It sends one masked update to a part of the nodes, and another one to the rest."""

    def updates(self, effect: Send) -> list[Send]:
        assert effect.params is not None
        other = Params({MASKED: effect.params[MASKED] + np.uint32(1)})
        half = len(self.others) // 2
        message = effect.message.model_copy(update={"digest": other.digest})
        return [
            Send(tuple(p for p in effect.to if p in self.others[:half]), effect.message, effect.params),
            Send(tuple(p for p in effect.to if p in self.others[half:]), message, other),
        ]


class TakesAllBallots(KeepsUpdate):
    """It asks for promises under the highest ballot, whenever somebody votes."""

    def hears(self, message: SecureSumMessage) -> Said:
        if not isinstance(message.part, VOTES):
            return []
        return [(message.attempt, self.others, PreparePart(group=message.part.group, ballot=MAX_BALLOT))]


class ComesBefore(KeepsUpdate):
    """It asks for promises under a higher ballot of its own, whenever another member asks for them."""

    def hears(self, message: SecureSumMessage) -> Said:
        part = message.part
        if not isinstance(part, PreparePart):
            return []
        count = len(self.others) + 1
        ballot = 1 + ((part.ballot - 1) // count + 1) * count  # the liar is the first of the members
        return [(message.attempt, self.others, PreparePart(group=part.group, ballot=ballot))]


class Promises(KeepsUpdate):
    """It says that it has accepted what nobody has sent."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if isinstance(part, PromisePart):
            told = dict.fromkeys(map(str, self.others), DIGEST)
            part = part.model_copy(update={"accepted": max(0, part.ballot - 1), "contributors": told})
        return [(attempt, to, part)]


class Reveals(Liar):
    """Its shares that open the sum are wrong, and come before those of others."""

    def changed(self, part: SecurePart, attempt: int, to: Sequence[PeerId]) -> Said:
        if isinstance(part, RevealPart):
            wrong = next(iter(part.shares.values()))
            part = part.model_copy(update={"shares": dict.fromkeys(part.shares, wrong)})
        return [(attempt, to, part)]


LIARS: list[type[Liar]] = [
    *(SendsNoKeys, CopiesKeys, Silent, SharesWithSome, SharesBadly, Accuses, BeginsAttempts, NamesItself),
    *(KeepsUpdate, SendsTwoUpdates, TakesAllBallots, ComesBefore, Promises, Reveals),
    *(RevealsWhatCannotBeRead, FloodsShares),
]


def lying(cluster: Cluster, kind: type[Liar]) -> None:
    """Let the first node of a mesh lie in this way."""
    liar, send = kind(cluster), cluster.calls.send

    def say(said: Said, like: SecureSumMessage) -> None:
        for attempt, to, part in said:
            message = like.model_copy(update={"i_am": liar.node.core.me, "attempt": attempt, "part": part})
            send(liar.node, TRAINER, Send(tuple(to), message))

    def listen(node: Any, owner: TrainerId, effect: Send) -> None:
        message = effect.message
        if node is liar.node and isinstance(message, SecureSumMessage):
            say(liar.changed(message.part, message.attempt, effect.to), message)
        elif node is liar.node and isinstance(message, ModelParams) and effect.params is not None:
            for changed in liar.updates(effect):
                send(node, owner, changed)
        else:
            send(node, owner, effect)
            if isinstance(message, SecureSumMessage) and LIAR in effect.to:
                say(liar.hears(message), message)

    cluster.calls.send = listen  # type: ignore[method-assign]


@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize("kind", LIARS)
def test_a_member_that_lies_stops_nobody(kind: type[Liar], size: int) -> None:
    rules = Rules(averaging={MERGING: parse_rule("secure").name})
    cluster = Cluster(size, 5, rules=rules, ledger=LenientLedger({LIAR}, is_keyed=False))
    cluster.start()
    cluster.run_for(60)
    lying(cluster, kind)
    assert cluster.trigger(A)
    idle(cluster)
    honest = [node for name, node in cluster.nodes.items() if name != LIAR]
    records = {node.id: node.job.history.records[-1] for node in honest}
    assert len({record.digest for record in records.values()}) == 1, records
    for record in records.values():
        assert record.digest is not None
        assert set(record.contributors) >= {node.id for node in honest}
