"""The key pair: made once, never overwritten."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import StartError
from flnet.fingerprints import key_text
from flnet.keys.files import open_to_others
from flnet.keys.pair import ensure, public_of

# RFC 8032, section 7.1, test 1
SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def pem_of(key: object) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined,no-any-return]


def test_the_public_key_is_that_of_the_standard() -> None:
    assert public_of(pem_of(Ed25519PrivateKey.from_private_bytes(SECRET)), Path("x")) == key_text(PUBLIC)


def test_it_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = ensure(folder)
    pem = (folder / "identity.key").read_bytes()
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    assert key_text(key.public_key().public_bytes_raw()) == first
    assert [open_to_others(p) for p in (folder, folder / "identity.key", folder / "identity.pub")] == ["", "", ""]
    assert ensure(folder) == first
    assert (folder / "identity.key").read_bytes() == pem
    assert ensure(tmp_path / "other") != first


def test_a_note_that_is_gone_or_of_another_key_is_written_again(tmp_path: Path) -> None:
    first = ensure(tmp_path)
    note = (tmp_path / "identity.pub").read_bytes()
    for wrong in (None, b"{}", note.replace(b'"of"', b'"off"')):
        (tmp_path / "identity.pub").unlink()
        if wrong is not None:
            (tmp_path / "identity.pub").write_bytes(wrong)
        assert ensure(tmp_path) == first
        assert (tmp_path / "identity.pub").read_bytes() == note


DAMAGED = [b"", b"\x00" * 119, b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"]


@pytest.mark.parametrize("pem", [*DAMAGED, pem_of(generate_private_key(SECP256R1()))])
def test_a_key_that_cannot_be_used_is_refused_and_left_as_it_is_until_a_new_one_is_asked_for(
    tmp_path: Path, pem: bytes
) -> None:
    first = ensure(tmp_path)
    (tmp_path / "identity.key").write_bytes(pem)
    for _ in range(2):  # the second try is no way around it
        with pytest.raises(StartError, match=r"identity\.key (is damaged|holds no Ed25519 key).*--new-identity"):
            ensure(tmp_path)
        assert (tmp_path / "identity.key").read_bytes() == pem
    assert ensure(tmp_path, new=True) != first
    assert (tmp_path / "identity.key.damaged-1").read_bytes() == pem


def test_a_key_that_is_gone_is_not_replaced_silently(tmp_path: Path) -> None:
    first = ensure(tmp_path)
    (tmp_path / "identity.key").rename(tmp_path / "copy")
    with pytest.raises(StartError, match=r"is missing, but this node had a key.*--new-identity"):
        ensure(tmp_path)
    (tmp_path / "copy").rename(tmp_path / "identity.key")
    assert ensure(tmp_path) == first


@given(st.data())
def test_any_bytes_are_a_key_or_a_start_error(data: st.DataObject) -> None:
    pem = bytearray(pem_of(Ed25519PrivateKey.from_private_bytes(SECRET)))
    place = data.draw(st.integers(0, len(pem) - 1))
    pem[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(pem)))
    for one in (bytes(pem), bytes(pem[:cut])):
        with contextlib.suppress(StartError):
            public_of(one, Path("x"))


def test_the_child_says_the_key_or_what_is_wrong(tmp_path: Path) -> None:
    def child() -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "flnet.keys.pair", str(tmp_path)], capture_output=True, check=True, timeout=60
        )
        assert done.stderr == b""
        said: dict[str, str] = json.loads(done.stdout)
        return said

    assert child() == {"key": ensure(tmp_path)}
    (tmp_path / "identity.key").write_bytes(b"")
    assert "is damaged" in child()["error"]
