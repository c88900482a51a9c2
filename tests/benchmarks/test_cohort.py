"""The cohort that is measured is trained alike in both ways, and its arithmetic is counted."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.cohort_training import apart, cohort, flop, plain


def test_nodes_differ_in_rows_and_labels_and_train_alike_in_both_ways() -> None:
    jobs = cohort(4, rows=60)
    assert len({trainer.data_info().rows["train"] for trainer, _ in jobs}) == 4
    assert {len(trainer.data_info().classes) for trainer, _ in jobs} == {2, 3, 4}
    assert apart(jobs) < 1e-5
    plain(*jobs[0])


def test_the_arithmetic_is_that_of_the_layers() -> None:
    """A node of 60 rows and 4 labels: 294 x 100 twice, 100 x 20 and 20 x 4 three times, two operations each."""
    assert flop(cohort(1, rows=60)) == 2 * 60 * (2 * 29_400 + 3 * (2_000 + 80))
