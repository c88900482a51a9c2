"""Predictions of a vertical job by id, between epochs: those that this node asks for, and its part in those of others.

The asking holder finds the places of the ids among the common rows, and computes its own part. It asks the label holders
first, so that they know of the prediction when outputs arrive, and then the other feature holders. These send their
outputs to the label holders, which send what they predict to the asking holder alone. Several label holders with
features are asked once more with the others, and exchange outputs then. A label holder that asks is the only one to
compute, and gets all outputs itself.

Nothing is repeated: a message that cannot be delivered, a refusal, or the end of the time ends a prediction with a
reason, and the person may ask again. What peers say is checked here before it reaches a model.

In an encrypted regression, outputs are the shares of the score that the two nodes with data compute from their
columns, and the label holder adds them up. The node with the key takes no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flnet.algorithms.vertical.prediction import rows_digest
from flnet.algorithms.vertical.split_messages import check_values
from flnet.algorithms.vertical.wire_form import check_arrays
from flnet.errors import BatchRefused, CutLayerRefused, InputRefused, JobBusy, NotOffered, NotReady, PeerError
from flnet.params.params import Array, Params, PeerId, is_finite
from flnet.protocol.effects import (
    CancelTimer,
    ComputeOutputs,
    ComputePrediction,
    Effect,
    HolderPrediction,
    Send,
    SetTimer,
    TellPrediction,
)
from flnet.protocol.events import (
    OutputsComputed,
    PeerLost,
    PredictionAsked,
    PredictionComputed,
    PredictionNotComputed,
    SendFailed,
    SendRefused,
    VerticalDelivered,
    VerticalReceived,
)
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import (
    ENCRYPTED,
    MAX_CLASSES,
    MAX_PREDICTED,
    MAX_REASON,
    AnyPart,
    PositionPart,
    PredictedPart,
    PredictionPart,
    PredictOutputsPart,
    PredictPart,
    PredictRefusedPart,
    VerticalMessage,
)
from flnet.rounds.base_round import Parts
from flnet.rounds.history import names
from flnet.rounds.vertical_links import NOTHING, arrays_of
from flnet.rounds.vertical_models import Ended, VerticalModels
from flnet.text import text

MOST_OPEN = 4  # predictions that one holder may have asked for at once
SECONDS = 60.0  # after which the asking holder gives a prediction up
SERVED_SECONDS = 45.0  # after which another holder does, and says what is missing
TIMER = "predict:"
Key = tuple[PeerId, str]  # the asking holder, and the session
Said = tuple[AnyPart, Params]


@dataclass
class Open:
    """A prediction that is under way, as this node takes part in it.

    Attributes:
        epoch: after which the models are.
        ended: this node's models.
        alignment: digest of the common rows.
        widths: outputs of each feature holder, or 1 for the share of a score.
        computers: the label holders that compute it.
        ticket: of the person who asks here.
        batch: digest of the rows; empty until this node has found their places.
        places: (n,) of the rows.
        unknown: which of the ids are not common.
        outputs: that arrived, at a node that computes.
        predicted: by label holder, at the asking node.
        undelivered: holders that may not have what this node sent them, of the asking node those with a label.
        has_begun: whether this node has computed its part; at the asking node, whether all others were asked.
    """

    asker: PeerId
    session: str
    epoch: int
    ended: Ended
    alignment: str
    widths: Mapping[PeerId, int]
    computers: tuple[PeerId, ...]
    ticket: int | None = None
    batch: str = ""
    places: Array | None = None
    unknown: tuple[int, ...] = ()
    outputs: dict[PeerId, Array] = field(default_factory=dict)
    predicted: dict[PeerId, HolderPrediction] = field(default_factory=dict)
    undelivered: set[PeerId] = field(default_factory=set)
    has_begun: bool = False

    @property
    def key(self) -> Key:
        """By which it is known."""
        return self.asker, self.session

    @property
    def timer(self) -> str:
        """The name of its timer."""
        return f"{TIMER}{self.asker}:{self.session}"

    @property
    def count(self) -> int:
        """How many rows are predicted."""
        return 0 if self.places is None else len(self.places)


def is_prediction(parts: Iterable[AnyPart]) -> bool:
    """Whether a message has parts of a prediction."""
    return any(isinstance(part, PredictionPart) for part in parts)


class VerticalPredictions:
    """The predictions that are under way at this node."""

    def __init__(self, parts: Parts, models: Callable[[], VerticalModels], run: str) -> None:
        """Args:
        models: of the job, as they are then.
        run: a word that no earlier run of this node had.
        """
        self._settings, self._peers, self._tell = parts.settings, parts.peers, parts.tell
        self._models, self._run = models, run
        self._open: dict[Key, Open] = {}
        # What the compute queue does, also for predictions that are over.
        self._computing: Counter[PeerId] = Counter()
        self._asked = 0

    def knows(self, asker: PeerId, session: str) -> bool:
        """Whether this prediction is under way."""
        return (asker, session) in self._open

    @property
    def count(self) -> int:
        """How many are under way."""
        return len(self._open)

    @property
    def is_busy(self) -> bool:
        """Whether some are under way."""
        return self.count > 0

    # --- a person asks here

    def ask(self, event: PredictionAsked) -> list[Effect]:
        """Begin a prediction.

        Raises:
            PeerError: it cannot be made now; says why.
        """
        me = self._settings.my_id
        if not 1 <= len(event.ids) <= MAX_PREDICTED:
            raise InputRefused(text("expected 1 to {most} ids, got {got}", MAX_PREDICTED, len(event.ids)))
        ended = self._must_be_able()
        if away := sorted(self._with_data.keys() - {*self._peers.here, me}):
            raise NotReady(text("a prediction needs all holders; not reachable: {names}", names(away)))
        self._must_have_room(me)
        self._asked += 1
        opened = self._opened(me, f"{self._run}.p{self._asked}", ended)
        opened.ticket = event.ticket
        self._open[opened.key] = opened
        return [self._compute(opened, ids=event.ids), SetTimer(opened.timer, SECONDS)]

    def _opened(self, asker: PeerId, session: str, ended: Ended) -> Open:
        models, holders = self._models(), self._with_data
        if self._is_encrypted:
            widths = dict.fromkeys(map(PeerId, holders), 1)
        else:
            widths = {PeerId(peer): position.width for peer, position in holders.items() if position.width}
        fixed = (models.closed, ended, models.alignment, widths, self._computers(asker))
        return Open(asker, session, *fixed)

    def _must_be_able(self) -> Ended:
        """The models of the last epoch that has ended.

        Raises:
            PeerError: there are none, the rows are not aligned, or the owner has not allowed predictions.
        """
        models, trainer, me = self._models(), self._settings.trainer, self._settings.my_id
        if refused := self.refused:
            raise NotOffered(refused)
        ended, position = models.ended.get(models.closed), models.holders.get(me)
        is_whole = (
            ended is not None
            and position is not None
            and not (position.has_label and ended.report is None)
            and not (position.width and ended.bottom is None)
        )
        if ended is None or not is_whole:
            raise NotReady(text("{trainer} has no model that an epoch has ended with; train one epoch", trainer))
        if models.rows is None or set(models.aligned_with) != self._with_data.keys():
            raise NotReady(text("the rows of {trainer} have to be aligned again; train one epoch", trainer))
        return ended

    @property
    def refused(self) -> str:
        """Why this node offers no predictions, whatever others say; empty where it does."""
        me, trainer, declared = self._settings.my_id, self._settings.trainer, self._declared
        if self._is_encrypted and not declared["rows"]:
            return text("{peer} holds the key, and no ids; ask at a node with data", me)
        if declared.get("hidesMatches"):
            return text("a prediction by id would tell which rows match, and {trainer} hides that", trainer)
        if not declared.get("allowsPredictions"):
            return text(
                "the owner of {peer} has not allowed predictions of {trainer} (allow_predictions = true)",
                me,
                trainer,
            )
        return ""

    @property
    def _declared(self) -> Mapping[str, Any]:
        """What this node holds, as its trainer declares it."""
        declared = self._settings.declaration
        return declared.offers["vertical"] if declared else {}

    @property
    def _is_encrypted(self) -> bool:
        return self._declared.get("method") == ENCRYPTED

    @property
    def _with_data(self) -> Mapping[str, PositionPart]:
        """The holders that a prediction needs: all but one that holds the key of an encryption."""
        return {peer: position for peer, position in self._models().holders.items() if position.has_data}

    def _must_have_room(self, asker: PeerId) -> None:
        is_full = sum(peer == asker for peer, _ in self._open) >= MOST_OPEN
        if is_full or self._computing[asker] >= MOST_OPEN:
            raise JobBusy(text("{count} predictions for {peer} are under way; ask again later", MOST_OPEN, asker))

    def _computers(self, asker: PeerId) -> tuple[PeerId, ...]:
        """The asking holder if it has the label, else all label holders."""
        holders = self._with_data
        if holders[asker].has_label:
            return (asker,)
        return tuple(PeerId(peer) for peer in sorted(holders) if holders[peer].has_label)

    def _compute(self, opened: Open, ids: tuple[str | int, ...] = ()) -> ComputeOutputs:
        models, hyper = self._models(), self._settings.round_hyper
        assert models.rows is not None
        assert hyper is not None
        rows, asked = Params({"rows": models.rows}), opened.places
        places = None if asked is None else Params({"places": asked})
        self._computing[opened.asker] += 1
        of = (opened.asker, opened.session, opened.epoch, hyper, opened.ended.params)
        return ComputeOutputs(*of, rows, models.ids, ids, places)

    # --- what the compute queue gives

    def outputs_computed(self, event: OutputsComputed) -> list[Effect]:
        """This node's part is there: pass it on."""
        self._computing[event.asker] -= 1
        opened = self._open.get((event.asker, event.session))
        if opened is None:
            return []
        if opened.ticket is None:
            return self._pass_on(opened, event.outputs)
        opened.places, opened.unknown = event.places["places"], event.unknown
        if not opened.count:
            return self._end(opened, InputRefused(text("this id is not among the common rows")))
        opened.batch = rows_digest(opened.alignment, opened.epoch, opened.places)
        own = None if event.outputs is None else event.outputs["values"]
        said: list[Said] = [self._question(opened)]
        if own is not None and opened.asker in opened.computers:
            opened.outputs[opened.asker] = own
        elif own is not None:
            said.append((self._outputs_part(opened), Params({"values": own})))
        opened.undelivered = {peer for peer in opened.computers if peer != opened.asker}
        told = [self._send(opened, peer, said) for peer in sorted(opened.undelivered)]
        return [*told, *self._ask_the_rest(opened), *self._compute_if_complete(opened)]

    def _ask_the_rest(self, opened: Open) -> list[Effect]:
        """Ask the other feature holders, once all label holders know of the prediction."""
        if opened.undelivered or opened.has_begun:
            return []
        opened.has_begun = True
        first = opened.computers if len(opened.computers) == 1 else ()
        rest = [peer for peer in sorted(opened.widths) if peer not in (*first, opened.asker)]
        return [self._send(opened, peer, [self._question(opened)]) for peer in rest]

    def _pass_on(self, opened: Open, outputs: Params | None) -> list[Effect]:
        """Use own outputs for the prediction of another holder."""
        me = self._settings.my_id
        if outputs is None:
            return self._fail(opened, text("the trainer has no bottom model any more"))
        opened.undelivered = {peer for peer in opened.computers if peer != me}
        said: list[Said] = [(self._outputs_part(opened), outputs)]
        sent: list[Effect] = [self._send(opened, peer, said) for peer in sorted(opened.undelivered)]
        if me in opened.computers:
            opened.outputs[me] = outputs["values"]
            sent += self._compute_if_complete(opened)
        return sent

    def _note(self, opened: Open) -> Effect:
        trainer = self._settings.trainer
        words = text(
            "{peer} asks for a prediction of {trainer}: {count} rows", opened.asker, trainer, opened.count
        )
        return self._tell("prediction_served", words, rows=opened.count, asker=opened.asker)

    def _compute_if_complete(self, opened: Open) -> list[Effect]:
        hyper, models = self._settings.round_hyper, self._models()
        is_mine = self._settings.my_id in opened.computers
        if not is_mine or not opened.batch or opened.outputs.keys() != opened.widths.keys():
            return []
        assert hyper is not None
        outputs, seed = Params({str(peer): array for peer, array in opened.outputs.items()}), models.seed or 0
        self._computing[opened.asker] += 1
        return [ComputePrediction(opened.asker, opened.session, hyper, opened.ended.params, outputs, seed)]

    def computed(self, event: PredictionComputed) -> list[Effect]:
        """This label holder has predicted: the asking holder gets it."""
        self._computing[event.asker] -= 1
        opened = self._open.get((event.asker, event.session))
        if opened is None:
            return []
        me, report = self._settings.my_id, opened.ended.report
        if opened.ticket is not None:
            opened.predicted[me] = HolderPrediction(me, event.values, event.meaning, event.classes)
            return self._end_if_complete(opened)
        assert report is not None
        part = PredictedPart(
            epoch=opened.epoch,
            batch=opened.batch,
            top=report.top,
            meaning=event.meaning,
            classes=event.classes,
        )
        return [self._send(opened, opened.asker, [(part, event.values)]), *self._forget(opened)]

    def not_computed(self, event: PredictionNotComputed) -> list[Effect]:
        """A computation failed."""
        self._computing[event.asker] -= 1
        opened = self._open.get((event.asker, event.session))
        return [] if opened is None else self._fail(opened, event.reason)

    # --- what peers say

    def receive(self, event: VerticalReceived) -> list[Effect]:
        """Take a message of a prediction.

        Raises:
            PeerError: it is refused and nothing has changed.
        """
        if event.peer not in self._with_data:
            raise BatchRefused(text("{peer} holds no columns of {trainer}", event.peer, self._settings.trainer))
        kinds = tuple(type(part) for part in event.parts)
        if kinds not in _TOGETHER:
            raise BatchRefused(text("these parts of a message do not belong together"))
        for place, part in enumerate(event.parts):
            check_arrays(part, arrays_of(event.arrays, place))
        if isinstance(event.parts[0], PredictPart):
            return self._asked_by(event, event.parts[0])
        opened = self._open.get((event.key.initiator, event.session))
        if opened is None:
            raise BatchRefused(text("this prediction is not under way at {peer} (any more)", self._settings.my_id))
        match event.parts[0]:
            case PredictOutputsPart() as part:
                return self._take_outputs(opened, event.peer, part, arrays_of(event.arrays, 0)["values"])
            case PredictedPart() as part:
                return self._take_predicted(opened, event.peer, part, arrays_of(event.arrays, 0)["values"])
            case PredictRefusedPart() if event.peer == opened.asker:
                return self._forget(opened)
            case PredictRefusedPart(reason=reason):
                if opened.ticket is None:
                    raise BatchRefused(text("{peer} has not asked for this prediction", self._settings.my_id))
                return self._fail(opened, text("{peer}: {reason}", event.peer, reason))
        raise BatchRefused(text("these parts of a message do not belong together"))

    def _asked_by(self, event: VerticalReceived, part: PredictPart) -> list[Effect]:
        """Another holder asks for this node's part.

        Raises:
            PeerError: it does not get it; says why.
        """
        me, models = self._settings.my_id, self._models()
        if event.key.initiator != event.peer:
            raise BatchRefused(text("{peer} asks for a prediction in the name of another node", event.peer))
        ended = self._must_be_able()
        if part.alignment != models.alignment:
            raise BatchRefused(text("{peer} has other common rows than {other}", me, event.peer))
        if part.epoch != models.closed:
            raise BatchRefused(
                text(
                    "{peer} has the models of epoch {got}, not of epoch {expected}; train one more epoch",
                    me,
                    models.closed,
                    part.epoch,
                )
            )
        places = self._places(arrays_of(event.arrays, 0)["places"], models)
        if part.batch != rows_digest(models.alignment, part.epoch, places):
            raise BatchRefused(text("the digest of the rows of this prediction is another one"))
        if (known := self._open.get((event.peer, event.session))) is not None:
            return self._asked_again(known, part)
        self._must_have_room(event.peer)
        opened = self._opened(event.peer, event.session, ended)
        opened.places, opened.batch = places, part.batch
        more: list[Effect] = []
        if len(event.parts) > 1:
            outputs = event.parts[1]
            assert isinstance(outputs, PredictOutputsPart)
            more = self._take_outputs(opened, event.peer, outputs, arrays_of(event.arrays, 1)["values"])
        self._open[opened.key] = opened
        opened.has_begun = me not in opened.computers or len(opened.computers) == 1
        own: list[Effect] = [self._compute(opened)] if me in opened.widths and opened.has_begun else []
        return [self._note(opened), *own, SetTimer(opened.timer, SERVED_SECONDS), *more]

    def _asked_again(self, opened: Open, part: PredictPart) -> list[Effect]:
        """All label holders know of the prediction: this one may send its outputs to the others."""
        if opened.has_begun or part.batch != opened.batch:
            raise BatchRefused(text("this prediction is under way already"))
        opened.has_begun = True
        return [self._compute(opened)] if self._settings.my_id in opened.widths else []

    def _places(self, places: Array, models: VerticalModels) -> Array:
        assert models.rows is not None
        if places.ndim != 1 or places.dtype.kind not in "iu" or not 1 <= len(places) <= MAX_PREDICTED:
            raise CutLayerRefused(
                text(
                    "expected a list of 1 to {most} whole numbers, got {dtype} {shape}",
                    MAX_PREDICTED,
                    places.dtype.name,
                    list(places.shape),
                )
            )
        if int(places.min()) < 0 or int(places.max()) >= len(models.rows):
            raise CutLayerRefused(
                text("there are {count} common rows, and other ones were asked for", len(models.rows))
            )
        return places.astype(np.int64)

    def _take_outputs(self, opened: Open, peer: PeerId, part: PredictOutputsPart, values: Array) -> list[Effect]:
        width, report = opened.widths.get(peer), opened.ended.report
        if self._settings.my_id not in opened.computers or report is None or not opened.batch or width is None:
            raise BatchRefused(text("{peer} takes no outputs for this prediction", self._settings.my_id))
        self._check_rows(opened, part.epoch, part.batch)
        if (known := report.bottoms.get(peer)) != part.bottom:
            raise BatchRefused(
                text(
                    "{peer} has another bottom model than the one with which epoch {epoch} ended; expected {expected}, "
                    "got {got}",
                    peer,
                    part.epoch,
                    str(known)[:12],
                    part.bottom[:12],
                )
            )
        if values.ndim != 2 or values.dtype.kind not in "iuf":
            raise CutLayerRefused(
                text("expected a table of numbers, got {dtype} {shape}", values.dtype.name, list(values.shape))
            )
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32, copy=False)
        check_values(numbers, (opened.count, width), "float32")
        if peer in opened.outputs:
            raise BatchRefused(text("{peer} has sent its outputs for this prediction already", peer))
        opened.outputs[peer] = numbers
        return self._compute_if_complete(opened)

    def _take_predicted(self, opened: Open, peer: PeerId, part: PredictedPart, values: Array) -> list[Effect]:
        if opened.ticket is None or peer not in opened.computers or peer in opened.predicted:
            raise BatchRefused(text("{peer} expects no prediction of {other}", self._settings.my_id, peer))
        self._check_rows(opened, part.epoch, part.batch)
        wanted = len(part.classes) or (values.shape[1] if values.ndim == 2 else 0)
        if values.ndim != 2 or values.shape != (opened.count, wanted) or not 1 <= wanted <= MAX_CLASSES:
            raise CutLayerRefused(
                text(
                    "expected probabilities of {count} rows, got {dtype} {shape}",
                    opened.count,
                    values.dtype.name,
                    list(values.shape),
                )
            )
        if values.dtype.kind not in "iuf" or not is_finite(values) or values.min() < 0 or values.max() > 1:
            raise CutLayerRefused(text("the probabilities are no numbers from 0 to 1"))
        predicted = Params({"values": values.astype(np.float32)})
        opened.predicted[peer] = HolderPrediction(peer, predicted, part.meaning, part.classes)
        return self._end_if_complete(opened)

    def _check_rows(self, opened: Open, epoch: int, batch: str) -> None:
        if (epoch, batch) != (opened.epoch, opened.batch):
            raise BatchRefused(text("a part of this prediction is for other rows, or for another epoch"))

    # --- what becomes of messages, and of peers

    def delivered(self, event: VerticalDelivered) -> list[Effect]:
        """A message has arrived; where it was the last one of this node for a prediction of another, that is over."""
        effects: list[Effect] = []
        for opened in [opened for opened in self._open.values() if opened.session == event.session]:
            if event.peer in opened.undelivered:
                opened.undelivered.discard(event.peer)
                if opened.ticket is not None:
                    effects += self._ask_the_rest(opened)
                elif not opened.undelivered and self._settings.my_id not in opened.computers:
                    effects += self._forget(opened)
        return effects

    def not_sent(self, event: SendFailed | SendRefused) -> list[Effect]:
        """A message could not be delivered, or was refused."""
        opened = self._open.get((event.key.initiator, event.session))
        if opened is None:
            return []
        if isinstance(event, SendRefused):
            return self._fail(opened, text("{peer}: {reason}", event.peer, event.reason))
        return self._fail(opened, text("{peer} is not reachable: {reason}", event.peer, event.reason))

    def lost(self, event: PeerLost) -> list[Effect]:
        """A peer is not reachable any more."""
        words, effects = text("{peer} is not reachable: {reason}", event.peer, event.reason), list[Effect]()
        for opened in list(self._open.values()):
            if event.peer == opened.asker:
                effects += self._forget(opened)
            elif event.peer in (*opened.widths, *opened.computers):
                effects += self._fail(opened, words)
        return effects

    def timer_fired(self, name: str) -> list[Effect]:
        """The time of a prediction is over."""
        opened = next((opened for opened in self._open.values() if opened.timer == name), None)
        if opened is None:
            return []
        me, is_mine = self._settings.my_id, opened.ticket is not None
        awaited = [peer for peer in opened.computers if peer not in opened.predicted]
        if me in awaited:
            awaited = [peer for peer in sorted(opened.widths) if peer not in opened.outputs] or [me]
        elif not is_mine or not opened.batch:
            awaited = [me]
        seconds = SECONDS if is_mine else SERVED_SECONDS
        return self._fail(
            opened, text("{names} did not answer within {seconds} s", names(awaited), f"{seconds:g}")
        )

    # --- it ends

    def _end_if_complete(self, opened: Open) -> list[Effect]:
        return self._end(opened) if opened.predicted.keys() == set(opened.computers) else []

    def _fail(self, opened: Open, reason: str) -> list[Effect]:
        """End it with a reason, which the asking holder is told."""
        part = PredictRefusedPart(reason=str(reason)[:MAX_REASON])
        if opened.ticket is not None:
            others = [*opened.widths, *opened.computers] if opened.batch else []
            told = [self._send(opened, peer, [(part, NOTHING)]) for peer in sorted({*others} - {opened.asker})]
            return [*told, *self._end(opened, NotReady(text("no prediction: {reason}", reason)))]
        return [self._send(opened, opened.asker, [(part, NOTHING)]), *self._forget(opened)]

    def _end(self, opened: Open, error: PeerError | None = None) -> list[Effect]:
        assert opened.ticket is not None
        predictions = () if error else tuple(opened.predicted[peer] for peer in sorted(opened.predicted))
        told = TellPrediction(opened.ticket, opened.epoch, opened.unknown, predictions, error)
        return [*self._forget(opened), told]

    def _forget(self, opened: Open) -> list[Effect]:
        del self._open[opened.key]
        return [CancelTimer(opened.timer)]

    # --- what is said

    def _question(self, opened: Open) -> Said:
        assert opened.places is not None
        part = PredictPart(epoch=opened.epoch, alignment=opened.alignment, batch=opened.batch)
        return part, Params({"places": opened.places})

    def _outputs_part(self, opened: Open) -> PredictOutputsPart:
        return PredictOutputsPart(epoch=opened.epoch, batch=opened.batch, bottom=str(opened.ended.bottom))

    def _send(self, opened: Open, peer: PeerId, said: list[Said]) -> Send:
        key = RoundKey(opened.epoch, opened.asker)
        arrays = {f"{at}/{name}": array for at, (_, values) in enumerate(said) for name, array in values.items()}
        parts = tuple(part for part, _ in said)
        message = self._settings.message(VerticalMessage, key, session=opened.session, parts=parts)
        return Send((peer,), message, Params(arrays) if arrays else None)


_TOGETHER = frozenset(
    {
        (PredictPart,),
        (PredictPart, PredictOutputsPart),
        (PredictOutputsPart,),
        (PredictedPart,),
        (PredictRefusedPart,),
    }
)
