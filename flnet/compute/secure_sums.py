"""The steps of secure sums that need secrets, and the opening of sums. Nothing secret is kept on disk."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping

import numpy as np

from flnet.aggregation.base import AggregationRule, Merged
from flnet.aggregation.segments import added
from flnet.algorithms.differential_privacy import RandomWords
from flnet.algorithms.noised_sum import NoisedMeanEncoder, SumNoise
from flnet.algorithms.registry import SumEncoder, noised_encoder, sum_encoder
from flnet.errors import FlnetError, PeerError
from flnet.params.params import Params, PeerId, Schema, TrainerId
from flnet.protocol.effects import Average, SecureStep
from flnet.protocol.events import SecureStepDone
from flnet.protocol.secure_sum import (
    DrawKeys,
    ForgetSecrets,
    KeysDrawn,
    MakeShares,
    MaskUpdate,
    OpenedSum,
    RevealShares,
    SecretResult,
    SharesMade,
    SharesRevealed,
    SharesTaken,
    StepFailed,
    TakeShares,
    UpdateMasked,
)
from flnet.protocol.updates import RoundKey
from flnet.rounds.model import MASKED
from flnet.security.masking import MaskingGroup, Public, Revealed, SumSecrets, bound_to, unmask
from flnet.security.noise import system_words
from flnet.text import joined, text

KEPT = 4  # attempts of a job whose secrets are held; those of earlier ones are forgotten


class SecureSums:
    """The secrets of all secure sums of one node, and the arithmetic of masked updates."""

    def __init__(
        self,
        me: PeerId,
        mesh: str,
        random: Callable[[int], bytes] = secrets.token_bytes,
        words: RandomWords = system_words,
    ) -> None:
        """Args:
        mesh: its name, to which keys are bound.
        random: source of secret bytes.
        words: of which noise is made.
        """
        self._me, self._mesh, self._random, self._words = me, mesh, random, words
        self._secrets: dict[TrainerId, dict[tuple[RoundKey, int], SumSecrets]] = {}

    def perform(
        self,
        trainer: TrainerId,
        effect: SecureStep,
        schema: Schema,
        rule: AggregationRule,
        noise: SumNoise | None = None,
    ) -> SecureStepDone | None:
        """Do a step; None if nothing follows from it.

        Args:
            noise: of the whole sum, to which this node adds its share; equal on all nodes; None for none.
        """
        if isinstance(effect.request, ForgetSecrets):
            self._forget(trainer, effect.key)
            return None
        try:
            result = self._do(trainer, effect, schema, rule, noise)
        except (FlnetError, ValueError, ArithmeticError) as exc:
            result = StepFailed(str(exc))
        return SecureStepDone(effect.key, effect.attempt, result)

    def open(
        self,
        trainer: TrainerId,
        effect: Average,
        schema: Schema,
        rule: AggregationRule,
        most_norm: float,
        noise: SumNoise | None = None,
    ) -> Merged:
        """The average, from the masked updates and the shares that open their sum.

        Args:
            most_norm: L2 norm of the mean change above which the sum is refused.
            noise: of the sum; see `perform`.

        Raises:
            FlnetError, ValueError: it cannot be opened, or is no sum of sound updates.
        """
        opened = effect.opened
        assert opened is not None and rule.secure is not None
        group = MaskingGroup(
            self._context(trainer, effect.key, opened.attempt),
            {peer: Public.read(words) for peer, words in opened.members.items()},
            opened.threshold,
        )
        total = (added(effect.updates) if opened.total is None else opened.total)[MASKED]
        unmasked = unmask(total, group, opened.contributors, _revealed(opened))
        size = len(opened.members), opened.threshold
        encoder = self._encoder(schema, rule, opened.base, size, noise)
        mean = encoder.decode(unmasked.numbers[: encoder.size], len(opened.contributors), most_norm)
        suspects = ", ".join(sorted(unmasked.suspects))
        notes = [text("shares that do not fit came of {names}", suspects)] if suspects else []
        notes += [encoder.words] if isinstance(encoder, NoisedMeanEncoder) else []
        return Merged(mean.params, note=joined(notes) if notes else "")

    def _do(
        self,
        trainer: TrainerId,
        effect: SecureStep,
        schema: Schema,
        rule: AggregationRule,
        noise: SumNoise | None,
    ) -> SecretResult:
        place = effect.key, effect.attempt
        if isinstance(effect.request, DrawKeys):
            held = self._secrets.setdefault(trainer, {})
            drawn = SumSecrets(self._context(trainer, *place), self._me, self._random)
            held[place] = drawn
            while len(held) > KEPT:
                del held[next(iter(held))]
            return KeysDrawn(drawn.public.encoded)
        own = self._secrets.get(trainer, {}).get(place)
        if own is None:
            return StepFailed(text("the secrets of this sum are not held any more"))
        match effect.request:
            case MakeShares(members, threshold):
                if unusable := self._unusable(members):
                    return StepFailed(
                        text("the keys of {names} cannot be used", ", ".join(sorted(unusable))), unusable
                    )
                publics: dict[str, Public] = {peer: Public.read(words) for peer, words in members.items()}
                made = own.shares_for(publics, threshold)
                return SharesMade({PeerId(peer): _text(share) for peer, share in made.items()})
            case TakeShares(sender, shares):
                try:
                    own.take_shares(sender, _bytes(shares))
                except (PeerError, ValueError) as exc:
                    return SharesTaken(sender, str(exc))
                return SharesTaken(sender)
            case MaskUpdate() as request:
                size = len(own.group.names), own.group.threshold
                encoder = self._encoder(schema, rule, request.base, size, noise)
                return self._mask(own, request, schema, encoder)
            case RevealShares(contributors):
                given = own.reveal(contributors)
                return SharesRevealed({PeerId(peer): _text(revealed.share) for peer, revealed in given.items()})
        raise AssertionError(effect.request)  # drawing and forgetting secrets are done before

    def _unusable(self, members: Mapping[PeerId, str]) -> frozenset[PeerId]:
        """The members whose keys are none, or are those of a member whose keys came before."""
        seen: set[bytes] = set()
        unusable: set[PeerId] = set()
        for peer in sorted(members, key=lambda peer: peer != self._me):  # stable: otherwise as they came
            try:
                public = Public.read(members[peer])
            except PeerError:
                unusable.add(peer)
                continue
            keys = {public.share_key, public.mask_key}
            if len(keys - seen) < 2:
                unusable.add(peer)
            seen |= keys
        return frozenset(unusable)

    def _encoder(
        self,
        schema: Schema,
        rule: AggregationRule,
        base: Params,
        size: tuple[int, int],
        noise: SumNoise | None,
    ) -> SumEncoder:
        if noise is None:
            return sum_encoder(rule, schema, base, size[0])
        return noised_encoder(rule, schema, base, *size, noise, self._words)

    @staticmethod
    def _mask(own: SumSecrets, request: MaskUpdate, schema: Schema, encoder: SumEncoder) -> UpdateMasked:
        encoded = encoder.encode(request.params, request.examples, request.labels)
        notes = []
        if encoded.cut:
            notes.append(text("{count} numbers of the update were out of range and were cut", encoded.cut))
        if encoded.weight_cut:
            most = text("the update counts for {count}, the most that a sum takes of a node", encoded.weight)
            notes.append(most)
        numbers = encoded.numbers
        if encoder.size < 1 + schema.numbers:  # all masked updates of a model have one form
            numbers = np.append(numbers, np.zeros(1 + schema.numbers - encoder.size, numbers.dtype))
        params = Params({MASKED: own.mask(numbers)})
        assert params.digest  # computed here, where it does not hold up the event loop
        return UpdateMasked(params, joined(notes) if notes else "")

    def _context(self, trainer: TrainerId, key: RoundKey, attempt: int) -> bytes:
        return bound_to("round", self._mesh, trainer, key.number, key.initiator, attempt)

    def _forget(self, trainer: TrainerId, key: RoundKey) -> None:
        held = self._secrets.get(trainer, {})
        for place in [place for place in held if place[0] == key]:
            del held[place]


def _revealed(opened: OpenedSum) -> dict[str, dict[str, Revealed]]:
    """The shares as they were meant: whoever gave the other kind is found out when the secret is rebuilt."""
    inside = set(opened.contributors)
    return {
        holder: {
            owner: Revealed("self" if owner in inside else "pair", _bytes_or_none(share))
            for owner, share in shares.items()
        }
        for holder, shares in opened.revealed.items()
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes_or_none(words: str) -> bytes:
    """What a holder revealed; no bytes, which fit nothing, where it cannot be read: the others open the sum without it."""
    try:
        return _bytes(words)
    except ValueError:
        return b""


def _bytes(words: str) -> bytes:
    return base64.b64decode(words, validate=True)
