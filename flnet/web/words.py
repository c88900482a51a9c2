"""The languages of the pages: every text of the templates in English, and what it is in the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any, Protocol

from flnet.postponing import postponed

with postponed("flnet.web.spanish"):  # until somebody reads it
    from flnet.web import spanish

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "es": "Español"}
CATALOGUES: Mapping[str, ModuleType] = {"es": spanish}


class Translate(Protocol):
    """Says an English text in one language."""

    def __call__(self, text: str, /, **values: Any) -> str:
        """The text, with `values` put into its {places}."""
        ...


def translate(language: str, text: str, /, **values: Any) -> str:
    """An English text in a language; as it is where it has no translation.

    Args:
        language: one of LANGUAGES.
        text: what the templates hold, with {names} where values go.
        values: put in as they are; the template escapes the whole.
    """
    texts: Mapping[str, str] = CATALOGUES[language].PAGES if language in CATALOGUES else {}
    found = texts.get(text, text)
    return found.format(**values) if values else found


def translator(language: str) -> Translate:
    """`translate` for one language."""
    return partial(translate, language)


english: Translate = translator(ENGLISH)
