"""What the node says is said in the same Spanish as before.

`spanish.json.gz` holds the tables of 1a28d2c: Spanish by English, for events (by kind), for all else that is said there,
and for pages. Its `examples` are sentences with something in every gap, `simulated` are events of simulated meshes.
`spanish-texts.json.gz` names the text (message id and parameters) that the code makes each example of.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from tests.test_layout import ROOT
from tests.web.test_translation import extracted, has_letters

from . import golden, internals

NAME, TEXTS = "spanish.json.gz", "spanish-texts.json.gz"
SEEDS = (("common", range(8)), ("asynchronous", range(3)))  # of `simulated`
IMPROVED = {
    "se fusionó nothing, but took the first model of (.*?), with which all begin": (
        r"se fusionó nada, pero se tomó el primer modelo de \1, con el que todos empiezan"
    ),
    "se fusionó nothing, for nobody had a newer model": "se fusionó nada, pues nadie tenía un modelo más nuevo",
    r", trained, now v(\d+)": r", se entrenó, ahora v\1",
    r"; accuracy here (\S+)$": r"; exactitud aquí \1",
    r"\(idle\)": "(inactivo)",
    r"\(gathering\)": "(espera de actualizaciones)",
    r"\(fetching\)": "(obtención del inicio)",  # were left in English within a Spanish sentence
    r"(\d+) of (\d+) nodes were chosen": r"se eligieron \1 de \2 nodos",
}
OF_PEERS = {
    r"(n\d\d: |no participa: )su modelo es de la ronda (\S+), la malla está en la ronda (\d+)": (
        r"\1its model is of round \2, the mesh is in round \3"
    ),
    r"(n\d\d: |no participa: )no se pudo obtener de (\w+) el modelo del que parte la ronda (\d+): se perdió": (
        r"\1the model that round \3 starts from could not be fetched from \2: lost"
    ),
    r"(n\d\d: |no participa: )el entrenamiento falló: the weather": r"\1training failed: the weather",
}
"""Reasons with parameters that another node stated: its message brings the English words alone."""


@cache
def sources() -> frozenset[str]:
    """All message ids that the code and the templates ask for."""
    return frozenset(text for *_, text in extracted(ROOT))


def tables(part: str) -> dict[str, str]:
    """Spanish by English, as it was, of the texts that there still are."""
    recorded: dict[str, Any] = golden.load(NAME)[part]
    if part == "events":
        recorded = {english: spanish for of in recorded.values() for english, spanish in of.items()}
    return {
        english: spanish for english, spanish in recorded.items() if english in sources() and has_letters(english)
    }


@pytest.mark.parametrize(("part", "count"), [("events", 85), ("sentences", 814), ("pages", 440)])
def test_every_text_has_its_spanish(part: str, count: int) -> None:
    recorded = tables(part)
    assert len(recorded) >= count
    golden.must_equal(recorded, {english: internals.translation(english) for english in recorded}, part)


def templates(code: Mapping[str, Any]) -> Iterator[str]:
    """The message ids of a text and of the texts in it."""
    yield code["id"]
    for value in code["params"].values():
        yield from templates(value) if isinstance(value, dict) else ()


def test_what_is_said_with_names_and_numbers() -> None:
    recorded = {english: spanish for _, english, spanish in golden.load(NAME)["examples"]}
    recorded |= {f"PEER: {english}": f"PEER: {spanish}" for english, spanish in recorded.items()}
    texts = golden.load(TEXTS)
    now = {english: internals.in_spanish(internals.read_text(english, code)) for english, code in texts.items()}
    golden.must_equal({english: recorded[english] for english in texts}, now, "examples")
    used = {template for code in texts.values() for template in templates(code) if has_letters(template)}
    assert used <= sources()


@pytest.mark.slow
def test_what_simulated_meshes_say() -> None:
    told: defaultdict[str, set[str]] = defaultdict(set)

    def hear(kind: str, english: str, spanish: str) -> None:
        told[f"{kind}: {english}"].add(spanish)

    for rounds, seeds in SEEDS:
        for seed in seeds:
            internals.simulated(seed, rounds == "asynchronous", hear)
    recorded = {f"{kind}: {english}": spanish for kind, english, spanish in golden.load(NAME)["simulated"]}
    had_none = {text for text, spanish in recorded.items() if spanish.startswith("[en] ")}  # may have one now
    expected = {text: replaced(spanish, IMPROVED) for text, spanish in recorded.items() if text not in had_none}
    now: dict[str, str | None] = {}
    for text, spanish in expected.items():
        others = told[text] - {spanish, replaced(spanish, OF_PEERS)}
        now[text] = min(others, default=spanish) if told[text] else None
    golden.must_equal(expected, now, "simulated")


def replaced(spanish: str, changes: Mapping[str, str]) -> str:
    """A recorded sentence with what has changed since."""
    for pattern, now in changes.items():
        spanish = re.sub(pattern, now, spanish)
    return spanish
