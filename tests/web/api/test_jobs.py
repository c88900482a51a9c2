from __future__ import annotations

import pytest

from tests.web.conftest import Client
from tests.web.fake_node import FakeNode


async def test_info_is_the_answer_of_the_thesis_with_more(client: Client, node: FakeNode) -> None:
    await client.post("/training/trigger", json={"trainerId": "MNIST"})
    await node.finish_round("MNIST", before=0.4545, after=0.4545)
    told = await (await client.get("/info")).get_json()
    assert told["iAm"] == {"id": "NODE_1", "ip": None, "port": "4000"}
    assert told["lastNodeStatus"] == "IDLE"
    job = told["jobsInfo"][0]
    assert job["trainer_label"] == "MNIST Dataset"
    assert job["federated_learning_params"] == "Learning Rate: 1e-05, Epochs: 2, Batch size: 64"
    assert (job["current_round"], job["fed_learn_done"], job["model_was_exchanged"]) == (0, "Yes", "No")
    assert (job["pre_fedavg_accuracy"], job["post_fedavg_accuracy"]) == (0.4545, 0.4545)


async def test_jobs_can_be_listed_and_read_one_by_one(client: Client) -> None:
    listed = await (await client.get("/jobs")).get_json()
    assert [job["trainer_id"] for job in listed] == ["MNIST", "MNIST_3_7"]
    assert (await (await client.get("/jobs/MNIST_3_7")).get_json())["data"]["sample"] is True


@pytest.mark.parametrize("path", ["/jobs/NONE", "/jobs/NONE/history", "/jobs/%3Cb%3E"])
async def test_an_unknown_job_is_named_with_those_that_exist(client: Client, path: str) -> None:
    answer = await client.get(path)
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (404, "unknown_trainer")
    assert "MNIST_3_7" in told["message"]


async def test_the_history_holds_every_round(client: Client, node: FakeNode) -> None:
    assert await (await client.get("/jobs/MNIST/history")).get_json() == []
    await client.post("/training/trigger", json={"trainerId": "MNIST"})
    await node.finish_round("MNIST", before=0.5, after=0.75)
    (record,) = await (await client.get("/jobs/MNIST/history")).get_json()
    assert (record["round"], record["post_fedavg_accuracy"]) == (0, 0.75)


async def test_the_newest_records_of_a_history_are_given_alone(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].records = [{"round": number} for number in range(5)]
    for last, rounds in (("2", [3, 4]), ("5", [0, 1, 2, 3, 4]), ("900", [0, 1, 2, 3, 4])):
        told = await (await client.get(f"/jobs/MNIST/history?last={last}")).get_json()
        assert [record["round"] for record in told] == rounds
    for wrong in ("0", "-1", "x", "", "1e3", "9" * 400):
        answer = await client.get(f"/jobs/MNIST/history?last={wrong}")
        assert (answer.status_code, (await answer.get_json())["error"]) == (422, "invalid_message")


async def test_hyper_parameters_are_edited_one_by_one(client: Client) -> None:
    answer = await client.patch("/jobs/MNIST/params", json={"e": 5})
    assert answer.status_code == 200
    assert (await answer.get_json())["hyper"] == {"e": 5, "u": 1e-05, "b": 64}
    assert (await (await client.patch("/jobs/MNIST/params", json={"u": 1})).get_json())["hyper"]["u"] == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"e": "2"}', "e: "),
        (b'{"e": 0}', "e: "),
        (b'{"e": true}', "e: "),
        (b'{"u": -1}', "u: "),
        (b'{"epochs": 2}', "epochs: "),
        (b"{}", "at least one of e, u, b"),
        (b"[]", "the message"),
        (b"nonsense", "no JSON"),
        (b"\xff", "no JSON"),
        (b'{"u": NaN}', "no JSON"),
    ],
)
async def test_a_wrong_edit_is_refused_with_the_field_and_changes_nothing(
    client: Client, node: FakeNode, body: bytes, named: str
) -> None:
    before = node.jobs["MNIST"].hyper
    answer = await client.patch("/jobs/MNIST/params", data=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert named in (await answer.get_json())["message"]
    assert node.jobs["MNIST"].hyper == before


async def test_an_edit_of_an_unknown_job_is_404(client: Client) -> None:
    assert (await client.patch("/jobs/NONE/params", json={"e": 2})).status_code == 404


async def test_a_series_is_stopped_and_stopping_nothing_is_fine(client: Client, node: FakeNode) -> None:
    node.jobs["MNIST"].rounds_left = 3
    for _ in range(2):
        answer = await client.post("/jobs/MNIST/stop")
        assert (answer.status_code, (await answer.get_json())["rounds_left"]) == (200, 0)


async def test_a_job_is_paused_and_resumed_and_others_are_not(client: Client) -> None:
    for order, paused in [("pause", True), ("pause", True), ("resume", False)]:
        answer = await client.post(f"/jobs/MNIST/{order}", data=b"whatever")
        assert (answer.status_code, (await answer.get_json())["paused"]) == (200, paused)
        assert (await (await client.get("/jobs/MNIST_3_7")).get_json())["paused"] is False


@pytest.mark.parametrize("order", ["stop", "pause", "resume"])
async def test_what_cannot_be_steered(client: Client, order: str) -> None:
    assert (await client.post(f"/jobs/NONE/{order}")).status_code == 404
    assert (await client.get(f"/jobs/MNIST/{order}")).status_code == 405
    elsewhere = {"Origin": "http://elsewhere.example"}
    assert (await client.post(f"/jobs/MNIST/{order}", headers=elsewhere)).status_code == 403


async def test_peers_health_and_readiness(client: Client, node: FakeNode) -> None:
    node.add_peer("NODE_2", "127.0.0.1:4001")
    assert (await (await client.get("/peers")).get_json())[0]["address"] == "127.0.0.1:4001"
    assert await (await client.get("/health")).get_json() == {"status": "ok"}
    assert (await client.get("/ready")).status_code == 200
    node.reasons = ["MNIST is still loading its data"]
    answer = await client.get("/ready")
    assert answer.status_code == 503
    assert (await answer.get_json())["reasons"] == ["MNIST is still loading its data"]
