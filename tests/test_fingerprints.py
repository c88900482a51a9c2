"""Keys as text, and what people compare of them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.fingerprints import (
    ALPHABET,
    BITS,
    WORDS,
    check_key,
    fingerprint,
    key_text,
    read_fingerprint,
    short,
    spoken,
    words,
    words_of,
)

KEYS = st.binary(min_size=32, max_size=32).map(key_text)
ZEROS = key_text(bytes(32))


@given(KEYS)
def test_a_key_in_its_one_form_is_taken(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    "text", ["", "A", ZEROS[:-1], ZEROS + "=", f" {ZEROS}", "*" * 44, key_text(bytes(31)), ZEROS[:-2] + "B="]
)
def test_nothing_else_is_a_key(text: str) -> None:
    with pytest.raises(ValueError, match="base64 of a public key of 32 bytes"):
        check_key(text)


@given(st.text(max_size=60))
def test_any_text_is_a_key_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert len(base64.b64decode(check_key(text))) == 32


def test_a_fingerprint_is_the_digest_of_the_raw_key() -> None:
    groups = fingerprint(ZEROS).split("-")
    assert [len(group) for group in groups] == [5] * 13
    digits = base64.b32encode(hashlib.sha256(bytes(32)).digest()).decode()
    assert "".join(group[:4] for group in groups) == digits.rstrip("=")
    assert short(ZEROS) == "-".join(groups[:2])
    assert (short(None), short("")) == ("", "")
    # 0x66687aad f...: M Z U H; 1 -> 2^12 -> 28^25 -> 10^20 -> 25^7 -> 25, by hand: Z.
    assert groups[0] == "MZUHZ"


def test_the_words_are_six_and_belong_to_the_digest() -> None:
    assert len(words(ZEROS).split("-")) == 6
    assert words(ZEROS) != words(key_text(b"\x01" * 32))


@given(KEYS, st.sampled_from(["lower", "spaces", "plain", "looks"]))
def test_what_people_type_is_understood(key: str, way: str) -> None:
    whole = fingerprint(key)
    typed = {
        "lower": whole.lower(),
        "spaces": f"  {whole.replace('-', ' ')} ",
        "plain": whole.replace("-", ""),
        "looks": whole.replace("O", "0").replace("I", "1").replace("B", "8"),
    }[way]
    assert read_fingerprint(typed) == whole


@given(KEYS, st.integers(0, 64), st.sampled_from(ALPHABET))
def test_any_one_wrong_character_is_found_with_its_group(key: str, place: int, letter: str) -> None:
    plain = fingerprint(key).replace("-", "")
    wrong = plain[:place] + letter + plain[place + 1 :]
    if wrong == plain:
        assert read_fingerprint(wrong) == fingerprint(key)
        return
    with pytest.raises(ValueError, match=rf"^group {place // 5 + 1} \("):
        read_fingerprint(wrong)


@given(KEYS, st.integers(0, 12), st.integers(0, 3))
def test_two_neighbours_in_each_others_place_are_found(key: str, group: int, at: int) -> None:
    groups = fingerprint(key).split("-")
    letters = list(groups[group])
    letters[at], letters[at + 1] = letters[at + 1], letters[at]
    if "".join(letters) != groups[group]:
        groups[group] = "".join(letters)
        with pytest.raises(ValueError, match="typing error"):
            read_fingerprint("-".join(groups))


@given(KEYS, st.integers(0, 12), st.integers(0, 12))
def test_groups_in_each_others_place_are_found(key: str, one: int, other: int) -> None:
    groups = fingerprint(key).split("-")
    if one != other:
        groups[one], groups[other] = groups[other], groups[one]
        with pytest.raises(ValueError, match="typing error"):
            read_fingerprint("-".join(groups))


@pytest.mark.parametrize("text", ["", "ABCDE", "?" * 65, "A" * 64])
def test_another_length_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="13 groups of 5"):
        read_fingerprint(text)


@given(KEYS)
def test_a_fingerprint_says_the_same_words_as_its_key(key: str) -> None:
    assert words_of(fingerprint(key)) == words(key)


# Words that are read aloud.


def test_each_word_stands_for_its_bits_and_four_letters_tell_it_from_the_others() -> None:
    assert len(WORDS) == 2**BITS
    assert len({word[:4] for word in WORDS}) == len(WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() and 4 <= len(word) <= 8 for word in WORDS)
    assert all(each < other for each, other in itertools.pairwise(WORDS))


def test_bits_are_taken_from_the_front() -> None:
    assert spoken(bytes(8), 2) == f"{WORDS[0]}-{WORDS[0]}"
    assert spoken(b"\xff\xc0\x10\x00", 3) == f"{WORDS[1023]}-{WORDS[1]}-{WORDS[0]}"


@given(st.binary(min_size=8, max_size=8))
def test_the_words_give_the_bits_back(raw: bytes) -> None:
    number = 0
    for word in spoken(raw, 6).split("-"):
        number = number << BITS | WORDS.index(word)
    assert number == int.from_bytes(raw) >> 4
