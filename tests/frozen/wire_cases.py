"""Every kind of message that travels between nodes, with fixed content, as fields and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ME = {"id": "north", "ip": "127.0.0.1", "port": "4000"}
YOU = {"id": "Süd 2", "ip": "::1", "port": "4001"}
DIGEST, BASE = "ab" * 32, "cd" * 32
KEY, SIGNATURE = "A" * 43 + "=", "B" * 86 + "=="
HYPER = {"e": 2, "u": 1e-05, "b": 64}
ROUND = {"iAm": ME, "trainerId": "MNIST", "round": 7, "federatedLearningParams": HYPER}
NEWS = {"id": "west", "ip": "10.0.0.3", "port": "4002", "state": "suspect", "incarnation": 3, "by": "north"}
STATED = {
    "run": "0123456789abcdef",
    "digest": DIGEST,
    "examples": 120,
    "labels": 10,
    "accuracy": 0.8125,
    "base": BASE,
    "schemaDigest": "ef" * 32,
    "key": KEY,
    "signature": SIGNATURE,
}
SERIES = {
    "by": "north",
    "first": 3,
    "until": "accuracy>=0.98, no-gain 5 0.001",
    "rounds": 40,
    "counted": 4,
    "best": 0.91,
    "stale": 1,
    "means": [[0.9, 0.31], [0.91, None]],
    "totalAccuracy": 3.6,
    "totalLoss": None,
}
CHOICE = {"members": ["north", "west", "Süd 2"], "take": 2}


@dataclass(frozen=True)
class Case:
    """One body.

    Attributes:
        kind: the message, as the protocol calls it.
        arrays: that travel beside it; None: none do.
    """

    name: str
    kind: str
    fields: Mapping[str, Any]
    arrays: Mapping[str, Any] | None = field(default=None)


def small() -> dict[str, Any]:
    """Arrays of every kind that is sent."""
    return {
        "weight": np.array([[0.1, -2.5], [3e-20, 7.0]], np.float32),
        "bias": np.array([1 / 3, 2**-40], np.float64),
        "steps": np.array([-3, 2**40], np.int64),
        "mask": np.array([True, False]),
        "scalar": np.array(0.25, np.float32),
        "none": np.zeros((0, 3), np.float32),
        "half": np.array([0.5, 65504.0], np.float16),
        "bytes": np.array([0, 255], np.uint8),
    }


def large() -> dict[str, Any]:
    """Arrays that are large enough to be rounded, with numbers that every machine computes alike."""
    whole = np.arange(1200, dtype=np.int64) * 7919 % 2003 - 1001
    return {
        "weight": (whole.astype(np.float32) / np.float32(512)).reshape(40, 30),
        "wide": whole.astype(np.float64) / 1024,
        "bias": np.array([0.1, 0.2], np.float32),
    }


def cases() -> Iterator[Case]:
    """All of them."""
    members = [NEWS, {"id": "Süd 2", "port": "4001", "state": "alive", "incarnation": 0}]
    announced = {"accepts": ["safetensors", "float16", "int8"], "incarnation": 2, "members": members, "key": KEY}
    yield Case("announce of the thesis", "Announce", {"iAm": {**ME, "ip": None}, "myKnownPeers": [YOU]})
    yield Case("announce", "Announce", {"iAm": ME, "myKnownPeers": [YOU], **announced, "knock": True})
    yield Case("answer to announce", "AnnounceReply", {"iAm": ME, "announceYourselfToPeers": [YOU], **announced})
    yield Case("probe", "Probe", {"iAm": ME, "incarnation": 1, "news": members, "key": KEY})
    yield Case("probe for another", "Probe", {"iAm": ME, "target": YOU, "reached": "west", "missed": "east"})
    yield Case("answer to probe", "ProbeReply", {"iAm": ME, "incarnation": 1, "news": members, "key": KEY})
    yield Case("start of the thesis", "StartTraining", ROUND, small())
    more = {"initiator": "north", "agreement": {"classes": "cat, dog"}, "run": "0123456789abcdef"}
    model = {"baseRound": 6, "contributors": 3, "digest": DIGEST, "restoredAt": 5}
    start = {**model, "series": SERIES, "choice": CHOICE}
    yield Case("start", "StartTraining", {**ROUND, **more, **start}, large())
    yield Case("start by digest", "StartTraining", {**ROUND, **more, **start})
    yield Case("update of the thesis", "ModelParams", ROUND, small())
    stated = {name: value for name, value in STATED.items() if name != "run"}
    update = {**ROUND, **more, **stated, "choice": CHOICE, "seconds": 1.25, "staleness": 2}
    yield Case("update", "ModelParams", update, large())
    yield Case("update by digest", "ModelParams", update)
    yield Case("decline", "ModelParams", {**ROUND, "declined": "its data is still being loaded", "late": True})
    report = {"accuracy": 0.75, "loss": 0.5, "over": "goal"}
    average = {"accuracy": 0.8125, "digest": DIGEST, "contributors": 4, "report": {**report, "over": None}}
    yield Case("accuracy of the thesis", "Accuracy", {**ROUND, "accuracy": 0.5}, small())
    yield Case("accuracy", "Accuracy", {**ROUND, **more, **average}, large())
    yield Case("answer to accuracy", "AccuracyReply", {"iAm": ME, **average}, large())
    yield Case("version", "AskVersion", {**ROUND, **STATED})
    yield Case("answer to version", "VersionReply", {"iAm": ME, "round": 7, **STATED})
    yield Case("trigger", "Trigger", {"trainerId": "MNIST", "rounds": 3, "federatedLearningParams": HYPER})
    yield Case("trigger until", "Trigger", {"trainerId": "MNIST", "until": "accuracy>=0.98"})
    yield Case("answer to trigger", "Triggered", {"trainerId": "MNIST", "round": 8})
    yield from vertical_cases()


POSITION = {
    "kind": "position",
    "columns": 3,
    "names": ["age", "Größe"],
    "hasLabel": True,
    "severalLabels": True,
    "width": 16,
    "rows": 1200,
    "rule": "flnet-ids-1",
    "group": "edwards25519",
    "seed": 11,
    "number": 6,
    "checkpoints": [
        {"epoch": 4, "bottom": DIGEST, "bottoms": None},
        {"epoch": 5, "bottom": BASE, "bottoms": {"north": BASE, "west": DIGEST}},
    ],
    "alignment": DIGEST,
    "alignedWith": ["north", "west"],
    "outputNoise": {"clip": 4.0, "multiplier": 0.3},
    "gradientNoise": {"rule": "isotropic", "scale": 10.0},
    "tellsScore": False,
    "inFlight": 4,
    "method": "split-network",
    "scheme": "",
    "hidesMatches": False,
}
OTHER_POSITION = {
    **{"columns": 0, "hasLabel": False, "width": 0, "rows": 9, "rule": "flnet-ids-1", "group": "edwards25519"},
    **{"kind": "position", "seed": 0, "number": -1},
}
KEY_POSITION = {
    **OTHER_POSITION,
    "rows": 0,
    "method": "encrypted-regression",
    "scheme": "CKKS 8192, SEAL 4.1",
    "hidesMatches": True,
}
CLOSED = {"kind": "epoch-closed", "epoch": 5, "loss": 0.25, "bottoms": {"north": DIGEST}, "top": BASE}
SCORE = {"accuracy": 0.8125, "examples": 240, "metrics": {"loss": 0.5, "auc": 0.875}}
BATCH = {"epoch": 5, "step": 17, "batch": DIGEST}
TERMS = {"protocol": "flnet-psi-1", "rule": "flnet-ids-1", "group": "edwards25519", "count": 1200, "chunk": 1024}
PARTS: Mapping[str, Mapping[str, Any]] = {
    "offer": {"kind": "offer", "afresh": True},
    "position": POSITION,
    "position of little": OTHER_POSITION,
    "begin": {
        **{"kind": "begin", "holders": {"north": POSITION, "west": OTHER_POSITION}},
        **{"closed": 5, "aligns": True, "seed": 11, "inFlight": 1},
    },
    "alive": {"kind": "alive"},
    "abandon": {"kind": "abandon", "again": True, "reason": "west is not reachable"},
    "opening": {"kind": "opening", **TERMS},
    "acceptance": {"kind": "acceptance", "count": 900},
    "pair key": {"kind": "pair-key"},
    "chunk": {"kind": "chunk", "list": "blinded", "number": 0, "total": 2},
    "outputs": {"kind": "outputs", **BATCH},
    "outputs of hold-out rows": {"kind": "outputs", **BATCH, "holdOut": True},
    "gradients": {"kind": "gradients", **BATCH},
    "bottom closed": {"kind": "bottom-closed", "epoch": 5, "digest": DIGEST},
    "top shared": {"kind": "top-shared", "epoch": 5, "examples": 960},
    "epoch closed": {**CLOSED, "score": SCORE},
    "epoch closed without score": CLOSED,
    "resumed": {"kind": "resumed", "epoch": 4, "digest": DIGEST},
    "position of a key holder": KEY_POSITION,
    "common rows": {"kind": "common-rows", "epoch": 5, "count": 900, "alignment": DIGEST, "weights": BASE},
    "hashed ids": {"kind": "hashed-ids", "epoch": 5, "number": 0, "total": 7},
    "order": {"kind": "order", "epoch": 5, "alignment": DIGEST},
    "encryption keys": {"kind": "encryption-keys", "epoch": 5, "masks": 3},
    "mask": {"kind": "mask", "epoch": 5, "batch": 0},
    "own weights": {"kind": "own-weights", "epoch": 5, "batch": 2, "weights": [0.1, -2.5e-20, 0.0]},
    "residual": {"kind": "residual", "epoch": 5, "batch": 2},
    "combined": {"kind": "combined", "epoch": 5, "batch": 2},
    "encrypted gradients": {"kind": "encrypted-gradients", "epoch": 5, "batch": 2},
    "hold-out terms": {"kind": "holdout-terms", "epoch": 5},
    "hold-out loss": {"kind": "holdout-loss", "epoch": 5},
    "predict": {"kind": "predict", "epoch": 5, "alignment": BASE, "batch": DIGEST},
    "predict outputs": {"kind": "predict-outputs", "epoch": 5, "batch": DIGEST, "bottom": BASE},
    "predicted": {
        **{"kind": "predicted", "epoch": 5, "batch": DIGEST, "top": BASE},
        **{"meaning": "any_of", "classes": ["no", "sí"]},
    },
    "predict refused": {"kind": "predict-refused", "reason": "its owner has not allowed it"},
}
"""Each kind of part of a VerticalMessage."""
SEALED = np.arange(7, dtype=np.uint8)
ARRAYS: Mapping[str, Mapping[str, Any]] = {
    "pair key": {"items": np.arange(32, dtype=np.uint8).reshape(1, 32)},
    "chunk": {"items": np.arange(64, dtype=np.uint8).reshape(2, 32)},
    "outputs": {"values": np.array([[0.1, -2.5], [3e-20, 7.0]], np.float32)},
    "outputs of hold-out rows": {"values": np.array([[1 / 3, 2**-40]], np.float64)},
    "gradients": {"values": np.array([[0.0, -1e-8]], np.float32)},
    "hashed ids": {"items": SEALED},
    "order": {"order": np.array([3, -1, 0], np.int64)},
    "encryption keys": {"public": SEALED, "holdout": SEALED},
    "mask": {"mask": SEALED},
    "residual": {"residual": SEALED},
    "combined": {"residual": SEALED, "gradient": SEALED},
    "encrypted gradients": {"gradient_a": SEALED, "gradient_b": SEALED},
    "hold-out terms": {"residual": SEALED, "own": SEALED},
    "hold-out loss": {"total": SEALED},
    "predict": {"places": np.array([0, 7, 2**40], np.int64)},
    "predict outputs": {"values": np.array([[0.1, -2.5], [3e-20, 7.0]], np.float32)},
    "predicted": {"values": np.array([[0.25, 0.75]], np.float32)},
    "top shared": {"w0": np.array([[0.1], [0.2]], np.float32), "b0": np.array([0.5], np.float32)},
}


def vertical_cases() -> Iterator[Case]:
    """What holders of different columns say to each other: each part alone, and several in one message."""
    head = {**ROUND, "initiator": "west", "session": "f3a1.4"}
    for name, part in PARTS.items():
        arrays = {f"0/{key}": array for key, array in ARRAYS.get(name, {}).items()} or None
        yield Case(f"vertical: {name}", "VerticalMessage", {**head, "number": 3, "parts": [part]}, arrays)
    several = ("resumed", "outputs", "outputs of hold-out rows")
    arrays = {f"{at}/{key}": a for at, name in enumerate(several) for key, a in ARRAYS.get(name, {}).items()}
    parts = [PARTS[name] for name in several]
    yield Case("vertical: several parts", "VerticalMessage", {**head, "number": 0, "parts": parts}, arrays)
    yield Case("vertical: without a number", "VerticalMessage", {**head, "parts": [PARTS["abandon"]]})
    yield Case("answer to vertical", "VerticalReply", {"iAm": ME, "session": "f3a1.4", "round": 7})
