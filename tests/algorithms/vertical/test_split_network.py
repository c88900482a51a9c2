"""The split network: oracle O13, joint training, arrival order, late gradients, faults, restarts, several label holders."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.defences import GradientNoise, OutputNoise
from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseMultiLabelTop, DenseTop, Layers
from flnet.algorithms.vertical.split_messages import (
    BottomClosed,
    CutGradients,
    CutOutputs,
    EpochClosed,
    Message,
    Outgoing,
    Resumed,
    TopShared,
)
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.errors import (
    BatchRefused,
    CutLayerRefused,
    IllegalStep,
    OtherBottomModel,
    ParamsRefused,
    PeerError,
    SitsOut,
    TrainerError,
)
from flnet.params.params import Array, Digest, Params, PeerId
from flnet.trainer import Optimiser
from tests.algorithms.vertical.joint import trained_jointly
from tests.algorithms.vertical.networks import (
    Batch,
    Case,
    Permuted,
    Pick,
    digests_of,
    features_of,
    labels_of,
    normal,
    report_of,
    trained,
    weights_of,
)

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")


def in_any_order(seed: int) -> Pick:
    chance = random.Random(seed)
    return lambda waiting: chance.randrange(len(waiting))


# Oracle O13


class OneRow:
    """One batch of one row in each epoch, nothing held out."""

    def training(self, epoch: int) -> list[Batch]:
        return [Batch(np.array([0]), "one row")]

    def hold_out(self) -> list[Batch]:
        return []


def test_oracle_13() -> None:
    """x_A = (1, 2), W_A = (.1, .2)', x_B = 3, W_B = .3, top (.5, -.4), no bias, sigmoid, y = 1; rate 1."""
    plan = SplitPlan({A: 1, B: 1}, {B: None}, OneRow(), dtype="float64")
    models = [
        DenseBottom(Layers((2, 1), bias=False), {"0.weight": np.array([[0.1, 0.2]])}, "sgd", 1.0),
        DenseBottom(Layers((1, 1), bias=False), {"0.weight": np.array([[0.3]])}, "sgd", 1.0),
    ]
    top = DenseTop(Layers((2, 1), bias=False), {"0.weight": np.array([[0.5, -0.4]])}, "sgd", 1.0)
    x: list[Any] = [np.array([[1.0, 2.0]]), np.array([[3.0]])]
    nodes = {
        peer: SplitNode(peer, FeatureHolder(peer, plan, x[at].__getitem__, models[at]))
        for at, peer in enumerate((A, B))
    }
    nodes[B] = SplitNode(B, nodes[B].features, LabelHolder(B, plan, np.array([1]), top))
    sent: list[Message] = []
    run_epoch(nodes, sent=lambda outgoing: sent.append(outgoing.message))
    outputs, gradients, *_ = sent
    assert isinstance(outputs, CutOutputs) and isinstance(gradients, CutGradients)
    assert outputs.values == pytest.approx(np.array([[0.5]]), abs=1e-9)
    assert gradients.values == pytest.approx(np.array([[-0.2637361522]]), abs=1e-9)
    assert report_of(nodes[B]).loss == pytest.approx(0.7496589186, abs=1e-9)
    steps = {
        "a/bottom": np.array([[0.1, 0.2]]) - [[-0.2637361522, -0.5274723043]],
        "b/bottom": np.array([[0.3]]) - [[0.6329667652]],
        "b/top": np.array([[0.5, -0.4]]) - [[-0.2637361522, -0.4747250739]],
    }
    for name, expected in steps.items():
        assert weights_of(nodes)[f"{name}/0.weight"] == pytest.approx(expected, abs=1e-9)


# One batch in flight: the network in one place


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("holders", [("a",), ("a", "b"), ("a", "b", "c", "d")])
def test_training_equals_that_in_one_place(holders: tuple[str, ...], optimiser: Optimiser) -> None:
    case = Case(holders, (holders[-1],), optimiser=optimiser, rate=0.01)
    split, joint = weights_of(trained(case, epochs=3)), trained_jointly(case, epochs=3)
    assert split.keys() == joint.keys()
    for name, array in joint.items():
        assert split[name] == pytest.approx(array, abs=1e-9), name


def test_narrow_numbers_on_the_way_stay_near_it() -> None:
    wide = Case(optimiser="adam", rate=0.01)
    narrow = weights_of(trained(Case(optimiser="adam", rate=0.01, dtype="float32"), epochs=3))
    for name, array in trained_jointly(wide, epochs=3).items():
        assert narrow[name] == pytest.approx(array, abs=1e-5), name


@given(
    holders=st.integers(1, 4),
    size=st.integers(1, 40),
    held_out=st.integers(0, 10),
    without_features=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_division_equals_training_in_one_place(
    holders: int, size: int, held_out: int, without_features: bool, seed: int
) -> None:
    names = [f"n{number}" for number in range(holders)]
    owner = "labels" if without_features else names[seed % holders]
    case = Case(names, (owner,), size=size, held_out=held_out)
    split = weights_of(trained(case, 1, in_any_order(seed)))
    for name, array in trained_jointly(case, epochs=1).items():
        assert split[name] == pytest.approx(array, abs=1e-9), name


def test_the_order_of_outputs_is_that_of_the_ids() -> None:
    case = Case(("z", "m", "a"), ("m",))
    seen: list[Array] = []

    class Looking(DenseTop):
        def step(self, inputs: Array, labels: Array) -> Any:
            seen.append(inputs)
            return super().step(inputs, labels)

    top = Looking(case.top_layers, case.top_weights, "sgd", 0.1)
    nodes = case.nodes()
    nodes[PeerId("m")].labels = LabelHolder(PeerId("m"), case.plan, case.truth, top)
    run_epoch(nodes)
    rows = case.plan.training(0)[0].batch.positions
    expected = [case.bottom(peer).outputs(case.columns[peer][rows]) for peer in ("a", "m", "z")]
    assert (seen[0] == np.hstack(expected)).all()


# Several batches in flight


def late(case: Case, in_flight: int) -> dict[str, Array]:
    """What `in_flight` means, as a plain loop: outputs of step t by the weights after t - in_flight + 1 steps."""
    bottoms = {peer: case.bottom(peer) for peer in sorted(case.holders)}
    (owner,) = case.owners
    top = case.top(owner)
    for epoch in range(2):
        batches, outputs = case.plan.batches.training(epoch), list[Array]()
        for done in range(-in_flight, len(batches)):  # at `done` < 0 nothing can be applied yet
            if done >= 0:
                rows = batches[done].positions
                _, gradient = top.step(outputs[done], case.truth[rows])
                for peer, bottom in bottoms.items():
                    bottom.backward(done, gradient[:, case.plan.columns[PeerId(peer)]])
            if (new := done + in_flight) < len(batches):
                rows = batches[new].positions
                outputs.append(np.hstack([b.forward(new, case.columns[p][rows]) for p, b in bottoms.items()]))
    found = {
        f"{peer}/bottom/{n}": w for peer, bottom in bottoms.items() for n, w in bottom.state().weights.items()
    }
    return {**found, **{f"{owner}/top/{name}": array for name, array in top.state().weights.items()}}


@pytest.mark.parametrize("in_flight", [1, 2, 3, 100])
def test_gradients_are_late_by_a_known_number_of_steps(in_flight: int) -> None:
    case = Case(("a", "b", "c"), in_flight=in_flight, optimiser="adam", rate=0.01)
    split, expected = weights_of(trained(case, epochs=2)), late(case, in_flight)
    assert split.keys() == expected.keys()
    assert all((split[name] == array).all() for name, array in expected.items())


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), in_flight=st.integers(1, 5))
def test_the_order_of_arrival_changes_no_bit(seed: int, in_flight: int) -> None:
    case = Case(("a", "b", "c", "d"), ("b", "d"), in_flight=in_flight, optimiser="adam", size=3)
    assert digests_of(trained(case, 2, in_any_order(seed))) == digests_of(trained(case, 2))


def test_late_gradients_make_another_model() -> None:
    assert digests_of(trained(Case(in_flight=3))) != digests_of(trained(Case(in_flight=1)))


def test_no_more_batches_are_under_way_than_allowed() -> None:
    case, under_way, most = Case(("a", "c"), ("b",), in_flight=3, size=2), {A: 0, C: 0}, {A: 0, C: 0}

    def look(outgoing: Outgoing) -> None:
        match outgoing.message:
            case CutOutputs(sender=peer, hold_out=False):
                under_way[peer] += 1
                most[peer] = max(most[peer], under_way[peer])
            case CutGradients():
                under_way[outgoing.to] -= 1

    run_epoch(case.nodes(), in_any_order(5), look)
    assert (most[A], most[C], under_way[A], under_way[C]) == (3, 3, 0, 0)


# Faults


def first_messages(case: Case) -> tuple[dict[PeerId, SplitNode], list[Outgoing]]:
    nodes = case.nodes()
    return nodes, [outgoing for peer in sorted(nodes) for outgoing in nodes[peer].start_epoch()]


Change = Callable[[Any], Any]
NAN = np.float64("nan")


def wrong(values: Array) -> Array:
    broken = np.array(values)
    broken.flat[0] = NAN
    return broken


FAULTS: dict[str, tuple[Change, type[PeerError], str]] = {
    "epoch": (
        lambda m: replace(m, epoch=m.epoch + 1),
        BatchRefused,
        "is for epoch 1, but this node is in epoch 0",
    ),
    "old epoch": (lambda m: replace(m, epoch=-1), BatchRefused, "is for epoch -1, but"),
    "step": (lambda m: replace(m, step=99), BatchRefused, "step 99 is not under way; expected one of: 0, 1"),
    "digest": (
        lambda m: replace(m, batch="f" * 64),
        BatchRefused,
        "do not have the same rows in the same",
    ),
    "rows": (
        lambda m: replace(m, values=m.values[1:]),
        CutLayerRefused,
        r"expected \[8, 3\] of float64 .* got \[7, 3\]",
    ),
    "width": (lambda m: replace(m, values=m.values[:, :2]), CutLayerRefused, r"got \[8, 2\] of float64"),
    "dimensions": (lambda m: replace(m, values=m.values.ravel()), CutLayerRefused, r"got \[24\] of"),
    "dtype": (lambda m: replace(m, values=m.values.astype("float32")), CutLayerRefused, "got .* of float32"),
    "nan": (lambda m: replace(m, values=wrong(m.values)), CutLayerRefused, "not finite"),
    "infinite": (lambda m: replace(m, values=m.values / 0), CutLayerRefused, "not finite"),
    "sender": (lambda m: replace(m, sender=PeerId("x")), BatchRefused, "'x' has no such part .* one of"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_wrong_outputs_and_gradients_are_refused_and_change_nothing(name: str) -> None:
    """Each message is preceded by a broken copy; the training ends as if none had come."""
    change, error, words = FAULTS[name]
    case = Case(("a", "c"), ("b",), in_flight=2)
    nodes, waiting = first_messages(case)
    refused: set[type] = set()
    while waiting:
        arriving = waiting.pop(0)
        if isinstance(arriving.message, CutOutputs | CutGradients):
            with pytest.raises(error, match=None if refused else words):
                nodes[arriving.to].receive(change(arriving.message))
            refused.add(type(arriving.message))
        waiting += nodes[arriving.to].receive(arriving.message)
    assert refused == {CutOutputs, CutGradients}
    assert digests_of(nodes) == digests_of(trained(case, epochs=1))


def test_a_message_that_comes_twice_counts_once() -> None:
    """The second one is ignored, or refused because its step or epoch is over by then."""
    case = Case(("a", "c"), ("b",), in_flight=2)
    nodes, waiting = first_messages(case)
    ignored = refused = 0
    while waiting:
        arriving = waiting.pop(0)
        waiting += nodes[arriving.to].receive(arriving.message)
        try:
            ignored += nodes[arriving.to].receive(arriving.message) == []
        except BatchRefused:
            refused += 1
    assert ignored > 0 and refused > 0
    assert digests_of(nodes) == digests_of(trained(case, epochs=1))


def test_two_different_messages_for_one_step_are_refused() -> None:
    nodes, (first, *_) = first_messages(Case(("a", "c"), ("b",)))
    nodes[B].receive(first.message)
    assert isinstance(first.message, CutOutputs)
    with pytest.raises(BatchRefused, match="came twice with different numbers"):
        nodes[B].receive(replace(first.message, values=first.message.values + 1))


def test_what_comes_too_early_is_refused_though_it_is_right() -> None:
    """Node a has three batches in flight, all others one."""
    eager, case = Case(("a", "c"), ("b",), in_flight=3), Case(("a", "c"), ("b",))
    _, sent = first_messages(eager)
    nodes, waiting = first_messages(case)
    from_a = [one.message for one in sent if isinstance(one.message, CutOutputs) and one.message.sender == A]
    for message in from_a[1:]:
        with pytest.raises(BatchRefused, match=f"step {message.step} is not under way; expected one of: 0$"):
            nodes[B].receive(message)
    nodes[B].receive(from_a[0])
    assert waiting[1].message.sender == C
    gradients = [one.message for one in nodes[B].receive(waiting[1].message) if one.to == A]
    (right,) = [message for message in gradients if isinstance(message, CutGradients)]
    later = case.plan.training(0)[1]
    with pytest.raises(BatchRefused, match=r"step 1 is not under way; expected one of: 0$"):
        nodes[A].receive(replace(right, step=1, batch=later.batch.digest))


def test_gradients_before_any_epoch_and_outputs_for_nodes_without_labels_are_refused() -> None:
    nodes = Case(("a", "c"), ("b",)).nodes()
    gradients = CutGradients(B, 0, 0, "", np.zeros((8, 3)))
    with pytest.raises(BatchRefused, match="step 0 is not under way; expected one of: none"):
        nodes[A].receive(gradients)
    with pytest.raises(BatchRefused, match="this node takes no message CutOutputs"):
        nodes[A].receive(CutOutputs(C, 0, 0, "", np.zeros((8, 3))))
    with pytest.raises(BatchRefused, match="this node takes no message CutGradients"):
        nodes[B].receive(gradients)
    with pytest.raises(BatchRefused, match="a feature holder takes no message BottomClosed"):
        features_of(nodes[A]).receive(BottomClosed(B, 0, Digest("")))
    with pytest.raises(BatchRefused, match="a label holder takes no message CutGradients"):
        labels_of(nodes[B]).receive(replace(gradients, sender=A))


def test_an_epoch_is_not_closed_early_nor_for_another_bottom_model() -> None:
    nodes, waiting = first_messages(Case(("a", "c"), ("b",)))
    early = EpochClosed(B, 0, 0.5, None, {}, Digest(""))
    with pytest.raises(BatchRefused, match="cannot be closed before all its steps are done here"):
        nodes[A].receive(early)
    while waiting:
        arriving = waiting.pop(0)
        if isinstance(arriving.message, EpochClosed):
            break
        waiting += nodes[arriving.to].receive(arriving.message)
    assert isinstance(arriving.message, EpochClosed)
    with pytest.raises(OtherBottomModel, match=r"'a' goes on from epoch 0 .* but ended that epoch with ffff"):
        nodes[A].receive(replace(arriving.message, bottoms={A: Digest("f" * 64)}))
    assert nodes[A].receive(arriving.message) == []
    assert features_of(nodes[A]).closed == 0


def test_a_closing_digest_cannot_be_changed() -> None:
    nodes, _ = first_messages(Case(("a", "c"), ("b",)))
    nodes[B].receive(BottomClosed(A, 0, Digest("d1")))
    with pytest.raises(BatchRefused, match="'a' said two different things"):
        nodes[B].receive(BottomClosed(A, 0, Digest("d2")))


def test_a_model_that_diverges_is_an_error_of_its_own_node() -> None:
    case = Case(("a", "c"), ("b",), rate=1e200)
    with pytest.raises(TrainerError, match="not finite any more in epoch 0, step"), np.errstate(all="ignore"):
        trained(case, epochs=3)


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(SitsOut, match="no common row has a label"):
        Case(("a",), ("a",), rows=5, held_out=5).nodes()[A].start_epoch()
    nodes, _ = first_messages(Case())
    with pytest.raises(IllegalStep, match="a cannot start an epoch while training"):
        nodes[A].start_epoch()
    case, batches = Case(), Permuted(4, 2)
    with pytest.raises(ValueError, match="in_flight=0"):
        SplitPlan({A: 1}, {B: None}, batches, in_flight=0)
    for widths, owners in (({}, {B: None}), ({A: 0}, {B: None}), ({A: 1}, {})):
        with pytest.raises(ValueError, match="widths="):
            SplitPlan(widths, owners, batches)
    with pytest.raises(ValueError, match="width=3"):
        FeatureHolder(B, case.plan, case.features("a"), case.bottom("a"))
    with pytest.raises(ValueError, match="label_holders="):
        LabelHolder(A, case.plan, case.truth, case.top("b"))


# Ends of epochs, restarts


def test_an_epoch_ends_with_figures_and_digests_on_all_nodes() -> None:
    case = Case(("a", "c"), ("b",))
    nodes = trained(case, epochs=2)
    owner, features = labels_of(nodes[B]), features_of(nodes[A])
    assert (owner.closed, features.closed, features.phase) == (1, 1, "idle")
    told = features.reports[B]
    assert (
        told.score is not None and told.score == report_of(nodes[B]).score and told.score.examples == case.held_out
    )
    digests = digests_of(nodes)
    assert told.bottoms == {A: digests["a/bottom"], C: digests["c/bottom"]}
    assert told.top == digests["b/top"]
    rows = np.arange(case.rows - case.held_out, case.rows)
    outputs = {
        peer: node.features.bottom.outputs(case.columns[peer][rows])
        for peer, node in nodes.items()
        if node.features
    }
    values = owner.predict(outputs)
    assert told.score.accuracy == (values.argmax(axis=1) == case.truth[rows]).mean()


def test_the_loss_is_the_mean_over_rows_also_if_the_last_batch_is_small() -> None:
    case = Case(("a", "c"), ("b",), size=15, rate=1e-12)
    nodes = trained(case, epochs=1)
    rows = np.arange(case.rows - case.held_out)
    assert len(case.plan.training(0)[-1].batch.positions) == 2
    outputs = [case.bottom(peer).outputs(case.columns[peer][rows]) for peer in case.holders]
    expected = case.top("b").loss(np.hstack(outputs), case.truth[rows])
    assert report_of(nodes[B]).loss == pytest.approx(expected, abs=1e-9)


def test_figures_can_be_kept_back_and_nothing_need_be_held_out() -> None:
    case = Case(("a",), ("b",))
    nodes = case.nodes()
    nodes[B].labels = LabelHolder(B, case.plan, case.truth, case.top("b"), tells_score=False)
    run_epoch(nodes)
    assert report_of(nodes[B]).score is not None
    assert features_of(nodes[A]).reports[B].score is None
    assert report_of(trained(Case(held_out=0), epochs=1)[B]).score is None


def test_a_restarted_node_proves_its_bottom_model() -> None:
    case = Case(("a", "c"), ("b",), optimiser="adam")
    nodes = trained(case, epochs=2)
    old = features_of(nodes[A])
    bottom = case.bottom("a")
    bottom.load(old.bottom.state())
    nodes[A].features = restarted = FeatureHolder(A, case.plan, case.features("a"), bottom, closed=1)
    (said,) = restarted.resume()
    assert nodes[B].receive(said.message) == []
    run_epoch(nodes)
    assert digests_of(nodes) == digests_of(trained(case, epochs=3))


def test_a_node_with_another_bottom_model_is_found_out() -> None:
    case = Case(("a", "c"), ("b",))
    nodes = trained(case, epochs=2)
    stranger = FeatureHolder(A, case.plan, case.features("a"), case.bottom("a"), closed=1)
    with pytest.raises(OtherBottomModel, match="'a' goes on from epoch 1 with bottom model"):
        nodes[B].receive(stranger.resume()[0].message)
    with pytest.raises(BatchRefused, match="is for epoch 0, but this node is in epoch 1"):
        nodes[B].receive(Resumed(A, 0, Digest("")))
    assert Case(("a",), ("b",)).nodes()[B].receive(Resumed(A, -1, Digest(""))) == []


@pytest.mark.parametrize("done", [0, 1, 5, 12, 20])
def test_an_epoch_that_is_given_up_leaves_no_trace(done: int) -> None:
    case = Case(("a", "b"), ("b",), optimiser="adam", in_flight=2, output_noise=OutputNoise(1.0, 0.5, normal()))
    nodes = trained(case, epochs=1)
    before = digests_of(nodes)
    waiting, sent = [outgoing for peer in sorted(nodes) for outgoing in nodes[peer].start_epoch()], list[Any]()
    for _ in range(done):
        if waiting:
            arriving = waiting.pop(0)
            sent.append(arriving.message)
            waiting += nodes[arriving.to].receive(arriving.message)
    is_over = not waiting
    for node in nodes.values():
        node.abort()
    if not is_over:
        assert digests_of(nodes) == before
        again: list[Any] = []
        run_epoch(nodes, sent=lambda outgoing: again.append(outgoing.message))
        for one, other in zip(sent, again, strict=False):
            assert type(one) is type(other)
            assert not isinstance(one, CutOutputs) or (one.values == other.values).all()
    assert digests_of(nodes) == digests_of(trained(case, epochs=2))


def test_a_label_holder_goes_on_from_its_report() -> None:
    case = Case(("a", "c"), ("b",), optimiser="adam")
    nodes = trained(case, epochs=2)
    old = labels_of(nodes[B])
    top = case.top("b")
    top.load(old.top.state())
    nodes[B].labels = LabelHolder(B, case.plan, case.truth, top, report=old.report)
    nodes[B].receive(features_of(nodes[A]).resume()[0].message)
    run_epoch(nodes)
    assert digests_of(nodes) == digests_of(trained(case, epochs=3))


# Predictions


def test_a_prediction_needs_all_holders_unless_zeros_are_allowed() -> None:
    case = Case(("a", "c"), ("b",))
    owner = labels_of(trained(case, 1)[B])
    outputs = {PeerId(peer): case.bottom(peer).outputs(case.columns[peer]) for peer in case.holders}
    assert owner.predict(outputs).sum(axis=1) == pytest.approx(np.ones(case.rows))
    with pytest.raises(BatchRefused, match="needs the outputs of all feature holders; missing: c"):
        owner.predict({A: outputs[A]})
    zeros = {**outputs, C: np.zeros_like(outputs[C])}
    assert (owner.predict({A: outputs[A]}, zero_fill=True) == owner.predict(zeros)).all()
    with pytest.raises(BatchRefused, match="missing: a, c"):
        owner.predict({}, zero_fill=True)
    with pytest.raises(BatchRefused, match="'x' has no such part"):
        owner.predict({PeerId("x"): outputs[A]})
    with pytest.raises(CutLayerRefused, match=r"got \[39, 4\] of float64"):
        owner.predict({**outputs, C: outputs[C][1:]})


# Several label holders


def halves(rows: int = 40) -> dict[str, Array]:
    first = np.random.default_rng(3).random(rows) < 0.4
    return {"b": first, "c": ~first}


def test_two_label_holders_with_half_of_the_rows_each_are_one_with_all() -> None:
    """Plain descent, all rows in one batch: the average of their steps by rows is the step of the whole."""
    both = Case(("a", "b"), ("b", "c"), labelled=halves(), size=100)
    one = Case(("a", "b"), ("b",), size=100)
    split, whole = weights_of(trained(both, epochs=3)), weights_of(trained(one, epochs=3))
    for name, array in whole.items():
        assert split[name] == pytest.approx(array, abs=1e-12), name
    assert all((split[f"c/top/{name}"] == split[f"b/top/{name}"]).all() for name in both.top_weights)


def test_outputs_go_to_who_has_the_label_and_to_nobody_else() -> None:
    masks, sent = halves(), list[Outgoing]()
    case = Case(("a", "d"), ("b", "c"), labelled=masks)
    run_epoch(case.nodes(), sent=sent.append)
    rows = {step.number: step.batch.positions for step in case.plan.training(0)}
    for outgoing in sent:
        if isinstance(outgoing.message, CutOutputs) and not outgoing.message.hold_out:
            assert len(outgoing.message.values) == masks[outgoing.to][rows[outgoing.message.step]].sum()


def test_a_private_output_layer_stays_where_it_is() -> None:
    sent: list[Message] = []
    case = Case(("a",), ("b", "c"), labelled=halves(), private_output=True)
    nodes = case.nodes()
    for _ in range(2):
        run_epoch(nodes, sent=lambda outgoing: sent.append(outgoing.message))
    shared = [message for message in sent if isinstance(message, TopShared)]
    assert len(shared) == 4
    assert all(set(message.params) == {"0.weight", "0.bias"} for message in shared)
    weights = weights_of(nodes)
    assert (weights["b/top/0.weight"] == weights["c/top/0.weight"]).all()
    assert (weights["b/top/1.weight"] != weights["c/top/1.weight"]).any()


def test_label_holders_may_have_other_labels_of_the_same_rows() -> None:
    """Two labels at b, one at c: the loss of a bottom model is the mean over both, by rows."""
    case = Case(("a",), ("b", "c"), size=100, held_out=0, private_output=True)
    labels = {B: np.random.default_rng(1).integers(0, 2, (case.rows, 2)), C: case.truth.reshape(-1, 1)}
    nodes, expected = case.nodes(), np.zeros(())
    bottom, outputs = case.bottom("a"), case.bottom("a").outputs(case.columns["a"])
    rows = case.plan.training(0)[0].batch.positions
    for peer, truth in labels.items():
        layers = Layers((case.plan.width, 4, truth.shape[1]))
        tops = [
            DenseMultiLabelTop(layers, layers.initial(5, "float64"), "sgd", 0.1, private_output=True) for _ in "12"
        ]
        nodes[peer].labels = LabelHolder(peer, case.plan, truth, tops[0])
        expected = expected + tops[1].step(outputs[rows], truth[rows]).gradient / 2
    bottom.forward(0, case.columns["a"][rows])
    bottom.backward(0, expected)
    run_epoch(nodes)
    for name, array in bottom.state().weights.items():
        assert features_of(nodes[A]).bottom.state().weights[name] == pytest.approx(array, abs=1e-12)


def test_batches_without_labels_are_left_out_and_a_holder_without_rows_only_averages() -> None:
    few = np.zeros(40, bool)
    few[:3] = True
    case = Case(("a",), ("b", "c"), labelled={"b": few, "c": np.zeros(40, bool)}, in_flight=2)
    assert 1 <= len(case.plan.training(0)) <= 3
    nodes = trained(case, epochs=2)
    weights, alone = (
        weights_of(nodes),
        weights_of(trained(Case(("a",), ("b",), labelled={"b": few}, in_flight=2), 2)),
    )
    for name, array in alone.items():
        assert weights[name] == pytest.approx(array, abs=1e-12), name
    assert (weights["c/top/0.weight"] == weights["b/top/0.weight"]).all()
    assert report_of(nodes[C]).score is None


def test_what_another_label_holder_shares_is_checked() -> None:
    case = Case(("a",), ("b", "c"), labelled=halves())
    nodes = case.nodes()
    with pytest.raises(ParamsRefused, match=r"0\.bias"):
        nodes[B].receive(TopShared(C, 0, Params({"0.weight": np.zeros((4, 3))}), 3))
    broken = Params({name: wrong(array) for name, array in case.top_weights.items()})
    with pytest.raises(ParamsRefused, match="not finite"):
        nodes[B].receive(TopShared(C, 0, broken, 3))
    with pytest.raises(BatchRefused, match=r"'a' has no such part .* one of b, c"):
        nodes[B].receive(TopShared(A, 0, Params(case.top_weights), 3))


# Noise


def test_noise_leaves_a_node_and_gradients_for_the_own_bottom_model_are_clean() -> None:
    sent: list[Outgoing] = []
    plain: list[Outgoing] = []
    noisy = Case(("a", "b"), ("b",), gradient_noise=GradientNoise("isotropic", normal()))
    run_epoch(noisy.nodes(), sent=sent.append)
    run_epoch(Case(("a", "b"), ("b",)).nodes(), sent=plain.append)
    (first, clean) = (
        next(one.message.values for one in messages if isinstance(one.message, CutGradients))
        for messages in (sent, plain)
    )
    assert not np.allclose(first, clean)
    own = Case(("a", "b"), ("b",), size=100, gradient_noise=GradientNoise("isotropic", normal()))
    with_noise, without = weights_of(trained(own, 1)), weights_of(trained(Case(("a", "b"), ("b",), size=100), 1))
    assert (with_noise["b/bottom/0.weight"] == without["b/bottom/0.weight"]).all()
    assert (with_noise["a/bottom/0.weight"] != without["a/bottom/0.weight"]).any()


def test_a_clipped_row_trains_through_the_clipping() -> None:
    """One batch, rate 1: the step of the bottom model is that by the gradient of what it made, not of what was sent."""
    noise = OutputNoise(0.5, 0.1, normal())
    case, sent = Case(("a",), ("b",), size=100, rate=1.0, output_noise=noise), list[Message]()
    nodes, bottom = case.nodes(), case.bottom("a")
    run_epoch(nodes, sent=lambda outgoing: sent.append(outgoing.message))
    (gradients,) = [message.values for message in sent if isinstance(message, CutGradients)]
    outputs = bottom.forward(0, case.columns["a"][case.plan.training(0)[0].batch.positions])
    back = noise.gradient(outputs, gradients)
    assert not np.allclose(back, gradients)
    bottom.backward(0, back)
    assert features_of(nodes[A]).bottom.state().digest == bottom.state().digest


def test_clipping_that_changes_nothing_changes_no_bit() -> None:
    loose = Case(output_noise=OutputNoise(1e9, 0.0, normal()))
    assert digests_of(trained(loose)) == digests_of(trained(Case()))
