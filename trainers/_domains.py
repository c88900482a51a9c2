"""Digits of four domains (MNIST, MNIST-M, USPS, SVHN) as 16x16 RGB images, and the domain of each node.

The experiments of Martínez Enríquez et al. (FLProtector) take five domains; the synthetic digits are not here, and
of SVHN there may be a small part only. MNIST comes from its training part, for MNIST-M is made of its test digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.datasets.labelled import UNREADABLE, Labelled, fingerprint, open_npz
from flnet.datasets.split import held_back
from flnet.text import text
from flnet.trainer import Array, DataInfo, DataMissing, TrainerError, TrainerSettings

from ._options import Fits, is_whole, read_lines

OPTIONS_FILE = "domains.toml"
SIDE = 16  # pixels
FILES = {
    "mnist": ("mnist.npz",),
    "mnist-m": ("mnist_m.npz",),
    "usps": ("usps.npz",),
    "svhn": ("svhn.npz", "svhn_partial_1083.npz"),
}
_RULES: dict[str, tuple[str, Fits]] = {
    "scenario": ("5b or d5", lambda value: value in ("5b", "d5")),
    **dict.fromkeys(("majority", "other"), (" or ".join(FILES), lambda value: value in FILES)),
    **dict.fromkeys(("rows", "tests"), (text("a whole number above 0"), is_whole)),
}
_REMEDY = text(
    "put mnist.npz, mnist_m.npz, usps.npz and svhn.npz into a folder and name it in FLNET_DATASETS_PATH"
)


@dataclass(frozen=True)
class Options:
    """The lines of `domains.toml`; all nodes of an experiment need the same.

    Attributes:
        scenario: "5b": each node has a domain of its own, in the order of FILES; "d5": the first node has `other`,
            all others have `majority`.
        majority, other: names of domains.
        rows: of each node for training, at most.
        tests: of each node for testing, at most.
    """

    scenario: str = "5b"
    majority: str = "mnist"
    other: str = "svhn"
    rows: int = 7000
    tests: int = 2000


@dataclass(frozen=True)
class Domain:
    """One node's digits, images (n, 16, 16, 3) uint8.

    Attributes:
        name: of its domain.
        everything: the test digits of all domains of the experiment.
        domains: the name of the domain of each of them, (n,).
    """

    name: str
    train: Labelled
    test: Labelled
    everything: Labelled
    domains: Array
    validation: Labelled

    @property
    def info(self) -> DataInfo:
        """Description of this node's digits."""
        return info_of(self.name, self.train, self.test, self.validation)


def info_of(name: str, train: Labelled, test: Labelled, validation: Labelled) -> DataInfo:
    """Description of digits of a domain."""
    sides = {"train": train, **({"validation": validation} if len(validation) else {}), "test": test}
    return DataInfo(
        text("digits of {name}", name),
        {"train": len(train), "validation": len(validation), "test": len(test)},
        tuple("0123456789"),
        counts={side: np.bincount(rows.y, minlength=10).tolist() for side, rows in sides.items()},
        checksum=fingerprint(sides),
    )


def load_domain(settings: TrainerSettings) -> Domain:
    """This node's digits.

    Raises:
        DataMissing: a domain is not there, or has too few digits for so many nodes.
        TrainerError: the options are wrong, or a file is damaged.
    """
    folder = settings.datasets_path
    if folder is None:
        raise DataMissing(text("FLNET_DATASETS_PATH is not set"), _REMEDY)
    options = read_options(folder / OPTIONS_FILE)
    index, count = settings.shard
    names = _names(options, count)
    mine = names[index - 1]
    alike = [number for number, name in enumerate(names, start=1) if name == mine]
    sides = {name: _sides(folder, name, options, max(1, names.count(name))) for name in sorted(set(names))}
    at, parts = alike.index(index), len(alike)
    train, test = sides[mine]
    if len(train) < parts or len(test) < parts:
        raise DataMissing(text("too few digits of {name} for {count} nodes", mine, parts), text("use fewer nodes"))
    everything = [side[1].take(np.arange(min(options.tests, len(side[1])))) for side in sides.values()]
    joined = Labelled(
        np.concatenate([domain.x for domain in everything]), np.concatenate([domain.y for domain in everything])
    )
    own = [side.take(np.arange(at, len(side), parts)) for side in (train, test)]
    kept, validation = (own[0].take(rows) for rows in held_back(own[0].y, settings))
    domains = np.repeat(list(sides), [len(domain) for domain in everything])
    return Domain(mine, kept, own[1], joined, domains, validation)


def read_options(path: Path) -> Options:
    """The options in a file; all defaults if there is none.

    Raises:
        TrainerError: it cannot be read, or a line of it is wrong.
    """
    return Options(**read_lines(path, _RULES))


def small(images: Array) -> Array:
    """Images (n, side, side) or (n, side, side, 3) uint8 of 16, 28 or 32 pixels as (n, 16, 16, 3).

    28 pixels are framed to 32, and each 2x2 of 32 becomes its mean.
    """
    resized = images if images.ndim == 4 else np.repeat(images[..., None], 3, axis=3)
    if resized.shape[1] == 28:
        resized = np.pad(resized, ((0, 0), (2, 2), (2, 2), (0, 0)))
    if resized.shape[1] == 2 * SIDE:
        blocks = resized.reshape(len(resized), SIDE, 2, SIDE, 2, 3).astype(np.uint16)
        resized = ((blocks.sum(axis=(2, 4)) + 2) // 4).astype(np.uint8)
    return np.ascontiguousarray(resized)


def _names(options: Options, count: int) -> list[str]:
    """Who has which domain; one node alone has all of the first one, or the majority's."""
    if options.scenario == "d5":
        return [options.other if number == 0 and count > 1 else options.majority for number in range(count)]
    domains = list(FILES)
    return [domains[number % len(domains)] for number in range(count)]


def _sides(folder: Path, name: str, options: Options, nodes: int) -> tuple[Labelled, Labelled]:
    """Training and test digits of a domain, for so many nodes, shuffled by a seed that all nodes have."""
    path = next((folder / file for file in FILES[name] if (folder / file).is_file()), None)
    if path is None:
        raise DataMissing(text("no digits of {name} were found in {folder}", name, folder), _REMEDY)
    try:
        with open_npz(path) as file:
            train, test = (Labelled(file[f"x_{side}"], file[f"y_{side}"]) for side in ("train", "test"))
    except (*UNREADABLE, KeyError) as exc:
        raise TrainerError(text("{path} is damaged or incomplete: {error}", path, exc)) from exc
    order = np.random.default_rng(0).permutation(len(train))
    wanted, tested = options.rows * nodes, options.tests * nodes
    if name == "mnist":
        return _small(train.take(order[tested:][:wanted])), _small(train.take(order[:tested]))
    others = np.random.default_rng(1).permutation(len(test))
    return _small(train.take(order[:wanted])), _small(test.take(others[:tested]))


def _small(rows: Labelled) -> Labelled:
    return Labelled(small(rows.x), rows.y.astype(np.int64))
