"""What node and child tell each other of methods and models survives JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from flnet.labels import Correspondence, Labelling
from flnet.training.api import Prediction, TrainerFile, TrainerSettings
from flnet.training.backend import Assignment
from flnet.training.frames import (
    Frame,
    assignment_fields,
    prediction_frame,
    read_assignment,
    read_prediction,
)
from flnet.training.method import Method
from tests.labels.spaces import COARSE, FINE, NESTED


def test_an_assignment_says_by_which_method_to_train_and_how_rows_are_labelled() -> None:
    method = Method("proximal:0.1", "apfl:0.5:0.01", "local", controls=True)
    labels = Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED), "parallel", 7, rows=50)
    told = TrainerSettings(None, Path("state"), (1, 2), 3, method=method, labels=labels)
    who = Assignment(TrainerFile("T", "T.py"), told)
    assert read_assignment(json.loads(json.dumps(assignment_fields(who)))) == who


def test_a_prediction_says_which_model_answered_and_why() -> None:
    for told in (
        Prediction(np.ones((2, 1))),
        Prediction(np.ones((2, 1)), "any_of", 0.4, ("local", "global"), (0.1, 9.0), 1.5),
    ):
        frame = prediction_frame(told)
        back = read_prediction(Frame(json.loads(json.dumps(dict(frame.fields))), frame.params))
        assert {**vars(back), "values": 0} == {**vars(told), "values": 0}
        assert (back.values == told.values).all()
