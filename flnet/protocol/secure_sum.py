"""What nodes say to each other in a secure sum (`flnet.rounds.secure_sum`): one part in each message.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (2017), has a server between the
nodes. Here every node hears every message that does not hold a secret, and each one opens the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from flnet.params.params import Params, PeerId
from flnet.protocol.messages import MAX_PEERS, ChoiceMessage, HexDigest, JobMessage, Message, Name

MAX_ATTEMPTS = 1000
MAX_BALLOT = 10**6
MAX_TEXT = 400  # characters of keys and of encrypted shares
MAX_SHARE = 100  # characters of one share

Attempt = Annotated[int, Field(ge=0, le=MAX_ATTEMPTS)]
Ballot = Annotated[int, Field(ge=0, le=MAX_BALLOT)]
Text = Annotated[str, Field(max_length=MAX_TEXT, pattern=r"^[A-Za-z0-9+/=.:-]*$")]
Members = Annotated[Mapping[Name, HexDigest], Field(min_length=1, max_length=MAX_PEERS + 1)]


class SecurePart(Message):
    """Base of the parts; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    @property
    def is_passed_on(self) -> bool:
        """Whether it is what another node stated, with its signature."""
        return False


class KeysPart(SecurePart):
    """To all: the sender's public keys for this sum.

    Attributes:
        keys: as `flnet.security.masking` writes them.
        base: digest of the parameters from which the sender's change is counted; equal for all members.
    """

    kind: Literal["keys"] = "keys"
    keys: Text
    base: HexDigest


class MembersPart(SecurePart):
    """To all: these nodes are the members of the sum. Their sender leads this attempt.

    Attributes:
        members: the digest of the keys of each.
    """

    kind: Literal["members"] = "members"
    members: Members


class SharesPart(SecurePart):
    """To one member: its shares of the sender's two secrets, encrypted for it."""

    kind: Literal["shares"] = "shares"
    group: HexDigest
    shares: Text


class HeldPart(SecurePart):
    """To the leader: the sender has shares of all other members.

    Attributes:
        refused: members whose shares cannot be used; then it does not have all.
    """

    kind: Literal["held"] = "held"
    group: HexDigest
    refused: tuple[Name, ...] = Field(default=(), max_length=MAX_PEERS)


class BeginPart(SecurePart):
    """To all: every member has shares of all others, so masked updates may be sent."""

    kind: Literal["begin"] = "begin"
    group: HexDigest


class PreparePart(SecurePart):
    """To all: the sender asks what was accepted, to propose contributors under this ballot number."""

    kind: Literal["prepare"] = "prepare"
    group: HexDigest
    ballot: Ballot


class PromisePart(SecurePart):
    """To the sender of a PreparePart: no lower ballot is accepted any more.

    Attributes:
        accepted: ballot of the contributors that were accepted before; None: there were none.
        contributors: the digest of the masked update of each.
        held: the updates of which the sender has what it is to hold, where nodes hold parts of them.
    """

    kind: Literal["promise"] = "promise"
    group: HexDigest
    ballot: Ballot
    accepted: Ballot | None = None
    contributors: Members | None = None
    held: Members | None = None


class ProposePart(SecurePart):
    """To all: the sender proposes that the sum is of these masked updates."""

    kind: Literal["propose"] = "propose"
    group: HexDigest
    ballot: Ballot
    contributors: Members


class AcceptPart(SecurePart):
    """To all: the sender accepts these contributors. They are settled once a quorum of the members accepts them."""

    kind: Literal["accept"] = "accept"
    group: HexDigest
    ballot: Ballot
    contributors: Members


class RevealPart(SecurePart):
    """To all: the sender's shares of what masks the sum of these contributors.

    Attributes:
        contributors: digest of `AcceptPart.contributors`.
        shares: by member: of the self mask of a contributor, of the mask key of every other member.
    """

    kind: Literal["reveal"] = "reveal"
    group: HexDigest
    contributors: HexDigest
    shares: Annotated[
        Mapping[Name, Annotated[str, Field(max_length=MAX_SHARE, pattern=r"^[A-Za-z0-9+/=]+$")]],
        Field(max_length=MAX_PEERS + 1),
    ]


class SegmentDigest(SecurePart):
    """What the sender made of one segment.

    Attributes:
        segment: its number, from 0.
        digest: of the result, by which it can be downloaded.
    """

    segment: int = Field(ge=0, le=MAX_PEERS)
    digest: HexDigest


S = TypeVar("S", bound=SegmentDigest)


def _with_each_once(results: tuple[S, ...]) -> tuple[S, ...]:
    if len({result.segment for result in results}) < len(results):
        raise ValueError("expected one result of each segment, got two of the same")
    return results


EACH_ONCE = AfterValidator(_with_each_once)


class AddedPart(SecurePart):
    """To all: the sender has added segments of the masked updates.

    Attributes:
        contributors: digest of the contributors whose segments are in them.
        sums: of each segment.
    """

    kind: Literal["added"] = "added"
    group: HexDigest
    contributors: HexDigest
    sums: Annotated[tuple[SegmentDigest, ...], EACH_ONCE, Field(min_length=1, max_length=MAX_PEERS + 1)]


AnySecurePart = Annotated[
    KeysPart
    | MembersPart
    | SharesPart
    | HeldPart
    | BeginPart
    | PreparePart
    | PromisePart
    | ProposePart
    | AcceptPart
    | RevealPart
    | AddedPart,
    Field(discriminator="kind"),
]


class SecureSumMessage(JobMessage):
    """POST /training/secure_sum: one part of the conversation of a secure sum.

    Attributes:
        attempt: which attempt of the round it is about, from 0; each has keys of its own.
        choice: with keys: of who trains, as the start had it, for who missed that.
    """

    path: ClassVar[str] = "/training/secure_sum"

    attempt: Attempt
    part: AnySecurePart
    choice: ChoiceMessage | None = None


# What this node asks of the holder of its secrets (`flnet.compute.secure_sums`), and what comes back. The core never
# sees a secret, so none can be saved with a job.


@dataclass(frozen=True)
class DrawKeys:
    """Draw the secrets of an attempt; ends in KeysDrawn."""


@dataclass(frozen=True)
class KeysDrawn:
    """The public keys of this node."""

    keys: str


@dataclass(frozen=True)
class MakeShares:
    """Share the secrets among the members; ends in SharesMade.

    Attributes:
        members: the keys of all, this node among them.
        threshold: how many shares rebuild a secret.
    """

    members: Mapping[PeerId, str]
    threshold: int


@dataclass(frozen=True)
class SharesMade:
    """Encrypted shares for each other member."""

    shares: Mapping[PeerId, str]


@dataclass(frozen=True)
class TakeShares:
    """Decrypt and keep the shares of a member; ends in SharesTaken."""

    sender: PeerId
    shares: str


@dataclass(frozen=True)
class SharesTaken:
    """The shares of a member are here.

    Attributes:
        refused: why they cannot be used; empty if they can.
    """

    sender: PeerId
    refused: str = ""


@dataclass(frozen=True)
class MaskUpdate:
    """Encode and mask what this node trained; ends in UpdateMasked."""

    params: Params
    base: Params
    examples: int
    labels: int


@dataclass(frozen=True)
class UpdateMasked:
    """The masked update.

    Attributes:
        params: {"masked": (numbers,)}.
        note: what people should know, such as how many numbers were out of range; empty for nothing.
    """

    params: Params
    note: str = ""


@dataclass(frozen=True)
class RevealShares:
    """Give the shares that open the sum of these contributors; ends in SharesRevealed."""

    contributors: frozenset[PeerId]


@dataclass(frozen=True)
class SharesRevealed:
    """A share for each member, in base64."""

    shares: Mapping[PeerId, str]


@dataclass(frozen=True)
class ForgetSecrets:
    """Forget all secrets of the round; ends in nothing."""


@dataclass(frozen=True)
class StepFailed:
    """A step of this node could not be done.

    Attributes:
        peers: members with whose keys it cannot be done.
    """

    reason: str
    peers: frozenset[PeerId] = frozenset()


SecretRequest = DrawKeys | MakeShares | TakeShares | MaskUpdate | RevealShares | ForgetSecrets
SecretResult = KeysDrawn | SharesMade | SharesTaken | UpdateMasked | SharesRevealed | StepFailed


@dataclass(frozen=True)
class OpenedSum:
    """What opens a sum, as all nodes know it.

    Attributes:
        attempt: of the round, to which keys are bound.
        members: the keys of all members.
        threshold: how many shares rebuild a secret.
        contributors: whose masked updates are summed.
        revealed: by member that revealed: a share in base64 for each member.
        base: parameters from which changes are counted.
        total: the sum of their masked updates, where it was made in segments; None where each node adds them itself.
    """

    attempt: int
    members: Mapping[PeerId, str]
    threshold: int
    contributors: tuple[PeerId, ...]
    revealed: Mapping[PeerId, Mapping[PeerId, str]]
    base: Params
    total: Params | None = None
