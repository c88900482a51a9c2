"""Join links say what a new node needs, and what is wrong with them is told."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import SettingsError
from flnet.fingerprints import fingerprint, key_text
from flnet.joining import MODES, JoinLink
from flnet.settings import load_settings

OPEN = "flnet://192.168.1.11:4000/?mesh=ward&mode=open"
ELSEWHERE = {"listen_address": "0.0.0.0"}
names = st.text("abcXYZ019.-_", min_size=1, max_size=64)


@given(
    names, st.sampled_from(MODES), st.sampled_from(["10.0.0.7:4000", "[fd00::1]:80", "ward-7.local:65535"]), names
)
def test_a_link_is_read_as_it_was_written(mesh: str, mode: str, address: str, mark: str) -> None:
    link = JoinLink(address, mesh, mode, mark if mode == "pinned" else "")
    assert JoinLink.read(str(link)) == link


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "expected a join link, such as flnet://"),
        ("http://192.168.1.11:4000/?mesh=a&mode=open", "expected a join link"),
        ("flnet:///?mesh=a&mode=open", "expected a join link"),
        ("flnet://a:1/path?mesh=a&mode=open", "expected a join link"),
        ("flnet://a:1/?mesh=a", "expected a join link"),
        ("flnet://a:1/?mesh=a&mode=open&mode=keyed", "expected a join link"),
        ("flnet://a:1/?mesh=a&mode=open&trainers=x", "expected a join link"),
        ("flnet://a:1/?mesh=a&mode=closed", "with the mode open, keyed, pinned, got 'closed'"),
        ("flnet://a:1/?mesh=a&mode=pinned", "has a fingerprint if its mode is pinned"),
        ("flnet://a:1/?mesh=a&mode=open&fingerprint=x", "has a fingerprint if its mode is pinned"),
    ],
)
def test_what_is_no_link_says_so(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JoinLink.read(written)


@given(st.text(max_size=200))
def test_any_text_is_a_link_or_an_error_in_words(written: str) -> None:
    with suppress(ValueError):
        JoinLink.read(written)


def test_a_link_stands_for_the_settings_of_a_node_that_joins() -> None:
    read = load_settings({"join": OPEN, **ELSEWHERE}, {})
    assert (read.bootstrap_pairs, read.mesh_name, read.mode) == (("192.168.1.11:4000",), "ward", "open")
    more = load_settings(
        {"join": OPEN, "bootstrap_pairs": "192.168.1.12:4000", **ELSEWHERE}, {"FLNET_MESH_NAME": "ward"}
    )
    assert more.bootstrap_pairs == ("192.168.1.12:4000", "192.168.1.11:4000")


def test_in_a_pinned_mesh_it_names_the_node_that_is_trusted() -> None:
    mark = fingerprint(key_text(bytes(range(32))))
    link = str(JoinLink("192.168.1.11:4000", "ward", "pinned", mark))
    assert load_settings({"join": link, **ELSEWHERE}, {}).trusted_peers == (mark,)


@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        ({"join": "nonsense"}, {}, "--join=nonsense: expected a join link"),
        (
            {},
            {"FLNET_JOIN": OPEN, "FLNET_MESH_NAME": "lab"},
            "FLNET_JOIN says mesh_name=ward, but FLNET_MESH_NAME says lab",
        ),
        ({"join": OPEN.replace("open", "keyed")}, {}, "MESH_MODE=keyed needs a"),
        ({"join": OPEN.replace("ward", "a%20b")}, {}, "letters, digits"),
        ({"join": OPEN.replace("192.168.1.11:4000", "192.168.1.11:no")}, {}, "a port from 1 to 65535"),
    ],
)
def test_what_a_link_says_is_checked_and_must_not_contradict_the_rest(
    options: dict[str, str], variables: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings({**options, **ELSEWHERE}, variables)


def test_a_node_that_could_not_be_called_back_is_told_so() -> None:
    with pytest.raises(SettingsError, match=r"set FLNET_LISTEN_ADDRESS=0\.0\.0\.0 too"):
        load_settings({"join": OPEN}, {})
