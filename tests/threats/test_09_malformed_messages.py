"""Threat 9: bodies that are no messages. Every route answers 4xx in words, whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.harness import RealNode
from tests.threats.stranger import MEGA, NODE_ROUTES, PERSON_ROUTES, POSTS, head, peak, post, talk, target

pytestmark = pytest.mark.slow
PEER = {"id": "NODE_1", "ip": "127.0.0.1", "port": "4000"}
ROUND = {"iAm": PEER, "trainerId": "SLOW", "round": 0, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1}}
BROKEN = {
    "nothing": b"",
    "bad UTF-8": b'{"iAm": "\xff\xfe"}',
    "half a surrogate": b'{"iAm": "\\ud800"}',
    "an array": b"[1]",
    "a number": b"7",
    "cut off": b'{"iAm": {"id": "a"',
    "NaN": b'{"iAm": NaN}',
    "Infinity": b'{"round": Infinity}',
    "beyond floats": b'{"round": 1e999}',
    "nested": b"[" * 30_000 + b"]" * 30_000,
    "nested objects": b'{"iAm":' * 9_000 + b"1" + b"}" * 9_000,
    "a long number": b'{"round": ' + b"9" * 60_000 + b"}",
    "binary": bytes(range(256)),
    "markup": b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with target(tmp_path_factory.mktemp("malformed")) as made:
        yield made


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_message_is_refused_in_words(node: RealNode, path: str, name: str) -> None:
    status, error = post(node, path, BROKEN[name])
    assert 400 <= status < 500
    assert error


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/jobs/SLOW/params"), ("PUT", "/jobs/SLOW/schedule")])
@pytest.mark.parametrize("name", BROKEN)
def test_what_people_set_is_read_as_strictly(node: RealNode, method: str, path: str, name: str) -> None:
    body = BROKEN[name].replace(b'"iAm": NaN', b'"u": NaN')
    status, told = talk(node, (head(path, method=method, Content_Length=len(body)), body))
    assert 400 <= status < 500
    assert told["error"]
    assert told["error"] == "unreadable_body" or name != "NaN"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000, b'{"round":' + b"9" * (10 * MEGA) + b"}"])
def test_two_hundred_thousand_brackets_and_a_number_of_ten_megabytes(node: RealNode, body: bytes) -> None:
    before = peak(node)
    for path in POSTS:
        status, error = post(node, path, body)
        assert 400 <= status < 500
        assert error
    assert peak(node) - before < 48 * MEGA


@pytest.mark.parametrize("numbers", [["NaN"], ["1e999"], [None], [[1], [2, 3]], [True, 1], {"a": 1}, 10**400])
def test_parameters_that_are_no_numbers_are_refused(node: RealNode, numbers: Any) -> None:
    body = json.dumps({**ROUND, "modelParams": {"w": numbers}}).encode()
    status, error = post(node, "/training/model_params", body)
    assert (status, error) in {(422, "params_refused"), (422, "unreadable_body")}


def test_of_two_fields_of_one_name_none_gets_past_the_rules(node: RealNode) -> None:
    body = json.dumps({**ROUND, "modelParams": {}}).encode()
    twice = b'{"round": -7, ' + body[1:-1] + b', "round": -1}'
    assert post(node, "/training/model_params", twice) == (422, "invalid_message")


@pytest.mark.parametrize("path", PERSON_ROUTES)
def test_what_a_person_sends_holds_nothing_unknown(node: RealNode, path: str) -> None:
    status, _ = post(node, path, b'{"trainerId": "SLOW", "inputs": [[0]], "roundz": 3}')
    assert status == 422 or (status, path) == (404, "/jobs/SLOW/predict")  # this trainer predicts nothing


def test_what_a_node_sends_may_hold_what_newer_nodes_say(node: RealNode) -> None:
    body = json.dumps({"iAm": {**PEER, "colour": "blue"}, "myKnownPeers": [], "weather": {"x": [1]}}).encode()
    assert post(node, NODE_ROUTES[0], body)[0] == 201
