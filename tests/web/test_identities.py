from __future__ import annotations

import pytest

from flnet.fingerprints import fingerprint, key_text, read_fingerprint
from flnet.web.identities import forget_url, identity_of

KEY = "rbUQmUrJxgANp1Nn81DPRUOq8hdRORMvxlHK0iJL2rE="
WHOLE = "ODGKK-BNGHL-XW32O-CITOB-AH4QW-5XOVG-YC772-SAB56-SX2K2-LS45C-6HM5D-JX4L5-NGUQY"  # docs/state.md


def test_a_key_is_shown_in_the_forms_of_the_command_line() -> None:
    found = identity_of(KEY)
    assert found is not None
    assert (found.fingerprint, found.short) == (WHOLE, "ODGKK-BNGHL")
    assert found.words == ("ladder", "desert", "barley", "degree", "sandal", "textile")
    assert found.spoken == "ladder-desert-barley-degree-sandal-textile"


def test_the_lines_under_each_other_are_the_fingerprint_and_can_be_typed_in() -> None:
    key = key_text(bytes(range(32)))
    found = identity_of(key)
    assert found is not None
    assert [line.count("-") + 1 for line in found.lines] == [5, 5, 3]
    assert read_fingerprint(" ".join(found.lines)) == fingerprint(key) == found.fingerprint


@pytest.mark.parametrize("key", ["", "AAAA", "<img src=x>", KEY[:-1], "é" * 44])
def test_what_is_no_key_has_no_identity(key: str) -> None:
    assert identity_of(key) is None


@pytest.mark.parametrize(
    ("state", "asked"), [("dead", True), ("left", True), ("alive", False), ("dancing", False)]
)
def test_who_takes_part_cannot_be_forgotten(state: str, asked: bool) -> None:
    assert forget_url('ward/7 "b"', state) == ("/view/keys?forget=ward%2F7%20%22b%22#forget" if asked else "")
    assert forget_url("b", state, disputed=True) == "/view/keys?forget=b#forget"
