"""What nodes without common rounds say to each other: which version of its model each one has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from flnet.messages.base import HexDigest, Message, Name, Peer, PublicKey, Round, Unit
from flnet.messages.rounds import JobMessage


class StatedVersion(Message):
    """What is said of a version; its parameters are there to be fetched by the digest.

    Attributes:
        run: drawn anew at each start of the sender's node; with it and the number, a version is told from others.
        digest: of the parameters.
        examples: training rows behind the version, its weight where it is merged; 0 before the first training.
        labels: how many labels the sender's data has, for rules that weigh by it.
        accuracy: of it, on the sender's own test split; in [0, 1].
        base: of the parameters that its training began with.
        schema_digest: of what was trained: names, shapes, dtypes and what is agreed.
        key, signature: with which the sender signed what it states; see `flnet.contributions`.
    """

    run: Name
    digest: HexDigest
    examples: int = Field(default=0, ge=0, le=10**12)
    labels: int = Field(default=1, ge=0, le=10**6)
    accuracy: Unit | None = None
    base: HexDigest | None = None
    schema_digest: HexDigest | None = None
    key: PublicKey | None = None
    signature: str | None = Field(default=None, pattern="^[A-Za-z0-9+/]{86}==$")


class AskVersion(JobMessage, StatedVersion):
    """POST /training/version: this is my newest version; which one is yours?

    `round` is the number of the sender's version, 0 before its first training.
    """

    path: ClassVar[str] = "/training/version"


class VersionReply(StatedVersion):
    """The answer to AskVersion: the same of the node that was asked."""

    i_am: Peer
    round: Round
