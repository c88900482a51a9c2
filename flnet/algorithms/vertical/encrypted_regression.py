"""Logistic regression over columns that two nodes hold, under additive homomorphic encryption with a third node's key.

Hardy et al., "Private federated learning on vertically partitioned data via entity resolution and additively
homomorphic encryption", arXiv 1711.10677, 2017; A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis
de datos sensibles", Universidad de la República, 2024, Algorithms 3 and 4, corrected as `taylor_regression` says.

Three positions. A has columns and the labels, B has columns, and C the key, none of the data, and the step. With [[x]]
for a ciphertext and m for the mask of the rows that count, a batch goes

    C -> A, B   theta_A to A, theta_B to B; before the first batch the public key and [[m]]
    A -> B      [[m (u - y/2)]], where u = X_A theta_A / 4
    B -> A      [[w]] = [[m (u - y/2)]] + [[m]] v, where v = X_B theta_B / 4, and [[X_B' w]]
    A -> C      [[X_A' w]] and [[X_B' w]]
    C           decrypts both, divides by the sum of m, and takes the step

After each epoch A and B keep their parts of theta, and C gets one number: the mean Taylor loss of hold-out rows. With
z = z_A + z_B it is log 2 - y z_A / 2 + z_A^2 / 8 + z_B (z_A / 4 - y / 2) + z_B^2 / 8, so A sends two vectors and B adds
what is its own: the product z_A z_B is one of a ciphertext with known numbers.

Each position is a state machine: `receive` takes a message and returns what to do (`SendToPosition`, `Keep` and so on). It
has no clock, no randomness and no network; a scheme (`encryption`) brings what encryption needs. Messages of one sender
have to arrive in order. C must not read what A and B send each other, which is encrypted under its own key.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from flnet.algorithms.vertical.encryption import (
    AdditiveScheme,
    Ciphertext,
    Matrix,
    OpenKey,
    SecretScheme,
    Shape,
    Vector,
)
from flnet.algorithms.vertical.taylor_regression import (
    RANGE,
    check_standardised,
    signed_labels,
    slices,
    step,
)
from flnet.errors import FlnetError, InvalidMessage, TrainerError
from flnet.text import Text, text

MOST_SHARE = 16.0  # of |z| from one node's columns; beyond it the loss means nothing, and totals could overflow
_MOST_RESIDUAL = MOST_SHARE / 2 + 0.5  # of |w|
MOST_WEIGHT = 1000.0  # of |theta|
MOST_LOSS = 10.0  # of the hold-out; at theta = 0 it is log 2
SAFE_ROWS = 10  # times the columns; with fewer rows in a batch, single labels can be computed from gradients
USUAL_NORM = 3.0  # times the square root of a batch's rows: no column of a batch is expected to have a larger norm


class Position(StrEnum):
    """Who a node is in one job; the data decide it."""

    LABELS = "A"
    FEATURES = "B"
    KEY = "C"


@dataclass(frozen=True)
class RegressionPlan:
    """What the three nodes have alike before they start.

    Attributes:
        columns_a: of A, with the constant one if there is an intercept.
        columns_b: of B.
        batches: rows of each batch, the same in all epochs.
        holdout: rows of the hold-out; 0 for none.
        epochs: passes over the batches.
        rate: of a step.
        ridge: share of theta that is added to the gradient.
        intercept: A has a constant column of 1 before its others.
        fewest: rows that must count in a batch, or it is skipped; None for one more than the columns of either node,
            since with fewer rows a node can compute w of each row from its part of theta.
        norm: largest norm of a column in a batch, on which the noise depends; None for the usual one.
        noise_epochs: epochs over these rows for which the noise is made; None for those of this plan. It is more where
            each epoch has a plan of its own: keys are new then, but errors tell of the same rows.
    """

    columns_a: int
    columns_b: int
    batches: tuple[int, ...]
    holdout: int = 0
    epochs: int = 20
    rate: float = 0.05
    ridge: float = 0.01
    intercept: bool = True
    fewest: int | None = None
    norm: float | None = None
    noise_epochs: int | None = None

    def __post_init__(self) -> None:
        whole = (self.columns_a, self.columns_b, self.epochs, *self.batches)
        if not self.batches or min(whole) < 1 or self.holdout < 0 or not 0 < self.rate < math.inf:
            raise InvalidMessage(text("a plan needs columns, batches, epochs and a rate that are larger than 0"))
        if not 0 <= self.ridge < math.inf:
            raise InvalidMessage(text("the ridge is {ridge}; expected 0 or more", self.ridge))
        if self.longest < self.fewest_rows:
            raise InvalidMessage(
                text(
                    "the largest batch has {rows} rows; at least {fewest} are needed for {columns} columns, since with "
                    "fewer rows a node could compute values of single rows",
                    self.longest,
                    self.fewest_rows,
                    self.most_columns,
                )
            )

    @property
    def longest(self) -> int:
        """Rows of the largest batch."""
        return max(self.batches)

    @property
    def most_columns(self) -> int:
        """Columns of the node that has more."""
        return max(self.columns_a, self.columns_b)

    @property
    def fewest_rows(self) -> int:
        """Rows that must count in a batch."""
        return self.most_columns + 1 if self.fewest is None else self.fewest

    @property
    def largest_norm(self) -> float:
        """The norm that no column of a batch exceeds."""
        return USUAL_NORM * math.sqrt(self.longest) if self.norm is None else self.norm

    @property
    def decryptions(self) -> int:
        """Batches whose gradients are decrypted, in all epochs for which the noise is made."""
        return self._noise_epochs * len(self.batches)

    @property
    def _noise_epochs(self) -> int:
        return max(self.epochs, self.noise_epochs or 0)

    def noise(self, scheme: AdditiveScheme) -> float:
        """Standard deviation of the noise on each entry of X'w, that of the data holders and that of C alike."""
        return scheme.flooding(self.decryptions, self.columns_a + self.columns_b, self.largest_norm)

    def loss_noise(self, scheme: AdditiveScheme) -> float:
        """The same for the loss."""
        return scheme.flooding(self._noise_epochs, 1, 1.0)

    def weight_error(self, scheme: AdditiveScheme) -> float:
        """Standard deviation that both noises bring into an entry of theta, at most, if all rows count.

        Each step adds rate sqrt(2) noise / rows; the gradient of the loss only shrinks what came before.
        """
        steps = self.epochs * sum(1 / rows**2 for rows in self.batches if rows >= self.fewest_rows)
        return self.rate * math.sqrt(2 * steps) * self.noise(scheme)

    def warnings(self) -> list[Text]:
        """What the people who start the job should know."""
        if self.longest >= SAFE_ROWS * self.most_columns:
            return []
        return [
            text(
                "batches of {rows} rows for {columns} columns: the node without labels can compute labels of single "
                "rows from its part of the weights; {safe} rows or more make that hard",
                self.longest,
                self.most_columns,
                SAFE_ROWS * self.most_columns,
            )
        ]


@dataclass(frozen=True)
class Keys:
    """C -> A, B: the public key, and the encrypted masks.

    Attributes:
        public_key: of C.
        masks: [[m]] of each batch; a single one where all rows count.
        holdout: [[m]] of the hold-out; empty if there is none.
    """

    public_key: bytes
    masks: tuple[bytes, ...]
    holdout: bytes


@dataclass(frozen=True)
class OwnWeights:
    """C -> A, B: the node's own part of theta, for the batch of this number; the number after the last ends the epoch."""

    epoch: int
    batch: int
    theta: tuple[float, ...]


@dataclass(frozen=True)
class Residual:
    """A -> B: [[m (u - y/2)]] of a batch."""

    epoch: int
    batch: int
    residual: bytes


@dataclass(frozen=True)
class Combined:
    """B -> A: [[w]] and [[X_B' w]] of a batch."""

    epoch: int
    batch: int
    residual: bytes
    gradient: bytes


@dataclass(frozen=True)
class EncryptedGradients:
    """A -> C: [[X_A' w]] and [[X_B' w]] of a batch."""

    epoch: int
    batch: int
    gradient_a: bytes
    gradient_b: bytes


@dataclass(frozen=True)
class HoldoutTerms:
    """A -> B: of hold-out rows, [[m (u - y/2)]] and [[m (z_A^2 / 8 - y z_A / 2)]]."""

    epoch: int
    residual: bytes
    own: bytes


@dataclass(frozen=True)
class HoldoutLoss:
    """B -> C: the sum over hold-out rows, divided by their number, without log 2."""

    epoch: int
    total: bytes


@dataclass(frozen=True)
class Stop:
    """To both others: training ends here."""

    reason: str


Message: TypeAlias = (
    Keys | OwnWeights | Residual | Combined | EncryptedGradients | HoldoutTerms | HoldoutLoss | Stop
)


@dataclass(frozen=True)
class SendToPosition:
    """Send a message to the node of a position."""

    to: Position
    message: Message


@dataclass(frozen=True)
class Keep:
    """Write this node's part of theta to disk: if the key is lost, training cannot go on."""

    epoch: int
    theta: Vector


@dataclass(frozen=True)
class LossMeasured:
    """The hold-out loss after an epoch, as C knows it."""

    epoch: int
    loss: float


@dataclass(frozen=True)
class Warned:
    """Something that people should know; training goes on."""

    reason: Text


@dataclass(frozen=True)
class Stopped:
    """Training has ended before its last epoch."""

    reason: Text


@dataclass(frozen=True)
class Finished:
    """All epochs are done."""


Output: TypeAlias = SendToPosition | Keep | LossMeasured | Warned | Stopped | Finished

_SENDERS: Mapping[type, Position] = {
    Keys: Position.KEY,
    OwnWeights: Position.KEY,
    Residual: Position.LABELS,
    Combined: Position.FEATURES,
    EncryptedGradients: Position.LABELS,
    HoldoutTerms: Position.LABELS,
    HoldoutLoss: Position.FEATURES,
}


def check_positions(label_holder: str, feature_holder: str, key_holder: str) -> None:
    """Refuse a job in which one node has two positions: it could read what encryption keeps from it.

    Args:
        label_holder: the node at A.
        feature_holder: the node at B.
        key_holder: the node at C.

    Raises:
        InvalidMessage: two of them are one node.
    """
    if key_holder in {label_holder, feature_holder}:
        raise InvalidMessage(
            text("{node} cannot hold the key and data: it could decrypt the rows of the other node", key_holder)
        )
    if label_holder == feature_holder:
        raise InvalidMessage(text("{node} holds all columns and needs no encrypted training", label_holder))


class _Position(ABC):
    """What the three have in common: the order of messages, and the end."""

    position: Position

    def __init__(self, plan: RegressionPlan) -> None:
        self.plan = plan
        self.ended = False

    def receive(self, sender: Position, message: Message) -> list[Output]:
        """Handle one message.

        Args:
            sender: the position of the node that sent it.
            message: what it sent.

        Raises:
            InvalidMessage: it is not from this position, not for this one, not the next one, or unreadable; nothing has
                changed.
        """
        if isinstance(message, Stop):
            return self._end(text("{position} stopped: {reason}", sender.value, message.reason[:300]))
        if self.ended:
            raise InvalidMessage(text("this training has ended"))
        if _SENDERS[type(message)] is not sender:
            raise InvalidMessage(text("{kind} came from {position}", type(message).__name__, sender.value))
        return self._receive(message)

    def lost(self, position: Position) -> list[Output]:
        """A node is gone for good. The key cannot be had again, so training stops; what was kept stays."""
        if self.ended:
            return []
        if position is Position.KEY:
            reason = text(
                "the key holder is gone, and with it the key; the weights of the last full epoch are kept"
            )
        else:
            reason = text("the node that holds the columns of {position} is gone", position.value)
        return self._stop(reason)

    @abstractmethod
    def _receive(self, message: Message) -> list[Output]: ...

    def _stop(self, reason: Text) -> list[Output]:
        """Stop, and tell the others."""
        others = [position for position in Position if position is not self.position]
        return [*(SendToPosition(position, Stop(reason)) for position in others), *self._end(reason)]

    def _end(self, reason: Text) -> list[Output]:
        if self.ended:
            return []
        self.ended = True
        return [Stopped(reason)]

    def _unexpected(self, message: Message) -> InvalidMessage:
        return InvalidMessage(
            text("{kind} is not what {position} waits for", type(message).__name__, self.position.value)
        )


class _DataHolder(_Position):
    """What A and B have in common: columns, masks, and a part of theta."""

    def __init__(
        self,
        plan: RegressionPlan,
        train: Matrix,
        holdout: Matrix | None,
        open_key: OpenKey,
        columns: int,
        strict: bool,
    ) -> None:
        super().__init__(plan)
        self._open_key, self._columns = open_key, columns
        held = np.zeros((0, columns)) if holdout is None else np.asarray(holdout, np.float64)
        self._train, self._held = np.asarray(train, np.float64), held
        self._slices = slices(plan.batches)
        self._check_rows(strict)
        self.theta: Vector | None = None
        self.kept: Keep | None = None
        self._scheme: AdditiveScheme | None = None
        self._masks: tuple[bytes, ...] = ()
        self._common_mask: Ciphertext | None = None  # the one of all batches
        self._holdout_mask: Ciphertext | None = None
        self._next = (0, 0)  # the earliest epoch and batch that may come
        self._beyond = 0  # rows of this epoch whose share of the score left the range

    def _check_rows(self, strict: bool) -> None:
        expected = ((sum(self.plan.batches), self._columns), (self.plan.holdout, self._columns))
        if (self._train.shape, self._held.shape) != expected:
            raise TrainerError(
                text(
                    "training and hold-out rows have the shapes {shapes}; expected {expected}",
                    f"{self._train.shape}, {self._held.shape}",
                    f"{expected[0]}, {expected[1]}",
                )
            )
        if strict:
            own = self._train[:, 1:] if self._has_constant else self._train
            check_standardised(own)
        for part in self._slices:
            norms = np.sqrt((self._train[part] ** 2).sum(axis=0))
            if norms.max() > self.plan.largest_norm:
                raise TrainerError(
                    text(
                        "a column of a batch has the norm {norm}, more than {most}, for which the noise is made; cut "
                        "far values, or plan a larger norm",
                        f"{norms.max():.1f}",
                        f"{self.plan.largest_norm:.1f}",
                    )
                )

    @property
    def _has_constant(self) -> bool:
        return self.position is Position.LABELS and self.plan.intercept

    def _open(self, message: Keys) -> list[Output]:
        if self._scheme is not None:
            raise self._unexpected(message)
        wanted = {1, len(self.plan.batches)}
        if len(message.masks) not in wanted or bool(message.holdout) != bool(self.plan.holdout):
            raise InvalidMessage(
                text("{count} masks came for {batches} batches", len(message.masks), len(self._slices))
            )
        scheme = self._open_key(message.public_key)
        masks = [scheme.load(mask, self._rows_shape) for mask in message.masks]
        held = scheme.load(message.holdout, Shape(self.plan.holdout)) if message.holdout else None
        totals = max(np.abs(self._train[part]).sum(axis=0).max() for part in self._slices)
        if totals * _MOST_RESIDUAL >= scheme.capacity:
            reason = text("batches of {rows} rows are too large for the encryption", self.plan.longest)
            return self._stop(reason)
        self._scheme, self._masks, self._holdout_mask = scheme, message.masks, held
        self._common_mask = masks[0] if len(masks) == 1 else None
        return []

    @property
    def _rows_shape(self) -> Shape:
        return Shape(self.plan.longest, self.plan.most_columns)

    @property
    def _totals_shape(self) -> Shape:
        return Shape(self.plan.longest, self.plan.most_columns, summed=True)

    def _mask(self, scheme: AdditiveScheme, batch: int) -> Ciphertext:
        """[[m]] of a batch; many of them are kept as bytes, which take half the memory."""
        if self._common_mask is not None:
            return self._common_mask
        return scheme.load(self._masks[batch], self._rows_shape)

    def _gradient(self, scheme: AdditiveScheme, residual: Ciphertext, batch: int) -> bytes:
        """[[X' w]] for the key holder: no longer telling what X was, not even by its errors."""
        product = scheme.rerandomise(scheme.multiply(residual, self._train[self._slices[batch]]))
        return scheme.dump(scheme.flood(scheme.total(product), self.plan.noise(scheme)))

    def _take(self, message: OwnWeights) -> Vector:
        """Check that these weights are next, and return them."""
        at, batches = (message.epoch, message.batch), len(self.plan.batches)
        theta = np.array(message.theta, np.float64)
        if self._scheme is None or not self._next <= at or message.epoch >= self.plan.epochs or at[1] > batches:
            raise self._unexpected(message)
        if theta.shape != (self._columns,) or not np.isfinite(theta).all():
            raise InvalidMessage(
                text("weights for {count} columns came; expected {columns}", len(theta), self._columns)
            )
        return theta

    def _share(self, rows: Matrix, theta: Vector) -> Vector:
        """z from this node's columns.

        Raises:
            _OutOfRange: it is so large that training makes no sense.
        """
        z: Vector = rows @ theta
        if len(z) and np.abs(z).max() > MOST_SHARE:
            raise _OutOfRange(
                text(
                    "a score reached {score} from the columns of {position} alone, where the Taylor loss does not hold; "
                    "standardise the columns, cut far values, or take a smaller rate",
                    f"{np.abs(z).max():.3g}",
                    self.position.value,
                )
            )
        self._beyond += int((np.abs(z) > RANGE).sum())
        return z

    def _keep(self, epoch: int, theta: Vector) -> list[Output]:
        """The end of an epoch: what is kept, and what people should know."""
        self.kept = Keep(epoch, theta)
        outputs: list[Output] = [self.kept]
        beyond, self._beyond = self._beyond, 0
        if beyond:
            rows = len(self._train) + len(self._held)
            outputs.append(
                Warned(
                    text(
                        "{share} percent of the rows have a score beyond {range} from the columns of {position} alone; the "
                        "Taylor loss only holds near 0",
                        f"{100 * beyond / rows:.1f}",
                        RANGE,
                        self.position.value,
                    )
                )
            )
        return outputs

    def _passed(self, epoch: int, batch: int) -> None:
        self._next = (epoch, batch + 1) if batch < len(self.plan.batches) else (epoch + 1, 0)

    def _done(self, epoch: int) -> list[Output]:
        if epoch + 1 < self.plan.epochs:
            return []
        self.ended = True
        return [Finished()]


class _OutOfRange(FlnetError):
    """A score left the range; training stops with this reason."""

    def __init__(self, reason: Text) -> None:
        super().__init__(reason)
        self.reason = reason


class RegressionLabelHolder(_DataHolder):
    """A: holds columns and the labels."""

    position = Position.LABELS

    def __init__(
        self,
        plan: RegressionPlan,
        train: Matrix,
        labels: Vector,
        open_key: OpenKey,
        holdout: Matrix | None = None,
        holdout_labels: Vector | None = None,
        strict: bool = True,
    ) -> None:
        """Take the rows in the common order, standardised and without the constant column.

        Args:
            plan: what the three nodes have alike.
            train: (n, columns), batch after batch.
            labels: (n,) of 0 and 1, or of -1 and +1.
            open_key: makes a scheme of a public key.
            holdout: (h, columns).
            holdout_labels: (h,).
            strict: refuse columns that are not standardised.

        Raises:
            TrainerError: the rows do not fit the plan, are not standardised, or labels have other values.
        """
        rows, held = _with_constant(train, plan.intercept), None
        if holdout is not None:
            held = _with_constant(holdout, plan.intercept)
        super().__init__(plan, rows, held, open_key, plan.columns_a, strict)
        self._labels = signed_labels(labels)
        self._held_labels = signed_labels(np.zeros(0) if holdout_labels is None else holdout_labels)
        if (len(self._labels), len(self._held_labels)) != (len(self._train), len(self._held)):
            raise TrainerError(text("there are not as many labels as rows"))
        self._waits: tuple[int, int] | None = None  # the batch of which B's answer is missing

    def _receive(self, message: Message) -> list[Output]:
        match message:
            case Keys():
                return self._open(message)
            case OwnWeights():
                return self._weights(message)
            case Combined():
                return self._combined(message)
        raise self._unexpected(message)

    def _weights(self, message: OwnWeights) -> list[Output]:
        if self._waits is not None:
            raise self._unexpected(message)
        theta, scheme = self._take(message), self._scheme
        assert scheme is not None
        try:
            if message.batch < len(self._slices):
                outputs = self._batch(scheme, message, theta)
            else:
                outputs = self._evaluate(scheme, message.epoch, theta)
        except _OutOfRange as exc:
            return self._stop(exc.reason)
        self.theta = theta
        self._passed(message.epoch, message.batch)
        return outputs

    def _batch(self, scheme: AdditiveScheme, message: OwnWeights, theta: Vector) -> list[Output]:
        part = self._slices[message.batch]
        u = self._share(self._train[part], theta) / 4
        residual = scheme.multiply(self._mask(scheme, message.batch), u - self._labels[part] / 2)
        self._waits = (message.epoch, message.batch)
        return [
            SendToPosition(Position.FEATURES, Residual(*self._waits, scheme.dump(scheme.rerandomise(residual))))
        ]

    def _combined(self, message: Combined) -> list[Output]:
        scheme = self._scheme
        if scheme is None or self._waits != (message.epoch, message.batch):
            raise self._unexpected(message)
        residual = scheme.load(message.residual, self._rows_shape)
        gradient = self._gradient(scheme, residual, message.batch)
        self._waits = None
        return [
            SendToPosition(
                Position.KEY, EncryptedGradients(message.epoch, message.batch, gradient, message.gradient)
            )
        ]

    def _evaluate(self, scheme: AdditiveScheme, epoch: int, theta: Vector) -> list[Output]:
        z = self._share(self._held, theta)
        outputs = self._keep(epoch, theta)
        if self._holdout_mask is not None:
            mask = self._holdout_mask
            residual = scheme.multiply(mask, z / 4 - self._held_labels / 2)
            own = scheme.multiply(mask, z * z / 8 - self._held_labels * z / 2)
            sealed = (scheme.dump(scheme.rerandomise(each)) for each in (residual, own))
            outputs.append(SendToPosition(Position.FEATURES, HoldoutTerms(epoch, *sealed)))
        return [*outputs, *self._done(epoch)]


class RegressionFeatureHolder(_DataHolder):
    """B: holds columns and no labels."""

    position = Position.FEATURES

    def __init__(
        self,
        plan: RegressionPlan,
        train: Matrix,
        open_key: OpenKey,
        holdout: Matrix | None = None,
        strict: bool = True,
    ) -> None:
        """Take the rows in the common order, standardised.

        Args:
            plan: what the three nodes have alike.
            train: (n, columns), batch after batch.
            open_key: makes a scheme of a public key.
            holdout: (h, columns).
            strict: refuse columns that are not standardised.

        Raises:
            TrainerError: the rows do not fit the plan, or are not standardised.
        """
        super().__init__(plan, train, holdout, open_key, plan.columns_b, strict)
        self._weights_now: OwnWeights | None = None  # those of a batch whose residual is missing
        self._early: Residual | HoldoutTerms | None = None  # what A sent before C's weights came

    def _receive(self, message: Message) -> list[Output]:
        match message:
            case Keys():
                return self._open(message)
            case OwnWeights():
                if self._weights_now is not None:
                    raise self._unexpected(message)
                self._take(message)
                return self._both(message, self._early)
            case Residual() | HoldoutTerms():
                if self._early is not None or self._place(message) < self._next:
                    raise self._unexpected(message)
                return self._both(self._weights_now, message)
        raise self._unexpected(message)

    def _place(self, message: Residual | HoldoutTerms) -> tuple[int, int]:
        return message.epoch, message.batch if isinstance(message, Residual) else len(self._slices)

    def _both(self, weights: OwnWeights | None, sealed: Residual | HoldoutTerms | None) -> list[Output]:
        """Go on once C's weights and A's ciphertexts for one batch are there."""
        last = weights is not None and weights.batch == len(self._slices)
        if weights is None or (sealed is None and not (last and not self.plan.holdout)):
            self._weights_now, self._early = weights, sealed
            return []
        if sealed is not None and self._place(sealed) != (weights.epoch, weights.batch):
            raise self._unexpected(sealed)
        theta, scheme = np.array(weights.theta), self._scheme
        assert scheme is not None
        try:
            if isinstance(sealed, Residual):
                outputs = self._batch(scheme, sealed, theta)
            else:
                outputs = self._evaluate(scheme, weights.epoch, sealed, theta)
        except _OutOfRange as exc:
            return self._stop(exc.reason)
        self.theta, self._weights_now, self._early = theta, None, None
        self._passed(weights.epoch, weights.batch)
        return outputs

    def _batch(self, scheme: AdditiveScheme, message: Residual, theta: Vector) -> list[Output]:
        residual = scheme.load(message.residual, self._rows_shape)
        v = self._share(self._train[self._slices[message.batch]], theta) / 4
        own = scheme.rerandomise(scheme.multiply(self._mask(scheme, message.batch), v))
        combined = scheme.add(residual, own)
        gradient = self._gradient(scheme, combined, message.batch)
        return [
            SendToPosition(
                Position.LABELS, Combined(message.epoch, message.batch, scheme.dump(combined), gradient)
            )
        ]

    def _evaluate(
        self, scheme: AdditiveScheme, epoch: int, terms: HoldoutTerms | None, theta: Vector
    ) -> list[Output]:
        z, rows = self._share(self._held, theta), len(self._held)
        outputs: list[Output] = []
        if terms is not None and self._holdout_mask is not None:
            residual, own = (scheme.load(each, Shape(rows)) for each in (terms.residual, terms.own))
            squares = scheme.multiply(self._holdout_mask, z * z / 8)
            alone = scheme.multiply(scheme.add(own, squares), np.full(rows, 1 / rows))
            both = scheme.multiply(residual, z / rows)
            total = scheme.total(scheme.rerandomise(scheme.add(both, alone)))
            sealed = scheme.dump(scheme.flood(total, self.plan.loss_noise(scheme)))
            outputs.append(SendToPosition(Position.KEY, HoldoutLoss(epoch, sealed)))
        return [*self._keep(epoch, theta), *outputs, *self._done(epoch)]


class KeyHolder(_Position):
    """C: holds the key, takes the steps, and sees gradients of batches, theta and losses, but no row."""

    position = Position.KEY

    def __init__(
        self,
        plan: RegressionPlan,
        scheme: SecretScheme,
        mask: Vector | None = None,
        holdout_mask: Vector | None = None,
        start: Vector | None = None,
    ) -> None:
        """Take the key and, if C aligned the rows, which of them count.

        Args:
            plan: what the three nodes have alike.
            scheme: with the secret key.
            mask: (n,) of 0 and 1, where C aligned blinded ids; None where all rows match. Then the mask hides nothing.
            holdout_mask: (h,) the same.
            start: (columns of A and B,) theta at the start; None for 0.

        Raises:
            InvalidMessage: the mask has another length or values, or too few rows count.
        """
        super().__init__(plan)
        self._scheme = scheme
        self._masks = None if mask is None else _checked_mask(mask, sum(plan.batches))
        self._holdout_mask = None if holdout_mask is None else _checked_mask(holdout_mask, plan.holdout)
        parts = slices(plan.batches)
        self._counts = (
            list(plan.batches) if self._masks is None else [int(self._masks[part].sum()) for part in parts]
        )
        self._batches = [number for number, count in enumerate(self._counts) if count >= plan.fewest_rows]
        if not self._batches:
            raise InvalidMessage(text("no batch has {fewest} rows that match", plan.fewest_rows))
        columns = plan.columns_a + plan.columns_b
        self.theta = np.zeros(columns) if start is None else np.array(start, np.float64)
        if self.theta.shape != (columns,):
            raise InvalidMessage(
                text("weights for {count} columns came; expected {columns}", len(self.theta), columns)
            )
        self._noise, self._loss_noise = plan.noise(scheme), plan.loss_noise(scheme)
        self._at: tuple[int, int] | None = None  # the batch whose gradients are missing; after the last: the loss

    def start(self) -> list[Output]:
        """Begin: keys and masks, then the first weights."""
        if self._at is not None or self.ended:
            raise InvalidMessage(text("this training has started"))
        plan, columns = self.plan, self.plan.most_columns
        if self._masks is None:
            masks = [np.ones(plan.longest)]
        else:
            masks = [_padded(self._masks[part], plan.longest) for part in slices(plan.batches)]
        held = np.ones(plan.holdout) if self._holdout_mask is None else self._holdout_mask
        keys = Keys(
            self._scheme.public_key(),
            tuple(self._scheme.seal(mask, columns) for mask in masks),
            self._scheme.seal(held) if plan.holdout else b"",
        )
        return [
            SendToPosition(Position.LABELS, keys),
            SendToPosition(Position.FEATURES, keys),
            *self._go_to(0, self._batches[0]),
        ]

    def _receive(self, message: Message) -> list[Output]:
        match message:
            case EncryptedGradients() if self._at == (message.epoch, message.batch):
                return self._gradients(message)
            case HoldoutLoss() if self._at == (message.epoch, len(self.plan.batches)):
                return self._loss(message)
        raise self._unexpected(message)

    def _gradients(self, message: EncryptedGradients) -> list[Output]:
        plan, shape = self.plan, Shape(self.plan.longest, self.plan.most_columns, summed=True)
        sealed = [self._scheme.load(each, shape) for each in (message.gradient_a, message.gradient_b)]
        total_a, total_b = (self._scheme.decrypt(each, self._noise) for each in sealed)
        total = np.concatenate([total_a[: plan.columns_a], total_b[: plan.columns_b]])
        theta = step(self.theta, total / self._counts[message.batch], plan.rate, plan.ridge)
        if not np.abs(theta).max() <= MOST_WEIGHT:
            return self._stop(self._diverged())
        self.theta = theta
        after = [number for number in self._batches if number > message.batch]
        if after:
            return self._go_to(message.epoch, after[0])
        outputs = self._go_to(message.epoch, len(plan.batches))
        return outputs if plan.holdout else [*outputs, *self._next_epoch(message.epoch)]

    def _loss(self, message: HoldoutLoss) -> list[Output]:
        sealed = self._scheme.load(message.total, Shape(self.plan.holdout, summed=True))
        counted = self.plan.holdout if self._holdout_mask is None else self._holdout_mask.sum()
        mean = float(self._scheme.decrypt(sealed, self._loss_noise)[0]) * self.plan.holdout / counted
        loss = math.log(2) + mean
        if not abs(loss) <= MOST_LOSS:
            return self._stop(self._diverged())
        return [LossMeasured(message.epoch, loss), *self._next_epoch(message.epoch)]

    def _next_epoch(self, epoch: int) -> list[Output]:
        if epoch + 1 < self.plan.epochs:
            return self._go_to(epoch + 1, self._batches[0])
        self.ended = True
        return [Finished()]

    def _go_to(self, epoch: int, batch: int) -> list[Output]:
        self._at = (epoch, batch)
        parts = np.split(self.theta, [self.plan.columns_a])
        return [
            SendToPosition(position, OwnWeights(epoch, batch, tuple(part.tolist())))
            for position, part in zip((Position.LABELS, Position.FEATURES), parts, strict=True)
        ]

    def _diverged(self) -> Text:
        return text(
            "training diverged; standardise the columns, cut far values, or take a smaller rate than {rate}",
            self.plan.rate,
        )


def run(
    holders: tuple[RegressionLabelHolder, RegressionFeatureHolder, KeyHolder],
    observe: Callable[[Position, Position, Message], None] = lambda sender, to, message: None,
) -> dict[Position, list[Output]]:
    """Run the three positions in one process, for simulations and tests.

    Args:
        holders: A, B and C.
        observe: is shown each message, its sender and its receiver.

    Returns:
        What each position said, but its messages.
    """
    nodes: dict[Position, RegressionLabelHolder | RegressionFeatureHolder | KeyHolder] = {
        node.position: node for node in holders
    }
    said: dict[Position, list[Output]] = {position: [] for position in Position}
    waiting: deque[tuple[Position, Output]] = deque((Position.KEY, output) for output in holders[2].start())
    while waiting:
        sender, output = waiting.popleft()
        if not isinstance(output, SendToPosition):
            said[sender].append(output)
            continue
        observe(sender, output.to, output.message)
        if not (nodes[output.to].ended and isinstance(output.message, Stop)):
            waiting.extend((output.to, reply) for reply in nodes[output.to].receive(sender, output.message))
    return said


def _with_constant(rows: Matrix, intercept: bool) -> Matrix:
    return np.column_stack([np.ones(len(rows)), rows]) if intercept else np.asarray(rows, np.float64)


def _padded(values: Vector, length: int) -> Vector:
    return np.pad(values, (0, length - len(values)))


def _checked_mask(mask: Vector, rows: int) -> Vector:
    values = np.asarray(mask, np.float64)
    if values.shape != (rows,) or not np.isin(values, (0.0, 1.0)).all() or (rows and not values.any()):
        raise InvalidMessage(text("a mask has to be of 0 and 1, at least one of them 1, for {rows} rows", rows))
    return values
