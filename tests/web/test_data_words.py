from __future__ import annotations

from typing import Any

import pytest

from flnet.web.job_view import job_view
from flnet.web.words import translator


def test_rows_of_each_class_and_the_checksum_of_the_own_data_are_shown() -> None:
    own = {
        "data": {"classes": ["NORMAL", "<i>ILL</i>"]},
        "counts": {"train": [1200, 3], "test": [4]},
        "checksum": "0123456789abcdef",
    }
    job = job_view("NODE_1", own)
    assert job.data_classes == (("train", "NORMAL: 1,200, <i>ILL</i>: 3"), ("test", "NORMAL: 4"))
    assert job.checksum.startswith("0123456789")
    many = job_view(
        "NODE_1", {"data": {"classes": [str(n) for n in range(20)]}, "counts": {"train": list(range(20))}}
    )
    assert many.data_classes[0][1].endswith("11: 11 and 8 more classes")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"source": "a file", "rows": 1437, "classes": 10}, "a file; 1,437 rows; 10 classes"),
        ({"source": "a file", "rows": None, "classes": None}, "a file"),
        ({"rows": {"train": True, "test": -1}, "classes": "ten"}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_data_is_described_as_far_as_it_is_told(data: Any, words: str) -> None:
    assert job_view("x", {"data": data}).data == words


def test_data_is_described_in_the_readers_language() -> None:
    data = {"source": "digits", "rows": {"train": 1259, "test": 360, "other": 1}, "classes": 10}
    job = job_view("x", {"data": data}, translator("es"))
    assert job.data == "digits; 1,259 entrenamiento, 360 prueba, 1 other filas; 10 clases"
