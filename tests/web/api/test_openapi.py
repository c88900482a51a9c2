"""GET /openapi.json: it describes the endpoints that there are, no more and no less, and hangs together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flnet.errors import PeerError
from flnet.web.api.openapi import ENDPOINTS, describe
from tests.web.conftest import Client


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every "METHOD path" that is described, with what is said of it."""
    for path, methods in describe()["paths"].items():
        for method, said in methods.items():
            yield f"{method.upper()} {path}", said


def named(part: Any) -> Iterator[str]:
    """All parts that a part of the description names."""
    if isinstance(part, dict):
        yield from [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from named(inner)


async def test_it_is_served(client: Client) -> None:
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    told = await answer.get_json()
    assert (told["openapi"], told["paths"].keys()) == ("3.1.0", describe()["paths"].keys())


def test_every_endpoint_is_described_and_none_is_invented() -> None:
    assert {route for route, _ in operations()} == {endpoint.name for endpoint in ENDPOINTS}


def test_what_is_named_is_there() -> None:
    whole = describe()
    parts = {f"#/components/schemas/{name}" for name in whole["components"]["schemas"]}
    assert set(named(whole)) == parts


def test_every_operation_has_its_own_name_and_the_variables_of_its_path() -> None:
    names = [said["operationId"] for _, said in operations()]
    assert len(set(names)) == len(names)
    for route, said in operations():
        in_path = [one["name"] for one in said["parameters"] if one["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)}", route)


def test_the_messages_are_described_as_they_stand_on_the_wire() -> None:
    parts = describe()["components"]["schemas"]
    assert parts["Trigger"]["required"] == ["trainerId"]
    assert parts["Trigger"]["additionalProperties"] is False
    assert parts["Trigger"]["properties"]["rounds"]["maximum"] == 1_000_000
    for name in ("StartTraining", "ModelParams", "Accuracy", "AccuracyReply"):
        assert parts[name]["properties"]["modelParams"]["type"] == "object"
        assert parts[name]["properties"]["iAm"]
    assert "modelParams" not in parts["Announce"]["properties"]


def test_refusals_are_those_that_flnet_has() -> None:
    codes = {kind.code for kind in PeerError.__subclasses__()}
    stated = {
        (int(status), code)
        for _, said in operations()
        for status, answer in said["responses"].items()
        if status.startswith("4")
        for code in re.findall(r"(?:^|[.] )(\w+): ", answer["description"])
    }
    assert {code for _, code in stated} <= codes
    assert {(404, "unknown_trainer"), (409, "job_busy"), (409, "round_lost"), (403, "own_machine_only")} <= stated


def test_a_body_may_come_in_every_form_that_its_endpoint_reads() -> None:
    said = dict(operations())
    types = {route: list(one["requestBody"]["content"]) for route, one in said.items() if "requestBody" in one}
    assert types["POST /training"] == ["application/json", "application/vnd.flnet.safetensors"]
    assert types["POST /jobs/{trainerId}/predict"] == ["application/json", "image/png", "image/jpeg"]
    assert "POST /jobs/{trainerId}/stop" not in types
