"""FedMT around a trainer: what it is told of its rows, when it sits out, and what a node says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.fed_mt.estimation import Estimate, leaning
from flnet.algorithms.fed_mt.local_training import (
    COUNTS,
    JOINED,
    NOT_YET,
    POOLED,
    POOLING,
    ByLabels,
    Pooling,
    label_findings,
    waiting_for,
    with_coarse,
    with_labels,
)
from flnet.algorithms.registry import with_method
from flnet.algorithms.wrapper import Wrapped
from flnet.compute.checks import checked_fit, declared
from flnet.compute.prediction import checked_prediction
from flnet.labels.spaces import Labelling, read_fields
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import (
    LabelFindings,
    Lesson,
    Method,
    Prediction,
    SitsOut,
    Task,
    TrainerError,
    TrainerSettings,
    Turn,
)
from tests.algorithms.lines import Lines, clouds
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
    message = [declared(each, "SMALL_DIGITS", Params(each.initial_params(0))) for each in (coarse, desired)]
    assert [each.turn for each in message] == [
        Turn("two-phase", is_desired=False),
        Turn("two-phase", is_desired=True),
    ]
    assert message[0].agreement == message[1].agreement  # nodes of unlike spaces train one model
    assert message[0].agreement["label spaces"] == "two-phase, 7 steps"
    assert {each.merging for each in message} == {"agg0"}
    other = declared(node(fine(steps=8)), "SMALL_DIGITS", Params(desired.initial_params(0)))
    assert other.agreement != message[0].agreement


def test_people_read_how_the_rows_are_labelled() -> None:
    notes = [node(row).data_info().note for row in (labelling(), labelling(estimate=True), fine(rows=50))]
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


def test_validation_rows_are_measured_by_the_labels_that_a_node_has() -> None:
    """Of two digits in one label either one is right; the inner trainer's figure on digits is not the node's."""
    labels = labelling()
    told = TrainerSettings(None, Path(), (1, 5), labels=labels, validation_share=0.2)
    inner = SmallDigits(told)
    trainer = with_labels(inner, told, "SMALL_DIGITS")
    assert isinstance(trainer, ByLabels)
    fit = trainer.fit(Task(learnt(trainer, trainer.initial_params(0), 7), FEW, 7, round=7))
    score, digits = trainer.validation_score(fit.params), inner.validation_score(trainer.inside(fit.params))
    assert score is not None and score.counts is not None and digits is not None
    assert score.examples == score.counts.examples == digits.examples == trainer.data_info().rows["validation"]
    assert score.accuracy > 0.85 and digits.accuracy < 0.8
    assert fit.metrics["validation_accuracy"] == score.accuracy
    assert node(labels).validation_score(fit.params) is None  # nothing is held back


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
    result = trainer.correspondence(joined)
    expected = np.kron(np.eye(5), np.ones((1, 2)))
    assert np.abs(result - expected).max() < 0.25
    assert joined[COUNTS].sum() > 100
    restarted = node(labels)
    assert restarted.fit(Task({**start, JOINED: joined[JOINED]}, FEW, 0)).examples > 0


@pytest.mark.parametrize("estimate", [True, False])
def test_a_training_process_that_ends_between_rounds_does_not_begin_the_wait_again(estimate: bool) -> None:
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
    assert [each.tolist() for each in handed_on] == [[1], [0]]


def test_no_row_is_judged_where_nothing_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    predict = SmallDigits.predict

    def counted(self: SmallDigits, params: Any, inputs: Any) -> Any:
        judged.append(len(inputs))
        return predict(self, params, inputs)

    monkeypatch.setattr(SmallDigits, "predict", counted)
    monkeypatch.setattr("flnet.algorithms.fed_mt.local_training._AT_ONCE", 100)
    joined = {JOINED: np.ones(1, np.float32)}
    for each, rows in (
        (node(labelling()), 0),
        (node(labelling(schedule="parallel")), 0),
        (node(labelling(estimate=True)), 100),
        (node(labelling(fixed=1.0)), 288),
    ):
        judged.clear()
        each.fit(Task({**each.initial_params(0), **joined}, FEW, 0))
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
    columns = trainer._matrix(
        after[COUNTS], leaning(trainer._rows[1], trainer._predictions(start, trainer._inputs), 5)
    )
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


def test_a_proximal_term_holds_a_training_by_labels_near_its_start() -> None:
    far = []
    for local in ("plain", "proximal:1", "proximal:100"):
        told = TrainerSettings(None, Path(), labels=labelling(), method=Method(local))
        trainer = with_method(with_labels(SmallDigits(told), told, "SMALL_DIGITS"), told.method, 0, "SMALL_DIGITS")
        start = trainer.initial_params(0)
        learned = trainer.fit(Task(start, FEW.model_copy(update={"u": 0.001}), 0)).params
        assert isinstance(trainer, Wrapped)
        far.append(sum(float(np.square(learned[name] - start[name]).sum()) for name in trainer.sent))
    assert far[0] > far[1] > far[2] > 0


def test_a_rule_that_counts_all_nodes_alike_may_take_the_place_of_the_mean() -> None:
    robust = node(labelling(aggregation="median", schedule="parallel"))
    message = declared(robust, "SMALL_DIGITS", Params(robust.initial_params(0)))
    assert (message.merging, message.merge) == ("median", {JOINED: "max"})  # that one joined reaches all
    usual = node(labelling())
    message = declared(usual, "SMALL_DIGITS", Params(usual.initial_params(0)))
    assert (message.merging, message.merge) == ("agg0", {})


@pytest.mark.parametrize("method", [Method(controls=True), Method(personal="apfl"), Method(personal="increment")])
def test_methods_that_take_steps_of_their_own_would_see_labels_that_the_node_does_not_know(method: Method) -> None:
    told = TrainerSettings(None, Path(), labels=labelling(), method=method)
    with pytest.raises(TrainerError, match="FLNET_LABELS does not go with"):
        with_labels(SmallDigits(told), told, "SMALL_DIGITS")


def test_no_row_is_held_to_a_class_that_its_label_denies() -> None:
    trainer = node(labelling(fixed=1.0, threshold=0.6))
    message = np.full((3, 10), 0.02)
    message[:, 3], message[:, 9], message[:, 8] = 0.5, 0.3, 0.06
    matrix = np.repeat(np.eye(5), 2, axis=1)
    held = trainer._held(message, np.array([4, 1, -1]), matrix)
    assert held.tolist() == [9, 3, -1]  # of 8 and 9; of 2 and 3; without a label the guess is not sure enough


def test_with_private_heads_the_last_layer_is_no_part_of_an_average() -> None:
    one = node(labelling(heads="private"))
    message = declared(one, "SMALL_DIGITS", Params(one.initial_params(0)))
    assert set(message.shared) == {"hidden.bias", "hidden.weight", JOINED}
    assert message.agreement["label spaces"] == "two-phase, 20 steps, private heads"


def test_coarse_labels_first_is_told_to_the_job() -> None:
    one = node(labelling(schedule="coarse-first", turning=30))
    assert one.turn == Turn("coarse-first", is_desired=False, turning=30)
    assert one.agreement["label spaces"] == "coarse-first, 20 steps, from round 30"


# Pooled counts: what is shared, how an average of nodes reads, and that nothing is where nobody asked for it.


OTHER = {"id": "pairs", "classes": list(PAIRS)}


def node_pooling(labels: Labelling, part: int = 1) -> Pooling:
    told = TrainerSettings(None, Path(), (part, 5), labels=labels)
    made = with_labels(SmallDigits(told), told, "SMALL_DIGITS")
    assert isinstance(made, Pooling)
    return made


def rows_of(trainer: Pooling) -> int:
    inputs = trainer.inputs()
    assert inputs is not None
    return len(inputs)


def joined(trainer: Pooling, sure: Any) -> Any:
    """What a node learns in its first turn."""
    return learnt(trainer, sure, 1, first=1)


def averaged(some: list[Any], name: str) -> Any:
    return np.mean([each[name] for each in some], axis=0)


def test_all_nodes_say_alike_whose_counts_are_pooled() -> None:
    coarse, desired = (
        node_pooling(labelling(estimate=True, pool_counts=True)),
        node_pooling(fine(pool_counts=True, pooled=OTHER)),
    )
    message = [declared(each, "X", Params(each.initial_params(0))) for each in (coarse, desired)]
    assert message[0].agreement == message[1].agreement
    assert message[0].agreement["pooled counts"].startswith("pairs, 5 classes, ")
    assert all({POOLED, POOLING} < set(each.shared) for each in message)
    assert all(COUNTS not in each.shared for each in message)
    assert "tells them how often it occurs" in coarse.data_info().note


def test_an_estimate_is_made_of_what_all_nodes_counted() -> None:
    labels = labelling(estimate=True, pool_counts=True, threshold=0.9)
    teacher = node_pooling(fine(steps=60, pool_counts=True, pooled=OTHER), part=3)
    model = learnt(teacher, teacher.initial_params(0), 5)
    assert not model[POOLED].any()  # it has nothing to count
    both = [node_pooling(labels, part) for part in (1, 2)]
    learned = [joined(each, {**model, COUNTS: each.initial_params(0)[COUNTS]}) for each in both]
    rows = [rows_of(each) for each in both]
    for mine, count in zip(learned, rows, strict=True):
        assert mine[POOLED] == pytest.approx(mine[COUNTS] / count)
        assert mine[POOLING].tolist() == [1]
    shared = {name: averaged(learned, name) for name in learned[0] if name != COUNTS}
    then = {**shared, COUNTS: learned[0][COUNTS]}
    expected = np.rint(rows[0] * (learned[0][COUNTS] / rows[0] + learned[1][COUNTS] / rows[1]) / 2)
    assert np.abs(both[0].behind(then, then[COUNTS]) - expected).max() <= 1
    assert not np.array_equal(both[0].behind(then, then[COUNTS]), learned[0][COUNTS])
    result = both[0].findings(then)
    assert isinstance(result, LabelFindings)
    assert result.pooled
    assert result.counts is not None
    assert np.array_equal(result.counts, both[0].behind(then, then[COUNTS]))


def test_nodes_with_fine_labels_hand_on_what_was_pooled_and_count_for_nothing_beside_others() -> None:
    pooled = {POOLED: np.full((5, 10), 0.01, np.float32), POOLING: np.ones(1, np.float32)}
    turns, beside = (
        node_pooling(fine(steps=2, pool_counts=True, pooled=OTHER, schedule=schedule))
        for schedule in ("two-phase", "parallel")
    )
    start = {**turns.initial_params(0), **pooled}
    after = [learnt(each, start, 1) for each in (turns, beside)]
    assert np.array_equal(after[0][POOLED], pooled[POOLED])
    assert after[1][POOLED].shape == (5, 10)
    assert (after[1][POOLED].any(), after[1][POOLING].any()) == (False, False)
    counting = {POOLED: np.full((5, 10), 0.02, np.float32), POOLING: np.ones(1, np.float32)}
    mixed = {name: averaged([after[1], counting], name) for name in pooled}
    trainer = node_pooling(labelling(estimate=True, pool_counts=True))
    own = np.zeros((5, 10), np.int64)
    updates = trainer.behind(mixed, own)
    assert np.array_equal(updates, np.full((5, 10), round(0.02 * rows_of(trainer))))  # not half of it


@pytest.mark.parametrize(("part", "nodes"), [(-1.0, 1.0), (0.5, 0.0), (0.5, -1.0)])
def test_nonsense_of_a_peer_leaves_the_own_counts(part: float, nodes: float) -> None:
    trainer, own = node_pooling(labelling(estimate=True, pool_counts=True)), np.eye(5, 10, dtype=np.int64)
    told = {POOLED: np.full((5, 10), part, np.float32), POOLING: np.array([nodes], np.float32)}
    assert np.array_equal(trainer.behind(told, own), own)
    too_much = trainer.behind({POOLED: np.full((5, 10), 1e30), POOLING: np.ones(1)}, own)
    assert np.array_equal(too_much, np.full((5, 10), rows_of(trainer)))


# What people see of label spaces: by hand, and on a node that waits, then estimates.


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
    result = trainer.findings(params)  # type: ignore[arg-type]
    assert isinstance(result, LabelFindings)
    return result


def test_a_known_correspondence_has_no_uncertainty() -> None:
    result = label_findings(SPACES, KNOWN, None, None)
    assert result.matrix is KNOWN
    assert (result.deviation, result.counts, result.waiting) == (None, None, None)
    assert (result.classes, result.desired_classes) == (("no", "yes"), ("a", "b", "c"))


def test_an_estimate_has_the_deviation_of_its_counts() -> None:
    counts = np.array([[30, 1, 0], [0, 9, 0]])
    result = label_findings(SPACES, KNOWN, counts, None)
    assert result.matrix is not None
    assert result.deviation is not None
    assert result.matrix[:, 2] == pytest.approx([0.5, 0.5])  # nobody was sure of the last class
    a, b = 1.01, 9.01  # a Dirichlet of two entries is a beta distribution
    assert result.deviation[0, 1] == pytest.approx(np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))))
    assert result.deviation[0, 2] > result.deviation[0, 1] > result.deviation[0, 0]
    assert result.deviation == pytest.approx(Estimate(counts).deviation)
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
    result = found_by(trainer, joined)
    assert result.waiting is None
    assert result.matrix is not None
    assert result.matrix.sum(axis=0) == pytest.approx(np.ones(10))
    judged = checked_prediction(trainer.predict(joined, trainer.tests()["accuracy"].inputs), 72, 10, "X")
    assert judged.coarse is not None
    assert judged.coarse.values.shape == (72, 5)
    assert found_by(node(labelling(**WAITS)), joined).waiting is None  # not asked again after a restart


def test_a_known_correspondence_waits_for_nobody_in_turns() -> None:
    trainer = node(labelling())
    result = found_by(trainer, trainer.initial_params(0))
    assert (result.waiting, result.counts) == (None, None)
    assert result.matrix is not None
    assert result.matrix.tolist() == np.kron(np.eye(5), np.ones((1, 2))).tolist()
