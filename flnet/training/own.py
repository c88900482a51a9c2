"""Trainers without code: what a few lines of TOML may say of a folder of images or of a table.

Such a file lies in FLNET_TRAINERS_PATH; its name is the trainer's id. It is read twice: by the node, which so
knows what is wrong with it, and by the worker, which makes the trainer. Neither needs a framework for that.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from flnet.errors import DataMissing, TrainerError
from flnet.training.api import TrainerSettings

_LARGEST_FILE = 1_000_000  # bytes; a list of a thousand columns takes a hundredth of that


def _name(text: str) -> str:
    if not text or text != text.strip() or not text.isprintable() or len(text) > 200:
        raise ValueError("expected 1 to 200 printable characters, without space around them")
    return text


def _different(names: list[str]) -> list[str]:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} stands there twice")
    return names


Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[list[Name], Field(min_length=1), AfterValidator(_different)]
Classes = Annotated[list[Name], Field(min_length=2, max_length=1000), AfterValidator(_different)]
Scale = Annotated[list[float], Field(min_length=2, max_length=2)]
Positive = Annotated[float, Field(gt=0)]


class Own(BaseModel):
    """What both kinds share."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    data: Name  # relative to FLNET_DATASETS_PATH, or absolute
    label: str = Field(default="", max_length=100)
    licence: str = Field(default="not stated", max_length=200)
    note: str = Field(default="", max_length=500)
    epochs: int = Field(default=5, ge=1, le=10_000)
    rate: float = Field(default=0.02, gt=0, le=1_000)
    batch: int = Field(default=32, ge=1, le=1_000_000)
    split: Annotated[list[Positive], Field(min_length=3, max_length=3)] = [70, 10, 20]

    @property
    def shares(self) -> dict[str, float]:
        """The proportions of training, validation and test."""
        return dict(zip(("train", "validation", "test"), self.split, strict=True))

    def path(self, settings: TrainerSettings) -> Path:
        """Where the data are.

        Raises:
            DataMissing: they are not there, or FLNET_DATASETS_PATH is needed and not set.
        """
        path = Path(self.data).expanduser()
        if not path.is_absolute():
            if settings.datasets_path is None:
                how = "set it to the folder in which that lies, or write the whole path"
                raise DataMissing(
                    f"data = {self.data!r} is relative to FLNET_DATASETS_PATH, which is not set", how
                )
            path = settings.datasets_path / path
        if not path.exists():
            raise DataMissing(f"{path} is not there", "put the data there, or correct data in the trainer's file")
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
        """What all nodes must have alike."""
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
    coarse: Name | None = None  # where nodes label differently: the label in this node's own classes
    missing: Literal["stop", "skip", "mean"] = "stop"
    separator: Literal[",", ";", "tab"] = ","
    model: Literal["linear", "mlp"] = "linear"
    hidden: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=8)] = [32]

    @model_validator(mode="after")
    def _fits_together(self) -> OwnTable:
        if self.task == "regress" and self.target_scale is None:
            raise ValueError(
                "task = regress needs target_scale = [mean, spread], rough, and the same on all nodes"
            )
        if self.task == "regress" and self.classes is not None:
            raise ValueError("classes is for task = classify only")
        if self.task == "classify" and self.target_scale is not None:
            raise ValueError("target_scale is for task = regress only")
        if self.task == "regress" and self.coarse:
            raise ValueError("coarse is for task = classify only")
        for name, pair in (*self.scale.items(), ("target_scale", self.target_scale or [0, 1])):
            if pair[1] <= 0:
                raise ValueError(f"the spread of {name} is {pair[1]:g}; expected more than 0")
        if both := sorted(self.categories.keys() & self.scale.keys()):
            raise ValueError(f"{both[0]} stands in categories and in scale; expected one of them")
        return self._columns_are_one_thing()

    def _columns_are_one_thing(self) -> OwnTable:
        one = {"target": self.target, "id": self.id, "coarse": self.coarse}
        uses = {use: [name] if name else [] for use, name in one.items()}
        uses |= {"ignore": self.ignore or [], "features": self.features or []}
        seen: dict[str, str] = {}
        for use, names in uses.items():
            for name in names:
                if name in seen:
                    raise ValueError(f"column {name} is {seen[name]} and {use}; expected one of them")
                seen[name] = use
        for use, named in (("categories", self.categories), ("scale", self.scale)):
            for name in named:
                if seen.get(name, "features") != "features" or (self.features and name not in self.features):
                    raise ValueError(f"{use} names {name}, which is no feature")
        return self

    def agreement(self, features: Iterable[str], classes: Iterable[str]) -> dict[str, str]:
        """What all nodes must have alike; how numbers are scaled belongs to it only where that is agreed."""
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


KINDS: Mapping[str, type[OwnImages] | type[OwnTable]] = {"images": OwnImages, "table": OwnTable}


def read_own(path: Path) -> OwnImages | OwnTable:
    """What a trainer's TOML file says.

    Raises:
        TrainerError: it cannot be read, or says something that is no option or breaks a rule; names file, line
            and key.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise TrainerError(f"{path} is larger than {_LARGEST_FILE} bytes; a trainer's file has a few lines")
        text = path.read_text("utf-8")
        lines = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise TrainerError(_no_toml(path, text, str(exc))) from exc
    except (OSError, UnicodeDecodeError, RecursionError) as exc:
        raise TrainerError(f"{path} cannot be read as TOML: {exc}") from exc
    kind = lines.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        got = f", got {json.dumps(kind)[:60]}" if isinstance(kind, str | int | float) else ""
        raise TrainerError(f'{_place(path, text, "kind")}: expected kind = "images" or kind = "table"{got}')
    try:
        return KINDS[kind].model_validate(lines)
    except ValidationError as exc:
        problems = [_problem(path, text, kind, error) for error in exc.errors(include_url=False)[:5]]
        raise TrainerError("; ".join(problems)) from exc


def listed(names: Iterable[str]) -> str:
    """Names in one line from which they can be told apart again."""
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) if re.search(r'[,"/()\[\]]', name) else name


def _no_toml(path: Path, text: str, fault: str) -> str:
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", fault, re.DOTALL)
    if not found:
        return f"{path}: {fault}"
    return f"{path}, line {found[2] or max(1, len(text.splitlines()))}: {found[1]}"


def _place(path: Path, text: str, key: str) -> str:
    """File and line in which a key stands; the file alone if it does not."""
    pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    found = (number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line))
    number = next(found, None)
    return str(path) if number is None else f"{path}, line {number}"


def _problem(path: Path, text: str, kind: str, error: Any) -> str:
    """One broken rule in words."""
    rule = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return f"{path}: {rule}"
    key = str(error["loc"][0])
    place = _place(path, text, key)
    known = list(KINDS[kind].model_fields)
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}" if near else f"expected {', '.join(known)}"
        return f"{place}: {key} is no option of kind = {kind}; {hint}"
    if error["type"] == "missing":
        return f"{place}: {key} is missing"
    step = ".".join(str(part) for part in error["loc"])
    return f"{place}: {step}: {rule} (got {repr(error['input'])[:60]})"
