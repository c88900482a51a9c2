"""Signs with the node's own key; loads `cryptography`, so a node of an open mesh never imports this."""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from flnet.errors import StartError
from flnet.fingerprints import key_text
from flnet.keys.own import PRIVATE


class Signer:
    """A private key in memory; see `flnet.signing.base.NodeKey`."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.text = key_text(private.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """The signature of 64 bytes (RFC 8032)."""
        return self._private.sign(data)

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        """Whether the owner of this public key (base64) signed these bytes."""
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
        private = load_pem_private_key((folder / PRIVATE).read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as exc:
        raise StartError(f"the key in {folder} cannot be used to sign: {exc}") from exc
    if not isinstance(private, Ed25519PrivateKey):
        raise StartError(f"the key in {folder} cannot be used to sign: it is no Ed25519 key")
    return Signer(private)
