"""With the standard's own examples: RFC 9421, appendices B.2.5 and B.2.6, keys of B.1."""

import base64
import hashlib
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError
from flnet.signing import MeshKey
from flnet.signing.base import digest_field, hmac_sha256, read_digest, read_key, signature_base
from flnet.signing.fields import Component, Covered, encoded, read_bytes, read_inputs
from flnet.signing.refusals import SignatureRefused
from tests.signing.keypairs import MESH, OTHER_MESH, TestKey

SHARED_SECRET = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
PEM = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
PUBLIC = "JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="
REQUEST = {
    Component("date"): "Tue, 20 Apr 2021 02:07:55 GMT",
    Component("@method"): "POST",
    Component("@path"): "/foo",
    Component("@authority"): "example.com",
    Component("content-type"): "application/json",
    Component("content-length"): "18",
}


def covered(signature_input: str) -> Covered:
    (found,) = read_inputs(signature_input).values()
    return found


def test_the_standards_example_with_a_shared_secret() -> None:
    base = signature_base(
        REQUEST,
        covered('sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"'),
    )

    proof = hmac_sha256(base64.b64decode(SHARED_SECRET), base)
    assert encoded(proof) == ":pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:"


def test_the_standards_example_with_an_ed25519_key() -> None:
    base = signature_base(
        REQUEST,
        covered(
            'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
            ';created=1618884473;keyid="test-key-ed25519"'
        ),
    )
    private = load_pem_private_key(PEM, None)
    assert isinstance(private, Ed25519PrivateKey)

    stated = "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"
    signature = read_bytes(stated, "Signature")["sig-b26"]
    assert private.sign(base) == signature
    assert TestKey(1).verify(PUBLIC, signature, base)
    assert not TestKey(1).verify(PUBLIC, signature, base + b" ")


def test_the_standards_example_of_a_digest() -> None:
    content = b'{"hello": "world"}'
    field = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"

    assert digest_field(hashlib.sha256(content).digest()) == field
    assert read_digest(field) == hashlib.sha256(content).digest()


@pytest.mark.parametrize("text", ["", "sha-512=:AAAA:", "sha-256=:AAAA:", "sha-256=X48E", "x"])
def test_a_digest_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(SignatureRefused):
        read_digest(text)


@given(st.text(max_size=80))
def test_any_text_is_a_digest_or_refused(text: str) -> None:
    with suppress(PeerError):
        assert len(read_digest(text)) == 32


@pytest.mark.parametrize("value", ["two\nlines", "é"])
def test_what_could_stand_for_something_else_is_not_signed(value: str) -> None:
    with pytest.raises(SignatureRefused, match="one line of ASCII"):
        signature_base({Component("x"): value}, Covered((Component("x"),), ()))


def test_what_is_not_there_is_not_signed() -> None:
    with pytest.raises(SignatureRefused, match="not there"):
        signature_base({}, Covered((Component("x"),), ()))


def test_a_mesh_key_proves_itself_to_its_equal_only() -> None:
    assert MESH.verify(MESH.sign(b"said"), b"said")
    assert MeshKey("correct horse battery staple").verify(MESH.sign(b"said"), b"said")
    assert not MESH.verify(MESH.sign(b"said"), b"sais")
    assert not OTHER_MESH.verify(MESH.sign(b"said"), b"said")
    assert not MESH.verify(b"", b"said")


def test_the_keyid_must_be_a_public_key() -> None:
    assert read_key(Covered((), (("keyid", PUBLIC),))) == PUBLIC
    for wrong in ("", "x", PUBLIC[:-1], 7):
        with pytest.raises(SignatureRefused):
            read_key(Covered((), (("keyid", wrong),)))
    with pytest.raises(SignatureRefused):
        read_key(Covered((), ()))
