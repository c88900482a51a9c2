"""A PNG or JPEG file as one input of a trainer; runs in the worker, because a decoder of images may crash."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np

from flnet.errors import InputRefused, NotOffered
from flnet.params import Array
from flnet.training.api import InputSpec

MAX_BYTES = 8 * 1024 * 1024  # of a file
MAX_PIXELS = 40_000_000  # of a picture: a few kilobytes can stand for any number of them
_FAULTS = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)  # as Pillow's decoders raise them


def picture_input(data: bytes, spec: InputSpec) -> Array:
    """The picture squeezed to the spec's size, (1, *spec.shape) float32, in the spec's range (else 0 to 255).

    Raises:
        InputRefused: no PNG or JPEG, damaged, too large, or the trainer does not take pictures.
        NotOffered: Pillow is not installed.
    """
    if spec.kind != "image":
        raise InputRefused(f"this trainer takes {spec.kind} of shape {list(spec.shape)}, no pictures")
    if not 0 < len(data) <= MAX_BYTES:
        raise InputRefused(f"the picture has {len(data)} bytes; expected 1 to {MAX_BYTES}")
    pixels = _decoded(data, (spec.shape[1], spec.shape[0]), "RGB" if spec.shape[2:] == (3,) else "L")
    low = 0.0 if spec.low is None else spec.low
    high = 255.0 if spec.high is None else spec.high
    return (low + (high - low) * (pixels.astype(np.float32) / 255)).reshape(1, *spec.shape).astype(np.float32)


def _decoded(data: bytes, size: tuple[int, int], mode: str) -> Array:
    try:
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  only for who hands in pictures
    except ImportError as exc:
        raise NotOffered("pictures need Pillow, which is not installed; send numbers as inputs") from exc
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        with picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise InputRefused(f"the picture has {picture.width} x {picture.height} pixels; {_LIMIT}")
            picture.draft(mode, (2 * size[0], 2 * size[1]))  # a JPEG need not be decoded at its full size
            small = picture.convert(mode)
            if small.size != size:
                small = small.resize(size, Image.Resampling.LANCZOS)
            return np.array(small, np.uint8)
    except UnidentifiedImageError as exc:
        raise InputRefused("the picture is neither a PNG nor a JPEG file") from exc
    except bombs as exc:
        raise InputRefused(f"the picture is far too large; {_LIMIT}") from exc
    except _FAULTS as exc:
        raise InputRefused(f"the picture cannot be read as PNG or JPEG: {str(exc)[:200]}") from exc


_LIMIT = f"expected at most {MAX_PIXELS:,} in all"
