"""Vertical trainers where they are: in the training child, or in the thread of the compute queue.

A `VerticalHost` takes the place of a trainer among those of the compute queue. It offers no training or prediction by
this node alone, and keeps the conversation with the other holders while an epoch is open. If the process ends, the
conversation is gone: the epoch is abandoned, and the next one begins from what the job has saved.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np
from blake3 import blake3

from flnet.algorithms.vertical.aligning import Sent
from flnet.algorithms.vertical.conversation import Conversation, HolderTurn, Saved
from flnet.algorithms.vertical.defences import NormalSource, OutputNoise
from flnet.algorithms.vertical.encrypted_conversation import EncryptedConversation
from flnet.algorithms.vertical.encryption import Encryption
from flnet.algorithms.vertical.groups import Group, Positions
from flnet.algorithms.vertical.holder import SEED_BYTES
from flnet.algorithms.vertical.identifiers import RULE, normalised_column
from flnet.algorithms.vertical.prediction import (
    outputs_for,
    places_of,
    prediction_from,
    regression_prediction,
    score_share,
)
from flnet.algorithms.vertical.wire_form import read_fields
from flnet.compute.prediction import checked_prediction
from flnet.errors import NotOffered, PeerError, TrainerError
from flnet.params.params import Array, Params, PeerId, is_finite
from flnet.protocol.effects import ComputeOutputs, ComputePrediction, OpenEpoch
from flnet.protocol.events import Declaration, OutputsComputed, PredictionComputed, TalkSent, VerticalDone
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import ENCRYPTED, MAX_IN_FLIGHT, BeginPart, ClassMeaning, EpochClosedPart
from flnet.security.ckks import CKKS
from flnet.security.noise import SecretNormal
from flnet.security.prime_group import ed25519_group
from flnet.text import text
from flnet.trainer import DataInfo, Fit, Score, Task, Trainer
from flnet.vertical_trainer import ModelState, VerticalTrainer

BLOCK = 4096  # rows that are looked at together


@dataclass(frozen=True)
class VerticalTurn:
    """The result of a turn, as it comes out of the training child; see `flnet.algorithms.vertical.conversation.Turn`.

    Attributes:
        sent: for each message {"to", "part", "arrays"}.
        params: of the models whose epoch has ended; None if none has.
        own_report: with which the epoch ended at this node, if it holds labels.
    """

    sent: Sequence[Mapping[str, Any]]
    stage: str
    step: int = 0
    steps: int = 0
    more: bool = False
    bottom: str | None = None
    params: Params | None = None
    own_report: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    rows: Array | None = None
    alignment: str = ""
    own: Mapping[str, float] | None = None
    common: int | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Opened:
    """What an epoch begins with at this node.

    Attributes:
        begin: `BeginPart.as_dict`.
        params, report: of the epoch that it goes on from.
        rows, alignment: of the alignment before, if there is one.
    """

    me: str
    session: str
    begin: Mapping[str, Any]
    hyper: HyperParams
    params: Params = field(default_factory=Params)
    report: Mapping[str, Any] | None = None
    rows: Array | None = None
    alignment: str = ""


@dataclass(frozen=True)
class AskedOutputs:
    """What a prediction needs of this node; see `flnet.protocol.effects.ComputeOutputs`."""

    epoch: int
    hyper: HyperParams
    params: Params
    rows: Array
    checksum: str
    ids: Sequence[str | int] = ()
    places: Array | None = None


@dataclass(frozen=True)
class FoundOutputs:
    """This node's part in a prediction; see `flnet.protocol.events.OutputsComputed`."""

    places: Array
    unknown: Sequence[int]
    values: Array | None


@dataclass(frozen=True)
class AskedPrediction:
    """What a label holder predicts from; see `flnet.protocol.effects.ComputePrediction`."""

    me: str
    hyper: HyperParams
    params: Params
    outputs: Mapping[str, Array]
    seed: int


@dataclass(frozen=True)
class HolderAnswer:
    """Probabilities (n, k) of a label holder, and the names of its classes, if they have some."""

    values: Array
    meaning: str
    classes: Sequence[str]


class VerticalHost(Trainer):
    """A vertical trainer among the trainers of a compute queue."""

    def __init__(
        self,
        trainer: VerticalTrainer,
        name: str = "",
        group: Callable[[], Group] = ed25519_group,
        secret: Callable[[], bytes] = lambda: secrets.token_bytes(SEED_BYTES),
        noise: NormalSource | None = None,
        encryption: Encryption = CKKS,
    ) -> None:
        """Args:
        name: of the trainer, for messages.
        group: in which ids are blinded.
        secret: for each alignment another one.
        noise: for defences; None for one whose key is forgotten with this object.
        encryption: of regressions.
        """
        self.trainer, self._name, self._group, self._secret = trainer, name, group, secret
        self._noise, self._encryption = noise or SecretNormal(), encryption
        self._session, self._conversation = "", None
        self.label = trainer.label

    _conversation: Conversation | EncryptedConversation | None

    @property
    def is_encrypted(self) -> bool:
        """Whether it trains an encrypted regression."""
        return self.trainer.method == ENCRYPTED

    # --- what it does not offer

    def initial_params(self, seed: int) -> NoReturn:
        """Not by this node alone."""
        raise NotOffered(text("{trainer} is trained with other holders of columns only", self._name))

    def fit(self, task: Task) -> Fit:
        """Not by this node alone."""
        return self.initial_params(task.seed)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Not by this node alone."""
        return self.initial_params(0)

    def data_info(self) -> DataInfo:
        """Of the vertical trainer."""
        return self.trainer.data_info()

    # --- what it does

    def declared(self, seed: int) -> Declaration:
        """The declaration of the trainer, with this node's position.

        Args:
            seed: of this node's trainers.

        Raises:
            TrainerError: the data cannot be used; says why.
            AlignmentRefused: likewise, of the ids.
        """
        trainer, info = self.trainer, self.trainer.data_info()
        data: dict[str, Any] = {"source": info.source, "rows": dict(info.rows), "classes": list(info.classes)}
        if info.sample:
            data["sample"] = True
        defaults = HyperParams(e=1, u=trainer.defaults.u, b=trainer.defaults.b)
        offers = {"vertical": self._position(seed)}
        return Declaration(trainer.label or self._name, defaults, 1.0, (), data=data, offers=offers)

    def _position(self, seed: int) -> dict[str, Any]:
        """What this node holds: JSON-ready data, and `ids`, by which changed data are noticed; that is told to nobody."""
        trainer, ids = self.trainer, self._ids()
        columns, width = (
            self._encrypted_features(len(ids)) if self.is_encrypted else self._split_features(len(ids))
        )
        has_label = self._has_label(len(ids))
        if not width and not has_label and (ids or not self.is_encrypted):
            raise TrainerError(text("there is neither a feature column nor a label column"))
        self._check_settings(has_features=width > 0, has_label=has_label)
        noise = {"outputNoise": trainer.output_noise, "gradientNoise": trainer.gradient_noise}
        return {
            "columns": len(trainer.columns()) or columns,
            "names": [name[:200] for name in trainer.shared_columns()][:1000],
            "hasLabel": has_label,
            "severalLabels": trainer.several_labels,
            "width": width,
            "rows": len(ids),
            "rule": RULE,
            "group": self._group().name,
            "seed": seed,
            "ids": _checksum(ids),
            **{name: asdict(setting) for name, setting in noise.items() if setting is not None},
            "tellsScore": trainer.tells_score,
            "inFlight": trainer.in_flight,
            "method": trainer.method,
            "scheme": self._encryption.name() if self.is_encrypted else "",
            "hidesMatches": self.is_encrypted and trainer.hides_matches,
            "allowsPredictions": bool(trainer.allows_predictions),
        }

    def _check_settings(self, *, has_features: bool, has_label: bool) -> None:
        """Raises:
        TrainerError: a setting has no effect at this node, or is out of its range.
        """
        trainer = self.trainer
        is_set = {
            "output_noise": trainer.output_noise is not None,
            "gradient_noise": trainer.gradient_noise is not None,
            "tells_score": not trainer.tells_score,
            "in_flight": trainer.in_flight != 1,
        }
        if trainer.allows_predictions and self.is_encrypted and trainer.hides_matches:
            raise TrainerError(
                text("allow_predictions would tell which rows match, and hides_matches = true hides that")
            )
        if trainer.allows_predictions and not has_features and not has_label:
            raise TrainerError(
                text("allow_predictions is for a node with data; a node with the key predicts nothing")
            )
        for name in [name for name in is_set if is_set[name] and self.is_encrypted]:
            raise TrainerError(text("{key} is no option of method = encrypted-regression", name))
        if is_set["output_noise"] and not has_features:
            raise TrainerError(text("output_noise protects outputs, but this trainer has no feature columns"))
        for name in ("gradient_noise", "tells_score"):
            if is_set[name] and not has_label:
                raise TrainerError(text("{name} is for nodes with a label, and this trainer has none", name))
        if type(trainer.in_flight) is not int or not 1 <= trainer.in_flight <= MAX_IN_FLIGHT:
            raise TrainerError(
                text("expected in_flight from 1 to {most}, got {value}", MAX_IN_FLIGHT, repr(trainer.in_flight))
            )

    def _split_features(self, count: int) -> tuple[int, int]:
        """The number of feature columns, and of the outputs of the bottom model."""
        trainer = self.trainer
        bottom = trainer.bottom_model(0, HyperParams(e=1, u=trainer.defaults.u, b=trainer.defaults.b))
        return (0, 0) if bottom is None else (self._checked_features(count), bottom.width)

    def _encrypted_features(self, count: int) -> tuple[int, int]:
        """The number of feature columns, which are the inputs of the regression."""
        if not count:
            return 0, 0
        try:
            columns = self._checked_features(count)
        except NotOffered:
            return 0, 0
        return columns, columns

    def _ids(self) -> list[str]:
        if self.is_encrypted and not len(self.trainer.identifiers()):
            return []  # a key holder
        return normalised_column(list(self.trainer.identifiers()))

    def _checked_features(self, count: int) -> int:
        """The number of columns of features.

        Raises:
            TrainerError: some are not finite, or one has the same value everywhere.
        """
        columns, first, varies = 0, None, None
        for start in range(0, count, BLOCK):
            part = np.asarray(self.trainer.features(np.arange(start, min(start + BLOCK, count))))
            flat = part.reshape(len(part), -1)
            if not is_finite(flat):
                raise TrainerError(text("the feature columns have missing values, or numbers that are not finite"))
            if first is None or varies is None:
                first, varies, columns = flat[0], np.zeros(flat.shape[1], bool), flat.shape[1]
            varies |= (flat != first).any(axis=0)
        if varies is not None and not varies.all():
            names, at = self.trainer.columns(), int(np.flatnonzero(~varies)[0])
            name = names[at] if len(names) == columns else str(at + 1)
            raise TrainerError(text("feature column {name} has the same value in all rows; leave it out", name))
        return columns

    def _has_label(self, count: int) -> bool:
        if not count:
            return False
        try:
            labels = np.asarray(self.trainer.labels(np.arange(count)))
        except NotOffered:
            return False
        if not is_finite(labels):
            raise TrainerError(text("the label column has missing values, or numbers that are not finite"))
        if labels.ndim == 1 and len(np.unique(labels)) < 2:
            raise TrainerError(text("the label column has one value only; nothing can be learnt from it"))
        return True

    # --- predictions by id

    def outputs(self, asked: AskedOutputs) -> FoundOutputs:
        """This node's part in a prediction: the places of the rows, and the outputs of its bottom model for them.

        Raises:
            TrainerError: it cannot be computed.
        """
        ids = self._ids()
        if _checksum(ids) != asked.checksum:
            raise TrainerError(text("the ids have changed since the rows were aligned; train one more epoch"))
        places, unknown = asked.places, list[int]()
        if places is None:
            places, unknown = places_of(asked.ids, ids, asked.rows)
        state, values = Saved(asked.params).state("bottom"), None
        if state.weights and len(places):
            with _in_words():
                values = self._values(asked, state, asked.rows[places], len(ids))
        return FoundOutputs(places, unknown, values)

    def _values(self, asked: AskedOutputs, state: ModelState, rows: Positions, count: int) -> Array:
        trainer = self.trainer
        if self.is_encrypted:
            return score_share(trainer, state, rows, has_label=self._has_label(count))
        noise = OutputNoise.of(trainer.output_noise, self._noise)
        return outputs_for(trainer, state, rows, asked.hyper, asked.epoch, noise)

    def prediction(self, asked: AskedPrediction) -> HolderAnswer:
        """What this label holder predicts from the outputs of all feature holders.

        Raises:
            TrainerError: it cannot be computed.
        """
        outputs = {PeerId(peer): values for peer, values in asked.outputs.items()}
        with _in_words():
            if self.is_encrypted:
                made = regression_prediction(outputs)
            else:
                top = Saved(asked.params).state("top")
                made = prediction_from(self.trainer, PeerId(asked.me), top, outputs, asked.hyper, asked.seed)
        names = list(self.trainer.class_names())
        count = next(iter(outputs.values())).shape[0]
        checked = checked_prediction(made, count, len(names), self._name)
        if checked.meaning == "scores":
            raise TrainerError(text("the top model gives scores; a prediction by id needs probabilities"))
        return HolderAnswer(np.clip(checked.values, 0, 1), checked.meaning, names)

    # --- epochs

    def open(self, opened: Opened) -> VerticalTurn:
        """Begin an epoch; one that was open before is forgotten.

        Raises:
            TrainerError: it cannot be trained.
        """
        report = None if opened.report is None else EpochClosedPart.model_validate(opened.report)
        with _in_words():
            self._conversation = self._conversation_of(opened, Saved(opened.params, report))
            self._session = opened.session
            return _result(self._conversation.start())

    def _conversation_of(self, opened: Opened, saved: Saved) -> Conversation | EncryptedConversation:
        begin = BeginPart.model_validate(opened.begin)
        given: dict[str, Any] = {
            **{"me": PeerId(opened.me), "session": opened.session, "begin": begin, "hyper": opened.hyper},
            **{"trainer": self.trainer, "ids": self._ids() if begin.aligns else [], "saved": saved},
            **{"group": self._group(), "secret": self._secret()},
            **{"rows": opened.rows, "alignment": opened.alignment},
        }
        if begin.method == ENCRYPTED:
            return EncryptedConversation(**given, encryption=self._encryption)
        return Conversation(**given, noise=self._noise)

    def go_on(self, session: str, received: Sequence[Mapping[str, Any]]) -> VerticalTurn:
        """Take messages of other holders, and work on.

        Args:
            received: for each message {"sender", "part", "arrays"}.

        Raises:
            TrainerError: the epoch is not open here, or cannot go on.
        """
        if self._conversation is None or session != self._session:
            raise TrainerError(text("the training process was started again within the epoch"))
        parts = [(PeerId(one["sender"]), read_fields(one["part"]), Params(one["arrays"])) for one in received]
        with _in_words():
            turn = self._conversation.receive(parts)
        if turn.stage == "closed":
            self._conversation, self._session = None, ""
        return _result(turn)


def _checksum(ids: Sequence[str]) -> str:
    return blake3("\0".join(ids).encode()).hexdigest()


@contextmanager
def _in_words() -> Iterator[None]:
    """Makes TrainerError of refusals, which is what a call may raise."""
    try:
        yield
    except PeerError as exc:
        raise TrainerError(exc.message) from exc


def _result(turn: HolderTurn) -> VerticalTurn:
    saved = turn.saved
    return VerticalTurn(
        [_sent(one) for one in turn.sent],
        turn.stage,
        turn.step,
        turn.steps,
        turn.more,
        turn.bottom,
        None if saved is None else saved.params,
        None if saved is None or saved.report is None else saved.report.as_dict(),
        None if turn.report is None else turn.report.as_dict(),
        turn.rows,
        turn.alignment,
        turn.own,
        turn.common,
        list(turn.warnings),
    )


def opened(effect: OpenEpoch, me: PeerId) -> Opened:
    """What a job asks for, as it goes into the training child."""
    report = None if effect.report is None else effect.report.as_dict()
    rows = None if effect.rows is None else effect.rows["rows"]
    models = (effect.params, report, rows, effect.alignment)
    return Opened(me, effect.session, effect.begin.as_dict(), effect.hyper, *models)


def done(turn: VerticalTurn, session: str) -> VerticalDone:
    """The result of a turn, as the job gets it."""
    sent = tuple(TalkSent(PeerId(one["to"]), read_fields(one["part"]), Params(one["arrays"])) for one in turn.sent)
    own, report = (
        None if fields is None else EpochClosedPart.model_validate(fields)
        for fields in (turn.own_report, turn.report)
    )
    rows = None if turn.rows is None else Params({"rows": turn.rows})
    figures = (turn.stage, turn.step, turn.steps, turn.more, turn.bottom)
    ended = (turn.params, own, report, rows, turn.alignment)
    return VerticalDone(session, sent, *figures, *ended, turn.own, turn.common, tuple(turn.warnings))


def _sent(one: Sent) -> Mapping[str, Any]:
    return {"to": str(one.to), "part": one.part.as_dict(), "arrays": one.arrays}


def asked_outputs(effect: ComputeOutputs) -> AskedOutputs:
    """What a job asks for, as it goes into the training child."""
    places = None if effect.places is None else effect.places["places"]
    models = (effect.epoch, effect.hyper, effect.params, effect.rows["rows"], effect.checksum)
    return AskedOutputs(*models, effect.ids, places)


def outputs_computed(effect: ComputeOutputs, found: FoundOutputs) -> OutputsComputed:
    """This node's part in a prediction, as the job gets it."""
    values = None if found.values is None else Params({"values": found.values})
    places = Params({"places": found.places})
    return OutputsComputed(effect.asker, effect.session, places, tuple(found.unknown), values)


def asked_prediction(effect: ComputePrediction, me: PeerId) -> AskedPrediction:
    """What a job asks for, as it goes into the training child."""
    return AskedPrediction(me, effect.hyper, effect.params, effect.outputs, effect.seed)


def prediction_computed(effect: ComputePrediction, answer: HolderAnswer) -> PredictionComputed:
    """The prediction of this label holder, as the job gets it."""
    meaning: ClassMeaning = "any_of" if answer.meaning == "any_of" else "one_of"
    classes = tuple(name[:200] for name in answer.classes)
    return PredictionComputed(effect.asker, effect.session, Params({"values": answer.values}), meaning, classes)
