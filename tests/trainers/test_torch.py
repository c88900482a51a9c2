"""Where PyTorch works: what is asked for, or words on why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install flnet[torch]")

from flnet.errors import TrainerError  # noqa: E402
from flnet.trainer import TrainerSettings  # noqa: E402
from trainers._descent import Proximal  # noqa: E402
from trainers._torch import chosen_device, descend, digest  # noqa: E402
from trainers.MNIST import make_trainer  # noqa: E402


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("without_gpu")
def test_without_a_gpu_the_processor_works() -> None:
    assert chosen_device("auto") == chosen_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_gpu_is_taken_where_there_is_one(without_gpu: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(
        getattr(torch, name) if name == "cuda" else torch.backends.mps, "is_available", lambda: True
    )
    assert chosen_device("auto") == chosen_device(name) == torch.device(name)
    assert chosen_device("cpu") == torch.device("cpu")


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize(("name", "words"), [("cuda", "an NVIDIA GPU"), ("mps", "an Apple GPU")])
def test_a_gpu_that_is_not_there_is_said(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(
        TrainerError, match=f"FLNET_DEVICE={name} asks for {words}, .*; set FLNET_DEVICE to auto or"
    ):
        make_trainer(TrainerSettings(None, tmp_path, device=name))


def test_a_step_with_momentum_by_hand() -> None:
    params, speed = {"w": torch.tensor([1.0])}, {"w": torch.tensor([0.5])}
    descend(params, speed, (torch.tensor([2.0]),), rate=0.1)
    assert speed["w"].item() == pytest.approx(0.9 * 0.5 + 2)
    assert params["w"].item() == pytest.approx(1 - 0.1 * 2.45)


def test_equal_arrays_have_one_digest_and_others_another() -> None:
    one = {"a": np.arange(6, dtype=np.float32), "b": np.zeros(2, np.float32)}
    assert digest(one) == digest({"b": one["b"].copy(), "a": one["a"].copy()})
    others: list[dict[str, Any]] = [
        {**one, "b": np.ones(2, np.float32)},
        {**one, "a": one["a"].reshape(2, 3)},
        {"c": one["a"], "b": one["b"]},
    ]
    assert len({digest(one), *(digest(other) for other in others)}) == 4


def test_the_proximal_term_draws_back_to_the_start() -> None:
    """One step worked by hand: w - eta (g + mu (w - start))."""
    start = torch.tensor([1.0, 1.0], dtype=torch.float64)
    drawn = Proximal([start], 0.5)
    w, slope = (torch.tensor(numbers, dtype=torch.float64) for numbers in ([1.5, 0.5], [0.2, -0.4]))
    (gradient,) = drawn([w], (slope,))
    assert (w - 0.1 * gradient).tolist() == pytest.approx([1.455, 0.565], abs=1e-9)


def test_without_mu_there_is_no_proximal_term() -> None:
    gradients = (torch.tensor([1.0]),)
    assert Proximal([torch.zeros(1)], 0.0)([torch.ones(1)], gradients) is gradients
