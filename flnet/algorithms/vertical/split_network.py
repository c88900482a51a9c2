"""The split network: feature holders and label holders train one network together, batch by batch.

The seven stages of A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles" (2024),
section 5.2, after K. Wei et al. (2024):

    1  all nodes find their common rows, in the same order          before this module: `SplitPlan`
    2  each feature holder computes the outputs of its bottom model FeatureHolder
    3  and sends them to the label holder                           CutOutputs
    4  the label holder computes prediction and loss                LabelHolder
    5  and the gradients; it updates its top model                  LabelHolder
    6  and sends to each feature holder the gradient of its outputs CutGradients
    7  each feature holder updates its bottom model                 FeatureHolder

Both classes take messages, return messages, and never wait: who has a network and a clock delivers messages, waits for
nodes that do not answer, and then calls `abort`, which takes all models back to the beginning of the epoch. They
compute as soon as a message makes it possible, so they live where the models are trained.

A step never leaves a node out: without all outputs there is no step. The order in which messages arrive changes no bit
of the result. Top models take the steps in order, and the outputs of step t are computed when the gradients of the steps
up to t - in_flight have been applied, neither sooner nor later. So with `in_flight` = 1 the training is that of the
whole network in one place. With more, gradients are those of bottom weights that are up to `in_flight` - 1 steps
old: each is computed at the weights that made the outputs, and applied to the newest ones, as pipelines with stashed
weights do (D. Narayanan et al., "PipeDream", SOSP 2019). No batch is under way when an epoch ends.

There may be several label holders (V. Mugunthan, P. Goyal, L. Kagal, "Multi-VFL", arXiv 2106.05468, 2021). Each has
labels of some rows, or other labels of the same rows, and trains a top model of its own on the same outputs. The loss of
a batch is the mean over all pairs of a row and a label holder that has a label for it. After each epoch, label holders
average what their top models share, weighted by rows (`fed_avg`, agg1), and begin with fresh optimisers. How often to
average, and that outputs go to several holders at once, are our choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.vertical.defences import GradientNoise, NoisePlace, OutputNoise
from flnet.algorithms.vertical.split_messages import (
    BottomClosed,
    CutGradients,
    CutOutputs,
    EpochClosed,
    Message,
    Outgoing,
    Resumed,
    TopShared,
    check_batch,
    check_epoch,
    check_part,
    check_repeated,
    check_values,
)
from flnet.algorithms.vertical.split_plan import RowNumbers, SplitPlan, Step
from flnet.errors import BatchRefused, IllegalStep, OtherBottomModel, SitsOut, TrainerError
from flnet.params.params import Array, Digest, Params, PeerId, Schema, is_finite
from flnet.protocol.updates import RoundKey, Update
from flnet.text import text
from flnet.trainer import Score
from flnet.vertical_trainer import BottomModel, ModelState, TopModel

Phase = Literal["idle", "training", "closing"]
V = TypeVar("V")


class FeatureHolder:
    """The conversation of a node that holds features.

    Attributes:
        bottom: this node's bottom model. When the phase becomes "closing", save its state before sending anything.
        phase: "idle" between epochs; "training"; "closing" while label holders measure and average.
        closed: the last epoch that ended; -1 before the first one.
        reports: of that epoch, from each label holder.
    """

    def __init__(
        self,
        me: PeerId,
        plan: SplitPlan,
        features: Callable[[RowNumbers], Array],
        bottom: BottomModel,
        *,
        noise: OutputNoise | None = None,
        closed: int = -1,
    ) -> None:
        """Args:
        me: this node.
        plan: as all nodes have it.
        features: gives the features of common rows, by their places.
        bottom: this node's bottom model, as it was when epoch `closed` ended.
        noise: protects the outputs that are sent, hold-out rows included.
        closed: after which epoch to go on.
        """
        if plan.widths.get(me) != bottom.width:
            raise ValueError(f"me={me!r}, width={bottom.width}, widths={dict(plan.widths)}")
        self.phase: Phase = "idle"
        self.closed = closed
        self.reports: dict[PeerId, EpochClosed] = {}
        self._me, self._plan, self._features, self.bottom, self._noise = me, plan, features, bottom, noise
        self._steps: Sequence[Step] = ()
        self._sent = self._applied = 0  # how many of the steps
        self._outputs: dict[int, Array] = {}  # of batches under way, before noise
        self._gradients: dict[int, dict[PeerId, Array]] = {}
        self._begin = bottom.state()
        self._digest = Digest("")  # of the bottom model when the open epoch's last step was done

    def start_epoch(self) -> list[Outgoing]:
        """Begin the next epoch.

        Raises:
            SitsOut: no batch has a label.
        """
        if self.phase != "idle":
            raise IllegalStep(f"{self._me} cannot start an epoch while {self.phase}")
        steps = self._plan.training(self.closed + 1)
        if not steps:
            raise SitsOut(text("no common row has a label"))
        self.phase, self._steps, self._sent, self._applied = "training", steps, 0, 0
        self._begin, self.reports = self.bottom.state(), {}
        first = range(min(self._plan.in_flight, len(steps)))
        return [outgoing for _ in first for outgoing in self._send_next()]

    def receive(self, message: Message) -> list[Outgoing]:
        """Take a message, and return what follows from it.

        Raises:
            PeerError: the message is refused and nothing has changed.
            TrainerError: the bottom model's outputs are not finite any more.
        """
        match message:
            case CutGradients():
                self._check_gradients(message)
                return self._take_gradients(message)
            case EpochClosed():
                return self._take_report(message)
        raise BatchRefused(text("a feature holder takes no message {kind}", type(message).__name__))

    @property
    def progress(self) -> tuple[int, int]:
        """The number of steps that are done in the open epoch, and of all its steps."""
        return self._applied, len(self._steps)

    def resume(self) -> list[Outgoing]:
        """What a restarted node says before its first epoch: which bottom model it goes on with."""
        digest = self.bottom.state().digest
        return self._to_label_holders(Resumed(self._me, self.closed, digest))

    def abort(self) -> None:
        """Give the open epoch up, and take the bottom model back to its beginning."""
        if self.phase != "idle":
            self.bottom.load(self._begin)
        self.phase, self.reports = "idle", {}
        self._outputs, self._gradients = {}, {}

    def _send_next(self) -> Iterator[Outgoing]:
        step = self._steps[self._sent]
        self._sent += 1
        outputs = self.bottom.forward(step.number, self._features(step.batch.positions))
        self._outputs[step.number] = outputs
        yield from self._send(step, outputs, hold_out=False)

    def _send(self, step: Step, outputs: Array, *, hold_out: bool) -> Iterator[Outgoing]:
        epoch = self.closed + 1
        if self._noise is not None:
            place = NoisePlace("hold-out" if hold_out else "training", epoch, step.number)
            outputs = self._noise.protect(outputs, place)
        with np.errstate(over="ignore"):
            outputs = outputs.astype(self._plan.dtype, copy=False)
        if not is_finite(outputs):
            raise TrainerError(
                text(
                    "the outputs of the bottom model are not finite any more in epoch {epoch}, step {step}; "
                    "try a lower learning rate",
                    epoch,
                    step.number,
                )
            )
        for peer, places in step.parts.items():
            values = outputs if len(places) == len(outputs) else outputs[places]
            message = CutOutputs(self._me, epoch, step.number, step.batch.digest, values, hold_out)
            yield Outgoing(peer, message)

    def _check_gradients(self, message: CutGradients) -> None:
        check_part(message.sender, self._plan.labelled)
        check_epoch(message.epoch, self.closed + 1)
        under_way = {step.number: step for step in self._steps[self._applied : self._sent]}
        step = under_way.get(message.step) if self.phase == "training" else None
        if step is None:
            raise _no_such_step(message.step, sorted(under_way) if self.phase == "training" else [])
        check_batch(message, step)
        check_part(message.sender, step.parts)
        check_values(message.values, (len(step.parts[message.sender]), self.bottom.width), self._plan.dtype)
        there = self._gradients.get(message.step, {})
        if message.sender in there:
            check_repeated(there[message.sender], message.values)

    def _take_gradients(self, message: CutGradients) -> list[Outgoing]:
        self._gradients.setdefault(message.step, {}).setdefault(message.sender, message.values)
        following: list[Outgoing] = []
        while self._applied < self._sent and self._is_complete(self._steps[self._applied]):
            self._apply(self._steps[self._applied])
            self._applied += 1
            if self._sent < len(self._steps):
                following += self._send_next()
        if self._applied == len(self._steps):
            self.phase = "closing"
            following += self._close()
        return following

    def _is_complete(self, step: Step) -> bool:
        return self._gradients.get(step.number, {}).keys() == step.parts.keys()

    def _apply(self, step: Step) -> None:
        """Update the bottom model by the gradient of the loss over all label holders."""
        outputs, gradients = self._outputs.pop(step.number), self._gradients.pop(step.number)
        total = sum(len(places) for places in step.parts.values())
        gradient = np.zeros_like(outputs)
        for peer in sorted(gradients):
            places = step.parts[peer]
            gradient[places] += (len(places) / total * gradients[peer]).astype(outputs.dtype)
        if self._noise is not None:
            gradient = self._noise.gradient(outputs, gradient)
        self.bottom.backward(step.number, gradient)

    def _close(self) -> list[Outgoing]:
        """What label holders need to measure the epoch."""
        self._digest = self.bottom.state().digest
        closing = self._to_label_holders(BottomClosed(self._me, self.closed + 1, self._digest))
        for step in self._plan.hold_out():
            outputs = self.bottom.outputs(self._features(step.batch.positions))
            closing += self._send(step, outputs, hold_out=True)
        return closing

    def _to_label_holders(self, message: Message) -> list[Outgoing]:
        return [Outgoing(peer, message) for peer in self._plan.label_holders]

    def _take_report(self, message: EpochClosed) -> list[Outgoing]:
        check_part(message.sender, self._plan.labelled)
        check_epoch(message.epoch, self.closed + 1)
        if self.phase != "closing":
            raise BatchRefused(
                text("epoch {epoch} cannot be closed before all its steps are done here", message.epoch)
            )
        if (theirs := message.bottoms.get(self._me, "")) != self._digest:
            raise OtherBottomModel(self._me, message.epoch, self._digest, theirs)
        self.reports[message.sender] = message
        if self.reports.keys() == self._plan.labelled.keys():
            self.phase, self.closed = "idle", message.epoch
        return []


@dataclass
class _OpenEpoch:
    """What a label holder has of the epoch that is open.

    Attributes:
        begin: the top model when it began.
        steps: those that this node has labels for.
        done: how many of them.
        outputs: of each step that is not done, by its number; and of hold-out batches.
        loss: sum over the rows of all steps that are done.
        shares: what label holders share of their top models, with their numbers of rows.
        is_merged: whether the average of those is in place.
    """

    begin: ModelState
    steps: Sequence[Step]
    hold_out: Sequence[Step]
    done: int = 0
    outputs: dict[int, dict[PeerId, Array]] = field(default_factory=dict)
    measured: dict[int, dict[PeerId, Array]] = field(default_factory=dict)
    loss: float = 0.0
    examples: int = 0
    bottoms: dict[PeerId, Digest] = field(default_factory=dict)
    shares: dict[PeerId, tuple[Params, int]] = field(default_factory=dict)
    is_merged: bool = False

    @property
    def is_trained(self) -> bool:
        return self.done == len(self.steps)


class LabelHolder:
    """The conversation of a node that holds labels. An epoch opens with its first message.

    Attributes:
        top: this node's top model.
        closed: the last epoch that ended; -1 before the first one.
        report: of that epoch; None before the first one.
    """

    def __init__(
        self,
        me: PeerId,
        plan: SplitPlan,
        labels: Array,
        top: TopModel,
        *,
        noise: GradientNoise | None = None,
        report: EpochClosed | None = None,
        tells_score: bool = True,
    ) -> None:
        """Args:
        me: this node.
        plan: as all nodes have it.
        labels: (n, ...) of the common rows; of rows without a label any.
        top: this node's top model, as it was after the epoch of `report`.
        noise: perturbs the gradients for other nodes; this node's own bottom model gets them as they are.
        report: of the epoch after which to go on.
        tells_score: whether feature holders are told the figures on hold-out rows.
        """
        if me not in plan.labelled:
            raise ValueError(f"me={me!r}, label_holders={plan.label_holders}")
        self.report = report
        self.closed = -1 if report is None else report.epoch
        self._me, self._plan, self._labels, self.top, self._noise = me, plan, labels, top, noise
        self._tells_score = tells_score
        self._open: _OpenEpoch | None = None
        weights = top.state().weights
        self._shared = weights if top.shared is None else weights.select(top.shared)
        self._schema = Schema.of(self._shared)

    def receive(self, message: Message) -> list[Outgoing]:
        """Take a message, and return what follows from it.

        Raises:
            PeerError: the message is refused and nothing has changed.
            TrainerError: the loss is not finite any more.
        """
        known = self._plan.labelled if isinstance(message, TopShared) else self._plan.widths
        check_part(message.sender, known)
        if isinstance(message, Resumed):
            self._check_resumed(message)
            return []
        check_epoch(message.epoch, self.closed + 1)
        epoch = self._open or self._opened()
        match message:
            case CutOutputs(hold_out=False):
                self._take_outputs(message, _window(epoch, self._plan.in_flight), epoch.outputs)
            case CutOutputs():
                self._take_outputs(message, {step.number: step for step in epoch.hold_out}, epoch.measured)
            case BottomClosed():
                _take_once(epoch.bottoms, message.sender, message.digest)
            case TopShared():
                shared = self._schema.conform(message.params)
                _take_once(epoch.shares, message.sender, (shared, message.examples))
            case _:
                raise BatchRefused(text("a label holder takes no message {kind}", type(message).__name__))
        self._open = epoch
        return self._advance(epoch)

    def abort(self) -> None:
        """Give the open epoch up, and take the top model back to its beginning."""
        if self._open is not None:
            self.top.load(self._open.begin)
        self._open = None

    @property
    def progress(self) -> tuple[int, int]:
        """The number of steps that are done in the open epoch, and of all its steps; (0, 0) if none is open."""
        return (self._open.done, len(self._open.steps)) if self._open else (0, 0)

    def predict(self, outputs: Mapping[PeerId, Array], *, zero_fill: bool = False) -> Array:
        """Probabilities (b, k) for rows whose outputs (b, q) feature holders sent.

        Args:
            outputs: of each feature holder.
            zero_fill: take zeros for those who are absent. The model was never trained for that.

        Raises:
            BatchRefused: somebody is absent.
            CutLayerRefused: outputs have a wrong shape, or are not finite.
        """
        for peer in outputs:
            check_part(peer, self._plan.widths)
        absent = [peer for peer in self._plan.feature_holders if peer not in outputs]
        if not outputs or (absent and not zero_fill):
            raise BatchRefused(
                text("a prediction needs the outputs of all feature holders; missing: {names}", ", ".join(absent))
            )
        rows = len(next(iter(outputs.values())))
        for peer, values in outputs.items():
            check_values(values, (rows, self._plan.widths[peer]), self._plan.dtype)
        zeros = {peer: np.zeros((rows, self._plan.widths[peer]), self._plan.dtype) for peer in absent}
        return self.top.predict(self._side_by_side({**outputs, **zeros}))

    def _opened(self) -> _OpenEpoch:
        training, hold_out = self._plan.training(self.closed + 1), self._plan.hold_out()
        return _OpenEpoch(
            self.top.state(),
            [step for step in training if self._me in step.parts],
            [step for step in hold_out if self._me in step.parts],
            is_merged=len(self._plan.labelled) == 1,
        )

    def _check_resumed(self, message: Resumed) -> None:
        check_epoch(message.epoch, self.closed)
        known = self.report.bottoms if self.report else {}
        if self.report is not None and known.get(message.sender) != message.digest:
            raise OtherBottomModel(message.sender, message.epoch, message.digest, known.get(message.sender, ""))

    def _take_outputs(
        self, message: CutOutputs, expected: Mapping[int, Step], there: dict[int, dict[PeerId, Array]]
    ) -> None:
        step = expected.get(message.step)
        if step is None:
            raise _no_such_step(message.step, sorted(expected))
        check_batch(message, step)
        shape = len(step.parts[self._me]), self._plan.widths[message.sender]
        check_values(message.values, shape, self._plan.dtype)
        if (earlier := there.get(message.step, {}).get(message.sender)) is not None:
            check_repeated(earlier, message.values)
        there.setdefault(message.step, {}).setdefault(message.sender, message.values)

    def _advance(self, epoch: _OpenEpoch) -> list[Outgoing]:
        """Do all that has become possible, in order."""
        following: list[Outgoing] = []
        while not epoch.is_trained and self._is_complete(epoch.outputs, epoch.steps[epoch.done]):
            following += self._train(epoch, epoch.steps[epoch.done])
            epoch.done += 1
        if epoch.is_trained and len(self._plan.labelled) > 1 and self._me not in epoch.shares:
            following += self._share(epoch)
        if not epoch.is_merged and epoch.is_trained and epoch.shares.keys() == self._plan.labelled.keys():
            self._merge(epoch)
        is_measurable = all(self._is_complete(epoch.measured, step) for step in epoch.hold_out)
        is_ended = epoch.is_trained and epoch.is_merged
        if is_ended and is_measurable and epoch.bottoms.keys() == self._plan.widths.keys():
            following += self._close(epoch)
        return following

    def _is_complete(self, there: Mapping[int, Mapping[PeerId, Array]], step: Step) -> bool:
        return there.get(step.number, {}).keys() == self._plan.widths.keys()

    def _side_by_side(self, outputs: Mapping[PeerId, Array]) -> Array:
        return np.concatenate([outputs[peer] for peer in self._plan.feature_holders], axis=1)

    def _train(self, epoch: _OpenEpoch, step: Step) -> Iterator[Outgoing]:
        rows = step.batch.positions[step.parts[self._me]]
        inputs = self._side_by_side(epoch.outputs.pop(step.number))
        loss, gradient = self.top.step(inputs, self._labels[rows])
        number = self.closed + 1
        if not (np.isfinite(loss) and is_finite(gradient)):
            raise TrainerError(
                text(
                    "the loss is not finite any more in epoch {epoch}, step {step}; try a lower learning rate",
                    number,
                    step.number,
                )
            )
        epoch.loss += loss * len(rows)
        epoch.examples += len(rows)
        sent = self._protected(gradient, NoisePlace("gradient", number, step.number))
        for peer in self._plan.feature_holders:
            values = sent[peer].astype(self._plan.dtype, copy=False)
            message = CutGradients(self._me, number, step.number, step.batch.digest, values)
            yield Outgoing(peer, message)

    def _protected(self, gradient: Array, place: NoisePlace) -> Mapping[PeerId, Array]:
        """The gradient for each feature holder, those for other nodes with noise."""
        parts = {peer: gradient[:, columns] for peer, columns in self._plan.columns.items()}
        others = [peer for peer in self._plan.feature_holders if peer != self._me]
        if self._noise is None or not others:
            return parts
        noisy = self._noise.protect(np.concatenate([parts[peer] for peer in others], axis=1), place)
        ends = np.cumsum([self._plan.widths[peer] for peer in others])[:-1]
        return {**parts, **dict(zip(others, np.split(noisy, ends, axis=1), strict=True))}

    def _share(self, epoch: _OpenEpoch) -> list[Outgoing]:
        weights = self.top.state().weights.select(self._shared)
        epoch.shares[self._me] = weights, epoch.examples
        message = TopShared(self._me, self.closed + 1, weights, epoch.examples)
        return [Outgoing(peer, message) for peer in self._plan.label_holders if peer != self._me]

    def _merge(self, epoch: _OpenEpoch) -> None:
        """Average what label holders share; every one of them gets the same bits."""
        key = RoundKey(self.closed + 1, self._plan.label_holders[0])
        updates = [Update(peer, key, *epoch.shares[peer]) for peer in self._plan.label_holders]
        start = RoundStart(self._schema, self._shared, key.number)
        merged = fed_avg("agg1").merge(None, start, updates).params
        self.top.load(ModelState(self.top.state().weights.merged_with(merged)))
        epoch.is_merged = True

    def _close(self, epoch: _OpenEpoch) -> list[Outgoing]:
        score = self._score(epoch)
        loss = epoch.loss / max(epoch.examples, 1)
        told = score if self._tells_score else None
        top = self.top.state().digest
        report = EpochClosed(self._me, self.closed + 1, loss, score, dict(epoch.bottoms), top)
        message = EpochClosed(self._me, self.closed + 1, loss, told, dict(epoch.bottoms), top)
        self.report, self.closed, self._open = report, report.epoch, None
        return [Outgoing(peer, message) for peer in self._plan.feature_holders]

    def _score(self, epoch: _OpenEpoch) -> Score | None:
        if not epoch.hold_out:
            return None
        inputs = [self._side_by_side(epoch.measured[step.number]) for step in epoch.hold_out]
        rows = [step.batch.positions[step.parts[self._me]] for step in epoch.hold_out]
        return self.top.evaluate(np.concatenate(inputs), self._labels[np.concatenate(rows)])


def _window(epoch: _OpenEpoch, in_flight: int) -> dict[int, Step]:
    """The steps whose outputs may come now: no feature holder can be further ahead than that."""
    left = epoch.steps[epoch.done : epoch.done + in_flight]
    return {step.number: step for step in left}


def _take_once(there: dict[PeerId, V], sender: PeerId, value: V) -> None:
    if there.setdefault(sender, value) != value:
        raise BatchRefused(text("{peer} said two different things about the same epoch", repr(sender)))


def _no_such_step(got: int, expected: Sequence[int]) -> BatchRefused:
    names = ", ".join(map(str, expected[:8])) or text("none")
    return BatchRefused(text("step {step} is not under way; expected one of: {steps}", got, names))


class SplitNode:
    """One node of a split network, which may hold features, labels or both; what it sends to itself stays inside."""

    def __init__(
        self, me: PeerId, features: FeatureHolder | None = None, labels: LabelHolder | None = None
    ) -> None:
        self.me, self.features, self.labels = me, features, labels

    def start_epoch(self) -> list[Outgoing]:
        """Begin the next epoch; a node without features waits for the others."""
        return self._settled(self.features.start_epoch() if self.features else [])

    def receive(self, message: Message) -> list[Outgoing]:
        """Take a message from another node.

        Raises:
            PeerError: the message is refused and nothing has changed.
        """
        return self._settled(self._receiver(message).receive(message))

    def abort(self) -> None:
        """Give the open epoch up."""
        for holder in (self.features, self.labels):
            if holder is not None:
                holder.abort()

    def _receiver(self, message: Message) -> FeatureHolder | LabelHolder:
        is_for_features = isinstance(message, CutGradients | EpochClosed)
        holder = self.features if is_for_features else self.labels
        if holder is None:
            raise BatchRefused(text("this node takes no message {kind}", type(message).__name__))
        return holder

    def _settled(self, outgoing: list[Outgoing]) -> list[Outgoing]:
        waiting, leaving = list(outgoing), []
        while waiting:
            first = waiting.pop(0)
            if first.to == self.me:
                waiting += self._receiver(first.message).receive(first.message)
            else:
                leaving.append(first)
        return leaving


def run_epoch(
    nodes: Mapping[PeerId, SplitNode],
    pick: Callable[[Sequence[Outgoing]], int] = lambda waiting: 0,
    sent: Callable[[Outgoing], None] = lambda outgoing: None,
) -> None:
    """Train one epoch with all nodes in this process: the twin of a network, for experiments and tests.

    Args:
        nodes: by id.
        pick: which of the waiting messages arrives next.
        sent: sees every message that leaves a node.
    """
    waiting: list[Outgoing] = []

    def send(outgoing: list[Outgoing]) -> None:
        for one in outgoing:
            sent(one)
        waiting.extend(outgoing)

    for peer in sorted(nodes):
        send(nodes[peer].start_epoch())
    while waiting:
        arriving = waiting.pop(pick(waiting))
        send(nodes[arriving.to].receive(arriving.message))
