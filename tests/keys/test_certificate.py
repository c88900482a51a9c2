"""Tests of certificates: a node's follows from its key, and any bytes give a key or a ValueError."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import StartError
from flnet.fingerprints import check_key, key_text
from flnet.keys import own_key
from flnet.keys.certificate import (
    CERTIFICATE,
    MOST_BYTES,
    PAGE_CERTIFICATE,
    PAGE_KEY,
    certificate_of,
    ensure_certificates,
    key_of,
    print_of_page,
)

ONE = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
DER = certificate_of(ONE)


def test_the_certificate_of_a_key_is_always_the_same_and_says_the_key() -> None:
    assert certificate_of(ONE) == DER
    assert key_of(DER) == key_text(ONE.public_key().public_bytes_raw())
    other = certificate_of(Ed25519PrivateKey.from_private_bytes(bytes([2]) * 32))
    assert key_of(other) != key_of(DER)
    read = x509.load_der_x509_certificate(DER)
    read.verify_directly_issued_by(read)  # signed with the key that it names


# It warns of what later versions refuse, such as a negative serial number.
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(st.binary(max_size=400) | st.integers(0, len(DER) - 1).map(lambda at: DER[:at] + b"\xff" + DER[at + 1 :]))
def test_any_bytes_give_a_key_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        check_key(key_of(data))


def test_what_is_too_large_is_not_read() -> None:
    with pytest.raises(ValueError, match="size"):
        key_of(bytes(MOST_BYTES + 1))


def test_a_folder_gets_its_certificates_and_keeps_them(tmp_path: Path) -> None:
    key = own_key(tmp_path).text
    ensure_certificates(tmp_path)
    files = (CERTIFICATE, PAGE_KEY, PAGE_CERTIFICATE)
    before = {name: (tmp_path / name).read_bytes() for name in files}
    ensure_certificates(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in files} == before
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in files} == {0o600}
    assert key_of(x509.load_pem_x509_certificate(before[CERTIFICATE]).public_bytes(Encoding.DER)) == key
    assert len(print_of_page(tmp_path).split(":")) == 32


def test_another_key_brings_another_certificate(tmp_path: Path) -> None:
    own_key(tmp_path)
    (tmp_path / CERTIFICATE).write_bytes(b"of an older key")
    ensure_certificates(tmp_path)
    assert b"BEGIN CERTIFICATE" in (tmp_path / CERTIFICATE).read_bytes()


def test_the_certificate_of_the_page_is_no_nodes(tmp_path: Path) -> None:
    own_key(tmp_path)
    ensure_certificates(tmp_path)
    page = x509.load_pem_x509_certificate((tmp_path / PAGE_CERTIFICATE).read_bytes())
    with pytest.raises(ValueError, match="Ed25519"):
        key_of(page.public_bytes(Encoding.DER))


def test_a_folder_without_a_key_says_so(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="certificates"):
        ensure_certificates(tmp_path)
