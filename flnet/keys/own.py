"""The public key of this node, without loading `cryptography`: a note beside the private key says what it is.

The note also says of which private key it is the public one (the SHA-256 of that file), so that a file that was
brought from elsewhere is noticed. Where there is no such note, a child process looks at the key, or makes it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from flnet.errors import StartError
from flnet.fingerprints import check_key
from flnet.keys.files import SECRET_MODE, open_to_others

PRIVATE, PUBLIC = "identity.key", "identity.pub"
CHILD_SECONDS = 60.0  # for something that takes a tenth of a second on an idle machine


@dataclass(frozen=True)
class OwnKey:
    """The public key of this node.

    Attributes:
        text: its base64.
        notices: what people should know of its files.
    """

    text: str
    notices: tuple[str, ...] = ()


def own_key(folder: Path) -> OwnKey:
    """The public key of this folder's node, which is made on its first start.

    Args:
        folder: held by this process.

    Raises:
        StartError: the private key is missing or damaged, or cannot be read; says what to do.
    """
    told = []
    try:
        private = folder / PRIVATE
        if private.exists() and (mode := open_to_others(private)):
            private.chmod(SECRET_MODE)
            told.append(
                f"others could read {PRIVATE} (mode {mode}); only its owner can now. If strangers use this "
                "machine, `flnet keygen --new-identity` makes a key that nobody has seen"
            )
        key = noted(folder)
    except OSError as exc:
        raise StartError(f"the key in {folder} cannot be read: {exc.strerror or exc}") from exc
    return OwnKey(key or _from_child(folder), tuple(told))


def noted(folder: Path) -> str | None:
    """The public key that the note says; None if there is no note on the private key that is there.

    Raises:
        OSError: a file is there and cannot be read.
    """
    try:
        pem, note = (folder / PRIVATE).read_bytes(), (folder / PUBLIC).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(note)
        return check_key(fields["key"]) if fields["of"] == hashlib.sha256(pem).hexdigest() else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _from_child(folder: Path) -> str:
    command = [sys.executable, "-m", "flnet.keys.pair", str(folder.absolute())]
    try:
        ended = subprocess.run(  # noqa: S603 - our own module
            command, capture_output=True, timeout=CHILD_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StartError(f"the process that makes this node's key did not end well: {exc}") from exc
    try:
        said = json.loads(ended.stdout)
        if "error" in said:
            raise StartError(str(said["error"]))
        return check_key(said["key"])
    except (ValueError, KeyError, TypeError) as exc:
        words = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word from it"]
        raise StartError(f"this node's key could not be made: {words[0][:300]}") from exc
