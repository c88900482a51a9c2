"""HTTP message signatures (RFC 9421): which parts of a request or an answer are signed, with which keys, and how.

Header fields are dictionaries of RFC 9651, as far as RFC 9421 and RFC 9530 need them. Only the one canonical form of
a value is read, so that what was signed and what is verified are the same bytes. The `flnet.security.signing` module
signs requests and verifies them with this.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from flnet.errors import SignatureRefused
from flnet.fingerprints import check_key
from flnet.text import text

MOST_CHARACTERS = 4096  # of one field
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}")
_BYTES = re.compile(r":([A-Za-z0-9+/]*={0,2}):")
_TRUE = "?1"

Value = str | int | bytes | bool
TAG = "flnet"  # of our signatures, so that none made for another protocol is taken for one
NODE, MESH = "node", "mesh"  # names of the two signatures of a message
SHA256 = "sha-256"
EMPTY = hashlib.sha256(b"").digest()
# As in a password file: who records requests has to spend this for each guess of the mesh key.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1
_SALT = b"flnet mesh key, version 1"
RECEIVER = "Flnet-Receiver"
SCHEME = "Flnet"
UNKNOWN = "?"  # in place of a receiver: the sender can sign, once it is told for whom
_NAMED = re.compile(r"([A-Za-z0-9+/]{43}=) ([0-9a-f]{32})")
_CHALLENGE = re.compile(rf'{SCHEME} key="([A-Za-z0-9+/]{{43}}=)", session="([0-9a-f]{{32}})"')
_NONCE = re.compile(r"([0-9a-f]{16})\.(0|[1-9][0-9]{0,14})")


@dataclass(frozen=True)
class Component:
    """A part of a message that a signature covers: its name, and parameters that say which part."""

    name: str
    params: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return quoted(self.name) + written(self.params)


@dataclass(frozen=True)
class Covered:
    """One member of Signature-Input: what is covered, in order, and the parameters of the signature."""

    components: tuple[Component, ...]
    params: tuple[tuple[str, Value], ...]

    @cached_property
    def text(self) -> str:
        """The value of the header field."""
        return f"({' '.join(map(str, self.components))}){written(self.params)}"

    def __str__(self) -> str:
        return self.text

    def param(self, name: str) -> Value | None:
        """A parameter; None if there is none of this name."""
        return next((value for key, value in self.params if key == name), None)


def quoted(text: str) -> str:
    """A string as it stands in a field; only printable ASCII can."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encoded(raw: bytes) -> str:
    """Bytes as they stand in a field."""
    return f":{base64.b64encode(raw).decode('ascii')}:"


def written(params: tuple[tuple[str, Value], ...]) -> str:
    """Parameters as they stand behind what they belong to."""
    return "".join(f";{name}" if value is True else f";{name}={_value(value)}" for name, value in params)


def read_inputs(text: str) -> Mapping[str, Covered]:
    """The members of Signature-Input.

    Raises:
        SignatureRefused: it is not in the form of RFC 9421, or not in the canonical one.
    """
    reader, members = _Reader(text, "Signature-Input"), {}
    for name in reader.members():
        members[name] = reader.covered()
    return members


def read_bytes(text: str, field: str) -> Mapping[str, bytes]:
    """The members of Signature or Content-Digest.

    Raises:
        SignatureRefused: it is no dictionary of byte sequences.
    """
    reader, members = _Reader(text, field), {}
    for name in reader.members():
        members[name] = reader.bytes()
    return members


class _Reader:
    def __init__(self, text: str, field: str) -> None:
        self._text, self._field, self._at = text, field, 0
        self._first: tuple[str, Covered] | None = None  # member of Signature-Input, and how it is written
        if len(text) > MOST_CHARACTERS:
            raise self._wrong(f"has more than {MOST_CHARACTERS} characters")

    def members(self) -> Iterator[str]:
        """Yields the name of each member; what stands behind it is read before the next one is asked for."""
        seen: set[str] = set()
        while True:
            name = self._take(_KEY)[0]
            if name in seen:
                raise self._wrong("names a member twice")
            seen.add(name)
            self._skip("=")
            yield name
            if self._at == len(self._text):
                return
            self._skip(", ")

    def covered(self) -> Covered:
        """The next one; a second one that is written like the first, as ours is, is not read letter by letter."""
        if self._first is not None and self._skipped(self._first[0]):
            if self._at == len(self._text) or self._text.startswith(", ", self._at):
                return self._first[1]
            self._at -= len(self._first[0])
        begin = self._at
        covered = Covered(self.components(), self.params())
        self._first = self._first or (self._text[begin : self._at], covered)
        return covered

    def components(self) -> tuple[Component, ...]:
        self._skip("(")
        components: list[Component] = []
        while not self._skipped(")"):
            if components:
                self._skip(" ")
            components.append(Component(self._string(), self.params()))
        if len(set(components)) < len(components):
            raise self._wrong("covers a component twice")
        return tuple(components)

    def params(self) -> tuple[tuple[str, Value], ...]:
        params: list[tuple[str, Value]] = []
        while self._skipped(";"):
            name = self._take(_KEY)[0]
            if any(name == other for other, _ in params):
                raise self._wrong("names a parameter twice")
            params.append((name, self._bare() if self._skipped("=") else True))
        return tuple(params)

    def bytes(self) -> bytes:
        text = self._take(_BYTES)[1]
        try:
            raw = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise self._wrong("holds base64 that cannot be read") from None
        if base64.b64encode(raw).decode("ascii") != text:
            raise self._wrong("holds base64 in another form than the usual one")
        return raw

    def _bare(self) -> Value:
        if self._text.startswith('"', self._at):
            return self._string()
        if self._text.startswith(":", self._at):
            return self.bytes()
        return int(self._take(_INTEGER)[0])

    def _string(self) -> str:
        return re.sub(r"\\(.)", r"\1", self._take(_STRING)[1])

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._wrong(f"cannot be read from character {self._at} on")
        self._at = match.end()
        return match

    def _skipped(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _skip(self, text: str) -> None:
        if not self._skipped(text):
            raise self._wrong(f"has no {text!r} at character {self._at}")

    def _wrong(self, words: str) -> SignatureRefused:
        return SignatureRefused(text("the header {part} {words}", self._field, words))


def _value(value: Value) -> str:
    if isinstance(value, bytes):
        return encoded(value)
    if isinstance(value, bool):
        return _TRUE if value else "?0"
    return quoted(value) if isinstance(value, str) else str(value)


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
    """The secret that all nodes of a keyed mesh share, and while it is being changed a second one.

    Attributes:
        accepts_other: whether there is a second one, with which nothing is signed here.
    """

    def __init__(self, secret: str, other: str | None = None) -> None:
        """Stretch the secrets, which takes some hundredths of a second each."""
        self._key = _stretched(secret)
        self._other = None if other is None else _stretched(other)
        self.accepts_other = other is not None

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256, which shows that the sender knows the secret."""
        return hmac_sha256(self._key, data)

    def verify(self, proof: bytes, data: bytes) -> bool:
        """Whether somebody who knows one of the secrets made this; takes as long for any wrong proof."""
        return hmac.compare_digest(proof, self.sign(data)) or self.is_of_other(proof, data)

    def is_of_other(self, proof: bytes, data: bytes) -> bool:
        """Whether this was made with the second secret."""
        return self._other is not None and hmac.compare_digest(proof, hmac_sha256(self._other, data))


def _stretched(secret: str) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=_SALT, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=32)


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
            raise SignatureRefused(
                text("the signature covers {part}, which is not there", f"{str(component)[:80]!a}")
            )
        if "\n" in value or not value.isascii():
            raise SignatureRefused(text("{part} cannot be signed: it is not one line of ASCII", component))
        lines.append(f"{component}: {value}\n")
    lines.append(f'"@signature-params": {covered}')
    return "".join(lines).encode("ascii")


def digest_field(sha256: bytes) -> str:
    """The value of Content-Digest (RFC 9530) for content of this SHA-256."""
    return f"{SHA256}={encoded(sha256)}"


def read_digest(header: str) -> bytes:
    """The SHA-256 that a Content-Digest states.

    Raises:
        SignatureRefused: it states none.
    """
    digest = read_bytes(header, "Content-Digest").get(SHA256, b"")
    if len(digest) != hashlib.sha256().digest_size:
        raise SignatureRefused(text("the header Content-Digest states no {part} of the content", SHA256))
    return digest


def read_key(covered: Covered) -> str:
    """The public key that a signature says it was made with.

    Raises:
        SignatureRefused: it says none.
    """
    try:
        return check_key(str(covered.param("keyid")))
    except ValueError as exc:
        raise SignatureRefused(text("the keyid of the signature {words}", exc)) from None


_METHOD, _PATH, _QUERY = Component("@method"), Component("@path"), Component("@query")
_DIGEST, _TYPE, _TO = Component("content-digest"), Component("content-type"), Component(RECEIVER.lower())
_STATUS, _ASKED = Component("@status"), Component("signature", (("req", True), ("key", NODE)))


class RequestReceiver(NamedTuple):
    """The receiver of a request: the public key of a node, and the session that began with its start."""

    key: str
    session: str

    def __str__(self) -> str:
        return f"{self.key} {self.session}"

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate that tells callers."""
        return f'{SCHEME} key="{self.key}", session="{self.session}"'


@dataclass(frozen=True)
class RequestParts:
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
        """The covered values, in order."""
        values = {_METHOD: self.method, _PATH: self.path, _QUERY: self.query, _DIGEST: self.content_digest}
        if self.content_type is not None:
            values[_TYPE] = self.content_type
        return {**values, _TO: self.receiver}


@dataclass(frozen=True)
class ReplyParts:
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
        """The covered values, in order."""
        values = {_STATUS: str(self.status), _ASKED: encoded(self.asked)}
        if self.content_type is not None:
            values[_TYPE] = self.content_type
        if self.content_digest is not None:
            values[_DIGEST] = self.content_digest
        return values


class Signed(NamedTuple):
    """The signatures of a message, read but not checked."""

    covered: Covered
    node: bytes
    mesh: bytes | None


def read_receiver(text: str) -> RequestReceiver | None:
    """Parse the header Flnet-Receiver; None if it cannot be read."""
    return _receiver(_NAMED.fullmatch(text))


def read_challenge(text: str) -> RequestReceiver | None:
    """The receiver that WWW-Authenticate asks requests to be signed for; None if it says something else."""
    return _receiver(_CHALLENGE.fullmatch(text))


def read_nonce(covered: Covered) -> tuple[str, int]:
    """The run of the sender, and its counter.

    Raises:
        SignatureRefused: the signature has none.
    """
    match = _NONCE.fullmatch(str(covered.param("nonce")))
    if match is None:
        raise SignatureRefused(text("the nonce of the signature is no run and counter"))
    return match[1], int(match[2])


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
        raise SignatureRefused(text("expected the signatures {names}", " and ".join(sorted(wanted))))
    covered = inputs[NODE]
    if with_mesh and inputs[MESH] != covered:
        raise SignatureRefused(text("the two signatures do not cover the same"))
    if covered.param("tag") != TAG:
        raise SignatureRefused(text("the signature is not of this protocol: its tag is another one"))
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
            text(
                "the signature must cover {part}; missing: {found}", " ".join(map(str, values)), missing or "order"
            )
        )
    key, base = read_key(signed.covered), signature_base(values, signed.covered)
    if mesh is not None and not mesh.verify(signed.mesh or b"", base):
        raise SignatureRefused(
            text("the mesh key is another one there than here; give all nodes the same FLNET_MESH_KEY")
        )
    if not node.verify(key, signed.node, base):
        raise SignatureRefused(text("the signature was not made with the key that it names"))
    return key


def _receiver(match: re.Match[str] | None) -> RequestReceiver | None:
    try:
        return RequestReceiver(check_key(match[1]), match[2]) if match else None
    except ValueError:
        return None
