"""`flnet run` that writes down each minute what it holds: `python -m tests.soak.holding run ...`.

A line of JSON goes to a file of the node's name in the folder HOLDING. `objects` are those that the garbage
collector looks at, `blocks` all pieces of memory that Python gave out; `full` counts full collections. Between two
of these, circles of objects that nothing uses any more are among them: only what is left by one tells of a leak.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flnet.__main__ import main

HOLDING, SECONDS = "HOLDING", 60.0
MOST_KINDS = 40


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library (mallinfo(3))."""

    _names = (
        "arena",
        "ordblks",
        "smblks",
        "hblks",
        "hblkhd",
        "usmblks",
        "fsmblks",
        "uordblks",
        "fordblks",
        "keepcost",
    )
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names)


def held() -> Mapping[str, Any]:
    """What this process holds now: bytes where they are bytes, else numbers of objects."""
    objects = gc.get_objects()
    kinds = Counter(f"{type(one).__module__}.{type(one).__name__}" for one in objects)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "resident": pages * os.sysconf("SC_PAGE_SIZE"),
        "objects": len(objects),
        "blocks": sys.getallocatedblocks(),
        "full": gc.get_stats()[2]["collections"],
        **_of_c(),
        "kinds": dict(kinds.most_common(MOST_KINDS)),
    }


def _of_c() -> Mapping[str, int]:
    """What the C library has given out, and what it keeps though it was given back; nothing with another one."""
    try:
        asked = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    asked.restype = _MallInfo
    found = asked()
    return {"used": found.uordblks + found.hblkhd, "spare": found.fordblks}


def write_down(file: Path, seconds: float = SECONDS) -> None:
    """Add a line now and then, until the process ends."""
    while True:
        time.sleep(seconds)
        with file.open("a") as lines:
            print(json.dumps({"at": time.time(), **held()}), file=lines)


if __name__ == "__main__":
    if place := os.environ.get(HOLDING):
        own = Path(place) / f"{os.environ.get('FLNET_NODE_ID', 'node')}.held"
        threading.Thread(target=write_down, args=(own,), daemon=True).start()
    main()
