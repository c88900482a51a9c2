"""The networks of trainers without code: shapes, equal starts, and what each computes."""

from __future__ import annotations

import pytest
import torch

from trainers._own_nets import Net, fresh, mlp, small_cnn


@pytest.mark.parametrize(
    ("net", "inputs", "outputs", "numbers"),
    [
        (small_cnn(8, 1, 3), (2, 1, 8, 8), 3, 160 + 4640 + (32 * 4 * 64 + 64) + (64 * 3 + 3)),
        (small_cnn(33, 3, 2), (2, 3, 33, 33), 2, 448 + 4640 + (32 * 64 * 64 + 64) + (64 * 2 + 2)),
        (mlp(12, (), 2), (5, 3, 2, 2), 2, 26),
        (mlp(4, (8, 3), 1), (5, 4), 1, 40 + 27 + 4),
    ],
)
def test_shapes_and_outputs(net: Net, inputs: tuple[int, ...], outputs: int, numbers: int) -> None:
    params = fresh(net.shapes, 0)
    assert {name: tuple(tensor.shape) for name, tensor in params.items()} == dict(net.shapes)
    assert sum(tensor.numel() for tensor in params.values()) == numbers
    assert net.outputs(params, torch.ones(inputs)).shape == (inputs[0], outputs)


def test_equal_seeds_give_equal_starts() -> None:
    shapes = small_cnn(8, 3, 2).shapes
    one, same, other = fresh(shapes, 1), fresh(shapes, 1), fresh(shapes, 2)
    assert all(torch.equal(one[name], same[name]) for name in shapes)
    assert not torch.equal(one["dense.weight"], other["dense.weight"])
    assert float(one["dense.bias"].abs().max()) == 0
    assert float(one["dense.weight"].abs().max()) <= shapes["dense.weight"][1] ** -0.5


def test_a_linear_model_is_linear_and_hidden_layers_are_rectified() -> None:
    linear = mlp(2, (), 1)
    params = {"output.weight": torch.tensor([[2.0, -1.0]]), "output.bias": torch.tensor([0.5])}
    assert linear.outputs(params, torch.tensor([[1.0, 3.0]])).tolist() == [[-0.5]]
    hidden = mlp(1, (1,), 1)
    one = torch.tensor([[1.0]])
    params = {
        "dense1.weight": one,
        "dense1.bias": torch.zeros(1),
        "output.weight": one,
        "output.bias": torch.zeros(1),
    }
    assert hidden.outputs(params, torch.tensor([[-4.0], [4.0]])).tolist() == [[0], [4]]
