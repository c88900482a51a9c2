"""A short run of the byte fuzzer, and the fuzzer itself: it must be able to find something."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.node import interface
from flnet.protocol import messages
from tests.fuzz import bodies, codecs
from tests.fuzz.codecs import fuzz


def test_any_bytes_give_a_packet_or_a_refusal(tmp_path: Path) -> None:
    told = fuzz(30_000, 7, tmp_path)
    assert all(told[f"{name} {end}"] > 50 for name in codecs.READERS for end in ("read", "refused"))


def test_every_field_of_every_message_is_in_a_body_that_is_fuzzed() -> None:
    fuzzed = b"".join(body for body, _, _ in codecs.seeds())
    kinds = bodies.kinds()
    assert {messages.Announce, messages.ModelParams, messages.VersionReply, interface.EditHyperParams} <= {*kinds}
    names = [field.alias or name for kind in kinds for name, field in kind.model_fields.items()]
    assert [name for name in names if f'"{name}": '.encode() not in fuzzed] == []
    for kind in kinds:
        assert any(codecs.outcome(codecs.reader("json", kind), body) == "read" for body in bodies.bodies(kind)), (
            kind
        )


def test_an_input_that_breaks_a_reader_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(data: bytes) -> object:
        return data[200_000 // len(data)]

    monkeypatch.setattr(codecs, "unpacked", careless)
    with pytest.raises(AssertionError, match="IndexError"):
        fuzz(5_000, 1, tmp_path)
    (kept,) = tmp_path.iterdir()
    with pytest.raises((IndexError, ZeroDivisionError)):
        careless(kept.read_bytes())
