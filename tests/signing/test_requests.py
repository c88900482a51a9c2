from hypothesis import given
from hypothesis import strategies as st

from flnet.signing.fields import Component
from flnet.signing.requests import Asked, Receiver, Said, read_challenge, read_receiver
from tests.signing.keypairs import SESSION, TestKey

RECEIVER = Receiver(TestKey(2).text, SESSION)


def test_a_receiver_and_its_challenge_are_read_back() -> None:
    assert read_receiver(str(RECEIVER)) == RECEIVER
    assert read_challenge(RECEIVER.challenge) == RECEIVER


@given(st.text(max_size=100))
def test_any_other_text_names_nobody(text: str) -> None:
    assert read_receiver(text) is None
    assert read_challenge(text) is None


def test_a_key_that_stands_for_itself_in_two_forms_is_none() -> None:
    twin = "B" * 42 + "B="  # the last bits do not belong to the key

    assert read_receiver(f"{twin} {SESSION}") is None


def test_requests_with_and_without_a_body_cover_what_they_have() -> None:
    get = Asked("GET", "/info", "?", "d", "r")
    post = Asked("POST", "/info", "?", "d", "r", "application/json")

    assert [str(c) for c in get.values()] == [
        '"@method"',
        '"@path"',
        '"@query"',
        '"content-digest"',
        '"flnet-receiver"',
    ]
    assert set(post.values()) - set(get.values()) == {Component("content-type")}


def test_an_answer_covers_the_signature_of_its_request() -> None:
    said = Said(200, b"\1\2", "application/json", "d").values()

    assert said[Component("signature", (("req", True), ("key", "node")))] == ":AQI=:"
    assert [str(c) for c in said] == [
        '"@status"',
        '"signature";req;key="node"',
        '"content-type"',
        '"content-digest"',
    ]
