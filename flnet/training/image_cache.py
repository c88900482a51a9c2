"""Image files as bytes of one size, decoded with Pillow once: later starts map what the first one wrote.

The file is named after all that it depends on: the paths, sizes and times of change of the images, the size
in pixels and the colours. Whatever changes gives another name, and the old file is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flnet.errors import DataMissing, TrainerError
from flnet.params import Array
from flnet.training.files import replacing

MAX_PIXELS = 64_000_000  # of one image: beyond the largest detector of radiography, far below a bomb
_VERSION = 1  # of the way in which an image becomes bytes
Colour = Literal["grey", "rgb"]


class Unreadable(Exception):
    """A file that holds no whole picture; the text says what is wrong with it."""


@dataclass(frozen=True)
class Decoded:
    """All images in the order asked for; one that cannot be read is black, and in `faults` by its path."""

    images: Array
    faults: Mapping[str, str]


def decoded_once(root: Path, files: Sequence[Path], size: int, colour: Colour, folder: Path) -> Decoded:
    """These images, uint8 (n, size, size) or (n, size, size, 3), mapped read-only from `folder`.

    Args:
        root: what their paths in `faults` begin below.
        files: the images.
        size: pixels of each side; what is not square is squeezed.
        colour: grey or rgb.
        folder: for the bytes; must exist.

    Raises:
        DataMissing: Pillow is not installed.
        TrainerError: the folder cannot be written.
    """
    names = [file.relative_to(root).as_posix() for file in files]
    shape = (len(files), size, size) if colour == "grey" else (len(files), size, size, 3)
    key = _key(files, names, shape)
    target = folder / f"images-{key}.npy"
    known = _mapped(target, shape)
    if known is None:
        try:
            _decode_all(files, names, shape, colour, target)
        except OSError as exc:
            raise TrainerError(f"the decoded images cannot be kept in {folder}: {exc}") from exc
        known = _mapped(target, shape)
        if known is None:
            raise TrainerError(f"{target} cannot be read back; is the disk full?")
        for old in folder.glob("images-*"):
            if not old.name.startswith(f"images-{key}."):
                with suppress(OSError):
                    old.unlink()
    return known


def decode(file: Path, size: int, colour: Colour) -> Array:
    """One image file squeezed to size x size pixels.

    Raises:
        Unreadable: it is damaged, cut off, too large, or neither JPEG nor PNG.
        DataMissing: Pillow is not installed.
    """
    image_module, ops = _pillow()
    try:
        with _quiet(image_module), image_module.open(file, formats=("JPEG", "PNG")) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise Unreadable(f"it has {width} x {height} pixels; at most {MAX_PIXELS} are decoded")
            opened.draft("L" if colour == "grey" else "RGB", (2 * size, 2 * size))
            upright = ops.exif_transpose(opened)
            if upright.mode.startswith("I"):  # 16 bits a pixel, as X-rays have: plain conversion would cut them
                deep = np.asarray(upright).astype(np.float64) / 257
                upright = image_module.fromarray(deep.clip(0, 255).astype(np.uint8))
            small = upright.convert("L" if colour == "grey" else "RGB")
            return np.array(small.resize((size, size), image_module.Resampling.LANCZOS), np.uint8)
    except Unreadable:
        raise
    except (image_module.DecompressionBombError, image_module.DecompressionBombWarning) as exc:
        raise Unreadable(f"it has too many pixels; at most {MAX_PIXELS} are decoded") from exc
    except Exception as exc:  # decoders raise whatever their format brings about
        raise Unreadable(str(exc).replace(str(file), "it")[:200] or type(exc).__name__) from exc


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    except ImportError as exc:
        what = "images are read with Pillow, which is not installed"
        raise DataMissing(what, 'install it: pip install "flnet[images]"') from exc
    return Image, ImageOps


@contextmanager
def _quiet(image_module: Any) -> Iterator[None]:
    """Remarks on odd files are nobody's; that a file is a bomb is an error, not a remark."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", image_module.DecompressionBombWarning)
        yield


def _key(files: Sequence[Path], names: Sequence[str], shape: tuple[int, ...]) -> str:
    total = hashlib.sha256(f"{_VERSION} {shape}".encode())
    for file, name in zip(files, names, strict=True):
        try:
            state = file.stat()
            total.update(f"\n{name}\0{state.st_size} {state.st_mtime_ns}".encode(errors="surrogateescape"))
        except OSError:
            total.update(f"\n{name}\0gone".encode(errors="surrogateescape"))
    return total.hexdigest()[:24]


def _decode_all(
    files: Sequence[Path], names: Sequence[str], shape: tuple[int, ...], colour: Colour, target: Path
) -> None:
    """Write array and faults; the array last, so that where it is, both are."""
    unfinished = target.with_suffix(f".{os.getpid()}.part")
    faults: dict[str, str] = {}
    try:
        images = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
        for place, file in enumerate(files):
            try:
                images[place] = decode(file, shape[1], colour)
            except Unreadable as exc:
                faults[names[place]] = str(exc)
        images.flush()
        del images
        with replacing(target.with_suffix(".json")) as beside:
            beside.write(json.dumps(faults).encode())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _mapped(target: Path, shape: tuple[int, ...]) -> Decoded | None:
    """What an earlier start wrote; None if it is not there or damaged."""
    try:
        images = np.load(target, mmap_mode="r", allow_pickle=False)
        faults = json.loads(target.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError, EOFError):
        return None
    return Decoded(images, faults) if images.shape == shape and images.dtype == np.uint8 else None
