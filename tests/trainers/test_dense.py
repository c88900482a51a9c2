"""Chains of dense layers one by one: the optimiser is PyTorch's, the order of rows is a function of the seed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trainers._dense import Adam  # noqa: E402


def test_adam_is_pytorchs() -> None:
    ours, theirs = (torch.tensor([1.0, -2.0, 3.0], requires_grad=True) for _ in range(2))
    mine, other = Adam([ours], 0.01), torch.optim.Adam([theirs], 0.01, eps=1e-7)
    for step in range(20):
        gradient = torch.tensor([1.0, 0.1 * step, -(0.5**step)])
        mine.step([gradient])
        theirs.grad = gradient
        other.step()
    assert torch.allclose(ours, theirs, rtol=1e-6)
