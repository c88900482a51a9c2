"""A model as a file that a trainer writes: ONNX, or the arrays of one of a node's two models as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from flnet.errors import NotOffered
from flnet.params import Params
from flnet.tensorfile import in_order, write_header
from flnet.training.api import Trainer
from flnet.training.methods.base import TwoModels, Wrapped, overrides
from flnet.training.onnx_graph import with_metadata

Which = Literal["common", "personal"]
MODELS: tuple[Which, ...] = get_args(Which)


def formats_of(trainer: Trainer) -> list[str]:
    """As what its models can be taken away: a file format, with the model's name after it where there are two."""
    kinds = ["safetensors", "onnx"] if overrides(trainer, "onnx") else ["safetensors"]
    return [*kinds, *(f"{kind}-{which}" for kind in kinds for which in MODELS if isinstance(trainer, TwoModels))]


def which_alone(trainer: Trainer) -> str:
    """Which of two models a file holds that has room for one, where nobody chooses; empty where there is one."""
    return ("personal" if trainer.stands_alone else "common") if isinstance(trainer, TwoModels) else ""


def file_of(trainer: Trainer, name: str, params: Params, metadata: Mapping[str, str]) -> bytes:
    """The model as a file with these words in it.

    Args:
        trainer: of the model.
        name: its id, for people.
        params: all of them.
        metadata: text by name; `format` is onnx, if it is not there, or safetensors, with -common or -personal
            after it for one of two models.

    Raises:
        NotOffered: the trainer describes no such model, or has one model alone.
    """
    kind, _, which = metadata.get("format", "onnx").partition("-")
    if which and not isinstance(trainer, TwoModels):
        raise NotOffered(f"{name} has one model alone here, the common one: no personal model is set")
    if kind != "onnx":
        return _tensors(_arrays(trainer, params, which == "personal"), metadata)
    if which and isinstance(trainer, TwoModels):
        graph = trainer.onnx_of(params, which == "personal")
    else:
        graph = trainer.onnx(params)
    if graph is None:
        raise NotOffered(f"{name} cannot be exported to ONNX: its trainer describes no such model")
    return with_metadata(graph, metadata)


def _arrays(trainer: Trainer, params: Params, is_local: bool) -> Params:
    """The arrays of the trainer itself, without those of any method around it."""
    found: Mapping[str, Any] = params
    while isinstance(trainer, Wrapped):
        if is_local and isinstance(trainer, TwoModels):
            found = trainer.local_model(found)
        else:
            found = trainer.inside(found)
        trainer = trainer.inner
    return Params({name: np.array(array) for name, array in found.items()})


def _tensors(params: Params, metadata: Mapping[str, str]) -> bytes:
    little = {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in params.items()}
    return b"".join([write_header(little, metadata), *(little[name].tobytes() for name in in_order(little))])
