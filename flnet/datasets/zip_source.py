"""The file of a zip archive that may come from anybody: the list of its entries is looked at before zipfile reads it.

zipfile reads the whole list at once and makes an object of each entry, ten times as large, before anybody can count them.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from flnet.text import text

MOST_ENTRIES = 1_000_000  # of an archive
MOST_BYTES = 256 * 1024 * 1024  # of its list: as many entries with long names
_PIECE = 1024 * 1024  # all else is read in pieces of this size at most
# Its mark in the list, and its least bytes there and before its contents.
_ENTRY, _ENTRY_BYTES = b"PK\x01\x02", 46 + 30


class ZipSource(io.BufferedReader):
    """The file of an archive, for zipfile; a list that is too long is an error of zipfile."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.open("rb", buffering=0))

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes.

        Raises:
            zipfile.BadZipFile: they are a list of too many entries, or of more than the archive has room for.
        """
        if size is None or size <= _PIECE:
            return super().read(size)
        if size > MOST_BYTES:
            raise zipfile.BadZipFile(text("the list of its entries has {count} bytes", f"{size:,}"))
        listed = super().read(size)
        entries = listed.count(_ENTRY)
        if entries > MOST_ENTRIES:
            raise zipfile.BadZipFile(text("it has more than {count} entries", f"{MOST_ENTRIES:,}"))
        if entries * _ENTRY_BYTES > os.fstat(self.fileno()).st_size:
            raise zipfile.BadZipFile(text("it lists {count} entries, more than it has room for", f"{entries:,}"))
        return listed
