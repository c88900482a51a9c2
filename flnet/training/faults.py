"""What went wrong in a trainer, in one line for people."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_LONGEST = 500
_LIBRARIES = (
    str(Path(__file__).parent),
    "<frozen",
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)


def in_words(fault: BaseException, what: str) -> str:
    """`what`, the last line of the traceback, and the innermost place that is not in a library."""
    last = traceback.format_exception_only(fault)[-1].strip()
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if not f.filename.startswith(_LIBRARIES)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{what}: {last[:_LONGEST]}{where}"
