from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.holder import Acceptance, AlignmentOpening, Chunk, Kind, PairKey
from flnet.algorithms.vertical.split_messages import (
    BottomClosed,
    CutGradients,
    CutOutputs,
    EpochClosed,
    Resumed,
    TopShared,
)
from flnet.algorithms.vertical.wire_form import Message, read, read_fields, written
from flnet.errors import BatchRefused, CutLayerRefused, InvalidMessage
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.messages import HyperParams, Packet, Peer
from flnet.protocol.vertical import ChunkPart, OutputsPart, VerticalMessage
from flnet.trainer import Score
from flnet.wire.binary_codec import BinaryCodec
from flnet.wire.json_codec import JsonCodec

HEX = Digest("ab" * 32)
A, B = PeerId("a"), PeerId("b")
VALUES = np.array([[0.1, -2.5e-30], [3, 1 / 3]], np.float32)
MESSAGES: list[Message] = [
    AlignmentOpening("s", "a", ("a", "b"), "flnet-psi-1", "flnet-ids-1", "g", 7, 1024),
    Acceptance("s", "a", 9),
    PairKey("s", "a", bytes(range(32))),
    Chunk("s", "a", Kind.TABLE, 2, 70, bytes(range(64))),
    CutOutputs(A, 3, 1, HEX, VALUES, hold_out=True),
    CutGradients(A, 3, 1, HEX, VALUES),
    BottomClosed(A, 3, HEX),
    TopShared(A, 3, Params({"0.weight": VALUES, "0.bias": VALUES[0]}), 40),
    EpochClosed(A, 3, 0.25, Score(0.75, 8, {"auc": 0.9}), {A: HEX, B: HEX}, HEX),
    EpochClosed(A, 3, 0.25, None, {A: HEX}, HEX),
    Resumed(A, 3, HEX),
]


def message(**fields: Any) -> VerticalMessage:
    part, _ = written(MESSAGES[1])
    values: dict[str, Any] = {"session": "s", "number": 0, "parts": (part,)}
    return VerticalMessage(
        i_am=Peer(id="a", ip="127.0.0.1", port=4000),
        trainer_id="T",
        round=3,
        federated_learning_params=HyperParams(e=1, u=0.1, b=8),
        **{**values, **fields},
    )


def as_shown(value: Message) -> Any:
    fields = dict(vars(value))
    for name, field in fields.items():
        if isinstance(field, np.ndarray):
            fields[name] = (field.dtype.name, field.tolist())
        if isinstance(field, Params):
            fields[name] = {key: array.astype(np.float32).tolist() for key, array in field.items()}
    return type(value).__name__, fields


@pytest.mark.parametrize("codec", [JsonCodec(), BinaryCodec()], ids=["json", "binary"])
def test_all_messages_come_back_as_they_were_in_both_forms_of_bodies(codec: JsonCodec | BinaryCodec) -> None:
    parts: list[Any] = []
    arrays: dict[str, Any] = {}
    for number, sent in enumerate(MESSAGES):
        part, values = written(sent)
        parts.append(part)
        arrays |= {f"{number}/{name}": array for name, array in values.items()}
    body = bytes(codec.encode(Packet(message(parts=parts), Params(arrays))))
    packet = codec.decode(VerticalMessage, body)
    assert packet.params is not None
    for number, (sent, part) in enumerate(zip(MESSAGES, packet.message.parts, strict=True)):  # type: ignore[attr-defined]
        prefix = f"{number}/"
        own = Params({n.removeprefix(prefix): a for n, a in packet.params.items() if n.startswith(prefix)})
        assert as_shown(read(part, own, "s", A, ("a", "b"))) == as_shown(sent)  # type: ignore[arg-type]
        assert read_fields(part.as_dict()) == part


def test_a_part_without_its_arrays_or_with_others_is_refused() -> None:
    outputs = OutputsPart(epoch=0, step=0, batch=HEX)
    with pytest.raises(BatchRefused, match="expected the arrays values with outputs, got none"):
        read(outputs, Params(), "s", A, ())
    with pytest.raises(BatchRefused, match="got other"):
        read(outputs, Params({"other": VALUES}), "s", A, ())


def test_arrays_of_another_form_are_refused() -> None:
    outputs = OutputsPart(epoch=0, step=0, batch=HEX)
    with pytest.raises(CutLayerRefused, match=r"table of numbers, got float32 \[2\]"):
        read(outputs, Params({"values": VALUES[0]}), "s", A, ())
    with pytest.raises(CutLayerRefused, match="list of bytes"):
        read(ChunkPart(list="own", number=0, total=1), Params({"items": np.array([300])}), "s", A, ())


@pytest.mark.parametrize(
    "fields",
    [
        {"session": "a b"},
        {"parts": []},
        {"number": -1},
        {"parts": [{"kind": "shout"}]},
        {"parts": [{"kind": "acceptance", "count": 2, "more": 1}]},
        {"parts": [{"kind": "acceptance", "count": -1}]},
        {"parts": [{"kind": "chunk", "list": "mine", "number": 0, "total": 1}]},
        {"parts": [{"kind": "outputs", "epoch": 0, "step": 0, "batch": "xyz"}]},
        {"parts": [{"kind": "abandon", "reason": "x" * 501}]},
    ],
)
def test_what_is_no_part_or_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    wire = {**message().fields(), **fields}
    with pytest.raises(InvalidMessage):
        VerticalMessage.read(wire)
