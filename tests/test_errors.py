"""The error tree: whose fault decides the status, and every error can be told from the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from flnet import errors
from flnet.errors import (
    AddressRefused,
    FlnetError,
    LocalError,
    PeerError,
    TooManyMessages,
    TooManyRequests,
    TransportError,
)
from flnet.text import code_of, text

SAMPLES: list[FlnetError] = [
    errors.DataMissing("no MNIST files", "put them under FLNET_DATASETS_PATH"),
    errors.BodyTooLarge(10, 11),
    errors.UnknownTrainer("X", ["MNIST"]),
    errors.NoData("MNIST", "no files"),
    errors.UnknownPath("/x"),
    errors.StaleRound(3, 5),
    errors.RoundAhead(5000, 3),
    errors.RoundLost(3, "b", "a"),
    errors.IdTaken("a"),
    errors.PeerRefused(409, "stale_round", "too late", 5),
    AddressRefused("10.0.0.1:22", "no reason"),
    TooManyMessages(3),
    TooManyRequests("words", 2),
    errors.StrangerThere("10.0.0.1:4000", ""),
    errors.OtherMesh("lab", "flnet"),
    errors.OtherBottomModel("a", 3, "d4", "d5"),
    errors.OtherMeshThere("10.0.0.1:4000", "lab", "flnet"),
]


def family(kind: type[FlnetError] = FlnetError) -> Iterator[type[FlnetError]]:
    """All errors of the tree; what a module adds for its own use stays in it."""
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from family(child)


def example(kind: type[FlnetError]) -> FlnetError:
    ready = [sample for sample in SAMPLES if type(sample) is kind]
    return ready[0] if ready else kind("words")


def drawn_tree() -> dict[str, int | None]:
    lines = re.findall(r"^[ │]*[├└]── (\w+)(?: +(\d{3}))?", errors.__doc__ or "", re.MULTILINE)
    return {name: int(status) if status else None for name, status in lines}


def test_the_root_is_not_raised() -> None:
    with pytest.raises(TypeError, match="raise one of its children"):
        FlnetError("words")


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = drawn_tree()
    assert set(drawn) == {kind.__name__ for kind in family()}
    for kind in family():
        assert drawn[kind.__name__] in (None, kind.status), kind


def test_every_fault_has_its_own_code() -> None:
    codes = [kind.code for kind in family()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


@pytest.mark.parametrize("kind", list(family()), ids=lambda kind: kind.__name__)
def test_the_status_tells_whose_fault_it_is(kind: type[FlnetError]) -> None:
    HTTPStatus(kind.status)
    if issubclass(kind, LocalError):
        assert kind.status == 500
    elif issubclass(kind, PeerError):
        assert 400 <= kind.status < 500 or kind.code in {"not_ready", "no_room"}
    else:
        assert issubclass(kind, TransportError)


@pytest.mark.parametrize("kind", list(family()), ids=lambda kind: kind.__name__)
def test_every_error_has_words(kind: type[FlnetError]) -> None:
    error = example(kind)
    assert error.message
    assert str(error) == error.message
    assert isinstance(dict(error.details()), dict)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SAMPLES[0], "no MNIST files; put them under FLNET_DATASETS_PATH"),
        (errors.BodyTooLarge(10, 11), "the body may have at most 10 bytes here, but it has 11 bytes"),
        (errors.BodyTooLarge(10), "the body may have at most 10 bytes here, but it has more"),
        (errors.UnknownTrainer("X", ["A", "B"]), "this node has no trainer 'X'; it has A, B"),
        (errors.UnknownTrainer("X", []), "this node has no trainer 'X'; it has none"),
        (errors.UnknownPath("/x"), "no endpoint '/x' takes messages here"),
        (errors.StaleRound(3, 5), "the message is for round 3, but round 5 has been reached here"),
        (errors.PeerRefused(409, "job_busy", "later"), "answered 409 job_busy: later"),
    ],
)
def test_wordings_say_what_was_expected_and_what_came(error: FlnetError, words: str) -> None:
    assert error.message == words


def test_a_stale_caller_learns_the_round() -> None:
    assert errors.StaleRound(3, 5).details() == {"round": 5}
    assert errors.PeerRefused(409, "stale_round", "too late", 5).round == 5


@pytest.mark.parametrize("code", [None, 3, {"id": "no node"}, {"id": "{peer} is lost", "params": {"peer": "b"}}])
def test_the_refusal_of_a_peer_is_a_text_if_its_code_says_the_same(code: object) -> None:
    sentence = text("{peer} is unknown", "b")
    fields = {"error": "unknown_peer", "message": sentence, "text": code_of(sentence)}
    again = errors.PeerRefused.read(404, json.dumps(fields).encode()).answer
    assert again == sentence and code_of(again) == code_of(sentence)
    lying = errors.PeerRefused.read(404, json.dumps({**fields, "text": code}).encode()).answer
    assert lying == sentence and type(lying) is str


@pytest.mark.parametrize(
    "body",
    [
        b"SECRET",
        b'"SECRET"',
        b"[" * 100_000 + b"SECRET",
        b'{"message": "SECRET"}',
        b'{"error": {"message": "SECRET"}}',
        b'{"error": "Not Found", "message": "SECRET", "path": "/SECRET"}',
        b'{"error": "SECRET", "message": "SECRET", "text": "SECRET"}',
    ],
)
def test_nothing_is_shown_of_what_another_service_answers(body: bytes) -> None:
    refused = errors.PeerRefused.read(404, body)
    assert refused.message == "answered 404 unknown: this is not the answer of a node"
    assert "SECRET" not in f"{refused.error} {refused.answer}"


def test_the_words_of_a_pinned_node_are_shown() -> None:
    said = json.dumps({"error": errors.TLS_NEEDED, "message": "this node is in a pinned mesh"}).encode()
    assert errors.PeerRefused.read(403, said).message == "answered 403 tls_needed: this node is in a pinned mesh"


def test_nodes_of_later_versions_are_quoted_by_their_texts() -> None:
    sentence = text("{peer} is unknown", "b")
    fields = {"error": "later", "message": sentence, "text": code_of(sentence)}
    assert errors.PeerRefused.read(404, json.dumps(fields).encode()).message == "answered 404 later: b is unknown"


# The errors that strangers meet, as they are answered.


@pytest.mark.parametrize(("seconds", "said"), [(0.02, 1), (1.0, 1), (1.1, 2), (30, 30)])
def test_who_asks_too_often_is_told_when_to_come_again(seconds: float, said: int) -> None:
    error = TooManyMessages(seconds)
    assert error.status == 429
    assert error.details() == {"retryAfter": said}
    assert f"again in {said} s" in error.message
