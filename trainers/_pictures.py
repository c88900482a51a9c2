"""Image files as bytes of one size, decoded with Pillow once and then stored, because a folder takes a minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.datasets.files import replacing
from flnet.datasets.labelled import read_npz
from flnet.datasets.pictures import Unreadable, decoded
from flnet.trainer import Array, TrainerError


@dataclass(frozen=True)
class Pictures:
    """Those that could be read, and for the others what is wrong, by their place in the list asked for."""

    images: Array
    readable: Array
    faults: Mapping[int, str]


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
            images[place] = old[1] if old is not None and fresh else decoded(root / name, (side, side), "grey")
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
