"""Defences as settings of a trainer, measured by attacks on what holders send in whole epochs of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.leakage import (
    direction_scores,
    invert_with_examples,
    norm_scores,
    reconstruction_error,
)
from flnet.compute.vertical import VerticalHost
from flnet.datasets.metrics import auc
from flnet.params.params import Array
from flnet.vertical_trainer import GradientDefence, OutputDefence
from tests.algorithms.vertical.holders import People
from tests.algorithms.vertical.networks import normal
from tests.compute.test_vertical import HYPER, SEED, Job

EPOCHS = 4


def trained(people: People, epochs: int = EPOCHS) -> Job:
    """A job over these people."""
    hosts = {
        node: VerticalHost(table, node, SafePrimeGroup, lambda: bytes(32), normal(at))
        for at, (node, table) in enumerate(people.tables.items())
    }
    job = Job(hosts)
    for epoch in range(epochs):
        job.epoch(aligns=epoch == 0)
    return job


def people_with_rare_label() -> People:
    """A fifth of them has the label, which columns say something of, and not all."""
    people = People(common=300)
    total = np.sum([x[:, 0] for x in people.x.values()], axis=0) + np.random.default_rng(3).normal(0, 2, 300)
    rare = {f"P{number:03}": int(value > np.quantile(total, 0.8)) for number, value in enumerate(total)}
    table = people.tables["b"]
    table.hidden = ()  # gradients of all rows are along one direction
    table.y = np.array([rare.get(name, 0) for name in table.ids])
    return people


def batches(job: Job, people: People, kind: str, **fields: Any) -> Iterator[tuple[Array, Array, Array]]:
    """What was sent of each batch but those of the first epoch, with a's features and the labels of its rows."""
    x, y = people.tables["a"].x, people.tables["b"].y
    assert x is not None and y is not None
    plan = AlignedBatches(len(job.rows["a"]), HYPER.b, SEED, job.alignment)
    for _, message in job.sent:
        part = message["part"]
        if part["kind"] == kind and part["epoch"] > 0 and fields.items() <= part.items():
            planned = plan.hold_out() if part.get("holdOut") else plan.training(part["epoch"])
            rows = planned[part["step"]].positions
            yield message["arrays"]["values"], x[job.rows["a"][rows]], y[job.rows["b"][rows]]


def label_leak(defence: GradientDefence | None) -> tuple[float, float, list[float]]:
    """AUC of a's guesses of labels by norm and by direction, and the losses of all epochs."""
    people = people_with_rare_label()
    people.tables["b"].gradient_noise = defence
    job = trained(people)
    by_norm, by_direction = [], []
    for gradients, _, labels in batches(job, people, "gradients"):
        if 1 < labels.sum() < len(labels):
            known, others = labels.argmax(), np.arange(len(labels)) != labels.argmax()
            by_norm.append(auc(labels, norm_scores(gradients)))
            by_direction.append(auc(labels[others], direction_scores(gradients[others], gradients[known])))
    assert len(by_norm) > 30
    losses = [turn.report["loss"] for turn in job.turns["a"] if turn.report]
    return float(np.mean(by_norm)), float(np.mean(by_direction)), losses


def feature_leak(defence: OutputDefence | None) -> float:
    """Error of b's guesses of a's columns, from people whose columns it knows: 0 is exact, 1 is the mean."""
    people = people_with_rare_label()
    people.tables["a"].output_noise = defence
    job = trained(people)
    sent = [*batches(job, people, "outputs", holdOut=True, epoch=EPOCHS - 1)]
    outputs, features = np.vstack([values for values, _, _ in sent]), np.vstack([x for _, x, _ in sent])
    assert len(outputs) == 60
    return reconstruction_error(features[30:], invert_with_examples(outputs[30:], outputs[:30], features[:30]))


def test_noise_on_gradients_is_a_setting_that_hides_labels_in_the_messages_of_a_job() -> None:
    by_norm, by_direction, _ = label_leak(None)
    assert by_norm > 0.85
    assert by_direction == 1
    by_norm, by_direction, losses = label_leak(GradientDefence("isotropic", 30.0))
    assert abs(by_norm - 0.5) < 0.1
    assert abs(by_direction - 0.5) < 0.1
    assert losses[-1] < 0.8 * losses[0]
    by_norm, by_direction, losses = label_leak(GradientDefence("max-norm"))
    assert by_norm < 0.7
    assert by_direction < 0.8
    assert losses[-1] < 0.8 * losses[0]


def test_noise_on_outputs_is_a_setting_that_hides_columns_in_the_messages_of_a_job() -> None:
    assert feature_leak(None) < 0.1
    assert feature_leak(OutputDefence(1e9, 0.0)) < 0.1
    assert feature_leak(OutputDefence(2.0, 1.0)) > 0.8


def test_a_label_holder_may_keep_the_score_to_itself() -> None:
    people = people_with_rare_label()
    people.tables["b"].tells_score = False
    job = trained(people, 1)
    told = [message["part"] for _, message in job.sent if message["part"]["kind"] == "epoch-closed"]
    assert [part["score"] for part in told] == [None]
    reports = {node: [turn.report for turn in job.turns[node] if turn.report] for node in "ab"}
    assert [report["score"] for report in reports["a"]] == [None]
    assert reports["b"][0]["score"]["examples"] == 60


def test_noise_of_a_node_is_another_one_than_that_of_any_other() -> None:
    """Without a source that a test gives, it follows from nothing that peers know."""
    sent = []
    for _ in range(2):
        people = people_with_rare_label()
        people.tables["a"].output_noise = OutputDefence(2.0, 1.0)
        job = Job(people.hosts())
        job.epoch(aligns=True)
        sent.append(next(m["arrays"]["values"] for _, m in job.sent if m["part"]["kind"] == "outputs"))
    assert (sent[0] != sent[1]).all()


@pytest.mark.parametrize("in_flight", [(4, 4), (7, 3)])
def test_fewest_batches_in_flight_count(in_flight: tuple[int, int]) -> None:
    people = people_with_rare_label()
    for table, count in zip(people.tables.values(), in_flight, strict=True):
        table.in_flight = count
    job = trained(people, 1)
    first = next(turn for turn in job.turns["a"] if any(m["part"]["kind"] == "outputs" for m in turn.sent))
    assert sum(m["part"]["kind"] == "outputs" for m in first.sent) == min(in_flight)
