"""What a node knows of its own key without loading the library."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
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
from flnet.fingerprints import check_key, key_text, short
from flnet.security import keys as own
from flnet.security.keys import (
    ensure,
    examine_key,
    load_signer,
    noted,
    open_to_others,
    own_key,
    public_of,
    set_aside,
    write_secret,
)
from flnet.security.tls import (
    CERTIFICATE,
    MOST_BYTES,
    PAGE_CERTIFICATE,
    PAGE_KEY,
    certificate_of,
    ensure_certificates,
    key_of,
    print_of_page,
)


def test_the_first_start_makes_the_key_and_later_ones_read_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = own_key(tmp_path)
    assert (first.text, first.notices) == (ensure(tmp_path), ())
    monkeypatch.setattr(own, "subprocess", None)  # no child is needed any more
    assert own_key(tmp_path) == first


def test_a_private_key_that_was_brought_from_elsewhere_is_noticed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    ensure(here)
    brought = ensure(there)
    (here / "identity.key").write_bytes((there / "identity.key").read_bytes())
    assert noted(here) is None
    assert own_key(here).text == brought == noted(here)


def test_a_key_that_others_could_read_is_closed_and_named(tmp_path: Path) -> None:
    ensure(tmp_path)
    (tmp_path / "identity.key").chmod(0o644)
    (notice,) = own_key(tmp_path).notices
    assert "others could read identity.key (mode 644)" in notice
    assert (tmp_path / "identity.key").stat().st_mode & 0o777 == 0o600
    assert own_key(tmp_path).notices == ()


def test_a_damaged_key_stops_the_start_with_what_to_do(tmp_path: Path) -> None:
    ensure(tmp_path)
    (tmp_path / "identity.key").write_bytes(b"x")
    with pytest.raises(StartError, match=r"is damaged.*bring it back from a copy.*keygen --new-identity"):
        own_key(tmp_path)


def test_a_child_that_cannot_work_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(StartError, match="did not end well"):
        own_key(tmp_path)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StartError, match="could not be made: no word from it"):
        own_key(tmp_path)


def test_the_library_stays_out_of_the_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flnet.security.keys import own_key; own_key(Path(sys.argv[1])); "
        "import flnet.node.build; print([m for m in sys.modules if m.startswith('cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


# Secrets on the disk.


def test_a_secret_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_secret(tmp_path / "s", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / "s").read_bytes() == b"one"
    assert open_to_others(tmp_path / "s") == ""
    (tmp_path / "s").chmod(0o644)
    assert open_to_others(tmp_path / "s") == "644"


def test_what_a_killed_process_left_is_no_obstacle_and_its_mode_does_not_stay(tmp_path: Path) -> None:
    left = tmp_path / "s.unfinished"
    left.write_text("half")
    left.chmod(0o666)
    write_secret(tmp_path / "s", b"two")
    assert (tmp_path / "s").read_bytes() == b"two"
    assert open_to_others(tmp_path / "s") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_on_a_full_disk_the_older_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_secret(tmp_path / "s", b"one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_secret(tmp_path / "s", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("s", b"one")]


def test_what_is_set_aside_gets_a_name_that_is_free(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "s").write_text(text)
        set_aside(tmp_path / "s")
    assert set_aside(tmp_path / "s") is None
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "s.damaged-1": "one",
        "s.damaged-2": "two",
    }


# RFC 8032, section 7.1, test 1
SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def pem_of(key: object) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined,no-any-return]


def test_the_public_key_is_that_of_the_standard() -> None:
    assert public_of(pem_of(Ed25519PrivateKey.from_private_bytes(SECRET)), Path("x")) == key_text(PUBLIC)


def test_it_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    first = ensure(folder)
    pem = (folder / "identity.key").read_bytes()
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    assert key_text(key.public_key().public_bytes_raw()) == first
    assert [open_to_others(p) for p in (folder, folder / "identity.key", folder / "identity.pub")] == ["", "", ""]
    assert ensure(folder) == first
    assert (folder / "identity.key").read_bytes() == pem
    assert ensure(tmp_path / "other") != first


def test_a_note_that_is_gone_damaged_or_of_another_key_is_written_again(tmp_path: Path) -> None:
    first = ensure(tmp_path)
    note = (tmp_path / "identity.pub").read_bytes()
    others = (
        b"{}",
        note.replace(b'"of"', b'"off"'),
        b"",
        b"[]",
        b"3",
        b'{"key": 3, "of": 4}',
        b"[" * 100_000,
        b"\xff",
    )
    for wrong in (None, *others):
        (tmp_path / "identity.pub").unlink()
        if wrong is not None:
            (tmp_path / "identity.pub").write_bytes(wrong)
        assert noted(tmp_path) is None
        assert ensure(tmp_path) == first
        assert (tmp_path / "identity.pub").read_bytes() == note


DAMAGED = [b"", b"\x00" * 119, b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"]


@pytest.mark.parametrize(
    "pem",
    [*DAMAGED, pem_of(generate_private_key(SECP256R1()))],
    ids=["empty", "zeros", "no key in it", "other curve"],
)
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
            [sys.executable, "-m", "flnet.security.keys", str(tmp_path)],
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == b""
        said: dict[str, str] = json.loads(done.stdout)
        return said

    assert child() == {"key": ensure(tmp_path)}
    (tmp_path / "identity.key").write_bytes(b"")
    assert "is damaged" in child()["error"]


# signer


def test_a_node_signs_with_the_key_that_it_is_known_by(tmp_path: Path) -> None:
    key = own_key(tmp_path).text

    signer = load_signer(tmp_path)

    assert signer.text == key
    signature = signer.sign(b"said")
    assert len(signature) == 64
    assert signer.verify(key, signature, b"said")
    assert not signer.verify(key, signature, b"sais")
    assert not signer.verify(key, b"", b"said")
    assert not signer.verify("AAAA", signature, b"said")
    assert not signer.verify(key_text(PUBLIC), signature, b"said")  # another node's


@pytest.mark.parametrize("content", [None, b"", b"no key"])
def test_a_key_that_cannot_be_used_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "identity.key").write_bytes(content)

    with pytest.raises(StartError, match="cannot be used to sign"):
        load_signer(tmp_path)


# What `flnet doctor` finds of a key.


def test_no_key_yet_and_a_whole_one_are_well(tmp_path: Path) -> None:
    assert examine_key(tmp_path)[:2] == ("ok", "none yet; the first start makes it")
    key = ensure(tmp_path)
    assert examine_key(tmp_path)[:2] == ("ok", f"whole; its fingerprint begins with {short(key)}")


@pytest.mark.parametrize(
    ("hurt", "words"),
    [
        (lambda f: (f / "identity.key").chmod(0o640), "mode 640"),
        (lambda f: (f / "identity.pub").unlink(), "says nothing of this key"),
    ],
)
def test_what_can_be_mended_is(tmp_path: Path, hurt: object, words: str) -> None:
    ensure(tmp_path)
    hurt(tmp_path)  # type: ignore[operator]
    for mend in (False, True):
        found = examine_key(tmp_path, mend)
        assert (found.level, words in found.text, found.mended) == ("warning", True, mend)
    assert examine_key(tmp_path).level == "ok"


@pytest.mark.parametrize(
    ("hurt", "words"),
    [
        (lambda f: (f / "identity.key").unlink(), "is missing, but this node had a key"),
        (lambda f: (f / "identity.key").write_bytes(b"x"), "is damaged"),
    ],
)
def test_what_cannot_be_mended_is_left_as_it_is(tmp_path: Path, hurt: object, words: str) -> None:
    ensure(tmp_path)
    hurt(tmp_path)  # type: ignore[operator]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found = examine_key(tmp_path, True)
    assert (found.level, words in found.text, found.mended) == ("error", True, False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# Tests of certificates: a node's follows from its key, and any bytes give a key or a ValueError.


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
    page = x509.load_pem_x509_certificate(before[PAGE_CERTIFICATE])
    with pytest.raises(ValueError, match="Ed25519"):  # that of the page is no node's
        key_of(page.public_bytes(Encoding.DER))
    (tmp_path / CERTIFICATE).write_bytes(b"of an older key")
    ensure_certificates(tmp_path)
    assert b"BEGIN CERTIFICATE" in (tmp_path / CERTIFICATE).read_bytes()


def test_a_folder_without_a_key_says_so(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="certificates"):
        ensure_certificates(tmp_path)
