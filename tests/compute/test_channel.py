"""Messages over a pair of sockets: all that is sent comes, and nothing that comes does harm."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.assignment import Assignment
from flnet.compute.channel import (
    CancelOrder,
    ChildChannel,
    Garbled,
    OrderBegun,
    ProgressReport,
    WorkOrder,
    WorkReply,
    pack,
    receive_message,
    send_message,
)
from flnet.compute.verbs import (
    VERBS,
    ConfusionRequest,
    DiagnoseRequest,
    EvaluateRequest,
    ExportRequest,
    FitRequest,
    FitResult,
    MembershipRequest,
    OpenEpochRequest,
    OutputsRequest,
    PersonaliseRequest,
    PersonaliseResult,
    PredictRequest,
    PrepareRequest,
    PrepareResult,
    TurnRequest,
    VerticalPredictRequest,
)
from flnet.compute.vertical import AskedOutputs, AskedPrediction, FoundOutputs, HolderAnswer, Opened, VerticalTurn
from flnet.errors import DataMissing, FlnetError, InputRefused, NotOffered, SitsOut, TrainerError, WorkerDied
from flnet.labels.spaces import Correspondence, Labelling
from flnet.params.params import Params
from flnet.protocol.events import Declaration, Turn
from flnet.text import Text, text
from flnet.trainer import (
    Fit,
    InCoarse,
    Method,
    NoisySteps,
    Partition,
    Prediction,
    RowPrivacy,
    Score,
    TrainerFile,
    TrainerSettings,
)
from tests.helpers import HYPER, params
from tests.labels.spaces import COARSE, FINE, NESTED

Pair = tuple[ChildChannel, ChildChannel]
MODEL = params(w=np.arange(6, dtype="float32").reshape(2, 3), steps=np.int64(3), none=np.zeros((0, 2), "float32"))
SCORE = Score(0.5, 4, {"loss": 0.25})
LABELS = Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED), "parallel", 7, rows=50)
SETTINGS = TrainerSettings(
    Path("data"), Path("state"), (1, 2), 3, 2, Partition.parse("dirichlet:0.3"), "cpu", 7.5,
    Method("proximal:0.1", "apfl:0.5:0.01", "local", controls=True, row_privacy=True), LABELS,
)  # fmt: skip
ASSIGNMENT = Assignment(TrainerFile("T", "T.py", module="m", frameworks=frozenset({"torch"})), SETTINGS)
DECLARATION = Declaration(
    "T",
    HYPER,
    0.02,
    ("w",),
    {"steps": "max"},
    {"rows": {"train": 3}},
    turn=Turn("parallel"),
    limits={"epochs": 9, "learning_rate": 0.5},
)
COARSE_PREDICTION = InCoarse("two", ("a", "b"), np.ones((2, 2), np.float32), estimated=True)
REQUESTS = [
    PrepareRequest(reload=True),
    FitRequest(MODEL, HYPER, 1, round=4),
    FitRequest(MODEL, HYPER, 1, row_privacy=RowPrivacy(1.5, 0.5)),
    PersonaliseRequest(MODEL, HYPER, 1, split="validation"),
    EvaluateRequest(MODEL),
    EvaluateRequest(MODEL, "validation"),
    ConfusionRequest(MODEL),
    PredictRequest(MODEL, np.ones((2, 3), np.float32)),
    PredictRequest(MODEL, b"picture"),
    DiagnoseRequest(MODEL),
    MembershipRequest(MODEL),
    ExportRequest(MODEL, {"format": "onnx"}),
    OpenEpochRequest(Opened("a", "s", {"closed": 3}, HYPER, MODEL, {"epoch": 3}, np.arange(4), "ab")),
    OutputsRequest(AskedOutputs(3, HYPER, MODEL, np.arange(4), "ab", ("x", 7))),
    OutputsRequest(AskedOutputs(3, HYPER, MODEL, np.arange(4), "ab", (), np.arange(2))),
    VerticalPredictRequest(AskedPrediction("a", HYPER, MODEL, MODEL, 5)),
    TurnRequest("s", [{"sender": "b", "part": {"kind": "alive"}, "arrays": MODEL}]),
]
RESULTS = [
    PrepareResult(DECLARATION, MODEL),
    FitResult(Fit(MODEL, 3, 2, {"loss": 0.5}), SCORE),
    FitResult(Fit(MODEL, 3, noisy=NoisySteps(0.25, 7)), SCORE),
    PersonaliseResult(MODEL, SCORE),
    SCORE,
    replace(SCORE, split="validation"),
    Prediction(np.ones((2, 1))),
    Prediction(np.ones((2, 1)), "any_of", 0.4, ("local", "global"), (0.1, 9.0), 1.5, COARSE_PREDICTION),
    {"kind": "groups", "tried": [{"k": 1, "silhouette": None}], "rows": np.int64(3)},
    b"a file",
    FoundOutputs(np.arange(2), [1], np.ones((2, 3), np.float32)),
    HolderAnswer(np.ones((2, 2), np.float32), "one_of", ["no", "yes"]),
    VerticalTurn(
        [{"to": "b", "part": {"kind": "alive"}, "arrays": MODEL}], "closed", 2, 3, params=MODEL, rows=np.arange(3)
    ),
]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        yield a, b


@pytest.fixture
def channels(ends: tuple[socket.socket, socket.socket]) -> Pair:
    return ChildChannel(ends[0]), ChildChannel(ends[1])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays in them number by number."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Params) or not (isinstance(one, Mapping | tuple) or is_dataclass(one)):
        return bool(one == other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda value: type(value).__name__)
def test_an_order_comes_as_it_was_sent(channels: Pair, request_: Any) -> None:
    order = WorkOrder(7, ASSIGNMENT, request_)
    channels[0].send(order)
    assert same(channels[1].receive(), order)


@pytest.mark.parametrize("result", RESULTS, ids=lambda value: type(value).__name__)
def test_a_result_comes_as_it_was_sent(channels: Pair, result: Any) -> None:
    channels[0].send(WorkReply(result, None, frozenset({"torch"})))
    reply = channels[1].receive()
    expected = {**result, "rows": 3} if isinstance(result, dict) else result
    assert same(reply.result, expected)
    assert (reply.error, reply.loaded) == (None, {"torch"})


def test_every_verb_can_be_sent() -> None:
    assert {type(request) for request in REQUESTS} == set(VERBS)
    assert {type(result) for result in RESULTS} == {verb.result for verb in VERBS.values()}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataMissing("no digits", "fetch them"), DataMissing),
        (SitsOut("nothing to add"), SitsOut),
        (InputRefused("too many"), InputRefused),
        (NotOffered("no export"), NotOffered),
        (TrainerError("failed"), TrainerError),
        (WorkerDied("its own child"), TrainerError),
    ],
)
def test_an_error_keeps_its_class_and_its_words(channels: Pair, error: FlnetError, kind: type[FlnetError]) -> None:
    channels[0].send(WorkReply(None, error))
    came = channels[1].receive().error
    assert (type(came), came.message) == (kind, error.message)
    if isinstance(error, DataMissing):
        assert (came.missing, came.remedy) == (error.missing, error.remedy)


def test_a_text_can_still_be_translated(channels: Pair) -> None:
    channels[0].send(
        WorkReply(None, TrainerError(text("{name} failed in {where}", "T", text("its {part}", "fit"))))
    )
    message = channels[1].receive().error.message
    assert isinstance(message, Text) and isinstance(message.params["where"], Text)
    assert (message.template, message) == ("{name} failed in {where}", "T failed in its fit")


def test_what_has_no_form_is_not_sent(channels: Pair) -> None:
    values: list[Any] = [object(), {"x": {1, 2}}, [threading.Lock()]]
    for value in values:
        with pytest.raises(TypeError, match="cannot be sent"):
            channels[0].send(value)
    channels[0].send(CancelOrder(3))
    assert channels[1].receive() == CancelOrder(3)


@pytest.mark.parametrize("numbers", [1, 500_000])
def test_arrays_of_any_size_come_read_only(channels: Pair, numbers: int) -> None:
    sent = params(w=np.arange(numbers, dtype="float32"), double=np.arange(6.0).reshape(2, 3).T)
    sender = threading.Thread(target=channels[0].send, args=(sent,))
    sender.start()
    came = channels[1].receive()
    sender.join()
    assert came == sent
    assert not came["w"].flags.writeable


def test_the_end_of_the_other_side_is_no_message(ends: tuple[socket.socket, socket.socket]) -> None:
    ChildChannel(ends[0]).send(params(w=[1.0, 2.0]))
    whole = ends[1].recv(1000)
    for cut in range(len(whole)):
        a, b = socket.socketpair()
        with a, b:
            a.sendall(whole[:cut])
            a.close()
            assert ChildChannel(b).receive() is None


def message(body: Any, *, size: int | None = None, count: int = 0, more: bytes = b"") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return struct.pack(">IB", len(text) if size is None else size, count) + text + more


NO_ARRAYS: list[Any] = [
    3, ["<f4"], [["<f4", -1]], [["<f4", [-1]]], [["O", [1]]], [["<f4", ["1"]]], [["no", [1]]],
    [["<f4", [1] * 40]], [["<f4", [2**62, 2**62]]],
]  # fmt: skip
NO_VALUES: list[Any] = [
    {}, {"a": 1, "b": 2}, {"array": 0}, {"os.system": "ls"}, {"WorkOrder": {"number": 1}}, {"WorkOrder": []},
    {"params": {"w": "x"}}, {"Path": 3}, {"Labelling": {"dict": {}}}, {"HyperParams": {"dict": {"e": 0}}},
    {"bytes": "x"}, {"DataMissing": [1]},
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    "sent",
    [
        message(b"", size=2**31),
        message(b"{}", count=1),
        message(b"[]"),
        message(b"\xff\xff"),
        message(b"{,"),
        message({"value": None}),
        *(message({"value": None, "arrays": arrays}, more=bytes(99)) for arrays in NO_ARRAYS),
        *(message({"value": value, "arrays": []}) for value in NO_VALUES),
        b"what is this? no message, that is sure",
    ],
)
def test_nonsense_is_called_so(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    before = descriptors()
    ends[0].sendall(sent)
    with pytest.raises(Garbled):
        ChildChannel(ends[1]).receive()
    assert descriptors() == before


def test_random_bytes_end_in_a_value_in_nothing_or_in_garbled() -> None:
    chance, arrays = random.Random(4), list[Any]()
    whole = message(
        {"value": pack(REQUESTS[1], arrays), "arrays": [["<f4", [2, 3]], ["<i8", []], ["<f4", [0, 2]]]}
    )
    whole += b"".join(array.tobytes() for array in arrays)
    for _ in range(300):
        spoilt = bytearray(whole)
        for _ in range(chance.randrange(4)):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        a, b = socket.socketpair()
        with a, b:
            a.sendall(spoilt)
            a.close()
            try:
                ChildChannel(b).receive()
            except Garbled:
                continue


def test_messages_of_two_threads_do_not_mix(channels: Pair) -> None:
    ours, theirs = channels

    def send(name: str) -> None:
        for number in range(100):
            ours.send({"from": name, "fill": name * 5000, "w": np.full(50, number)})

    threads = [threading.Thread(target=send, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    came = [theirs.receive() for _ in range(200)]
    for thread in threads:
        thread.join()
    assert all(value["fill"] == value["from"] * 5000 and len(set(value["w"])) == 1 for value in came)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_descriptors_are_taken_up_to_a_number_and_closed_beyond_it(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    before = descriptors()
    send_message(ends[0], {"with": "two"}, [0, 0])
    came = receive_message(ends[1], 2)
    assert came is not None
    assert (came[0], [os.get_inheritable(descriptor) for descriptor in came[1]]) == (
        {"with": "two"},
        [False, False],
    )
    for descriptor in came[1]:
        os.close(descriptor)
    send_message(ends[0], {}, [0, 0, 0])
    with pytest.raises(Garbled, match="3 descriptors"):
        receive_message(ends[1], 2)
    assert descriptors() == before


def test_progress_is_two_numbers(channels: Pair) -> None:
    channels[0].send(ProgressReport(1, 2))
    assert channels[1].receive() == ProgressReport(1, 2)


def test_what_is_offered_to_a_side_that_does_not_read_is_not_sent() -> None:
    ours, theirs = (ChildChannel(end) for end in socket.socketpair())
    for number in range(2_000):  # without an end, this would wait for ever
        ours.offer(OrderBegun(number))
    ours.shut()
    with pytest.raises(BrokenPipeError):
        ours.offer(OrderBegun(0))
    numbers = []
    while (message := theirs.receive()) is not None:
        numbers.append(message.number)
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < 2_000
    ours.close()
    ours.shut()  # of what is closed: nothing
    theirs.close()
