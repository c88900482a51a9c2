"""Chains of dense layers one by one: the optimiser is PyTorch's, the order of rows is a function of the seed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Task  # noqa: E402
from trainers._dense import Adam, batches  # noqa: E402


def test_adam_is_pytorchs() -> None:
    ours, theirs = (torch.tensor([1.0, -2.0, 3.0], requires_grad=True) for _ in range(2))
    mine, other = Adam([ours], 0.01), torch.optim.Adam([theirs], 0.01, eps=1e-7)
    for step in range(20):
        gradient = torch.tensor([1.0, 0.1 * step, -(0.5**step)])
        mine.step([gradient])
        theirs.grad = gradient
        other.step()
    assert torch.allclose(ours, theirs, rtol=1e-6)


def test_every_pass_has_every_row_once_in_an_order_of_its_own() -> None:
    found = batches(7, Task({}, HyperParams(e=2, u=0.1, b=3), seed=5))
    assert [len(rows) for rows in found] == [3, 3, 1, 3, 3, 1]
    first, second = torch.cat(found[:3]), torch.cat(found[3:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(7))
    assert first.tolist() != second.tolist()
