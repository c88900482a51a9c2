"""What nodes say to each other about the segments of a round (`flnet.rounds.segmented_sum`): one part in each message.

In a keyed or pinned mesh a node signs what it states, so that others can pass it on as a proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from flnet.errors import ParamsRefused
from flnet.params.arithmetic import Squares
from flnet.params.params import Digest, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.messages import (
    MAX_PEERS,
    ChoiceMessage,
    HexDigest,
    JobMessage,
    Name,
    PublicKey,
    Signature,
)
from flnet.protocol.secure_sum import (
    EACH_ONCE,
    AcceptPart,
    PreparePart,
    PromisePart,
    ProposePart,
    SecurePart,
    SegmentDigest,
)
from flnet.protocol.updates import Contribution, RoundKey
from flnet.text import text

MOST_TOGETHER = 9  # segments that a node serves in one request
_FIRST = "flnet segment, version 1"  # so that no signature made for something else is taken for one


Made = tuple[Digest, tuple[Squares, ...]]  # the digest of a segment, and how far that of each update moved
# As many as a sum of float64 can need to be exact: one for each 53 of its 2100 bits.
Parts = Annotated[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(max_length=40)]


class SegmentResult(SegmentDigest):
    """What the sender of a `SumPart` made of one segment.

    Attributes:
        squares: how far this segment of each update moved, in the order of the contributors: numbers that add up to the
            sum of the squares, for weights and for buffers; absent once all know whose updates count, and how.
    """

    squares: tuple[tuple[Parts, Parts], ...] | None = Field(default=None, max_length=MAX_PEERS + 1)

    @property
    def made(self) -> Made:
        """The same as a value that can be compared."""
        return Digest(self.digest), self.squares or ()


class SumPart(SecurePart):
    """To all: the sender has summed segments, each of the same contributors.

    Attributes:
        contributors: digest of the contributors whose segments are in them.
        results: each of another segment.
        maker: who stated it, where another node passes it on because it is wrong.
        key, signature: of `statement`, in base64, by who stated it. Only in meshes that prove keys.
    """

    kind: Literal["sum"] = "sum"
    contributors: HexDigest
    results: Annotated[tuple[SegmentResult, ...], EACH_ONCE, Field(min_length=1, max_length=MAX_PEERS + 1)]
    maker: Name | None = None
    key: PublicKey | None = None
    signature: Signature | None = None

    @property
    def is_passed_on(self) -> bool:
        """Whether another node stated it, and signed it."""
        return self.maker is not None

    def statement(self, peer: str, trainer: str, key: RoundKey) -> bytes:
        """The bytes that are signed.

        Args:
            peer: who states it.
        """
        made = (fact for result in self.results for fact in (result.segment, *result.made))
        facts = (peer, trainer, key.number, key.initiator, self.contributors, *made)
        return "\n".join([_FIRST, *(str(fact).encode("unicode_escape").decode() for fact in facts)]).encode()

    def view(self) -> Mapping[str, Any]:
        """For the record of its round."""
        return self.model_dump(exclude={"kind", "maker"}, exclude_none=True)


class SignedOfferPart(SecurePart):
    """To all: what a member signed of its update, because others were told of another one.

    Attributes:
        peer: the member.
        schema_digest, base, digest, examples, labels, segments, key, signature: see `Contribution`.
    """

    kind: Literal["signed_offer"] = "signed_offer"
    peer: Name
    schema_digest: HexDigest
    base: HexDigest
    digest: HexDigest
    examples: int = Field(ge=0, le=10**12)
    labels: int = Field(ge=0, le=10**6)
    segments: HexDigest
    key: PublicKey
    signature: Signature

    @property
    def is_passed_on(self) -> bool:
        """It always is."""
        return True

    @classmethod
    def of(cls, stated: Contribution) -> SignedOfferPart:
        """The part that passes a signed statement on."""
        named = ("peer", "base", "digest", "examples", "labels", "segments", "key", "signature")
        return cls(schema_digest=stated.schema, **{name: getattr(stated, name) for name in named})

    def contribution(self, trainer: str, key: RoundKey) -> Contribution:
        """The statement, of this round."""
        facts = (trainer, key.number, str(key.initiator), self.schema_digest, self.base, self.digest)
        return Contribution(self.peer, *facts, self.examples, self.labels, self.key, self.signature, self.segments)


AnySegmentPart = Annotated[
    PreparePart | PromisePart | ProposePart | AcceptPart | SumPart | SignedOfferPart, Field(discriminator="kind")
]


class SegmentsMessage(JobMessage):
    """POST /training/segments: one part of the conversation about the segments of a round.

    A `SumPart` that states the result of one segment may bring it: a request less than if it is downloaded.

    Attributes:
        choice: of who trains and who sums, as the start had it, for who missed that.
    """

    path: ClassVar[str] = "/training/segments"
    carries_params: ClassVar[bool] = True

    part: AnySegmentPart
    choice: ChoiceMessage | None = None

    @property
    def key_of_round(self) -> RoundKey:
        """The round that it is about."""
        return RoundKey(self.round, PeerId(self.initiator or self.sender))

    def form_of_segment(self, model: Schema) -> Schema:
        """The form of the parameters beside it.

        Args:
            model: the form of the parameters that are cut into segments, one for each member.

        Raises:
            ParamsRefused: it does not say of which segment they are.
        """
        results = self.part.results if isinstance(self.part, SumPart) else ()
        if self.choice is None or not self.choice.members or len(results) != 1:
            raise ParamsRefused(text("expected parameters beside the result of one segment only"))
        schemas = Segments(model, len(self.choice.members)).schemas
        if results[0].segment >= len(schemas):
            raise ParamsRefused(
                text("segment {number} of {count} does not exist", results[0].segment, len(schemas))
            )
        return schemas[results[0].segment]
