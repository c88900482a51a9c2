"""The model service: predictions, exported files and model cards, for the operator. Work waits in the compute queue."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import flnet
from flnet.compute.prediction import columns_of, names_of_classes, predicted, read_inputs, spec_of
from flnet.compute.queue import ComputeQueue
from flnet.compute.standalone import MOST_NUMBERS, folder_of
from flnet.compute.verbs import (
    ConfusionRequest,
    DiagnoseRequest,
    ExportRequest,
    Inputs,
    MembershipRequest,
    PredictRequest,
    TrainerRequest,
)
from flnet.errors import InvalidMessage, NotOffered, NotReady, OwnMachineOnly
from flnet.fingerprints import short
from flnet.node.core import NodeCore
from flnet.node.interface import Download, PredictionInput, View
from flnet.node.model_registry import ModelRegistry, SelectedModel
from flnet.node.round_history import RoundHistory
from flnet.params.params import Array, TrainerId
from flnet.protocol.events import Declaration
from flnet.rounds.steps import Phase
from flnet.text import text
from flnet.trainer import InputSpec, Prediction
from flnet.wire.binary_codec import BinaryCodec

MOST_ROUNDS = 100  # that a card tells of, the newest before the model's own
_FOLDERS = re.compile(r"(?:[A-Za-z]:)?(?:[^/\\\s:]*[/\\]){2,}")  # a card travels; where data lie here does not
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~])")
TURN_SECONDS = 60.0  # for waiting in the compute queue and for the work itself
MAX_WAITING = 16  # requests; further ones are refused at once
# With the files' endings.
FORMATS = {"safetensors": "safetensors", "onnx": "onnx", "folder": "zip", "html": "html"}
# Other kinds are the trainer's own.
_ASKS: Mapping[str, type[MembershipRequest | ConfusionRequest]] = {
    "leaks": MembershipRequest,
    "confusion": ConfusionRequest,
}
MODELS = ("common", "personal")  # of a node with a personal model
SAMPLE_NOTE = text("the data of this trainer are generated samples")
UNTRAINED_NOTE = text("this model is not the average of any round")
T = TypeVar("T")


def card(
    chosen: SelectedModel,
    declared: Declaration,
    history: Sequence[Mapping[str, Any]],
    stem: str,
    *,
    is_operator: bool = False,
) -> str:
    """The card of one model.

    Args:
        history: records of the job's newest rounds, oldest first; those up to the model's own are told of.
        stem: name of the model's files, without the ending.
        is_operator: whether the reader may see scales of inputs that come from this node's own rows.
    """
    sections = [
        _head(chosen, declared),
        _inputs(chosen, declared, is_operator),
        _data(chosen, declared),
        _contributions(chosen),
        _rounds([record for record in history if record["round"] <= chosen.figures["round"]]),
        _loading(stem, chosen, declared),
    ]
    return "\n".join(line for section in sections for line in section) + "\n"


def _head(chosen: SelectedModel, declared: Declaration) -> list[str]:
    figures, record = chosen.figures, chosen.figures["record"] or {}
    round = figures["round"]
    hyper = ", ".join(f"{name} = {value:g}" for name, value in figures["hyper"].items())
    note = declared.offers.get("note")
    return [
        f"# {_plain(declared.label)}, {'untrained' if round < 0 else f'round {round}'}",
        "",
        *([f"**{_plain(note)}**", ""] if note else []),
        "| | |",
        "| --- | --- |",
        f"| trainer | `{chosen.trainer}` |",
        f"| digest | `{chosen.digest}` |",
        f"| schema | `{figures['schema_digest']}` |",
        f"| averaged from | {_contributors(figures, record)} |",
        f"| accuracy before averaging | {_accuracy(record.get('pre_fedavg_accuracy'))} |",
        f"| accuracy after averaging | {_accuracy(record.get('post_fedavg_accuracy'))} |",
        f"| accuracy of this model | {_accuracy(figures['accuracy'])} |",
        f"| hyper-parameters | {hyper or 'this node did not train in this round'} |",
        f"| parameters | {sum(value.size for value in chosen.full.values()):,} in {len(chosen.full)} arrays |",
        f"| private parameters | {', '.join(f'`{name}`' for name in figures['private']) or 'none'} |",
        f"| licence | {_plain(declared.offers.get('licence') or text('not stated'))} |",
        *_secure_sum(record),
        *_privacy(record),
        f"| made by | flnet {flnet.__version__} |",
        "",
        "Accuracies are in [0, 1], on the test split of the node that wrote this card.",
        "",
    ]


def _secure_sum(record: Mapping[str, Any]) -> list[str]:
    """That only the sum of the updates was opened."""
    secure = record.get("secure")
    return [f"| secure sum | {_plain(secure['words'])} |"] if secure else []


def _privacy(record: Mapping[str, Any]) -> list[str]:
    """What the node that writes the card had promised of its update, and spent with it."""
    privacy = record.get("privacy")
    return [f"| privacy of this node's update | {_plain(privacy['words'])} |"] if privacy else []


def _inputs(chosen: SelectedModel, declared: Declaration, is_operator: bool) -> list[str]:
    """What the model takes and gives: shape, range, columns with their scales, and the order of the classes."""
    spec, classes = spec_of(declared.offers), chosen.figures["classes"]
    lines = ["## Inputs and outputs", ""]
    if spec is None:
        lines += ["The trainer does not describe its inputs.", ""]
    else:
        shape = " x ".join(map(str, ("n", *spec.shape)))
        lines += ["| | |", "| --- | --- |", f"| inputs | {spec.kind}, {shape} numbers (float32) |"]
        lines += [f"| range | {_range(spec)} |"]
        lines += [f"| in words | {_plain(spec.hint)} |"] if spec.hint else []
        lines += [f"| pictures | {_squeezed(spec)} |"] if spec.kind == "image" else []
        lines += ["", *_columns(spec, declared, is_operator)]
    if classes:
        order = "; ".join(f"{place}: {_plain(name)}" for place, name in enumerate(classes))
        numbers = "1 number" if len(classes) == 1 else f"{len(classes)} numbers, in this order"
        lines += [f"For each input the model gives {numbers}: {order}.", ""]
    meaning = _meaning(declared, len(classes))
    return [*lines, meaning, ""] if meaning else lines


def _meaning(declared: Declaration, numbers: int) -> str:
    """What the numbers are and how a prediction follows; empty where the trainer does not say."""
    match declared.offers.get("predicts"):
        case "one_of":
            return "They are probabilities that sum to 1: one class is right, and the likeliest is predicted."
        case "any_of":
            least = declared.offers["threshold"]
            return (
                "They are probabilities of labels of which several may hold at once, or none: each number is in "
                f"[0, 1] by itself, and a label is predicted if its number is {least:g} or more."
            )
        case "scores" if numbers > 1:
            return "They are scores, no probabilities: the largest wins."
        case "scores":
            return "It is the predicted value itself, no probability."
    return ""


def _range(spec: InputSpec) -> str:
    missing = ", or NaN for a missing one" if spec.gaps else ""
    if spec.low is None and spec.high is None:
        return f"any finite number{missing}"
    low, high = ("any number" if bound is None else f"{bound:g}" for bound in (spec.low, spec.high))
    return f"{low} to {high}{missing}"


def _squeezed(spec: InputSpec) -> str:
    """How flnet makes inputs of picture files (`flnet.datasets.pictures`): another filter gives other figures."""
    height, width = spec.shape[:2]
    low, high = _ends(spec)
    colours = "RGB" if spec.shape[2:] == (3,) else "grey"
    steps = f"turned upright, made {colours}, squeezed to {width} x {height} pixels by Lanczos resampling"
    return steps if (low, high) == (0, 255) else f"{steps}, and 0 to 255 brought to {low:g} to {high:g}"


def _ends(spec: InputSpec) -> tuple[float, float]:
    """What black and white become, as in `picture_input`."""
    return 0.0 if spec.low is None else spec.low, 255.0 if spec.high is None else spec.high


def _columns(spec: InputSpec, declared: Declaration, is_operator: bool) -> list[str]:
    """The columns in their order; with the mean and spread by which each is scaled, if there are any."""
    scale = declared.offers.get("scale") or []
    hidden = declared.offers.get("scale_is_own") and not is_operator
    names = spec.names or [str(place) for place in range(len(scale))]
    if not names:
        return []
    lines = [_row(["column", *(["mean", "spread"] if scale and not hidden else [])])]
    lines += [_row(["---"] * (lines[0].count("|") - 1))]
    for place, name in enumerate(names):
        lines.append(
            _row([_plain(name), *([f"{value:.6g}" for value in scale[place]] if scale and not hidden else [])])
        )
    return [*lines, "", *_words(spec), *(_scaling(spec, declared, hidden=bool(hidden)) if scale else [])]


def _scaling(spec: InputSpec, declared: Declaration, *, hidden: bool) -> list[str]:
    own = bool(declared.offers.get("scale_is_own"))
    if hidden:
        lines = ["The network takes scaled columns. The scales are of this node's own rows: ask its operator."]
    else:
        missing = ", and 0 for a missing value" if spec.gaps else ""
        lines = [f"The network takes (value - mean) / spread of each column{missing}."]
    given = "the values as they are" + (", and NaN for a missing one" if spec.gaps else "")
    lines += [f"The ONNX file computes this itself: give it {given}."]
    if own:
        lines += [
            "Means and spreads of this node's own training rows change when rows are added here. "
            "Then the same digest gives somewhat other numbers, and another ONNX file."
        ]
    return ["\n".join(lines), ""]


def _words(spec: InputSpec) -> list[str]:
    """How words of the data set become numbers."""
    columns = {column: words for column, words in columns_of(spec.names).items() if words}
    if not columns:
        return []
    column, words = next(iter(columns.items()))
    missing = "; all of them are 0 where the word is missing" if spec.gaps else ""
    quoted = {name: ", ".join(f'"{_plain(word)}"' for word in words) for name, words in columns.items()}
    told = "; ".join(f"{_plain(name)}: {words}" for name, words in quoted.items())
    return [
        f"Columns of words have a number for each word: {_plain(f'{column}={words[0]}')} is 1 where {_plain(column)} is "
        f'"{_plain(words[0])}", and 0 for its other words{missing}. The words are: {told}.',
        "",
    ]


def _data(chosen: SelectedModel, declared: Declaration) -> list[str]:
    data, counts = declared.data, declared.offers.get("counts") or {}
    rows, classes = chosen.figures["rows"], chosen.figures["classes"]
    source = _plain(_FOLDERS.sub("", str(data.get("source", "")))) or text("not described")
    lines = ["## Data of this node", "", ("Generated sample data: " if data.get("sample") else "") + source, ""]
    columns = [_plain(name) for name in classes] if counts else []
    lines += [_row(["split", "rows", *columns]), _row(["---"] * (2 + len(columns)))]
    lines += [
        _row([_plain(split), str(number), *map(str, counts.get(split, ()))]) for split, number in rows.items()
    ]
    if classes and not counts:
        lines += ["", f"Classes: {', '.join(_plain(name) for name in classes)}"]
    return [*lines, "", "The data of the other nodes are known to those nodes alone.", ""]


def _rounds(history: Sequence[Mapping[str, Any]]) -> list[str]:
    if not history:
        return []
    lines = ["## Rounds that this node took part in", ""]
    lines += [_row(["round", "contributors", "before averaging", "after", "adopted from"]), _row(["---"] * 5)]
    for record in history:
        before, after = _accuracy(record["pre_fedavg_accuracy"]), _accuracy(record["post_fedavg_accuracy"])
        adopted = _plain(record["exchanged_with"] or "")
        lines.append(_row([str(record["round"]), str(len(record["contributors"])), before, after, adopted]))
    return [*lines, ""]


def _contributions(chosen: SelectedModel) -> list[str]:
    """The contributors of this model, for people and for `flnet audit --card`."""
    record = chosen.figures["record"] or {}
    stated = record.get("contributions") or []
    if not stated or record.get("digest") != chosen.digest:
        return []
    weighed = record.get("weighed") or {}
    columns = ["node", "fingerprint of its key", "examples", "weight in the average"]
    lines = ["## Who contributed", "", _row(columns), _row(["---"] * len(columns))]
    for one in stated:
        if record.get("secure"):
            lines.append(_row([_plain(one["peer"]), *["hidden in the sum"] * 3]))
            continue
        key = short(one["key"]) if one.get("key") and one.get("signature") else "not signed"
        weight = (weighed.get(one["peer"]) or {}).get("weight")
        share = "not one number" if weight is None else f"{weight:.4f}"
        lines.append(_row([_plain(one["peer"]), key, str(one["examples"]), share]))
    for peer, one in weighed.items():
        if one.get("reason"):
            lines.append(_row([_plain(peer), "", "", text("left out: {names}", _plain(one["reason"]))]))
    stated_record = {
        **{name: record[name] for name in ("round", "initiator", "contributions")},
        **{name: record[name] for name in ("secure", "privacy") if record.get(name)},
        "weighed": weighed,
    }
    whole = json.dumps({"trainer": chosen.trainer, "digest": chosen.digest, **stated_record}, ensure_ascii=True)
    return [*lines, "", "```json", whole, "```", ""]


def _loading(stem: str, chosen: SelectedModel, declared: Declaration) -> list[str]:
    """Python code that loads the files of this model."""
    lines = [
        "## Loading it",
        "",
        "The arrays:",
        "",
        "```python",
        "from safetensors.numpy import load_file",
        "",
        f'params = load_file("{stem}.safetensors")',
        "print({name: (array.shape, array.dtype) for name, array in params.items()})",
        "```",
    ]
    spec = spec_of(declared.offers)
    if "onnx" not in declared.offers.get("formats", ()) or spec is None:
        return lines
    return [
        *lines,
        "",
        "The model, which needs no flnet and no framework (`pip install onnxruntime`):",
        "",
        "```python",
        "import numpy as np",
        "import onnxruntime",
        *(_reading_pictures(spec) if spec.kind == "image" else []),
        "",
        f'model = onnxruntime.InferenceSession("{stem}.onnx")',
        f"inputs = np.full({(1, *spec.shape)}, {spec.low or 0.0:g}, np.float32)  # {_own_values(spec)}",
        f"classes = {list(chosen.figures['classes'])!r}",
        "(values,) = model.run(None, {model.get_inputs()[0].name: inputs})",
        "for row in values:",
        f"    print({_reading(declared, len(chosen.figures['classes']))})",
        "```",
        "",
        "## Giving it away",
        "",
        f'"{stem}.zip" (`flnet export --format folder`) has a folder with this ONNX file and `predict.py`, which reads '
        f"{'pictures' if spec.kind == 'image' else 'rows as they stand in the data'}:",
        "",
        "```sh",
        "pip install -r requirements.txt",
        f"python predict.py {'NAME.jpg' if spec.kind == 'image' else 'rows.csv'}",
        "```",
        "",
        f'"{stem}.html" (`flnet export --format html`) is one page that predicts offline in a browser. It takes '
        f"{MOST_NUMBERS:,} parameters at most, and linear models, dense layers and small convolutional networks only.",
    ]


def _own_values(spec: InputSpec) -> str:
    if spec.kind == "image":
        return 'or picture("NAME.jpg")'
    return "put your own values here" + (", np.nan for a missing one" if spec.gaps else "")


def _reading(declared: Declaration, classes: int) -> str:
    """Code of what is predicted from a row of numbers, with these beside it."""
    match declared.offers.get("predicts"):
        case "one_of" | "scores" if classes > 1:
            return "classes[row.argmax()], dict(zip(classes, row.tolist()))"
        case "any_of" if classes:
            chosen = f"[name for name, value in zip(classes, row) if value >= {declared.offers['threshold']:g}]"
            return f"{chosen}, dict(zip(classes, row.tolist()))"
    return "dict(zip(classes or range(len(row)), row.tolist()))"


def _reading_pictures(spec: InputSpec) -> list[str]:
    """A function that makes an input of a picture file, step by step as `flnet.datasets.pictures` does."""
    height, width = spec.shape[:2]
    low, high = _ends(spec)
    mode = "RGB" if spec.shape[2:] == (3,) else "L"
    scaled = "" if (low, high) == (0, 255) else f"{low:g} + ({high:g} - {low:g}) / 255 * "
    return [
        "",
        "",
        "def picture(path):  # pip install pillow",
        "    from PIL import Image, ImageOps",
        "",
        "    with Image.open(path) as opened:",
        f'        opened.draft("{mode}", ({2 * width}, {2 * height}))',
        "        upright = ImageOps.exif_transpose(opened)",
        '        if upright.mode.startswith("I"):  # 16 bits a pixel',
        "            upright = Image.fromarray((np.asarray(upright) / 257).clip(0, 255).astype(np.uint8))",
        f'        narrow = upright.convert("{mode}").resize(({width}, upright.height), Image.Resampling.LANCZOS)',
        f"        small = narrow.resize(({width}, {height}), Image.Resampling.LANCZOS)  # width first",
        f"    values = {scaled}np.asarray(small, np.float32)",
        f"    return values.reshape{(1, *spec.shape)}.astype(np.float32)",
        "",
    ]


def _contributors(figures: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    count = figures["contributors"]
    names = ", ".join(_plain(name) for name in record.get("contributors") or ())
    return f"{count} update{'' if count == 1 else 's'}{f' ({names})' if names else ''}"


def _accuracy(value: Any) -> str:
    return "not measured" if value is None else f"{value:.4f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text on one line that Markdown shows as it is: peers' names are text, never markup."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)).split())
    return _MARKUP.sub(r"\\\1", line)


class ModelService:
    """Answers questions about the models on the registry."""

    def __init__(
        self,
        core: NodeCore,
        registry: ModelRegistry,
        pool: ComputeQueue,
        history: RoundHistory,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self._core, self._registry, self._pool, self._history = core, registry, pool, history
        self._turn_seconds = turn_seconds
        self._waiting = 0
        self._seen: tuple[object, View] = (None, {})  # the newest findings, and of what they are

    async def predict(self, trainer: TrainerId, question: PredictionInput) -> View:
        """Predict inputs; see `flnet.node.interface.Node`."""
        chosen = await self._registry.pick(trainer, question.digest)
        declared = self._declared(trainer)
        spec = spec_of(declared.offers)
        if spec is None:
            raise NotOffered(
                text("{trainer} offers no predictions: its trainer says nothing of its inputs", trainer)
            )
        inputs: Inputs
        if question.picture is not None:
            inputs = question.picture
        else:
            inputs = await asyncio.to_thread(read_inputs, question.inputs, spec)
        prediction = await self._call(trainer, PredictRequest(chosen.full, inputs))
        return _answer(prediction, chosen, declared)

    async def findings(self, trainer: TrainerId, kind: str, digest: str | None = None) -> View:
        """Diagnose a model on this node's rows; see `flnet.node.interface.Studies`."""
        chosen = await self._registry.pick(trainer, digest)
        self._refuse_absent(trainer, kind)
        of = trainer, kind, chosen.digest, self._declared(trainer).offers.get("checksum")
        if kind == "labels" or self._seen[0] != of:  # seconds of work, and the same while model and rows are
            ask = _ASKS.get(kind, DiagnoseRequest)
            self._seen = of, await self._call(trainer, ask(chosen.full))
        return {**self._seen[1], "model": _model(chosen)}

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        """The model as a file; see `flnet.node.interface.Node`."""
        kind, dash, which = form.partition("-")
        if kind not in FORMATS or (dash and which not in MODELS):
            known, ends = ", ".join(FORMATS), " or ".join(f"-{one}" for one in MODELS)
            raise InvalidMessage(
                text(
                    "format is {form}; expected {known}, with {names} after it for one of two models",
                    repr(form[:40]),
                    known,
                    ends,
                )
            )
        chosen = await self._registry.pick(trainer, digest)
        if chosen.private and not same_machine:
            raise OwnMachineOnly(
                text(
                    "the models of {trainer} hold private parameters ({names}), which leave this node "
                    "for nobody else: sign in, or ask from the machine that it runs on",
                    trainer,
                    ", ".join(sorted(chosen.private)[:5]),
                )
            )
        declared = self._declared(trainer)
        inside = f"onnx{dash}{which}" if kind == "folder" else form
        metadata = {**metadata_of(chosen, declared), "format": inside, "model": _which(declared, kind, which)}
        if kind not in declared.offers.get("formats", ("safetensors",)):
            raise NotOffered(
                text("{trainer} cannot be exported to ONNX: its trainer has no method for it", trainer)
            )
        if kind != "safetensors" and declared.offers.get("scale_is_own") and not same_machine:
            raise OwnMachineOnly(
                text(
                    "this file of {trainer} holds means of this node's own rows, which leave it for nobody else: "
                    "sign in, or ask from the machine that it runs on",
                    trainer,
                )
            )
        stem = f"{stem_of(chosen)}{dash}{which}"
        if kind == "safetensors" and not which:
            body = await asyncio.to_thread(lambda: bytes(BinaryCodec().encode_params(chosen.full, metadata)))
        else:
            body = await self._call(trainer, ExportRequest(chosen.full, metadata))
        if kind == "folder":
            card = await self.card(trainer, digest, same_machine=same_machine)
            named = card.body.replace(f'"{stem_of(chosen)}.'.encode(), f'"{stem}.'.encode())
            body = await asyncio.to_thread(folder_of, body, metadata, stem, named)
        return Download(body, "application/octet-stream", f"{stem}.{FORMATS[kind]}")

    async def card(self, trainer: TrainerId, digest: str, *, same_machine: bool = False) -> Download:
        """The model's card; see `flnet.node.interface.Node`."""
        chosen = await self._registry.pick(trainer, digest)
        history = await self._history.records(trainer, MOST_ROUNDS, until=chosen.figures["round"])
        text = card(chosen, self._declared(trainer), history, stem_of(chosen), is_operator=same_machine)
        return Download(text.encode(), "text/markdown; charset=utf-8", f"{stem_of(chosen)}.md")

    def _refuse_absent(self, trainer: TrainerId, kind: str) -> None:
        """Refuse what the trainer has nothing of."""
        offers = self._declared(trainer).offers
        if kind in _ASKS and spec_of(offers) is None:
            raise NotOffered(
                text("{trainer} offers no predictions: its trainer says nothing of its inputs", trainer)
            )
        if kind in (*_ASKS, offers.get("finds")):
            return
        if kind == "labels":
            raise NotOffered(
                text("{trainer} has one label space alone here: there is no correspondence to show", trainer)
            )
        raise NotOffered(text("{trainer} looks for no groups of rows: there is nothing to show", trainer))

    def _declared(self, trainer: TrainerId) -> Declaration:
        declared = self._core.job(trainer).settings.declaration
        assert declared is not None  # there is a model
        return declared

    async def _call(self, trainer: TrainerId, request: TrainerRequest[T]) -> T:
        if self._waiting >= MAX_WAITING:
            raise NotReady(
                text(
                    "{count} other requests are waiting already{busy}; ask again later",
                    self._waiting,
                    self._why_busy(),
                )
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(self._turn_seconds):
                return await self._pool.call(trainer, request)
        except TimeoutError as exc:
            words = text(
                "the turn of {trainer} did not come in {seconds} s{busy}; ask again",
                trainer,
                f"{self._turn_seconds:g}",
                self._why_busy(),
            )
            raise NotReady(words) from exc
        finally:
            self._waiting -= 1

    def _why_busy(self) -> str:
        jobs = self._core.jobs.items()
        training = [name for name, job in jobs if job.phase is Phase.TRAINING]
        return text(", because this node is training {names}", ", ".join(training)) if training else ""


def metadata_of(chosen: SelectedModel, declared: Declaration) -> dict[str, str]:
    """The metadata of a file; lists and mappings as JSON, unknown values left out."""
    figures, record = chosen.figures, chosen.figures["record"] or {}
    metadata = {
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
        "preprocessing": _preprocessing(declared),
        "predicts": declared.offers.get("predicts", ""),
        "threshold": declared.offers.get("threshold") if declared.offers.get("predicts") == "any_of" else None,
        "private": figures["private"],
        "licence": declared.offers.get("licence", ""),
        "note": declared.offers.get("note", ""),
    }
    return {name: _text(value) for name, value in metadata.items() if value not in (None, "", [], {})}


def _preprocessing(declared: Declaration) -> str:
    """How inputs are made: what the network of an ONNX file does not do by itself."""
    spec = spec_of(declared.offers)
    if spec is None:
        return ""
    if spec.kind == "image":
        return _squeezed(spec)
    return "values as they stand in the data" + (", NaN for a missing one" if spec.gaps else "")


def _which(declared: Declaration, kind: str, chosen: str) -> str:
    """Which of a node's two models is in a file of this kind."""
    alone = declared.offers.get("alone", "")
    both = f"{MODELS[0]} and {MODELS[1]}" if alone and kind == "safetensors" else ""
    return chosen or both or alone or MODELS[0]


def stem_of(chosen: SelectedModel) -> str:
    """The name of a model's files, without the ending."""
    round = chosen.figures["round"]
    return f"{chosen.trainer}-{'untrained' if round < 0 else f'round{round}'}-{chosen.digest[:10]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _model(chosen: SelectedModel) -> View:
    return {"digest": chosen.digest, "round": chosen.figures["round"], "accuracy": chosen.figures["accuracy"]}


def _coarse(prediction: Prediction) -> View:
    """The prediction in the label space of this node's rows; None if that is the same one."""
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


def _answer(prediction: Prediction, chosen: SelectedModel, declared: Declaration) -> View:
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
