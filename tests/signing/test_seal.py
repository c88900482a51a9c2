from collections.abc import Callable, Mapping
from hashlib import sha256

import pytest

from flnet.errors import TransportError
from flnet.signing import Gate, Seal
from flnet.signing.refusals import StrangerThere
from flnet.signing.seal import MOST_ADDRESSES
from tests.signing.keypairs import OTHER_MESH, RUN, TestKey, admitted, gate, learnt, seal, sent

JSON = "application/json"
ANSWER = b'{"announceYourselfToPeers": []}'


def header(headers: Mapping[str, str]) -> Callable[[str], str | None]:
    return {"Content-Type": JSON, **headers}.get


def answer_of(b: Gate, headers: Mapping[str, str], status: int = 201) -> Mapping[str, str]:
    return b.answer(admitted(b, headers), status, JSON, sha256(ANSWER).digest())


def test_the_answer_of_the_node_that_was_asked_is_proven() -> None:
    b = gate()
    request = sent(learnt(seal(), b))

    proven = request.answered(201, header(answer_of(b, request.headers)))

    assert proven is not None and proven.key == TestKey(2).text
    proven.came(sha256(ANSWER).digest())
    with pytest.raises(TransportError, match="changed on the way"):
        proven.came(sha256(b"{}").digest())


def test_content_that_proves_itself_needs_no_digest() -> None:
    b = gate()
    request = learnt(seal(), b).request("b:1", "GET", "/training/model_params/ab", "", sha256(b"").digest())
    caller = admitted(b, request.headers, "/training/model_params/ab", "GET")

    proven = request.answered(200, header(b.answer(caller, 200, JSON, None)))

    assert proven is not None and proven.sha256 is None
    with pytest.raises(TransportError):
        proven.came(sha256(b"").digest())


def test_the_answer_to_another_request_is_none() -> None:
    b = gate()
    a = learnt(seal(), b)
    first, second = sent(a), sent(a)
    recorded = answer_of(b, first.headers)

    with pytest.raises(TransportError, match="not its own"):
        second.answered(201, header(recorded))


def test_another_status_type_or_digest_than_the_signed_one_is_no_answer() -> None:
    b = gate()
    request = sent(learnt(seal(), b))
    signed = answer_of(b, request.headers)

    digest = {"Content-Digest": "sha-256=:" + "A" * 43 + "=:"}
    bare = {name: value for name, value in signed.items() if name != "Content-Digest"}
    for status, headers in (
        (200, signed),
        (201, {**signed, "Content-Type": "x"}),
        (201, {**signed, **digest}),
        (201, bare),
    ):
        with pytest.raises(TransportError):
            request.answered(status, header(headers))


def test_nobody_without_the_mesh_key_answers_in_a_nodes_name() -> None:
    b, thief = gate(), gate(mesh=OTHER_MESH)
    request = sent(learnt(seal(), b))
    forged = thief.answer(admitted(b, request.headers), 201, JSON, sha256(ANSWER).digest())

    with pytest.raises(TransportError, match="not its own"):
        request.answered(201, header(forged))


def test_another_node_of_the_mesh_cannot_answer_either() -> None:
    b, c = gate(), gate(3)
    request = sent(learnt(seal(), b))
    forged = c.answer(admitted(b, request.headers), 201, JSON, sha256(ANSWER).digest())

    with pytest.raises(TransportError, match="another node"):
        request.answered(201, header(forged))


def test_an_unsigned_answer_is_none_unless_it_refuses() -> None:
    request = sent(learnt(seal(), gate()))

    with pytest.raises(TransportError, match="not signed"):
        request.answered(201, header({}))
    with pytest.raises(TransportError, match="not signed"):
        request.answered(409, header({}))
    assert request.answered(403, header({})) is None


def test_a_challenge_is_learnt_once() -> None:
    a, b = seal(), gate()
    first = sent(a)
    assert first.headers == {"Flnet-Receiver": "?"}
    challenge = header({"WWW-Authenticate": b.me.challenge})

    assert not a.learn("b:1", first, 403, challenge)
    assert a.learn("b:1", first, 401, challenge)
    again = sent(a)
    assert again.headers["Flnet-Receiver"] == str(b.me)
    assert not a.learn("b:1", again, 401, challenge)  # it would end as before


def test_a_new_session_is_learnt() -> None:
    a = learnt(seal(), gate())
    restarted = gate(session="e" * 32)

    assert a.learn("b:1", sent(a), 401, header({"WWW-Authenticate": restarted.me.challenge}))
    admitted(restarted, sent(a).headers)


@pytest.mark.parametrize("said", ["", "Basic realm=x", 'Flnet key="x", session="y"', 'Flnet key="", session=""'])
def test_another_challenge_teaches_nothing(said: str) -> None:
    a = seal()

    assert not a.learn("b:1", sent(a), 401, header({"WWW-Authenticate": said}))


def test_as_many_addresses_are_known_as_there_is_room_for() -> None:
    a, b = seal(), gate()
    for number in range(MOST_ADDRESSES + 1):
        learnt(a, b, f"b:{number}")

    assert "Signature" not in sent(a, address="b:0").headers
    assert "Signature" in sent(a, address="b:1").headers


def test_without_a_mesh_key_the_nodes_own_keys_prove() -> None:
    b = gate(mesh=None)
    a: Seal = learnt(seal(mesh=None), b)
    request = sent(a)

    assert "mesh=" not in request.headers["Signature"]
    proven = request.answered(201, header(answer_of(b, request.headers)))
    assert proven is not None and proven.key == TestKey(2).text


def test_nothing_is_signed_for_a_node_that_is_not_trusted_but_who_this_is() -> None:
    trusted = {TestKey(2).text}
    sender = Seal(TestKey(1), None, RUN, trusted.__contains__)
    assert sender.key_at("b:1") == ""
    learnt(sender, gate(mesh=None))
    assert sender.key_at("b:1") == TestKey(2).text
    assert "Signature" in sent(sender).headers
    trusted.clear()
    knock = sender.request("b:1", "POST", "/announce", "", sha256(b"{}").digest(), JSON, stranger=True)
    assert admitted(gate(mesh=None), knock.headers).key == TestKey(1).text
    with pytest.raises(StrangerThere) as refusal:
        sent(sender)
    assert refusal.value.key == TestKey(2).text and "not accepted here" in str(refusal.value)
    assert "Signature" not in sent(sender).headers  # somebody else may be there now: it is asked who
