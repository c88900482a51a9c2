"""The model that a job holds, and which of two models a round starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flnet.jobs.opening import Start, standing
from flnet.params import Digest, Params, Schema


@dataclass(frozen=True)
class Model:
    """Shared and private parameters, and where the shared part comes from.

    Attributes:
        round: the round whose average the shared part is; -1 if it never was averaged.
        contributors: how many updates went into that average.
        restored_at: set when a person went back to this model, here or where a round was started from it: the
            round that was reached there then.
        is_personal: whether the private parameters learnt on from just this shared part.
    """

    schema: Schema
    shared: Params
    private: Params
    round: int = -1
    contributors: int = 0
    restored_at: int | None = None
    is_personal: bool = False

    @property
    def standing(self) -> int:
        """The round as whose model it counts."""
        return standing(self.round, self.restored_at)

    @property
    def full(self) -> Params:
        """All parameters, as the trainer wants them."""
        return self.shared.merged_with(self.private)

    def holding(self, shared: Params, round: int, contributors: int, restored_at: int | None = None) -> Model:
        """The same job with another shared part."""
        came = replace(self, shared=shared, round=round, contributors=contributors, restored_at=restored_at)
        return replace(came, is_personal=False)

    def with_private(self, private: Params, is_personal: bool = False) -> Model:
        """The same job with other private parameters."""
        return replace(self, private=private, is_personal=is_personal)

    def yields_to(self, round: int, contributors: int, digest: Digest) -> bool:
        """Whether an average from elsewhere comes before this model; see `better_of`."""
        if self.restored_at is not None and round == self.standing:
            return False  # a person left that round's average
        ours, theirs = (self.standing, self.contributors), (round, contributors)
        return theirs > ours or (theirs == ours and digest < self.shared.digest)

    def gives_way_to(self, start: Start) -> bool:
        """Whether a round that a peer starts begins here with the peer's model: with the newer of the two, and of
        one round with the better one as `better_of` has it. But where a person went back to either, the
        initiator's counts: so all begin where one person went back to, and two people pull no round apart.
        """
        if start.standing != self.standing:
            return start.standing > self.standing
        if start.restored_at is not None or self.restored_at is not None:
            return True
        return self.yields_to(start.round, start.contributors, start.digest)

    def better_of(self, shared: Params, round: int, contributors: int) -> Model:
        """This model or the other one: the newer average; of two of one round, that with more contributors;
        of equals, the one with the lower digest. Every node decides alike, so a mesh that split heals at its
        next start (specification of the safeguard: with differing digests, most contributors win).
        """
        better = self.yields_to(round, contributors, shared.digest)
        return self.holding(shared, round, contributors) if better else self
