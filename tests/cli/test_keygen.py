"""`flnet keygen`: what it shows, makes and refuses."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from flnet.fingerprints import fingerprint, short, words
from flnet.keys.certificate import PAGE_CERTIFICATE, ensure_certificates
from flnet.store.disk.lock import FolderLock

Run = Callable[..., Result]


def test_it_makes_the_key_once_and_shows_it(flnet: Run, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = flnet("keygen", "--state-path", str(folder), "--json")
    assert first.exit_code == 0
    shown = json.loads(first.output)
    key = shown["key"]
    expected = {"folder": str(folder), "key": key, "fingerprint": fingerprint(key), "short": short(key)}
    assert shown == {**expected, "words": words(key)}
    again = flnet("keygen", "--state-path", str(folder))
    assert f"fingerprint  {fingerprint(key)}\n" in again.output
    assert "PRIVATE" not in again.output


def test_of_a_pinned_node_the_certificate_of_the_page_is_named(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    flnet(*arguments)
    ensure_certificates(tmp_path)
    der = ssl.PEM_cert_to_DER_cert((tmp_path / PAGE_CERTIFICATE).read_text())
    pairs = ":".join(f"{byte:02X}" for byte in hashlib.sha256(der).digest())
    assert f"page         SHA-256 {pairs}\n" in flnet(*arguments).output


def test_a_new_identity_is_made_only_when_asked_for(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    first = flnet(*arguments, "--json").output
    (tmp_path / "identity.key").write_bytes(b"x")
    assert flnet(*arguments).exit_code == 1
    done = flnet(*arguments, "--new-identity", "--json")
    assert (done.exit_code, json.loads(done.output) != json.loads(first)) == (0, True)
    assert (tmp_path / "identity.key.damaged-1").read_bytes() == b"x"


def test_of_a_running_nodes_folder_the_key_is_only_read(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    lock = FolderLock(tmp_path)
    try:
        assert flnet(*arguments).exit_code == 1
        lock.close()
        first = flnet(*arguments).output
        lock = FolderLock(tmp_path)
        assert flnet(*arguments).output == first
        assert flnet(*arguments, "--new-identity").exit_code == 1
    finally:
        lock.close()
    assert flnet(*arguments).output == first


def test_doctor_looks_at_the_key(flnet: Run, tmp_path: Path) -> None:
    flnet("keygen", "--state-path", str(tmp_path))
    assert "  ok      key          whole" in flnet("doctor", "--state-path", str(tmp_path)).output
    (tmp_path / "identity.key").write_bytes(b"x")
    assert flnet("doctor", "--state-path", str(tmp_path), "--repair").exit_code == 1
