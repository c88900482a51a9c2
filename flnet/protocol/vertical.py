"""What nodes say to each other in a vertical job, where they hold different columns of the same rows.

A VerticalMessage contains parts: all that its sender had to say to the receiver by then. Each pair of nodes sends one
message after the other, numbered by direction, and the next one only when the one before was answered. So parts arrive
in order and once, although requests may be repeated or overtake each other. Arrays travel with the message, those of
part 3 under the names "3/values", ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from flnet.params.params import PeerId
from flnet.protocol.messages import MAX_PEERS, HexDigest, JobMessage, Loss, Message, Name, Peer, Round, Unit

MAX_PARTS = 1024  # of one message
MAX_ROWS = 10**9
MAX_COLUMNS = 100_000
MAX_SHARED_NAMES = 1000  # names of columns that a node tells
MAX_CHECKPOINTS = 2
MAX_EPOCH = 10**9
MAX_REASON = 500
MAX_IN_FLIGHT = 64
MAX_PREDICTED = 1000  # rows of one prediction
MAX_CLASSES = 1000
MAX_MASKS = 10_000  # of an epoch of encrypted regression: its batches
MAX_WEIGHTS = 4097  # of one node in encrypted regression: a ciphertext has 4096 columns, and A a constant one

SPLIT, ENCRYPTED = "split-network", "encrypted-regression"  # methods

Session = Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
Epoch = Annotated[int, Field(ge=0, le=MAX_EPOCH)]
Closed = Annotated[int, Field(ge=-1, le=MAX_EPOCH)]
Count = Annotated[int, Field(ge=0, le=MAX_ROWS)]
Word = Annotated[str, Field(max_length=64)]
ClassName = Annotated[str, Field(max_length=200)]
ClassMeaning = Literal["one_of", "any_of"]  # whether several classes may hold at once
Figures = Annotated[Mapping[Word, Loss], Field(max_length=64)]
Digests = Annotated[Mapping[Name, HexDigest], Field(max_length=MAX_PEERS)]


class Part(Message):
    """Base of the parts; unknown fields are refused.

    Attributes:
        arrays: names of the arrays that come with it; None for any.
    """

    model_config = ConfigDict(extra="forbid")

    arrays: ClassVar[tuple[str, ...] | None] = ()

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready data."""
        return self.model_dump(mode="json", by_alias=True)


# How an epoch begins and ends.


class Checkpoint(Part):
    """An epoch that a holder can go on from.

    Attributes:
        bottom: digest of its bottom model then; None without features.
        bottoms: digests of all bottom models, as the holder of labels noted them; None without labels.
    """

    epoch: Epoch
    bottom: HexDigest | None = None
    bottoms: Digests | None = None


class OfferPart(Part):
    """The initiator asks a node whether it holds columns of this job.

    Attributes:
        afresh: whether training begins with new models.
    """

    kind: Literal["offer"] = "offer"
    afresh: bool = False


class OutputNoisePart(Part):
    """Noise on the outputs that a feature holder sends; see `flnet.vertical_trainer.OutputDefence`."""

    clip: float = Field(gt=0, allow_inf_nan=False)
    multiplier: float = Field(ge=0, allow_inf_nan=False)


class GradientNoisePart(Part):
    """Noise on the gradients that a label holder sends; see `flnet.vertical_trainer.GradientDefence`."""

    rule: Literal["isotropic", "max-norm"]
    scale: float = Field(gt=0, allow_inf_nan=False)


class PositionPart(Part):
    """A holder's answer to an offer: what it holds.

    Attributes:
        columns: number of its feature columns.
        names: names of columns, as far as its owner shares them.
        has_label: whether it holds the column of the label.
        several_labels: whether more than one holder may hold labels in this job.
        width: outputs of its bottom model, or inputs of an encrypted regression; 0 without features.
        rows: number of its rows.
        rule: by which its ids were normalised.
        group: in which ids are blinded.
        seed: of its trainer; that of the initiator counts.
        number: the newest round that it has entered; -1 before the first.
        checkpoints: epochs that it can go on from.
        alignment: digest of the rows that it has agreed on before, if they are still valid.
        aligned_with: with whom.
        output_noise, gradient_noise: how it protects what it sends, for people; None if it does not.
        tells_score: whether it tells the figures on hold-out rows.
        in_flight: how many batches it lets be under way at once.
        method: by which the job is trained.
        scheme: of its encryption, with version; empty where nothing is encrypted.
        hides_matches: whether only the key holder of an encrypted regression learns which rows match.
    """

    kind: Literal["position"] = "position"
    columns: int = Field(ge=0, le=MAX_COLUMNS)
    names: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=MAX_SHARED_NAMES)
    has_label: bool
    several_labels: bool = False
    width: int = Field(ge=0, le=MAX_COLUMNS)
    rows: Count
    rule: Word
    group: Word
    seed: int = Field(ge=0, le=2**63)
    number: int = Field(ge=-1, le=2**53)
    checkpoints: tuple[Checkpoint, ...] = Field(default=(), max_length=MAX_CHECKPOINTS)
    alignment: HexDigest | None = None
    aligned_with: tuple[Name, ...] = Field(default=(), max_length=MAX_PEERS)
    output_noise: OutputNoisePart | None = None
    gradient_noise: GradientNoisePart | None = None
    tells_score: bool = True
    in_flight: int = Field(default=1, ge=1, le=MAX_IN_FLIGHT)
    method: Word = SPLIT
    scheme: Word = ""
    hides_matches: bool = False

    @property
    def has_data(self) -> bool:
        """Whether it holds features or the label; a node without them can hold the key of an encrypted regression."""
        return self.has_label or self.columns > 0 or self.width > 0

    @property
    def closes(self) -> bool:
        """Whether this node decides that an epoch has ended: it knows the models of the others by digest."""
        return not self.has_data if self.method == ENCRYPTED else self.has_label


class BeginPart(Part):
    """The initiator to all holders: an epoch begins, with these holders.

    Attributes:
        holders: all positions, as the holders stated them.
        closed: the epoch that all holders go on from; -1 for new models.
        aligns: whether rows are aligned first; otherwise the alignment that all have is used.
        seed: of models and batches.
        in_flight: number of batches that may be under way: the smallest that a holder states.
    """

    kind: Literal["begin"] = "begin"
    holders: Mapping[Name, PositionPart] = Field(min_length=2, max_length=MAX_PEERS)
    closed: Closed
    aligns: bool
    seed: int = Field(ge=0, le=2**63)
    in_flight: int = Field(default=1, ge=1, le=MAX_IN_FLIGHT)

    @property
    def ids(self) -> tuple[PeerId, ...]:
        """The holders in sorted order; the first one leads the alignment."""
        return tuple(PeerId(peer) for peer in sorted(self.holders))

    @property
    def with_data(self) -> tuple[PeerId, ...]:
        """All but a key holder."""
        return tuple(peer for peer in self.ids if self.holders[peer].has_data)

    @property
    def aligned(self) -> tuple[PeerId, ...]:
        """Those that keep an alignment: those with data, and a key holder that alone knows which rows match."""
        return self.ids if self.hides_matches else self.with_data

    @property
    def hides_matches(self) -> bool:
        """Whether only the key holder learns which rows match."""
        return self.holders[self.ids[0]].hides_matches

    @property
    def method(self) -> str:
        """By which all of them train."""
        return self.holders[self.ids[0]].method


class AlivePart(Part):
    """A holder that is computing, or waits for others, says that it is there."""

    kind: Literal["alive"] = "alive"


class AbandonPart(Part):
    """A holder gives the open epoch up.

    Attributes:
        reason: for people.
        again: whether the epoch may be tried again, because a node did not answer.
    """

    kind: Literal["abandon"] = "abandon"
    again: bool = False
    reason: str = Field(max_length=MAX_REASON)


# The messages of `flnet.algorithms.vertical.holder`.


class OpeningPart(Part):
    """The leader begins the alignment."""

    kind: Literal["opening"] = "opening"
    protocol: Word
    rule: Word
    group: Word
    count: Count
    chunk: int = Field(ge=1, le=MAX_ROWS)


class AcceptancePart(Part):
    """A follower takes part in the alignment."""

    kind: Literal["acceptance"] = "acceptance"
    count: Count


class PairKeyPart(Part):
    """A follower's half of a key that it has in common with another follower."""

    kind: Literal["pair-key"] = "pair-key"
    arrays: ClassVar[tuple[str, ...] | None] = ("items",)


class ChunkPart(Part):
    """A part of a list."""

    kind: Literal["chunk"] = "chunk"
    arrays: ClassVar[tuple[str, ...] | None] = ("items",)
    list: Literal["blinded", "raised", "own", "table", "matches"]
    number: Count
    total: Count


# The messages of `flnet.algorithms.vertical.split_messages`.


class OutputsPart(Part):
    """Outputs of a bottom model."""

    kind: Literal["outputs"] = "outputs"
    arrays: ClassVar[tuple[str, ...] | None] = ("values",)
    epoch: Epoch
    step: Count
    batch: HexDigest
    hold_out: bool = False


class GradientsPart(Part):
    """Gradients by these outputs."""

    kind: Literal["gradients"] = "gradients"
    arrays: ClassVar[tuple[str, ...] | None] = ("values",)
    epoch: Epoch
    step: Count
    batch: HexDigest


class BottomClosedPart(Part):
    """All steps of a feature holder are done."""

    kind: Literal["bottom-closed"] = "bottom-closed"
    epoch: Epoch
    digest: HexDigest


class TopSharedPart(Part):
    """The shared weights of a top model, between label holders."""

    kind: Literal["top-shared"] = "top-shared"
    arrays: ClassVar[tuple[str, ...] | None] = None
    epoch: Epoch
    examples: Count


class ScorePart(Part):
    """Figures on hold-out rows."""

    accuracy: Unit
    examples: Count
    metrics: Figures = Field(default={})


class EpochClosedPart(Part):
    """A label holder has ended the epoch."""

    kind: Literal["epoch-closed"] = "epoch-closed"
    epoch: Epoch
    loss: Loss
    score: ScorePart | None = None
    bottoms: Digests
    top: HexDigest


class ResumedPart(Part):
    """A feature holder states the bottom model that it goes on with."""

    kind: Literal["resumed"] = "resumed"
    epoch: Epoch
    digest: HexDigest


# The messages of `flnet.algorithms.vertical.encrypted_regression`, and what comes before the first.


class CommonRowsPart(Part):
    """A data holder to the key holder: its rows are aligned, and it goes on with these weights.

    Attributes:
        count: of common rows.
        alignment: their digest.
        weights: digest of its weights after the epoch before; None before the first.
    """

    kind: Literal["common-rows"] = "common-rows"
    epoch: Epoch
    count: Count
    alignment: HexDigest
    weights: HexDigest | None = None


class StepPart(Part):
    """Base of the messages of one batch; the batch after the last one is the end of the epoch."""

    epoch: Epoch
    batch: Count


class HashedIdsPart(Part):
    """A data holder to the key holder, which matches: a part of its ids, hashed with a key that only A and B have."""

    kind: Literal["hashed-ids"] = "hashed-ids"
    arrays: ClassVar[tuple[str, ...] | None] = ("items",)
    epoch: Epoch
    number: Count
    total: Count


class OrderPart(Part):
    """The key holder to a data holder: which of its hashed ids stands at each position; -1 for none.

    Attributes:
        alignment: what this alignment is known by.
    """

    kind: Literal["order"] = "order"
    arrays: ClassVar[tuple[str, ...] | None] = ("order",)
    epoch: Epoch
    alignment: HexDigest


class EncryptionKeysPart(Part):
    """The key holder to both data holders: the public key, and the encrypted mask of hold-out rows.

    Attributes:
        masks: how many masks of batches follow; a single one where all rows count.
    """

    kind: Literal["encryption-keys"] = "encryption-keys"
    arrays: ClassVar[tuple[str, ...] | None] = ("public", "holdout")
    epoch: Epoch
    masks: int = Field(ge=1, le=MAX_MASKS)


class MaskPart(StepPart):
    """The key holder to both data holders: which rows of a batch count, encrypted."""

    kind: Literal["mask"] = "mask"
    arrays: ClassVar[tuple[str, ...] | None] = ("mask",)


class OwnWeightsPart(StepPart):
    """The key holder to a data holder: its weights."""

    kind: Literal["own-weights"] = "own-weights"
    weights: tuple[Loss, ...] = Field(min_length=1, max_length=MAX_WEIGHTS)


class ResidualPart(StepPart):
    """A to B: its encrypted part of the residuals."""

    kind: Literal["residual"] = "residual"
    arrays: ClassVar[tuple[str, ...] | None] = ("residual",)


class CombinedPart(StepPart):
    """B to A: the encrypted residuals, and its encrypted gradient."""

    kind: Literal["combined"] = "combined"
    arrays: ClassVar[tuple[str, ...] | None] = ("residual", "gradient")


class EncryptedGradientsPart(StepPart):
    """A to the key holder: the encrypted gradients of both."""

    kind: Literal["encrypted-gradients"] = "encrypted-gradients"
    arrays: ClassVar[tuple[str, ...] | None] = ("gradient_a", "gradient_b")


class HoldoutTermsPart(Part):
    """A to B: its encrypted part of the loss of hold-out rows."""

    kind: Literal["holdout-terms"] = "holdout-terms"
    arrays: ClassVar[tuple[str, ...] | None] = ("residual", "own")
    epoch: Epoch


class HoldoutLossPart(Part):
    """B to the key holder: the encrypted loss of hold-out rows."""

    kind: Literal["holdout-loss"] = "holdout-loss"
    arrays: ClassVar[tuple[str, ...] | None] = ("total",)
    epoch: Epoch


# A prediction of some common rows, between epochs. The message around a part names who asked for it as its initiator.


class PredictPart(Part):
    """A holder asks another one for its part in the prediction of some common rows.

    Attributes:
        epoch: of the end of which the models are.
        alignment: digest of the common rows.
        batch: digest of the rows that are asked for; the array "places" has their places among the common rows.
    """

    kind: Literal["predict"] = "predict"
    arrays: ClassVar[tuple[str, ...] | None] = ("places",)
    epoch: Epoch
    alignment: HexDigest
    batch: HexDigest


class PredictOutputsPart(Part):
    """Outputs of a bottom model for these rows, to who computes the prediction.

    Attributes:
        bottom: digest of the bottom model.
    """

    kind: Literal["predict-outputs"] = "predict-outputs"
    arrays: ClassVar[tuple[str, ...] | None] = ("values",)
    epoch: Epoch
    batch: HexDigest
    bottom: HexDigest


class PredictedPart(Part):
    """The prediction of a label holder, to who asked for it.

    Attributes:
        top: digest of the top model.
        classes: names of the classes, in the order of the probabilities; none if they have none.
    """

    kind: Literal["predicted"] = "predicted"
    arrays: ClassVar[tuple[str, ...] | None] = ("values",)
    epoch: Epoch
    batch: HexDigest
    top: HexDigest
    meaning: ClassMeaning = "one_of"
    classes: tuple[ClassName, ...] = Field(default=(), max_length=MAX_CLASSES)


class PredictRefusedPart(Part):
    """A holder tells the asking one why it cannot do its part; the asking one tells the others that it is over."""

    kind: Literal["predict-refused"] = "predict-refused"
    reason: str = Field(max_length=MAX_REASON)


ControlPart = OfferPart | PositionPart | BeginPart | AlivePart | AbandonPart
TalkPart = (
    OpeningPart
    | AcceptancePart
    | PairKeyPart
    | ChunkPart
    | OutputsPart
    | GradientsPart
    | BottomClosedPart
    | TopSharedPart
    | EpochClosedPart
    | ResumedPart
    | CommonRowsPart
    | HashedIdsPart
    | OrderPart
    | EncryptionKeysPart
    | MaskPart
    | OwnWeightsPart
    | ResidualPart
    | CombinedPart
    | EncryptedGradientsPart
    | HoldoutTermsPart
    | HoldoutLossPart
)
PredictionPart = PredictPart | PredictOutputsPart | PredictedPart | PredictRefusedPart
AnyPart = Annotated[ControlPart | TalkPart | PredictionPart, Field(discriminator="kind")]


class VerticalMessage(JobMessage):
    """POST /training/vertical: what one holder says to another in an epoch of a vertical job.

    Attributes:
        session: name of the epoch, which its initiator draws; no two have the same.
        number: of the message, from 0 for each pair of nodes and direction; absent where the order does not matter.
        parts: what it says, in order.
    """

    path: ClassVar[str] = "/training/vertical"
    carries_params: ClassVar[bool] = True

    session: Session
    number: int | None = Field(default=None, ge=0, le=2**53)
    parts: tuple[AnyPart, ...] = Field(min_length=1, max_length=MAX_PARTS)


class VerticalReply(Message):
    """The answer to VerticalMessage: it has arrived. What follows from it comes in messages of its own."""

    i_am: Peer
    session: Session
    round: Round
