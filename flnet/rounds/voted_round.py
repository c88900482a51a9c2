"""A round whose members agree on whose updates are averaged, before anybody averages.

What its kinds share: a conversation in parts, which are said again to who did not hear them; nobody but the members needs
single updates, so nothing screens them, none counts late after the vote, and no peer's model is adopted. A node that
cannot make the average takes that of the others (`flnet.rounds.catching_up`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Set
from typing import Any, ClassVar

from flnet.errors import NotReady, RoundLost, StaleRound, TooManyMessages, UnreadableBody
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import CancelTimer, Effect, Send, SetTimer
from flnet.protocol.events import (
    DeclineReceived,
    Event,
    PartReceived,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
)
from flnet.protocol.messages import ChoiceMessage, JobMessage
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.updates import RoundKey
from flnet.rounds.base_round import GATHERING, Parts
from flnet.rounds.catching_up import CommonAverage
from flnet.rounds.download import in_turn
from flnet.rounds.history import RoundRecord
from flnet.rounds.model import Start
from flnet.rounds.participation import chosen
from flnet.rounds.round import Round
from flnet.rounds.series import Opening
from flnet.rounds.steps import Phase
from flnet.text import text

NOT_HEARD = (UnreadableBody.code, NotReady.code, TooManyMessages.code)  # refusals after which a part is repeated
LEFT = (StaleRound.code, RoundLost.code)  # refusals of who is in another round, and will not come back to this one
AGAIN, MOST_AGAIN = 1.0, 8.0  # seconds until what did not reach a peer is said again


class VotedRound(Round):
    """One round with a vote on its contributors.

    Attributes:
        message: the kind of message that carries the conversation.
    """

    message: ClassVar[type[JobMessage]]
    _adopts = False  # all that have the average have the same model
    _states_average = frozenset({Phase.EXCHANGING, Phase.IDLE})  # who returns can hardly make it any more

    def __init__(
        self,
        parts: Parts,
        key: RoundKey,
        expected: Collection[PeerId],
        choice: ChoiceMessage | None = None,
        started_in: str | None = None,
        record: RoundRecord | None = None,
    ) -> None:
        """See `Round`."""
        super().__init__(parts, key, expected, choice, started_in, record)
        self._unheard: set[PeerId] = set()  # whom a part of the conversation did not reach
        self._tries_again, self._again_in = False, AGAIN

    @property
    def _again_timer(self) -> str:
        return f"again:{self.key.number}:{self.key.initiator}"

    # --- what its kinds decide

    @abstractmethod
    def vote_lost(self) -> str:
        """After a restart this node does not know any more what it has agreed to: it votes no more.

        Returns:
            Why it takes no part at all any more; empty if it does.
        """

    @abstractmethod
    def _take_part_of(self, event: PartReceived) -> list[Effect]:
        """Hand a part of the conversation to the sum."""

    def _say_afterwards(self, peer: PeerId) -> list[Effect]:
        """Say what a peer may need when the average is made here."""
        return []

    @abstractmethod
    def _repeat(self, peer: PeerId) -> list[Effect]:
        """Say to a peer again what it may not have heard."""

    @abstractmethod
    def _lost(self, peer: PeerId) -> list[Effect]:
        """A peer is gone."""

    @abstractmethod
    def _forget(self) -> list[Effect]:
        """Nothing of the conversation is needed any more."""

    @abstractmethod
    def _choice_learnt(self) -> list[Effect]:
        """It is known now who trains, which was not when the round opened."""

    @abstractmethod
    def _advanced(self, effects: list[Effect]) -> list[Effect]:
        """Take the steps that follow from what happened."""

    @property
    @abstractmethod
    def _is_making(self) -> bool:
        """Whether this node is about to make the average, so that it does not take that of others."""

    @property
    @abstractmethod
    def _has_begun(self) -> bool:
        """Whether updates of this round may be under way, so that a member that leaves it may still count."""

    def _fields_of(self, part: SecurePart, attempt: int) -> dict[str, Any]:
        """The fields of the message that carries a part."""
        return {"part": part, "attempt": attempt}

    # --- what comes

    def enter(self, opening: Opening, awaited: Start | None, is_mine: bool) -> list[Effect]:
        """Begin the round; see `Round.enter`."""
        effects = super().enter(opening, awaited, is_mine)
        if self.choice is not None:
            effects += self._choice_learnt()
        for event in self._inbox.take_parts(self.key):
            effects += self.part_received(event)
        return self._advanced(effects)

    def join(self, opening: Opening, awaited: Start | None) -> list[Effect]:
        """Handle a start that arrived late; see `Round.join`."""
        before = self.choice
        effects = super().join(opening, awaited)
        if self.choice is not None and before is None:
            effects += self._choice_learnt()
        return self._advanced(effects)

    def receive(self, event: Event) -> list[Effect]:
        """Handle the end of work, an answer of a peer, the loss of one, or a timer."""
        return self._advanced(self._received(event))

    def part_received(self, event: PartReceived) -> list[Effect]:
        """Handle a part of the conversation."""
        if self.is_past or self.is_over or self.taken:
            return []
        return self._advanced([*self._learn(event.choice), *self._take_part_of(event)])

    def _learn(self, choice: ChoiceMessage | None) -> list[Effect]:
        """Parts and updates say who trains, before the start of the round has come."""
        if choice is None or self.choice is not None or not self.listening:
            return []
        if choice.group is not None and not self._parts.search.believes(choice):
            return []
        if choice.group is None and self._settings.my_id not in choice.members:
            return []  # that this node is kept out, its initiator has to say
        self.choice, who = choice, chosen(choice, self._settings.trainer, self.key.number)
        self.gathering.choose(who)
        return [*self._choice_learnt(), *(self.rest() if self.gathering.sits_out else [])]

    def declined(self, event: DeclineReceived) -> list[Effect]:
        """Handle a peer's refusal to take part in this round."""
        return self._advanced(super().declined(event))

    def say_again(self, peer: PeerId) -> list[Effect]:
        """Send a peer that was not reachable the messages of the round that it may have missed.

        Once the average is made it is told of that (`met`), and of what is left of the conversation.
        """
        if self._has_common:
            return self._say_afterwards(peer)
        again = super().say_again(peer)
        if self.is_past or self._is_without(peer):
            return again
        self._again_in = AGAIN
        return [*again, *self._not_sent(peer)]

    def met(self, peer: PeerId) -> list[Effect]:
        """Handle a reachable peer.

        Also who has a part in the average is told of it: it may have lost its memory, and could not make it again.
        """
        accuracy = self._held.accuracy
        return [] if accuracy is None or not self._has_common else [self._claim((peer,), accuracy)]

    def leave(self, successor: RoundKey | None = None) -> list[Effect]:
        """Stop the work of the round, and forget what was said."""
        left, self._tries_again = super().leave(successor), False
        return left if self.is_past else [*left, *self._forget(), CancelTimer(self._again_timer)]

    def left_by(self, peer: PeerId, why: str) -> list[Effect]:
        """A peer is in another round, and does not come back to this one: nobody waits for it.

        Once updates may be under way, what the peer sent before it went on may still come.
        """
        if self.is_past or self.is_over or self.taken or self._has_begun:
            return []
        return self._advanced(self.gathering.receive(DeclineReceived(peer, self.key, why)))

    def _received(self, event: Event) -> list[Effect]:
        """Handle an event; the steps that follow are taken afterwards."""
        if self.taken or self.is_over:
            return super().receive(event)
        match event:
            case PartReceived():
                return self.part_received(event)
            case SendFailed(peer, self.message.path):
                return self._not_sent(peer)
            case SendRefused(peer, self.message.path, error=error) if error in NOT_HEARD:
                return self._not_sent(peer)
            case SendRefused(peer, self.message.path, error=error) if error in LEFT:
                refused = super().receive(event)
                return [*refused, *(self.left_by(peer, event.reason) if event.key == self.key else [])]
            case TimerFired(name) if name == self._again_timer:
                return self._send_again()
            case PeerLost(peer):
                return [*super().receive(event), *self._lost(peer)]
        return super().receive(event)

    # --- the average of the others

    @property
    def is_open_to_others(self) -> bool:
        """Whether this node may take the average of the others: it is not about to make it itself."""
        return self.phase in GATHERING or (self.phase is Phase.AVERAGING and not self._is_making)

    def without_me(self, peers: Set[PeerId]) -> Set[PeerId]:
        """Those of these peers whose average of this round this node may take, if it cannot make it itself."""
        may_take = not self.taken and (self.is_open_to_others or self.ended_without_average)
        return peers if may_take else frozenset()

    def take(self, common: CommonAverage, is_new: bool = False) -> list[Effect]:
        """Take the average that most others have made; this node makes none any more."""
        return [*super().take(common, is_new), *self._forget()]

    def _give_up(self, error: str) -> list[Effect]:
        """There will be no average: the model stays as it was."""
        if self.gathering.closed is None:  # else it was noted then
            self._note_silence()
        self._fail(error)
        return [
            *self.gathering.abandon(),
            self._refusal(self._peers.here, error, late=False),
            *self._end_without_average(),
        ]

    def _end_without_average(self) -> list[Effect]:
        self.record.outcome = text("{error}; the model stays as it was", self.error)
        self.record.chosen = None if self.chosen is None else tuple(sorted(self.chosen))
        return [*self.finish(), self._tell("sum_failed", self.record.outcome)]

    # --- what did not arrive

    def _not_sent(self, peer: PeerId) -> list[Effect]:
        """A part did not reach a peer: repeat it soon. The whole mesh may be waiting for this node's word."""
        self._unheard.add(peer)
        return self._try_again()

    def _try_again(self) -> list[Effect]:
        """Say again soon what did not arrive, and ask again for what could not be fetched."""
        if self._tries_again:
            return []
        self._tries_again = True
        return [SetTimer(self._again_timer, self._again_in)]

    def _send_again(self) -> list[Effect]:
        peers, self._unheard, self._tries_again = self._unheard & self._peers.here, set(), False
        self._again_in = min(2 * self._again_in, MOST_AGAIN)
        return [effect for peer in sorted(peers) for effect in self._repeat(peer)]

    def _send_part(
        self, to: Collection[PeerId] | None, attempt: int, part: SecurePart, params: Params | None = None
    ) -> list[Effect]:
        peers = self._peers.here if to is None else set(to) & self._peers.here
        if not peers:
            return []
        message = self._settings.message(self.message, self.key, **self._fields_of(part, attempt))
        # Of what is large, each node sends to another peer first, so that not all send to the same few at once.
        order = sorted(peers) if params is None else in_turn(peers, self._settings.my_id)
        return [Send(tuple(order), message, params)]
