"""Twin nodes with models, inputs and answers for the tests of the views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.errors import OwnMachineOnly
from flnet.node.interface import Download, PredictionInput, View
from flnet.params.params import Array, Params, TrainerId
from flnet.rounds.view import JobView
from flnet.wire.binary_codec import BinaryCodec
from tests.web.fake_node import FakeNode

DIGITS: Mapping[str, Any] = {
    "kind": "image",
    "shape": [28, 28],
    "low": 0,
    "high": 255,
    "names": [],
    "hint": "one digit, white on black",
}
TABLE: Mapping[str, Any] = {
    "kind": "table",
    "shape": [3],
    "low": None,
    "high": None,
    "names": ["age", "height", "weight"],
    "hint": "",
}
OLD, NEW = "ab" * 32, "cd" * 32
EVIL = "<img src=x onerror=alert(1)>"


class ViewNode(FakeNode):
    """A node whose jobs say what predictions take, and that keeps models of our choice."""

    def __init__(self) -> None:
        super().__init__()
        self.more: dict[str, dict[str, Any]] = {
            "MNIST": {"inputs": DIGITS, "formats": ["safetensors", "onnx", "folder", "html"]}
        }
        self.kept: dict[str, Mapping[str, Array]] = {}
        self.listed: list[View] = []
        self.answer: View = {
            "classes": ["0", "1", "2"],
            "probabilities": [[0.1, 0.7, 0.2]],
            "predicted": ["1"],
            "model": {"digest": NEW, "round": 3, "accuracy": 0.9},
            "note": "",
        }

    def job(self, trainer: TrainerId) -> JobView:
        fields = super().job(trainer).as_json()
        return JobView.model_validate({**fields, **self.more.get(trainer, {})})

    def keep(self, digest: str, params: Mapping[str, Array], **figures: Any) -> None:
        """Add a model to the registry, after the existing ones."""
        self.kept[digest] = params
        said = {"round": 1, "contributors": 3, "accuracy": 0.5, "exchanged_with": None, "bytes": 440_616}
        self.listed.append({"digest": digest, "held": not self.listed, **said, **figures})

    async def models(self, trainer: TrainerId) -> Sequence[View]:
        self._job(trainer)
        return list(self.listed)

    async def restore(self, trainer: TrainerId, digest: str) -> JobView:
        job = await super().restore(trainer, digest)
        self.listed = [{**one, "held": one["digest"] == digest} for one in self.listed]
        return job

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        await super().pin(trainer, digest, pinned)
        self.listed = [{**one, "pinned": pinned} if one["digest"] == digest else one for one in self.listed]
        return next(one for one in self.listed if one["digest"] == digest)

    async def export(self, trainer: TrainerId, digest: str, form: str, *, same_machine: bool) -> Download:
        if not same_machine:
            raise OwnMachineOnly("ask from the machine that it runs on")
        body = bytes(BinaryCodec().encode_params(Params(self.kept[digest]), {}))
        return Download(body, "application/octet-stream", f"{trainer}.{form}")

    async def predict(self, trainer: TrainerId, question: PredictionInput) -> View:
        await super().predict(trainer, question)
        return self.answer


def two_models(node: ViewNode) -> None:
    """Keep two models that differ by one in one number of four."""
    node.keep(NEW, {"w": np.array([1.0, 2.0, 3.0], np.float32), "b": np.ones(1, np.float32)}, accuracy=0.9321)
    other = {"w": np.array([1.0, 2.0, 4.0], np.float32), "b": np.ones(1, np.float32)}
    node.keep(OLD, other, round=0, accuracy=None, exchanged_with="NODE_2")


def with_two_models() -> ViewNode:
    """A node that keeps those two models."""
    made = ViewNode()
    two_models(made)
    return made
