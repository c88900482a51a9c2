"""Round numbers: how far the words of peers move this node, and eras.

A round is plausible if its number is one more than that of the round that this node is in. A larger one comes from a
mesh that was split, or from a node that was away: on the word of single peers a node skips at most LEAP numbers in
REST seconds, so that none can lead it to the end of all numbers. Where more are to be skipped, it asks the other members
in which round they are, and believes more than half of them.

The numbers of an era are ERA in a row: the first round of era 1 is round 1,000,000,000. A person begins an era; others
follow into the next one only, and once in REST seconds.

An initiator that is behind learns it when peers refuse the start of its round. It starts the next round after theirs, so
that they have a part in it. A single peer may have been led there alone, or may only say so. Therefore the others have
BEHIND_SECONDS to answer the start, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flnet.params.params import PeerId
from flnet.protocol.effects import CancelTimer, Effect, Send, SetTimer
from flnet.protocol.events import SendRefused, TrainingAsked
from flnet.protocol.messages import AskRound
from flnet.protocol.updates import RoundKey
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.series import Opening, Series
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text

ERA = 10**9  # numbers; at one round a second they last for 31 years
LEAP = 1000  # numbers that may be skipped on the word of single peers
REST = 600.0  # seconds after which as many may be skipped again
PATIENCE = 10.0  # seconds for the answers of the other members
BEHIND_SECONDS = 2.0  # in which peers answer a start that one of them found to be of an old round
RESTED, ASKED = "numbering:rested", "numbering:asked"  # timers


def furthest(number: int) -> int:
    """The newest round that a single peer can name to a node that has reached this one; -1: none."""
    return number + LEAP if number >= 0 else ERA


def era_of(number: int) -> int:
    """The era of a round; 0 before the first."""
    return max(number, 0) // ERA


@dataclass
class Question:
    """The question to the other members in which round they are.

    Attributes:
        event: the start that led to it, or the refusal by a peer that is ahead.
        asked: the members that were asked.
        answers: their rounds so far; -1 of who has been in none, and of who cannot tell.
    """

    event: TrainingAsked | SendRefused
    asked: Collection[PeerId]
    answers: dict[PeerId, int] = field(default_factory=dict)

    @property
    def reached(self) -> int | None:
        """The round that more than half of those that have been in one have reached; None: no such round.

        Who does not answer counts as one that has not reached it.
        """
        silent = len(self.asked) - len(self.answers)
        numbers = sorted((number for number in self.answers.values() if number >= 0), reverse=True)
        half = (len(numbers) + silent) // 2
        return numbers[half] if half < len(numbers) else None

    @property
    def claimed(self) -> int:
        """The round in which the speaker says that it is."""
        return self.event.key.number if isinstance(self.event, TrainingAsked) else self.event.current or 0

    @property
    def is_open(self) -> bool:
        """Whether none of the others has been in a round, as all of them say."""
        return len(self.answers) == len(self.asked) and all(number < 0 for number in self.answers.values())


class Numbering:
    """Decides which rounds of peers are plausible.

    Attributes:
        left: numbers that may be skipped on the word of single peers.
        confirmed: the round that the other members have reached, when they were asked last; -1 if they were not.
        question: to which answers are awaited.
    """

    def __init__(self, settings: JobSettings, peers: Peers, tell: Tell) -> None:
        self._settings, self._peers, self._tell = settings, peers, tell
        self.left, self.confirmed = LEAP, -1
        self.question: Question | None = None
        self._may_follow = True  # into the next era

    def is_plausible(self, number: int, current: int) -> bool:
        """Whether a peer can be in this round.

        Args:
            current: the round that this node is in; -1 before the first.
        """
        if number <= max(current, self.confirmed) + 1:
            return True
        skipped, is_new = self._skipped(number, current), era_of(number) > era_of(current)
        if not is_new:
            return skipped <= self.left
        # Where others can be asked, an era begins with its first round: so all nodes count alike.
        return self._may_follow and skipped <= (self.left if len(self._peers.here) < 2 else 0)

    def next_era(self, current: int) -> int:
        """The first round of the next era."""
        return (era_of(current) + 1) * ERA

    def entered(self, key: RoundKey, current: int) -> list[Effect]:
        """A round opens.

        Args:
            current: the round before it.
        """
        if key.number <= max(current, self.confirmed) + 1:
            return []
        told: list[Effect] = []
        if era_of(key.number) > era_of(current):
            words = text(
                "{peer} began a new numbering: its rounds count from {number} on",
                key.initiator,
                era_of(key.number) * ERA,
            )
            told = [self._tell("numbering_begun", words, peer=key.initiator, era=era_of(key.number))]
            if key.initiator == self._settings.my_id:
                return told
            self._may_follow = False
        was_full = self.left == LEAP
        self.left = max(0, self.left - self._skipped(key.number, current))
        return [*told, *([SetTimer(RESTED, REST)] if was_full or told else [])]

    def rest(self) -> list[Effect]:
        """Numbers may be skipped again."""
        self.left, self._may_follow = LEAP, True
        return []

    def ask(self, key: RoundKey, speaker: PeerId, event: TrainingAsked | SendRefused) -> list[Effect]:
        """Ask all members but the speaker in which round they are; a question at a time."""
        others = tuple(sorted(self._peers.here - {speaker}))
        self.question = Question(event, others)
        sent = [Send(others, self._settings.message(AskRound, key))] if others else []
        return [*sent, SetTimer(ASKED, PATIENCE if others else 0.0)]

    def answered(self, peer: PeerId, number: int) -> list[Effect]:
        """A member is in this round; -1 if it has been in none, or cannot tell."""
        question = self.question
        if question is None or peer not in question.asked:
            return []
        question.answers[peer] = number
        return [SetTimer(ASKED, 0.0)] if len(question.answers) == len(question.asked) else []

    def decide(self, current: int) -> Question | None:
        """The answers have come, or will not: believe most of them.

        A node that has been in no round has no number to lose. Where no other one can tell it, it believes the speaker.

        Returns:
            The question; None if there was none.
        """
        question, self.question = self.question, None
        if question is None:
            return None
        if (reached := question.reached) is not None:
            self.confirmed = min(reached, question.claimed)  # of few that are asked, one could name any number
        elif current < 0 and question.is_open:
            self.confirmed = min(question.event.key.number, 2 * ERA - 1) - 1
        return question

    def _skipped(self, number: int, current: int) -> int:
        """How many numbers are skipped on the way to a round; more than LEAP to another era than the next one."""
        if era_of(number) == era_of(current):
            return number - current - 1
        return number - self.next_era(current) if number < self.next_era(current) + ERA else LEAP + 1


class Ahead:
    """The peers that are past a round which this node has started.

    Attributes:
        timer: bounds the wait for the answers of the others.
    """

    def __init__(
        self, key: RoundKey, settings: JobSettings, peers: Peers, held: HeldModel, series: Series
    ) -> None:
        self._key, self._settings, self._peers, self._held, self._series = key, settings, peers, held, series
        self.timer = f"behind:{key.number}:{key.initiator}"
        self._rounds: dict[PeerId, int] = {}  # in which they are

    def refused(self, peer: PeerId, current: int) -> list[Effect]:
        """A peer refused the start of the round, because it is past it.

        Args:
            current: the round in which it is.
        """
        is_first = not self._rounds
        self._rounds[peer] = current
        if self._are_most:
            return self.start_after()
        return [SetTimer(self.timer, BEHIND_SECONDS)] if is_first else []

    def confirmed(self, rounds: Mapping[PeerId, int], current: int) -> None:
        """The other members have said in which rounds they are, because one of them was far ahead.

        Args:
            current: the round of that one.
        """
        self._rounds |= {
            peer: min(number, current) for peer, number in rounds.items() if number >= self._key.number
        }

    def start_after(self) -> list[Effect]:
        """Start the next round after theirs, if any peer is past this one.

        If most of them are, this node sits it out, because an update from an old model would pull the average back.
        """
        if not self._rounds:
            return []
        number, hyper = max(self._rounds.values()), self._settings.round_hyper
        why = text(
            "its model is of round {number}, the mesh is in round {current}", self._held.current.round, number
        )
        sits_out = why if self._are_most else ""
        self._series.stopping.begin_later(number + 1)
        self._series.propose(Opening(RoundKey(number + 1, self._settings.my_id), hyper, sits_out=sits_out))
        return self.forget()

    def forget(self) -> list[Effect]:
        """This node has left the round, or is about to."""
        timer: list[Effect] = [CancelTimer(self.timer)] if self._rounds else []
        self._rounds = {}
        return timer

    @property
    def _are_most(self) -> bool:
        here = self._peers.here
        return not here or 2 * len(self._rounds.keys() & here) > len(here)
