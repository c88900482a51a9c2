"""What is known of one key, and how keys are named: by their fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from flnet.errors import InvalidMessage
from flnet.fingerprints import KEY_BYTES, check_key, fingerprint, read_fingerprint

By = Literal["person", "settings", "introducer"]

print_of = lru_cache(4096)(fingerprint)  # of a key; looked up with each request


@dataclass(frozen=True)
class Entry:
    """What is known of one key.

    Attributes:
        fingerprint: whole, in its usual form.
        key: base64 of the public key; empty until its node has called.
        name, address: as its node said them last, and where that called from ("host:port"); empty until then.
        since: seconds since the epoch by this node's clock, for people only: when it came to where it is now.
        by: who accepted it; empty for one that waits.
        is_introducer: whether those whom this one vouches for are accepted.
        introduced_by: fingerprint of the introducer that vouches for it; empty if a person decided.
    """

    fingerprint: str
    key: str = ""
    name: str = ""
    address: str = ""
    since: float = 0.0
    by: By | Literal[""] = ""
    is_introducer: bool = False
    introduced_by: str = ""

    @property
    def label(self) -> str:
        """How people hear of it."""
        return f"{self.name or 'a node'} ({self.fingerprint[:11]})"


def fingerprint_of(who: str) -> tuple[str, str]:
    """The fingerprint of what a person wrote, a public key in base64 or a whole fingerprint; and the key, if so.

    Raises:
        InvalidMessage: it is neither.
    """
    text = who.strip()
    try:
        return print_of(check_key(text)), text
    except ValueError:
        pass
    try:
        return read_fingerprint(text), ""
    except ValueError as exc:
        raise InvalidMessage(
            f"expected a public key of {KEY_BYTES} bytes in base64, or a fingerprint: {exc}"
        ) from exc


def read_row(row: Mapping[str, Any]) -> tuple[Entry | None, bool]:
    """An entry that was kept, None if it cannot be read, and whether it stays out."""
    known = {field.name for field in fields(Entry)}
    try:
        entry = Entry(**{name: value for name, value in row.items() if name in known})
        if read_fingerprint(entry.fingerprint) != entry.fingerprint or (entry.key and not check_key(entry.key)):
            return None, False
    except (TypeError, ValueError, AttributeError):
        return None, False
    return entry, bool(row.get("out"))
