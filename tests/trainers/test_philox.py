"""The generator gives the numbers that its authors and TensorFlow print."""

from __future__ import annotations

import numpy as np
import pytest

from trainers._philox import philox, uniform

ONES = 0xFFFFFFFF
EXPECTED = [
    [-0.438146710395813, 0.3316690921783447, 0.4735771417617798],
    [-0.1552492380142212, 0.01040661334991455, -0.14287757873535156],
]


@pytest.mark.parametrize(
    ("word", "mixed"),
    [
        (0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),  # of the authors' own tests
        (ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_words_are_mixed_as_the_authors_print_them(word: int, mixed: str) -> None:
    counters = np.full((2, 4), word, np.uint64)
    found = philox(counters, (word, word)).tolist()
    assert [" ".join(f"{one:08x}" for one in row) for row in found] == [mixed] * 2


def test_numbers_are_those_of_tensorflow() -> None:
    # tf.random.stateless_uniform((2, 3), seed=[5, 0], minval=-0.5, maxval=0.5) of TensorFlow 2.21
    assert uniform(5, (2, 3), 0.5).tolist() == EXPECTED
    assert uniform(5, (6,), 0.5).tolist() == EXPECTED[0] + EXPECTED[1]
    assert uniform(6, (6,), 0.5).tolist() != EXPECTED[0] + EXPECTED[1]


def test_numbers_fill_the_range_evenly() -> None:
    found = uniform(1, (500, 100), 0.1)
    assert found.dtype == np.float32
    assert -0.1 <= found.min() < -0.0999
    assert 0.0999 < found.max() <= 0.1
    assert abs(found.mean()) < 0.001
    counts = np.histogram(found, bins=10, range=(-0.1, 0.1))[0]
    assert np.abs(counts - 5000).max() < 4 * 67  # the standard deviation of a tenth of 50,000
