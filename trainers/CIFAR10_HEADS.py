"""Photographs with a common core and a head for each node, which has only some of the ten kinds of things; PyTorch.

D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados" (MLFedAvg), Universidad de Sevilla, 2024, section
6.2, wishes for its common core and private output layers in a network for images. Here the core is that of
`CIFAR10_SMALL`, 136,224 parameters. The output layer has a row for each kind that this node has photographs of, as the
partition deals them (FLNET_DATA_PARTITION=pathological:2), and stays on the node.

A file cifar10_heads.toml beside the data sets bounds how many photographs each node uses:

    rows = 300      # for training
    tests = 500     # for testing
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from flnet.datasets.labelled import Labelled, fingerprint
from flnet.datasets.no_code import OwnImages
from flnet.text import text
from flnet.trainer import Trainer, TrainerSettings

from ._cifar import Photographs, load_photographs
from ._options import is_whole, read_lines
from ._own import on_images
from .CIFAR10_SMALL import HOW, as_images

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_PLACE = "cifar10"  # below FLNET_DATASETS_PATH
DATA_READER = "_cifar:load_photographs"  # which needs no framework
LABEL = text("CIFAR-10, a head for each node")
OPTIONS_FILE = "cifar10_heads.toml"
HEAD = "output."


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's photographs, and the network with an output for each kind that they show."""
    torch.set_num_threads(settings.threads)
    trainer = on_images(_how(), as_images(of_own_kinds(load_photographs(settings), _limits(settings))), settings)
    trainer.shared = tuple(name for name in trainer.initial_params(0) if not name.startswith(HEAD))
    trainer.agreement = {name: stated for name, stated in trainer.agreement.items() if name != "classes"}
    return trainer


def _how() -> OwnImages:
    return HOW.model_copy(update={"label": LABEL})


def _limits(settings: TrainerSettings) -> dict[str, int]:
    """How many photographs of a side are used at most.

    Raises:
        TrainerError: the options are wrong.
    """
    if settings.datasets_path is None:
        return {}
    number = text("a whole number above 0"), is_whole
    lines = read_lines(settings.datasets_path / OPTIONS_FILE, {"rows": number, "tests": number})
    return {side: lines[name] for name, side in (("rows", "train"), ("tests", "test")) if name in lines}


def of_own_kinds(photographs: Photographs, limits: dict[str, int]) -> Photographs:
    """The same with labels numbered among the kinds that the training photographs show, and those of other kinds left out.

    Args:
        limits: by side, how many photographs are used at most; the first ones, which show all kinds alike often.
    """
    kinds = np.unique(photographs.train.y)
    sides = {}
    for name in ("train", "validation", "test"):
        side: Labelled = getattr(photographs, name)
        rows = np.flatnonzero(np.isin(side.y, kinds))[: limits.get(name)]
        sides[name] = Labelled(side.x[rows], np.searchsorted(kinds, side.y[rows]))
    info = replace(
        photographs.info,
        rows={name: len(side) for name, side in sides.items()},
        classes=tuple(photographs.info.classes[kind] for kind in kinds),
        counts={name: np.bincount(side.y, minlength=len(kinds)).tolist() for name, side in sides.items()},
        checksum=fingerprint(sides),
        parts=(),
    )
    return Photographs(**sides, info=info)
