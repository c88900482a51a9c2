"""The key pair of this node: made at its first start, kept in the state folder, and used to sign.

An Ed25519 key (RFC 8032) is the node's identity. The private key is in `identity.key`. `identity.pub` holds the
public key and the SHA-256 of the private key's file, so that a file that was brought from elsewhere is noticed.

`cryptography` takes a process nine megabytes, and a node of an open mesh only needs to know its public key. So this
module imports it inside functions, and `own_key` makes a new pair in a child process: `python -m
flnet.security.keys FOLDER`. Who starts many nodes makes all their pairs in one such process (`make_keys`).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from flnet.errors import StartError
from flnet.fingerprints import check_key, key_text, short
from flnet.text import text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PRIVATE, PUBLIC = "identity.key", "identity.pub"
SECRET_MODE = 0o600
UNFINISHED = ".unfinished"
CHILD_SECONDS = 60.0  # for something that takes a tenth of a second on an idle machine
NEW_ONE = "`flnet keygen --new-identity` sets it aside and makes a new one; peers then see another node"


@dataclass(frozen=True)
class OwnKey:
    """The public key of this node.

    Attributes:
        text: its base64.
        notices: what the operator should know about its files.
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
    notices = []
    try:
        private = folder / PRIVATE
        if private.exists() and (mode := open_to_others(private)):
            private.chmod(SECRET_MODE)
            notices.append(
                text(
                    "others could read {file} (mode {mode}); only its owner can now. If strangers use "
                    "this machine, `flnet keygen --new-identity` makes a key that nobody has seen",
                    PRIVATE,
                    mode,
                )
            )
        key = noted(folder)
    except OSError as exc:
        raise StartError(f"the key in {folder} cannot be read: {exc.strerror or exc}") from exc
    return OwnKey(key or _from_child(folder), tuple(notices))


def noted(folder: Path) -> str | None:
    """The public key in `identity.pub`; None if that file is missing or does not belong to the private key.

    Raises:
        OSError: a file exists and cannot be read.
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


def make_keys(folders: Sequence[Path]) -> None:
    """Make a pair in each of these state folders, before their nodes are started.

    Raises:
        StartError: one of them cannot be kept.
    """
    if folders:
        _from_child(*folders)


def _from_child(*folders: Path) -> str:
    """The public key of the last of these folders."""
    command = [sys.executable, "-m", "flnet.security.keys", *(str(folder.absolute()) for folder in folders)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own module
            command, capture_output=True, timeout=CHILD_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StartError(f"the process that makes this node's key did not end well: {exc}") from exc
    try:
        result = json.loads(ended.stdout)
        if "error" in result:
            raise StartError(str(result["error"]))
        return check_key(result["key"])
    except (ValueError, KeyError, TypeError) as exc:
        words = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word from it"]
        raise StartError(f"this node's key could not be made: {words[0][:300]}") from exc


# Everything below loads `cryptography`.


def ensure(folder: Path, *, new: bool = False) -> str:
    """The public key of this folder's node; the pair is made if the folder never had one.

    Args:
        folder: held by this process, or by the one that waits for it.
        new: set an earlier pair aside, whole or not, and make another one.

    Returns:
        The base64 of the public key.

    Raises:
        StartError: the private key is missing or damaged, or a file cannot be read or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        private, public = folder / PRIVATE, folder / PUBLIC
        if new:
            set_aside(private)
            set_aside(public)
        if not private.exists():
            if public.exists():
                raise StartError(
                    f"{private} is missing, but this node had a key: bring the file back from a copy, or {NEW_ONE}"
                )
            write_secret(private, _new_pem())
        pem = private.read_bytes()
        key = public_of(pem, private)
        note = json.dumps({"key": key, "of": hashlib.sha256(pem).hexdigest()}).encode()
        if not public.exists() or public.read_bytes() != note:
            write_secret(public, note)
        if open_to_others(private):
            private.chmod(SECRET_MODE)
    except OSError as exc:
        raise StartError(f"the key in {folder} cannot be kept: {exc.strerror or exc}") from exc
    return key


def public_of(pem: bytes, path: Path) -> str:
    """The base64 of the public key that belongs to a private one.

    Args:
        pem: PKCS8 (RFC 5958), not encrypted.
        path: where it was read, for the words of an error.

    Raises:
        StartError: it is damaged, or a key of another kind.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    try:
        private = read_private(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        what = str(exc).splitlines()[0][:100] if str(exc) else type(exc).__name__
        raise StartError(f"{path} is damaged ({what}): bring it back from a copy, or {NEW_ONE}") from exc
    if private is None:
        raise StartError(f"{path} holds no Ed25519 key: bring it back from a copy, or {NEW_ONE}")
    return Signer(private).text


def read_private(pem: bytes) -> Ed25519PrivateKey | None:
    """The private key in a PEM file; None if it is a key of another kind.

    Raises:
        ValueError, TypeError, cryptography.exceptions.UnsupportedAlgorithm: it cannot be read.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key = load_pem_private_key(pem, password=None)
    return key if isinstance(key, Ed25519PrivateKey) else None


def _new_pem() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Signer:
    """Signs with the node's private key, and verifies what others signed with theirs.

    Attributes:
        text: base64 of the public key.
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.text = key_text(private.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """The signature of 64 bytes (RFC 8032)."""
        return self._private.sign(data)

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        """Whether the owner of this public key (base64) signed these bytes."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def load_signer(folder: Path) -> Signer:
    """The key of this folder's node, which `own_key` has made sure of.

    Raises:
        StartError: it cannot be read.
    """
    try:
        private = read_private((folder / PRIVATE).read_bytes())
    except (OSError, ValueError, TypeError) as exc:
        raise StartError(f"the key in {folder} cannot be used to sign: {exc}") from exc
    if private is None:
        raise StartError(f"the key in {folder} cannot be used to sign: it is no Ed25519 key")
    return Signer(private)


class KeyState(NamedTuple):
    """The result of `flnet doctor` for the key; `mended` if a fault was repaired."""

    level: Literal["ok", "warning", "error"]
    text: str
    mended: bool = False


def examine_key(folder: Path, mend: bool = False) -> KeyState:
    """Whether the folder's key is whole, and readable by its owner only.

    Args:
        mend: repair the mode of the file and its note; a damaged key is left as it is.
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


# Files that hold a secret: written wholly or not at all, readable by their owner only.


def write_secret(path: Path, content: bytes) -> None:
    """Write a file in place of an older one; it is on the disk when this returns.

    Raises:
        OSError: it was not written; an older one is still there.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)  # of a process that was killed
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def set_aside(path: Path) -> Path | None:
    """Rename a file so that it stays under another name; the new name, None if there was no such file.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = next(p for n in range(1, 1_000_000) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    try:
        path.rename(aside)
    except FileNotFoundError:
        return None
    sync(path.parent)
    return aside


def open_to_others(path: Path) -> str:
    """The mode of a file or folder that others than its owner may use, as in "644"; empty if they may not."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:o}" if mode & 0o077 else ""


def sync(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main() -> None:
    """Make sure of the pairs in the folders that are named; print the last public key or what is wrong, as JSON."""
    try:
        result = [{"key": ensure(Path(folder))} for folder in sys.argv[1:]][-1]
    except StartError as exc:
        result = {"error": exc.message}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
