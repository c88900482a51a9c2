"""."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from flnet.errors import (
    DataMissing,
    FlnetError,
    IdTaken,
    InvalidMessage,
    NotReady,
    ParamsRefused,
    RoundLost,
    StaleRound,
)
from flnet.text import code_of
from flnet.web.app import create_app
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode, raising

ME = {"id": "NODE_2", "ip": None, "port": "4001"}
HYPER = {"e": 2, "u": 1e-05, "b": 64}
ROUND = {"iAm": ME, "trainerId": "MNIST", "modelParams": {}, "round": 0, "federatedLearningParams": HYPER}


async def test_an_announcement_is_answered_with_201_and_the_callers_address_is_the_sockets(
    client: Client, node: FakeNode
) -> None:
    answer = await client.post(
        "/announce",
        json={"iAm": ME, "myKnownPeers": []},
        headers={"X-Forwarded-For": "9.9.9.9", "Remote-Addr": "8.8.8.8"},
        scope_base={"client": ("127.0.0.7", 5)},
    )
    assert answer.status_code == 201
    assert (await answer.get_json())["iAm"]["id"] == "NODE_1"
    assert node.peers()[0]["address"] == "127.0.0.7:4001"


async def test_a_caller_on_a_socket_for_both_kinds_of_address_is_named_by_its_ipv4_address(
    client: Client, node: FakeNode
) -> None:
    await client.post("/announce", json={"iAm": ME}, scope_base={"client": ("::ffff:10.0.0.5", 5)})
    assert node.received[0][3] == "10.0.0.5"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/training", ROUND, 200),
        ("/training/model_params", ROUND, 200),
        ("/training/model_params/accuracy", {**ROUND, "accuracy": 0.5}, 400),
        ("/training/trigger", {"trainerId": "MNIST"}, 202),
        ("/training/trigger", {"trainerId": "NONE"}, 404),
        ("/training", {**ROUND, "trainerId": "NONE"}, 404),
        ("/training", {**ROUND, "round": -5}, 422),
    ],
)
async def test_a_message_gets_the_nodes_own_answer(client: Client, path: str, body: Any, status: int) -> None:
    answer = await client.post(path, json=body)
    assert answer.status_code == status
    assert answer.mimetype == "application/json"


async def test_what_curl_d_sends_is_read_as_json(client: Client, node: FakeNode) -> None:
    answer = await client.post(
        "/training/trigger",
        data=b' {"trainerId": "MNIST"}',
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 202
    assert node.received[0][:3] == ("/training/trigger", 23, "application/json")


async def test_no_content_type_counts_as_json(client: Client) -> None:
    answer = await client.post("/training/trigger", data=b'{"trainerId": "MNIST"}')
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", b'{"trainerId": "MNIST"}'),
        ("application/octet-stream", b"\x80\x04."),
        ("multipart/form-data; boundary=x", b""),
        ("application/x-www-form-urlencoded", b"trainerId=MNIST"),
    ],
)
async def test_another_content_type_is_refused_in_words(
    client: Client, node: FakeNode, content_type: str, body: bytes
) -> None:
    answer = await client.post("/training/trigger", data=body, headers={"Content-Type": content_type})
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (415, "unsupported_media_type")
    assert "application/json" in told["message"]
    assert node.received == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe{}", b"[" * 50_000, b"null", b"NaN", b'{"trainerId": 1e999}']
)
async def test_a_broken_body_is_the_callers_fault(client: Client, body: bytes) -> None:
    answer = await client.post("/training/trigger", data=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert (await answer.get_json()).keys() == {"error", "message"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StaleRound(3, 7), {"error": "stale_round", "round": 7}),
        (RoundLost(3, "b", "a"), {"error": "round_lost"}),
        (IdTaken("NODE_1"), {"error": "id_taken"}),
        (InvalidMessage("round: must be 0 or more"), {"error": "invalid_message"}),
        (ParamsRefused("weights has shape [2], expected [784]"), {"error": "params_refused"}),
        (NotReady("MNIST is loading"), {"error": "not_ready"}),
        (DataMissing("MNIST has no data", "put it into the datasets folder"), {"error": "data_missing"}),
    ],
)
async def test_an_error_of_the_node_keeps_its_status_code_words_and_details(
    error: FlnetError, expected: dict[str, Any]
) -> None:
    client = create_app(raising(error), SETTINGS).test_client()
    answer = await client.post("/training", json=ROUND)
    assert answer.status_code == error.status
    code = code_of(error.message)
    text = {} if code is None else {"text": code}
    assert await answer.get_json() == {**expected, "message": error.message, **text}


async def test_an_unexpected_error_is_logged_and_shows_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    node = FakeNode()
    node.failure = RuntimeError("the secret inside")
    answer = await create_app(node, SETTINGS).test_client().post("/training", json=ROUND)
    raw = await answer.get_data()
    assert answer.status_code == 500
    assert orjson.loads(raw)["error"] == "internal_error"
    assert b"secret" not in raw
    assert b"Traceback" not in raw
    assert "the secret inside" in caplog.text


async def test_the_wrong_verb_and_an_unknown_path_are_told_in_json(client: Client) -> None:
    wrong_verb = await client.get("/training")
    assert wrong_verb.status_code == 405
    assert "POST" in wrong_verb.headers["Allow"]
    assert await wrong_verb.get_json() == {
        "error": "method_not_allowed",
        "message": "'/training' takes OPTIONS, POST, not GET",
    }
    unknown = await client.post("/training/nothing", json={})
    assert unknown.status_code == 404
    assert await unknown.get_json() == {"error": "not_found", "message": "there is nothing at '/training/nothing'"}
