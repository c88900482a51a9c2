"""From a JPEG or PNG file to pixels. Training and predictions share it, so a file means the same pixels to both."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from flnet.errors import DataMissing
from flnet.installing import install
from flnet.params.params import Array
from flnet.text import text

MAX_PIXELS = 64_000_000  # of one picture: beyond the largest detector of radiography, far below a bomb
_FORMATS = ("JPEG", "PNG")  # no others: Pillow knows dozens, whose decoders nobody here has looked at
Colour = Literal["grey", "rgb"]


class Unreadable(Exception):
    """A file is no complete picture; the text says what is wrong."""


def decoded(source: Path | IO[bytes], size: tuple[int, int], colour: Colour, *, most: int = MAX_PIXELS) -> Array:
    """One picture, upright, squeezed by Lanczos resampling: uint8 (height, width) in grey, else (height, width, 3).

    A card of a model has the same steps as code (`flnet.node.model_service`).

    Args:
        source: the file.
        size: width and height in pixels.
        colour: grey or rgb. 16 bits a pixel become 8.
        most: pixels that a picture may have; larger ones are refused by their head.

    Raises:
        Unreadable: it is damaged, cut off, too large, or neither JPEG nor PNG.
        DataMissing: Pillow is not installed.
    """
    image_module, ops = _pillow()
    mode = "L" if colour == "grey" else "RGB"
    with (
        _in_words(image_module, source, most),
        _quiet(image_module),
        image_module.open(source, formats=_FORMATS) as opened,
    ):
        width, height = opened.size
        if width * height > most:
            raise Unreadable(
                text("it has {width} x {height} pixels; at most {most} are decoded", width, height, most)
            )
        opened.draft(mode, (2 * size[0], 2 * size[1]))  # a JPEG need not be decoded at its full size
        upright = ops.exif_transpose(opened)
        if upright.mode.startswith("I"):  # 16 bits a pixel, as X-rays have: plain conversion would cut them
            deep = np.asarray(upright).astype(np.float64) / 257
            upright = image_module.fromarray(deep.clip(0, 255).astype(np.uint8))
        # Width first, then height: Pillow 13 chooses the order, which would move pixels by 1.
        lanczos, plain = image_module.Resampling.LANCZOS, upright.convert(mode)
        narrow = plain.resize((size[0], plain.height), lanczos)
        return np.array(narrow.resize(size, lanczos), np.uint8)


def size_and_mode(source: Path) -> tuple[tuple[int, int], str]:
    """Width and height, and Pillow's word for the colours, by the head of a file.

    Raises:
        Unreadable: it is damaged, or neither JPEG nor PNG.
        DataMissing: Pillow is not installed.
    """
    image_module, _ = _pillow()
    with (
        _in_words(image_module, source, MAX_PIXELS),
        _quiet(image_module),
        image_module.open(source, formats=_FORMATS) as opened,
    ):
        return opened.size, opened.mode


@contextmanager
def _in_words(image_module: Any, source: Path | IO[bytes], most: int) -> Iterator[None]:
    """Turn what decoders raise into Unreadable."""
    try:
        yield
    except Unreadable:
        raise
    except image_module.UnidentifiedImageError as exc:
        raise Unreadable(text("it is neither a JPEG nor a PNG file")) from exc
    except (image_module.DecompressionBombError, image_module.DecompressionBombWarning) as exc:
        raise Unreadable(text("it has too many pixels; at most {most} are decoded", most)) from exc
    except Exception as exc:  # decoders raise whatever their format brings about
        raise Unreadable(str(exc).replace(str(source), "it")[:200] or type(exc).__name__) from exc


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  not for all
    except ImportError as exc:
        what = text("pictures are read with Pillow, which is not installed")
        raise DataMissing(what, text("install it: {command}", install("images"))) from exc
    return Image, ImageOps


@contextmanager
def _quiet(image_module: Any) -> Iterator[None]:
    """Suppress Pillow's warnings, but make the warning about decompression bombs an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", image_module.DecompressionBombWarning)
        yield
