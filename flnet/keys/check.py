"""Looks over the key of a state folder for `flnet doctor`; loads `cryptography`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from flnet.errors import StartError
from flnet.fingerprints import short
from flnet.keys.files import SECRET_MODE, open_to_others
from flnet.keys.own import PRIVATE, PUBLIC, noted
from flnet.keys.pair import ensure, public_of


class KeyState(NamedTuple):
    """What there is to say of a key; `mended` if it is put right now."""

    level: Literal["ok", "warning", "error"]
    text: str
    mended: bool = False


def examine_key(folder: Path, mend: bool = False) -> KeyState:
    """Whether the folder's key is whole, and read by its owner only.

    Args:
        mend: mend the mode of the file and the note beside it; a damaged key is left as it is.
    """
    private = folder / PRIVATE
    try:
        if not private.exists():
            if (folder / PUBLIC).exists():
                return KeyState(
                    "error", f"{PRIVATE} is missing, but this node had a key; bring it back from a copy"
                )
            return KeyState("ok", "none yet; the first start makes it")
        mode = open_to_others(private)
        key = public_of(private.read_bytes(), private)
        if mode:
            if mend:
                private.chmod(SECRET_MODE)
            return KeyState("warning", f"others may read {PRIVATE} (mode {mode}; it should be 600)", mend)
        if noted(folder) != key:
            if mend:
                ensure(folder)
            return KeyState("warning", f"{PUBLIC} says nothing of this key; the next start writes it again", mend)
    except StartError as exc:
        return KeyState("error", exc.message)
    except OSError as exc:
        return KeyState("error", f"it cannot be read: {exc.strerror or exc}")
    return KeyState("ok", f"whole; its fingerprint begins with {short(key)}")
