"""What both sides of a signed exchange must agree on: which parts are covered, and how a receiver is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flnet.fingerprints import check_key
from flnet.signing.base import MESH, NODE, TAG, MeshKey, NodeKey, read_key, signature_base
from flnet.signing.fields import Component, Covered, Value, encoded, read_bytes, read_inputs
from flnet.signing.refusals import SignatureRefused

RECEIVER = "Flnet-Receiver"
SCHEME = "Flnet"
UNKNOWN = "?"  # in place of a receiver: the sender can sign, once it is told for whom
_METHOD, _PATH, _QUERY = Component("@method"), Component("@path"), Component("@query")
_DIGEST, _TYPE, _TO = Component("content-digest"), Component("content-type"), Component(RECEIVER.lower())
_STATUS, _ASKED = Component("@status"), Component("signature", (("req", True), ("key", NODE)))
_NAMED = re.compile(r"([A-Za-z0-9+/]{43}=) ([0-9a-f]{32})")
_CHALLENGE = re.compile(rf'{SCHEME} key="([A-Za-z0-9+/]{{43}}=)", session="([0-9a-f]{{32}})"')
_NONCE = re.compile(r"([0-9a-f]{16})\.(0|[1-9][0-9]{0,14})")


class Receiver(NamedTuple):
    """Whom a request is for: the public key of a node, and the session that began with its start."""

    key: str
    session: str

    def __str__(self) -> str:
        return f"{self.key} {self.session}"

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate that tells callers."""
        return f'{SCHEME} key="{self.key}", session="{self.session}"'


@dataclass(frozen=True)
class Asked:
    """The parts of a request that are signed.

    Attributes:
        path: as in the request line, without the query.
        query: with its question mark, and nothing else if there is none.
        content_type: None if there is no body.
    """

    method: str
    path: str
    query: str
    content_digest: str
    receiver: str
    content_type: str | None = None

    def values(self) -> Mapping[Component, str]:
        """What is covered, in the order in which it is."""
        there = {_METHOD: self.method, _PATH: self.path, _QUERY: self.query, _DIGEST: self.content_digest}
        if self.content_type is not None:
            there[_TYPE] = self.content_type
        return {**there, _TO: self.receiver}


@dataclass(frozen=True)
class Said:
    """The parts of an answer that are signed.

    Attributes:
        content_digest: None for content that is shown to be right in another way.
        asked: the node's signature of the request.
    """

    status: int
    asked: bytes
    content_type: str | None = None
    content_digest: str | None = None

    def values(self) -> Mapping[Component, str]:
        """What is covered, in the order in which it is."""
        there = {_STATUS: str(self.status), _ASKED: encoded(self.asked)}
        if self.content_type is not None:
            there[_TYPE] = self.content_type
        if self.content_digest is not None:
            there[_DIGEST] = self.content_digest
        return there


class Signed(NamedTuple):
    """The signatures of a message, read but not checked."""

    covered: Covered
    node: bytes
    mesh: bytes | None


def read_receiver(text: str) -> Receiver | None:
    """What the header Flnet-Receiver says; None if it cannot be read."""
    return _receiver(_NAMED.fullmatch(text))


def read_challenge(text: str) -> Receiver | None:
    """Whom WWW-Authenticate says that it wants requests signed for; None if it says something else."""
    return _receiver(_CHALLENGE.fullmatch(text))


def read_nonce(covered: Covered) -> tuple[str, int]:
    """The run of the sender, and its counter.

    Raises:
        SignatureRefused: the signature has none.
    """
    found = _NONCE.fullmatch(str(covered.param("nonce")))
    if found is None:
        raise SignatureRefused("the nonce of the signature is no run and counter")
    return found[1], int(found[2])


def sign(
    values: Mapping[Component, str], node: NodeKey, mesh: MeshKey | None, nonce: str | None
) -> tuple[dict[str, str], bytes]:
    """The headers Signature-Input and Signature over all of these values, and the signature of the node.

    Raises:
        SignatureRefused: one of the values is not one line of ASCII.
    """
    params: list[tuple[str, Value]] = [("keyid", node.text), ("tag", TAG)]
    if nonce is not None:
        params.insert(1, ("nonce", nonce))
    covered = Covered(tuple(values), tuple(params))
    base = signature_base(values, covered)
    proofs = {NODE: node.sign(base), **({MESH: mesh.sign(base)} if mesh else {})}
    headers = {
        "Signature-Input": ", ".join(f"{name}={covered}" for name in proofs),
        "Signature": ", ".join(f"{name}={encoded(proof)}" for name, proof in proofs.items()),
    }
    return headers, proofs[NODE]


def read_signed(signature_input: str, signature: str, with_mesh: bool) -> Signed:
    """The signatures of a message, which must be ours and no others.

    Raises:
        SignatureRefused: they are not.
    """
    wanted = {NODE, MESH} if with_mesh else {NODE}
    inputs, proofs = read_inputs(signature_input), read_bytes(signature, "Signature")
    if not wanted <= set(inputs) or not wanted <= set(proofs):
        raise SignatureRefused(f"expected the signatures {' and '.join(sorted(wanted))}")
    covered = inputs[NODE]
    if with_mesh and inputs[MESH] != covered:
        raise SignatureRefused("the two signatures do not cover the same")
    if covered.param("tag") != TAG:
        raise SignatureRefused("the signature is not of this protocol: its tag is another one")
    return Signed(covered, proofs[NODE], proofs.get(MESH))


def check(signed: Signed, values: Mapping[Component, str], node: NodeKey, mesh: MeshKey | None) -> str:
    """Whether the signatures are right, and cover all of these values.

    Returns:
        The public key that signed.

    Raises:
        SignatureRefused: they are not, or do not.
    """
    if signed.covered.components != tuple(values):
        missing = [str(c) for c in values if c not in signed.covered.components]
        raise SignatureRefused(
            f"the signature must cover {' '.join(map(str, values))}; missing: {missing or 'order'}"
        )
    key, base = read_key(signed.covered), signature_base(values, signed.covered)
    if mesh is not None and not mesh.verify(signed.mesh or b"", base):
        raise SignatureRefused(
            "the mesh key is another one there than here; give all nodes the same FLNET_MESH_KEY"
        )
    if not node.verify(key, signed.node, base):
        raise SignatureRefused("the signature was not made with the key that it names")
    return key


def _receiver(found: re.Match[str] | None) -> Receiver | None:
    try:
        return Receiver(check_key(found[1]), found[2]) if found else None
    except ValueError:
        return None
