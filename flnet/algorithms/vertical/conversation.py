"""One holder's side of an epoch of a vertical job, where its models are: alignment if needed, then the split network.

It takes what other holders sent, and returns what is to be sent to them; it never waits. Where rows are aligned, a
turn ends after a few units of that work, so that a compute queue can serve other jobs in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.algorithms.vertical.aligning import Aligning, AlignmentMessage, Sent
from flnet.algorithms.vertical.defences import GradientNoise, NormalSource, OutputNoise
from flnet.algorithms.vertical.groups import Group, Positions
from flnet.algorithms.vertical.holder import Terms
from flnet.algorithms.vertical.own_model import OwnModel
from flnet.algorithms.vertical.split_messages import Message as SplitMessage
from flnet.algorithms.vertical.split_messages import Outgoing
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.algorithms.vertical.wire_form import Message, read, report_in, report_part, written
from flnet.errors import BatchRefused, IllegalStep, TrainerError
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import BeginPart, EpochClosedPart, TalkPart
from flnet.text import text
from flnet.vertical_trainer import ModelState, VerticalTrainer

MOST_EARLY = 4  # messages of each holder, beyond batches in flight, that wait until the rows are aligned here
FEWEST_ROWS = 2

OWN = ("own-bottom", "own-top")  # models of the own columns alone, among what is saved

Stage = Literal["aligning", "training", "closing", "closed"]


@dataclass(frozen=True, eq=False)
class Saved:
    """What a holder needs to go on from an epoch.

    Attributes:
        params: "bottom/weights/NAME", "bottom/optimiser/NAME", likewise for "top"; and for "own-bottom" and "own-top", the
            models of the own columns alone.
        report: with which the epoch ended, at a node that knows it: those with labels, and all of an encrypted regression.
    """

    params: Params = field(default_factory=Params)
    report: EpochClosedPart | None = None

    def state(self, model: str) -> ModelState:
        """The state of "bottom", "top", "own-bottom" or "own-top"."""
        return ModelState(self._part(f"{model}/weights/"), self._part(f"{model}/optimiser/"))

    def _part(self, prefix: str) -> Params:
        found = {name.removeprefix(prefix): a for name, a in self.params.items() if name.startswith(prefix)}
        return Params(found)


def saved_arrays(model: str, state: ModelState) -> dict[str, Array]:
    """The arrays of a state under the names of `Saved`."""
    parts = {"weights": state.weights, "optimiser": state.optimiser}
    return {f"{model}/{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}


@dataclass(frozen=True)
class HolderTurn:
    """The result of a turn.

    Attributes:
        step, steps: how far the stage is; (0, 0) if that is not known.
        more: whether there is more to do without a message.
        bottom: digest of the bottom model, when all its steps are done.
        saved: in the turn in which models became those of the end of the epoch; has what became so in it.
        report: when the epoch has ended here: of one label holder.
        rows: (k,) in the turn in which rows were aligned: the own row of each common id.
        alignment: digest of these.
        own: figures of the own columns alone, in the turn in which the epoch ended at a label holder with features.
        common: number of common rows, in the turn in which a key holder learns it, which has none of them.
        warnings: what people should know, in the turn in which it is known.
    """

    sent: Sequence[Sent]
    stage: Stage
    step: int = 0
    steps: int = 0
    more: bool = False
    bottom: str | None = None
    saved: Saved | None = None
    report: EpochClosedPart | None = None
    rows: Positions | None = None
    alignment: str = ""
    own: Mapping[str, float] | None = None
    common: int | None = None
    warnings: Sequence[str] = ()


class Conversation:
    """One epoch of one holder."""

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
        noise: NormalSource,
        rows: Positions | None = None,
        alignment: str = "",
    ) -> None:
        """Args:
        begin: as all holders have it.
        ids: of this node's rows, normalised; they are used where rows are aligned.
        saved: of the epoch that is closed; without anything for new models.
        group: in which ids are blinded.
        secret: 32 bytes that are used for nothing else.
        noise: for the defences that the trainer asks for.
        rows: of an alignment before, with its digest; they are not used where rows are aligned again.
        """
        self._me, self._session, self._begin, self._hyper = me, session, begin, hyper
        self._trainer, self._saved, self._noise = trainer, saved, noise
        self._rows, self._alignment = rows, alignment
        self._node: SplitNode | None = None
        self._own: OwnModel | None = None
        self._early: list[SplitMessage] = []
        self._sent: list[Sent] = []
        self._is_saved = {"bottom": False, "top": False}
        self._ids_before: tuple[Positions | None, str] = (rows, alignment)
        terms = Terms(session, begin.ids)
        self._aligning = Aligning.of(terms, me, ids, group, secret, begin.seed) if begin.aligns else None

    def start(self) -> HolderTurn:
        """Begin: the leader of the alignment, or each holder of an epoch of aligned rows, has something to say.

        Raises:
            PeerError, TrainerError: the epoch cannot be trained.
        """
        if self._aligning is None:
            self._begin_training()
        else:
            self._sent += self._aligning.start()
        return self._turn()

    def receive(self, parts: Iterable[tuple[PeerId, TalkPart, Params]]) -> HolderTurn:
        """Take what other holders sent, in order.

        Raises:
            PeerError: a message is wrong; no correct holder sends such a one.
            TrainerError: the models do not learn any more.
        """
        for sender, part, arrays in parts:
            self._take(read(part, arrays, self._session, sender, self._begin.ids))
        if self._aligning is not None:
            self._sent += self._aligning.work()
            self._begin_if_aligned()
        self._train_own()
        return self._turn()

    # --- the alignment

    def _take(self, message: Message) -> None:
        if isinstance(message, AlignmentMessage):
            if self._aligning is None:
                raise BatchRefused(text("the rows of this epoch were aligned before"))
            self._sent += self._aligning.receive(message)
            self._begin_if_aligned()
            return
        if self._node is None:
            if len(self._early) >= (self._begin.in_flight + MOST_EARLY) * len(self._begin.ids):
                raise BatchRefused(text("too many messages came before the rows were aligned here"))
            self._early.append(message)
        else:
            self._say(self._node.receive(message))

    def _begin_if_aligned(self) -> None:
        agreement = self._aligning.agreement if self._aligning else None
        if agreement is not None and self._node is None:
            self._rows, self._alignment = agreement.rows, agreement.digest
            self._begin_training()

    # --- the split network

    def _begin_training(self) -> None:
        rows, begin, hyper = self._rows, self._begin, self._hyper
        if rows is None:
            raise IllegalStep("no rows are aligned")
        if len(rows) < FEWEST_ROWS:
            raise BatchRefused(
                text("the holders have {count} id in common; at least {least} are needed", len(rows), FEWEST_ROWS)
            )
        batches = AlignedBatches(len(rows), hyper.b, begin.seed, self._alignment)
        widths = {PeerId(peer): position.width for peer, position in begin.holders.items() if position.width}
        labelled = {PeerId(peer): None for peer, position in begin.holders.items() if position.has_label}
        plan = SplitPlan(widths, labelled, batches, begin.in_flight)
        features = self._feature_holder(plan, rows) if self._me in widths else None
        labels = self._label_holder(plan, rows, batches) if self._me in labelled else None
        self._node = SplitNode(self._me, features, labels)
        self._own = self._own_model(plan, rows) if features is not None and labels is not None else None
        if features is not None and begin.closed >= 0:
            self._say([one for one in features.resume() if one.to != self._me])
        self._say(self._node.start_epoch())
        early, self._early = self._early, []
        for message in early:
            self._say(self._node.receive(message))

    def _feature_holder(self, plan: SplitPlan, rows: Positions) -> FeatureHolder:
        bottom = self._trainer.bottom_model(seed_for(self._begin.seed, f"bottom:{self._me}"), self._hyper)
        if bottom is None:
            raise TrainerError(text("the trainer has no bottom model any more"))
        if self._begin.closed >= 0:
            bottom.load(self._saved.state("bottom"))
        trainer = self._trainer
        return FeatureHolder(
            self._me,
            plan,
            lambda places: trainer.features(rows[places]),
            bottom,
            noise=OutputNoise.of(trainer.output_noise, self._noise),
            closed=self._begin.closed,
        )

    def _label_holder(self, plan: SplitPlan, rows: Positions, batches: AlignedBatches) -> LabelHolder:
        top = self._trainer.top_model(plan.width, seed_for(self._begin.seed, "top"), self._hyper)
        if top is None:
            raise TrainerError(text("the trainer has no top model any more"))
        labels = self._trainer.labels(rows)
        if labels.ndim == 1 and len(np.unique(labels[batches.trained])) < 2:
            raise TrainerError(
                text(
                    "the label has one value only in the {count} common rows that are trained on",
                    len(batches.trained),
                )
            )
        report = None
        if self._begin.closed >= 0:
            if self._saved.report is None:
                raise TrainerError(text("the end of epoch {epoch} is not known here", self._begin.closed))
            top.load(self._saved.state("top"))
            report = report_in(self._saved.report, self._me)
        noise = GradientNoise.of(self._trainer.gradient_noise, self._noise)
        return LabelHolder(
            self._me, plan, labels, top, noise=noise, report=report, tells_score=self._trainer.tells_score
        )

    def _own_model(self, plan: SplitPlan, rows: Positions) -> OwnModel | None:
        """The model of the own columns alone; None if it was not trained in the epochs before."""
        trainer, seed, me = self._trainer, self._begin.seed, self._me
        bottom = trainer.bottom_model(seed_for(seed, f"bottom:{me}"), self._hyper)
        top = trainer.top_model(plan.widths[me], seed_for(seed, "top"), self._hyper)
        if bottom is None or top is None:
            return None
        if self._begin.closed >= 0:
            saved = [self._saved.state(model) for model in OWN]
            if not all(state.weights for state in saved):
                return None
            for model, state in zip((bottom, top), saved, strict=True):
                model.load(state)
        return OwnModel(me, plan, trainer, rows, bottom, top, self._begin.closed + 1)

    def _train_own(self) -> None:
        """Let the model of the own columns make the steps that the split network has made."""
        labels = self._node.labels if self._node is not None else None
        if self._own is not None and labels is not None:
            has_ended = labels.closed > self._begin.closed
            self._own.train_to(self._own.steps if has_ended else labels.progress[0])

    def _say(self, outgoing: Iterable[Outgoing]) -> None:
        self._sent += [Sent(one.to, *written(one.message)) for one in outgoing]

    # --- what follows

    def _turn(self) -> HolderTurn:
        sent, self._sent = self._sent, []
        if self._node is None:
            assert self._aligning is not None
            return HolderTurn(sent, "aligning", self._aligning.arrived, 0, self._aligning.has_work)
        saved = self._newly_saved()
        own = self._own.figures() if self._own is not None and saved is not None and saved.report else None
        turn = HolderTurn(sent, *self._stage(), bottom=self._bottom(), saved=saved, own=own)
        if turn.stage == "closed":
            turn = replace(turn, report=self._report())
        rows, self._ids_before = self._ids_before, (self._rows, self._alignment)
        return turn if rows[0] is self._rows else replace(turn, rows=self._rows, alignment=self._alignment)

    def _stage(self) -> tuple[Stage, int, int]:
        assert self._node is not None
        features, labels, epoch = self._node.features, self._node.labels, self._begin.closed + 1
        open_holders = [holder for holder in (features, labels) if holder is not None and holder.closed < epoch]
        if not open_holders:
            return "closed", 0, 0
        done, steps = min(holder.progress for holder in open_holders)
        is_trained = steps > 0 and done == steps
        return ("closing" if is_trained else "training"), done, steps

    def _bottom(self) -> str | None:
        features = self._node.features if self._node else None
        is_done = features is not None and (features.phase == "closing" or features.closed > self._begin.closed)
        return features.bottom.state().digest if features is not None and is_done else None

    def _newly_saved(self) -> Saved | None:
        """What became the state of the end of the epoch in this turn."""
        assert self._node is not None
        features, labels, arrays, report = self._node.features, self._node.labels, dict[str, Array](), None
        if features is not None and not self._is_saved["bottom"] and self._bottom():
            self._is_saved["bottom"] = True
            arrays |= saved_arrays("bottom", features.bottom.state())
        if labels is not None and not self._is_saved["top"] and labels.closed > self._begin.closed:
            self._is_saved["top"] = True
            assert labels.report is not None
            arrays |= saved_arrays("top", labels.top.state())
            report = report_part(labels.report)
            if self._own is not None:
                for model, state in zip(OWN, (self._own.bottom.state(), self._own.top.state()), strict=True):
                    arrays |= saved_arrays(model, state)
        return Saved(Params(arrays), report) if arrays else None

    def _report(self) -> EpochClosedPart | None:
        assert self._node is not None
        if self._node.labels is not None and self._node.labels.report is not None:
            return report_part(self._node.labels.report)
        reports = self._node.features.reports if self._node.features else {}
        return report_part(reports[min(reports)]) if reports else None


def fields_of(turn: HolderTurn) -> Mapping[str, Any]:
    """The figures of a turn as JSON-ready data, without arrays."""
    return {"stage": turn.stage, "step": turn.step, "steps": turn.steps, "more": turn.more}
