"""Vertical models in PyTorch: those in numpy are the oracle, and so is PyTorch's own training of the whole network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install flnet[torch]")

from flnet.algorithms.vertical.numpy_models import DenseMultiLabelTop, DenseTop, Layers  # noqa: E402
from flnet.algorithms.vertical.split_network import run_epoch  # noqa: E402
from flnet.errors import ParamsRefused  # noqa: E402
from flnet.trainer import Optimiser  # noqa: E402
from flnet.vertical_trainer import BottomModel, ModelState, Params, TopModel  # noqa: E402
from tests.algorithms.vertical.networks import Case, digests_of, trained, weights_of  # noqa: E402
from trainers._vertical import TorchBottom, TorchMultiLabelTop, TorchTop, dense  # noqa: E402


class InTorch(Case):
    """The same networks in PyTorch."""

    def bottom(self, peer: str) -> BottomModel:
        layers, weights = self.bottom_layers(peer), self.bottom_weights(peer)
        return TorchBottom(dense(layers), layers.widths[-1], weights, self.optimiser, self.rate)

    def top(self, peer: str) -> TopModel:
        return TorchTop(dense(self.top_layers), self.top_weights, self.optimiser, self.rate)


@pytest.mark.parametrize("in_flight", [1, 3])
@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_torch_equals_numpy(optimiser: Optimiser, in_flight: int) -> None:
    settings: dict[str, Any] = {"optimiser": optimiser, "rate": 0.01, "in_flight": in_flight}
    one, other = Case(("a", "b", "c"), **settings), InTorch(("a", "b", "c"), **settings)
    ours, theirs = weights_of(trained(one)), weights_of(trained(other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert theirs[name] == pytest.approx(array, abs=1e-9), name


def test_torch_in_single_precision_stays_near_numpy() -> None:
    settings: dict[str, Any] = {"optimiser": "adam", "rate": 0.01, "dtype": "float32"}
    ours, theirs = weights_of(trained(Case(**settings))), weights_of(trained(InTorch(**settings)))
    for name, array in ours.items():
        assert theirs[name].dtype == np.float32
        assert theirs[name] == pytest.approx(array, abs=1e-5), name


@pytest.mark.parametrize("holders", [("a", "b"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_the_split_network_is_the_whole_one_trained_by_torch(
    optimiser: Optimiser, holders: tuple[str, ...]
) -> None:
    """Three epochs by torch.optim and one backward pass through the composed network, in one place."""
    case = Case(holders, (holders[-1],), optimiser=optimiser, rate=0.01)
    names = [f"{peer}/bottom" for peer in holders] + [f"{holders[-1]}/top"]
    first = [*(case.bottom_weights(peer) for peer in holders), case.top_weights]
    weights = [{n: torch.tensor(w, requires_grad=True) for n, w in part.items()} for part in first]
    networks = [*(dense(case.bottom_layers(peer)) for peer in holders), dense(case.top_layers)]
    leaves = [leaf for part in weights for leaf in part.values()]
    torch_optimiser: Any = (
        torch.optim.SGD(leaves, lr=0.01) if optimiser == "sgd" else torch.optim.Adam(leaves, lr=0.01, eps=1e-7)
    )
    for epoch in range(3):
        for batch in case.plan.batches.training(epoch):
            inputs = [torch.tensor(case.columns[peer][batch.positions]) for peer in holders]
            cut = [network(part, x) for network, part, x in zip(networks, weights, inputs, strict=False)]
            scores = networks[-1](weights[-1], torch.cat(cut, dim=1))[:, 0]
            truth = torch.tensor(case.truth[batch.positions], dtype=torch.float64)
            torch_optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(scores, truth).backward()
            torch_optimiser.step()
    split = weights_of(trained(case, epochs=3))
    for name, part in zip(names, weights, strict=True):
        for weight, leaf in part.items():
            assert split[f"{name}/{weight}"] == pytest.approx(leaf.detach().numpy(), abs=1e-9), name


def test_a_saved_state_goes_on_in_the_other_framework_too() -> None:
    """Adam's moments have the same names and meaning, so a node may change its framework between two epochs."""
    settings: dict[str, Any] = {"optimiser": "adam", "rate": 0.01}
    case, other = Case(("a",), ("a",), **settings), InTorch(("a",), ("a",), **settings)
    nodes = trained(case, epochs=2)
    (node,) = nodes.values()
    assert node.features is not None and node.labels is not None
    moved = other.nodes()
    (twin,) = moved.values()
    assert twin.features is not None and twin.labels is not None
    twin.features.bottom.load(node.features.bottom.state())
    twin.labels.top.load(node.labels.top.state())
    assert digests_of(moved) == digests_of(nodes)
    twin.features.closed = twin.labels.closed = 1
    run_epoch(nodes)
    run_epoch(moved)
    for name, array in weights_of(nodes).items():
        assert weights_of(moved)[name] == pytest.approx(array, abs=1e-9), name


def test_a_state_of_another_model_is_refused() -> None:
    model = Case().bottom("a")
    with pytest.raises(ParamsRefused):
        InTorch().bottom("b").load(model.state())
    with pytest.raises(ParamsRefused):
        InTorch().bottom("a").load(ModelState(Params({})))


def test_what_is_under_way_is_forgotten_when_a_state_is_loaded() -> None:
    case = InTorch()
    model = case.bottom("a")
    model.forward(0, case.columns["a"])
    model.load(model.state())
    with pytest.raises(KeyError):
        model.backward(0, np.zeros((case.rows, 3)))


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_other_targets_equal_numpy(kind: str) -> None:
    chance, layers = np.random.default_rng(2), Layers((5, 4, 3))
    x, weights = chance.normal(size=(8, 5)), layers.initial(1, np.float64)
    many, one = chance.integers(0, 2, (8, 3)), chance.integers(0, 3, 8)
    labels = many if kind == "labels" else one
    ours: TopModel = (DenseMultiLabelTop if kind == "labels" else DenseTop)(layers, weights, "adam", 0.1)
    theirs: TopModel = (TorchMultiLabelTop if kind == "labels" else TorchTop)(dense(layers), weights, "adam", 0.1)
    assert ours.meaning == theirs.meaning
    for _ in range(3):
        expected, found = ours.step(x, labels), theirs.step(x, labels)
        assert found.loss == pytest.approx(expected.loss, abs=1e-12)
        assert found.gradient == pytest.approx(expected.gradient, abs=1e-12)
    assert theirs.predict(x) == pytest.approx(ours.predict(x), abs=1e-9)
    assert theirs.evaluate(x, labels).metrics == pytest.approx(ours.evaluate(x, labels).metrics)


def test_any_network_can_be_a_bottom_model() -> None:
    """A small convolution over images of 4 x 4; whole numbers, such as those of words, reach a network as they are."""
    weights = {"kernel": np.random.default_rng(0).normal(size=(2, 1, 3, 3)).astype(np.float32)}

    def network(given: Any, x: Any) -> Any:
        return torch.nn.functional.conv2d(x.unsqueeze(1), given["kernel"]).flatten(1)

    model = TorchBottom(network, 8, weights, "sgd", 0.001)
    images = np.random.default_rng(1).normal(size=(5, 4, 4))
    outputs = model.forward(0, images)
    assert outputs.shape == (5, 8) and (outputs == model.outputs(images)).all()
    model.backward(0, outputs)
    assert (model.outputs(images) ** 2).sum() < (outputs**2).sum()
    words = TorchBottom(lambda given, x: given["table"][x], 2, {"table": np.eye(3, 2, dtype=np.float32)})
    assert words.outputs(np.array([2, 0])).tolist() == [[0, 0], [1, 0]]
