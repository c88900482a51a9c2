"""Photographs of ten kinds of things with a small network in PyTorch: 136,874 parameters.

The network is that of one's own pictures: two blocks of convolution, ReLU and max-pooling, a dense layer of 64. It
is quick, without TensorFlow, and for nodes that label differently, which `CIFAR10` is not.
"""

from __future__ import annotations

import numpy as np
import torch

from flnet.datasets.no_code import OwnImages
from flnet.datasets.no_code_images import ImageData
from flnet.text import text
from flnet.trainer import Trainer, TrainerSettings

from ._cifar import SHAPE, Photographs, load_photographs
from ._own import on_images

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_PLACE = "cifar10"  # below FLNET_DATASETS_PATH
DATA_READER = "_cifar:load_photographs"  # which needs no framework
LABEL = text("CIFAR-10, small network")
HOW = OwnImages(kind="images", data=DATA_PLACE, label=LABEL, size=SHAPE[0], epochs=1, rate=0.02)


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's photographs and the network for them."""
    torch.set_num_threads(settings.threads)
    return on_images(HOW, as_images(load_photographs(settings)), settings)


def as_images(photographs: Photographs) -> ImageData:
    """All sides in one array."""
    parts = {"train": photographs.train, "validation": photographs.validation, "test": photographs.test}
    ends = np.cumsum([0, *(len(part) for part in parts.values())])
    sides = {name: np.arange(first, last) for name, first, last in zip(parts, ends[:-1], ends[1:], strict=True)}
    images = np.concatenate([part.x for part in parts.values()])
    labels = np.concatenate([part.y for part in parts.values()])
    return ImageData(images, labels, tuple(photographs.info.classes), sides, photographs.info)
