"""The exchange after the average: compare accuracies, and adopt a peer's model that wins on our own data.

García Pérez (2021), section 3.2.4.2. A peer's claim is never trusted: a model is adopted only if the claim
beats ours by more than the trainer's threshold and the model, measured here, does so too (both strictly).
"""

from __future__ import annotations

from collections.abc import Collection

from flnet.effects import CancelTimer, Effect, Evaluate, SetTimer
from flnet.events import (
    Claim,
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
)
from flnet.params import Digest, Params, PeerId, RoundKey


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
    ) -> None:
        """Args:
        digest, accuracy: of our own average, measured on our own test split.
        private: our private parameters; a model is measured together with them.
        threshold: by how much a model must win, in accuracy.
        patience: seconds to wait for the peers' claims.
        """
        self.key = key
        self.expected = set(peers)
        self.accuracy = accuracy
        self.adopted: Claim | None = None
        self.measuring: Claim | None = None
        self.claims: dict[PeerId, Claim] = {}
        self.timer = f"exchange:{key.number}:{key.initiator}"
        self._seen = {digest}  # models measured already, ours among them
        self._candidates: list[Claim] = []
        self._private, self._threshold, self._patience = private, threshold, patience

    @property
    def done(self) -> bool:
        """Nothing is awaited and nothing is being measured."""
        return not self.expected and self.measuring is None

    def start(self) -> list[Effect]:
        """Wait for claims, but not for ever."""
        return [SetTimer(self.timer, self._patience)] if self.expected else []

    def receive(self, event: Event) -> list[Effect]:
        """Take a claim, a measurement, a peer's silence, or the timer."""
        match event:
            case ClaimReceived(claim) | ClaimAnswered(claim):
                self.claims[claim.peer] = claim
                self.expected.discard(claim.peer)
                self._consider(claim)
            case Evaluated() | EvaluationFailed() if self.measuring and event.digest == self.measuring.digest:
                self._measured(self.measuring, event)
            case PeerLost(peer, _) | SendFailed(peer):
                self.expected.discard(peer)
            case SendRefused(peer, status=status) if status != 400:  # 400: not averaged yet, its claim follows
                self.expected.discard(peer)
            case TimerFired(name) if name == self.timer:
                self.expected.clear()
        return [*self._measure_next(), *([CancelTimer(self.timer)] if self.done else [])]

    def _consider(self, claim: Claim) -> None:
        wins = claim.accuracy - self.accuracy > self._threshold
        if wins and claim.params is not None and claim.digest not in self._seen:
            self._seen.add(claim.params.digest)
            self._candidates.append(claim)

    def _measured(self, claim: Claim, event: Evaluated | EvaluationFailed) -> None:
        self.measuring = None
        if isinstance(event, Evaluated) and event.accuracy - self.accuracy > self._threshold:
            self.adopted, self.accuracy = claim, event.accuracy

    def _measure_next(self) -> list[Effect]:
        if self.measuring is not None:
            return []
        hopeful = [c for c in self._candidates if c.accuracy - self.accuracy > self._threshold]
        if not hopeful:
            self._candidates.clear()
            return []
        self.measuring = max(hopeful, key=lambda c: (c.accuracy, c.peer))
        self._candidates = [c for c in hopeful if c is not self.measuring]
        assert self.measuring.params is not None
        shared = self.measuring.params
        return [Evaluate(self.key, shared.merged_with(self._private), shared)]
