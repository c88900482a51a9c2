"""Tests of how keys are named, and of what is read back of them."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from flnet.errors import InvalidMessage
from flnet.fingerprints import fingerprint
from flnet.trust import Entry
from flnet.trust.entry import fingerprint_of, read_row
from tests.signing.keypairs import TestKey

KEY = TestKey(7).text


def test_a_key_and_its_fingerprint_however_typed_name_the_same() -> None:
    mark = fingerprint(KEY)
    assert fingerprint_of(KEY) == (mark, KEY)
    assert fingerprint_of(f"  {mark.lower().replace('-', ' ')}\n") == (mark, "")


@pytest.mark.parametrize("text", ["", "n0", KEY[:-2], fingerprint(KEY)[:11], fingerprint(KEY)[:-1] + "?"])
def test_anything_else_names_nobody(text: str) -> None:
    with pytest.raises(InvalidMessage, match="expected a public key"):
        fingerprint_of(text)


def test_what_was_kept_is_read_back() -> None:
    entry = Entry(fingerprint(KEY), KEY, "n1", "10.0.0.1:4000", 5.0, "person", True)
    assert read_row(asdict(entry) | {"out": False, "newer": 1}) == (entry, False)
    assert read_row({"fingerprint": fingerprint(KEY), "out": True}) == (Entry(fingerprint(KEY)), True)


@pytest.mark.parametrize(
    "row", [{}, {"fingerprint": 3}, {"fingerprint": "x"}, {"fingerprint": fingerprint(KEY), "key": "x"}]
)
def test_a_damaged_row_is_nobody(row: dict[str, object]) -> None:
    assert read_row(row)[0] is None


def test_people_tell_entries_apart_by_name_and_fingerprint() -> None:
    mark = fingerprint(KEY)
    assert Entry(mark, name="n1").label == f"n1 ({mark[:11]})"
    assert Entry(mark).label == f"a node ({mark[:11]})"
