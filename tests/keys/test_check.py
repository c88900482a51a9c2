"""What `flnet doctor` finds of a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.fingerprints import short
from flnet.keys.check import examine_key
from flnet.keys.pair import ensure


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
