"""One node's part of a multi-label data set: its labels, its rows, and the test that all nodes have in common.

Dealing follows Delgado Bejarano, MLFedAvg (2024): a part of the rows is kept back as the common global test,
the rest is cut in as many parts as there are nodes, and of its part a node keeps the rows that have one of
its own labels. The options stand in `multi_label.toml`, the same for all nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flnet.datasets.files import replacing
from flnet.datasets.labelled import dense_rows, fingerprint
from flnet.datasets.multi_label import MultiLabel, read_multi_label
from flnet.datasets.partition import apportioned, consecutive_parts, dealt_labels
from flnet.datasets.split import stored_split
from flnet.text import joined, text
from flnet.trainer import Array, DataInfo, DataMissing, TrainerError, TrainerSettings

from ._multi_label_options import LARGEST_SIGMA, OPTIONS_FILE, Options, find, of_several
from ._notebook_draws import Draws, draws

SIDES = ("train", "validation", "test")


@dataclass(frozen=True)
class Side:
    """Features float32 (n, V) and labels uint8 (n, M)."""

    x: Array
    y: Array


@dataclass(frozen=True)
class NodeData:
    """The data of one node.

    Attributes:
        sides: train, validation, test: rows that have one of this node's labels.
        common: rows of the global test that have one of this node's labels; without noise.
        info: for people; `classes` are this node's labels.
        features: names of the columns.
        scales: (V, 2) mean and standard deviation of each feature, by which `sides` and `common` are standardised;
            None if they are not.
        ignored: columns of the file that are no input: labels, and what is ignored.
        of_several: labels that more than one node has.
        agreement: what must be alike on all nodes that average their cores.
        weights: seeds of the first weights of each layer, where the author's program says them.
    """

    sides: Mapping[str, Side]
    common: Side
    info: DataInfo
    features: tuple[str, ...]
    agreement: Mapping[str, str]
    weights: tuple[int, int, int] | None = None
    scales: Array | None = None
    ignored: tuple[str, ...] = ()
    of_several: tuple[str, ...] = ()


def load_node_data(settings: TrainerSettings) -> NodeData:
    """This node's labels and rows, split for good.

    Raises:
        DataMissing: there is no data set, or nothing of it falls to this node.
        TrainerError: options or data are wrong.
    """
    if settings.partition.kind != "iid":
        raise TrainerError(
            text(
                "MULTI_LABEL deals rows and labels by {name}; FLNET_DATA_PARTITION={value} is not for it",
                OPTIONS_FILE,
                settings.partition,
            )
        )
    options, path = find(settings.datasets_path)
    data = _read(path, options)
    seed = settings.seed if options.seed is None else options.seed
    drawn = _drawn(options, data, settings.shard, seed)
    _keep_global_test(settings.state_path / f"global-{path.stem}.json", data, drawn.common, seed)
    common = drawn.common[data.y[drawn.common][:, drawn.labels].any(axis=1)]
    if not drawn.rows.size:
        names = ", ".join(_names(data, drawn.labels))
        raise DataMissing(
            text("no row of this node has one of its labels ({names})", names), text("use fewer shards")
        )
    x, y = dense_rows(data.x, drawn.rows), data.y[drawn.rows][:, drawn.labels]
    numbers = drawn.sides or stored_split(
        settings.state_path / f"split-{path.stem}.npz",
        x,
        np.unique(y, axis=0, return_inverse=True)[1].reshape(-1),  # each set of labels is split evenly
        dict(zip(SIDES, options.split, strict=True)),
        seed,
    )
    tested = Side(dense_rows(data.x, common), data.y[common][:, drawn.labels])
    scales = _scales(options, data, x[numbers["train"]])
    noisy = _with_noise(standardised(x, scales), drawn, options.noise, seed, settings.shard[0])
    sides = {side: Side(noisy[rows], y[rows]) for side, rows in numbers.items()}
    if not all(len(side.y) for side in sides.values()):
        counts = ", ".join(f"{len(side.y)} in {name}" for name, side in sides.items())
        raise DataMissing(text("too few rows for this node: {counts}", counts), text("use fewer shards"))
    shown = sides if scales is None else {side: Side(x[rows], y[rows]) for side, rows in numbers.items()}
    return NodeData(
        sides,
        replace(tested, x=standardised(tested.x, scales)),
        _info(path, options, data, drawn.labels, shown, len(common)),
        data.features,
        _agreement(options, data, settings.shard[1], seed),
        drawn.weights,
        scales,
        (*data.labels, *options.ignore_columns),
        of_several(options),
    )


def _scales(options: Options, data: MultiLabel, train: Array) -> Array | None:
    """Agreed scales, and this node's own ones where they are asked for; None if features stay as they are.

    Raises:
        TrainerError: a scale is for no feature that could have one.
    """
    if not options.standardise and not options.scale:
        return None
    numbers = {name: j for j, name in enumerate(data.features) if name not in data.nominal}
    if absent := [name for name in options.scale if name not in numbers]:
        raise TrainerError(
            text("{path}: scale names {name}, which is no numeric feature", OPTIONS_FILE, repr(absent[0]))
        )
    scales = np.tile([0.0, 1.0], (len(data.features), 1))
    if options.standardise:
        own = list(numbers.values())
        spread = train[:, own].std(axis=0, dtype=np.float64)
        scales[own] = np.c_[train[:, own].mean(axis=0, dtype=np.float64), np.where(spread > 0, spread, 1.0)]
    for name, pair in options.scale.items():
        scales[numbers[name]] = pair
    return scales


def standardised(x: Array, scales: Array | None) -> Array:
    """(x - mean) / standard deviation, float32; x itself if nothing is to be standardised."""
    return x if scales is None else np.asarray((x - scales[:, 0]) / scales[:, 1], np.float32)


def as_in_the_file(x: Array, scales: Array | None) -> Array:
    """The inverse of `standardised`: features as `predict` takes them."""
    return x if scales is None else np.asarray(x * scales[:, 1] + scales[:, 0], np.float32)


def _drawn(options: Options, data: MultiLabel, shard: tuple[int, int], seed: int) -> Draws:
    """Which rows and labels are this node's, and the common test; how its rows are split if that is drawn, too.

    Raises:
        TrainerError: the options do not fit the labels or the number of nodes.
    """
    if options.draws == "notebook":
        return draws(data.y, data.x.shape[1], options, shard, seed)
    mine = node_label_numbers(options, data.labels, shard, seed)
    own, common = map(np.sort, dealt_rows(len(data), shard, _global_share(options, shard[1]), seed))
    return Draws(own[data.y[own][:, mine].any(axis=1)], mine, common)


def _with_noise(x: Array, drawn: Draws, kind: str, seed: int, part: int) -> Array:
    if drawn.added is not None:
        return np.asarray(x + drawn.added, np.float32)
    return x if kind == "none" or drawn.sides else x + noise(x.shape, kind, seed, part)


def node_label_numbers(options: Options, labels: tuple[str, ...], shard: tuple[int, int], seed: int) -> Array:
    """Which labels are this node's, in the order in which its network has them.

    Raises:
        TrainerError: the options name labels that are not there, or do not deal them to this many nodes.
    """
    part, count = shard
    for name, entries in (("node_labels", options.node_labels), ("deal", options.deal)):
        if entries and len(entries) != count:
            rule = text("expected as many as FLNET_DATA_SHARD={part}/{parts} has parts", part, count)
            raise TrainerError(
                text("{path}: {name} is for {nodes} nodes; {words}", OPTIONS_FILE, name, len(entries), rule)
            )
    if options.node_labels:
        absent = [name for name in options.node_labels[part - 1] if name not in labels]
        if absent:
            raise TrainerError(
                text(
                    "{path}: no label {name}; the data have {labels}",
                    OPTIONS_FILE,
                    ", ".join(absent),
                    ", ".join(labels),
                )
            )
        named = np.array(sorted(labels.index(name) for name in options.node_labels[part - 1]), np.int64)
        return _ordered(named, options, seed, part)
    if len(labels) < count:
        raise TrainerError(
            text("{count} labels cannot be dealt to {nodes} nodes, one at least to each", len(labels), count)
        )
    sizes = options.deal or apportioned(np.ones(count), len(labels))
    return _ordered(dealt_labels(len(labels), sizes, seed)[part - 1], options, seed, part)


def _ordered(numbers: Array, options: Options, seed: int, part: int) -> Array:
    """Ascending as they come, or in an order of this node's own, as a dealt pack of cards would be."""
    drawn = options.label_order == "drawn"
    return np.random.default_rng([seed, 3, part]).permutation(numbers) if drawn else numbers


def dealt_rows(rows: int, shard: tuple[int, int], global_test: float, seed: int) -> tuple[Array, Array]:
    """The numbers of this node's rows, and of those of the global test, which all nodes compute alike."""
    part, count = shard
    order = np.random.default_rng([seed, 1]).permutation(rows)
    kept_back = int(rows * global_test)
    return consecutive_parts(order[kept_back:], count)[part - 1], order[:kept_back]


def noise(shape: tuple[int, ...], kind: str, seed: int, part: int) -> Array:
    """What is added to a node's features: normal with a standard deviation of its own, from U(0, 0.5).

    The thesis prints N(0, sigma^2); its code adds the absolute values, which also shifts the mean.
    """
    chance = np.random.default_rng([seed, 2, part])
    added = chance.uniform(0, LARGEST_SIGMA) * chance.standard_normal(shape, np.float32)
    return np.asarray(np.abs(added) if kind == "half-normal" else added, np.float32)


def _agreement(options: Options, data: MultiLabel, count: int, seed: int) -> dict[str, str]:
    """Other columns would average weights of other meanings; another dealing would train on the others' test."""
    agreed = {"features": ", ".join(data.features)}
    if options.standardise:
        agreed["standardise"] = "true"
    if options.scale:
        pairs = [f"{name} [{mean:g} {spread:g}]" for name, (mean, spread) in sorted(options.scale.items())]
        agreed["scale"] = ", ".join(pairs)
    if count > 1:
        share = _global_share(options, count)
        how = (
            text("by name {names}", options.node_labels) if options.node_labels else f"{options.deal or 'evenly'}"
        )
        agreed["dealing"] = text(
            "{rows} rows from {first} to {nodes} nodes by seed {seed} of {draws}, global test "
            "{share}, labels {names} {which}",
            len(data),
            options.first_row,
            count,
            seed,
            options.draws,
            f"{share:g}",
            ", ".join(data.labels),
            how,
        )
    return agreed


def _read(path: Path, options: Options) -> MultiLabel:
    """The data set, with the labels in the order of the options.

    Raises:
        TrainerError: it cannot be read, or the options name other labels.
    """
    columns = options.label_columns
    data = read_multi_label(
        path,
        label_columns=tuple(columns) if isinstance(columns, list) else columns,
        labels_xml=path.parent / options.labels_xml if options.labels_xml else None,
        ignore=tuple(options.ignore_columns),
        on_bad_rows="skip" if options.on_bad_rows == "skip" else "stop",
    )
    if not options.labels:
        return data
    if sorted(options.labels) != sorted(data.labels):
        raise TrainerError(
            text(
                "{path}: labels are not those of the data, which are {labels}",
                OPTIONS_FILE,
                ", ".join(data.labels),
            )
        )
    order = [data.labels.index(name) for name in options.labels]
    return replace(data, labels=tuple(options.labels), y=data.y[:, order])


def _global_share(options: Options, count: int) -> float:
    """A node that has the file to itself needs no test in common with others, unless it is asked for."""
    return (0.1 if count > 1 else 0.0) if options.global_test is None else options.global_test


def _keep_global_test(path: Path, data: MultiLabel, common: Array, seed: int) -> None:
    """Refuse another global test than the one of the first start: training has seen rows of any other one.

    Raises:
        TrainerError: the seed, its share, or the number of rows has changed.
    """
    now = {"rows": len(data), "seed": seed, "global_test_rows": len(common)}
    try:
        if path.exists():
            before = json.loads(path.read_text("utf-8"))
        elif len(common):
            with replacing(path) as file:
                file.write(json.dumps(now).encode())
            before = now
        else:
            return
    except (OSError, ValueError) as exc:
        raise TrainerError(text("{path} cannot be kept: {reason}", path, exc)) from exc
    if before != now:
        raise TrainerError(
            text(
                "the global test was drawn from {one}, and now would be from {other}: it would hold "
                "rows that were trained on. Bring that back, or delete {path} and start with "
                "untrained parameters",
                before,
                now,
                path.parent,
            )
        )


def _info(
    path: Path, options: Options, data: MultiLabel, mine: Array, sides: Mapping[str, Side], common: int
) -> DataInfo:
    rows = {side: len(part.y) for side, part in sides.items()}
    notes: list[str] = [
        text(
            "this node has {count} of {number} labels; rows without any of them are left out",
            len(mine),
            len(data.labels),
        )
    ]
    if common:
        rows["global_test"] = common
    if options.noise != "none":
        notes.append(text("{kind} noise was added to this node's own rows", options.noise))
    if data.skipped:
        notes.append(data.skipped)
    counts = {side: part.y.sum(axis=0, dtype=np.int64).tolist() for side, part in sides.items()}
    names = tuple(_names(data, mine))
    source, note = text("multi-label data set {name}", path.resolve()), joined(notes)
    return DataInfo(source, rows, names, note=note, counts=counts, checksum=fingerprint(sides))


def _names(data: MultiLabel, numbers: Array) -> list[str]:
    return [data.labels[number] for number in numbers]
