"""Trainers without code: the TOML description of a folder of images or of a table.

The file is in FLNET_TRAINERS_PATH; its name is the trainer's id. The node reads it to know what is wrong with it, and the
training child reads it again to make the trainer. Neither needs a framework for that.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from flnet.datasets.files import replacing
from flnet.errors import DataMissing, ImportRefused, InvalidMessage, NoRoom, TrainerError
from flnet.labels.losses import Labels
from flnet.labels.spaces import Labelling
from flnet.params.params import Array
from flnet.protocol.messages import explain
from flnet.text import joined, text
from flnet.trainer import TrainerSettings

_LARGEST_FILE = 1_000_000  # bytes; a list of a thousand columns takes a hundredth of that
_LONGEST_NAME = 1000  # characters; more do not become 200 when they are composed


def _name(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable() or len(name) > 200:
        raise ValueError(text("expected 1 to 200 printable characters, without space around them"))
    return name


def _composed(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        return name  # it is refused at once; with many accents in a row, composing it would take for ever
    return unicodedata.normalize("NFC", name)  # as names and words are read from data


def _different(names: list[str]) -> list[str]:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(text("{name} stands there twice", ", ".join(twice)))
    return names


Printable = Annotated[str, AfterValidator(_name)]
Name = Annotated[str, AfterValidator(_composed), AfterValidator(_name)]
Names = Annotated[list[Name], Field(min_length=1), AfterValidator(_different)]
Classes = Annotated[list[Name], Field(min_length=2, max_length=1000), AfterValidator(_different)]
Scale = Annotated[list[float], Field(min_length=2, max_length=2)]
Positive = Annotated[float, Field(gt=0)]


class Own(BaseModel):
    """Base of the two kinds of trainers without code."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    data: Printable  # relative to FLNET_DATASETS_PATH, or absolute
    label: str = Field(default="", max_length=100)
    licence: str = Field(default=text("not stated"), max_length=200)
    note: str = Field(default="", max_length=500)
    offered: bool = False  # whether other nodes are shown this description, which their persons may take over
    epochs: int = Field(default=5, ge=1, le=10_000)
    rate: float = Field(default=0.02, gt=0, le=1_000)
    batch: int = Field(default=32, ge=1, le=1_000_000)
    split: Annotated[list[Positive], Field(min_length=3, max_length=3)] = [70, 10, 20]
    common_test: Printable | None = None  # a place as `data`; the same rows on all nodes, on which nobody trains

    @property
    def shares(self) -> dict[str, float]:
        """The proportions of training, validation and test."""
        return dict(zip(("train", "validation", "test"), self.split, strict=True))

    def path(self, settings: TrainerSettings) -> Path:
        """Where the data are.

        Raises:
            DataMissing: they are not there, or FLNET_DATASETS_PATH is needed and not set.
        """
        return _found("data", self.data, settings)

    def of_common_test(self, settings: TrainerSettings) -> Self | None:
        """The same description with the common test as its data; None if there is none.

        Raises:
            DataMissing: it is not there, or FLNET_DATASETS_PATH is needed and not set.
        """
        if self.common_test is None:
            return None
        return self.model_copy(update={"data": str(_found("common_test", self.common_test, settings))})


def _found(option: str, place: str, settings: TrainerSettings) -> Path:
    path = Path(place).expanduser()
    if not path.is_absolute():
        if settings.datasets_path is None:
            how = text("set it to the folder in which that lies, or write the whole path")
            raise DataMissing(
                text(
                    "{option} = {path} is relative to FLNET_DATASETS_PATH, which is not set", option, repr(place)
                ),
                how,
            )
        path = settings.datasets_path / path
    if not path.exists():
        raise DataMissing(
            text("{path} is not there", path),
            text("put the data there, or correct {option} in the trainer's file", option),
        )
    return path


class OwnImages(Own):
    """kind = "images": a folder with a folder of images for each class."""

    kind: Literal["images"]
    size: int = Field(default=32, ge=8, le=512)
    colour: Literal["grey", "rgb"] = "rgb"
    classes: Classes | None = None
    on_bad_file: Literal["stop", "skip"] = "stop"
    model: Literal["small-cnn", "linear"] = "small-cnn"

    def agreement(self, classes: Iterable[str]) -> dict[str, str]:
        """The values that must be equal on all nodes."""
        return {"classes": listed(classes), "size": str(self.size), "colour": self.colour, "model": self.model}


class OwnTable(Own):
    """kind = "table": a CSV or Parquet file with a row for each example."""

    kind: Literal["table"]
    target: Name
    task: Literal["classify", "regress"] = "classify"
    classes: Classes | None = None
    features: Names | None = None
    ignore: Names | None = None
    categories: dict[Name, Names] = {}
    scale: dict[Name, Scale] = {}
    target_scale: Scale | None = None
    id: Name | None = None
    split_by: Name | None = None  # a column that says of each row on which side it is
    coarse: Name | None = None  # where nodes label differently: the label in this node's own classes
    missing: Literal["stop", "skip", "mean"] = "stop"
    no_value: Annotated[
        list[Name], Field(max_length=100), AfterValidator(_different)
    ] = []  # words for a missing value
    separator: Literal[",", ";", "tab"] = ","
    decimal: Literal[".", ","] = "."
    model: Literal["linear", "mlp"] = "linear"
    hidden: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=8)] = [32]

    @model_validator(mode="after")
    def _fits_together(self) -> OwnTable:
        if self.task == "regress" and self.target_scale is None:
            raise ValueError(
                text("task = regress needs target_scale = [mean, spread], rough, and the same on all nodes")
            )
        if self.task == "regress" and self.classes is not None:
            raise ValueError(text("classes is for task = classify only"))
        if self.task == "classify" and self.target_scale is not None:
            raise ValueError(text("target_scale is for task = regress only"))
        if self.task == "regress" and self.coarse:
            raise ValueError(text("coarse is for task = classify only"))
        for name, pair in (*self.scale.items(), ("target_scale", self.target_scale or [0, 1])):
            if pair[1] <= 0:
                raise ValueError(
                    text("the spread of {name} is {value}; expected more than 0", name, f"{pair[1]:g}")
                )
        if self.decimal == self.separator:
            raise ValueError(text('decimal and separator are both ","; expected different signs'))
        if both := sorted(self.categories.keys() & self.scale.keys()):
            raise ValueError(text("{name} stands in categories and in scale; expected one of them", both[0]))
        return self._check_uses_of_columns()

    def _check_uses_of_columns(self) -> OwnTable:
        if self.id and self.split_by:
            raise ValueError(
                text("id deals rows together, and split_by says where each goes; expected one of them")
            )
        single = {"target": self.target, "id": self.id, "coarse": self.coarse, "split_by": self.split_by}
        uses = {use: [name] if name else [] for use, name in single.items()}
        uses |= {"ignore": self.ignore or [], "features": self.features or []}
        seen: dict[str, str] = {}
        for use, names in uses.items():
            for name in names:
                if name in seen:
                    raise ValueError(
                        text("column {name} is {one} and {other}; expected one of them", name, seen[name], use)
                    )
                seen[name] = use
        for use, named in (("categories", self.categories), ("scale", self.scale)):
            for name in named:
                if seen.get(name, "features") != "features" or (self.features and name not in self.features):
                    raise ValueError(text("{use} names {name}, which is no feature", use, name))
        return self

    def agreement(self, features: Iterable[str], classes: Iterable[str]) -> dict[str, str]:
        """The values that must be equal on all nodes; the scaling of numbers is one of them only if it is agreed."""
        goal = {"classes": listed(classes)}
        if self.target_scale is not None:
            goal = {"target_scale": listed(f"{number:g}" for number in self.target_scale)}
        model = f"mlp {listed(map(str, self.hidden))}" if self.model == "mlp" else self.model
        kinds = ", ".join(map(self._described, features))
        return {"task": self.task, "target": _quoted(self.target), **goal, "features": kinds, "model": model}

    def inputs(self, features: Iterable[str]) -> tuple[str, ...]:
        """The names of a model's inputs: of a category "column=value", for each value."""
        named = (
            [f"{name}={value}" for value in self.categories[name]] if name in self.categories else [name]
            for name in features
        )
        return tuple(name for names in named for name in names)

    def _described(self, feature: str) -> str:
        words = _quoted(feature)
        if feature in self.categories:
            words += f" ({'/'.join(map(_quoted, self.categories[feature]))})"
        if feature in self.scale:
            words += " [{:g} {:g}]".format(*self.scale[feature])
        return words


class _Setting(BaseModel):
    """Base of options that have options of their own."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class OwnOutputNoise(_Setting):
    """The option output_noise; see `flnet.vertical_trainer.OutputDefence`."""

    clip: Positive
    multiplier: float = Field(ge=0)


class OwnGradientNoise(_Setting):
    """The option gradient_noise; see `flnet.vertical_trainer.GradientDefence`."""

    rule: Literal["isotropic", "max-norm"]
    scale: Positive = 1.0

    @model_validator(mode="after")
    def _fits_together(self) -> OwnGradientNoise:
        if self.rule == "max-norm" and "scale" in self.model_fields_set:
            raise ValueError(text("scale is for rule = isotropic only"))
        return self


_NETWORK_OPTIONS = (
    *("hidden", "width", "several_labels"),
    *("output_noise", "gradient_noise", "tells_score", "in_flight"),
)


class OwnColumns(Own):
    """kind = "vertical": a CSV or Parquet file with this node's columns of people whom other nodes know, too."""

    kind: Literal["vertical"]
    data: Annotated[str, Field(max_length=4096)] = ""
    method: Literal["split-network", "encrypted-regression"] = "split-network"
    hides_matches: bool = False
    rate: float = Field(default=0.005, gt=0, le=1_000)
    batch: int = Field(default=64, ge=1, le=1_000_000)
    id: Name = ""
    target: Name | None = None
    features: Annotated[list[Name], AfterValidator(_different)] | None = None
    ignore: Names | None = None
    share_names: bool = False
    separator: Literal[",", ";", "tab"] = ","
    hidden: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(max_length=8)] = [32]
    width: int = Field(default=16, ge=1, le=4096)
    several_labels: bool = False
    output_noise: OwnOutputNoise | None = None
    gradient_noise: OwnGradientNoise | None = None
    tells_score: bool = True
    in_flight: int = Field(default=1, ge=1, le=64)
    allow_predictions: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> OwnColumns:
        for name in ("epochs", "split", "offered", "common_test"):
            if name in self.model_fields_set:
                raise ValueError(text("{key} is no option of kind = vertical", name))
        self._check_method()
        for name in ("gradient_noise", "tells_score"):
            if name in self.model_fields_set and not self.target:
                raise ValueError(text("{key} is for nodes with a label; it needs target", name))
        uses = {"id": [self.id], "target": [self.target] if self.target else []}
        uses |= {"ignore": self.ignore or [], "features": self.features or []}
        seen: dict[str, str] = {}
        for use, names in uses.items():
            for name in names:
                if name in seen:
                    raise ValueError(
                        text("column {name} is {one} and {other}; expected one of them", name, seen[name], use)
                    )
                seen[name] = use
        return self

    def _check_method(self) -> None:
        if self.is_encrypted:
            for name in _NETWORK_OPTIONS:
                if name in self.model_fields_set:
                    raise ValueError(text("{key} is no option of method = encrypted-regression", name))
        elif self.hides_matches:
            raise ValueError(text("hides_matches is for method = encrypted-regression only"))
        if self.allow_predictions and self.hides_matches:
            raise ValueError(
                text("allow_predictions would tell which rows match, and hides_matches = true hides that")
            )
        if self.holds_key:
            for name in ("id", "target", "features", "ignore", "share_names", "separator", "allow_predictions"):
                if name in self.model_fields_set:
                    raise ValueError(
                        text("{key} is for a node with data; a node without data holds the key only", name)
                    )
            return
        for name in ("data", "id"):
            if not getattr(self, name):
                raise ValueError(text("{key} is missing", name))

    @property
    def is_encrypted(self) -> bool:
        """Whether the nodes train an encrypted regression."""
        return self.method == "encrypted-regression"

    @property
    def holds_key(self) -> bool:
        """Whether this node holds the key of an encrypted regression: it has no data of the job."""
        return self.is_encrypted and not self.data

    @property
    def hyper(self) -> tuple[float, int]:
        """Rate and rows of a batch, with other defaults for encrypted regression."""
        usual = (0.05, 256) if self.is_encrypted else (self.rate, self.batch)
        stated = self.model_fields_set
        return (self.rate if "rate" in stated else usual[0]), (self.batch if "batch" in stated else usual[1])


AnyOwn = OwnImages | OwnTable | OwnColumns
KINDS: Mapping[str, type[AnyOwn]] = {"images": OwnImages, "table": OwnTable, "vertical": OwnColumns}


def read_own(path: Path) -> AnyOwn:
    """Read a trainer's TOML file.

    Raises:
        TrainerError: it cannot be read, or says something that is no option or breaks a rule; names file, line
            and key.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise TrainerError(
                text("{path} is larger than {most} bytes; a trainer's file has a few lines", path, _LARGEST_FILE)
            )
        value = path.read_text("utf-8")
        lines = tomllib.loads(value)
    except tomllib.TOMLDecodeError as exc:
        raise TrainerError(_toml_error(path, value, str(exc))) from exc
    except (OSError, ValueError, RecursionError) as exc:  # ValueError: no UTF-8, or a number of 5000 digits
        raise TrainerError(text("{path} cannot be read as TOML: {reason}", path, exc)) from exc
    kind = lines.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        got = f", got {_shortened(kind, json.dumps)}" if isinstance(kind, str | int | float) else ""
        raise TrainerError(
            text(
                '{where}: expected kind = "images", kind = "table" or kind = "vertical"{got_kind}',
                _place_of_key(path, value, "kind"),
                got,
            )
        )
    try:
        return KINDS[kind].model_validate(lines)
    except ValidationError as exc:
        problems = [_problem(path, value, kind, error) for error in exc.errors(include_url=False)[:5]]
        raise TrainerError(joined(problems)) from exc


def checked_own(fields: Mapping[str, Any]) -> AnyOwn:
    """The description of a trainer in options that are no file's: of a form, or of another node, which may say anything.

    Raises:
        InvalidMessage: an option breaks a rule; says which.
    """
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidMessage(text("expected kind images, table or vertical, got {value}", repr(kind)[:60]))
    try:
        return KINDS[kind].model_validate(fields)
    except ValidationError as exc:
        raise InvalidMessage(explain(exc)) from exc


def toml_of(own: Own) -> str:
    """The lines of a trainer's file, with the options that are stated: `read_own` gives the same description again."""
    lines, tables = [], []
    stated = own.model_dump(mode="json", exclude_unset=True)
    for name, value in {"kind": stated.pop("kind"), **stated}.items():
        if isinstance(value, dict):
            inside = (f"{_toml_key(str(key))} = {_toml_value(each)}" for key, each in value.items())
            tables += ["", f"[{name}]", *inside]
        elif value is not None:
            lines.append(f"{name} = {_toml_value(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def write_own(folder: Path, name: str, own: Own) -> Path:
    """Write the file of a trainer; it is there whole or not at all.

    Raises:
        ImportRefused: the name is none for a trainer, or there is such a file already.
        NoRoom: it cannot be written.
    """
    check_trainer_id(name)
    path = folder / f"{name}.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise ImportRefused(text("{path} is there already; choose another name, or remove it", path))
        with replacing(path) as file:
            file.write(toml_of(own).encode())
    except OSError as exc:
        raise NoRoom(text("{path} cannot be written: {reason}", path, exc.strerror or exc)) from exc
    return path


def check_trainer_id(name: str) -> None:
    """Refuse an id that no trainer may have.

    Raises:
        ImportRefused: says what is expected.
    """
    if not is_trainer_id(name):
        raise ImportRefused(
            text(
                "{name} is no name of a trainer: expected 1 to 64 letters, digits and underscores", repr(name[:80])
            )
        )


def is_trainer_id(name: str) -> bool:
    """Whether a trainer may have this id."""
    return re.fullmatch(r"[A-Za-z0-9_]{1,64}", name) is not None


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _toml_text(value) if isinstance(value, str) else repr(value)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_text(name)


def _toml_text(words: str) -> str:
    """A basic string (TOML 1.0): like one of JSON, but that DEL is escaped, too."""
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")


def listed(names: Iterable[str]) -> str:
    """Names in one line from which they can be told apart again."""
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) if re.search(r'[,"/()\[\]]', name) else name


def _toml_error(path: Path, toml: str, fault: str) -> str:
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", fault, re.DOTALL)
    if not match:
        return text("{place}: {reason}", path, fault)
    line = match[2] or max(1, len(toml.splitlines()))
    return text("{place}: {reason}", text("{path}, line {line}", path, line), match[1])


def _place_of_key(path: Path, toml: str, key: str) -> str:
    """File and line in which a key stands; the file alone if it does not."""
    pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    numbers = (number for number, line in enumerate(toml.splitlines(), start=1) if pattern.match(line))
    number = next(numbers, None)
    return str(path) if number is None else text("{path}, line {line}", path, number)


def _problem(path: Path, toml: str, kind: str, error: Any) -> str:
    """One broken rule in words."""
    rule = str(error["ctx"]["error"] if error["type"] == "value_error" else error["msg"])
    if not error["loc"]:
        return text("{place}: {reason}", path, rule)
    key = str(error["loc"][0])
    place = _place_of_key(path, toml, key)
    known = list(KINDS[kind].model_fields)
    step = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" and step == key:
        near = difflib.get_close_matches(key, known, n=1)
        hint = text("did you mean {name}", near[0]) if near else text("expected {names}", ", ".join(known))
        return text("{where}: {key} is no option of kind = {kind}; {hint_words}", place, key, kind, hint)
    if error["type"] == "missing":
        return text("{where}: {key} is missing", place, step)
    return text("{place}: {step}: {reason} ({got})", place, step, rule, f"got {_shortened(error['input'])}")


def _shortened(value: Any, write: Callable[[Any], str] = repr) -> str:
    try:
        return write(value)[:60]
    except ValueError:  # Python does not write integers of thousands of digits
        return text("a number that is too long")


@dataclass(frozen=True)
class OwnLabels:
    """The words that are valid as labels if nodes use different label spaces.

    A class of the node's own space is one of these words; any other word has to be a class of the desired space. So a
    node may have rows of both kinds, and rows with both labels.

    Attributes:
        desired: classes in which the model answers, in the order of their numbers.
        own: those of the node's own space; none where it labels in the desired one.
    """

    desired: tuple[str, ...]
    own: tuple[str, ...] = ()

    @classmethod
    def of(cls, labelling: Labelling | None, classes: Sequence[str] | None = None) -> OwnLabels | None:
        """The label spaces of the file in FLNET_LABELS; None if all nodes use the same labels.

        Args:
            classes: the desired ones as the trainer's file has them, if it does; `ByLabels` refuses other ones.
        """
        if labelling is None:
            return None
        own = () if labelling.is_desired else labelling.space.classes
        return cls(tuple(classes or labelling.target.classes), own)

    @property
    def words(self) -> tuple[str, ...]:
        """All of them, each once: the own ones first."""
        return (*self.own, *(name for name in self.desired if name not in self.own))

    def numbers(self, words: Iterable[str], coarse: Iterable[str] | None = None) -> tuple[Labels, Labels]:
        """(n,) in the desired space and (n,) in the own one, -1 where a row has none.

        Args:
            words: of each row one of `words`, or nothing.
            coarse: for each row also a class of the own space, or nothing.
        """
        own = {name: at for at, name in enumerate(self.own)}
        desired = {name: at for at, name in enumerate(self.desired) if name not in own}
        listed = list(words)
        fine = np.array([desired.get(word, -1) for word in listed], np.int64)
        other = np.array([own.get(word, -1) for word in listed], np.int64)
        if coarse is not None:
            beside = np.array([own.get(word, -1) for word in coarse], np.int64)
            # with a label of the own space, a word of both spaces means the desired one
            both = {name: at for at, name in enumerate(self.desired)}
            fine = np.where(beside >= 0, np.array([both.get(word, -1) for word in listed], np.int64), fine)
            other = np.where(beside >= 0, beside, other)
        return fine, other

    def kinds(self, fine: Labels, coarse: Labels) -> Labels:
        """(n,) a number for each kind of label, by which rows are dealt and split evenly."""
        return np.where(fine >= 0, fine, len(self.desired) + coarse)


CHECKSUM_SHOWN = 12  # digits by which nodes compare their common tests


def words_on_common_test(rows: int, checksum: str, known: int) -> str:
    """What a person should know of the common test.

    Args:
        checksum: over its rows and labels.
        known: rows that are in the node's own data, too.
    """
    same = text(
        "common test: {count} rows, {digest}; nodes with the same digits have the same rows", rows, checksum
    )
    if not known:
        return same
    seen = text("{count} of them are in this node's own data, too, so that its figures are too good", known)
    return joined([same, seen])


def counted(labels: Array, classes: int) -> tuple[int, ...]:
    """How many rows each class has; rows without a label of it do not count."""
    return tuple(np.bincount(labels[labels >= 0], minlength=classes).tolist())
