"""Statements of updates: what is signed, what stands in a record, and what is no contribution."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.contributions import Contribution
from tests.signing.keypairs import TestKey

KEY = TestKey(1)
PLAIN = Contribution("b", "T", 3, "a", "1" * 64, "2" * 64, "3" * 64, 40, 2)


def test_the_statement_names_every_field_but_the_signature_in_a_fixed_order() -> None:
    stated = replace(PLAIN, key="k", signature="s")
    lines = stated.statement().decode().splitlines()
    assert lines[:4] == ["flnet contribution, version 1", "peer: b", "trainer: T", "round: 3"]
    assert [line.partition(":")[0] for line in lines[1:]] == [
        f.name for f in fields(stated) if f.name != "signature"
    ]
    assert stated.statement() == replace(stated, signature="other").statement()


@pytest.mark.parametrize("name", [one.name for one in fields(PLAIN) if one.name != "signature"])
def test_a_change_of_any_field_is_another_statement(name: str) -> None:
    value = getattr(PLAIN, name)
    other: Any = value + 1 if isinstance(value, int) else value + "x"
    changed = replace(PLAIN, **{name: other})
    assert changed.statement() != PLAIN.statement()


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_two_names_make_one_statement(peer: str, trainer: str, other: str, another: str) -> None:
    one, two = replace(PLAIN, peer=peer, trainer=trainer), replace(PLAIN, peer=other, trainer=another)
    assert (one.statement() == two.statement()) == (one == two)


@pytest.mark.parametrize("stated", [PLAIN, replace(PLAIN, key=KEY.text, signature="c2lnbmVk")])
def test_what_stands_in_a_record_is_read_back(stated: Contribution) -> None:
    view = stated.view()
    assert not view.keys() & {"trainer", "round", "initiator"}
    assert Contribution.read(view, "T", 3, "a") == stated
    assert stated.is_signed == bool(stated.signature)


@pytest.mark.parametrize(
    "view",
    [
        {},
        [],
        None,
        "b",
        {**PLAIN.view(), "examples": "40"},
        {**PLAIN.view(), "labels": True},
        {**PLAIN.view(), "key": None},
    ],
)
def test_what_is_no_contribution_is_not_read_as_one(view: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Contribution.read(view, "T", 3, "a")
