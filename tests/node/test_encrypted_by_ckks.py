"""A regression under real encryption over a mesh: its result, and what reaches each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.algorithms.vertical.encryption import PLAIN, Encryption
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels, slices, taylor_loss, train
from flnet.protocol.vertical import VerticalMessage
from flnet.wire.transport import Reply
from tests.algorithms.vertical.encrypted_holders import RegressionPeople, weights_of
from tests.algorithms.vertical.people import breast_cancer
from tests.algorithms.vertical.searching import found, unpacked
from tests.node.mesh import Mesh, node_receiver, trigger, until
from tests.node.vertical_mesh import T, job_of, vertical_mesh

pytest.importorskip("tenseal", reason="TenSEAL is not installed")

from flnet.security.ckks import CKKS, CkksKeys

pytestmark = pytest.mark.slow
Told = dict[str, list[bytes]]  # bodies of what came, by receiver


def patients(encryption: Encryption, count: int = 569, b: int = 100) -> RegressionPeople:
    people = breast_cancer()
    y = (people.labels[:count] > 0).astype(np.int64)
    return RegressionPeople(people.a[:count], people.b[:count], y, encryption, b)


async def trained(mesh: Mesh, epochs: int) -> Mapping[str, Any]:
    await trigger(mesh.nodes["a"], epochs)
    jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
    await until(lambda: all(job.models.closed == epochs - 1 and not job.busy for job in jobs.values()), 120)
    return jobs


def listen(mesh: Mesh) -> Told:
    """Write down all that the nodes get."""
    told: Told = {name: [] for name in mesh.nodes}
    for name, node in mesh.nodes.items():
        receiver = node_receiver(node, "safetensors")

        async def receive(path: str, body: bytes, *rest: Any, name: str = name, receiver: Any = receiver) -> Reply:
            if path == VerticalMessage.path:
                told[name].append(bytes(body))
            reply: Reply = await receiver(path, body, *rest)
            return reply

        mesh.network.register_signed(node.me.address, receive)
    return told


async def test_two_epochs_on_tumour_data_are_as_good_as_in_clear_text() -> None:
    people = patients(CKKS)
    async with vertical_mesh(people) as mesh:
        jobs = await trained(mesh, 2)
        theta, whole = weights_of(jobs)
        assert theta.tolist() == whole.tolist()
        expected, plan = people.expected(jobs, 2), people.plan(jobs["a"])
        error = np.sqrt(2) * plan.weight_error(CkksKeys())
        assert 0 < np.abs(theta - expected).max() < 5 * error < 0.01
        x, y, count = people.rows(jobs)

        scores = x @ expected  # what errors cannot turn is decided alike; accuracies of few rows come in steps
        is_certain = np.abs(scores) > 5 * error * np.linalg.norm(x, axis=1)
        assert np.array_equal(np.sign(x @ theta)[is_certain], np.sign(scores)[is_certain])
        assert is_certain.mean() > 0.95
        assert (np.sign(x[count:] @ theta) == y[count:]).mean() > 0.9
        report = jobs["c"].models.ended[1].report
        near = 10 * plan.loss_noise(CkksKeys())
        assert report.loss == pytest.approx(taylor_loss(x[count:], y[count:], theta), abs=near)
        assert near < 0.01


def secrets(people: RegressionPeople, jobs: Mapping[str, Any]) -> dict[str, Any]:
    """What no other node may see of the first epoch."""
    x, y, count = people.rows(jobs)
    theta, plan = np.zeros(x.shape[1]), people.plan(jobs["a"])
    own, residuals, products = [], [], []
    for part in slices(plan.batches):
        w = x[:count][part] @ theta / 4 - y[:count][part] / 2
        own.append(x[:count][part, : plan.columns_a] @ theta[: plan.columns_a] / 4 - y[:count][part] / 2)
        residuals.append(w)
        products.append(x[:count][part, 1:] * w[:, None])
        theta = train(x[:count][part], y[:count][part], (len(w),), theta, 1, plan.rate, plan.ridge)
    return {
        "features": x[:, 1:],
        "labels": np.column_stack([y, y]),
        "residuals from a's columns": np.concatenate(own),
        "residuals": np.concatenate(residuals),
        "gradients of rows": np.concatenate(products),
    }


def written(values: Any) -> set[bytes]:
    """Numbers as they stand in JSON, if they are long enough not to stand there by chance."""
    numbers = np.asarray(values, np.float64).ravel()
    texts = {repr(number).encode() for kind in ("f4", "f8") for number in numbers.astype(kind).tolist()}
    return {text for text in texts if len(text) > 8}


def found_in(told: list[bytes], known: Mapping[str, Any]) -> set[str]:
    bodies = [data for body in told for data in unpacked(body)]
    heads = b"".join(body[:20_000] for body in told)
    as_text = {name for name, values in known.items() if any(text in heads for text in written(values))}
    return found(bodies, known) | as_text


@pytest.mark.parametrize("encryption", [CKKS, PLAIN], ids=["encrypted", "clear"])
async def test_nothing_of_a_row_reaches_another_node(encryption: Encryption) -> None:
    """In clear text the same search finds the residuals of rows at A, those without B's columns at B, nothing at C."""
    people = patients(encryption, count=130, b=40)
    for name in "ab":
        people.table(name).allows_predictions = True
    async with vertical_mesh(people) as mesh:
        told = listen(mesh)
        jobs = await trained(mesh, 1)
        known = secrets(people, jobs)
        seen = {name: found_in(told[name], known) for name in "abc"}
        in_clear = {"a": {"residuals"}, "b": {"residuals from a's columns"}, "c": set()}
        assert seen == ({"a": set(), "b": set(), "c": set()} if encryption is CKKS else in_clear)
        weights = {name: job.models.ended[0].params for name, job in jobs.items()}
        theta = {"weights of a": weights["a"]["bottom/weights/theta"]}
        assert found_in(told["a"], theta)  # the search reads JSON, too
        if encryption is CKKS:
            assert sum(map(len, told["c"])) < sum(map(len, told["a"]))
        for asker in "ab":
            for bodies in told.values():
                bodies.clear()
            view = await mesh.nodes[asker].predict_ids(T, people.table(asker).ids)
            assert len(view["ids"]) == 130
            assert told["a"]
            assert not told["c"]
            assert {name: found_in(told[name], known) for name in "ab"} == {"a": set(), "b": set()}


async def test_a_mask_that_only_the_key_holder_has_leaves_strangers_out() -> None:
    """The weights are those of the matching rows alone, although A and B compute with all of theirs."""
    people = RegressionPeople.hiding(encryption=CKKS)
    async with vertical_mesh(people) as mesh:
        jobs = await trained(mesh, 1)
        theta, _ = weights_of(jobs)
        rows = {name: np.asarray(job.models.rows) for name, job in jobs.items()}
        batches = AlignedBatches(len(rows["c"]), 24, jobs["c"].models.seed, jobs["c"].models.alignment)
        at = {name: own[batches.trained] for name, own in rows.items()}
        x = [np.where(at[n][:, None] < 0, 0, np.asarray(people.table(n).x)[at[n]]) for n in "ab"]
        y = signed_labels(np.asarray(people.table("a").y))[at["a"]]
        whole, sizes = np.column_stack([np.ones(len(y)), *x]), fixed_batches(len(y), 24)
        expected = train(whole, y, sizes, np.zeros(6), 1, 0.1, 0.01, at["c"].astype(float), fewest=4)
        with_strangers = train(whole, y, sizes, np.zeros(6), 1, 0.1, 0.01, fewest=4)
        assert np.abs(theta - expected).max() < 0.001
        assert np.abs(theta - with_strangers).max() > 0.005
