"""The three positions with the twin in clear text: O14, equal to the Taylor run, masks, refusals, ends, what leaks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.encrypted_regression import (
    Combined,
    EncryptedGradients,
    Finished,
    HoldoutTerms,
    Keep,
    KeyHolder,
    Keys,
    LossMeasured,
    Output,
    OwnWeights,
    Position,
    RegressionFeatureHolder,
    RegressionLabelHolder,
    RegressionPlan,
    Residual,
    SendToPosition,
    Stop,
    Stopped,
    Warned,
    check_positions,
    run,
)
from flnet.algorithms.vertical.encryption import PlainScheme, Shape
from flnet.algorithms.vertical.masked_rows import arranged, match_blinded
from flnet.algorithms.vertical.taylor_regression import fixed_batches, slices, taylor_loss, train
from flnet.errors import InvalidMessage, TrainerError
from tests.algorithms.vertical.people import (
    SMALL,
    X_A,
    X_B,
    Y,
    breast_cancer,
    first,
    plain_run,
    plan_of,
    small_run,
)

A, B, C = Position.LABELS, Position.FEATURES, Position.KEY
PLAIN, OPEN = PlainScheme(), PlainScheme.open_key


def opened(data: bytes, rows: int = 3, columns: int = 2, summed: bool = False) -> list[float]:
    values: list[float] = PLAIN.decrypt(PLAIN.load(data, Shape(rows, columns, summed))).tolist()
    return values


def only(outputs: list[Output], kind: type) -> Any:
    (output,) = [
        each.message if isinstance(each, SendToPosition) else each
        for each in outputs
        if isinstance(each.message if isinstance(each, SendToPosition) else each, kind)
    ]
    return output


# The oracle


def test_oracle_14() -> None:
    theta, heard = small_run(PLAIN, OPEN, np.array([1.0, 1, 0]), replace(SMALL, ridge=0.0))
    assert opened(first(heard, Residual).residual) == pytest.approx([-0.575, 0.45, 0], abs=1e-9)
    combined, gradients = first(heard, Combined), first(heard, EncryptedGradients)
    assert opened(combined.residual) == pytest.approx([-0.5, 0.6, 0], abs=1e-9)
    assert opened(gradients.gradient_a, summed=True) == pytest.approx([-0.5, -0.4], abs=1e-9)
    assert opened(gradients.gradient_b, summed=True)[0] == pytest.approx(0.7, abs=1e-9)
    assert gradients.gradient_b == combined.gradient
    assert theta == pytest.approx(np.array([0.1, -0.2, 0.3]) - 0.1 * np.array([-0.25, -0.2, 0.35]), abs=1e-9)


def test_a_step_with_all_rows() -> None:
    theta, _ = small_run(PLAIN, OPEN, None)
    assert theta == pytest.approx([0.0974, -0.1673, 0.2763666667], abs=1e-9)


# A whole run


def test_a_run_is_the_taylor_run() -> None:
    people = breast_cancer()
    plan = plan_of(people)
    theta, said = plain_run(people, plan)
    rows, labels = people.all, people.labels
    expected = train(rows[: people.train], labels[: people.train], plan.batches, np.zeros(31))
    assert theta == pytest.approx(expected, abs=1e-9)
    assert people.accuracy(theta) >= 0.94
    losses = [each.loss for each in said[C] if isinstance(each, LossMeasured)]
    assert len(losses) == 20
    assert losses[-1] == pytest.approx(
        taylor_loss(rows[people.train :], labels[people.train :], expected), abs=1e-9
    )
    assert all(isinstance(outputs[-1], Finished) for outputs in said.values())
    assert [each.epoch for each in said[A] if isinstance(each, Keep)] == list(range(20))


def test_a_start_that_is_not_0() -> None:
    people, start = breast_cancer(), np.random.default_rng(3).normal(size=31) / 5
    plan = replace(plan_of(people, epochs=2), holdout=0)
    n = people.train
    holders = (
        RegressionLabelHolder(plan, people.a[:n], people.labels[:n], OPEN),
        RegressionFeatureHolder(plan, people.b[:n], OPEN),
        KeyHolder(plan, PLAIN, start=start),
    )
    said = run(holders)
    expected = train(people.all[:n], people.labels[:n], plan.batches, start, epochs=2)
    assert holders[2].theta == pytest.approx(expected, abs=1e-9)
    assert [type(each) for each in said[C]] == [Finished]


def test_rows_that_do_not_match_count_nothing() -> None:
    """A and B hold rows of different people; C matches blinded ids and alone knows which rows are one person's."""
    people, chance = breast_cancer(), np.random.default_rng(5)
    whom_a, whom_b = chance.permutation(569)[:460], chance.permutation(569)[:420]
    matched = match_blinded([b"%d" % who for who in whom_a], [b"%d" % who for who in whom_b], chance)
    rows_a, rows_b = arranged(people.a[whom_a], matched.order_a), arranged(people.b[whom_b], matched.order_b)
    labels, count = arranged(people.labels[whom_a], matched.order_a, empty=1.0), 360
    plan = RegressionPlan(11, 20, fixed_batches(count, 60), 100, epochs=3)
    holders = (
        RegressionLabelHolder(plan, rows_a[:count], labels[:count], OPEN, rows_a[count:], labels[count:]),
        RegressionFeatureHolder(plan, rows_b[:count], OPEN, rows_b[count:]),
        KeyHolder(plan, PLAIN, matched.mask[:count], matched.mask[count:]),
    )
    heard: list[Any] = []
    said = run(holders, lambda *sent: heard.append(sent[2]))
    rows = np.column_stack([np.ones(len(rows_a)), rows_a, rows_b])
    expected = train(
        rows[:count], labels[:count], plan.batches, np.zeros(31), 3, mask=matched.mask[:count], fewest=21
    )
    assert holders[2].theta == pytest.approx(expected, abs=1e-9)
    assert only(said[C][-2:-1], LossMeasured).loss == pytest.approx(
        taylor_loss(rows[count:], labels[count:], expected, matched.mask[count:]), abs=1e-9
    )
    assert len(next(m for m in heard if isinstance(m, Keys)).masks) == len(plan.batches)


def test_a_batch_without_enough_matching_rows_is_skipped() -> None:
    people = breast_cancer()
    plan = RegressionPlan(11, 20, (32, 32, 32), epochs=2)
    mask = np.ones(96)
    mask[40:64] = 0  # 8 of the second batch match
    holders = (
        RegressionLabelHolder(plan, people.a[:96], people.labels[:96], OPEN),
        RegressionFeatureHolder(plan, people.b[:96], OPEN),
        KeyHolder(plan, PLAIN, mask),
    )
    steps: list[tuple[int, int]] = []

    def note(sender: Position, to: Position, message: object) -> None:
        if isinstance(message, EncryptedGradients):
            steps.append((message.epoch, message.batch))

    run(holders, note)
    assert steps == [(0, 0), (0, 2), (1, 0), (1, 2)]
    expected = train(people.all[:96], people.labels[:96], plan.batches, np.zeros(31), 2, mask=mask, fewest=21)
    assert holders[2].theta == pytest.approx(expected, abs=1e-9)
    with pytest.raises(InvalidMessage, match="no batch has 21 rows"):
        KeyHolder(plan, PLAIN, (np.arange(96) < 20).astype(float))


# What a plan and positions refuse


def test_two_positions_on_one_node_are_refused() -> None:
    check_positions("a", "b", "c")
    for nodes in (("a", "b", "a"), ("a", "b", "b")):
        with pytest.raises(InvalidMessage, match="cannot hold the key and data"):
            check_positions(*nodes)
    with pytest.raises(InvalidMessage, match="holds all columns"):
        check_positions("a", "a", "c")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batches": ()}, "larger than 0"),
        ({"batches": (32, 0)}, "larger than 0"),
        ({"columns_b": 0}, "larger than 0"),
        ({"rate": math.inf}, "larger than 0"),
        ({"rate": math.nan}, "larger than 0"),
        ({"ridge": -1.0}, "expected 0 or more"),
        ({"batches": (20, 20)}, "largest batch has 20 rows; at least 21 are needed for 20 columns"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        replace(RegressionPlan(11, 20, (32,)), **changes)


def test_people_are_told_that_small_batches_give_labels_away() -> None:
    (warning,) = RegressionPlan(11, 20, (32,)).warnings()
    assert "200 rows" in warning
    assert RegressionPlan(11, 20, (200,)).warnings() == []


def test_rows_that_do_not_fit_are_refused() -> None:
    plan = replace(SMALL, holdout=1)
    with pytest.raises(TrainerError, match=r"\(3, 2\), \(0, 2\); expected \(3, 2\), \(1, 2\)"):
        RegressionLabelHolder(plan, X_A, Y, OPEN, strict=False)
    with pytest.raises(TrainerError, match="as many labels"):
        RegressionLabelHolder(SMALL, X_A, Y[:2], OPEN, strict=False)
    with pytest.raises(TrainerError, match="standardised"):
        RegressionFeatureHolder(SMALL, 30 * X_B, OPEN)
    with pytest.raises(TrainerError, match="norm"):
        RegressionFeatureHolder(SMALL, 30 * X_B, OPEN, strict=False)


@pytest.mark.parametrize("mask", [np.ones(2), np.zeros(3), np.array([1.0, 0.5, 1]), np.array([1.0, np.nan, 1])])
def test_a_mask_has_to_be_of_0_and_1(mask: Any) -> None:
    with pytest.raises(InvalidMessage, match="mask"):
        KeyHolder(SMALL, PLAIN, mask)


# Order of messages


def begun(epochs: int = 2) -> tuple[RegressionLabelHolder, RegressionFeatureHolder, KeyHolder, list[Output]]:
    plan = replace(SMALL, batches=(2, 1), epochs=epochs)
    a = RegressionLabelHolder(plan, X_A, Y, OPEN, strict=False)
    b = RegressionFeatureHolder(plan, X_B, OPEN, strict=False)
    c = KeyHolder(plan, PLAIN)
    return a, b, c, c.start()


def test_messages_out_of_order_are_refused_and_change_nothing() -> None:
    a, b, c, outputs = begun()
    keys = only(outputs[:1], Keys)
    to_a, to_b = (output.message for output in outputs[2:] if isinstance(output, SendToPosition))
    assert isinstance(to_a, OwnWeights)
    assert isinstance(to_b, OwnWeights)
    for node, message in (
        (a, to_a),
        (b, to_b),
        (a, Combined(0, 0, b"", b"")),
        (c, EncryptedGradients(0, 1, b"", b"")),
    ):
        with pytest.raises(InvalidMessage):
            node.receive(C if isinstance(message, OwnWeights) else B if node is a else A, message)
    with pytest.raises(InvalidMessage, match="came from B"):
        a.receive(B, keys)
    for node in (a, b):
        assert node.receive(C, keys) == []
        with pytest.raises(InvalidMessage, match="waits for"):
            node.receive(C, keys)
    for wrong in (replace(to_a, theta=(0.0,)), replace(to_a, theta=(0.0, math.nan)), replace(to_a, epoch=2)):
        with pytest.raises(InvalidMessage):
            a.receive(C, wrong)
    residual = only(a.receive(C, to_a), Residual)
    with pytest.raises(InvalidMessage, match="waits for"):
        a.receive(C, to_a)
    with pytest.raises(InvalidMessage, match="bytes; expected"):
        a.receive(B, Combined(0, 0, b"flPT", b""))
    assert b.receive(A, residual) == []  # C's weights are still under way
    with pytest.raises(InvalidMessage, match="waits for"):
        b.receive(A, residual)
    combined = only(b.receive(C, to_b), Combined)
    gradients = only(a.receive(B, combined), EncryptedGradients)
    with pytest.raises(InvalidMessage, match="expected"):
        c.receive(A, replace(gradients, gradient_b=b"no ciphertext"))
    assert only(c.receive(A, gradients)[:1], OwnWeights).batch == 1
    with pytest.raises(InvalidMessage, match="waits for"):
        c.receive(A, gradients)
    with pytest.raises(InvalidMessage, match="waits for"):
        b.receive(A, residual)


def test_a_run_starts_once() -> None:
    *_, c, _ = begun()
    with pytest.raises(InvalidMessage, match="has started"):
        c.start()


def test_masks_have_to_be_those_of_the_plan() -> None:
    a, _, _, outputs = begun()
    keys = only(outputs[:1], Keys)
    for wrong in (replace(keys, masks=keys.masks * 3), replace(keys, masks=()), replace(keys, holdout=b"x")):
        with pytest.raises(InvalidMessage, match="masks"):
            a.receive(C, wrong)


# The end


def test_without_the_key_holder_training_stops_and_the_last_epoch_stays() -> None:
    people = breast_cancer()
    plan = plan_of(people, epochs=3)
    n = people.train
    a = RegressionLabelHolder(plan, people.a[:n], people.labels[:n], OPEN, people.a[n:], people.labels[n:])
    b, c = RegressionFeatureHolder(plan, people.b[:n], OPEN, people.b[n:]), KeyHolder(plan, PLAIN)
    queue: list[tuple[Position, Output]] = [(C, output) for output in c.start()]
    kept: list[Keep] = []
    nodes: dict[Position, Any] = {A: a, B: b, C: c}
    while len(kept) < 4:  # two epochs at A and B, then C is gone
        sender, output = queue.pop(0)
        if isinstance(output, SendToPosition):
            queue += [(output.to, reply) for reply in nodes[output.to].receive(sender, output.message)]
        elif isinstance(output, Keep):
            kept.append(output)
    *told, ended = a.lost(C)
    assert isinstance(ended, Stopped)
    assert "the key holder is gone" in ended.reason
    assert [output.to for output in told if isinstance(output, SendToPosition)] == [B, C]
    expected = train(people.all[:n], people.labels[:n], plan.batches, np.zeros(31), epochs=2)
    assert a.kept is not None
    assert b.kept is not None
    assert np.concatenate([a.kept.theta, b.kept.theta]) == pytest.approx(expected, abs=1e-9)
    assert only(b.receive(A, Stop(ended.reason)), Stopped).reason.startswith("A stopped: the key holder")
    assert a.lost(B) == []
    with pytest.raises(InvalidMessage, match="has ended"):
        a.receive(C, OwnWeights(2, 0, (0.0,) * 11))


def test_a_node_that_is_gone_stops_the_key_holder() -> None:
    _, _, c, _ = begun()
    outputs = c.lost(B)
    assert "columns of B" in only(outputs, Stopped).reason
    assert [output.to for output in outputs if isinstance(output, SendToPosition)] == [A, B]


def test_a_rate_that_is_too_large_stops_training() -> None:
    people = breast_cancer()
    _, said = plain_or_stopped(replace(plan_of(people), rate=3.0))
    reasons = [str(each.reason) for outputs in said.values() for each in outputs if isinstance(each, Stopped)]
    assert len(reasons) == 3
    assert all("standardise the columns" in reason for reason in reasons)


def plain_or_stopped(plan: RegressionPlan) -> tuple[KeyHolder, dict[Position, list[Output]]]:
    people = breast_cancer()
    n = people.train
    c = KeyHolder(plan, PLAIN)
    return c, run(
        (
            RegressionLabelHolder(plan, people.a[:n], people.labels[:n], OPEN, people.a[n:], people.labels[n:]),
            RegressionFeatureHolder(plan, people.b[:n], OPEN, people.b[n:]),
            c,
        )
    )


def test_the_key_holder_sees_divergence_itself() -> None:
    plan = replace(SMALL, rate=1e4)
    c = KeyHolder(plan, PLAIN)
    c.start()
    sealed = PLAIN.dump(PLAIN.total(PLAIN.encrypt(np.ones(3), 2)))
    outputs = c.receive(A, EncryptedGradients(0, 0, sealed, sealed))
    assert "training diverged" in only(outputs, Stopped).reason
    assert c.theta.tolist() == [0, 0, 0]


def test_scores_far_from_0_are_told_once_an_epoch() -> None:
    people = breast_cancer()
    plan = replace(plan_of(people, epochs=1), rate=0.4)
    _, said = plain_or_stopped(plan)
    (warning,) = [each for each in said[B] if isinstance(each, Warned)]
    assert "percent of the rows have a score beyond 4.0 from the columns of B alone" in warning.reason


# What a node can work out


def guessed_labels(rows: Any, equations: Any) -> Any:
    """Labels from X_B' y, by least squares with each label between -1 and 1 (projected gradient)."""
    labels, rate = np.zeros(len(rows)), 1 / np.linalg.norm(rows, 2) ** 2
    for _ in range(4000):
        labels = np.clip(labels - rate * rows @ (rows.T @ labels - equations), -1, 1)
    return np.where(labels > 0, 1, -1)


@pytest.mark.parametrize(("batch", "lowest", "highest"), [(32, 0.95, 1.0), (227, 0.4, 0.7)])
def test_gradients_of_small_batches_give_labels_away(batch: int, lowest: float, highest: float) -> None:
    """What docs/vertical.md does not promise: at theta = 0 B learns X_B' y, from which few labels can be computed."""
    people = breast_cancer()
    people = replace(people, labels=np.random.default_rng(1).choice([-1.0, 1.0], len(people.labels)))
    plan = replace(plan_of(people, epochs=1, batch=batch), ridge=0.0)
    steps: list[Any] = []
    n = people.train
    run(
        (
            RegressionLabelHolder(plan, people.a[:n], people.labels[:n], OPEN, people.a[n:], people.labels[n:]),
            RegressionFeatureHolder(plan, people.b[:n], OPEN, people.b[n:]),
            KeyHolder(plan, PLAIN),
        ),
        lambda sender, to, message: (
            steps.append(np.array(message.theta)) if to is B and isinstance(message, OwnWeights) else None
        ),
    )
    rows, true = people.b[slices(plan.batches)[0]], people.labels[slices(plan.batches)[0]]
    equations = 2 * (steps[1] - steps[0]) * len(rows) / plan.rate
    assert equations == pytest.approx(rows.T @ true)
    assert lowest <= (guessed_labels(rows, equations) == true).mean() <= highest


def test_holdout_terms_are_encrypted_too() -> None:
    people = breast_cancer()
    heard: list[Any] = []
    n, plan = people.train, plan_of(people, epochs=1)
    run(
        (
            RegressionLabelHolder(plan, people.a[:n], people.labels[:n], OPEN, people.a[n:], people.labels[n:]),
            RegressionFeatureHolder(plan, people.b[:n], OPEN, people.b[n:]),
            KeyHolder(plan, PLAIN),
        ),
        lambda sender, to, message: heard.append((sender, to, message)),
    )
    ((sender, to, terms),) = [each for each in heard if isinstance(each[2], HoldoutTerms)]
    assert (sender, to) == (A, B)
    assert len(opened(terms.own, plan.holdout, 1)) == plan.holdout
