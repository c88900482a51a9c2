"""The bytes of every message between nodes are those of before, and what older nodes send is read."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.frozen.wire_cases import BASE, DIGEST, PARTS, Case, cases, large, small

from . import golden, internals

NAME = "wire.json.gz"
FORMS = ("json", "float32", "float16", "int8", "int8-blocks")
CASES = {case.name: case for case in cases()}


def recorded(case: Case) -> dict[str, Any]:
    """The bodies of a message in all forms; rounding concerns those with large arrays only."""
    forms = FORMS if "wide" in (case.arrays or {}) else ("json", "float32")
    bodies = {form: internals.encoded(case.kind, case.fields, case.arrays, form) for form in forms}
    return {form: b64encode(body).decode() for form, body in bodies.items()}


def others() -> dict[str, Any]:
    """Parameters that are fetched, digests, headers of signed requests, and what is signed of an update."""
    whose = {"peer": "north", "trainer": "MNIST", "round": 7, "initiator": "west"}
    stated = {**whose, "schema": "ef" * 32, "base": BASE}
    statement, signature = internals.signed_statement(**stated, digest=DIGEST, examples=120, labels=10)
    return {
        "digests": {"small": internals.digest_of(small()), "large": internals.digest_of(large())},
        "fetched": {
            f"{name} {form}": b64encode(internals.bare(arrays(), form)).decode()
            for name, arrays in (("small", small), ("large", large))
            for form in FORMS[1:]
        },
        "keyed": internals.signed_headers(b"{}", "/training/model_params", keyed=True),
        "pinned": internals.signed_headers(b"{}", "/probe", keyed=False),
        "statement": statement,
        "signature": signature,
    }


def reread(bodies: dict[str, str], kind: str) -> dict[str, Any]:
    return {form: internals.encoded_again(kind, b64decode(body), form)[1] for form, body in bodies.items()}


@pytest.mark.skipif(not golden.is_recording(), reason="only where recordings are made")
def test_they_are_recorded() -> None:
    bodies = {name: recorded(case) for name, case in CASES.items()}
    read = {name: reread(bodies[name], CASES[name].kind) for name in bodies}
    golden.check(NAME, {"bodies": bodies, "read": read, "others": others()})


def test_each_kind_of_part_of_a_vertical_job_is_recorded() -> None:
    assert {part["kind"] for part in PARTS.values()} == internals.part_kinds()


@pytest.mark.skipif(golden.is_recording(), reason="test_they_are_recorded makes the recording")
@pytest.mark.parametrize("name", CASES)
def test_a_message(name: str) -> None:
    whole, case = golden.load(NAME), CASES[name]
    for form, expected in whole["bodies"][name].items():
        body = internals.encoded(case.kind, case.fields, case.arrays, form)
        assert _readable(body) == _readable(b64decode(expected)), form
        again, read = internals.encoded_again(case.kind, b64decode(expected), form)
        assert read == whole["read"][name][form], form
        assert hashlib.sha256(again).hexdigest() == hashlib.sha256(body).hexdigest(), form


def _readable(body: bytes) -> tuple[int, bytes, str]:
    """What a difference is seen by: the length, the beginning, and a digest of all."""
    return len(body), body[:2000], hashlib.sha256(body).hexdigest()


@pytest.mark.skipif(golden.is_recording(), reason="test_they_are_recorded makes the recording")
def test_signatures_digests_and_bare_parameters() -> None:
    golden.must_equal(golden.load(NAME)["others"], others(), NAME)
