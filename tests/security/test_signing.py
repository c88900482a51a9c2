from collections.abc import Callable, Mapping
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError, SignatureNeeded, SignatureRefused, StrangerThere, TransportError
from flnet.security.signatures import MeshKey
from flnet.security.signing import (
    MOST_ADDRESSES,
    MOST_SENDERS,
    MOST_STRANGERS,
    WINDOW,
    Counters,
    RequestSigner,
    RequestVerifier,
)
from tests.security.keypairs import MESH, OTHER_MESH, RUN, SESSION, TestKey, admitted, learnt, seal, sent, verifier

JSON = "application/json"
ANSWER = b'{"announceYourselfToPeers": []}'


def header(headers: Mapping[str, str]) -> Callable[[str], str | None]:
    return {"Content-Type": JSON, **headers}.get


def answer_of(b: RequestVerifier, headers: Mapping[str, str], status: int = 201) -> Mapping[str, str]:
    return b.answer(admitted(b, headers), status, JSON, sha256(ANSWER).digest())


def test_the_answer_of_the_node_that_was_asked_is_proven() -> None:
    b = verifier()
    request = sent(learnt(seal(), b))

    proven = request.answered(201, header(answer_of(b, request.headers)))

    assert proven is not None and proven.key == TestKey(2).text
    proven.came(sha256(ANSWER).digest())
    with pytest.raises(TransportError, match="changed on the way"):
        proven.came(sha256(b"{}").digest())


def test_content_that_proves_itself_needs_no_digest() -> None:
    b = verifier()
    request = learnt(seal(), b).request("b:1", "GET", "/training/model_params/ab", "", sha256(b"").digest())
    caller = admitted(b, request.headers, "/training/model_params/ab", "GET")

    proven = request.answered(200, header(b.answer(caller, 200, JSON, None)))

    assert proven is not None and proven.sha256 is None
    with pytest.raises(TransportError):
        proven.came(sha256(b"").digest())


def test_the_answer_to_another_request_is_none() -> None:
    b = verifier()
    a = learnt(seal(), b)
    first, second = sent(a), sent(a)
    recorded = answer_of(b, first.headers)

    with pytest.raises(TransportError, match="not its own"):
        second.answered(201, header(recorded))


def test_another_status_type_or_digest_than_the_signed_one_is_no_answer() -> None:
    b = verifier()
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
    b, thief = verifier(), verifier(mesh=OTHER_MESH)
    request = sent(learnt(seal(), b))
    forged = thief.answer(admitted(b, request.headers), 201, JSON, sha256(ANSWER).digest())

    with pytest.raises(TransportError, match="not its own"):
        request.answered(201, header(forged))


def test_another_node_of_the_mesh_cannot_answer_either() -> None:
    b, c = verifier(), verifier(3)
    request = sent(learnt(seal(), b))
    forged = c.answer(admitted(b, request.headers), 201, JSON, sha256(ANSWER).digest())

    with pytest.raises(TransportError, match="another node"):
        request.answered(201, header(forged))


def test_an_unsigned_answer_is_none_unless_it_refuses() -> None:
    request = sent(learnt(seal(), verifier()))

    with pytest.raises(TransportError, match="not signed"):
        request.answered(201, header({}))
    with pytest.raises(TransportError, match="not signed"):
        request.answered(409, header({}))
    assert request.answered(403, header({})) is None


def test_a_challenge_is_learnt_once_and_that_of_a_new_session_again() -> None:
    a, b = seal(), verifier()
    first = sent(a)
    assert first.headers == {"Flnet-Receiver": "?"}
    challenge = header({"WWW-Authenticate": b.me.challenge})

    assert not a.learn("b:1", first, 403, challenge)
    assert a.learn("b:1", first, 401, challenge)
    again = sent(a)
    assert again.headers["Flnet-Receiver"] == str(b.me)
    assert not a.learn("b:1", again, 401, challenge)  # it would end as before
    restarted = verifier(session="e" * 32)
    assert a.learn("b:1", again, 401, header({"WWW-Authenticate": restarted.me.challenge}))
    admitted(restarted, sent(a).headers)


@pytest.mark.parametrize("said", ["", "Basic realm=x", 'Flnet key="x", session="y"', 'Flnet key="", session=""'])
def test_another_challenge_teaches_nothing(said: str) -> None:
    a = seal()

    assert not a.learn("b:1", sent(a), 401, header({"WWW-Authenticate": said}))


def test_as_many_addresses_are_known_as_there_is_room_for() -> None:
    a, b = seal(), verifier()
    for number in range(MOST_ADDRESSES + 1):
        learnt(a, b, f"b:{number}")

    assert "Signature" not in sent(a, address="b:0").headers
    assert "Signature" in sent(a, address="b:1").headers


def test_without_a_mesh_key_the_nodes_own_keys_prove() -> None:
    b = verifier(mesh=None)
    a: RequestSigner = learnt(seal(mesh=None), b)
    request = sent(a)

    assert "mesh=" not in request.headers["Signature"]
    proven = request.answered(201, header(answer_of(b, request.headers)))
    assert proven is not None and proven.key == TestKey(2).text


def test_nothing_is_signed_for_a_node_that_is_not_trusted_but_who_this_is() -> None:
    trusted = {TestKey(2).text}
    sender = RequestSigner(TestKey(1), None, RUN, trusted.__contains__)
    assert sender.key_at("b:1") == ""
    learnt(sender, verifier(mesh=None))
    assert sender.key_at("b:1") == TestKey(2).text
    assert "Signature" in sent(sender).headers
    trusted.clear()
    knock = sender.request("b:1", "POST", "/announce", "", sha256(b"{}").digest(), JSON, stranger=True)
    assert admitted(verifier(mesh=None), knock.headers).key == TestKey(1).text
    with pytest.raises(StrangerThere) as refusal:
        sent(sender)
    assert refusal.value.key == TestKey(2).text and "not accepted here" in str(refusal.value)
    assert "Signature" not in sent(sender).headers  # somebody else may be there now: it is asked who


# gate


BODY = b'{"iAm": {"id": "a"}}'


def test_what_a_node_of_the_mesh_signed_is_let_in_and_its_key_is_told() -> None:
    b = verifier()

    caller = admitted(b, sent(learnt(seal(), b), BODY).headers)

    assert caller.key == TestKey(1).text
    caller.sent(sha256(BODY).digest())


def test_who_did_not_sign_is_told_for_whom_to_sign() -> None:
    with pytest.raises(SignatureNeeded):
        admitted(verifier(), {})


def test_another_content_than_the_signed_one_is_refused() -> None:
    b = verifier()
    caller = admitted(b, sent(learnt(seal(), b), BODY).headers)

    with pytest.raises(SignatureRefused, match="changed on the way"):
        caller.sent(sha256(BODY + b" ").digest())


def test_a_signature_without_the_mesh_key_or_the_nodes_own_is_refused_in_words() -> None:
    class Liar(TestKey):
        text = TestKey(1).text

    b, liar = verifier(), seal(3)
    liar._node = Liar(3)
    renamed = dict(sent(learnt(seal(3), b)).headers)
    renamed["Signature-Input"] = renamed["Signature-Input"].replace(TestKey(3).text, TestKey(1).text)
    for receiver, headers, words in (
        (verifier(mesh=OTHER_MESH), sent(learnt(seal(), b)).headers, "FLNET_MESH_KEY"),
        (b, sent(learnt(seal(mesh=None), b)).headers, "mesh and node"),
        (b, renamed, "FLNET_MESH_KEY"),
        (b, sent(learnt(liar, b)).headers, "key that it names"),
    ):
        with pytest.raises(SignatureRefused, match=words):
            admitted(receiver, headers)


def test_who_still_signs_with_the_second_mesh_key_is_known_until_it_does_not() -> None:
    old, new = "correct horse battery staple", "incorrect horse battery staple"
    b = RequestVerifier(TestKey(2), MeshKey(new, old), lambda: SESSION)
    admitted(b, sent(learnt(seal(mesh=MeshKey(old)), b)).headers)
    assert b.users_of_other == {TestKey(1).text}
    admitted(b, sent(learnt(seal(mesh=MeshKey(new), run="f" * 16), b)).headers)
    assert b.users_of_other == set()
    assert verifier().users_of_other is None


def test_a_request_is_answered_once() -> None:
    b = verifier()
    headers = sent(learnt(seal(), b)).headers
    admitted(b, headers)

    with pytest.raises(SignatureRefused, match="second time"):
        admitted(b, headers)


def test_requests_that_overtake_each_other_are_all_let_in() -> None:
    b = verifier()
    a = learnt(seal(), b)

    for one in reversed([sent(a).headers for _ in range(16)]):
        admitted(b, one)


def test_a_request_for_another_path_query_method_type_node_or_start_is_refused() -> None:
    b, c = verifier(), verifier(3)
    a = learnt(seal(), b)
    changes: list[dict[str, str]] = [{"path": "/probe"}, {"query": "x=1"}, {"method": "PUT"}]
    for changed in changes:
        with pytest.raises(SignatureRefused):
            admitted(b, sent(a).headers, **changed)
    headers = sent(a).headers
    with pytest.raises(SignatureRefused):
        admitted(b, {**headers, "Content-Type": "application/vnd.flnet.safetensors"})
    for other in (c, verifier(session="f" * 32)):
        with pytest.raises(SignatureNeeded, match="another node"):
            admitted(other, headers)
    with pytest.raises(SignatureRefused):
        admitted(c, {**headers, "Flnet-Receiver": str(c.me)})  # the receiver is what was signed


def test_a_session_ends_when_it_has_seen_too_many_senders_and_no_request_of_it_is_taken_again() -> None:
    sessions = iter([SESSION, "f" * 32])
    b = RequestVerifier(TestKey(2), MESH, lambda: next(sessions))
    first = sent(learnt(seal(), b)).headers
    admitted(b, first)
    for number in range(MOST_SENDERS - 1):
        b._counters.take("k", str(number), 1)
    admitted(b, sent(learnt(seal(3), b)).headers)

    assert b.me.session == "f" * 32
    with pytest.raises(SignatureNeeded):
        admitted(b, first)


def test_keys_that_take_no_part_fill_only_a_small_store_and_end_no_session() -> None:
    sessions = iter([SESSION, "f" * 32])
    b = RequestVerifier(TestKey(2), None, lambda: next(sessions), {TestKey(1).text}.__contains__)
    known = sent(learnt(seal(mesh=None), b)).headers
    admitted(b, known)
    for number in range(MOST_STRANGERS + 10):
        stranger = learnt(seal(3, mesh=None, run=f"{number:016x}"), b)
        request = sent(stranger).headers
        admitted(b, request)
        with pytest.raises(SignatureRefused, match="answered before"):
            admitted(b, request)
    assert b.me.session == SESSION
    assert len(b._strangers._taken) < MOST_STRANGERS
    with pytest.raises(SignatureRefused, match="answered before"):
        admitted(b, known)


def test_what_a_key_sent_before_it_was_accepted_is_not_taken_again_afterwards() -> None:
    accepted: set[str] = set()
    b = RequestVerifier(TestKey(2), None, lambda: SESSION, accepted.__contains__)
    before = sent(learnt(seal(mesh=None), b)).headers
    admitted(b, before)
    accepted.add(TestKey(1).text)
    with pytest.raises(SignatureRefused, match="answered before"):
        admitted(b, before)


HEADERS = ("Signature-Input", "Signature", "Content-Digest", "Flnet-Receiver", "Content-Type")


@given(st.dictionaries(st.sampled_from(HEADERS), st.text(max_size=120)))
def test_any_headers_are_refused_and_break_nothing(headers: dict[str, str]) -> None:
    b = verifier()
    whole = {**sent(learnt(seal(), b)).headers}
    for sent_headers in (headers, whole | headers):
        try:
            admitted(b, sent_headers)
        except PeerError:
            continue
        assert headers.items() <= (whole | {"Content-Type": "application/json"}).items()


@given(st.data())
def test_no_changed_character_of_a_header_is_let_in(data: st.DataObject) -> None:
    b = verifier()
    headers = dict(sent(learnt(seal(), b)).headers)
    name = data.draw(st.sampled_from(sorted(headers)))
    at = data.draw(st.integers(0, len(headers[name]) - 1))
    character = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    changed = headers[name][:at] + character + headers[name][at + 1 :]
    if changed == headers[name]:
        return
    headers[name] = changed

    with pytest.raises(PeerError):
        admitted(b, headers)


# counters


def test_senders_and_their_runs_count_apart() -> None:
    counters = Counters()

    assert counters.take("k", "r", 1)
    assert counters.take("l", "r", 1)
    assert counters.take("k", "s", 1)


def test_many_senders_fill_it() -> None:
    counters = Counters()
    for number in range(MOST_SENDERS):
        assert not counters.full
        counters.take("k", str(number), 1)

    assert counters.full


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
def test_no_number_is_taken_twice_and_none_near_the_highest_is_lost(numbers: list[int]) -> None:
    counters, seen, highest = Counters(), set[int](), -1
    for number in numbers:
        taken = counters.take("k", "r", number)
        assert taken == (number not in seen and number > highest - WINDOW)
        seen |= {number} if taken else set()
        highest = max(highest, number)
