"""What a node knows of its own key without loading the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.keys import own
from flnet.keys.own import noted, own_key
from flnet.keys.pair import ensure


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


@pytest.mark.parametrize("note", [b"", b"[]", b"3", b'{"key": 3, "of": 4}', b"[" * 100_000, b"\xff"])
def test_any_other_note_says_nothing(tmp_path: Path, note: bytes) -> None:
    key = ensure(tmp_path)
    (tmp_path / "identity.pub").write_bytes(note)
    assert noted(tmp_path) is None
    assert own_key(tmp_path).text == key


def test_a_child_that_cannot_work_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(StartError, match="did not end well"):
        own_key(tmp_path)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StartError, match="could not be made: no word from it"):
        own_key(tmp_path)


def test_the_library_stays_out_of_the_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flnet.keys import own_key; own_key(Path(sys.argv[1])); "
        "import flnet.node.build; print([m for m in sys.modules if m.startswith('cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
