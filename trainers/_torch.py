"""What trainers in PyTorch share: where it works, a step of gradient descent, and how equal arrays are known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from flnet.training.api import Array, TrainerError

CPU = torch.device("cpu")
MOMENTUM = 0.9


def chosen_device(wanted: str) -> torch.device:
    """What FLNET_DEVICE asks for; of "auto" a GPU if there is one.

    Raises:
        TrainerError: PyTorch cannot use it on this machine.
    """
    present: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if wanted == "auto":
        wanted = next((name for name, is_there in present.items() if is_there()), "cpu")
    elif wanted in present and not present[wanted]():
        what = {"cuda": "an NVIDIA GPU", "mps": "an Apple GPU"}[wanted]
        raise TrainerError(
            f"FLNET_DEVICE={wanted} asks for {what}, but PyTorch {torch.__version__} can use none here; "
            "set FLNET_DEVICE to auto or cpu"
        )
    return torch.device(wanted)


@torch.no_grad()
def descend(
    params: Mapping[str, Tensor], speed: Mapping[str, Tensor], gradients: tuple[Tensor, ...], rate: float
) -> None:
    """One step of gradient descent with momentum, in place.

    By hand: the first optimiser of torch.optim costs a second and 80 MB for its imports.
    """
    for (name, tensor), gradient in zip(params.items(), gradients, strict=True):
        tensor.sub_(speed[name].mul_(MOMENTUM).add_(gradient), alpha=rate)


def digest(arrays: Mapping[str, Array]) -> bytes:
    """Sixteen bytes, equal for arrays of equal names and contents: what was measured need not be again."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape} ".encode())
        found.update(arrays[name].tobytes())
    return found.digest()
