"""What nodes say to each other about the segments of a round (`flnet.rounds.segmented_sum`): one part in each message."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flnet.protocol.messages import MAX_PEERS, ChoiceMessage, HexDigest, JobMessage
from flnet.protocol.secure_sum import AcceptPart, PreparePart, PromisePart, ProposePart, SecurePart


class SumPart(SecurePart):
    """To all: the sender has summed a segment.

    Attributes:
        segment: its number, from 0.
        contributors: digest of the contributors whose segments are in it.
        digest: of the result, by which it can be downloaded.
    """

    kind: Literal["sum"] = "sum"
    segment: int = Field(ge=0, le=MAX_PEERS)
    contributors: HexDigest
    digest: HexDigest


AnySegmentPart = Annotated[
    PreparePart | PromisePart | ProposePart | AcceptPart | SumPart, Field(discriminator="kind")
]


class SegmentsMessage(JobMessage):
    """POST /training/segments: one part of the conversation about the segments of a round.

    Attributes:
        choice: of who trains and who sums, as the start had it, for who missed that.
    """

    path: ClassVar[str] = "/training/segments"

    part: AnySegmentPart
    choice: ChoiceMessage | None = None
