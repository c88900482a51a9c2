"""The messages of a round: its start, an update, and the comparison of accuracies after the average."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from flnet.messages.base import Agreement, HexDigest, HyperParams, Message, Name, Peer, PublicKey, Round, Unit
from flnet.messages.series import ChoiceMessage, ReportMessage, SeriesMessage
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId

MAX_STALENESS = 1000  # rounds


class JobMessage(Message):
    """What the three messages of a round share.

    Attributes:
        initiator: who started it (absent in the thesis).
        agreement: what the sender's trainer needs all nodes to have alike, where it says so.
    """

    i_am: Peer
    trainer_id: Name
    round: Round
    federated_learning_params: HyperParams
    initiator: Name | None = None
    agreement: Agreement | None = None

    @property
    def sender(self) -> PeerId:
        """The id of the node that sent it."""
        return PeerId(self.i_am.id)

    @property
    def trainer(self) -> TrainerId:
        """The trainer that it is for."""
        return TrainerId(self.trainer_id)


class StartTraining(JobMessage):
    """POST /training: train now. In round 0 the parameters beside it are everyone's start.

    Attributes:
        base_round: the round whose average the parameters are; -1 when they were never averaged.
        contributors: how many updates went into that average.
        digest: of the parameters; who holds them already need not be sent them.
        restored_at: set when a person went back to this model on the sender: the round reached there then.
        run: drawn anew at each start of the initiator's node, and kept with the round: a start of one round with
            another one comes from a node that lost its memory of the first.
    """

    path: ClassVar[str] = "/training"
    carries_params: ClassVar[bool] = True

    base_round: int = Field(default=-1, ge=-1)
    contributors: int = Field(default=0, ge=0)
    digest: HexDigest | None = None
    restored_at: int | None = Field(default=None, ge=-1)
    series: SeriesMessage | None = None  # that the round belongs to, if it has a goal
    choice: ChoiceMessage | None = None  # who trains, where not all do
    run: Name | None = None

    @property
    def key(self) -> RoundKey:
        """The round that it starts."""
        return RoundKey(self.round, PeerId(self.initiator or self.i_am.id))


class ModelParams(JobMessage):
    """POST /training/model_params: what the sender learnt, or why it takes no part in this round.

    Attributes:
        examples: training rows behind the update, its weight in the average.
        labels: how many labels the sender's data has, for rules that weigh by it.
        accuracy: of the sender's own model on its own test split, before averaging; in [0, 1].
        declined: set when the sender takes no part: the reason. No parameters come with it.
        digest: of the update; without parameters beside it, they are there to be fetched by it.
        seconds: that the sender took to train and measure.
        staleness: how many rounds before this one the training behind the update began.
        late: with `declined`: the sender trains, and its update counts in a later round.
        base: of the parameters that the sender's training began with.
        schema_digest: of what it trained: names, shapes, dtypes and what is agreed.
        key: public key with which `signature` was made, over what `flnet.contributions` makes of this message.
    """

    path: ClassVar[str] = "/training/model_params"
    carries_params: ClassVar[bool] = True

    examples: int | None = Field(default=None, ge=0, le=10**12)
    labels: int | None = Field(default=None, ge=0, le=10**6)
    accuracy: Unit | None = None
    declined: str | None = Field(default=None, max_length=500)
    digest: HexDigest | None = None
    base: HexDigest | None = None
    schema_digest: HexDigest | None = None
    key: PublicKey | None = None
    signature: str | None = Field(default=None, pattern="^[A-Za-z0-9+/]{86}==$")
    choice: ChoiceMessage | None = None  # as the start had it, for who missed that
    run: Name | None = None  # likewise
    seconds: float | None = Field(default=None, ge=0, le=1e9)
    staleness: int | None = Field(default=None, ge=0, le=MAX_STALENESS)
    late: bool | None = None


class Accuracy(JobMessage):
    """POST /training/model_params/accuracy: how good my average is on my own test split.

    Attributes:
        digest: of the average beside it.
        contributors: how many updates went into it; 0 where it counts for none (`flnet.screening`).
        report: in a series with a goal.
    """

    path: ClassVar[str] = "/training/model_params/accuracy"
    carries_params: ClassVar[bool] = True

    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)
    report: ReportMessage | None = None


class AccuracyReply(Message):
    """The answer to Accuracy: the same of the node that was asked; its parameters travel beside it."""

    carries_params: ClassVar[bool] = True

    i_am: Peer
    accuracy: Unit
    digest: HexDigest | None = None
    contributors: int = Field(default=1, ge=0)
    report: ReportMessage | None = None


def digest_of(message: Accuracy | AccuracyReply, params: Params | None) -> Digest | None:
    """The digest that the sender states, or else the one of the parameters it sent."""
    if params is not None:
        return params.digest
    return Digest(message.digest) if message.digest else None
