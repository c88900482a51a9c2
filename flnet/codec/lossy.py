"""The one place where parameters lose anything on their way: an update rounded to what travels in fewer bytes.

What rounding took away is kept and added to the next update (error feedback), so that over many rounds the sum
of what was sent stays within one rounding step of the sum of what should have been.
Source: Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Karimireddy et al., ICML 2019.
"""

from __future__ import annotations

import numpy as np

from flnet.packing import Encoding, is_packable, rounded
from flnet.params import Array, Params


def lowered(params: Params, residual: Params | None, encoding: Encoding) -> tuple[Params, Params]:
    """Round to numbers that `BinaryCodec(encoding)` packs, after adding what rounding took away last time.

    Small arrays, integers and booleans are not touched, nor is an array that is not finite; one that is beyond
    the range of the encoding, and every one where the encoding is "float32", gets its residual and is not
    rounded. Rounding again what was rounded changes nothing.

    Args:
        residual: what the last call gave; arrays of other names, shapes or dtypes (another model) are ignored.

    Returns:
        The parameters to send, and what was lost, for the next call.
    """
    sent: dict[str, Array] = {}
    lost: dict[str, Array] = {}
    for name, array in params.items():
        wanted = _with_residual(array, None if residual is None else residual.get(name))
        low = rounded(wanted, encoding)
        sent[name] = wanted if low is None else low
        if low is not None:
            # The sum with the residual is nobody else's: its memory holds what is lost from here on.
            lost[name] = np.subtract(wanted, low, out=None if wanted is array else wanted)
    return Params(sent), Params(lost)


def _with_residual(array: Array, residual: Array | None) -> Array:
    if residual is None or not is_packable(array):
        return array
    if residual.shape != array.shape or residual.dtype != array.dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.add(array, residual)
    return wanted if np.isfinite(wanted).all() else array
