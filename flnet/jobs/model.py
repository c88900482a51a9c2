"""The model that a job holds, and which of two models a round starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flnet.params import Digest, Params, Schema


@dataclass(frozen=True)
class Model:
    """Shared and private parameters, and where the shared part comes from.

    Attributes:
        round: the round whose average the shared part is; -1 if it never was averaged.
        contributors: how many updates went into that average.
    """

    schema: Schema
    shared: Params
    private: Params
    round: int = -1
    contributors: int = 0

    @property
    def full(self) -> Params:
        """All parameters, as the trainer wants them."""
        return self.shared.merged_with(self.private)

    def holding(self, shared: Params, round: int, contributors: int) -> Model:
        """The same job with another shared part."""
        return replace(self, shared=shared, round=round, contributors=contributors)

    def with_private(self, private: Params) -> Model:
        """The same job with other private parameters."""
        return replace(self, private=private)

    def yields_to(self, round: int, contributors: int, digest: Digest) -> bool:
        """Whether a model from elsewhere comes before this one; see `better_of`."""
        ours, theirs = (self.round, self.contributors), (round, contributors)
        return theirs > ours or (theirs == ours and digest < self.shared.digest)

    def better_of(self, shared: Params, round: int, contributors: int) -> Model:
        """This model or the other one: the newer average; of two of one round, that with more contributors;
        of equals, the one with the lower digest. Every node decides alike, so a mesh that split heals at its
        next start (specification of the safeguard: with differing digests, most contributors win).
        """
        better = self.yields_to(round, contributors, shared.digest)
        return self.holding(shared, round, contributors) if better else self
