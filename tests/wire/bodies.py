"""The example bodies of the thesis, section 3.3, in their printed order, and bodies made from them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import safetensors.numpy

from flnet.params.params import Params
from flnet.protocol.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    Message,
    ModelParams,
    StartTraining,
)

ANNOUNCE = (
    '{"iAm": {"id": "NODE_3", "ip": null, "port": "4002"},'
    ' "myKnownPeers": [{"id": "NODE_1", "ip": "127.0.0.1", "port": "4000"}]}'
)
ANNOUNCE_REPLY = (
    '{"announceYourselfToPeers": [{"id": "NODE_2", "ip": "127.0.0.1", "port": "4001"}],'
    ' "iAm": {"id": "NODE_4", "ip": null, "port": "4003"}}'
)
UPDATE = (
    '{"iAm": {"id": "NODE_1", "ip": null, "port": "4000"}, "trainerId": "MNIST",'
    ' "modelParams": {"weights": [], "bias": []}, "round": 0,'
    ' "federatedLearningParams": {"e": 2, "u": 1e-05, "b": 64}}'
)
ACCURACY = (
    '{"iAm": {"id": "NODE_1", "ip": null, "port": "4000"}, "trainerId": "MNIST",'
    ' "modelParams": {"weights": [], "bias": []}, "accuracy": 0.5, "round": 0,'
    ' "federatedLearningParams": {"e": 2, "u": 1e-05, "b": 64}}'
)
ACCURACY_REPLY = (
    '{"iAm": {"id": "NODE_2", "ip": null, "port": "4001"},'
    ' "modelParams": {"weights": [], "bias": []}, "accuracy": 0.7}'
)
PRINTED: list[tuple[type[Message], str]] = [
    (Announce, ANNOUNCE),
    (AnnounceReply, ANNOUNCE_REPLY),
    (StartTraining, UPDATE),
    (ModelParams, UPDATE),
    (Accuracy, ACCURACY),
    (AccuracyReply, ACCURACY_REPLY),
]


def body_with(arrays: Any) -> bytes:
    return json.dumps({**json.loads(UPDATE), "modelParams": arrays}).encode()


def earlier_int8(arrays: Params, message: Message | None = None) -> bytes:
    """A body as earlier versions write it: int8 with one scale for each large array of floats."""
    stored, scales = {}, {}
    for name, array in arrays.items():
        stored[name] = np.array(array)
        if array.size >= 1024 and array.dtype.kind == "f":
            fraction, exponent = np.frexp(np.float64(np.abs(array).max()) / 127)
            scale = float(np.ldexp(np.ceil(fraction * 65536), exponent - 16))
            scales[name] = [scale, array.dtype.name]
            stored[name] = np.rint(array / scale).astype(np.int8)
    metadata = {"flnet": "1", "scales": json.dumps(scales)}
    if message is not None:
        metadata["message"] = json.dumps(message.fields())
    return safetensors.numpy.save(stored, metadata)
