"""Makes and reads the key pair; the only module that loads `cryptography`, which takes a process nine megabytes.

A node therefore runs it in a child that ends at once: `python -m flnet.keys.pair FOLDER`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from flnet.errors import StartError
from flnet.fingerprints import key_text
from flnet.keys.files import open_to_others, set_aside, write_secret
from flnet.keys.own import PRIVATE, PUBLIC

NEW_ONE = "`flnet keygen --new-identity` sets it aside and makes a new one; peers then see another node"


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
            write_secret(private, _made())
        pem = private.read_bytes()
        key = public_of(pem, private)
        note = json.dumps({"key": key, "of": hashlib.sha256(pem).hexdigest()}).encode()
        if not public.exists() or public.read_bytes() != note:
            write_secret(public, note)
        if open_to_others(private):
            private.chmod(0o600)
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
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        found = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        what = str(exc).splitlines()[0][:100] if str(exc) else type(exc).__name__
        raise StartError(f"{path} is damaged ({what}): bring it back from a copy, or {NEW_ONE}") from exc
    if not isinstance(found, Ed25519PrivateKey):
        raise StartError(f"{path} holds no Ed25519 key: bring it back from a copy, or {NEW_ONE}")
    return key_text(found.public_key().public_bytes_raw())


def _made() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def main() -> None:
    """Make sure of the pair in the folder that is named, and print the public key or what is wrong, as JSON."""
    try:
        said = {"key": ensure(Path(sys.argv[1]))}
    except StartError as exc:
        said = {"error": exc.message}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
