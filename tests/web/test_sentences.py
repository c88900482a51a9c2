from __future__ import annotations

from string import Formatter

from hypothesis import assume, given
from hypothesis import strategies as st

from flnet.names import MAX_NAME
from flnet.web.said import catalogue_of, texts_of
from flnet.web.sentences import KINDS, MAX_DEPTH, MAX_LENGTH, MAX_PARTS, NESTED, Catalogue, Sentence

SAMPLES = {
    "address": "[::1]:4001",
    "accuracy": "0.9512",
    "later": "0.9623",
    "seconds": "2.5",
    "field": "modelParams.0",
    "state": "odd",
    "code": "stale_round",
    "updates": "3 updates",
    "without": ", without Zq",
    "because": " (not taking part: Zq: odd)",
    "alone": " (this node averaged alone)",
    "busy": ", because this node is training Zq",
    "hint": "",
    "more": "",
    "cause": " (Zq)",
    "why": "",
}
TEXTS = texts_of("es")


def gaps(text: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(text) if name is not None]


def literals(text: str) -> list[str]:
    return [literal for literal, *_ in Formatter().parse(text) if literal]


def names() -> st.SearchStrategy[str]:
    """What may be an id of a node or of a trainer."""
    text = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1)
    return text.map(lambda name: name.strip()[:MAX_NAME].strip()).filter(lambda name: name.isprintable() and name)


def spanish() -> Catalogue:
    found = catalogue_of("es")
    assert found is not None
    return found


def test_a_sentence_has_the_same_gaps_in_both_languages() -> None:
    assert {text: set(gaps(said)) for text, said in TEXTS.items()} == {text: set(gaps(text)) for text in TEXTS}
    assert [text for text in TEXTS if len(set(gaps(text))) < len(gaps(text))] == []


def test_every_sentence_is_recognised_among_all_the_others() -> None:
    said = {text: recognised(text) for text in TEXTS if gaps(text)}
    assert {text: found for text, (found, expected) in said.items() if found != expected} == {}


def recognised(text: str) -> tuple[str | None, str]:
    """What a sentence with filled gaps is in Spanish, and what it should be."""
    filled = {name: SAMPLES.get(name, f"Zq{place}") for place, name in enumerate(gaps(text))}
    filled |= {name: "7" for name in filled if KINDS.get(name) == KINDS["number"]}
    inner = {name: spanish().say(held) or held for name, held in filled.items() if name in NESTED}
    return spanish().say(text.format(**filled)), TEXTS[text].format(**(filled | inner))


@given(st.data(), st.sampled_from(sorted(text for text in TEXTS if len(gaps(text)) > 0)))
def test_a_filled_in_sentence_gives_the_filled_in_translation_whatever_the_names(
    data: st.DataObject, text: str
) -> None:
    filled = {
        name: data.draw(st.integers(0, 10**9).map(str))
        if KINDS.get(name) == KINDS["number"]
        else SAMPLES.get(name) or ("" if name in KINDS else data.draw(names()))
        for name in gaps(text)
    }
    for held in filled.values():  # a name that holds the words of the sentence itself may be cut elsewhere
        assume(not any((held + one).find(one) < len(held) or (one + held).rfind(one) for one in literals(text)))
    alone = Catalogue({}, {text: TEXTS[text]})
    assert alone.say(text.format(**filled)) == TEXTS[text].format(**filled)


def test_the_kind_of_an_event_decides_where_two_sentences_fit() -> None:
    both = Catalogue({"a": {"{x} is {y}": "A {x} {y}"}, "b": {"{x} is {y} now": "B {x} {y}"}}, {})
    assert both.say("p is q now", "a") == "A p q now"
    assert both.say("p is q now", "b") == both.say("p is q now") == "B p q"
    assert both.say("p is q now", "a kind that nobody knows") == "B p q"


def test_the_parts_of_a_sentence_are_said_too() -> None:
    said = spanish().say
    because = "(not taking part: b: no data; c: training failed: boom; d: something new)"
    assert said(f"round 3 closed: averaged 2 updates: everyone expected has spoken {because}") == (
        "ronda 3 cerrada: promedio de 2 actualizaciones: han respondido todos los esperados "
        "(no participan: b: no hay datos; c: el entrenamiento falló: boom; d: something new)"
    )
    assert said(
        "averaging was forced by the timer with 1 update, without a, b and 3 more (this node averaged alone)"
    ) == ("el temporizador forzó el promedio con 1 actualización, sin a, b y 3 más (este nodo promedió solo)")


def test_a_part_is_not_taken_for_a_sentence_that_begins_with_a_gap() -> None:
    declined = "b: its update could not be fetched: lost"
    text = f"averaged 1 update: everyone expected has spoken (not taking part: {declined})"
    assert spanish().say(text) == (
        "promedio de 1 actualización: han respondido todos los esperados "
        "(no participan: b: no se pudo obtener su actualización: se perdió)"
    )


def test_names_are_no_words() -> None:
    said = spanish().say("averaging was forced by the timer with 1 update, without training")
    assert said == "el temporizador forzó el promedio con 1 actualización, sin training"


def test_a_sentence_of_several_is_said_when_all_of_them_are_known() -> None:
    two = Catalogue({}, {"a {x}": "A {x}", "b; c": "B C"})
    assert two.say("a 1; b; c; a 2") == "A 1; b; c; a 2"  # the one gap takes all that it can
    assert two.say("b; c; b; c") == "B C; B C"
    assert two.say("b; c; d") is None
    assert two.say("; ".join(["b; c"] * MAX_PARTS)) is None


def test_sentences_within_sentences_are_said_to_a_bounded_depth() -> None:
    one = Catalogue({}, {"p {reason}": "P {reason}"})
    assert one.say("p " * 3 + "x") == "P P P x"
    assert one.say("p " * 50 + "x") == "P " * MAX_DEPTH + "p " * (50 - MAX_DEPTH) + "x"


def test_what_is_no_sentence_or_too_long_is_not_said() -> None:
    assert spanish().say("") is None
    assert spanish().say("nobody has ever said this") is None
    assert spanish().say("node joined at " + "x" * MAX_LENGTH + ":1") is None


def test_braces_and_signs_of_patterns_stay_what_they_are() -> None:
    one = Catalogue({}, {"take {{{x}}}, (.*) [a]": "toma {{{x}}}, (.*) [a]"})
    assert one.say("take {{y}}, (.*) [a]") == "toma {{y}}, (.*) [a]"
    assert one.say("take {y}, anything [a]") is None


def test_at_most_one_gap_of_a_sentence_is_searched_from_the_end() -> None:
    written = {text: Sentence(text, said).expression for text, said in TEXTS.items()}
    free = {text: expression.count(".*") - expression.count("(?>") for text, expression in written.items()}
    assert {text: count for text, count in free.items() if count > 2} == {}


@given(st.sampled_from(sorted(TEXTS)), st.integers(1, 400))
def test_hostile_texts_come_to_an_end(text: str, times: int) -> None:
    hostile = ("x".join(literals(text)) * times)[:MAX_LENGTH]
    found = spanish().say(hostile)
    assert found is None or isinstance(found, str)
