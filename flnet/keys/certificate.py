"""Certificates of a node of a pinned mesh; loads `cryptography`, so a node of another mesh never imports this.

Nodes show each other a certificate that is made of nothing but the node's own Ed25519 key, and signed with it. So
it is the same at each start, and to know the key is to know the certificate. No browser takes Ed25519, so the page
has another one, of a key that is good for nothing else.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from flnet.errors import StartError
from flnet.fingerprints import key_text, short
from flnet.keys.files import write_secret
from flnet.keys.own import PRIVATE

CERTIFICATE = "identity.crt"
PAGE_KEY, PAGE_CERTIFICATE = "page.key", "page.crt"
MOST_BYTES = 16 * 1024  # of a certificate that is looked at
# It ends with the key, which a person takes back by forgetting it; RFC 5280 (4.1.2.5) has this for "no end".
_FROM, _UNTIL = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)  # UTC


def certificate_of(private: Ed25519PrivateKey) -> bytes:
    """The certificate of a node's key, as DER; always the same for the same key."""
    raw = private.public_key().public_bytes_raw()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"flnet {short(key_text(raw))}")])
    serial = int.from_bytes(hashlib.sha256(raw).digest()[:16], "big") >> 1 | 1
    made = _dated(name, serial).public_key(private.public_key()).sign(private, None)
    return made.public_bytes(Encoding.DER)


def key_of(certificate: bytes) -> str:
    """The public key (base64) that a node shows by its certificate; TLS shows that it has the private one.

    Args:
        certificate: DER, from anybody.

    Raises:
        ValueError: it is no certificate of a node.
    """
    if len(certificate) > MOST_BYTES:
        raise ValueError("a certificate of that size is no node's")
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ValueError("the certificate cannot be read") from exc
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError("the certificate is of no Ed25519 key, so it is no node's")
    return key_text(public.public_bytes_raw())


def ensure_certificates(folder: Path) -> None:
    """Make the certificates of this folder's node, where they are not there or not of its key.

    Args:
        folder: held by this process; `own_key` has made sure of the key.

    Raises:
        StartError: a file cannot be read or written.
    """
    try:
        private = load_pem_private_key((folder / PRIVATE).read_bytes(), password=None)
        if not isinstance(private, Ed25519PrivateKey):
            raise StartError(f"the key in {folder} is no Ed25519 key")
        pem = _pem(certificate_of(private))
        path = folder / CERTIFICATE
        if not path.exists() or path.read_bytes() != pem:
            write_secret(path, pem)
        if not (folder / PAGE_KEY).exists() or not (folder / PAGE_CERTIFICATE).exists():
            key, certificate = _page()
            write_secret(folder / PAGE_KEY, key)
            write_secret(folder / PAGE_CERTIFICATE, certificate)
    except (OSError, ValueError, TypeError) as exc:
        raise StartError(f"the certificates in {folder} cannot be kept: {exc}") from exc


def print_of_page(folder: Path) -> str:
    """The SHA-256 of the page's certificate, as browsers show it."""
    found = x509.load_pem_x509_certificate((folder / PAGE_CERTIFICATE).read_bytes())
    return found.fingerprint(SHA256()).hex(":").upper()


def _page() -> tuple[bytes, bytes]:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "flnet page")])
    here = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ("127.0.0.1", "::1"))]
    builder = _dated(name, x509.random_serial_number()).public_key(private.public_key())
    made = builder.add_extension(x509.SubjectAlternativeName(here), critical=False).sign(private, SHA256())
    key = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, made.public_bytes(Encoding.PEM)


def _dated(name: x509.Name, serial: int) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(serial)
    return builder.not_valid_before(_FROM).not_valid_after(_UNTIL)


def _pem(der: bytes) -> bytes:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]).encode()
