"""Any bytes give a Packet or a PeerError, in few words and little memory."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.codec.json_codec import JsonCodec
from flnet.errors import InvalidMessage, ParamsRefused, PeerError, UnreadableBody
from flnet.messages import (
    Accuracy,
    Announce,
    EditHyperParams,
    JobMessage,
    Message,
    ModelParams,
    StartTraining,
    Trigger,
    Triggered,
)
from tests.codec.bodies import ACCURACY, PRINTED, UPDATE, body_with

CODEC = JsonCodec()
KINDS: list[type[Message]] = [kind for kind, _ in PRINTED] + [Trigger, EditHyperParams, Triggered]

# --- bodies that are none


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b'{"iAm": "\xc3"}',
        b'"\\ud800"',
        b"\xef\xbb\xbf{}",
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
        b'{"iAm": ' + b"1" * 10_000_000 + b"}",
        b'{"accuracy": NaN}',
        b'{"accuracy": Infinity}',
        b'{"accuracy": 1e999}',
        UPDATE[:-1].encode(),
        UPDATE[: len(UPDATE) // 2].encode(),
        b"{} {}",
        b"\x00",
        b"\x80\x04\x95",
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value[:12]),
)
def test_bytes_that_are_no_json_are_unreadable(kind: type[Message], body: bytes) -> None:
    with pytest.raises(UnreadableBody, match="the body is no JSON"):
        CODEC.decode(kind, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"[]", b"3", b"1.5", b"null", b"true", b'"text"', b"[" * 900 + b"]" * 900])
def test_json_that_is_no_object_is_unreadable(kind: type[Message], body: bytes) -> None:
    with pytest.raises(UnreadableBody, match="expected a JSON object, got"):
        CODEC.decode(kind, body)


def test_nesting_that_can_be_read_is_refused_in_few_words() -> None:
    deep = b"[" * 900 + b"]" * 900
    with pytest.raises(InvalidMessage, match="iAm") as refusal:
        CODEC.decode(Announce, b'{"iAm": ' + deep + b"}")
    assert len(refusal.value.message) < 500
    with pytest.raises(ParamsRefused, match="dimensions"):
        CODEC.decode(ModelParams, UPDATE.replace("[]", deep.decode(), 1).encode())


def test_of_two_fields_of_one_name_the_last_counts() -> None:
    message = CODEC.decode(StartTraining, UPDATE[:-1].encode() + b', "round": 7}').message
    assert isinstance(message, StartTraining)
    assert message.round == 7


@pytest.mark.parametrize("cut", range(len(ACCURACY)))
def test_no_truncated_body_is_read(cut: int) -> None:
    with pytest.raises(UnreadableBody):
        CODEC.decode(Accuracy, ACCURACY[:cut].encode())


# --- any bytes give a Packet or a PeerError


def read_or_refuse(kind: type[Message], body: bytes) -> None:
    refusal = None
    try:
        assert isinstance(CODEC.decode(kind, body).message, kind)
    except PeerError as exc:
        refusal = exc
    assert refusal is None or len(refusal.message) < 2_000


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=200))
def test_random_bytes(kind: type[Message], body: bytes) -> None:
    read_or_refuse(kind, body)


BODIES = [(kind, body.encode()) for kind, body in PRINTED] + [
    (ModelParams, body_with({"w": [[1.0, 2.0], [3.0, -4.5e-7]], "b": [1, 2], "s": 3.5})),
    (Trigger, b'{"trainerId": "MNIST", "rounds": 3, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 8}}'),
    (EditHyperParams, b'{"e": 3, "u": 0.01, "b": 32}'),
    (Triggered, b'{"trainerId": "MNIST", "round": 4}'),
]
edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4)


@given(st.sampled_from(BODIES), edits)
@settings(max_examples=400)
def test_damaged_bodies(whole: tuple[type[Message], bytes], changes: list[tuple[int, int, bytes]]) -> None:
    kind, body = whole
    for anywhere, removed, put in changes:
        place = anywhere % (len(body) + 1)
        body = body[:place] + put + body[place + removed :]
    read_or_refuse(kind, body)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.data())
@settings(max_examples=400)
def test_wrong_values_in_the_right_fields(data: st.DataObject) -> None:
    kind, body = data.draw(st.sampled_from(BODIES))
    fields = json.loads(body)
    names = [info.alias for info in kind.model_fields.values()] + ["modelParams"]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        fields[name] = data.draw(values)
    nested = fields.get("federatedLearningParams")
    if isinstance(nested, dict) and issubclass(kind, JobMessage):
        nested["e"] = data.draw(values)
    read_or_refuse(kind, json.dumps(fields).encode())
