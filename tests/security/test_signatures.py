"""The example of docs/keyed-meshes.md is what a node sends."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError, SignatureRefused
from flnet.security.signatures import (
    Component,
    Covered,
    MeshKey,
    ReplyParts,
    RequestParts,
    RequestReceiver,
    digest_field,
    encoded,
    hmac_sha256,
    quoted,
    read_bytes,
    read_challenge,
    read_digest,
    read_inputs,
    read_key,
    read_receiver,
    read_signed,
    signature_base,
)
from tests.security.keypairs import MESH, OTHER_MESH, SESSION, TestKey, admitted, learnt, seal, sent, verifier

RECEIVER = RequestReceiver(TestKey(2).text, SESSION)


def test_a_receiver_and_its_challenge_are_read_back() -> None:
    assert read_receiver(str(RECEIVER)) == RECEIVER
    assert read_challenge(RECEIVER.challenge) == RECEIVER


@given(st.text(max_size=100))
def test_any_other_text_names_nobody(text: str) -> None:
    assert read_receiver(text) is None
    assert read_challenge(text) is None


def test_a_key_that_stands_for_itself_in_two_forms_is_none() -> None:
    twin = "B" * 42 + "B="  # the last bits do not belong to the key

    assert read_receiver(f"{twin} {SESSION}") is None


def test_requests_with_and_without_a_body_cover_what_they_have() -> None:
    get = RequestParts("GET", "/info", "?", "d", "r")
    post = RequestParts("POST", "/info", "?", "d", "r", "application/json")

    assert [str(c) for c in get.values()] == [
        '"@method"',
        '"@path"',
        '"@query"',
        '"content-digest"',
        '"flnet-receiver"',
    ]
    assert set(post.values()) - set(get.values()) == {Component("content-type")}


def test_an_answer_covers_the_signature_of_its_request() -> None:
    said = ReplyParts(200, b"\1\2", "application/json", "d").values()

    assert said[Component("signature", (("req", True), ("key", "node")))] == ":AQI=:"
    assert [str(c) for c in said] == [
        '"@status"',
        '"signature";req;key="node"',
        '"content-type"',
        '"content-digest"',
    ]


# With the standard's own examples: RFC 9421, appendices B.2.5 and B.2.6, keys of B.1.


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
    with pytest.raises(SignatureRefused, match="not there"):
        signature_base({}, Covered((Component("x"),), ()))


def test_a_second_mesh_key_is_accepted_and_signs_nothing() -> None:
    old, new = "correct horse battery staple", "incorrect horse battery staple"
    changing = MeshKey(new, old)
    assert changing.sign(b"said") == MeshKey(new).sign(b"said")
    assert changing.verify(MeshKey(old).sign(b"said"), b"said")
    assert changing.is_of_other(MeshKey(old).sign(b"said"), b"said")
    assert not changing.is_of_other(changing.sign(b"said"), b"said")
    assert not changing.verify(MeshKey("another").sign(b"said"), b"said")
    assert not MeshKey(new).is_of_other(MeshKey(old).sign(b"said"), b"said")


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


# fields


RFC = (
    'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
    ';created=1618884473;keyid="test-key-ed25519"'
)
names = st.from_regex(r"[a-z][a-z0-9_.*-]{0,8}", fullmatch=True)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
values = st.one_of(
    texts, st.binary(max_size=12), st.booleans().filter(bool), st.integers(-(10**15) + 1, 10**15 - 1)
)
params = st.dictionaries(names, values, max_size=3).map(lambda found: tuple(found.items()))
components = st.builds(Component, texts, params)
covereds = st.builds(Covered, st.lists(components, max_size=4, unique=True).map(tuple), params)


def test_the_standards_own_example_is_read_and_written_as_it_was() -> None:
    (name, covered), *more = read_inputs(RFC).items()

    assert name == "sig-b26" and not more
    assert covered.components[1] == Component("@method")
    assert covered.param("created") == 1618884473
    assert covered.param("nonce") is None
    assert f"{name}={covered}" == RFC


@pytest.mark.parametrize("more", ["", ";d=1", "x"])
def test_a_member_that_begins_like_the_one_before_is_read_to_its_end(more: str) -> None:
    text = f'a=("x");c=1, b=("x");c=1{more}'
    if more == "x":
        with pytest.raises(SignatureRefused):
            read_inputs(text)
    else:
        found = read_inputs(text)
        assert (str(found["a"]), str(found["b"])) == ('("x");c=1', f'("x");c=1{more}')


@given(st.dictionaries(names, covereds, min_size=1, max_size=3))
def test_what_is_written_is_read_back(inputs: dict[str, Covered]) -> None:
    text = ", ".join(f"{name}={covered}" for name, covered in inputs.items())

    assert read_inputs(text) == inputs


@given(st.dictionaries(names, st.binary(max_size=80), min_size=1, max_size=3))
def test_bytes_that_are_written_are_read_back(found: dict[str, bytes]) -> None:
    assert read_bytes(", ".join(f"{n}={encoded(raw)}" for n, raw in found.items()), "Signature") == found


@given(st.one_of(st.text(max_size=200), st.text(alphabet='ab=:;,()" \\?-01', max_size=60)))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_inputs, lambda t: read_bytes(t, "Signature")):
        try:
            found = read(text)
        except PeerError:
            continue
        assert found


@given(st.integers(0, len(RFC) - 1), st.characters(max_codepoint=255))
def test_a_changed_character_changes_what_is_read_or_is_refused(at: int, character: str) -> None:
    changed = RFC[:at] + character + RFC[at + 1 :]
    try:
        found = read_inputs(changed)
    except SignatureRefused:
        return
    assert ", ".join(f"{name}={covered}" for name, covered in found.items()) == changed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a=",
        'a=("x"',
        'a=("x" "x")',
        'a=("x"  "y")',
        'a=( "x")',
        'a=("x");b=1;b=2',
        'a=("x"), a=("y")',
        'a=("x"),b=("y")',
        'a=("x"), ',
        'a=("x") ',
        'a=("x");b=01',
        'a=("x");b=-0',
        'a=("x");b=1.5',
        'A=("x")',
        'a=("x\n")',
        'a=("é")',
        'a=("x");b=:YQ:',
        'a=("x");b=:YR==:',
        'a=("' + "x" * 5000 + '")',
    ],
)
def test_what_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(SignatureRefused):
        read_inputs(text)


def test_strings_are_escaped() -> None:
    assert quoted('a"b\\c') == '"a\\"b\\\\c"'


TEXT = (Path(__file__).parents[2] / "docs" / "keyed-meshes.md").read_text()


def block(kind: str, holds: str) -> str:
    found: list[str] = re.findall(rf"```{kind}\n(.*?)\n```", TEXT, re.DOTALL)
    return next(text for text in found if holds in text)


def headers_and_body() -> tuple[dict[str, str], bytes]:
    head, _, body = block("http", "POST /announce").partition("\n\n")
    lines = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    assert lines.pop("Content-Type") == "application/json"
    return lines, body.encode()


def test_a_node_sends_these_headers_and_one_of_that_mesh_lets_them_in() -> None:
    headers, body = headers_and_body()
    assert sent(learnt(seal(), verifier()), body).headers == headers
    caller = admitted(verifier(), headers)
    assert caller.key == TestKey(1).text
    caller.sent(sha256(body).digest())


def test_these_are_the_bytes_that_are_signed() -> None:
    headers, _ = headers_and_body()
    signed = read_signed(headers["Signature-Input"], headers["Signature"], with_mesh=True)
    asked = RequestParts(
        "POST", "/announce", "?", headers["Content-Digest"], headers["Flnet-Receiver"], "application/json"
    )

    base = signature_base(asked.values(), signed.covered)

    assert base.decode() == block("text", '"@signature-params"')
    assert MESH.sign(base) == signed.mesh
