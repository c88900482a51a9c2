from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from flnet.errors import SettingsError, StartError
from flnet.settings import load_settings
from flnet.web.auth.operator_token import NAME, OperatorToken, read_token, token_of, token_path, write_new

LONG = "0123456789abcdefghij"


def test_the_first_start_makes_a_token_and_later_ones_keep_it(tmp_path: Path) -> None:
    settings = load_settings({"state_path": str(tmp_path / "state")}, {})
    first = token_of(settings).text()
    assert first is not None
    assert len(first) >= 43
    assert token_of(settings).text() == first
    assert token_path(settings) == tmp_path / "state" / NAME
    assert stat.S_IMODE(token_path(settings).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "state").iterdir()] == [NAME]


def test_a_file_that_others_can_read_is_closed_to_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings({"state_path": str(tmp_path)}, {})
    token = write_new(token_path(settings))
    token_path(settings).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert token_of(settings).text() == token
    assert stat.S_IMODE(token_path(settings).stat().st_mode) == 0o600
    assert "could be read by other people" in caplog.text
    assert token not in caplog.text


def test_what_a_person_sets_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"  {LONG}\n")
    assert token_of(load_settings({"state_path": str(tmp_path / "s"), "operator_token": LONG * 2}, {})).matches(
        LONG * 2
    )
    assert token_of(load_settings({"operator_token_file": str(file)}, {})).matches(LONG)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("content", [b"", b"short", b"two words and more", b"\xff" * 20, b"x" * 600])
def test_a_file_without_a_token_is_no_start(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"OPERATOR_TOKEN_FILE=.*expected a file with one line of 16 to 512"):
        token_of(load_settings({"operator_token_file": str(file)}, {}))


def test_only_the_token_matches() -> None:
    token = OperatorToken(LONG)
    assert token.matches(LONG)
    assert [token.matches(other) for other in ("", LONG[:-1], LONG + "x", LONG.upper(), "\udcff")] == [False] * 5
    assert not OperatorToken().matches("")


def test_a_new_token_holds_at_once_and_the_old_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / NAME
    old = write_new(path)
    token = OperatorToken(file=path)
    assert (token.matches(old), token.version) == (True, 1)
    new = write_new(path)
    assert (token.matches(old), token.matches(new), token.version) == (False, True, 2)
    path.unlink()
    assert (token.matches(new), token.text(), token.version) == (False, None, 3)


def test_where_nothing_can_be_written_the_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / NAME
    old = write_new(path)
    with pytest.raises(StartError, match="the operator's token cannot be written"):
        write_new(path / "below a file")
    assert read_token(path) == old
