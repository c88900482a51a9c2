"""Image files as bytes of one size, decoded with Pillow once and then stored, because a folder takes a minute."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np

from flnet.datasets.files import replacing
from flnet.datasets.labelled import read_npz
from flnet.text import text
from flnet.trainer import Array, DataMissing, TrainerError

_FAULTS = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)  # as Pillow's decoders raise them


class Unreadable(Exception):
    """A file that holds no whole picture; the text says what is wrong with it."""


@dataclass(frozen=True)
class Pictures:
    """Those that could be read, and for the others what is wrong, by their place in the list asked for."""

    images: Array
    readable: Array
    faults: Mapping[int, str]


def decoded(file: Path | IO[bytes], mode: Literal["L", "RGB"], side: int) -> Array:
    """One picture squeezed to side x side pixels: uint8 (side, side) in grey, (side, side, 3) in colour.

    Raises:
        Unreadable: the file is damaged, cut off, or no picture.
        DataMissing: Pillow is not installed.
    """
    try:
        from PIL import Image  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  not for all data
    except ImportError as exc:
        what = text("the pictures are JPEG or PNG files, and Pillow, which reads those, is not installed")
        raise DataMissing(what, text("install it: pip install {package}", '"flnet[tensorflow]"')) from exc
    try:
        with Image.open(file) as picture:
            picture.draft(
                mode, (2 * side, 2 * side)
            )  # a JPEG is decoded at an eighth of its size where that will do
            small = picture.convert(mode)
            if small.size != (side, side):
                small = small.resize((side, side), Image.Resampling.LANCZOS)
            return np.array(small, np.uint8)
    except (*_FAULTS, Image.DecompressionBombError) as exc:
        raise Unreadable(str(exc) or type(exc).__name__) from exc


def grey_pictures(root: Path, names: Sequence[str], side: int, cache: Path) -> Pictures:
    """These files under `root` in grey; those whose size and time of change are as they were come from the cache.

    Args:
        root: folder of the files.
        names: their paths in it, each once.
        side: pixels.
        cache: file that remembers what was read; it may be deleted at any time.
    """
    known = _remembered(cache, side)
    images, stamps, faults = {}, {}, {}
    for place, name in enumerate(names):
        try:
            state = (root / name).stat()
            stamp = (state.st_size, state.st_mtime_ns)
            old = known.get(name)
            fresh = old is not None and old[0] == stamp
            images[place] = old[1] if old is not None and fresh else decoded(root / name, "L", side)
            stamps[name] = stamp
        except (Unreadable, OSError) as exc:
            faults[place] = str(exc)
    stack = np.stack(list(images.values())) if images else np.empty((0, side, side), np.uint8)
    if {name: stamp for name, (stamp, _) in known.items()} != stamps:
        _remember(cache, stamps, stack)
    return Pictures(stack, np.array(list(images), np.int64), faults)


_Known = dict[str, tuple[tuple[int, int], Array]]  # name -> (bytes, time of change in ns), image


def _remembered(cache: Path, side: int) -> _Known:
    """Nothing if there is no cache, or a damaged one, or one of another size: then the files are read again."""
    if not cache.is_file():
        return {}
    try:
        names, stamps, images = read_npz(cache, ("names", "stamps", "images"))
    except TrainerError:
        return {}
    if images.shape != (len(names), side, side) or stamps.shape != (len(names), 2) or images.dtype != np.uint8:
        return {}
    pairs = ((int(size), int(changed)) for size, changed in stamps)
    return {str(name): (stamp, image) for name, stamp, image in zip(names, pairs, images, strict=True)}


def _remember(cache: Path, stamps: Mapping[str, tuple[int, int]], images: Array) -> None:
    pairs = np.array(list(stamps.values()), np.int64).reshape(-1, 2)
    with suppress(OSError), replacing(cache) as file:  # without it the next start takes longer, no more
        np.savez(file, names=np.array(list(stamps), np.str_), stamps=pairs, images=images)
