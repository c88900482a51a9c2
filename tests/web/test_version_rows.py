"""What a job's card shows of versions."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from flnet.web.version_rows import VersionRow, VersionTable, version_table
from flnet.web.view import NONE
from flnet.web.words import translator

ROW = {"peer": "b", "version": 7, "merged": 6, "into": 9, "at": 0.0, "newer": True, "reachable": False}


def test_a_row_says_which_version_was_merged_and_when() -> None:
    found = version_table({"own": 9, "peers": [ROW]}, local=time.gmtime)
    note = "still to be merged, does not answer"
    assert found == VersionTable("v9", (VersionRow("b", "v7", "v6", "in version v9, 1970-01-01 00:00:00", note),))


def test_nothing_is_shown_of_what_is_not_known() -> None:
    none = {"peer": "c", "version": None, "merged": None, "into": None, "at": None, "newer": False}
    found = version_table({"own": 0, "peers": [{**none, "reachable": True}]})
    assert found == VersionTable("v0", (VersionRow("c", NONE, NONE, NONE, ""),))
    assert version_table(None) is None


def test_it_is_said_in_spanish_too() -> None:
    found = version_table({"own": 9, "peers": [{**ROW, "at": None}]}, translator("es"))
    assert found is not None
    assert found.rows[0].when == "en la versión v9" and found.rows[0].note == "aún por fusionar, no responde"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(ROW)), inner, max_size=7),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"own": anything, "peers": st.lists(anything, max_size=3)}) | anything)
def test_what_a_peer_makes_up_breaks_nothing(versions: object) -> None:
    found = version_table(versions)
    assert found is None or all(isinstance(row.when, str) for row in found.rows)
