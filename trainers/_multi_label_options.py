"""Options of multi-label trainers (`multi_label.toml`), and the place of the data set."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flnet.text import text
from flnet.trainer import DataMissing, TrainerError

from ._options import Fits, is_whole, read_lines

OPTIONS_FILE = "multi_label.toml"
OWN_FOLDER = "multi-label"  # below FLNET_DATASETS_PATH, for imports; if it is there, all is looked for in it
KNOWN = ("scene", "yeast", "20ng", "tmc2007_500", "slashdot", "reutersK500", "yahoo_education", "corel5k")
LARGEST_SIGMA = 0.5  # standard deviations of the nodes' noise lie between 0 and this
_PATHS = ("file", "labels_xml")  # the options that name files
_ORDERS = ("file", "drawn")
_DRAWS = ("flnet", "notebook")
_NOISES = ("none", "normal", "half-normal")
_SUFFIXES = (".arff", ".csv", ".npz")
_REMEDY = text(
    "put a data set (.arff with Mulan's .xml, .csv or .npz) into the folder {folder} below FLNET_DATASETS_PATH, or import "
    'it, and beside it a file {options} if there are several (file = "scene.arff") or labels have to be named '
    '(label_columns = ["a", "b"])',
    OWN_FOLDER,
    OPTIONS_FILE,
)


@dataclass(frozen=True)
class Options:
    """The lines of `multi_label.toml`; all nodes of an experiment need the same.

    Attributes:
        file: data set, relative to the folder of the options.
        labels_xml: Mulan's list of labels; if empty, the .xml of the file's own name.
        label_columns: names of labels, the beginning of their names, or how many columns (the last ones if < 0).
        ignore_columns: neither feature nor label, an identity number for instance; they may hold anything.
        standardise: whether features are standardised by mean and standard deviation of this node's own training
            rows, which stay on the node; not those of nominal attributes, nor those in `scale`.
        scale: columns with a mean and a standard deviation that all nodes agree on.
        node_labels: for each node, its labels by name. A label of several nodes is averaged over those that have it.
        deal: for each node, how many labels it gets, drawn by the seed; as equal as possible if empty.
        labels: all labels in another order than the file's.
        first_row: which row of the file, from 0, is the first one for the draws of the notebook; those before it
            come last. The rows that a seed draws depend on it.
        label_order: of a node's labels: that of the file, or drawn by the seed. It decides which of several labels
            of a row is its first, and so the argmax accuracy.
        noise: added to the features of a node's own rows: none, normal, or half-normal (absolute values).
        seed: of dealing and noise; the node's own, from FLNET_SEED, if absent.
        on_bad_rows: stop, or skip; skipped rows are counted in what the page says about the data.
        global_test: share of the rows that is nobody's; 0.1 where the data are dealt to several nodes, else 0.
        split: shares of training, validation and test among a node's rows.
        draws: by whose generators all this is drawn: flnet's, or those of the thesis' notebook.
    """

    file: str = ""
    labels_xml: str = ""
    label_columns: str | int | list[str] | None = None
    ignore_columns: list[str] = field(default_factory=list)
    standardise: bool = False
    scale: dict[str, list[float]] = field(default_factory=dict)
    node_labels: list[list[str]] = field(default_factory=list)
    deal: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    first_row: int = 0
    label_order: str = "file"
    noise: str = "none"
    seed: int | None = None
    on_bad_rows: str = "stop"
    global_test: float | None = None
    split: list[float] = field(default_factory=lambda: [60, 20, 20])
    draws: str = "flnet"


def of_several(options: Options) -> tuple[str, ...]:
    """The labels that more than one node has, in the order of their names; the same on all nodes."""
    names = [name for labels in options.node_labels for name in labels]
    return tuple(sorted({name for name in names if names.count(name) > 1}))


def find(folder: Path | None) -> tuple[Options, Path]:
    """The options, and the file with the data.

    Raises:
        DataMissing: no folder is named, or there is no data set in it.
        TrainerError: the options are wrong.
    """
    if folder is None:
        raise DataMissing(text("FLNET_DATASETS_PATH is not set"), _REMEDY)
    own = folder / OWN_FOLDER
    folder = own if own.is_dir() else folder
    options = read_options(folder / OPTIONS_FILE)
    only = _only_data_set(own)
    if options.file:
        path = folder / options.file
        if not path.is_file() and only is not None:
            return options, only
        if not path.is_file():
            raise DataMissing(
                text("{path} names {name}, but {file} is not there", folder / OPTIONS_FILE, options.file, path),
                _REMEDY,
            )
        return options, path
    for name in KNOWN:
        for path in (folder / f"ml_{name}.npz", folder / f"{name}.arff", folder / name / f"{name}.arff"):
            if path.is_file():
                return options, path
    if only is not None:
        return options, only
    raise DataMissing(text("no multi-label data set was found in {folder}", folder), _REMEDY)


def _only_data_set(own: Path) -> Path | None:
    """The data set in the folder for imports, whatever its name; None if there is not exactly one."""
    found = [path for path in sorted(own.glob("*")) if path.suffix in _SUFFIXES and path.is_file()]
    return found[0] if len(found) == 1 else None


def read_options(path: Path) -> Options:
    """The options in a file, names in Unicode NFC as they are read from data; all defaults if there is none.

    Raises:
        TrainerError: it cannot be read, or a line of it is wrong.
    """
    lines = read_lines(path, _RULES)
    options = Options(**{name: value if name in _PATHS else _composed(value) for name, value in lines.items()})
    if any(len(set(labels)) != len(labels) for labels in options.node_labels):
        raise TrainerError(text("{path}: node_labels gives a label to one node twice", path))
    if options.node_labels and options.deal:
        raise TrainerError(
            text("{path}: node_labels and deal are two ways to say the same; expected one of them", path)
        )
    if options.node_labels and options.draws == "notebook":
        raise TrainerError(
            text('{path}: draws = "notebook" deals the labels itself; expected deal, not node_labels', path)
        )
    if options.first_row and options.draws != "notebook":
        raise TrainerError(
            text('{path}: first_row is for draws = "notebook"; expected that, or no first_row', path)
        )
    return options


def _composed(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_composed(each) for each in value]
    return {_composed(name): each for name, each in value.items()} if isinstance(value, dict) else value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pairs(value: Any) -> bool:
    """Whether each entry is a mean and a standard deviation above 0."""
    return isinstance(value, dict) and all(
        _each(pair, _number) and len(pair) == 2 and all(map(math.isfinite, pair)) and pair[1] > 0
        for pair in value.values()
    )


def _each(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, value))


_RULES: dict[str, tuple[str, Fits]] = {
    "file": (text("the name of a file"), lambda v: isinstance(v, str)),
    "labels_xml": (text("the name of a file"), lambda v: isinstance(v, str)),
    "label_columns": (
        text("names, the beginning of names, or a number"),
        lambda v: is_whole(v, -math.inf) or isinstance(v, str) or _texts(v),
    ),
    "ignore_columns": (text("names of columns"), _texts),
    "standardise": (text("true or false"), lambda v: isinstance(v, bool)),
    "scale": (text("for each column a mean and a standard deviation above 0"), _pairs),
    "node_labels": (
        text("a list of names for each node"),
        lambda v: _each(v, lambda names: bool(names) and _texts(names)),
    ),
    "deal": (text("how many labels each node gets, above 0"), lambda v: _each(v, is_whole)),
    "labels": (text("all names"), _texts),
    "first_row": (text("a whole number from 0"), lambda v: is_whole(v, 0)),
    "label_order": (" or ".join(_ORDERS), lambda v: v in _ORDERS),
    "noise": (" or ".join(_NOISES), lambda v: v in _NOISES),
    "seed": (text("a whole number from 0"), lambda v: is_whole(v, 0)),
    "on_bad_rows": (text("stop or skip"), lambda v: v in ("stop", "skip")),
    "global_test": (text("a share from 0 to below 1"), lambda v: _number(v) and 0 <= v < 1),
    "draws": (" or ".join(_DRAWS), lambda v: v in _DRAWS),
    "split": (text("three shares above 0"), lambda v: _each(v, lambda n: _number(n) and n > 0) and len(v) == 3),
}
