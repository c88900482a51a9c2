"""Where PyTorch works: on the processor, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from flnet.training.api import TrainerError

CPU = torch.device("cpu")


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
