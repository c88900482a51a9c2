"""Adoption of a better model: after the average, nodes compare accuracies and adopt a model that wins on own data.

García Pérez (2021), section 3.2.4.2. A peer's claim is never trusted: a model is adopted only if the claim
beats ours by more than the trainer's threshold and the model, measured here, does so too (both strictly).
A peer whose model did not keep what it claimed gets no second try in the round, and the timer ends the trying,
so that claims cost a bounded amount of work. A claim names its model by digest: equal digests are one model, and
any other is fetched only if its claim wins. An average that was made apart from most others' counts for none
(`flnet.aggregation.screening`): nobody takes it, and who made it takes one that counts if it measures no worse here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from flnet.errors import ParamsRefused
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import CancelTimer, Effect, Evaluate, Fetch, SetTimer
from flnet.protocol.events import (
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
)
from flnet.protocol.messages import Accuracy
from flnet.protocol.updates import Claim, RoundKey
from flnet.rounds.base_round import Parts
from flnet.rounds.gathering import Gathering
from flnet.rounds.history import RoundRecord
from flnet.rounds.peers import GRACE
from flnet.text import text


class Exchange:
    """Hears the claims of the expected peers, measures the promising models one at a time, keeps the best."""

    def __init__(
        self,
        key: RoundKey,
        peers: Collection[PeerId],
        *,
        digest: Digest,
        accuracy: float,
        private: Params,
        threshold: float,
        patience: float,
        is_apart: bool = False,
        silent: Collection[PeerId] = (),
    ) -> None:
        """Args:
        digest, accuracy: of our own average, measured on our own test split.
        private: our private parameters; a model is measured together with them.
        threshold: by how much a model must win, in accuracy.
        patience: seconds to wait for the peers' claims.
        is_apart: whether our own average counts for none.
        silent: who claimed nothing in the rounds before, and has only GRACE seconds when all others have.
        """
        self.key = key
        self.expected = set(peers)
        self.accuracy = accuracy
        self.adopted: Claim | None = None
        self.measuring: Claim | None = None  # being measured, or fetched for it
        self.timer = f"exchange:{key.number}:{key.initiator}"
        self._seen = {digest}  # models measured already, ours among them
        self._unproven: set[PeerId] = set()  # peers whose model did not win here
        self._candidates: dict[PeerId, Claim] = {}
        self._over = False
        self._private, self._threshold, self._patience = private, threshold, patience
        self._is_apart, self._silent = is_apart, frozenset(silent)

    def only_hears(self) -> None:
        """Hear the claims, and take no model: where updates are masked, all nodes have the same average."""
        self._over = True

    @property
    def done(self) -> bool:
        """Nothing is awaited and nothing is being measured."""
        return not self.expected and self.measuring is None

    def start(self) -> list[Effect]:
        """Wait for claims, but not for ever."""
        return self._for_silent() or ([SetTimer(self.timer, self._patience)] if self.expected else [])

    def receive(self, event: Event) -> list[Effect]:
        """Take a claim, a measurement, a peer's silence, or the timer."""
        match event:
            case ClaimReceived(claim) | ClaimAnswered(claim):
                self.expected.discard(claim.peer)
                self._candidates[claim.peer] = claim
            case Evaluated() | EvaluationFailed() if self.measuring and event.digest == self.measuring.digest:
                self._measured(self.measuring, event)
            case Fetched() | FetchFailed() if self.fetching and event.digest == self.fetching.digest:
                return self._arrived(self.fetching, event)
            case PeerLost(peer, _) | SendFailed(peer, Accuracy.path):
                self.expected.discard(peer)
            case SendRefused(peer, Accuracy.path, status=status) if status != 400:  # 400: its claim follows
                self.expected.discard(peer)
            case TimerFired(name) if name == self.timer:
                self.expected.clear()
                self._over = True
                if self.fetching:
                    self.measuring = None  # it comes too late
        return self._go_on()

    @property
    def fetching(self) -> Claim | None:
        """The claim whose model is on its way, if there is one."""
        return self.measuring if self.measuring and self.measuring.params is None else None

    def _hopeful(self, claim: Claim) -> bool:
        is_tried = self._over or claim.peer in self._unproven or claim.digest in self._seen
        return claim.contributors > 0 and not is_tried and (self._is_apart or self._wins(claim.accuracy))

    def _wins(self, accuracy: float) -> bool:
        if self._is_apart:
            return accuracy >= self.accuracy
        return accuracy - self.accuracy > self._threshold

    def _measured(self, claim: Claim, event: Evaluated | EvaluationFailed) -> None:
        self.measuring = None
        if isinstance(event, Evaluated) and self._wins(event.accuracy):
            self.adopted, self.accuracy, self._is_apart = claim, event.accuracy, False
        else:
            self._unproven.add(claim.peer)

    def _arrived(self, claim: Claim, event: Fetched | FetchFailed) -> list[Effect]:
        """A promising model came, or did not; then the peer is not asked again."""
        self.measuring = None
        if isinstance(event, FetchFailed):
            self._unproven.add(claim.peer)
            return self._go_on()
        self.measuring = replace(claim, params=event.params)
        return [Evaluate(self.key, event.params.merged_with(self._private), event.params)]

    def _go_on(self) -> list[Effect]:
        return [*self._measure_next(), *([CancelTimer(self.timer)] if self.done else self._for_silent())]

    def _for_silent(self) -> list[Effect]:
        """Wait for the silent peers, once only they are left."""
        if not self.expected or not self._silent.issuperset(self.expected):
            return []
        self._silent = frozenset()
        return [SetTimer(self.timer, min(self._patience, GRACE))]

    def _measure_next(self) -> list[Effect]:
        self._candidates = {peer: c for peer, c in self._candidates.items() if c.digest and self._hopeful(c)}
        if self.measuring is not None or not self._candidates:
            return []
        best = max(self._candidates.values(), key=lambda c: (c.accuracy, c.peer))
        assert best.digest is not None
        self.measuring = self._candidates.pop(best.peer)
        self._seen.add(best.digest)
        if best.params is None:
            return [Fetch(self.key, best.peer, best.digest)]
        return [Evaluate(self.key, best.params.merged_with(self._private), best.params)]


class Comparison:
    """The exchange of one round: hears the claims of peers, and holds the model that wins."""

    def __init__(
        self,
        parts: Parts,
        key: RoundKey,
        gathering: Gathering,
        record: RoundRecord,
        expected: Collection[PeerId],
        *,
        adopts: bool,
    ) -> None:
        """Begun once the average of this node is measured.

        Args:
            gathering: of the round, closed.
            record: of the round; it says whose model was adopted.
            expected: peers whose claims are waited for.
            adopts: whether the model that wins is adopted; else claims are heard for the goals of series alone.
        """
        settings, held, declaration = parts.settings, parts.held, parts.settings.declaration
        assert held.accuracy is not None and declaration is not None
        self._peers, self._held, self._series = parts.peers, held, parts.series
        self._tell, self._save = parts.tell, parts.save
        self._key, self._gathering, self._record = key, gathering, record
        self._exchange = Exchange(
            key,
            expected,
            digest=held.current.shared.digest,
            accuracy=held.accuracy,
            private=held.current.private,
            threshold=declaration.exchange_threshold,
            patience=settings.waits.claims,
            silent=parts.peers.claims.silent(expected),
            is_apart=held.current.contributors == 0,
        )
        if not adopts:
            self._exchange.only_hears()

    @property
    def waiting_for(self) -> list[PeerId]:
        """The peers whose claims are awaited."""
        return sorted(self._exchange.expected)

    @property
    def is_over(self) -> bool:
        """Whether nothing is awaited any more."""
        return self._exchange.done

    def start(self) -> list[Effect]:
        """Wait for claims, but not for ever."""
        return self._exchange.start()

    def receive(self, event: Event) -> list[Effect]:
        """Pass an event to the exchange; an adopted model replaces this node's at once."""
        exchange, claims = self._exchange, self._peers.claims
        before = exchange.adopted
        is_late = isinstance(event, TimerFired) and event.name == exchange.timer
        if is_late:
            claims.said_nothing(exchange.expected)
        elif isinstance(event, ClaimReceived | ClaimAnswered):
            claims.spoke(event.claim.peer)
        effects = exchange.receive(event)
        if exchange.done and not is_late:
            claims.all_spoke()
        winner = exchange.adopted
        if winner is None or winner is before or winner.params is None:
            return effects
        return [*effects, *self._adopt(winner, winner.params, exchange.accuracy)]

    def answered(self, event: ClaimAnswered) -> list[Effect]:
        """Handle a peer's answer with its accuracy and model; a model that does not fit is not compared."""
        if event.claim.round != self._key.number:
            return []
        self._series.stopping.heard(event.claim, self._key.number)
        told: list[Effect] = []
        try:
            claim = self._held.conformed(event.claim)
        except ParamsRefused as exc:
            claim = replace(event.claim, params=None, digest=None)
            words = text("the model of {peer} was not considered: {reason}", claim.peer, exc)
            told = [self._tell("refused", words, peer=claim.peer)]
        return [*self.receive(ClaimAnswered(claim)), *told]

    def cancel(self) -> list[Effect]:
        """Stop waiting, because the round is left."""
        return [] if self.is_over else [CancelTimer(self._exchange.timer)]

    def _adopt(self, winner: Claim, params: Params, accuracy: float) -> list[Effect]:
        held, record, words = self._held, self._record, self._words(winner.peer, accuracy)
        if max(winner.contributors, len(record.contributors)) > 1:  # else both are of one update
            record.alone = {}
        contributors = min(winner.contributors, len(self._peers.here) + 1)
        held.adopt(params, self._key.number, contributors, accuracy)
        record.exchanged_with = winner.peer
        return [self._save(), self._tell("exchanged", words, peer=winner.peer)]

    def _words(self, peer: PeerId, accuracy: float) -> str:
        if self._held.current.contributors:
            own = f"{self._held.accuracy:.4f}"
            return text(
                "adopted the model of {peer}: {accuracy} here, against {other}", peer, f"{accuracy:.4f}", own
            )
        memory = self._gathering.memory
        if memory is not None and memory.is_apart:
            return text("adopted the model of {peer}: most nodes remember something else of earlier rounds", peer)
        return text(
            "adopted the model of {peer}: most nodes began this round with another model than this one", peer
        )
