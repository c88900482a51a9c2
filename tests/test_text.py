from __future__ import annotations

import copy
import json
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from flnet.errors import JobBusy
from flnet.text import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_PARAMS,
    Text,
    Words,
    code_of,
    coded,
    codes_of,
    composed,
    decoded,
    joined,
    restored,
    text,
    translated,
    with_codes,
)

SPANISH = {
    "{peer} left": "{peer} se fue",
    "{count} updates": "{count} actualizaciones",
    "round closed: {reason}": "ronda cerrada: {reason}",
}


class Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)
    words: Words = ""
    other: Words | None = None


def rebuilt(sentence: Text) -> Text:
    """As it is rebuilt from a pickle, such as in another process."""
    made, parts = sentence.__reduce__()
    assert made is Text and isinstance(parts, tuple)
    return Text(*parts)


@dataclass(frozen=True)
class Record:
    words: str
    number: int = 0


def spanish(sentence: str) -> str | None:
    assert isinstance(sentence, Text)
    return translated(sentence, SPANISH.get)


def test_a_text_is_its_english_words() -> None:
    sentence = text("{peer} left", "b")
    assert sentence == "b left" and hash(sentence) == hash("b left")
    assert json.dumps({"text": sentence}) == '{"text": "b left"}'
    assert text("{braces} and {{more}}", "{x}") == "{x} and {more}"


def test_every_gap_needs_a_value() -> None:
    for values in [(), ("b", "c")]:
        with pytest.raises(ValueError, match="zip"):
            text("{peer} left", *values)


def test_an_error_is_put_in_with_its_text() -> None:
    failed = text("round closed: {reason}", ValueError(text("{count} updates", 3)))
    assert spanish(failed) == "ronda cerrada: 3 actualizaciones"
    assert text("{a} {b}", None, True) == "None True"


def test_a_text_is_translated_by_its_template() -> None:
    assert spanish(text("{peer} left", "the {peer} left")) == "the {peer} left se fue"
    assert spanish(text("{peer} came", "b")) is None


def test_texts_within_a_text_are_translated_and_other_parameters_are_not() -> None:
    closed = text("round closed: {reason}", text("{count} updates", 3))
    assert closed == "round closed: 3 updates" and spanish(closed) == "ronda cerrada: 3 actualizaciones"
    assert spanish(text("round closed: {reason}", "3 updates")) == "ronda cerrada: 3 updates"
    assert spanish(text("round closed: {reason}", text("nobody knows"))) == "ronda cerrada: nobody knows"


def test_what_is_cut_is_plain_english() -> None:
    assert type(text("{peer} left", "b")[:3]) is str and text("{peer} left", "b")[:3] == "b l"


def test_parts_are_joined_and_translated_one_by_one() -> None:
    parts = joined([text("{peer} left", "b"), "new", text("{count} updates", 2)])
    assert parts == "b left; new; 2 updates" and spanish(parts) == "b se fue; new; 2 actualizaciones"
    assert joined(["a", "b"]) == "a; b" and spanish(joined(["a", "b"])) is None
    assert joined([]) == ""


def test_texts_are_translated_to_a_bounded_depth() -> None:
    sentence = text("{peer} left", "b")
    for _ in range(MAX_DEPTH):
        sentence = text("round closed: {reason}", sentence)
    assert spanish(sentence) == "ronda cerrada: " * MAX_DEPTH + "b left"


def test_a_text_stays_one_in_records_models_pickles_and_errors() -> None:
    sentence = text("{peer} left", "b")
    model = Model(words=sentence, other=sentence)
    copies = (
        replace(Record(sentence), number=1).words,
        *(model.words, model.other, model.model_copy(update={"other": None}).words),
        *(Model.model_validate({"words": sentence}).words, Model(words="", other=sentence).other),
        *(copy.deepcopy(sentence), copy.copy(sentence), rebuilt(sentence)),
        *(sentence[:500], sentence[:], str(sentence), JobBusy(sentence).message, str(JobBusy(sentence))),
    )
    assert [spanish(each) for each in copies if each is not None] == ["b se fue"] * len(copies)
    assert model.model_dump(mode="json") == {"words": "b left", "other": "b left"}
    assert Model.model_validate_json('{"words": "b left"}').words == "b left"
    assert Model.model_json_schema()["properties"]["words"] == {"default": "", "title": "Words", "type": "string"}


def test_what_stands_on_the_disk_or_comes_from_a_peer_is_the_same_text_again() -> None:
    reason = joined([text("{count} updates", 3), text("{peer} left", "b")])
    closed = text("round closed: {reason}", reason)
    code = json.loads(json.dumps(code_of(closed)))
    again = restored(str(closed), code)
    assert again == closed and spanish(again) == "ronda cerrada: 3 actualizaciones; b se fue"
    assert code_of("b left") is None


def test_all_texts_within_json_data_are_kept() -> None:
    left, closed = text("{peer} left", "b"), text("round closed: {reason}", text("nobody knows"))
    data = {"words": left, "n": 3, "none": None, "rounds": [{"outcome": "open"}, {"outcome": closed, "a": {}}]}
    again = decoded(json.loads(json.dumps(coded(data))))
    assert again == data
    assert (
        spanish(again["words"]) == "b se fue"
        and spanish(again["rounds"][1]["outcome"]) == "ronda cerrada: nobody knows"
    )
    assert type(again["rounds"][0]["outcome"]) is str
    plain = {"a": ["b", 1]}
    assert codes_of(plain) is None and coded(plain) is plain and decoded(plain) == plain
    assert with_codes(data, None) == with_codes(data, {"words": 3}) == data


@pytest.mark.parametrize(
    "code",
    [
        None,
        7,
        {},
        {"id": 3},
        {"id": "{peer} left"},
        {"id": "{peer} left", "params": {"peer": "c"}},  # other words
        {"id": "{peer} left", "params": {"peer": "b", "more": "x"}},
        {"id": "{peer} left", "params": {"peer": ["b"]}},
        {"id": "{peer} left", "params": []},
        {"id": "{peer!s} left", "params": {"peer": "b"}},
        {"id": "{peer:1} left", "params": {"peer": "b"}},
        {"id": "{peer.real} left", "params": {"peer.real": "b"}},
        {"id": "{peer left", "params": {"peer": "b"}},
        {"id": "{0} left", "params": {"0": "b"}},
        {"id": "{peer}{empty} left", "params": {"peer": "b", "empty": True}},
        {"id": "{peer:99999999999}", "params": {"peer": "b left"}},
    ],
)
def test_a_code_that_does_not_say_the_words_is_ignored(code: object) -> None:
    assert type(restored("b left", code)) is str


def test_a_code_is_read_to_a_bounded_size_and_depth() -> None:
    code: dict[str, object] = {"id": "b left"}
    for _ in range(MAX_DEPTH):
        code = {"id": "{part}", "params": {"part": code}}
    assert type(restored("b left", code)) is str
    params = {f"p{number}": "x" for number in range(MAX_PARAMS + 1)}
    many = {"id": "".join(f"{{{name}}}" for name in params), "params": params}
    assert type(restored("x" * (MAX_PARAMS + 1), many)) is str
    long = "x" * (MAX_LENGTH + 1)
    assert type(restored(long, {"id": long})) is str
    assert type(restored("1", {"id": "{n}", "params": {"n": 10**5000}})) is str


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "params", "a"]) | st.text(), inner),
)


@given(st.text(), JSON)
def test_any_code_leaves_the_words_as_they_are(words: str, code: object) -> None:
    assert restored(words, code) == words


@given(st.text(), st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), st.text() | st.integers(-9, 9)))
def test_every_text_can_be_restored(literal: str, params: dict[str, str | int]) -> None:
    template = literal.replace("{", "{{").replace("}", "}}") + "".join(f"{{{name}}}" for name in params)
    sentence = text(template, *params.values())
    again = restored(str(sentence), json.loads(json.dumps(code_of(sentence))))
    assert again == sentence and (len(params) > MAX_PARAMS or code_of(again) == code_of(sentence))


# --- text of data


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_text_of_data_is_composed(form: Literal["NFC", "NFD"]) -> None:
    words = "größe, señal, tiếng Việt, é" * 100
    assert composed(unicodedata.normalize(form, words)) == unicodedata.normalize("NFC", words)


@pytest.mark.parametrize("marks", ["\u0301", "\u0f73", "\u0301\u0323"])
def test_a_run_of_accents_without_end_is_refused_and_not_sorted(marks: str) -> None:
    """Sorting 240 kB of them takes ten seconds, in which nothing else in the process runs."""
    with pytest.raises(ValueError, match="more than 30 accents on one sign"):
        composed("a" + marks * 1_000_000)
    assert len(composed("a" + marks * 20)) > 1
