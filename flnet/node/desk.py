"""What a person takes from a node's models: predictions, files, cards. All of it waits its turn in the lane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import flnet
from flnet.codec import BinaryCodec
from flnet.errors import InvalidMessage, NotOffered, NotReady, OwnMachineOnly
from flnet.events import Declaration
from flnet.jobs import Phase
from flnet.node.base import Download, Question, View
from flnet.node.card import MOST_ROUNDS, card
from flnet.node.chronicle import Chronicle
from flnet.node.core import NodeCore
from flnet.node.shelf import Chosen, Shelf
from flnet.params import Array, TrainerId
from flnet.training import Pool, Prediction
from flnet.training.backend import Inputs
from flnet.training.inputs import read_inputs
from flnet.training.offers import names_of_classes, predicted, spec_of

TURN_SECONDS = 60.0  # for a turn in the lane and the work itself: longer, and a person is told to ask again
MAX_WAITING = 16  # who comes when so many wait is told so at once
FORMATS = ("safetensors", "onnx")
MODELS = ("common", "personal")  # of a node with a personal model
SAMPLE_NOTE = "the data of this trainer are generated samples"
UNTRAINED_NOTE = "this model is not the average of any round"
T = TypeVar("T")


class Desk:
    """Answers questions about the models on the shelf."""

    def __init__(
        self, core: NodeCore, shelf: Shelf, pool: Pool, chronicle: Chronicle, turn_seconds: float = TURN_SECONDS
    ) -> None:
        self._core, self._shelf, self._pool, self._chronicle = core, shelf, pool, chronicle
        self._turn_seconds = turn_seconds
        self._waiting = 0
        self._seen: tuple[object, View] = (None, {})  # the newest findings, and of what they are

    async def predict(self, trainer: TrainerId, question: Question) -> View:
        """Judge inputs; see `flnet.node.base.Node`."""
        chosen = await self._shelf.pick(trainer, question.digest)
        declared = self._declared(trainer)
        spec = spec_of(declared.offers)
        if spec is None:
            raise NotOffered(f"{trainer} offers no predictions: its trainer says nothing of its inputs")
        inputs: Inputs
        if question.picture is not None:
            inputs = question.picture
        else:
            inputs = await asyncio.to_thread(read_inputs, question.inputs, spec)
        prediction = await self._in_turn(trainer, lambda: self._pool.predict(trainer, chosen.full, inputs))
        return _answer(prediction, chosen, declared)

    async def findings(self, trainer: TrainerId, kind: str, digest: str | None = None) -> View:
        """What a model shows on the own rows; see `flnet.node.studies_base.Studies`."""
        chosen = await self._shelf.pick(trainer, digest)
        if self._declared(trainer).offers.get("finds") != kind:
            if kind == "labels":
                raise NotOffered(f"{trainer} has one label space alone here: there is no correspondence to show")
            raise NotOffered(f"{trainer} looks for no groups of rows: there is nothing to show")
        of = trainer, chosen.digest, self._declared(trainer).offers.get("checksum")
        if kind != "groups" or self._seen[0] != of:  # a second of work, and the same while model and rows are
            self._seen = of, await self._in_turn(trainer, lambda: self._pool.findings(trainer, chosen.full))
        return {**self._seen[1], "model": _model(chosen)}

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        """The model as a file; see `flnet.node.base.Node`."""
        kind, dash, which = form.partition("-")
        if kind not in FORMATS or (dash and which not in MODELS):
            known, ends = " or ".join(FORMATS), " or ".join(f"-{one}" for one in MODELS)
            raise InvalidMessage(
                f"format is {form[:40]!r}; expected {known}, with {ends} after it for one of two models"
            )
        chosen = await self._shelf.pick(trainer, digest)
        if chosen.private and not same_machine:
            raise OwnMachineOnly(
                f"the models of {trainer} hold private parameters ({', '.join(sorted(chosen.private)[:5])}), "
                "which leave this node for nobody else: sign in, or ask from the machine that it runs on"
            )
        declared = self._declared(trainer)
        metadata = {**metadata_of(chosen, declared), "format": form, "model": _which(declared, kind, which)}
        if kind not in declared.offers.get("formats", FORMATS[:1]):
            raise NotOffered(f"{trainer} cannot be exported to ONNX: its trainer has no method for it")
        if kind == "onnx" or which:
            body = await self._in_turn(trainer, lambda: self._pool.export(trainer, chosen.full, metadata))
        else:
            body = await asyncio.to_thread(lambda: bytes(BinaryCodec().encode_params(chosen.full, metadata)))
        return Download(body, "application/octet-stream", f"{stem_of(chosen)}{dash}{which}.{kind}")

    async def card(self, trainer: TrainerId, digest: str) -> Download:
        """The model's card; see `flnet.node.base.Node`."""
        chosen = await self._shelf.pick(trainer, digest)
        history = await self._chronicle.records(trainer, MOST_ROUNDS, until=chosen.figures["round"])
        text = card(chosen, self._declared(trainer), history, f"{stem_of(chosen)}.safetensors")
        return Download(text.encode(), "text/markdown; charset=utf-8", f"{stem_of(chosen)}.md")

    def _declared(self, trainer: TrainerId) -> Declaration:
        declared = self._core.job(trainer).state.declaration
        assert declared is not None  # there is a model
        return declared

    async def _in_turn(self, trainer: TrainerId, work: Callable[[], Awaitable[T]]) -> T:
        if self._waiting >= MAX_WAITING:
            raise NotReady(f"{self._waiting} others wait for the lane already{self._why_busy()}; ask again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._turn_seconds):
                return await work()
        except TimeoutError as exc:
            words = f"the turn of {trainer} did not come in {self._turn_seconds:g} s{self._why_busy()}; ask again"
            raise NotReady(words) from exc
        finally:
            self._waiting -= 1

    def _why_busy(self) -> str:
        jobs = self._core.jobs.items()
        training = [name for name, job in jobs if job.phase is Phase.TRAINING]
        return f", because this node is training {', '.join(training)}" if training else ""


def metadata_of(chosen: Chosen, declared: Declaration) -> dict[str, str]:
    """What stands in a file beside the arrays; lists and mappings as JSON, what is not known left out."""
    figures, record = chosen.figures, chosen.figures["record"] or {}
    said = {
        "flnet_version": flnet.__version__,
        "trainer": chosen.trainer,
        "label": declared.label,
        "digest": chosen.digest,
        "schema_digest": figures["schema_digest"],
        "round": figures["round"],
        "contributors": record.get("contributors") or figures["contributors"],
        "accuracy": figures["accuracy"],
        "accuracy_before_averaging": record.get("pre_fedavg_accuracy"),
        "accuracy_after_averaging": record.get("post_fedavg_accuracy"),
        "examples": record.get("examples"),
        "hyper_parameters": figures["hyper"],
        "rows": figures["rows"],
        "classes": figures["classes"],
        "inputs": declared.offers.get("inputs"),
        "private": figures["private"],
        "licence": declared.offers.get("licence", ""),
        "note": declared.offers.get("note", ""),
    }
    return {name: _text(value) for name, value in said.items() if value not in (None, "", [], {})}


def _which(declared: Declaration, kind: str, chosen: str) -> str:
    """Which of a node's two models is in a file of this kind."""
    alone = declared.offers.get("alone", "")
    both = f"{MODELS[0]} and {MODELS[1]}" if alone and kind == "safetensors" else ""
    return chosen or both or alone or MODELS[0]


def stem_of(chosen: Chosen) -> str:
    """The name of a model's files, without the ending."""
    round = chosen.figures["round"]
    return f"{chosen.trainer}-{'untrained' if round < 0 else f'round{round}'}-{chosen.digest[:10]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _model(chosen: Chosen) -> View:
    return {"digest": chosen.digest, "round": chosen.figures["round"], "accuracy": chosen.figures["accuracy"]}


def _coarse(prediction: Prediction) -> View:
    """What a prediction means in the label space of the own rows; nothing where that is the same one."""
    coarse = prediction.coarse
    if coarse is None:
        return {}
    view = {
        "space": coarse.space,
        "classes": list(coarse.classes),
        "estimated": coarse.estimated,
        "probabilities": _rounded(coarse.values),
        "predicted": [coarse.classes[int(column)] for column in coarse.values.argmax(axis=1)],
    }
    return {"coarse": view}


def _rounded(values: Array) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in values.tolist()]


def _answer(prediction: Prediction, chosen: Chosen, declared: Declaration) -> View:
    figures: Mapping[str, Any] = chosen.figures
    classes = names_of_classes(declared.data.get("classes", ()), prediction.values)
    numbers = "scores" if prediction.meaning == "scores" else "probabilities"
    notes = [declared.offers.get("note", "")]
    notes += [SAMPLE_NOTE] * bool(declared.data.get("sample")) + [UNTRAINED_NOTE] * (figures["round"] < 0)
    chosen_by = {
        "answered": list(prediction.answered),
        "errors": [float(f"{error:.6g}") for error in prediction.why],
        "limit": prediction.limit,
    }
    return {
        **({"choice": chosen_by} if prediction.answered else {}),
        **_coarse(prediction),
        "classes": classes,
        numbers: _rounded(prediction.values),
        "predicted": predicted(prediction, classes),
        "model": _model(chosen),
        "note": "; ".join(note for note in notes if note),
    }
