"""Whole nodes that promise privacy: what their peers get, what people see, and what a restart remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.cli.history import privacy_lines as history_lines
from flnet.cli.status import privacy_lines
from flnet.errors import JobBusy
from flnet.params.params import Params
from flnet.store.memory import MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, trigger, until

pytest.importorskip("dp_accounting")
NUMBERS = 2000
PROMISE: dict[str, Any] = {"privacy": "node:3:1e-5:0.5", "privacy_rounds": 2}


async def add(mesh: Mesh, name: str, store: MemoryStore | None = None, **settings: Any) -> None:
    await mesh.add(name, Linear(1.0, numbers=NUMBERS), tuple(mesh.nodes)[:1], store=store, **settings)


def sent_by(mesh: Mesh, name: str) -> Params:
    sent = mesh.nodes[name].core.jobs[MNIST_3_7].held.sent
    assert sent is not None
    return sent


async def test_a_node_that_promises_privacy_sends_noise_spends_its_budget_and_then_only_averages() -> None:
    async with mesh_of() as mesh:
        await add(mesh, "a")
        await add(mesh, "b", **PROMISE)
        await mesh.full()
        await mesh.train()
        assert len(mesh.digests()) == 1
        view = mesh.nodes["b"].job(MNIST_3_7).privacy
        assert view is not None and view.noise_multiplier is not None
        deviation = np.std(sent_by(mesh, "b")["weights"])
        assert deviation == pytest.approx(0.5 * view.noise_multiplier, rel=0.1)
        assert sent_by(mesh, "a")["weights"].tolist() == [[0.5]] * NUMBERS
        await mesh.train()
        await mesh.train()
        view = mesh.nodes["b"].job(MNIST_3_7).privacy
        assert view is not None and view.spent is not None
        assert (round(view.spent, 3), view.updates, view.rounds_left) == (3.0, 2, 0)
        last = (await mesh.nodes["a"].records(MNIST_3_7, 1))[0]
        assert "its privacy budget is spent" in str(last["left_out"]["b"]) and last["contributors"] == ["a"]
        with pytest.raises(JobBusy, match="starts no rounds here: its privacy budget is spent"):
            await trigger(mesh.nodes["b"])


async def test_a_restart_remembers_what_was_spent() -> None:
    async with mesh_of() as mesh:
        store = MemoryStore()
        await add(mesh, "a")
        await add(mesh, "b", store, **PROMISE)
        await mesh.full()
        await mesh.train()
        before = mesh.nodes["b"].job(MNIST_3_7).privacy
        await mesh.nodes["b"].stop()
        await add(mesh, "b", store, **PROMISE)
        await mesh.full()
        assert mesh.nodes["b"].job(MNIST_3_7).privacy == before
        assert before is not None and before.spent is not None and before.spent > 1


async def test_people_read_it_in_the_record_of_the_round_and_on_the_card_of_the_model() -> None:
    async with mesh_of() as mesh:
        await add(mesh, "a", **PROMISE)
        await add(mesh, "b", **PROMISE)
        await mesh.full()
        await mesh.train()
        node = mesh.nodes["a"]
        (record,) = await node.records(MNIST_3_7, 1)
        (line,) = history_lines(record)
        assert line.startswith("privacy with round 0: epsilon ")
        assert "of 3 spent, delta 1e-05, for the whole node; rounds left: 1; noise" in line
        jobs = list(node.info()["jobsInfo"])
        spent, covers = privacy_lines(jobs * 2)[1:]
        assert "of 3 spent" in spent and "Not hidden: accuracies on test rows" in covers
        digest = node.job(MNIST_3_7).digest
        assert digest is not None
        card = (await node.card(MNIST_3_7, digest)).body.decode()
        assert "| privacy of this node's update | epsilon " in card


async def test_a_trainer_that_does_not_say_how_it_hid_rows_sends_nothing() -> None:
    async with mesh_of() as mesh:
        await add(mesh, "a", privacy="rows:3:1e-5")
        await mesh.full()
        await mesh.train()
        job = mesh.nodes["a"].core.jobs[MNIST_3_7]
        assert job.held.sent is None
        assert job.error is not None


SUM: dict[str, Any] = {**PROMISE, "aggregation": "secure,agg0"}


async def test_the_nodes_of_a_secure_sum_share_the_noise_and_spend_their_budgets() -> None:
    async with mesh_of() as mesh:
        for name in "abcd":
            await add(mesh, name, **SUM)
        await mesh.full()
        await mesh.train(rounds=2)
        assert len(mesh.digests()) == 1
        job = mesh.nodes["b"].core.jobs[MNIST_3_7]
        view = job.view().privacy
        assert view is not None and view.noise_multiplier is not None and view.spent is not None
        assert (round(view.spent, 3), view.updates, view.rounds_left) == (3.0, 2, 0)
        assert "reads the sums of updates" in view.covers
        # Each of the four adds half of the noise, because two of them are enough: in a sum sqrt(2) times the promise.
        variance = 2 * 2 * (0.5 * view.noise_multiplier / 4) ** 2  # of two rounds, of the mean of four
        assert np.var(job.held.current.shared["weights"]) == pytest.approx(variance, rel=0.15)
        records = await mesh.nodes["c"].records(MNIST_3_7, 2)
        for record in records:
            assert record["contributors"] == list("abcd")
            assert "if at least 2 of 4 nodes are honest" in str(record)
        with pytest.raises(JobBusy, match="starts no rounds here: its privacy budget is spent"):
            await trigger(mesh.nodes["a"])


async def test_nodes_that_would_not_share_the_same_noise_refuse_each_other() -> None:
    async with mesh_of() as mesh:
        for name in "abc":
            await add(mesh, name, **{**SUM, "privacy_rounds": 3 if name == "b" else 2})
        await mesh.full()
        await trigger(mesh.nodes["a"])
        jobs = [mesh.nodes[name].core.jobs[MNIST_3_7] for name in "ac"]
        await until(lambda: all(job.history.records and not job.busy for job in jobs))
        assert [job.history.records[-1].contributors for job in jobs] == [("a", "c")] * 2
        assert mesh.nodes["b"].job(MNIST_3_7).current_round == -1
        refused = [event for event in mesh.nodes["a"].feed.recent() if "noise of sums" in str(event)]
        promise = "epsilon 3, delta 1e-05, clip 0.5, 2 rounds, noise "
        assert promise in str(refused) and promise.replace("2 rounds", "3 rounds") in str(refused)
