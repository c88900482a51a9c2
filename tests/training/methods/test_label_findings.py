"""What people see of label spaces: by hand, and on a node that waits, then estimates."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.labels import Estimate, read_fields
from flnet.training.api import Prediction, SitsOut, Task
from flnet.training.findings import LabelFindings
from flnet.training.methods.by_labels import COUNTS, ByLabels
from flnet.training.methods.label_findings import label_findings, waiting_for, with_coarse
from flnet.training.offers import checked_prediction
from tests.training.methods.test_by_labels import FEW, fine, labelling, learnt, node

SPACES = read_fields(
    {
        "id": "two",
        "classes": ["no", "yes"],
        "desired": {"id": "three", "classes": ["a", "b", "c"]},
        "mapping": {"no": ["a"], "yes": ["b", "c"]},
    }
)
WAITS = {"estimate": True, "schedule": "parallel"}
KNOWN = np.array([[1.0, 0, 0], [0, 1, 1]])


def found_by(trainer: ByLabels, params: object) -> LabelFindings:
    found = trainer.findings(params)  # type: ignore[arg-type]
    assert isinstance(found, LabelFindings)
    return found


def test_a_known_correspondence_has_no_uncertainty() -> None:
    found = label_findings(SPACES, KNOWN, None, None)
    assert found.matrix is KNOWN
    assert (found.deviation, found.counts, found.waiting) == (None, None, None)
    assert (found.classes, found.desired_classes) == (("no", "yes"), ("a", "b", "c"))


def test_an_estimate_has_the_deviation_of_its_counts() -> None:
    counts = np.array([[30, 1, 0], [0, 9, 0]])
    found = label_findings(SPACES, KNOWN, counts, None)
    assert found.matrix is not None
    assert found.deviation is not None
    assert found.matrix[:, 2] == pytest.approx([0.5, 0.5])  # nobody was sure of the last class
    a, b = 1.01, 9.01  # a Dirichlet of two entries is a beta distribution
    assert found.deviation[0, 1] == pytest.approx(np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))))
    assert found.deviation[0, 2] > found.deviation[0, 1] > found.deviation[0, 0]
    assert found.deviation == pytest.approx(Estimate(counts).deviation)
    assert label_findings(SPACES, KNOWN, np.zeros((2, 3)), None).matrix is None


def test_a_prediction_means_sums_in_the_own_space() -> None:
    judged = Prediction(np.array([[0.2, 0.5, 0.3], [0.9, 0.1, 0]]))
    told = with_coarse(judged, SPACES, KNOWN).coarse
    assert told is not None
    assert told.values == pytest.approx(np.array([[0.2, 0.8], [0.9, 0.1]]))
    assert (told.space, told.classes, told.estimated) == ("two", ("no", "yes"), False)
    unknown = with_coarse(judged, SPACES, None).coarse
    assert unknown is not None
    assert unknown.values.shape == (0, 2)
    assert with_coarse(Prediction(judged.values, "scores"), SPACES, KNOWN).coarse is None


def test_how_far_a_warm_up_is() -> None:
    judged = np.array([[0.99, 0.01], [0.6, 0.4], [0.5, 0.5]])
    waiting = waiting_for(judged, 0.95)
    assert (waiting.from_round, waiting.needed, waiting.judged) == (5, 0.5, 3)
    assert waiting.share == pytest.approx(1 / 3)


def test_a_node_tells_why_it_waits_and_then_what_it_counted() -> None:
    trainer, teacher = node(labelling(**WAITS, threshold=0.9)), node(fine(steps=60), part=2)
    assert (trainer.finds, teacher.finds, teacher.findings(teacher.initial_params(0))) == ("labels", "", None)
    start = trainer.initial_params(0)
    first = found_by(trainer, start)
    waits = first.waiting
    assert (first.matrix, waits and waits.from_round, waits and waits.judged) == (None, 5, 288)
    assert waits is not None
    assert waits.share < 0.5
    with pytest.raises(SitsOut):
        trainer.fit(Task(start, FEW, 0, round=5))
    assert trainer.predict(start, np.zeros((1, 8, 8), np.float32)).coarse.values.shape == (0, 5)  # type: ignore[union-attr]
    sure = {**learnt(teacher, teacher.initial_params(0), 5), COUNTS: start[COUNTS]}
    joined = learnt(trainer, sure, 1, first=5)
    found = found_by(trainer, joined)
    assert found.waiting is None
    assert found.matrix is not None
    assert found.matrix.sum(axis=0) == pytest.approx(np.ones(10))
    judged = checked_prediction(trainer.predict(joined, trainer.tests()["accuracy"].inputs), 72, 10, "X")
    assert judged.coarse is not None
    assert judged.coarse.values.shape == (72, 5)
    assert found_by(node(labelling(**WAITS)), joined).waiting is None  # not asked again after a restart


def test_a_known_correspondence_waits_for_nobody_in_turns() -> None:
    trainer = node(labelling())
    found = found_by(trainer, trainer.initial_params(0))
    assert (found.waiting, found.counts) == (None, None)
    assert found.matrix is not None
    assert found.matrix.tolist() == np.kron(np.eye(5), np.ones((1, 2))).tolist()
