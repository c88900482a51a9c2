"""Threat 7: updates whose packed arrays claim more numbers, blocks or scales than their bodies hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from flnet.wire.binary_codec import BINARY_TYPE
from tests.processes.harness import RealNode
from tests.threats.stranger import MEGA, head, peak, post, talk, target

pytestmark = pytest.mark.slow
STRANGER = {"id": "NODE_1", "ip": "127.0.0.1", "port": "4000"}
ROUND = {"iAm": STRANGER, "trainerId": "SLOW", "round": 0, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1}}
ROW = np.zeros(1300 + 6 * 4, np.int8)  # 1300 numbers and the scales of six blocks
MANY = 300  # arrays
CLAIMS: dict[str, Any] = {
    "a terabyte": [2**40],
    "beyond 64 bits": [2**62, 2**62],
    "beyond all bits": [10**4000],
    "negative twice": [-(2**32), -(2**32)],
    "none but without end": [2**48, 0],
    "blocks without end": [1300 * 256],
    "one block fewer": [1280],
    "dimensions without end": [1] * 10_000,
    "long dimensions": [1324] * 9_000,
}


def body(arrays: dict[str, Any], blocks: dict[str, Any]) -> bytes:
    stated = {"flnet": "1", "message": json.dumps(ROUND), "blocks": json.dumps(blocks)}
    return safetensors.numpy.save(arrays, stated)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with target(tmp_path_factory.mktemp("packed")) as made:
        assert post(made, "/announce", json.dumps({"iAm": STRANGER, "myKnownPeers": []}).encode())[0] == 201
        yield made


def refusal(node: RealNode, sent: bytes) -> str:
    """What the node says, having taken next to no memory."""
    before = peak(node)
    opening = head("/training/model_params", BINARY_TYPE, Content_Length=len(sent))
    status, told = talk(node, (opening, sent))
    assert (status, told["error"] in ("params_refused", "unreadable_body")) == (422, True)
    assert peak(node) - before < 32 * MEGA
    return str(told["message"])


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_that_the_row_does_not_bear_out_is_refused_in_words(node: RealNode, claim: str) -> None:
    assert "the blocks of 'w' are not those of an array" in refusal(
        node, body({"w": ROW}, {"w": ["float32", CLAIMS[claim]]})
    )


def test_hundreds_of_such_claims_are_refused_by_the_first(node: RealNode) -> None:
    arrays = {f"w{number}": np.zeros(0, np.int8) for number in range(MANY)}
    assert "the blocks of 'w0'" in refusal(node, body(arrays, {name: ["float64", [2**40]] for name in arrays}))


def test_a_claim_as_deep_as_can_be_sent_is_refused(node: RealNode) -> None:
    deep = safetensors.numpy.save({"w": ROW}, {"flnet": "1", "message": "{}", "blocks": '{"w":' + "[" * 50_000})
    assert "no JSON object" in refusal(node, deep)


def test_the_right_claim_is_refused_only_for_what_the_job_expects(node: RealNode) -> None:
    told = refusal(node, body({"w": ROW}, {"w": ["float32", [1300]]}))
    assert "block" not in told
