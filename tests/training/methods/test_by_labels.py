"""FedMT around a trainer: what it is told of its rows, when it sits out, and what a node says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.labels import Labelling, leaning, read_fields
from flnet.messages import HyperParams
from flnet.params import Params
from flnet.training.api import Lesson, SitsOut, Task, TrainerError, TrainerSettings, Turn
from flnet.training.checks import checked_fit, declared
from flnet.training.method import Method
from flnet.training.methods import with_labels
from flnet.training.methods.by_labels import COUNTS, JOINED, NOT_YET, ByLabels
from tests.training.methods.lines import Lines, clouds
from trainers.SMALL_DIGITS import SmallDigits

DIGITS = [str(digit) for digit in range(10)]
PAIRS = {"01": ["0", "1"], "23": ["2", "3"], "45": ["4", "5"], "67": ["6", "7"], "89": ["8", "9"]}
FEW = HyperParams(e=1, u=0.01, b=16)


def labelling(**says: Any) -> Labelling:
    desired = {"id": "digits", "classes": DIGITS}
    return read_fields({"id": "pairs", "classes": list(PAIRS), "desired": desired, "mapping": PAIRS, **says})


def fine(**says: Any) -> Labelling:
    return read_fields({"id": "digits", "classes": DIGITS, **says})


def node(labels: Labelling, part: int = 1) -> ByLabels:
    told = TrainerSettings(None, Path(), (part, 5), labels=labels)
    made = with_labels(SmallDigits(told), told, "SMALL_DIGITS")
    assert isinstance(made, ByLabels)
    return made


def learnt(trainer: ByLabels, params: Any, rounds: int, first: int = 0) -> Any:
    for number in range(first, first + rounds):
        fit = trainer.fit(Task(params, FEW, number, round=number))
        params = checked_fit(fit, params, "SMALL_DIGITS").params
    return params


def test_without_the_setting_nothing_changes() -> None:
    told = TrainerSettings(None, Path())
    trainer = SmallDigits(told)
    assert with_labels(trainer, told, "SMALL_DIGITS") is trainer


def test_what_a_node_declares() -> None:
    coarse, desired = node(labelling(steps=7)), node(fine(steps=7))
    said = [declared(one, "SMALL_DIGITS", Params(one.initial_params(0))) for one in (coarse, desired)]
    assert [one.turn for one in said] == [Turn("two-phase", is_desired=False), Turn("two-phase", is_desired=True)]
    assert said[0].agreement == said[1].agreement  # nodes of unlike spaces train one model
    assert said[0].agreement["label spaces"] == "two-phase, 7 steps"
    assert {one.merging for one in said} == {"agg0"}
    other = declared(node(fine(steps=8)), "SMALL_DIGITS", Params(desired.initial_params(0)))
    assert other.agreement != said[0].agreement


def test_people_read_how_the_rows_are_labelled() -> None:
    notes = [node(one).data_info().note for one in (labelling(), labelling(estimate=True), fine(rows=50))]
    assert notes[0].endswith("labels of pairs (5); the model answers in digits (10); how they correspond is known")
    assert notes[1].endswith("how they correspond is estimated")
    assert notes[2].endswith("labels of digits (10), in which the model answers, on 50 rows")


def test_counts_of_an_estimate_stay_here() -> None:
    trainer = node(labelling(estimate=True))
    first = trainer.initial_params(0)
    assert COUNTS in first
    assert trainer.shared is not None
    assert COUNTS not in trainer.shared
    assert COUNTS not in node(labelling()).initial_params(0)


def test_a_known_correspondence_teaches_the_coarse_classes() -> None:
    trainer = node(labelling())
    start = trainer.initial_params(0)
    after = learnt(trainer, start, 8)
    assert trainer.evaluate(after).accuracy > 0.85 > trainer.evaluate(start).accuracy
    assert trainer.evaluate(after).metrics["desired_accuracy"] < 0.8  # nobody said which of two it is


def test_an_estimate_waits_until_the_model_is_sure_and_then_is_never_asked_again() -> None:
    labels = labelling(estimate=True, schedule="parallel", threshold=0.9)
    trainer, teacher = node(labels), node(fine(steps=60), part=2)
    start = trainer.initial_params(0)
    sure = {**learnt(teacher, teacher.initial_params(0), 5), COUNTS: start[COUNTS]}
    for number in range(5):
        with pytest.raises(SitsOut, match=NOT_YET):
            trainer.fit(Task(sure, FEW, 0, round=number))  # too early, however sure it is
    with pytest.raises(SitsOut):
        trainer.fit(Task(start, FEW, 0, round=5))
    joined = learnt(trainer, sure, 1, first=5)
    metrics = node(labels).fit(Task({**sure, JOINED: joined[JOINED]}, FEW, 7)).metrics
    assert 0 < metrics["estimate_deviation"] < 0.2
    assert metrics["confident_share"] > 0.5
    found = trainer.correspondence(joined)
    expected = np.kron(np.eye(5), np.ones((1, 2)))
    assert np.abs(found - expected).max() < 0.25
    assert joined[COUNTS].sum() > 100
    restarted = node(labels)
    assert restarted.fit(Task({**start, JOINED: joined[JOINED]}, FEW, 0)).examples > 0


@pytest.mark.parametrize("estimate", [True, False])
def test_a_training_process_that_ends_between_rounds_does_not_begin_the_wait_anew(estimate: bool) -> None:
    labels = labelling(threshold=0.9, schedule="parallel", estimate=estimate)
    teacher = node(fine(steps=60), part=2)
    model = learnt(teacher, teacher.initial_params(0), 5)
    for number in (1, 4):
        with pytest.raises(SitsOut, match=NOT_YET):
            node(labels).fit(Task({**node(labels).initial_params(0), **model}, FEW, 0, round=number))
    joined = learnt(node(labels), {**node(labels).initial_params(0), **model}, 1, first=5)
    assert joined[JOINED].tolist() == [1]
    unsure = {**joined, "output.weight": joined["output.weight"] * 0}  # would not begin to learn from this one
    assert node(labels).fit(Task(unsure, FEW, 0, round=6)).params[JOINED].tolist() == [1]


def test_where_one_node_joined_all_do() -> None:
    waits, teacher = node(labelling(schedule="parallel")), node(fine(schedule="parallel"), part=2)
    start = waits.initial_params(0)
    assert JOINED in (waits.shared or ())
    told = {**start, JOINED: np.array([0.2], np.float32)}  # of five, one did
    assert waits.fit(Task(told, FEW, 0, round=1)).params[JOINED].tolist() == [1]
    handed_on = teacher.fit(Task(told, FEW, 0)).params[JOINED], teacher.fit(Task(start, FEW, 0)).params[JOINED]
    assert [one.tolist() for one in handed_on] == [[1], [0]]


def test_no_row_is_judged_where_nothing_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    predict = SmallDigits.predict

    def counted(self: SmallDigits, params: Any, inputs: Any) -> Any:
        judged.append(len(inputs))
        return predict(self, params, inputs)

    monkeypatch.setattr(SmallDigits, "predict", counted)
    monkeypatch.setattr("flnet.training.methods.by_labels._AT_ONCE", 100)
    joined = {JOINED: np.ones(1, np.float32)}
    for one, rows in (
        (node(labelling()), 0),
        (node(labelling(schedule="parallel")), 0),
        (node(labelling(estimate=True)), 100),
        (node(labelling(fixed=1.0)), 288),
    ):
        judged.clear()
        one.fit(Task({**one.initial_params(0), **joined}, FEW, 0))
        assert sum(judged) == rows


def test_a_class_that_nobody_is_sure_of_is_taught_as_guesses_lean(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Lesson | None] = []
    trainer, whole = node(labelling(estimate=True, threshold=0.9)), SmallDigits.fit

    def fit(self: SmallDigits, task: Task) -> Any:
        seen.append(task.lesson)
        return whole(self, task)

    teacher = node(fine(steps=60), part=2)
    start = learnt(teacher, teacher.initial_params(0), 5)
    name = max((name for name in start if start[name].shape == (10,)), key=str)
    unsure = {**start, name: start[name] - np.eye(10, dtype=start[name].dtype)[3] * 40}  # never says it is a 3
    monkeypatch.setattr(SmallDigits, "fit", fit)
    started = {**trainer.initial_params(0), **unsure, JOINED: np.ones(1, np.float32)}
    trainer.fit(Task(started, FEW, 0))
    assert seen[0] is not None
    column = seen[0].matrix[:, 3]
    assert column.argmax() == 1  # the pair 23
    assert column[1] > 0.9


def test_in_turns_an_estimate_waits_for_nobody_and_a_model_that_knows_nothing_learns_nothing_wrong() -> None:
    trainer = node(labelling(estimate=True))
    start = trainer.initial_params(0)
    after = trainer.fit(Task(start, FEW, 0, round=1)).params
    assert not after[COUNTS].any()
    columns = trainer._matrix(after[COUNTS], leaning(trainer._rows[1], trainer._judged(start, trainer._inputs), 5))
    assert np.abs(columns - columns.mean(axis=1, keepdims=True)).max() < 0.1  # a label says next to nothing


def test_side_by_side_those_with_coarse_labels_wait() -> None:
    trainer = node(labelling(schedule="parallel"))
    with pytest.raises(SitsOut):
        trainer.fit(Task(trainer.initial_params(0), FEW, 0))


def test_a_node_with_labels_of_both_spaces_begins_with_those_of_the_desired_one() -> None:
    trainer = node(labelling(estimate=True, rows=50))
    assert trainer.turn == Turn("two-phase", is_desired=True)
    params = learnt(trainer, trainer.initial_params(0), 1)
    assert not params[COUNTS].any()


def test_the_desired_space_itself_is_the_plain_loss() -> None:
    desired, same = node(fine()), node(read_fields({**fine().fields(), "desired": fine().space.view()}))
    start = desired.initial_params(0)
    assert Params(learnt(desired, start, 1)) == Params(learnt(same, start, 1))


@pytest.mark.parametrize("name", ["fixed", "mixed"])
def test_guesses_reach_the_trainer_for_the_loss_on_changed_rows(name: str) -> None:
    seen: list[Lesson | None] = []

    class Looking(SmallDigits):
        def fit(self, task: Task) -> Any:
            seen.append(task.lesson)
            return super().fit(task)

    told = TrainerSettings(None, Path(), (1, 5), labels=labelling(threshold=0.1, **{name: 1.0}))
    trainer = with_labels(Looking(told), told, "SMALL_DIGITS")
    trainer.fit(Task(trainer.initial_params(0), FEW, 0))
    assert seen[0] is not None
    assert (seen[0].guesses >= 0).any()
    assert (seen[0].fixed, seen[0].mixed) == (float(name == "fixed"), float(name == "mixed"))


def test_who_cannot_learn_so_says_what_to_do() -> None:
    told = TrainerSettings(None, Path(), labels=labelling())
    with pytest.raises(TrainerError, match="LINES cannot learn where nodes label differently"):
        with_labels(Lines(*clouds(20, 0.0, False)), told, "LINES")
    two = read_fields({"id": "two", "classes": ["a", "b"]})
    with pytest.raises(TrainerError, match=r"the label space 'two' .* has a, b"):
        node(two)
    with pytest.raises(TrainerError, match=r"add a .mapping. to the file in FLNET_LABELS"):
        node(replace(labelling(estimate=True), correspondence=None))


@pytest.mark.parametrize("method", [Method(controls=True), Method(personal="apfl"), Method(personal="increment")])
def test_methods_that_take_steps_of_their_own_would_see_labels_that_the_node_does_not_know(method: Method) -> None:
    told = TrainerSettings(None, Path(), labels=labelling(), method=method)
    with pytest.raises(TrainerError, match="FLNET_LABELS does not go with"):
        with_labels(SmallDigits(told), told, "SMALL_DIGITS")


def test_no_row_is_held_to_a_class_that_its_label_denies() -> None:
    trainer = node(labelling(fixed=1.0, threshold=0.6))
    said = np.full((3, 10), 0.02)
    said[:, 3], said[:, 9], said[:, 8] = 0.5, 0.3, 0.06
    matrix = np.repeat(np.eye(5), 2, axis=1)
    held = trainer._held(said, np.array([4, 1, -1]), matrix)
    assert held.tolist() == [9, 3, -1]  # of 8 and 9; of 2 and 3; without a label the guess is not sure enough


def test_with_private_heads_the_last_layer_is_no_part_of_an_average() -> None:
    one = node(labelling(heads="private"))
    said = declared(one, "SMALL_DIGITS", Params(one.initial_params(0)))
    assert set(said.shared) == {"hidden.bias", "hidden.weight", JOINED}
    assert said.agreement["label spaces"] == "two-phase, 20 steps, private heads"


def test_coarse_labels_first_is_told_to_the_job() -> None:
    one = node(labelling(schedule="coarse-first", turning=30))
    assert one.turn == Turn("coarse-first", is_desired=False, turning=30)
    assert one.agreement["label spaces"] == "coarse-first, 20 steps, from round 30"
