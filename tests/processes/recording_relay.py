"""A node that writes all that it copies as a relay to a file: `python -m tests.processes.recording_relay run ...`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flnet.__main__ import main
from flnet.node import relay
from tests.processes.hurried import hurry

RECORDED = "RELAY_RECORDED"  # variable that names the file


class _Recorded(asyncio.StreamReader):
    """A reader whose bytes go to the file, too."""

    def __init__(self, reader: asyncio.StreamReader, path: Path) -> None:
        self._of, self._path = reader, path

    async def read(self, n: int = -1) -> bytes:
        data = await self._of.read(n)
        with self._path.open("ab") as file:
            file.write(data)
        return data


def record(path: Path) -> None:
    """Let the relay of this process copy through the file."""
    recorded: Any = relay
    copy = relay._copy

    async def _copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], object]
    ) -> None:
        await copy(_Recorded(reader, path), writer, moved)

    recorded._copy = _copy


if __name__ == "__main__":
    hurry()
    record(Path(os.environ[RECORDED]))
    main()
