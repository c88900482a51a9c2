"""One node's side of an epoch of encrypted regression in a vertical job: alignment if needed, then the three positions.

It takes turns as `conversation.Conversation` does, over the same parts for the alignment. The node with the label is A,
the other one with columns is B, and the one without columns is C (`encrypted_regression`). A and B align their rows, and
C learns their number; or C aligns hashed ids, and alone learns which rows match (`masked_alignment`). Each epoch has new
keys, which C makes and forgets. A and B keep their weights when the epoch ends, and C keeps all weights: it closes the
epoch, once it knows by digest that the other two have theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from flnet.algorithms.vertical import encrypted_regression as regression
from flnet.algorithms.vertical.aligned_batches import FEWEST, AlignedBatches, held_out_of
from flnet.algorithms.vertical.aligning import Aligning, Sent
from flnet.algorithms.vertical.conversation import HolderTurn, Saved, Stage, saved_arrays
from flnet.algorithms.vertical.encrypted_regression import (
    KeyHolder,
    Output,
    Position,
    RegressionFeatureHolder,
    RegressionLabelHolder,
    RegressionPlan,
)
from flnet.algorithms.vertical.encryption import MOST_COLUMNS, Encryption, Vector
from flnet.algorithms.vertical.groups import Group, Positions
from flnet.algorithms.vertical.holder import Acceptance, AlignmentOpening, Chunk, PairKey, Terms
from flnet.algorithms.vertical.masked_alignment import (
    MaskedHolder,
    MaskedMatcher,
    MaskedPart,
    filled,
    unexpected,
)
from flnet.algorithms.vertical.taylor_regression import fixed_batches
from flnet.algorithms.vertical.wire_form import bytes_in, check_arrays, no_place, read
from flnet.errors import BatchRefused, InvalidMessage, NotOffered, TrainerError
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import (
    AcceptancePart,
    BeginPart,
    BottomClosedPart,
    ChunkPart,
    CombinedPart,
    CommonRowsPart,
    EncryptedGradientsPart,
    EncryptionKeysPart,
    EpochClosedPart,
    HashedIdsPart,
    HoldoutLossPart,
    HoldoutTermsPart,
    MaskPart,
    OpeningPart,
    OrderPart,
    OwnWeightsPart,
    PairKeyPart,
    ResidualPart,
    StepPart,
    TalkPart,
)
from flnet.text import text
from flnet.vertical_trainer import ModelState, VerticalTrainer

NOISE_EPOCHS = 100  # for which the noise is made; an epoch beyond is refused
RIDGE = 0.01
MOST_BATCHES = 10_000  # of an epoch
MOST_SLOTS = 2**18  # numbers in one ciphertext, of about 90 bytes each
NOTHING = Params()

Holder = RegressionLabelHolder | RegressionFeatureHolder | KeyHolder


def positions_of(begin: BeginPart) -> Mapping[Position, PeerId]:
    """Who has which position; the data of the nodes decide it.

    Raises:
        InvalidMessage: these nodes cannot train an encrypted regression.
    """
    positions: dict[Position, PeerId] = {}
    for peer in begin.ids:
        stated = begin.holders[peer]
        position = Position.LABELS if stated.has_label else Position.FEATURES if stated.has_data else Position.KEY
        if position in positions:
            raise InvalidMessage(text("{peer} and {other} have one position", positions[position], peer))
        positions[position] = peer
    if len(positions) < len(Position):
        raise InvalidMessage(text("an encrypted regression takes three nodes; there are {count}", len(positions)))
    return positions


def plan_of(begin: BeginPart, hyper: HyperParams, count: int) -> RegressionPlan:
    """The plan of one epoch.

    Args:
        count: of common rows.

    Raises:
        InvalidMessage: there are too few rows, in all or in a batch, or the batches are too large to be sent.
    """
    if begin.closed + 1 >= NOISE_EPOCHS:
        raise InvalidMessage(
            text("the noise of the encryption is made for {count} epochs, and these are over", NOISE_EPOCHS)
        )
    if count < FEWEST:
        raise InvalidMessage(
            text("the holders have {count} ids in common; at least {least} are needed", count, FEWEST)
        )
    positions = positions_of(begin)
    held, widths = held_out_of(count), {peer: position.width for peer, position in begin.holders.items()}
    if (count - held) // hyper.b > MOST_BATCHES:
        raise InvalidMessage(text("batches of {rows} rows are too small for {count} common rows", hyper.b, count))
    columns = (widths[positions[Position.LABELS]] + 1, widths[positions[Position.FEATURES]])
    if max(columns) > MOST_COLUMNS:
        raise InvalidMessage(
            text("{count} columns are too many for encryption; at most {most}", max(columns), MOST_COLUMNS)
        )
    plan = RegressionPlan(
        *columns,
        fixed_batches(count - held, hyper.b),
        held,
        epochs=1,
        rate=hyper.u,
        ridge=RIDGE,
        noise_epochs=NOISE_EPOCHS,
    )
    width = 1 << (plan.most_columns - 1).bit_length()
    if plan.longest * width > MOST_SLOTS or held > MOST_SLOTS:
        raise InvalidMessage(
            text(
                "batches of {rows} rows with {columns} columns are too large to be sent; take fewer rows",
                plan.longest,
                plan.most_columns,
            )
        )
    return plan


def weights_state(theta: Vector) -> ModelState:
    """Weights as they are kept, with their digest."""
    return ModelState(Params({"theta": np.ascontiguousarray(theta, np.float64)}))


class EncryptedConversation:
    """One epoch of one node."""

    def __init__(
        self,
        me: PeerId,
        session: str,
        begin: BeginPart,
        hyper: HyperParams,
        trainer: VerticalTrainer,
        ids: Sequence[str],
        saved: Saved,
        *,
        group: Group,
        secret: bytes,
        encryption: Encryption,
        rows: Positions | None = None,
        alignment: str = "",
    ) -> None:
        """Args are those of `Conversation`, and:
        encryption: the scheme.

        Raises:
            InvalidMessage: these nodes cannot train an encrypted regression.
        """
        self._me, self._session, self._begin, self._hyper = me, session, begin, hyper
        self._trainer, self._saved, self._encryption = trainer, saved, encryption
        self._rows, self._alignment = rows, alignment
        self._ids_before = rows
        self._nodes = positions_of(begin)
        self._positions = {peer: position for position, peer in self._nodes.items()}
        self._epoch = begin.closed + 1
        self._holder: Holder | None = None
        self._common: dict[PeerId, CommonRowsPart] = {}  # as A and B state them to C
        self._kept: ModelState | None = None
        self._told: dict[PeerId, Digest] = {}  # digests of what A and B have kept
        self._loss: float | None = None
        self._report: EpochClosedPart | None = None
        self._step, self._is_saved, self._count = 0, False, None
        self._sent: list[Sent] = []
        self._warnings: list[str] = []
        self._keys: tuple[EncryptionKeysPart, Params] | None = None  # whose masks have not all arrived
        self._masks: list[bytes] = []
        self._aligning = self._aligning_of(ids, group, secret) if begin.aligns else None

    _count: int | None

    def _aligning_of(
        self, ids: Sequence[str], group: Group, secret: bytes
    ) -> Aligning | MaskedHolder | MaskedMatcher | None:
        begin, me, key_holder = self._begin, self._me, self._nodes[Position.KEY]
        if not begin.hides_matches:
            terms = Terms(self._session, begin.with_data)
            return None if me == key_holder else Aligning.of(terms, me, ids, group, secret, begin.seed)
        pair = (self._nodes[Position.LABELS], self._nodes[Position.FEATURES])
        rows = {peer: begin.holders[peer].rows for peer in pair}
        if me == key_holder:
            return MaskedMatcher(self._epoch, rows, secret)
        other = pair[1] if me == pair[0] else pair[0]
        most = max(rows.values())
        return MaskedHolder(self._session, self._epoch, (other, key_holder), ids, group, secret, most)

    @property
    def _position(self) -> Position:
        return self._positions[self._me]

    def start(self) -> HolderTurn:
        """Begin: the leader of the alignment, or each data holder of aligned rows, has something to say.

        Raises:
            PeerError, TrainerError: the epoch cannot be trained.
        """
        if self._aligning is not None:
            self._sent += self._aligning.start()
        elif self._position is not Position.KEY:
            self._begin_training()
        return self._turn()

    def receive(self, parts: Iterable[tuple[PeerId, TalkPart, Params]]) -> HolderTurn:
        """Take what other nodes sent, in order.

        Raises:
            PeerError: a message is wrong; no correct node sends such a one.
            TrainerError: training cannot go on.
        """
        for sender, part, arrays in parts:
            check_arrays(part, arrays)
            self._take(sender, part, arrays)
        if self._aligning is not None:
            self._sent += self._aligning.work()
            self._begin_if_aligned()
        return self._turn()

    # --- the rows

    def _take(self, sender: PeerId, part: TalkPart, arrays: Params) -> None:
        if isinstance(part, OpeningPart | AcceptancePart | PairKeyPart | ChunkPart | HashedIdsPart | OrderPart):
            self._sent += self._align(sender, part, arrays)
            self._begin_if_aligned()
            return
        epoch = getattr(part, "epoch", None)
        if epoch != self._epoch:
            raise BatchRefused(text("expected a message of epoch {expected}, got {epoch}", self._epoch, epoch))
        is_key_holder = self._position is Position.KEY
        match part:
            case CommonRowsPart() if is_key_holder and sender not in self._common:
                self._common[sender] = part
                self._begin_as_key_holder()
            case BottomClosedPart() if is_key_holder:
                self._told[sender] = Digest(part.digest)
                self._close()
            case EpochClosedPart() if sender == self._nodes[Position.KEY]:
                self._closed(part)
            case _:
                self._pass_on(sender, part, arrays)

    def _align(self, sender: PeerId, part: TalkPart, arrays: Params) -> list[Sent]:
        aligning = self._aligning
        if isinstance(aligning, MaskedHolder | MaskedMatcher) and isinstance(part, MaskedPart):
            return aligning.receive(sender, part, arrays)
        if not isinstance(aligning, Aligning) or sender not in self._begin.with_data:
            raise BatchRefused(text("the rows of this epoch were aligned before"))
        message = read(part, arrays, self._session, sender, self._begin.with_data)
        assert isinstance(message, AlignmentOpening | Acceptance | PairKey | Chunk)
        return aligning.receive(message)

    def _begin_if_aligned(self) -> None:
        agreement = self._aligning.agreement if self._aligning else None
        if agreement is not None and self._rows is not agreement.rows:
            self._rows, self._alignment = agreement.rows, agreement.digest
            if self._position is not Position.KEY:
                self._begin_training()

    def _begin_training(self) -> None:
        """Take the rows in the common order, and tell the key holder that they are there."""
        assert self._rows is not None
        plan = plan_of(self._begin, self._hyper, len(self._rows))
        batches = AlignedBatches(len(self._rows), self._hyper.b, self._begin.seed, self._alignment)
        trained, held = self._rows[batches.trained], self._rows[batches.held_out]
        x, held_x, open_key = self._features(trained), self._features(held), self._encryption.open_key
        if self._position is Position.LABELS:
            y, held_y = self._labels(trained), self._labels(held)
            if len(np.unique(y)) < 2:
                raise TrainerError(
                    text("the label has one value only in the {count} common rows that are trained on", len(y))
                )
            self._holder = RegressionLabelHolder(plan, x, y, open_key, held_x, held_y)
        else:
            self._holder = RegressionFeatureHolder(plan, x, open_key, held_x)
        self._warnings += plan.warnings()
        state = self._saved.state("bottom") if self._begin.closed >= 0 else None
        weights = None if state is None else state.digest
        part = CommonRowsPart(epoch=self._epoch, count=len(self._rows), alignment=self._alignment, weights=weights)
        self._sent.append(Sent(self._nodes[Position.KEY], part, NOTHING))

    def _features(self, rows: Positions) -> Vector:
        try:
            x = filled(rows, self._trainer.features)
        except NotOffered:
            return np.zeros((len(rows), 0))
        return x.reshape(len(rows), -1)

    def _labels(self, rows: Positions) -> Vector:
        y = filled(rows, self._trainer.labels)
        if y.shape != (len(rows),):
            raise TrainerError(text("encrypted regression needs one label for each row, 0 or 1"))
        return y

    def _begin_as_key_holder(self) -> None:
        """Make keys, once both data holders have their rows."""
        if len(self._common) < 2:
            return
        a, b = (self._common[self._nodes[position]] for position in (Position.LABELS, Position.FEATURES))
        if (a.count, a.alignment) != (b.count, b.alignment):
            raise BatchRefused(text("the data holders do not have the same common rows"))
        plan = plan_of(self._begin, self._hyper, a.count)
        masks = self._own_masks(a)
        self._count = a.count
        start = None
        if self._begin.closed >= 0:
            start = np.array(self._saved.state("top").weights["theta"], np.float64)
        for peer, digest in self._digests(plan, start).items():
            if self._common[peer].weights != digest:
                raise BatchRefused(
                    text("{peer} goes on from other weights than those of epoch {epoch}", peer, self._begin.closed)
                )
        self._warnings += plan.warnings()
        self._holder = KeyHolder(plan, self._encryption.keys(), *masks, start=start)
        self._perform(self._holder.start())

    def _own_masks(self, stated: CommonRowsPart) -> tuple[Vector | None, Vector | None]:
        """Which rows count, of those that are trained on and of those that are held out; None where all do."""
        if not self._begin.hides_matches:
            return None, None
        if self._rows is None or (len(self._rows), self._alignment) != (stated.count, stated.alignment):
            raise BatchRefused(text("the data holders do not have the positions that they were told"))
        batches = AlignedBatches(stated.count, self._hyper.b, self._begin.seed, self._alignment)
        mask = self._rows.astype(np.float64)
        return mask[batches.trained], mask[batches.held_out]

    def _digests(self, plan: RegressionPlan, theta: Vector | None) -> Mapping[PeerId, Digest | None]:
        """Digests of the parts of A and B; None before the first epoch."""
        peers = (self._nodes[Position.LABELS], self._nodes[Position.FEATURES])
        if theta is None:
            return dict.fromkeys(peers)
        parts = np.split(theta, [plan.columns_a])
        return {peer: weights_state(part).digest for peer, part in zip(peers, parts, strict=True)}

    # --- the three positions

    def _pass_on(self, sender: PeerId, part: TalkPart, arrays: Params) -> None:
        message = None if isinstance(part, EncryptionKeysPart | MaskPart) else message_of(part, arrays)
        if self._holder is None:
            raise BatchRefused(text("{peer} has no aligned rows yet", self._me))
        if isinstance(part, EncryptionKeysPart | MaskPart):
            message = self._keys_of(sender, part, arrays)
        if message is None:
            return
        self._step = max(self._step, getattr(message, "batch", 0))
        self._perform(self._holder.receive(self._positions[sender], message))

    def _keys_of(
        self, sender: PeerId, part: EncryptionKeysPart | MaskPart, arrays: Params
    ) -> regression.Keys | None:
        """The keys with all masks, which come one by one; None as long as some are missing."""
        if sender != self._nodes[Position.KEY]:
            raise unexpected(part)
        if isinstance(part, EncryptionKeysPart) and self._keys is None:
            self._keys = part, arrays
            return None
        keys = self._keys
        if not isinstance(part, MaskPart) or keys is None or part.batch != len(self._masks) < keys[0].masks:
            raise unexpected(part)
        self._masks.append(bytes_in(arrays["mask"]))
        if len(self._masks) < keys[0].masks:
            return None
        self._keys = keys[0], NOTHING
        return regression.Keys(bytes_in(keys[1]["public"]), tuple(self._masks), bytes_in(keys[1]["holdout"]))

    def _perform(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case regression.SendToPosition(to, message) if not isinstance(message, regression.Stop):
                    self._sent += [Sent(self._nodes[to], *one) for one in parts_of(message, self._epoch)]
                case regression.Keep(_, theta):
                    self._kept = weights_state(theta)
                    part = BottomClosedPart(epoch=self._epoch, digest=self._kept.digest)
                    self._sent.append(Sent(self._nodes[Position.KEY], part, NOTHING))
                case regression.LossMeasured(_, loss):
                    self._loss = loss
                    self._close()
                case regression.Warned(reason):
                    self._warnings.append(reason)
                case regression.Stopped(reason):
                    raise TrainerError(reason)

    def _close(self) -> None:
        """The key holder ends the epoch, when it has the loss and both others have their weights."""
        holder = self._holder
        if self._loss is None or len(self._told) < 2 or not isinstance(holder, KeyHolder):
            return
        if self._told != self._digests(holder.plan, holder.theta):
            raise BatchRefused(text("a data holder has kept other weights than those of this epoch"))
        self._kept = weights_state(holder.theta)
        bottoms = {str(peer): digest for peer, digest in self._told.items()}
        self._report = EpochClosedPart(epoch=self._epoch, loss=self._loss, bottoms=bottoms, top=self._kept.digest)
        self._sent += [Sent(peer, self._report, NOTHING) for peer in self._begin.with_data]

    def _closed(self, report: EpochClosedPart) -> None:
        if self._kept is None or report.bottoms.get(self._me) != self._kept.digest:
            raise BatchRefused(text("{peer} has not ended this epoch with these weights", self._me))
        self._report, self._is_saved = report, False  # once more, with the digest of the other one's weights

    # --- what follows

    def _turn(self) -> HolderTurn:
        sent, self._sent = self._sent, []
        warnings, self._warnings = self._warnings, []
        count, self._count = self._count, None
        if self._holder is None:
            arrived, has_work = (self._aligning.arrived, self._aligning.has_work) if self._aligning else (0, False)
            return HolderTurn(sent, "aligning" if self._begin.aligns else "training", arrived, 0, has_work)
        steps = len(self._holder.plan.batches)
        stage: Stage = "closed" if self._report else "closing" if self._step >= steps or self._kept else "training"
        turn = HolderTurn(sent, stage, self._step, steps, common=count, warnings=warnings)
        if self._position is not Position.KEY and self._kept is not None:
            turn = replace(turn, bottom=self._kept.digest)
        if self._kept is not None and not self._is_saved:
            self._is_saved = True
            turn = replace(turn, saved=self._newly_saved(self._kept))
        before, self._ids_before = self._ids_before, self._rows
        turn = replace(turn, report=self._report)
        return turn if before is self._rows else replace(turn, rows=self._rows, alignment=self._alignment)

    def _newly_saved(self, kept: ModelState) -> Saved:
        model = "top" if self._position is Position.KEY else "bottom"
        return Saved(Params(saved_arrays(model, kept)), self._report)


def parts_of(message: regression.Message, epoch: int) -> list[tuple[TalkPart, Params]]:
    """A message of one epoch as parts with their arrays: keys and masks are several parts."""
    if not isinstance(message, regression.Keys):
        return [_part_of(message, epoch)]
    keys = EncryptionKeysPart(epoch=epoch, masks=len(message.masks))
    masks = enumerate(message.masks)
    return [
        (keys, _sealed(public=message.public_key, holdout=message.holdout)),
        *((MaskPart(epoch=epoch, batch=batch), _sealed(mask=mask)) for batch, mask in masks),
    ]


def _part_of(message: regression.Message, epoch: int) -> tuple[TalkPart, Params]:
    match message:
        case regression.OwnWeights() as m:
            return OwnWeightsPart(epoch=epoch, batch=m.batch, weights=m.theta), NOTHING
        case regression.Residual() as m:
            return ResidualPart(epoch=epoch, batch=m.batch), _sealed(residual=m.residual)
        case regression.Combined() as m:
            part = CombinedPart(epoch=epoch, batch=m.batch)
            return part, _sealed(residual=m.residual, gradient=m.gradient)
        case regression.EncryptedGradients() as m:
            gradients = _sealed(gradient_a=m.gradient_a, gradient_b=m.gradient_b)
            return EncryptedGradientsPart(epoch=epoch, batch=m.batch), gradients
        case regression.HoldoutTerms() as m:
            return HoldoutTermsPart(epoch=epoch), _sealed(residual=m.residual, own=m.own)
        case regression.HoldoutLoss() as m:
            return HoldoutLossPart(epoch=epoch), _sealed(total=m.total)
    raise TypeError(f"{type(message).__name__} is no message of an epoch")


def message_of(part: TalkPart, arrays: Params) -> regression.Message:
    """The message that a part stands for; its own epoch is 0, since each epoch has a plan of its own.

    Raises:
        BatchRefused: it is a part of something else.
        CutLayerRefused: an array is no list of bytes.
    """
    if not isinstance(part, StepPart | HoldoutTermsPart | HoldoutLossPart):
        raise no_place(part)
    sealed = {name: bytes_in(array) for name, array in arrays.items()}
    match part:
        case OwnWeightsPart() as p:
            return regression.OwnWeights(0, p.batch, p.weights)
        case ResidualPart() as p:
            return regression.Residual(0, p.batch, sealed["residual"])
        case CombinedPart() as p:
            return regression.Combined(0, p.batch, sealed["residual"], sealed["gradient"])
        case EncryptedGradientsPart() as p:
            return regression.EncryptedGradients(0, p.batch, sealed["gradient_a"], sealed["gradient_b"])
        case HoldoutTermsPart():
            return regression.HoldoutTerms(0, sealed["residual"], sealed["own"])
        case HoldoutLossPart():
            return regression.HoldoutLoss(0, sealed["total"])
    raise no_place(part)


def _sealed(**values: bytes) -> Params:
    return Params({name: np.frombuffer(value, np.uint8) for name, value in values.items()})
