"""Words that are read aloud."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from flnet.spoken import BITS, WORDS, spoken


def test_each_word_stands_for_its_bits_and_four_letters_tell_it_from_the_others() -> None:
    assert len(WORDS) == 2**BITS
    assert len({word[:4] for word in WORDS}) == len(WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() and 4 <= len(word) <= 8 for word in WORDS)
    assert all(one < other for one, other in itertools.pairwise(WORDS))


def test_bits_are_taken_from_the_front() -> None:
    assert spoken(bytes(8), 2) == f"{WORDS[0]}-{WORDS[0]}"
    assert spoken(b"\xff\xc0\x10\x00", 3) == f"{WORDS[1023]}-{WORDS[1]}-{WORDS[0]}"


@given(st.binary(min_size=8, max_size=8))
def test_the_words_give_the_bits_back(raw: bytes) -> None:
    number = 0
    for word in spoken(raw, 6).split("-"):
        number = number << BITS | WORDS.index(word)
    assert number == int.from_bytes(raw) >> 4
