"""Models over HTTP: what is asked reaches the node as it was meant, and files come as files."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from flnet.errors import JobBusy, NotReady
from flnet.web.api.models import PREDICT_BYTES
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

DIGEST = "ab" * 32
PNG = b"\x89PNG and so on"


@pytest.fixture(autouse=True)
def trained(node: FakeNode) -> None:
    node.jobs["MNIST"].digest = DIGEST


async def test_models_are_listed(client: Client) -> None:
    listed = await (await client.get("/jobs/MNIST/models")).get_json()
    assert listed == [{"digest": DIGEST, "held": True}]
    assert (await client.get("/jobs/NONE/models")).status_code == 404


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("", f"MNIST-{DIGEST}.safetensors", "application/octet-stream"),
        ("?format=onnx", f"MNIST-{DIGEST}.onnx", "application/octet-stream"),
        ("/card", f"MNIST-{DIGEST}.md", "text/markdown; charset=utf-8"),
    ],
)
async def test_files_come_with_a_name_and_are_never_shown_in_place(
    client: Client, path: str, name: str, kind: str
) -> None:
    answer = await client.get(f"/jobs/MNIST/models/{DIGEST}{path}", scope_base={"client": ("127.0.0.1", 5)})
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert (answer.headers["Content-Type"], answer.headers["X-Content-Type-Options"]) == (kind, "nosniff")


async def test_an_unknown_model_is_404_and_another_machine_is_told_apart(client: Client) -> None:
    answer = await client.get("/jobs/MNIST/models/ff")
    assert (answer.status_code, (await answer.get_json())["error"]) == (404, "unknown_model")
    answer = await client.get(f"/jobs/MNIST/models/{DIGEST}", scope_base={"client": ("192.168.1.9", 5)})
    assert (answer.status_code, (await answer.get_json())["error"]) == (403, "own_machine_only")


async def test_numbers_and_pictures_reach_the_node(client: Client, node: FakeNode) -> None:
    answer = await client.post("/jobs/MNIST/predict", json={"inputs": [[1, 2.5]], "digest": "ab"})
    assert (await answer.get_json())["predicted"] == ["7"]
    encoded = base64.b64encode(PNG).decode()
    await client.post("/jobs/MNIST/predict", json={"image": encoded})
    await client.post("/jobs/MNIST/predict", json={"image": f"data:image/png;base64,{encoded}"})
    await client.post("/jobs/MNIST/predict?digest=cd", data=PNG, headers={"Content-Type": "image/png"})
    asked = [(question.inputs, question.picture, question.digest) for question in node.questions]
    assert asked == [([[1, 2.5]], None, "ab"), (None, PNG, None), (None, PNG, None), (None, PNG, "cd")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, 'either "inputs"'),
        ({"inputs": [], "image": ""}, 'either "inputs"'),
        ({"inputs": 3}, "inputs: "),
        ({"input": [[1]]}, "input: "),
        ({"image": "%%%"}, "not base64"),
        ({"image": "\u00fc"}, "not base64"),
        ({"inputs": [1], "digest": "a" * 65}, "digest: "),
        ([1], "the message"),
    ],
)
async def test_a_question_that_is_none_is_refused_in_words(
    client: Client, node: FakeNode, body: Any, words: str
) -> None:
    answer = await client.post("/jobs/MNIST/predict", json=body)
    assert answer.status_code == 422
    assert words in (await answer.get_json())["message"]
    assert node.questions == []


async def test_a_body_that_is_no_json_or_of_another_kind_is_refused(client: Client) -> None:
    headers = {"Content-Type": "application/json"}
    assert (await client.post("/jobs/MNIST/predict", data=b"{", headers=headers)).status_code == 422
    headers = {"Content-Type": "image/gif"}
    assert (await client.post("/jobs/MNIST/predict", data=b"GIF", headers=headers)).status_code == 415


async def test_a_busy_lane_is_503(client: Client, node: FakeNode) -> None:
    node.failure = NotReady("ask again")
    answer = await client.post("/jobs/MNIST/predict", json={"inputs": [[1]]})
    assert (answer.status_code, (await answer.get_json())["error"]) == (503, "not_ready")


async def test_inputs_may_be_larger_than_other_requests_but_not_without_end(client: Client) -> None:
    large = json.dumps({"inputs": [[0] * 100_000]}).encode()
    headers = {"Content-Type": "application/json"}
    assert (await client.post("/jobs/MNIST/predict", data=large, headers=headers)).status_code == 200
    assert (await client.patch("/jobs/MNIST/params", data=large, headers=headers)).status_code == 413
    headers["Content-Length"] = str(PREDICT_BYTES + 1)
    assert (await client.post("/jobs/MNIST/predict", data=b"{", headers=headers)).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "order"),
    [("post", "restore", "restore"), ("put", "pin", "pin"), ("delete", "pin", "unpin")],
)
async def test_a_model_is_pinned_unpinned_and_gone_back_to(
    client: Client, node: FakeNode, method: str, path: str, order: str
) -> None:
    answer = await getattr(client, method)(f"/jobs/MNIST/models/{DIGEST}/{path}")
    assert (answer.status_code, (await answer.get_json())["digest"]) == (200, DIGEST)
    assert node.orders == [(order, "MNIST", DIGEST)]
    assert (await getattr(client, method)(f"/jobs/NONE/models/{DIGEST}/{path}")).status_code == 404
    node.failure = JobBusy("round 3 is still training here")
    answer = await getattr(client, method)(f"/jobs/MNIST/models/{DIGEST}/{path}")
    assert (answer.status_code, (await answer.get_json())["error"]) == (409, "job_busy")
    from_elsewhere = {"Origin": "http://elsewhere.example"}
    answer = await getattr(client, method)(f"/jobs/MNIST/models/{DIGEST}/{path}", headers=from_elsewhere)
    assert answer.status_code == 403
    assert len(node.orders) == 1


async def test_rows_of_a_vertical_job_are_predicted_by_id(node: FakeNode, client: Client) -> None:
    answer = await client.post("/jobs/MNIST/predict/ids", json={"ids": [4711, "x"]})
    assert answer.status_code == 200
    assert (await answer.get_json())["unknown"] == ["x"]


@pytest.mark.parametrize("ids", [[], ["x"] * 1001, [1.5], [True], [None], ["x" * 1001], [""], "4711", None])
async def test_lists_of_ids_are_bounded(client: Client, ids: object) -> None:
    answer = await client.post("/jobs/MNIST/predict/ids", json={"ids": ids})
    assert answer.status_code == 422
    assert "ids" in (await answer.get_json())["message"]
