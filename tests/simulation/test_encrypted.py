"""Seeded fault schedules of encrypted regression: every run ends in a whole epoch or a stated reason."""

from __future__ import annotations

import pytest

from flnet.compute.vertical import VerticalHost
from flnet.params.params import PeerId
from tests.algorithms.vertical.encrypted_holders import RegressionPeople, weights_of
from tests.simulation.helpers import seeds
from tests.simulation.test_vertical import play

NAMES = {"a": "n01", "b": "n02", "c": "n00"}  # label, columns, key


class SimulatedPeople:
    """The three trainers under the names of simulated nodes."""

    def __init__(self) -> None:
        self.people = RegressionPeople.random(40)

    def hosts(self) -> dict[str, VerticalHost]:
        """The trainer of each node."""
        return {NAMES[name]: host for name, host in self.people.hosts().items()}


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_every_run_ends_in_a_whole_epoch_whose_weights_are_those_of_one_place(seed: int) -> None:
    given = SimulatedPeople()
    cluster = play(seed, given)
    try:
        assert cluster.run_until_idle(300)
        before = max(cluster.reports, default=-1)
        for _ in range(5):
            cluster.trigger(PeerId("n00"))
            cluster.run_for(30)
            if max(cluster.reports, default=-1) > before:
                break
        jobs = {name: cluster.job(node) for name, node in NAMES.items()}
        assert max(cluster.reports, default=-1) > before, [r["outcome"] for r in jobs["c"].records()][-3:]
        epochs = max(cluster.reports) + 1
        assert {job.models.closed for job in jobs.values()} == {epochs - 1}
        parts, whole = weights_of(jobs)
        assert parts.tolist() == whole.tolist()
        assert parts == pytest.approx(given.people.expected(jobs, epochs), abs=1e-12)
        for job in jobs.values():
            for record in job.records():
                outcome = str(record["outcome"])
                assert outcome.endswith("has ended") or len(outcome.removeprefix("abandoned: ")) > 10, record
    finally:
        cluster.end()
