from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError
from flnet.signing import Gate
from flnet.signing.counters import MOST_SENDERS
from flnet.signing.refusals import SignatureNeeded, SignatureRefused
from tests.signing.keypairs import MESH, OTHER_MESH, SESSION, TestKey, admitted, gate, learnt, seal, sent

BODY = b'{"iAm": {"id": "a"}}'


def test_what_a_node_of_the_mesh_signed_is_let_in_and_its_key_is_told() -> None:
    b = gate()

    caller = admitted(b, sent(learnt(seal(), b), BODY).headers)

    assert caller.key == TestKey(1).text
    caller.sent(sha256(BODY).digest())


def test_who_did_not_sign_is_told_for_whom_to_sign() -> None:
    with pytest.raises(SignatureNeeded):
        admitted(gate(), {})


def test_another_content_than_the_signed_one_is_refused() -> None:
    b = gate()
    caller = admitted(b, sent(learnt(seal(), b), BODY).headers)

    with pytest.raises(SignatureRefused, match="changed on the way"):
        caller.sent(sha256(BODY + b" ").digest())


def test_another_mesh_key_is_refused_in_words() -> None:
    b = gate(mesh=OTHER_MESH)

    with pytest.raises(SignatureRefused, match="FLNET_MESH_KEY"):
        admitted(b, sent(learnt(seal(), b)).headers)


def test_without_the_mesh_key_a_signature_of_ones_own_is_not_enough() -> None:
    b = gate()

    with pytest.raises(SignatureRefused, match="mesh and node"):
        admitted(b, sent(learnt(seal(mesh=None), b)).headers)


def test_nobody_signs_in_the_name_of_another_key() -> None:
    b = gate()
    headers = dict(sent(learnt(seal(3), b)).headers)
    headers["Signature-Input"] = headers["Signature-Input"].replace(TestKey(3).text, TestKey(1).text)

    with pytest.raises(SignatureRefused):
        admitted(b, headers)


def test_who_knows_the_mesh_key_cannot_sign_with_another_nodes_key() -> None:
    class Liar(TestKey):
        text = TestKey(1).text

    b, liar = gate(), seal(3)
    liar._node = Liar(3)

    with pytest.raises(SignatureRefused, match="key that it names"):
        admitted(b, sent(learnt(liar, b)).headers)


def test_a_request_is_answered_once() -> None:
    b = gate()
    headers = sent(learnt(seal(), b)).headers
    admitted(b, headers)

    with pytest.raises(SignatureRefused, match="second time"):
        admitted(b, headers)


def test_requests_that_overtake_each_other_are_all_let_in() -> None:
    b = gate()
    a = learnt(seal(), b)

    for one in reversed([sent(a).headers for _ in range(16)]):
        admitted(b, one)


def test_a_request_for_another_path_query_or_method_is_refused() -> None:
    b = gate()
    a = learnt(seal(), b)

    for changed in ({"path": "/probe"}, {"query": "x=1"}, {"method": "PUT"}):
        with pytest.raises(SignatureRefused):
            admitted(b, sent(a).headers, **changed)


def test_a_request_with_another_content_type_is_refused() -> None:
    b = gate()

    with pytest.raises(SignatureRefused):
        admitted(b, {**sent(learnt(seal(), b)).headers, "Content-Type": "application/vnd.flnet.safetensors"})


def test_a_request_for_another_node_or_an_earlier_start_is_refused() -> None:
    b = gate()
    headers = sent(learnt(seal(), b)).headers

    for other in (gate(3), gate(session="f" * 32)):
        with pytest.raises(SignatureNeeded, match="another node"):
            admitted(other, headers)


def test_the_receiver_is_what_was_signed() -> None:
    b, c = gate(), gate(3)
    headers = dict(sent(learnt(seal(), b)).headers)
    headers["Flnet-Receiver"] = str(c.me)

    with pytest.raises(SignatureRefused):
        admitted(c, headers)


def test_a_session_ends_when_it_has_seen_too_many_senders_and_no_request_of_it_is_taken_again() -> None:
    sessions = iter([SESSION, "f" * 32])
    b = Gate(TestKey(2), MESH, lambda: next(sessions))
    first = sent(learnt(seal(), b)).headers
    admitted(b, first)
    for number in range(MOST_SENDERS - 1):
        b._counters.take("k", str(number), 1)
    admitted(b, sent(learnt(seal(3), b)).headers)

    assert b.me.session == "f" * 32
    with pytest.raises(SignatureNeeded):
        admitted(b, first)


HEADERS = ("Signature-Input", "Signature", "Content-Digest", "Flnet-Receiver", "Content-Type")


@given(st.dictionaries(st.sampled_from(HEADERS), st.text(max_size=120)))
def test_any_headers_are_refused_and_break_nothing(headers: dict[str, str]) -> None:
    b = gate()
    whole = {**sent(learnt(seal(), b)).headers}
    for sent_headers in (headers, whole | headers):
        try:
            admitted(b, sent_headers)
        except PeerError:
            continue
        assert headers.items() <= (whole | {"Content-Type": "application/json"}).items()


@given(st.data())
def test_no_changed_character_of_a_header_is_let_in(data: st.DataObject) -> None:
    b = gate()
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
