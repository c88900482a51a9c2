"""What is signed (RFC 9421, section 2.5), and what signs: the key of a node, and the key that a mesh shares."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Protocol

from flnet.fingerprints import check_key
from flnet.signing.fields import Component, Covered, encoded, read_bytes
from flnet.signing.refusals import SignatureRefused

TAG = "flnet"  # of our signatures, so that none made for another protocol is taken for one
NODE, MESH = "node", "mesh"  # names of the two signatures of a message
SHA256 = "sha-256"
EMPTY = hashlib.sha256(b"").digest()

# As in a password file: who records requests has to spend this for each guess of the mesh key.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1
_SALT = b"flnet mesh key, version 1"


class NodeKey(Protocol):
    """The Ed25519 key pair of this node, and the way to check what others signed with theirs."""

    @property
    def text(self) -> str:
        """The base64 of the public key."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature of 64 bytes."""
        ...

    def verify(self, key: str, signature: bytes, data: bytes) -> bool:
        """Whether the owner of this public key (base64) signed these bytes."""
        ...


class MeshKey:
    """The secret that all nodes of a keyed mesh share."""

    def __init__(self, secret: str) -> None:
        """Stretch the secret, which takes some hundredths of a second."""
        self._key = hashlib.scrypt(secret.encode(), salt=_SALT, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=32)

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256, which shows that the sender knows the secret."""
        return hmac_sha256(self._key, data)

    def verify(self, proof: bytes, data: bytes) -> bool:
        """Whether somebody who knows the secret made this; takes as long for any wrong proof."""
        return hmac.compare_digest(proof, self.sign(data))


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """RFC 9421, section 3.3.3."""
    return hmac.digest(key, data, "sha256")


def signature_base(values: Mapping[Component, str], covered: Covered) -> bytes:
    """The bytes that are signed.

    Args:
        values: of at least the components that are covered.
        covered: with the parameters of the signature.

    Raises:
        SignatureRefused: a component is covered that is not there, or that could stand for several.
    """
    lines = []
    for component in covered.components:
        value = values.get(component)
        if value is None:
            raise SignatureRefused(f"the signature covers {str(component)[:80]!a}, which is not there")
        if "\n" in value or not value.isascii():
            raise SignatureRefused(f"{component} cannot be signed: it is not one line of ASCII")
        lines.append(f"{component}: {value}\n")
    lines.append(f'"@signature-params": {covered}')
    return "".join(lines).encode("ascii")


def digest_field(sha256: bytes) -> str:
    """The value of Content-Digest (RFC 9530) for content of this SHA-256."""
    return f"{SHA256}={encoded(sha256)}"


def read_digest(text: str) -> bytes:
    """The SHA-256 that a Content-Digest states.

    Raises:
        SignatureRefused: it states none.
    """
    found = read_bytes(text, "Content-Digest").get(SHA256, b"")
    if len(found) != hashlib.sha256().digest_size:
        raise SignatureRefused(f"the header Content-Digest states no {SHA256} of the content")
    return found


def read_key(covered: Covered) -> str:
    """The public key that a signature says it was made with.

    Raises:
        SignatureRefused: it says none.
    """
    try:
        return check_key(str(covered.param("keyid")))
    except ValueError as exc:
        raise SignatureRefused(f"the keyid of the signature {exc}") from None
