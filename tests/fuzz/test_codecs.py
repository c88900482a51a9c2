"""A short run of the byte fuzzer, and the fuzzer itself: it must be able to find something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import codecs
from tests.fuzz.codecs import fuzz


def test_any_bytes_give_a_packet_or_a_refusal(tmp_path: Path) -> None:
    told = fuzz(30_000, 7, tmp_path)
    assert all(told[f"{name} {end}"] > 50 for name in codecs.READERS for end in ("read", "refused"))


def test_an_input_that_breaks_a_reader_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(data: bytes) -> object:
        return data[200_000 // len(data)]

    monkeypatch.setattr(codecs, "unpacked", careless)
    with pytest.raises(AssertionError, match="IndexError"):
        fuzz(5_000, 1, tmp_path)
    (kept,) = tmp_path.iterdir()
    with pytest.raises((IndexError, ZeroDivisionError)):
        careless(kept.read_bytes())
