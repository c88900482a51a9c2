"""Fetching a published file when a person asks for it: checked, whole, or not there at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from flnet.errors import DataMissing
from flnet.training.files import replacing

_PIECE_BYTES = 256 * 1024
_TIMEOUT_S = 30.0  # without a byte
_MARGIN_BYTES = 1024 * 1024  # beyond the stated size, before a server is cut off

Told = Callable[[int, int], None]  # (bytes so far, bytes in all)


@dataclass(frozen=True)
class Download:
    """One published file: where it is, what it is, and what it is called when it is here."""

    url: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DataSet:
    """A data set that may be fetched: the folder under FLNET_DATASETS_PATH, and its files."""

    folder: str
    words: str
    files: tuple[Download, ...]


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"

DATA_SETS = {
    "mnist": DataSet(
        "mnist",
        "MNIST, handwritten digits (LeCun, Cortes, Burges 1998): 70,000 images of 28x28",
        (
            Download(
                _MNIST + "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9_912_422,
            ),
            Download(
                _MNIST + "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                28_881,
            ),
            Download(
                _MNIST + "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1_648_877,
            ),
            Download(
                _MNIST + "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                4_542,
            ),
        ),
    ),
    "cifar10": DataSet(
        "cifar10",
        "CIFAR-10, photographs of ten kinds of things (Krizhevsky 2009): 60,000 images of 32x32",
        (
            Download(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            ),
        ),
    ),
}


def fetch(url: str, sha256: str, target: Path, size: int, told: Told = lambda done, total: None) -> bool:
    """Download one file, unless it is there already; whether anything was downloaded.

    The file appears under its name when it is complete and its checksum is right, and not before.

    Args:
        url: https or http.
        sha256: of the contents, 64 hex digits.
        target: the file.
        size: in bytes, about; a server that sends much more is cut off.
        told: told of the bytes that have come.

    Raises:
        DataMissing: no connection, an error, a broken or wrong body, or no room; says what to do.
    """
    remedy = f"try again later, or put the file at {target} yourself"
    if target.is_file() and _digest(target) == sha256:
        return False
    try:
        with replacing(target) as file:
            total = hashlib.sha256()
            done = 0
            with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as answer:
                answer.raise_for_status()
                for piece in answer.iter_raw(_PIECE_BYTES):
                    done += len(piece)
                    if done > size + _MARGIN_BYTES:
                        raise DataMissing(f"{url} sends more than the {size} bytes expected", remedy)
                    total.update(piece)
                    file.write(piece)
                    told(done, size)
            if total.hexdigest() != sha256:
                got = f"{done} bytes with sha256 {total.hexdigest()[:16]}..."
                raise DataMissing(f"{url} is not the published file: got {got}, expected {sha256[:16]}...", remedy)
        target.chmod(0o644)  # public data; a temporary file is its owner's alone
    except httpx.HTTPStatusError as exc:
        raise DataMissing(f"{url} was answered with {exc.response.status_code}", remedy) from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise DataMissing(f"{url} could not be fetched: {exc or type(exc).__name__}", remedy) from exc
    except OSError as exc:
        raise DataMissing(f"{target} could not be written: {exc}", "make room, or name another folder") from exc
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
